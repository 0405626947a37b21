"""The cron example: no file lost, none delivered twice, none that holds up the others.

Where only the ways of files matter, a stand-in takes the place of `nmt translate`, which takes
seconds to start; what the two have in common is tested with the real one.
"""

import contextlib
import fcntl
import itertools
import json
import os
import re
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
from command_line import QUICK
from warm_python import warm_python

CRON = Path(__file__).parents[2] / "examples" / "cron"
sys.path.insert(0, str(CRON))

import translate_incoming  # noqa: E402

STAND_IN = """
import os, pathlib, signal, sys, time

model, words = pathlib.Path(sys.argv[1]), sys.argv[2:]
source, output = (pathlib.Path(words[words.index(name) + 1]) for name in ("--input", "--output"))
with model.with_suffix(".calls").open("a", errors="replace") as calls:
    print(source.name, *words, file=calls)
text = source.read_bytes()
if model.read_text() == "damaged" or b"bad" in text:
    sys.exit(f"nmt: error: {source}: cannot be translated")
if b"silent" in text:
    sys.exit()
if b"killed" in text:
    os.kill(os.getpid(), signal.SIGKILL)
if b"slow" in text:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
    model.with_suffix(".ready").touch()
    time.sleep(60)
if b"odd" in text:
    print("nmt: warning: odd", file=sys.stderr)
if b"grows" in text:
    source.open("ab").write(b"one more\\n")
output.write_bytes(text.upper())
print('{"lines_in": %d, "failed": 0}' % text.count(b"\\n"), file=sys.stderr)
"""


class Place:
    """A folder that files come into, with its configuration."""

    def __init__(self, folder: Path, model: Path, **values: object) -> None:
        self.folder = folder / "translate"
        self.model = model
        self.config = folder / "config.toml"
        (self.folder / "incoming").mkdir(parents=True)
        self.configure(**values)

    def configure(self, **values: object) -> None:
        given = {"folder": "translate", "model": str(self.model), "settle_seconds": 0} | values
        lines = [f"{key} = {json.dumps(value)}" for key, value in given.items()]
        self.config.write_text("\n".join(lines), encoding="utf-8")

    def receive(self, name: str, content: bytes = b"a line\n") -> None:
        (self.folder / "incoming" / name).write_bytes(content)

    def content(self, name: str) -> dict[str, bytes]:
        """Return the files of a folder, hidden ones and links left out."""
        folder = self.folder / name
        paths = (p for p in folder.rglob("[!.]*") if p.is_file() and not p.is_symlink())
        return {str(p.relative_to(folder)): p.read_bytes() for p in paths}

    @property
    def log(self) -> str:
        return (self.folder / "log" / "translate.log").read_text(encoding="utf-8")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """A place at which the stand-in translates."""
    (tmp_path / "stand_in.py").write_text(STAND_IN)
    program = [sys.executable, "-I", "-S", str(tmp_path / "stand_in.py")]
    monkeypatch.setattr(translate_incoming, "NMT", program)
    numbers = signal.SIGTERM, signal.SIGINT, signal.SIGHUP
    before = [signal.getsignal(number) for number in numbers]
    (tmp_path / "model").write_text("sound")
    yield Place(tmp_path, tmp_path / "model")
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


class Run(Protocol):
    """Does a run in this process and checks how it ends; returns what a mail would hold."""

    def __call__(self, *words: str, status: int | None = 0, mail: str | None = None) -> str: ...


@pytest.fixture
def run(place: Place, capsys: pytest.CaptureFixture[str]) -> Run:
    def once(*words: str, status: int | None = 0, mail: str | None = None) -> str:
        ended = translate_incoming.main([str(place.config), *words])
        said = "".join(capsys.readouterr())
        assert status in (None, ended), said
        assert mail is None or (mail in said if mail else not said), said
        return said

    return once


def test_a_file_goes_to_done_and_its_translation_to_outgoing(place: Place, run: Run) -> None:
    place.receive("news.en", b"one\ntwo\n")
    log = place.folder / "log" / "translate.log"
    assert re.match(rf"\S+: 1 translated \(2 lines\); .*{log}$", run())
    assert place.content("outgoing") == {"news.en": b"ONE\nTWO\n"}
    assert place.content("done") == {"news.en": b"one\ntwo\n"}
    for empty in ("incoming", "working", "failed"):
        assert place.content(empty) == {}
    assert "news.en: taken" in place.log
    assert ", 0 failed\n" in place.log and "{" not in place.log


def test_unfinished_files_are_left(place: Place, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    place.configure(settle_seconds=60)
    place.receive("fresh.en")
    os.utime(place.folder / "incoming" / "fresh.en", (0, 0))  # as a copy that keeps times has it
    run(mail="")
    assert list(place.content("incoming")) == ["fresh.en"]
    assert "fresh.en: waits" in place.log
    now = time.time() + 61
    monkeypatch.setattr(time, "time", lambda: now)
    run()
    assert list(place.content("outgoing")) == ["fresh.en"]


def test_nothing_is_overwritten_where_a_name_comes_again(place: Place, run: Run) -> None:
    done = {"news.en.txt": b"first", "news.2.en.txt": b"second", "news.3.en.txt": b"third"}
    for text in done.values():
        place.receive("news.en.txt", text)
        run()
    assert place.content("done") == done
    assert place.content("outgoing") == {name: text.upper() for name, text in done.items()}


def test_what_is_no_regular_file_is_put_aside_untouched(place: Place, run: Run) -> None:
    incoming = place.folder / "incoming"
    (incoming / "folder.en").mkdir()
    (incoming / "folder.en" / "inner.en").write_text("kept\n")
    os.mkfifo(incoming / "fifo.en")
    (place.folder / "secret").write_text("not for translation\n")
    (incoming / "link.en").symlink_to(place.folder / "secret")
    place.receive("good.en")
    run(status=1, mail="1 translated (1 line); 3 given up, now in failed/")
    failed = place.content("failed")
    assert failed.pop("folder.en/source/folder.en/inner.en") == b"kept\n"
    assert sorted(failed) == [f"{name}.en/reason.txt" for name in ("fifo", "folder", "link")]
    assert all(reason.endswith(b"is not a regular file\n") for reason in failed.values())
    assert list(place.content("outgoing")) == ["good.en"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"bad\n", "status 1: nmt: error: {source}: "),
        (b"killed\n", "signal 9"),
        (b"silent\n", "without a translation"),
        (b"grows\n", "was changed"),
    ],
)
def test_a_file_that_fails_holds_up_no_others_and_is_given_up_in_the_end(
    place: Place, run: Run, text: bytes, reason: str
) -> None:
    place.receive("a.en", text)
    place.receive("b.en")
    run(status=1, mail="1 translated (1 line); 1 failed, to be tried again (a.en)")
    assert list(place.content("outgoing")) == ["b.en"]
    run(status=1)
    run(status=1, mail="1 given up, now in failed/ (a.en)")
    assert place.content("working") == {}
    failed = place.content("failed")
    assert failed["a.en/source/a.en"].startswith(text)
    reasons = failed["a.en/reason.txt"].decode().splitlines()
    what = reason.format(source=place.folder / "working" / "a.en" / "source" / "a.en")
    for number, line in enumerate(reasons, start=1):
        assert re.match(f"attempt {number} of 3: .*{what}", line[20:])
    assert len(reasons) == 3
    run(mail="")


def test_no_file_is_blamed_where_nothing_can_be_translated(place: Place, run: Run) -> None:
    place.model.write_text("damaged")
    for name in ("a.en", "b.en"):
        place.receive(name)
    for _ in range(4):
        run(status=1, mail="nothing can be translated: exit status 1: nmt: error: ")
        assert place.content("failed") == {}
    place.model.write_text("sound")
    run()
    assert sorted(place.content("outgoing")) == ["a.en", "b.en"]


def test_a_name_may_be_any_bytes_and_the_mail_is_one_line(place: Place, run: Run) -> None:
    name = os.fsdecode(b"-\xff\n* [a]'.en")
    place.receive(name, b"odd\n")
    assert run(mail=r"(-\udcff\n* [a]'.en)").count("\n") == 1
    assert list(place.content("outgoing")) == [name]
    place.receive(os.fsdecode(b"\xff" * 200), b"odd\n")
    assert len(run()) < 998  # what mail holds in a line


class Killed(BaseException):
    """What no code answers."""


def test_a_run_that_is_killed_at_any_step_is_completed_by_the_next(
    place: Place, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each change of a folder in turn, with a file to deliver and one to give up."""
    place.configure(max_attempts=1)
    left = 0  # steps up to the deadly one; none is deadly below 1

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def step(*words: Any, **options: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                raise Killed
            return function(*words, **options)

        return step

    for owner, name in ((Path, "mkdir"), (Path, "rename"), (Path, "rmdir"), (shutil, "rmtree")):
        monkeypatch.setattr(owner, name, counted(getattr(owner, name)))
    for deadly in itertools.count(1):
        left = 0
        shutil.rmtree(place.folder)
        (place.folder / "incoming").mkdir(parents=True)
        place.receive("good.en", b"good\n")
        place.receive("bad.en", b"bad\n")
        left = deadly
        with contextlib.suppress(Killed):
            run(status=None)
        survived, left = left > 0, 0
        run(status=None)
        assert place.content("done") == {"good.en": b"good\n"}, deadly
        assert place.content("outgoing") == {"good.en": b"GOOD\n"}, deadly
        assert place.content("failed")["bad.en/source/bad.en"] == b"bad\n", deadly
        for empty in ("incoming", "working"):
            assert place.content(empty) == {}, deadly
        if survived:
            break
    assert deadly > 12  # at the least: six folders, two files, three moves, two tidied away


def test_nothing_is_begun_in_the_last_minute_before_the_deadline(
    place: Place, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.configure(deadline="06:30")
    place.receive("news.en")
    monkeypatch.setattr(translate_incoming, "seconds_until", lambda *_: 59.0)
    run(status=75, mail="ended early: the deadline 06:30 has come")
    assert list(place.content("incoming")) == ["news.en"]
    monkeypatch.setattr(translate_incoming, "seconds_until", lambda *_: 90.0)
    run()
    assert "--deadline 06:30" in place.model.with_suffix(".calls").read_text()


def test_a_run_that_is_told_to_stop_goes_on_next_time(place: Place, run: Run) -> None:
    place.receive("a.en", b"slow\n")
    place.receive("b.en")

    def stop() -> None:
        while not place.model.with_suffix(".ready").exists():
            time.sleep(0.01)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)

    thread = threading.Thread(target=stop)
    thread.start()
    run(status=75, mail="translate-incoming: ended early: stopped by SIGTERM; log: ")
    thread.join()
    assert list(place.content("incoming")) == ["b.en"]
    assert "a.en/source/a.en" in place.content("working")
    (place.folder / "working" / "a.en" / "source" / "a.en").write_bytes(b"quick\n")
    run()
    assert place.content("outgoing") == {"a.en": b"QUICK\n", "b.en": b"A LINE\n"}


def test_a_run_that_is_held_off_for_long_is_told_once(place: Place, run: Run) -> None:
    run()
    path = place.folder / "working" / ".lock"
    with path.open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        run(status=75, mail="")
        os.utime(path, (0, 0))
        run(status=75, mail="a run is at work for more than 24 hours; log: ")
        run(status=75, mail="")
    run(mail="")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"modle": "x"}, "modle is"),
        ({"folder": "nowhere"}, "nowhere: "),
        ({"model": "nowhere"}, "nowhere: "),
        ({"max_attempts": 0}, "max_attempts"),
        ({"max_attempts": True}, "max_attempts = True "),
        ({"options": "--beam-size 4"}, "options = '--beam-size 4' "),
        ({"options": ["--lock=x"]}, "options: --lock "),
        ({"deadline": "25:00"}, "--deadline '25:00' "),
    ],
)
def test_a_configuration_that_is_wrong_is_one_line_and_touches_nothing(
    place: Place, run: Run, values: dict[str, object], message: str
) -> None:
    place.configure(**values)
    place.receive("news.en")
    said = run(status=2, mail=message)
    assert said.startswith(f"translate-incoming: error: {place.config}: ")
    assert said.count("\n") == 1
    assert list(place.content("incoming")) == ["news.en"]


def test_nmt_itself_answers_as_the_stand_in_does(
    place: Place, run: Run, model_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(translate_incoming, "NMT", [warm_python(), "-m", "nmt", "translate"])
    place.configure(model=str(model_file), options=[*QUICK])
    place.receive("news.en", b"the cat\n\na \xff dog\n")
    run(mail="1 translated (3 lines); 1 with warnings (news.en)")
    lines = place.content("outgoing")["news.en"].split(b"\n")
    assert [bool(line) for line in lines] == [True, False, True, False]
