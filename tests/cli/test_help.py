"""Help: every command answers, and says how it is used."""

import os
import re
import subprocess
import sys
from typing import Any

import pytest
import typer
from command_line import Nmt

from nmt.cli import COMMANDS, application


def test_help_lists_all_commands_without_one(nmt: Nmt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    asked, unasked = nmt("--help"), nmt()
    assert (asked.status, asked.stderr) == (0, "")
    assert unasked == (2, asked.stdout, "")
    assert not [command for command in COMMANDS if command not in asked.stdout]


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_names_values_without_types_or_double_brackets(
    nmt: Nmt, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    shown = nmt(*filter(None, [command]), "--help-all" if command else "--help").stdout
    assert not re.findall(r"<(?:bool|str|path|list.*)>|\[\[|{[A-Z]", shown)


LONG = ("prepare", "train", "distill", "translate", "score", "rescore", "calibrate")
"""The commands with more options than most people need."""


@pytest.mark.parametrize("command", LONG)
def test_help_is_short_with_a_hint(nmt: Nmt, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    short, long = (nmt(command, asked).stdout for asked in ("--help", "--help-all"))
    assert len(short.splitlines()) <= 100
    row = re.compile(r"^│ [* ]{0,3}(--[\w-]+)", re.MULTILINE)
    listed, all_listed = row.findall(short), row.findall(long)
    group: Any = typer.main.get_command(application([command]))
    parameters = group.commands[command].params
    declared = [param.opts[0] for param in parameters if param.param_type_name == "option"]
    assert sorted(all_listed) == sorted(declared)
    assert [option for option in all_listed if option in listed] == listed
    assert f" {len(all_listed) - len(listed)} more options: `nmt {command} --help-all`" in short


@pytest.mark.parametrize("command", sorted({*COMMANDS} - {*LONG}))
def test_all_options_of_a_short_command_are_those_of_its_help(nmt: Nmt, command: str) -> None:
    short, long = (nmt(command, asked) for asked in ("--help", "--help-all"))
    assert long == short and long.status == 0
    assert "--help-all" in short.stdout and "more options" not in short.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_help_opens_with_examples(nmt: Nmt, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    answer = nmt(command, "--help")
    assert (answer.status, answer.stderr) == (0, "")
    before, _, options = answer.stdout.partition("--quiet")
    _, _, examples = before.partition("Examples:")
    shown = [line.strip() for line in examples.splitlines() if f"nmt {command}" in line]
    assert len(shown) in range(2, 7)
    assert max(map(len, shown)) <= 77  # indented, a terminal of 80 columns shows each on a line
    assert options


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("nmt tr", {"train", "translate"}),
        ("nmt train data --model transformer_bi", {"transformer_big", "transformer_big_en_fr"}),
        ("nmt translate run --markup ht", {"html"}),
        ("nmt export ctranslate2 run out --quantization int1", {"int16"}),
    ],
)
def test_bash_completes_commands_and_presets(words: str, expected: set[str]) -> None:
    asked = {"_NMT_COMPLETE": "complete_bash", "COMP_WORDS": words}
    asked["COMP_CWORD"] = str(len(words.split()) - 1)
    program = "import sys; from nmt.__main__ import main\ntry: main()\nfinally: "
    command = [sys.executable, "-c", program + "assert 'torch' not in sys.modules"]
    environment = os.environ | asked
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert set(done.stdout.split()) == expected, done.stderr


def test_what_is_missing_is_said_after_two_dashes_too(nmt: Nmt) -> None:
    assert "Missing argument 'FORMAT'" in nmt("--", "import").refusal(2)
