"""A job to be prepared."""

from __future__ import annotations

from pathlib import Path

import pytest
from prepare_job import Job, pairs, write


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """60 pairs, of which the first 3 are valid as well."""
    return Job.of(
        tmp_path / "out" / "data",
        train=(write(tmp_path, "train", pairs(60)),),
        valid=write(tmp_path, "valid", pairs(3)),
        vocab_size=330,
    )
