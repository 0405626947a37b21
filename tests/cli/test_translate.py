"""`nmt translate` as a shell sees it: lines, pipes, files, exit statuses."""

import fcntl
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

import pytest
from command_line import QUICK, Nmt, TranslateText
from mishaps import short_of_memory, stop_after_pools
from warm_python import warm_python

import nmt as package
from nmt import console
from nmt.jobs.journal import Journal
from nmt.models.model_file import ModelCard, load_model


def start(
    model: Path, *words: str | Path, python: str | None = None, **streams: Any
) -> subprocess.Popen[bytes]:
    """Start a process that answers while its input stays open. To kill it, give its `python`."""
    command = [python or warm_python(), "-m", "nmt", "translate", model, *QUICK, *words]
    return subprocess.Popen(command, **streams)


def assert_lines_correspond(data: bytes, translated: bytes) -> None:
    """As many lines, blank where blank, ended alike."""
    assert translated.count(b"\n") == data.count(b"\n")
    assert translated.endswith(b"\n") == data.endswith(b"\n")
    for before, after in zip(data.split(b"\n"), translated.split(b"\n"), strict=True):
        if before != b"\r":  # a last "\r" without its newline is text, blank text at that
            assert after.endswith(b"\r") == before.endswith(b"\r")
        if not before.strip():
            assert not after.strip()
    translated.decode()  # the output is UTF-8 whatever came in


def text_of(lines: int) -> bytes:
    """Lines of several lengths, blank and bad ones among them."""
    words = (b"the cat", b"a dog sees", b"\xff", b"x" * 60, b"the old house")
    return b"".join(b"%s %d\n" % (words[n % 5], n) if n % 7 else b"\n" for n in range(lines))


# ------------------------------------------------------------------------- lines in, lines out


def test_a_terminal_gets_the_summary_in_words(
    nmt: Nmt, model_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "is_terminal", lambda: True)
    (tmp_path / "in").write_text("the cat\n\na dog\n")
    files = ("--input", tmp_path / "in", "--output", tmp_path / "out")
    monkeypatch.setattr(console, "progress", lambda *_, **__: nullcontext(console._NoBar()))
    last = nmt("translate", model_file, *QUICK, *files).stderr.splitlines()[-1]
    assert re.fullmatch(r"nmt: 3 lines in \d+ seconds?", last)
    (tmp_path / "out").unlink()
    assert nmt("translate", model_file, *QUICK, *files, "--summary").summary["lines_in"] == 3


def test_stdout_holds_data_alone_and_files_hold_the_same(
    nmt: Nmt, translate: Nmt, model_file: Path, tmp_path: Path
) -> None:
    data = b"the cat\n\na dog sees the bird\n"
    done = translate(stdin=data).succeeded()
    counts = done.summary
    names = "lines_in lines_out split guarded decomposed copied remembered fell_back "
    names += "failed failed_files edited"
    assert list(counts) == [*names.split(), "seconds", "tokens_per_second"]
    assert (counts["lines_in"], counts["lines_out"]) == (3, 3)
    assert (counts["split"], counts["failed"]) == (0, 0)
    assert counts["tokens_per_second"] > 0
    assert_lines_correspond(data, done.stdout.encode())
    lines = done.stdout.split("\n")
    assert lines[0] and lines[2] and not lines[1]

    (tmp_path / "in").write_bytes(data)
    files = ("--input", tmp_path / "in", "--output", tmp_path / "out")
    assert nmt("translate", model_file, *QUICK, *files, "--quiet") == (0, "", "")
    assert nmt("translate", model_file, *QUICK, stdin=data) == (0, done.stdout, "")  # quiet, too
    assert (tmp_path / "out").read_text() == done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == [".out.journal", "in", "out"]


def test_lines_without_letters_are_copied_and_counted(translate_text: TranslateText) -> None:
    done = translate_text("the cat\n-\n\n  2024 \r\n\U0001f600\n%s\n5 km")
    lines = done.stdout.split("\n")
    assert lines[1:6] == ["-", "", "  2024 \r", "\U0001f600", "%s"]
    assert lines[0] != "the cat" and lines[6] != "5 km"
    assert done.summary["copied"] == 4


def test_any_bytes_give_as_many_lines(translate: Nmt) -> None:
    nasty = [b"the cat", b"", b"the dog\r", b"\r", b"a\rb", b"a \xff bird"]
    nasty += ["\u2028 \x85 \x0b\x0c\x1e".encode(), b"\0", b"\xc3(", b"\t", "\ufeff".encode()]
    nasty += [b"x" * 5_000, b"bird " * 40, "日本語😀".encode()]
    data = b"\xef\xbb\xbf" + b"\n".join(nasty * 2) + b"\nthe end"
    done = translate("--pool-lines", "5", stdin=data).succeeded()
    assert_lines_correspond(data, done.stdout.encode())
    assert done.stderr.splitlines()[:-1] == [
        "nmt: warning: stdin: 4 lines are not valid utf-8, the first is line 6; bad bytes "
        "became U+FFFD",
        "nmt: warning: stdin: 4 lines have more than 20 tokens, the first is line 12; long ones "
        "were split into segments",
    ]
    assert done.summary["split"] == 4
    assert translate(stdin=b"")[:2] == (0, "")


def test_what_is_wrong_with_a_file_is_said_each_time(
    translate: Nmt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    source.write_bytes(b"a \xff bird\n" + b"bird " * 40 + b"\n" + b"the cat\n" * 8)
    words = ("--input", source, "--output", out, "--pool-lines", "5")
    with monkeypatch.context() as patch:
        stop_after_pools(patch, 1)
        assert translate(*words).status == 75
    resumed, again = translate(*words), translate(*words)
    assert "after line 5" in resumed.stderr and "already translated" in again.stderr
    for answer in (resumed, again):
        warnings = [line for line in answer.stderr.splitlines() if "warning: " in line]
        assert [bool(re.search("not valid|tokens", line)) for line in warnings] == [True] * 2
        assert all(f"{source}: " in line for line in warnings)


def test_lines_are_answered_while_stdin_stays_open(model_file: Path) -> None:
    pipe = subprocess.PIPE
    process = start(model_file, "--quiet", stdin=pipe, stdout=pipe, stderr=pipe)
    # Only so that a command that waits for the end of its input does not hang this test.
    watchdog = threading.Timer(120, process.kill)
    watchdog.start()
    assert process.stdin and process.stdout
    for line in (b"the cat\n", b"a dog\n"):
        process.stdin.write(line)
        process.stdin.flush()
        assert process.stdout.readline().endswith(b"\n")
    assert process.communicate() == (b"", b"")
    assert process.returncode == 0
    watchdog.cancel()


def test_batches_pools_and_workers_do_not_change_the_output(translate_text: TranslateText) -> None:
    text = text_of(60)
    first = translate_text(text).succeeded()
    assert_lines_correspond(text, first.stdout.encode())
    for words in ("--batch-tokens 1", "--batch-tokens 30", "--pool-lines 3", "--workers 2"):
        assert translate_text(text, *words.split())[:2] == first[:2], words


# ---------------------------------------------------------------------------------- failures


def test_strict_fails_at_the_first_bad_line_and_leaves_no_output(
    translate_text: TranslateText, tmp_path: Path
) -> None:
    (tmp_path / "out").write_text("an earlier one\n")
    answer = translate_text(b"fine\nfine\nb\xffd\n", "--output", tmp_path / "out", "--strict")
    assert "in: line 3 " in answer.refusal(1)
    assert (tmp_path / "out").read_text() == "an earlier one\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]


def test_a_stopped_command_leaves_nothing_as_its_output(model_file: Path, tmp_path: Path) -> None:
    pipe = subprocess.PIPE
    process = start(model_file, "--output", tmp_path / "out", stdin=pipe, stderr=pipe)
    assert process.stdin and process.stderr
    process.stdin.write(b"the cat\n")
    process.stdin.flush()
    while process.poll() is None and not any(p.stat().st_size for p in tmp_path.iterdir()):
        time.sleep(0.05)  # until the first line has been written under a temporary name
    assert not (tmp_path / "out").exists()
    process.send_signal(signal.SIGTERM)
    stderr = process.stderr.read()
    assert process.wait() == 75
    assert stderr.startswith(b"nmt: warning: stopped; ")
    assert list(tmp_path.iterdir()) == []
    process.stdin.close()


def test_a_line_that_fails_is_left_empty_and_the_status_is_1(
    translate_text: TranslateText, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short_of_memory(monkeypatch, tokens=4)
    text = "the cat\n\na dog sees the bird\nthe dog\n"
    answer = translate_text(text, "--output", tmp_path / "out")
    assert (answer.status, answer.stdout) == (1, "")
    lines = (tmp_path / "out").read_text().split("\n")
    assert [bool(line) for line in lines] == [True, False, False, True, False]
    assert re.search("in: 1 line .*empty.* line 3", answer.stderr)
    counts = answer.summary
    assert (counts["lines_in"], counts["lines_out"], counts["failed"]) == (4, 4, 1)


# -------------------------------------------------------------------------------- unattended


@pytest.mark.parametrize(
    ("kills", "lines"), [(1, 600), pytest.param(50, 20_000, marks=pytest.mark.slow)]
)
def test_a_job_that_is_killed_again_and_again_ends_as_undisturbed(
    translate: Nmt, model_file: Path, tmp_path: Path, kills: int, lines: int
) -> None:
    (tmp_path / "in").write_bytes(text_of(lines))
    (tmp_path / "out").write_text("an earlier one\n")
    words = ("--input", tmp_path / "in", "--pool-lines", "100", "--workers", "2", "--output")
    assert translate(*words, tmp_path / "undisturbed").status == 0
    expected = (tmp_path / "undisturbed").read_bytes()
    journal, random = tmp_path / ".out.journal", Random(1)
    killed = 0
    while killed < kills:
        process = start(model_file, *words, tmp_path / "out", python=sys.executable)
        size = journal.stat().st_size if journal.exists() else 0
        while process.poll() is None and journal.exists() and journal.stat().st_size == size:
            time.sleep(0.01)  # until it has gone on
        time.sleep(random.uniform(0, 0.3))
        process.kill()
        if process.wait() == 0:
            break  # the last of the work was done before it could be killed
        killed += 1
        assert (tmp_path / "out").read_text() == "an earlier one\n"
    assert killed >= min(kills, 2)
    assert translate(*words, tmp_path / "out").status == 0
    assert (tmp_path / "out").read_bytes() == expected
    assert_lines_correspond(text_of(lines), expected)


def test_a_lock_that_is_held_leaves_everything_untouched(
    translate_text: TranslateText, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nmt.system.files._LOCK_SECONDS", 0)
    job = ("the cat\n", "--output", tmp_path / "out", "--lock", tmp_path / "lock")
    with (tmp_path / "lock").open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        answer = translate_text(*job)
    assert (answer.status, answer.stdout) == (75, "")
    assert "lock: " in answer.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "lock"]
    assert translate_text(*job).status == 0


def test_at_its_deadline_a_job_stops_and_goes_on_the_next_time(
    translate_text: TranslateText, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (text_of(60), "--pool-lines", "5", "--output")
    assert translate_text(*text, tmp_path / "expected").status == 0
    job = (*text, tmp_path / "out")
    add = Journal.add

    def add_and_wait(*arguments: Any) -> None:
        add(*arguments)
        assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 1_000
        signal.setitimer(signal.ITIMER_REAL, 0.01)  # the time has come
        time.sleep(100)

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "add", add_and_wait)
        patch.setattr("nmt.jobs.deadline.seconds_until", lambda *_: 1_000.0)
        stopped = translate_text(*job, "--deadline", "06:30")
    assert (stopped.status, stopped.stdout) == (75, "")
    assert "--deadline 06:30 reached" in stopped.stderr
    assert not (tmp_path / "out").exists()
    assert "after line 5" in translate_text(*job).succeeded().stderr
    assert (tmp_path / "out").read_bytes() == (tmp_path / "expected").read_bytes()


# ------------------------------------------------------------------------- what is a new job


SAME = """--precision auto, --batch-tokens 9, --pool-lines 1, --workers 2, --encoding UTF8,
--length-penalty 0.60"""
OTHER = """--beam-size 3, --length-penalty 0.7, --length-penalty-form power, --max-tokens 9,
--sample, --n-best 2, --scores, --alignment, --format jsonl, --split, --no-split, --prefixes,
--precision fp32, --precision bf16, --encoding latin-1, --strict, --markup xml"""


def test_only_options_that_change_the_output_make_a_new_job(
    translate_text: TranslateText, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    job = ("the cat\na dog\n", "--output", out)
    assert translate_text(*job).status == 0
    stamp = out.stat().st_mtime_ns
    for words in SAME.split(","):
        again = translate_text(*job, *words.split())
        assert again.status == 0, words
        assert f"{out}: already translated" in again.stderr, words
        assert again.summary["lines_in"] == 2
        assert out.stat().st_mtime_ns == stamp
    for words in OTHER.split(","):
        answer = translate_text(*job, *words.split())
        assert answer.status == 0, words
        assert f"{out}: was translated" in answer.stderr, words
        assert translate_text(*job).status == 0  # from which the next one differs by one option


def test_models_name_the_job(nmt: Nmt, model_file: Path, other_model: Path, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("the cat\n")
    words = ("--input", tmp_path / "in", "--output", tmp_path / "out", *QUICK)
    for models in ((model_file,), (other_model,), (model_file, "--ensemble", model_file)):
        assert "already translated" not in nmt("translate", *models, *words).stderr
        assert "already translated" in nmt("translate", *models, *words).stderr


# ------------------------------------------------------------- the way of a line to the model

FOLDER = Path(package.__file__).parent


def frames_of_nmt(frame: FrameType | None, until: str) -> list[str]:
    """Return the files of nmt's frames from this one up to one of a file."""
    files = []
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(FOLDER):
            files.append(path.relative_to(FOLDER).as_posix())
            if files[-1] == until:
                return files
        frame = frame.f_back
    raise AssertionError(f"no frame of {until}: {files}")


def test_a_plain_line_passes_few_frames_and_files(
    nmt: Nmt, model_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stacks: list[list[str]] = []

    def load_stub(path: Path) -> tuple[Any, ModelCard]:
        model, card = load_model(path)
        step = model.step

        def noting_step(*args: Any) -> Any:
            stacks.append(frames_of_nmt(sys._getframe(1), "cli/translate.py"))
            return step(*args)

        monkeypatch.setattr(model, "step", noting_step)
        return model, card

    monkeypatch.setattr("nmt.translate.load_model.load_model", load_stub)
    words = ("--workers", "1", "--threads", "1", "--max-extra-tokens", "0")
    assert nmt("translate", model_file, *words, stdin=b"the cat\n").status == 0
    stack = stacks[0]  # of the first search
    assert len(stack) <= 12, stack
    assert len(set(stack)) <= 9, stack
