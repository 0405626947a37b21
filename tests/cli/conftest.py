"""A storage at URLs."""

from pathlib import Path

import pytest
from storage import Storage


@pytest.fixture
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Storage:
    """A storage at URLs, beside which this machine keeps its copies in `cache`."""
    pytest.importorskip("fsspec", reason="needs the extra remote")
    cache = tmp_path / "cache"
    cache.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setattr("tempfile.tempdir", str(cache))
    return Storage(cache)
