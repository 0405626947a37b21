"""Help: every command answers, and says how it is used."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nmt.cli import COMMANDS


def help_of(*words: str) -> str:
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
    answer = subprocess.run(
        [sys.executable, "-m", "nmt", *words, "--help"],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert answer.returncode == 0, answer.stderr
    assert answer.stderr == ""
    return answer.stdout


def test_help_lists_every_command() -> None:
    assert "prepare" in COMMANDS
    text = help_of()
    missing = [command for command in COMMANDS if command not in text]
    assert not missing


def test_without_words_the_same_help_says_what_is_missing(
    nmt: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    asked, unasked = nmt("--help"), nmt()
    assert (asked.status, unasked.status) == (0, 2)
    assert (unasked.stdout, unasked.stderr) == (asked.stdout, "")


@pytest.mark.parametrize("words", [("--help",), ("translate", "--help")])
def test_a_reader_of_help_who_has_seen_enough_is_no_failure(words: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as nobody:
        done = subprocess.run(
            [sys.executable, "-m", "nmt", *words],
            stdout=nobody,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_opens_with_examples(command: str) -> None:
    before, _, options = help_of(command).partition("--quiet")
    _, _, examples = before.partition("Examples:")
    shown = [line.strip() for line in examples.splitlines() if f"nmt {command}" in line]
    assert len(shown) in (2, 3)
    assert max(map(len, shown)) <= 77  # indented, a terminal of 80 columns shows each on a line
    assert options


@pytest.mark.parametrize("command", COMMANDS)
def test_help_names_every_option_in_a_narrow_terminal(
    nmt: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    def shown(columns: str) -> set[str]:
        monkeypatch.setenv("COLUMNS", columns)
        return set(re.findall(r"--[a-z0-9-]*[a-z0-9]", nmt(command, "--help").stdout))

    narrow = "".join(sorted(shown("60")))
    cut = [name for name in shown("200") if name[:10] not in narrow]  # the rest is folded
    assert not cut
    monkeypatch.setenv("COLUMNS", "60")
    text = nmt(command, "--help").stdout
    assert "…" not in text
    assert not re.findall(r"│ [* ]*--.*<bool>", text)[1:]  # --help


@pytest.mark.parametrize("words", [("--help",), ("--version",), ("models",)])
def test_a_full_disk_below_stdout_is_one_line(words: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "nmt", *words],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == (
        "nmt: error: stdout: the disk is full; make room and run the same command again\n"
    )


@pytest.mark.parametrize(
    ("locale", "shown"),
    [
        ({"PYTHONIOENCODING": "ascii"}, "ref-ü"),
        (
            {"LC_ALL": "C", "PYTHONUTF8": "0"},
            "ref-\\udcc3\\udcbc",
        ),  # as Python reads the name there
    ],
)
def test_where_stdout_is_not_utf_8_help_is_ascii_and_answers_are_utf_8(
    tmp_path: Path, locale: dict[str, str], shown: str
) -> None:
    reference = str(tmp_path / "ref-ü")
    Path(reference).write_text("Größe\n")
    answers = []
    for words in (("--help",), ("score", reference, reference, "--baseline", reference)):
        done = subprocess.run(
            [sys.executable, "-m", "nmt", *words],
            capture_output=True,
            check=False,
            env=os.environ | locale,
        )
        assert done.returncode == 0, done.stderr
        answers.append(done.stdout)
    assert answers[0].isascii()
    assert shown.encode() in answers[1]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("nmt tr", {"train", "translate"}),
        ("nmt train data --model transformer_bi", {"transformer_big", "transformer_big_en_fr"}),
        ("nmt models transformer_ti", {"transformer_tiny"}),
    ],
)
def test_bash_completes_commands_and_presets(words: str, expected: set[str]) -> None:
    asked = {"_NMT_COMPLETE": "complete_bash", "COMP_WORDS": words}
    asked["COMP_CWORD"] = str(len(words.split()) - 1)
    program = "import sys; from nmt.cli import main\ntry: main()\nfinally: "
    done = subprocess.run(
        [sys.executable, "-c", program + "assert 'torch' not in sys.modules"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | asked,
    )
    assert set(done.stdout.split()) == expected, done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("prepare", "out", "--vocab-size", "8k"), "write 8000 (see"),
        (("translate", "model", "--device", "gpu"), "--device gpu: unknown; write 'cuda'"),
        (
            ("train", "x", "--out", "y", "--model", "transformer_tiny", "--device", "gpu"),
            "cuda",
        ),
        (("score", "ref", "out", "--model", "run"), "models score by `nmt rescore` (see"),
    ],
)
def test_what_people_write_is_understood(
    nmt: Callable[..., Any], words: tuple[str, ...], message: str
) -> None:
    answer = nmt(*words)
    assert (answer.status, answer.stdout) == (2, "")
    assert message in answer.stderr


@pytest.mark.parametrize(
    "words", [("train", "100k", "--foo"), ("translate", "5k", "--beam-size", "two")]
)
def test_a_name_with_a_k_is_no_number(nmt: Callable[..., Any], words: tuple[str, ...]) -> None:
    answer = nmt(*words)
    assert answer.status == 2
    assert "; write" not in answer.stderr
