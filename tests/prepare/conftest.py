"""A job to be prepared."""

from pathlib import Path

import pytest
from prepare_job import Job, pairs, write


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """60 pairs, of which the first 3 are valid as well."""
    train, valid = write(tmp_path, "train", pairs(60)), write(tmp_path, "valid", pairs(3))
    return Job.of(tmp_path / "out" / "data", train=(train,), valid=valid, vocab_size=330)
