"""`prepare` under kill -9, at any instant, and on a disk that fills up."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

# The stage with small shards, which the command line has no option for.
SCRIPT = """
import sys
from pathlib import Path

from nmt.prepare.cleaning import Cleaning
from nmt.prepare.options import PrepareOptions
from nmt.prepare.prepare import prepare
from nmt.errors import NMTError

if __name__ == "__main__":
    text, out = sys.argv[1:]
    options = PrepareOptions(
        src_lang="en",
        tgt_lang="de",
        train=(f"{text}/a", f"{text}/b"),
        valid=f"{text}/v",
        vocab_size=400,
        sample_size=2000,
        shard_pairs=4000,
        workers=2,
    )
    try:
        prepare(Path(out), options, Cleaning())
    except NMTError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_status)
"""


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two texts of 30,000 pairs that have a third in common, and a script that prepares them."""
    folder = tmp_path_factory.mktemp("text")
    draw = random.Random(3)
    words = ["".join(draw.choices("abcdefghijklmnop", k=draw.randint(2, 8))) for _ in range(500)]
    lines = [" ".join(draw.choices(words, k=draw.randint(1, 20))) for _ in range(50_000)]
    for name, part in (("a", lines[:30_000]), ("b", lines[20_000:]), ("v", lines[:9])):
        (folder / f"{name}.en").write_text("".join(f"{line}\n" for line in part))
        (folder / f"{name}.de").write_text("".join(f"{line[::-1]}\n" for line in part))
    (folder / "script.py").write_text(SCRIPT)
    return folder


def start(text: Path, out: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, text / "script.py", text, out], stderr=subprocess.PIPE, text=True
    )


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.fixture(scope="module")
def whole(text: Path) -> dict[str, bytes]:
    with start(text, text / "whole") as process:
        _, said = process.communicate()
    assert process.returncode == 0, said
    return content(text / "whole")


@pytest.mark.parametrize("seed", [1, 2])
def test_a_run_killed_again_and_again_ends_in_the_same_bytes(
    text: Path, whole: dict[str, bytes], tmp_path: Path, seed: int
) -> None:
    draw, out = random.Random(seed), tmp_path / "data"
    for _ in range(5):
        with start(text, out) as process:
            try:
                process.communicate(timeout=draw.uniform(0.3, 3.0))
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
        assert {path.name for path in tmp_path.iterdir()} <= {"data", "data.partial"}
    with start(text, out) as process:
        _, said = process.communicate()
    assert process.returncode == 0, said
    assert content(out) == whole
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_what_was_half_written_when_a_run_was_killed_does_not_stay(
    text: Path, whole: dict[str, bytes], tmp_path: Path
) -> None:
    progress = tmp_path / "data.partial" / "progress"
    progress.mkdir(parents=True)
    for folder in (progress, progress.parent):
        (folder / "train-00006.bin.9480.partial").write_bytes(b"half a shard")
    with start(text, tmp_path / "data") as process:
        _, said = process.communicate()
    assert process.returncode == 0, said
    assert content(tmp_path / "data") == whole


def test_a_disk_that_fills_up_is_told_of_and_the_next_run_goes_on(
    text: Path, whole: dict[str, bytes], small_disk: Path
) -> None:
    ballast = small_disk / "ballast"
    with start(text, small_disk / "data") as process:
        # Once it has looked at the disk, somebody else takes the room away.
        assert process.stderr is not None
        said = process.stderr.readline()
        ballast.write_bytes(bytes(shutil.disk_usage(small_disk).free - (1 << 20)))
        said += process.communicate()[1]
    assert process.returncode == 1, said
    assert f"{small_disk}: the disk is full; complete shards are kept in" in said
    assert not (small_disk / "data").exists()

    with start(text, small_disk / "data") as process:
        _, said = process.communicate()
    assert process.returncode == 1
    assert "the disk has" in said
    assert "make room" in said

    ballast.unlink()
    with start(text, small_disk / "data") as process:
        _, said = process.communicate()
    assert process.returncode == 0, said
    assert "resuming" in said
    assert content(small_disk / "data") == whole
