"""Closed streams are opened before a library can open a file in their place, and keep it."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from toy_training import TINY

# Stands for libffi, which some builds of ctypes load: here the first import after that of `nmt`
# opens a file, and keeps it.
LIBRARY = """
import os, sys

class Library:
    def find_spec(self, name, *_):
        if "nmt" in sys.modules and not name.startswith(("nmt.", "__future__")):
            sys.meta_path.remove(self)
            number = os.open("library", os.O_RDWR | os.O_CREAT)
            with open("numbers", "a") as numbers:
                numbers.write(f"{number}\\n")

sys.meta_path.insert(0, Library())
"""
MODULE = [sys.executable, "-m", "nmt"]
CONSOLE_SCRIPT = [sys.executable, "-c", "from nmt.__main__ import main; main()"]
# torchrun keeps its own stderr, and each rank closes the one that it has from there.
TWO_RANKS = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
TWO_RANKS += ["--local-addr=127.0.0.1", "--no-python", "sh", "-c", 'exec "$@" 2>&-', "sh", *MODULE]
TRAIN = ["train", "DATA", "--out=run", "--model=transformer_tiny", "--max-updates=2"]
TRAIN += [f"--set={key}={value}" for key, value in TINY.items() if key != "max_updates"]
PREPARE = ["prepare", "out", "--src=en", "--tgt=de", "--train=text", "--valid=text"]


@pytest.mark.parametrize(
    ("command", "processes"),
    [
        ([*MODULE, "models", ">models", "2>&-"], 1),
        ([*CONSOLE_SCRIPT, "models", ">models", "<&-", "2>&-"], 1),
        ([*MODULE, *PREPARE, "--workers=2", "<&-", ">&-", "2>&-"], 3),
        ([*TWO_RANKS, *TRAIN], 2),
    ],
    ids=["module", "console script", "workers", "ranks"],
)
def test_no_library_takes_the_place_of_a_closed_stream(
    data: Path, tmp_path: Path, command: list[str], processes: int
) -> None:
    (tmp_path / "sitecustomize.py").write_text(LIBRARY)
    for lang in ("en", "de"):
        text = "".join(f"{lang} {number} a b c d e f\n" for number in range(300))
        (tmp_path / f"text.{lang}").write_text(text)
    words = (str(data) if word == "DATA" else word for word in command)
    shell = " ".join(word if re.match("[0-2]?[<>]", word) else shlex.quote(word) for word in words)
    paths = filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")])
    variables = {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(shell, shell=True, cwd=tmp_path, check=False, env=os.environ | variables)
    assert done.returncode == 0
    numbers = (tmp_path / "numbers").read_text().split()
    assert len(numbers) >= processes
    assert min(map(int, numbers)) > 2
    assert (tmp_path / "library").read_bytes() == b""
