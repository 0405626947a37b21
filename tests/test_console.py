"""Progress of `nmt.console`: at the foot of a terminal, and nothing elsewhere."""

import re
import subprocess
import sys
from textwrap import wrap

import pytest
from terminal import OnTerminal

from nmt import console

WORK = """
import sys, threading, time, warnings
from nmt import console
from nmt.cli.command import run

def work():
    console.set_quiet("quiet" in sys.argv)
    wait = 0.05 if "short" in sys.argv else 0.6
    console.notice("before")
    with console.progress("training", total=10, unit="updates", initial=2) as progress:
        for number in range(1, 4):
            progress.set_postfix_str("epoch 0.1", refresh=False)
            progress.update()
            console.notice(f"notice {number} " + "long " * 30 + "[end]")
            time.sleep(wait)
        with console.progress("validating", total=4, unit="lines") as inner:
            for number in range(4):
                time.sleep(wait / 3)
                inner.update()
            console.notice("validated")
        if "back" in sys.argv:
            progress.update(0 - progress.n)
            time.sleep(wait)
            progress.update()
        if "warn" in sys.argv:
            warnings.warn("of a \\x1b[31mlibrary")
        if "fail" in sys.argv:
            raise SystemExit(3)
    console.notice("after")
    assert threading.active_count() == 1

run(work)
"""


NOTICES = [f"notice {number} " + "long " * 30 + "[end]" for number in (1, 2, 3)]
SAID = [f"nmt: {notice}" for notice in ("before", *NOTICES, "validated", "after")]


def on_terminal(*arguments: str, lines: int = 100) -> OnTerminal:
    return OnTerminal([sys.executable, "-c", WORK, *arguments], lines=lines)


def test_notices_stand_above_the_bars_and_nothing_else_remains() -> None:
    parts = [part for line in SAID for part in wrap(line, 100, subsequent_indent="  ")]
    for terminal in (on_terminal("short", lines=3), on_terminal("back", lines=12)):
        assert terminal.finish() == 0
        assert terminal.screen == parts
    assert re.search(
        r"training: +50%.* 5/10 \[00:0\d<00:0\d, +[\d.]+ updates/s, epoch 0.1\]", terminal.written
    )
    assert re.search(r"validating: +75%.* 3/4 ", terminal.written)
    # It has gone back to an earlier step.
    assert terminal.written.rindex("1/10") > terminal.written.rindex("5/10")


def test_it_disappears_after_an_error_and_warnings_of_libraries_stand_above_too() -> None:
    terminal = on_terminal("warn", "fail")
    assert terminal.finish() == 3
    assert any(r"UserWarning: of a \x1b[31mlibrary" in line for line in terminal.screen)
    assert "training" not in "".join(terminal.screen)


def test_a_terminal_that_is_closed_is_not_a_failure() -> None:
    terminal = on_terminal("short")
    terminal.read_until("notice 1")
    assert terminal.hang_up() == 0


COLOURED = "\x1b[1;33mwarning\x1b[0m", "\x1b[1;31merror\x1b[0m"
SHOUT = """
import os, sys
from nmt import console
os.environ |= dict(word.split("=") for word in sys.argv[1:])
console.warning("w " * 100)
console.error("e " * 100)
"""


@pytest.mark.parametrize("variable", ["", "NO_COLOR=1", "TERM=dumb"])
def test_warnings_and_errors_have_colour_on_a_terminal_and_stay_whole(variable: str) -> None:
    terminal = OnTerminal([sys.executable, "-c", SHOUT, *variable.split()])
    assert terminal.finish() == 0
    warning, error = ("warning", "error") if variable else COLOURED
    said = [f"nmt: {warning}: {'w ' * 100}", f"nmt: {error}: {'e ' * 100}"]
    assert terminal.written.splitlines() == said


@pytest.mark.parametrize("verbose", [True, False])
def test_details_are_for_those_who_ask(capsys: pytest.CaptureFixture[str], verbose: bool) -> None:
    console.set_verbose(verbose)
    console.detail("4 seconds")
    assert capsys.readouterr().err == "nmt: 4 seconds\n" * verbose


def test_quiet_shows_nothing() -> None:
    terminal = on_terminal("quiet", "short")
    assert terminal.finish() == 0
    assert terminal.written == ""


def test_the_next_command_is_whole_and_only_for_people() -> None:
    step = """console.next_step("nmt train", "my data", "--out run")"""
    command = [sys.executable, "-c", f"from nmt import console; {step}"]
    terminal = OnTerminal(command, columns=20)
    assert terminal.finish() == 0
    assert terminal.written.strip() == "nmt: next: nmt train 'my data' --out run"
    assert subprocess.run(command, capture_output=True, check=True).stderr == b""
    in_step = OnTerminal(["env", f"{console.STEP}=1", *command], columns=20)
    assert (in_step.finish(), in_step.written) == (0, "")


def test_a_pipe_gets_only_the_notices() -> None:
    command = [sys.executable, "-c", WORK, "short"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr.splitlines()) == ("", SAID)


def test_a_table_on_a_terminal_shows_neither_markup_nor_escape_codes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    console.print_table(["[red]na\x1bme", "file"], [["[b]x\x1b[2J", "a\nb"]])
    shown = capsys.readouterr().out
    for cell in (r"[red]na\x1bme", r"[b]x\x1b[2J", r"a\nb"):
        assert cell in shown


@pytest.mark.parametrize(("width", "is_list"), [(80, False), (60, False), (30, True)])
def test_no_head_of_a_table_is_broken_inside_a_word(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int, is_list: bool
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    columns = ["metric", "difference", "p, approximate randomisation", "notes"]
    console.print_table(columns, [["BLEU", "+0.25", "0.0100", "long words " * 20]] * 2)
    shown = re.sub(r"\x1b\[\d*m", " ", capsys.readouterr().out)
    assert all(word in shown.split() for column in columns for word in column.split())
    assert shown.count("difference") == 1 + is_list


def test_a_message_has_one_line_of_bounded_length(capsys: pytest.CaptureFixture[str]) -> None:
    console.warning("a\nnmt: error: b")
    console.error("x" * 1_000_000)
    first, second = capsys.readouterr().err.splitlines()
    assert first == r"nmt: warning: a\nnmt: error: b"
    assert len(second) < 5_000


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("sftp://me:key@host:22/a: no such file", "sftp://me@host:22/a: no such file"),
        ("s3://bucket/a?key=1&b=2: no such file", "s3://bucket/a: no such file"),
        ("'https://host/a?key=1' and s3://b/c?d.", "'https://host/a' and s3://b/c."),
        ('{"in": "https://u:key@host/?key"}', '{"in": "https://u@host/"}'),
    ],
)
def test_secrets_are_not_said(capsys: pytest.CaptureFixture[str], text: str, shown: str) -> None:
    for say in (console.notice, console.warning, console.error):
        say(text)
    told = capsys.readouterr().err.splitlines()
    assert [line.endswith(f" {shown}") for line in told] == [True] * 3
