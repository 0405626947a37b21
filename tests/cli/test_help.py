"""Help: every command answers, and says how it is used."""

from __future__ import annotations

import os
import subprocess
import sys

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


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_shows_an_example(command: str) -> None:
    text = help_of(command)
    assert "--quiet" in text
    _, marker, example = text.partition("Example:")
    assert marker, f"`nmt {command} --help` shows no example"
    assert f"nmt {command}" in example
