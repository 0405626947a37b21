"""Standard streams that are closed, full, left by their reader, or not UTF-8."""

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import QUICK, Nmt

NMT = [sys.executable, "-m", "nmt"]  # as Python starts and ends it


def start(*words: str | Path, **streams: Any) -> subprocess.CompletedProcess[bytes]:
    """Run a command in a process of its own."""
    options: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams
    return subprocess.run([*NMT, *words], check=False, **options)


@pytest.mark.parametrize(
    ("closed", "words"),
    [
        ("stdin", "translate MODEL"),
        ("stdin", "prepare out --src en --tgt de --train - --valid in"),
        ("stdout", "translate MODEL --input in"),
        ("stdin", "score in"),
        ("stdout", "score in in"),
    ],
)
@pytest.mark.usefixtures("here")
def test_a_closed_stream_is_told_of_where_it_is_needed(
    nmt: Nmt, model_file: Path, monkeypatch: pytest.MonkeyPatch, closed: str, words: str
) -> None:
    Path("in").write_text("the cat\n")
    monkeypatch.setattr(sys, closed, None)  # as Python has it then
    assert f"{closed} is closed" in nmt(*words.replace("MODEL", str(model_file)).split()).refusal(2)


def test_files_are_translated_without_any_stream(model_file: Path, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("the cat\n")
    files = ("--input", tmp_path / "in", "--output", tmp_path / "out")
    command = [*NMT, "translate", model_file, *QUICK, *files, "--quiet"]
    shell = f"{shlex.join(map(str, command))} <&- >&- 2>&-"
    assert subprocess.run(shell, shell=True, check=False).returncode == 0
    assert (tmp_path / "out").read_text().count("\n") == 1


@pytest.mark.parametrize("words", ["--help", "translate MODEL"])
def test_a_full_stdout_is_one_line(model_file: Path, words: str) -> None:
    with Path("/dev/full").open("wb") as full:
        words = words.replace("MODEL", shlex.join([str(model_file), *QUICK]))
        done = start(*shlex.split(words), stdout=full, input=b"the cat\n")
    assert done.returncode == 1
    assert done.stderr == (
        b"nmt: error: stdout: the disk is full; make room and run the same command again\n"
    )


def test_a_reader_that_leaves_early_is_no_failure(model_file: Path) -> None:
    command = [*NMT, "translate", str(model_file), *QUICK, "--pool-lines", "10"]
    # More than a pipe holds.
    shell = f"set -o pipefail; seq 20000 | {shlex.join(command)} | head -1"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.count(b"\n") == 1


NOISY = """
import atexit, functools, os
from nmt import cli

def make_noise():
    print("noise of Python")
    os.write(1, b"noise of C\\n")

def noisy(command):
    @functools.wraps(command)
    def run(*args, **kwargs):
        make_noise()
        try:
            command(*args, **kwargs)
        finally:
            make_noise()
    return run

of_ours = cli.with_options
cli.with_options = lambda command: noisy(of_ours(command))
atexit.register(make_noise)
cli.main()
"""
"""A program that is `nmt`, with a library that prints before, after and at the end."""


@pytest.mark.parametrize(
    "words",
    [
        f"translate MODEL --input in {shlex.join(QUICK)}",
        "rescore MODEL in --source in --scores",
        "score in in --json",
        "models transformer_tiny",
    ],
)
def test_what_libraries_print_is_no_answer(model_file: Path, tmp_path: Path, words: str) -> None:
    (tmp_path / "in").write_text("the cat\na dog\n")
    command = words.replace("MODEL", shlex.quote(str(model_file)))
    plain = start(*shlex.split(command), cwd=tmp_path)
    words_of_noisy = [sys.executable, "-c", NOISY, *shlex.split(command)]
    noisy = subprocess.run(words_of_noisy, cwd=tmp_path, capture_output=True, check=False)
    assert noisy.returncode == plain.returncode == 0, noisy.stderr
    assert plain.stdout
    assert noisy.stdout == plain.stdout
    noise = [line for line in noisy.stderr.splitlines() if line.startswith(b"noise")]
    assert noise == [b"noise of Python", b"noise of C"] * 3  # at once, not when a buffer is full


@pytest.mark.parametrize(
    ("locale", "shown"),
    [
        ({"PYTHONIOENCODING": "ascii"}, "ref-ü"),
        # As Python reads the name there.
        ({"LC_ALL": "C", "PYTHONUTF8": "0"}, "ref-\\udcc3\\udcbc"),
    ],
)
def test_where_stdout_is_not_utf_8_help_is_ascii_and_answers_are_utf_8(
    tmp_path: Path, locale: dict[str, str], shown: str
) -> None:
    reference = tmp_path / "ref-ü"
    reference.write_text("Größe\n")
    environment = os.environ | locale
    helped = start("--help", env=environment)
    assert (helped.returncode, helped.stdout.isascii()) == (0, True)
    scored = start("score", reference, reference, "--baseline", reference, env=environment)
    assert scored.returncode == 0, scored.stderr
    assert shown.encode() in scored.stdout
