"""`prepare` under kill -9, at any instant, and on a disk that fills up."""

import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from prepare_job import content, write
from toy_training import environment

# The stage with small shards, which the command line has no option for.
SCRIPT = """
import sys
from pathlib import Path

from nmt.errors import NMTError
from prepare_job import Job

if __name__ == "__main__":
    text, out = sys.argv[1:]
    job = Job.of(Path(out), train=(f"{text}/a", f"{text}/b"), valid=f"{text}/v", workers=2)
    try:
        job.but(vocab_size=400, sample_size=2000, shard_pairs=1000).prepare()
    except NMTError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_status)
"""


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two texts of 4,500 pairs that have a third in common, and a script that prepares them."""
    folder = tmp_path_factory.mktemp("text")
    draw = random.Random(3)
    words = ["".join(draw.choices("abcdefghijklmnop", k=draw.randint(2, 8))) for _ in range(500)]
    lines = [" ".join(draw.choices(words, k=draw.randint(1, 20))) for _ in range(7_500)]
    for name, part in (("a", lines[:4_500]), ("b", lines[3_000:]), ("v", lines[:9])):
        write(folder, name, [(line, line[::-1]) for line in part])
    (folder / "script.py").write_text(SCRIPT)
    return folder


def start(text: Path, out: Path) -> subprocess.Popen[str]:
    command = [sys.executable, *map(str, (text / "script.py", text, out))]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment())


def finish(text: Path, out: Path, *, status: int = 0) -> str:
    """Run to the end; return what was said."""
    with start(text, out) as process:
        said = process.communicate()[1]
    assert process.returncode == status, said
    return said


@pytest.fixture(scope="module")
def whole(text: Path) -> dict[str, bytes]:
    finish(text, text / "whole")
    return content(text / "whole")


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_run_killed_again_and_again_ends_in_the_same_bytes(
    text: Path, whole: dict[str, bytes], tmp_path: Path, seed: int
) -> None:
    draw, out = random.Random(seed), tmp_path / "data"
    progress = tmp_path / "data.partial" / "progress"
    progress.mkdir(parents=True)
    for folder in (progress, progress.parent):  # half written when another run was killed
        left_over = folder / ".train-00006.bin.of_a_run.partial"
        left_over.mkdir()
        (left_over / "train-00006.bin").write_bytes(b"half a shard")
    for _ in range(3):
        with start(text, out) as process:
            try:
                process.communicate(timeout=draw.uniform(0.2, 2.0))
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
        assert {path.name for path in tmp_path.iterdir()} <= {"data", "data.partial"}
    finish(text, out)
    assert content(out) == whole
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_a_disk_that_fills_up_is_told_of_and_the_next_run_goes_on(
    text: Path, whole: dict[str, bytes], small_disk: Path
) -> None:
    ballast, out = small_disk / "ballast", small_disk / "data"
    with start(text, out) as process:
        # Once it has looked at the disk, somebody else takes the room away.
        assert process.stderr is not None
        said = process.stderr.readline()
        ballast.write_bytes(bytes(shutil.disk_usage(small_disk).free - (1 << 20)))
        said += process.communicate()[1]
    assert process.returncode == 1, said
    assert f"{small_disk}: the disk" in said
    assert not out.exists()

    assert "MB free" in finish(text, out, status=1)
    ballast.unlink()
    assert "resuming" in finish(text, out)
    assert content(out) == whole
