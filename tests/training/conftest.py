"""The data folder that the tests of training share, and a run that has learnt it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from toy_training import prepare_toy, python_command, run_command, train

from nmt.model_config import Value


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small data folder; nobody changes it."""
    return prepare_toy(tmp_path_factory.mktemp("toy"))


@pytest.fixture(scope="session")
def learnt(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run long enough to learn; nobody changes it."""
    return train(
        data,
        tmp_path_factory.mktemp("learnt") / "run",
        d_model=64,
        d_ff=128,
        max_updates=250,
        warmup_updates=50,
        log_every=50,
        validate_every=50,
        save_every=50,
        validate_bleu=True,
        keep_best=3,
        keep_last=3,
    )


@pytest.fixture(scope="session")
def two_ranks(data: Path, learnt: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """What two processes found, in order of rank (see `two_ranks.py`)."""
    out = tmp_path_factory.mktemp("two_ranks") / "found"
    program = Path(__file__).with_name("two_ranks.py")
    done = run_command(python_command(program, data, learnt / "best.safetensors", out, ranks=2))
    assert done.returncode == 0, done.stderr
    return [json.loads(Path(f"{out}.{rank}").read_text()) for rank in range(2)]


@pytest.fixture(scope="session")
def undisturbed(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return the run of some values that was never stopped."""
    made: dict[tuple[tuple[str, Value], ...], Path] = {}

    def find(**values: Value) -> Path:
        key = tuple(sorted(values.items()))
        if key not in made:
            made[key] = train(data, tmp_path_factory.mktemp("undisturbed") / "run", **values)
        return made[key]

    return find


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(place)]
    try:
        mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("cannot mount a small file system here: not root, or not allowed to")
    yield place
    subprocess.run(["umount", str(place)], check=True)
