"""A job to be prepared, in blocks small enough that there are many."""

from __future__ import annotations

from pathlib import Path

import pytest
from prepare_job import Job, pairs, write

from nmt.prepare.readers import reader


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """60 pairs, of which the first 3 are valid as well."""
    return Job.of(
        tmp_path / "out" / "data",
        train=(write(tmp_path, "train", pairs(60)),),
        valid=write(tmp_path, "valid", pairs(3)),
        vocab_size=330,
    )


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 5 lines."""
    monkeypatch.setattr(reader, "BLOCK_LINES", 5)
