"""What imports the folders of other toolkits."""

from pathlib import Path

import pytest
from command_line import Nmt
from foreign_folders import Importer


@pytest.fixture
def importer(nmt: Nmt, tmp_path: Path) -> Importer:
    return Importer(nmt, tmp_path)
