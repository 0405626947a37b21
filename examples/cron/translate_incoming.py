"""Translate what arrives in a folder, unattended: one run, for cron or a systemd timer.

    python translate_incoming.py translate_incoming.toml [--quiet] [--verbose]

A file goes from incoming/ to working/NAME/. Then its translation goes to outgoing/ and the file to
done/, or the whole of working/NAME/ goes to failed/. Each step is one rename, and the folders show
which steps are done. So if a run is killed at any instant, the next one goes on. `nmt translate`
takes care of the lines of a file and of its journal.

This is Python and not a shell script, because file names may be any bytes, and because the standard
library has locks, signals of children and rotating logs.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import fcntl
import json
import logging
import logging.handlers
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import IO

try:
    from job import Job
    from settings import Config

    from nmt.console import printable
    from nmt.errors import (
        DISK_IS_FULL,
        EXIT_DONE,
        EXIT_FAILED,
        EXIT_STOPPED,
        EXIT_USAGE,
        UsageError,
    )
    from nmt.jobs.deadline import seconds_until
except ModuleNotFoundError as error:  # under cron, `python3` is the system's
    sys.exit(
        f"translate-incoming: error: {sys.executable}: {error}; start this with the Python that "
        "nmt is installed for"
    )

NMT: Sequence[str] = (sys.executable, "-P", "-m", "nmt", "translate")

LONG_SECONDS = 24 * 3600  # after which a run that has not ended is worth a mail, and another
LEAST_SECONDS = 60  # before the deadline: loading a model takes some
TOLD_BYTES = 800  # of a run's report: a line of mail has at most 998, with the log's path
# Text in every usual encoding, UTF-16 among them.
TRIAL = b"A trial\n"

log = logging.getLogger("translate-incoming")


class Halted(Exception):
    """The run ends early: by a signal, at the deadline, or because another job is at work."""


class Broken(Exception):
    """Nothing can be translated now, and it is not the fault of a file."""


@dataclass(frozen=True)
class Answer:
    """The result of `nmt translate`."""

    status: int
    said: list[str]  # on stderr
    has_written: bool  # the translation

    @property
    def has_failed(self) -> bool:
        return self.status != EXIT_DONE or not self.has_written

    @property
    def lines(self) -> int:
        """Of the input, as its summary counts them."""
        return sum(int(json.loads(line)["lines_in"]) for line in self.said if _is_summary(line))

    @property
    def warnings(self) -> list[str]:
        return [line for line in self.said if line.startswith("nmt: warning:")]

    @property
    def why(self) -> str:
        """The line that best explains the failure."""
        if self.status < 0:
            return f"nmt was killed by signal {-self.status}"
        if self.status == EXIT_DONE:
            return "nmt ended without a translation"
        errors = [line for line in self.said if line.startswith("nmt: error:")]
        lines = errors or self.warnings or self.said or ["nothing was said"]
        return f"exit status {self.status}: {printable(lines[-1])}"


@dataclass
class Tally:
    """The results of a run."""

    translated: int = 0
    lines: int = 0
    warned: list[str] = field(default_factory=list)  # names of files
    failed: list[str] = field(default_factory=list)
    given_up: list[str] = field(default_factory=list)
    broken: str = ""
    halted: str = ""

    @property
    def has_trouble(self) -> bool:
        return bool(self.warned or self.failed or self.given_up or self.broken)

    @property
    def status(self) -> int:
        if self.failed or self.given_up or self.broken:
            return EXIT_FAILED
        return EXIT_STOPPED if self.halted else EXIT_DONE

    def __str__(self) -> str:
        """The report in one line; empty if there is nothing to report."""
        parts = []
        if self.translated:
            parts.append(
                f"{self.translated:,} translated ({self.lines:,} line{'s' * (self.lines != 1)})"
            )
        if self.broken:
            parts.append(f"nothing can be translated: {self.broken}")
        if self.halted:
            parts.append(f"ended early: {self.halted}")
        for names, what in (
            (self.warned, "with warnings"),
            (self.failed, "failed, to be tried again"),
            (self.given_up, "given up, now in failed/"),
        ):
            if names:
                shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
                parts.append(f"{len(names):,} {what} ({shown})")
        return "; ".join(parts).encode()[:TOLD_BYTES].decode(errors="ignore")


class Run:
    """One run, with the lock held."""

    def __init__(self, config: Config, lock: IO[str]) -> None:
        self.config = config
        self.tally = Tally()
        self._lock = lock
        self._stopped_by = ""  # the name of a signal
        self._process: subprocess.Popen[str] | None = None
        self._deadline = float("inf")
        if config.deadline:
            self._deadline = time.time() + seconds_until(config.deadline, datetime.now())

    def stop(self, number: int, _frame: FrameType | None) -> None:
        """Handle a signal: let `nmt` save its work, and start nothing more."""
        self._stopped_by = signal.Signals(number).name
        if self._process is not None:
            self._process.terminate()

    def work(self) -> None:
        """Translate all files, and count them in the tally."""
        folders = sorted(self.config["working"].iterdir())
        begun = [Job(folder) for folder in folders if not folder.name.startswith(".")]
        try:
            for job in begun:
                if not job.has_source:  # a run was killed between two moves
                    with self._minding(job.name):
                        self._deliver(job)
            for name in self._settled():
                with self._minding(name):
                    self._take_and_translate(name)
            # Last, because one that stops every run would keep the others waiting forever.
            for job in begun:
                if job.has_source:
                    with self._minding(job.name):
                        self._translate(job)
        except Halted as halted:
            self.tally.halted = str(halted)
            log.info("ended early: %s", halted)
        except Broken as broken:
            self.tally.broken = str(broken)
            log.error("nothing can be translated: %s", broken)

    @contextlib.contextmanager
    def _minding(self, name: str) -> Iterator[None]:
        """Go on with the other files if one cannot be moved."""
        self._check_time()
        try:
            yield
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
                raise Broken(_describe(error, name)) from None
            self.tally.failed.append(printable(name))
            log.error("%s", _describe(error, name))

    def _check_time(self) -> None:
        if self._stopped_by:
            raise Halted(f"stopped by {self._stopped_by}")
        if self._deadline - time.time() < LEAST_SECONDS:
            raise Halted(f"the deadline {self.config.deadline} has come")

    def _settled(self) -> list[str]:
        """Return the names of files that nobody is writing to, oldest first."""
        found = []
        for entry in os.scandir(self.config["incoming"]):
            if entry.name.startswith("."):
                continue
            with contextlib.suppress(FileNotFoundError):
                # Not the time of modification, which a copy may keep or a clock far off may set.
                changed = entry.stat(follow_symlinks=False).st_ctime
                left = changed + self.config.settle_seconds - time.time()
                if left <= 0:
                    found.append((changed, entry.name))
                else:
                    name = printable(entry.name)
                    log.info("%s: waits for %.0f more seconds without a change", name, left)
        return [name for _, name in sorted(found)]

    def _take_and_translate(self, name: str) -> None:
        job = Job(self.config["working"] / name)
        if job.folder.exists():
            log.info("%s: waits for the one before it, which is in working/", printable(name))
        elif job.take(self.config["incoming"] / name):
            log.info("%s: taken", printable(name))
            self._translate(job)

    def _translate(self, job: Job) -> None:
        name = printable(job.name)
        if not job.is_regular:
            self._fail(job, "is not a regular file", for_good=True)
            return
        before = job.fingerprint()
        answer = self._nmt(job.source, job.translation, name)
        if answer.has_failed:
            if answer.why.endswith(DISK_IS_FULL):  # there may be room for a trial
                raise Broken(answer.why)
            self._try_whether_anything_works()
            self._fail(job, answer.why)
        elif job.fingerprint() != before:
            self._fail(job, "was changed while it was translated")
        else:
            self._deliver(job)
            self.tally.lines += answer.lines
            if answer.warnings:
                self.tally.warned.append(name)

    def _nmt(self, source: Path, translation: Path, name: str) -> Answer:
        """Run `nmt translate`; Halted if it was."""
        command = [*NMT, str(self.config.model), *self.config.options]
        command += ["--input", str(source), "--output", str(translation), "--summary"]
        if self.config.deadline:
            command += ["--deadline", self.config.deadline]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            # So that the lock is held as long as anything is at work, even if we are killed.
            pass_fds=[self._lock.fileno()],
        )
        if self._stopped_by:  # when there was nothing yet to pass it on to
            self._process.terminate()
        said = self._process.communicate()[1].splitlines()
        answer = Answer(self._process.returncode, said, translation.exists())
        self._process = None
        for line in said:
            log.info("%s: %s", name, _in_words(line) if _is_summary(line) else printable(line))
        if answer.status and self._stopped_by:
            raise Halted(f"stopped by {self._stopped_by}")
        if answer.status == EXIT_STOPPED:
            raise Halted(answer.why)
        return answer

    def _try_whether_anything_works(self) -> None:
        """Translate a line; Broken if that fails too, by model, options, memory or disk."""
        folder = self.config["working"] / ".trial"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        try:
            source = folder / "source"
            source.write_bytes(TRIAL)
            answer = self._nmt(source, folder / "translation", "trial of a line")
            if answer.has_failed:
                raise Broken(answer.why)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _fail(self, job: Job, why: str, *, for_good: bool = False) -> None:
        name, attempts = printable(job.name), job.failures() + 1
        if not for_good:
            why = f"attempt {attempts} of {self.config.max_attempts}: {why}"
        job.note_failure(f"{datetime.now():%Y-%m-%d %H:%M:%S} {why}")
        log.error("%s: %s", name, why)
        if for_good or attempts >= self.config.max_attempts:
            place = job.give_up(self.config["failed"])
            self.tally.given_up.append(name)
            log.error("%s: given up; it is in failed/%s", name, printable(place.name))
        else:
            self.tally.failed.append(name)

    def _deliver(self, job: Job) -> None:
        places = job.deliver(self.config["done"], self.config["outgoing"])
        for place in places:
            log.info("%s: now %s/%s", printable(job.name), place.parent.name, printable(place.name))
        if places:  # and not what was left when a run was killed before it had taken the file
            self.tally.translated += 1


def _is_summary(line: str) -> bool:
    return line.startswith("{")


def _in_words(summary: str) -> str:
    """Write for people what nmt sums up for programs."""
    values = json.loads(summary)
    lines = values["lines_in"]
    return f"{lines:,} line{'s' * (lines != 1)}, {values['failed']:,} failed"


def _describe(error: OSError, name: str) -> str:
    """Describe an error in a line, with its file, or `name` if the error has none."""
    return printable(f"{error.filename or name}: {error.strerror}")


def _held_off(config: Config, lock: IO[str]) -> int:
    """Report that another run is at work: by mail only once in `LONG_SECONDS`."""
    log.info("another run is at work")
    if time.time() - os.fstat(lock.fileno()).st_mtime > LONG_SECONDS:
        os.utime(lock.fileno())
        hours = LONG_SECONDS // 3600
        print(f"{log.name}: a run is at work for more than {hours} hours; log: {config.log_file}")
    return EXIT_STOPPED


def _write_log(config: Config) -> logging.Handler:
    """Return a handler that appends to the log file, and starts a new one if it is large."""
    handler = logging.handlers.RotatingFileHandler(
        config.log_file,
        maxBytes=config.log_bytes,
        backupCount=config.log_generations,
        encoding="utf-8",
        delay=True,  # a run without work makes none
    )
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%Y-%m-%d %H:%M:%S"))
    return handler


def run_once(config: Config, *, quiet: bool) -> int:
    """Do one run, unless another is at work; return the exit status."""
    config.make_folders()
    with (config["working"] / ".lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return _held_off(config, lock)
        os.utime(lock.fileno())
        handler = _write_log(config)
        log.addHandler(handler)
        try:
            run = Run(config, lock)
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                if signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
                    signal.signal(number, run.stop)
            run.work()
        finally:
            log.removeHandler(handler)
            with contextlib.suppress(OSError):  # if the disk is full
                handler.close()
    tally = run.tally
    if tally.has_trouble or (str(tally) and not quiet):
        print(f"{log.name}: {tally}; log: {config.log_file}")
    return tally.status


def main(words: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(prog=log.name, description="Translate what is in incoming/.")
    parser.add_argument("config", type=Path, metavar="CONFIG.toml")
    parser.add_argument("--quiet", action="store_true", help="speak only of what needs a look")
    parser.add_argument("--verbose", action="store_true", help="show the log on stderr as well")
    given = parser.parse_args(words)
    logging.raiseExceptions = False  # a full disk for the log is not a reason to stop
    log.setLevel(logging.INFO)
    log.handlers = [logging.StreamHandler() if given.verbose else logging.NullHandler()]
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        return run_once(Config.read(given.config), quiet=given.quiet)
    except UsageError as error:
        print(f"{log.name}: error: {error}", file=sys.stderr)
        return EXIT_USAGE
    except OSError as error:
        print(f"{log.name}: error: {_describe(error, str(given.config))}", file=sys.stderr)
        return EXIT_FAILED


if __name__ == "__main__":
    sys.exit(main())
