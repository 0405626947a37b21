"""A translation job: a stream, or files that a journal makes restartable.

`Job` reads, translates and writes. `converse` translates lines as they are typed. `deadline` stops
a job at a time of day.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import re
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from textwrap import shorten
from types import FrameType
from typing import Any, BinaryIO, NoReturn

from nmt import __version__, console
from nmt.console import counted
from nmt.data.compressed import is_compressed
from nmt.data.corpus import Encoding, read_chunks, refuse_binary
from nmt.data.words import has_letters
from nmt.errors import (
    EXIT_DONE,
    EXIT_FAILED,
    EXIT_STOPPED,
    DataError,
    HeldOff,
    MissingKernel,
    NMTError,
    Stopped,
    UsageError,
    WorkerDied,
    describe,
)
from nmt.files import atomic_writer, naming, write_text
from nmt.jobs.file_pairs import LineShard, count_lines, cut_lines
from nmt.jobs.journal import Journal
from nmt.jobs.lines import Line, LineReader, pipe_chunks
from nmt.jobs.options import JobOptions
from nmt.jobs.parallel import Pool, Translators
from nmt.jobs.stream import Counts, translate_stream
from nmt.markup.documents import Document, form_of
from nmt.pipeline import Pause
from nmt.translate.context import Before
from nmt.translate.options import TranslationConfig
from nmt.translate.output import RENDERS, Translation


@dataclass
class Job:
    """How text is read, translated and written."""

    config: TranslationConfig
    options: JobOptions
    start: Callable[[str | None], Translators]  # with a kernel; None: the fastest
    around: Callable[[Path], contextlib.AbstractContextManager[object]] = contextlib.nullcontext
    """Entered around the work on each output file."""
    _is_starting: bool = field(default=False, init=False)  # whether translators are being started
    _started: dict[str | None, Translators] = field(default_factory=dict, init=False)  # by kernel

    def __post_init__(self) -> None:
        self.encoding = Encoding.find(self.config.encoding)
        self.shard = LineShard.parse(self.options.shard)

    def translators(self, kernel: str | None = None) -> Translators:
        """Return the translators with a kernel, or with any. Start them if needed.

        Raises:
            MissingKernel: if this machine does not have the kernel.
        """
        kernel = kernel or next(iter(self._started), None)
        if kernel not in self._started:
            self._is_starting = True  # until one has started
            started = self.start(kernel)
            kernel = started.kernel
            self._started[kernel] = started
        self._is_starting = False
        return self._started[kernel]

    def translate_pipe(self, source: Path | None, output: Path | None) -> Counts:
        """Translate a pipe or device, which cannot be read or written twice.

        Args:
            source: a file, a pipe or a device; stdin if None.
            output: a pipe, a device or a file; stdout if None.

        Raises:
            UsageError: if an option needs files.
        """
        if output is not None and is_compressed(output):
            raise UsageError(
                f"{output}: the translation of a pipe cannot be compressed; use `| gzip > FILE`"
            )
        with contextlib.ExitStack() as leaving:
            out: BinaryIO
            if output is None:
                if sys.stdout is None:
                    raise UsageError("stdout is closed; name an --output")
                out = sys.stdout.buffer
            elif output.exists() and not output.is_file():
                leaving.enter_context(naming(output))  # also if closing fails on a full disk
                out = leaving.enter_context(output.open("wb"))
            else:
                out = leaving.enter_context(atomic_writer(output))

            def write(_read: bytes, written: bytes, _counts: Counts) -> None:
                with naming(output or "stdout"):
                    out.write(written)
                    out.flush()

            chunks: Iterator[bytes | Pause]
            if source is not None and form_of(source) is not None:
                written, counts = self._translate_document(source, source.read_bytes())
                write(b"", written, counts)
                self._warn_of_units(source, counts)
                return counts
            if source is not None and source.is_file():
                first, end = self._lines(source)
                chunks, counts = self._chunks(source, first, end), Counts(skipped=first)
                before = self._before(source, first)
                self._translate(
                    chunks, str(source), counts, write, total=end - first, before=before
                )
                return counts
            if source is None and sys.stdin is None:
                raise UsageError("stdin is closed; name an --input")
            stream = sys.stdin.buffer if source is None else source.open("rb")
            name, counts = str(source or "stdin"), Counts()
            chunks = pipe_chunks(leaving.enter_context(stream), self.encoding, name)
            self._translate(chunks, name, counts, write, total=None)
            return counts

    def translate_files(self, files: Sequence[tuple[Path, Path]]) -> tuple[list[Counts], int]:
        """Translate pairs of files one after the other. If one of several fails, the others go on.

        Returns:
            The counts of the translated files, and the exit status: `EXIT_FAILED` if a file
            failed, else `EXIT_STOPPED` if other jobs are working on some.

        Raises:
            NMTError: if the only file fails, or the error would affect every file.
        """
        done: list[Counts] = []
        status = EXIT_DONE
        _ = self._identity  # an unreadable model fails here, not once for each file
        for source, output in files:
            try:
                with self.around(output):
                    done.append(self.translate_file(source, output))
            except (NMTError, OSError) as error:
                held_off = isinstance(error, HeldOff)
                ends_all = isinstance(error, Stopped | WorkerDied | MissingKernel) and not held_off
                if len(files) == 1 or ends_all or self._is_starting:
                    raise
                if held_off:
                    console.warning(str(error))
                    status = status or EXIT_STOPPED
                else:
                    console.error(describe(error))
                    status = EXIT_FAILED
        return done, status

    def translate_file(self, source: Path, output: Path) -> Counts:
        """Translate a file, or continue where an earlier job stopped.

        Do nothing if the output is already complete, of this input, model and options. It appears
        when it is complete, and is compressed if its name says so. The counts include the work of
        earlier jobs.

        Raises:
            HeldOff: if another job is working on the output.
        """
        if form_of(source) is not None:
            return self._translate_document_file(source, output)
        with Journal(output) as journal:
            first, end = self._lines(source)
            _check_shard(output, journal.job(), self._identity)
            rest = journal.begin(self._identity, lambda: self._chunks(source, first, end))
            counts = Counts(**({"skipped": first} | journal.progress.counts))
            if rest is None:
                console.notice(f"{output}: already translated")
                self._warn_of_failures(str(source), counts)
                return counts
            if counts.lines:
                try:
                    self.translators(journal.kernel)
                    console.notice(f"{output}: continuing after line {first + counts.lines:,}")
                except MissingKernel as error:
                    console.notice(f"{output}: started elsewhere: {error}; starting again")
                    rest = journal.begin_again(lambda: self._chunks(source, first, end))
                    counts = Counts(skipped=first)
            journal.kernel = self.translators(journal.kernel).kernel
            self._translate(
                rest,
                str(source),
                counts,
                lambda read, written, done: journal.add(read, written, asdict(done)),
                total=end - first,
                kernel=journal.kernel,
                before=self._before(source, first + counts.lines),
            )
            journal.finish()
        return counts

    def _translate_document_file(self, source: Path, output: Path) -> Counts:
        """Translate a document. It is translated as a whole: a killed job begins it again."""
        with Journal(output) as journal:
            content = source.read_bytes()
            if journal.begin(self._identity, lambda: iter([content])) is None:
                console.notice(f"{output}: already translated")
            elif not journal.progress.counts:  # else only the last renaming is missing
                written, counts = self._translate_document(source, content)
                journal.kernel = self.translators().kernel
                journal.add(content, written, asdict(counts))
            counts = Counts(**journal.progress.counts)
            if not journal.progress.file_sha256:
                journal.finish()
        self._warn_of_units(source, counts)
        return counts

    def _translate_document(self, source: Path, content: bytes) -> tuple[bytes, Counts]:
        """Return a document translated, and the counts of its units. A failed unit stays."""
        document = Document.read(source, content, self.encoding)
        if document.kept:
            console.notice(
                f"{source}: {counted(document.kept, 'unit has', 'units have')} a translation "
                "already, which stays"
            )
        if document.lacks_language:
            console.warning(f"{source}: has no trgLang, which XLIFF 2 needs for targets; add it")
        lines = [Line(unit.line) for unit in document.units]
        size = self.options.pool_lines
        pools = (lines[first : first + size] for first in range(0, len(lines), size))
        counts = Counts()
        started = time.monotonic()
        found: list[Translation] = []
        with console.progress("translating", total=len(lines), unit="units") as bar:
            for translated in self.translators().translate(pools, bar.update):
                found += translated
        composes = self.translators().translator.pair.src_vocabulary.composes
        for line, translation in zip(lines, found, strict=True):
            counts.add(line, translation, composes=composes)
        counts.lines_out = counts.lines
        counts.seconds = time.monotonic() - started
        return document.write(None if one.error else one.text for one in found), counts

    def _warn_of_units(self, source: Path, counts: Counts) -> None:
        """Say what went wrong with the units of a document, also if that was in an earlier run."""
        if counts.cut_lines:
            console.warning(
                f"{source}: {counted(counts.cut_lines, 'unit has', 'units have')} too many tokens, "
                f"the first is unit {counts.first_cut_line:,}; long ones were split into segments"
            )
        counts.warn_of_decomposed(str(source), "unit")
        self._warn_of_terms(str(source), counts, "unit")
        if counts.failed_lines:
            console.warning(
                f"{source}: {counted(counts.failed_lines, 'unit', 'units')} could not be "
                f"translated, the first is unit {counts.first_failed_line:,}: "
                f"{counts.first_error}; the source stays"
            )

    @cached_property
    def _identity(self) -> dict[str, Any]:
        """Return everything that the output depends on besides the source, as JSON."""
        identity = self.config.identity() | {"version": __version__, "shard": str(self.shard)}
        return dict(json.loads(json.dumps(identity)))

    def _lines(self, source: Path) -> tuple[int, int]:
        """Return the first line of a file to translate, from 0, and the first line after the shard.

        Raises:
            DataError: if the file cannot be read.
        """
        try:
            chunks = read_chunks(source, self.encoding, any_bytes=True)
            total = count_lines(refuse_binary(source, chunks, self.encoding))
        except OSError as error:
            raise DataError(f"{source}: {error.strerror or error}") from None
        return self.shard.lines(total)

    def _chunks(self, source: Path, first: int, end: int) -> Iterator[bytes]:
        return cut_lines(read_chunks(source, self.encoding, any_bytes=True), first, end)

    def _before(self, source: Path, line: int) -> list[str]:
        """Return the lines of a file before this one, from 0, as far as they may be context."""
        first = max(0, line - self.config.context)
        chunks = iter(()) if first == line else self._chunks(source, first, line)
        reader = LineReader(chunks, name=str(source), encoding=self.encoding, lines_read=first)
        pools = reader.pools(max(1, line - first))
        return [one.text for pool in pools if not isinstance(pool, Pause) for one in pool]

    def _translate(
        self,
        chunks: Iterator[bytes | Pause],
        name: str,
        counts: Counts,
        write: Callable[[bytes, bytes, Counts], object],
        *,
        total: int | None,
        kernel: str | None = None,
        before: Sequence[str] = (),
    ) -> None:
        """Translate the lines of these bytes; before: the lines that come before them."""
        reader = LineReader(
            chunks,
            name=name,
            encoding=self.encoding,
            strict=self.config.strict,
            prefixes=self.config.prefixes,
            lines_read=counts.skipped + counts.lines,
            before=Before(self.config.context, before),
        )
        first: list[Line] = []
        translators = self.translators(kernel)
        with console.progress(
            "translating", total=total, unit="lines", initial=counts.lines
        ) as bar:
            translate_stream(
                lambda pools: translators.translate(_noting_first(pools, first), bar.update),
                reader,
                write,
                counts,
                render=RENDERS[self.config.form],
                pool_lines=self.options.pool_lines,
                composes=translators.translator.pair.src_vocabulary.composes,
            )
        if counts.invalid_lines:
            console.warning(
                f"{name}: {counted(counts.invalid_lines, 'line is', 'lines are')} not valid "
                f"{self.encoding.name}, the first is line {counts.first_invalid_line:,}; bad bytes "
                "became U+FFFD"
            )
        if counts.cut_lines:
            limit = translators.translator.pair.max_src_tokens
            what = " sentences of" if self.config.split else ""
            console.warning(
                f"{name}: {counted(counts.cut_lines, 'line has', 'lines have')}{what} more than "
                f"{limit} tokens, the first is line {counts.first_cut_line:,}; long ones were "
                "split into segments"
            )
        if counts.fell_back_lines:
            console.warning(
                f"{name}: {counted(counts.fell_back_lines, 'line was', 'lines were')} translated "
                "without the lines before, because the model gave another number of lines or a "
                f"loop; the first is line {counts.first_fell_back_line:,}"
            )
        self._warn_of_failures(name, counts)
        if self.options.attention is not None:
            if first:
                picture = translators.translator.draw_attention(first[0].text, first[0].prefix)
                write_text(Path(self.options.attention), picture)
            else:
                console.warning(f"{self.options.attention}: not drawn, because no line has letters")

    def _warn_of_failures(self, name: str, counts: Counts) -> None:
        counts.warn_of_decomposed(name)
        self._warn_of_terms(name, counts, "line")
        if counts.failed_lines:
            console.warning(
                f"{name}: {counted(counts.failed_lines, 'line', 'lines')} could not be translated "
                f"and left empty, the first is line {counts.first_failed_line:,}: "
                f"{counts.first_error}"
            )

    def _warn_of_terms(self, name: str, counts: Counts, what: str) -> None:
        if counts.lines_without_term:
            term = shorten(console.printable(counts.first_missing_term), 80, placeholder="...")
            number = counted(counts.lines_without_term, f"{what} lacks", f"{what}s lack")
            hint = "; --format jsonl shows all" if what == "line" else ""
            console.warning(
                f"{name}: {number} a term, the first is {what} "
                f"{counts.first_line_without_term:,}: {term}{hint}"
            )


def _noting_first(pools: Iterable[Pool | Pause], first: list[Line]) -> Iterator[Pool | Pause]:
    """Pass pools on, and remember the first line with letters."""
    for pool in pools:
        if not first and not isinstance(pool, Pause):
            first += [line for line in pool if has_letters(line.text)][:1]
        yield pool


def _check_shard(output: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Refuse to replace one shard by another: a journal that differs only in its shard."""
    if before and before != now and before | {"shard": None} == now | {"shard": None}:
        raise UsageError(
            f"{output}: holds shard {before['shard']} of this job; give shard {now['shard']} an "
            "output of its own, or remove this one"
        )


def converse(job: Job) -> Counts:
    """Translate lines typed on the terminal until Ctrl-D or Ctrl-C."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401 - with it, `input` has a history and keys to edit by

    translator = job.translators().translator
    composes = translator.pair.src_vocabulary.composes
    counts, before = Counts(), Before(job.config.context)
    while True:
        try:
            typed = input("> ")
        except (EOFError, KeyboardInterrupt):
            print()
            counts.warn_of_decomposed("the input")
            return counts
        source, _, prefix = typed.partition("\t") if job.config.prefixes else (typed, "", "")
        started = time.monotonic()
        context = before.take(source)
        (translation,) = translator.translate([source], [prefix], contexts=[context])
        counts.seconds += time.monotonic() - started
        answer = RENDERS[job.config.form](counts.lines, translation)
        print(*answer, sep="\n", flush=True)
        if translation.error:
            console.warning(translation.error)
        counts.lines_out += len(answer)
        counts.add(Line(source, prefix), translation, composes=composes)


_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")


def seconds_until(text: str, now: datetime.datetime) -> float:
    """Return the seconds until the next HH:MM; UsageError if it is not a time."""
    match = _CLOCK.fullmatch(text.strip())
    if not match:
        raise UsageError(
            f"--deadline {text!r} is not a time of day; give it as HH:MM, for example 06:30"
        )
    then = now.replace(hour=int(match[1]), minute=int(match[2]), second=0, microsecond=0)
    if then <= now:
        then += datetime.timedelta(days=1)
    return then.timestamp() - now.timestamp()  # right across a clock change


@contextlib.contextmanager
def deadline(text: str | None) -> Iterator[None]:
    """Raise Stopped inside the block at the time HH:MM, if one is given."""
    if text is None:
        yield
        return

    def stop(_number: int, _frame: FrameType | None) -> NoReturn:
        raise Stopped(f"--deadline {text} reached; run the same command again to continue")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds_until(text, datetime.datetime.now()))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
