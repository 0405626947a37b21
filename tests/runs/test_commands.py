"""Commands that write a line for each line: what they may do wrong, and what is not done again."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nmt.errors import DataError, NMTError
from nmt.runs import commands

LINES = [f"line {number} 中文" for number in range(1, 6)]
Answers = Callable[[str], list[str]]


@pytest.fixture
def answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Answers:
    """Asks a command, which gets two lines at a time."""
    monkeypatch.setattr(commands, "BLOCK_LINES", 2)

    def ask(command: str) -> list[str]:
        found = commands.answers(command, "--teacher-command", LINES, tmp_path / "answers", read)
        return list(found)

    return ask


def read(line: str) -> str:
    if "no number" in line:
        raise ValueError
    return line


def test_each_line_has_an_answer_and_the_last_needs_no_end(answered: Answers) -> None:
    assert answered("sed 's/line/Zeile/'") == [line.replace("line", "Zeile") for line in LINES]
    assert answered('awk \'{printf "%s%s", (NR > 1 ? "\\r\\n" : ""), $2}\'') == list("12345")


@pytest.mark.parametrize(
    ("fault", "error", "said"),
    [
        ("sed 2d", DataError, "lines 1 to 2.* 1 line"),
        ("sed p", DataError, "lines 1 to 2.* 4 lines"),
        ("sed '/ 4 /d'", DataError, "lines 3 to 4.* 1 line"),
        ("printf '\\377\\n\\377\\n'", DataError, "UTF-8"),
        ("cat && exit 3", NMTError, "status 3"),
        ("no-such-program", NMTError, "status 127"),
        ("kill -9 $$", NMTError, "SIGKILL"),
    ],
)
def test_a_wrong_answer_is_refused_with_its_lines(
    answered: Answers, fault: str, error: type[NMTError], said: str
) -> None:
    with pytest.raises(error, match=f"--teacher-command, .*{said}"):
        answered(fault)


def test_a_command_goes_on_with_the_block_that_failed(answered: Answers, tmp_path: Path) -> None:
    (tmp_path / "fails").touch()
    asked = tmp_path / "asked"
    command = f"tee -a {asked} > {tmp_path}/in; cat {tmp_path}/in; "
    command += f"! (test -e {tmp_path}/fails && grep -q ' 4 ' {tmp_path}/in)"
    with pytest.raises(NMTError, match="lines 3 to 4"):
        answered(command)
    (tmp_path / "fails").unlink()
    asked.unlink()
    assert answered(command) == LINES
    assert asked.read_text().splitlines() == LINES[2:]
    answered(command)
    assert asked.read_text().splitlines() == LINES[2:]


def test_an_answer_of_another_kind_is_asked_again(answered: Answers, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("sed 's/line 4/no number/'")
    with pytest.raises(DataError, match=r"--teacher-command: .*no number.* line 4"):
        answered(f"sh {script}")
    script.write_text("cat")
    assert answered(f"sh {script}") == LINES


def test_a_mark_of_utf8_at_the_beginning_is_no_text(answered: Answers) -> None:
    assert answered("printf '\\357\\273\\277'; cat") == LINES


def test_a_command_that_does_not_end_is_killed(
    answered: Answers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "_GRACE_SECONDS", 0.2)

    def interrupt(*_: object) -> None:
        while not (tmp_path / "begun").exists():
            time.sleep(0.01)
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "communicate", interrupt)
    with pytest.raises(KeyboardInterrupt):
        answered(f"trap '' TERM; touch {tmp_path}/begun; while :; do sleep 0.1; done")


def test_an_answer_that_was_changed_and_that_of_another_command_are_not_taken(
    answered: Answers, tmp_path: Path
) -> None:
    answered("cat")
    for path in (tmp_path / "answers").iterdir():
        path.write_bytes(path.read_bytes().replace(b"line", b"LINE"))
    assert answered("cat") == LINES
    assert answered("sed s/l/L/") == [line.replace("l", "L", 1) for line in LINES]
