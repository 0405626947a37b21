"""A translation job: a stream, or files that a journal makes restartable.

Documents and lines that are typed are in `document_job.py` and `terminal.py`.
"""

from __future__ import annotations

import contextlib
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from nmt import __version__, console, errors
from nmt.data.compressed import is_compressed
from nmt.data.corpus import Encoding, read_chunks, refuse_binary
from nmt.data.words import has_letters
from nmt.jobs.counts import Counts
from nmt.jobs.file_pairs import count_lines
from nmt.jobs.journal import Journal
from nmt.jobs.lines import Line, LineReader, pipe_chunks
from nmt.jobs.options import JobOptions
from nmt.jobs.parallel import Pool, Translators, check_unchanged
from nmt.jobs.stream import translate_stream
from nmt.jobs.table_job import translate_table
from nmt.markup.file_types import (
    AS_LINES,
    FileType,
    document_type,
    is_document,
    odd_lines,
    type_of_content,
)
from nmt.system.files import atomic_writer, naming, write_text
from nmt.system.prefetch import Pause
from nmt.tables.formats import TSV, suffix_of
from nmt.translate.context import Before
from nmt.translate.contradictions import DOCUMENT, EXPORT, Given, refuse_contradictions
from nmt.translate.options import TranslationConfig
from nmt.translate.output import RENDERS

_TOO_LONG = "too many tokens"  # when the model's limit is not known
_ENDS_ALL = errors.Stopped, errors.WorkerDied, errors.MissingKernel  # the work on all files


@dataclass
class Job:
    config: TranslationConfig
    options: JobOptions
    given: Given  # the options of both, and circumstances
    start: Callable[[str | None], Translators]  # with a kernel; None: the fastest
    around: Callable[[Path], contextlib.AbstractContextManager[object]] = contextlib.nullcontext
    """Entered around the work on each output file."""
    columns: tuple[str, str] | None = None  # of a table: what is read, and what is written
    _is_starting: bool = field(default=False, init=False)  # whether translators are being started
    _started: dict[str | None, Translators] = field(default_factory=dict, init=False)  # by kernel

    def __post_init__(self) -> None:
        self.encoding = Encoding.find(self.config.encoding)

    def translators(self, kernel: str | None = None) -> Translators:
        """Return the translators with a kernel (MissingKernel), or any. Start them if needed."""
        kernel = kernel or next(iter(self._started), None)
        if kernel not in self._started:
            self._is_starting = True  # until one has started
            _ = self._identity
            started = self.start(kernel)
            check_unchanged(self.config, self._identity)
            kernel = started.kernel
            self._started[kernel] = started
        self._is_starting = False
        return self._started[kernel]

    def translate_pipe(self, source: Path | None, output: Path | None) -> Counts:
        """Translate a pipe, device or file; None is stdin or stdout (UsageError)."""
        if output is not None and is_compressed(output):
            raise errors.UsageError(
                f"{output}: the translation of a pipe cannot be compressed; use `| gzip > FILE`"
            )
        with contextlib.ExitStack() as leaving:
            out: BinaryIO
            if output is None:
                if console.stdout() is None:
                    raise errors.UsageError("stdout is closed; name an --output")
                out = console.stdout().buffer
            elif output.exists() and not output.is_file():
                leaving.enter_context(naming(output))  # also if closing fails on a full disk
                out = leaving.enter_context(output.open("wb"))
            else:
                out = leaving.enter_context(atomic_writer(output))

            def write(_read: bytes, written: bytes, _counts: Counts) -> None:
                with naming(output or "stdout"):
                    out.write(written)
                    out.flush()

            if source is not None and (kind := self._document_type(source)):
                written, counts = self._translate_content(kind, source, source.read_bytes())
                write(b"", written, counts)
                self._warn(counts, source, "unit")
                return counts
            if source is not None and source.is_file():
                total, counts = self._count_lines(source), Counts()
                self._translate(self._chunks(source), str(source), counts, write, total=total)
                return counts
            if source is None and sys.stdin is None:
                raise errors.UsageError("stdin is closed; name an --input")
            stream = sys.stdin.buffer if source is None else source.open("rb")
            name, counts = str(source or "stdin"), Counts()
            chunks = pipe_chunks(leaving.enter_context(stream), self.encoding, name)
            self._translate(chunks, name, counts, write, total=None)
            return counts

    def translate_files(self, files: Sequence[tuple[Path, Path]]) -> tuple[list[Counts], int, int]:
        """Translate pairs of files one after the other. If one of several fails, the others go on.

        What other jobs are working on is looked at again after the rest: they may be done with it,
        or have been killed. So the last of several jobs sees that nothing is left. Returns the
        counts of the translated files, how many files failed, and how many are left to other jobs,
        which are working on them. NMTError if the only file fails, or the error would affect every
        file.
        """
        done: list[Counts] = []
        failed = 0
        _ = self._identity  # an unreadable model fails here, not once for each file
        if len(files) > 1 and EXPORT in self.given and self.config.markup != AS_LINES:
            documents = [source for source, _ in files if is_document(source)]
            if documents:
                console.warning(
                    f"{len(documents):,} of {len(files):,} files are documents, such as "
                    f"{documents[0]}, which need the model file instead of its export"
                )
        left, held = files, dict[tuple[Path, Path], errors.HeldOff]()
        while left:
            for source, output in left:
                try:
                    with self.around(output):
                        done.append(self.translate_file(source, output))
                except errors.HeldOff as error:
                    if len(files) == 1 or self._is_starting:
                        raise
                    held[source, output] = error
                except Exception as error:
                    if len(files) == 1 or self._is_starting or isinstance(error, _ENDS_ALL):
                        raise
                    console.error(_of_file(source, error))
                    failed += 1
            if len(held) == len(left):
                for reason in held.values():
                    console.warning(str(reason))
                break
            left, held = list(held), {}
        if edited := sum(counts.edited for counts in done):
            console.notice(
                f"left {console.counted(edited, 'output', 'outputs')} alone, changed or written by "
                "somebody else; --overwrite replaces such files"
            )
        return done, failed, len(held)

    def translate_file(self, source: Path, output: Path) -> Counts:
        """Translate a file, or continue where an earlier job stopped.

        Do nothing if the output is already complete, of this input, model and options, or if it is
        the work of somebody else. It appears when it is complete, and is compressed if its name
        says so. The counts include the work of earlier jobs. HeldOff if another job is working on
        the output.
        """
        if self.columns:
            identity = self._identity | {"columns": [*self.columns]}
            content = b"".join(self._chunks(source))
            return self._translate_whole(source, output, identity, content, None)
        if kind := self._document_type(source):
            identity, content = self._identity | {"markup": kind.markup}, source.read_bytes()
            return self._translate_whole(source, output, identity, content, kind)
        with Journal(output) as journal:
            if not self.options.overwrite and journal.is_edited():
                return _left(source, output)
            total = self._count_lines(source)
            if (recorded := journal.job()) and recorded != self._identity:
                console.notice(
                    f"{output}: was translated by another model or version, or with other "
                    "options; starting afresh"
                )
            rest = journal.begin(self._identity, lambda: self._chunks(source))
            counts = replace(journal.progress.counts)
            if rest is None:
                console.notice(f"{output}: already translated")
                self._warn(counts, source)
                return counts
            if counts.lines:
                try:
                    self.translators(journal.kernel)
                    console.notice(f"{output}: continuing after line {counts.lines:,}")
                except errors.MissingKernel as error:
                    console.notice(f"{output}: started elsewhere: {error}; starting again")
                    rest = journal.begin_again(lambda: self._chunks(source))
                    counts = Counts()
            kernel = journal.kernel = self.translators(journal.kernel).kernel
            before = self._before(source, counts.lines)
            self._translate(
                rest, str(source), counts, journal.add, total=total, kernel=kernel, before=before
            )
            journal.finish()
        return counts

    def _document_type(self, source: Path) -> FileType | None:
        """Return the type of a document (DataError, UsageError); None if a file is lines."""
        is_lines = self.config.markup == AS_LINES or (
            self.config.prefixes and suffix_of(source.name) == TSV.suffix
        )
        kind = None if is_lines else document_type(source)
        if kind is not None:
            refuse_contradictions({**self.given, DOCUMENT: f"the document {source}"})
        return kind

    def _translate_whole(
        self,
        source: Path,
        output: Path,
        identity: dict[str, Any],
        content: bytes,
        kind: FileType | None,
    ) -> Counts:
        """Translate a document or table as a whole: a killed job begins it again."""
        with Journal(output) as journal:
            if not self.options.overwrite and journal.is_edited():
                return _left(source, output)
            if journal.begin(identity, lambda: iter([content])) is None:
                console.notice(f"{output}: already translated")
            elif not journal.progress.input_bytes:  # else only the last renaming is missing
                written, counts = self._translate_content(kind, source, content)
                journal.kernel = self.translators().kernel
                journal.add(content, written, counts)
            counts = journal.progress.counts
            if not journal.progress.file_sha256:
                journal.finish()
        # Also if that was in an earlier run.
        self._warn(counts, source, "paragraph" if self.columns else "unit")
        return counts

    def _translate_content(
        self, kind: FileType | None, source: Path, content: bytes
    ) -> tuple[bytes, Counts]:
        """Translate a document of a type; None: a table."""
        translate: Callable[..., tuple[bytes, Counts]]
        if kind is None:
            assert self.columns is not None
            translate = partial(translate_table, columns=self.columns)
        else:
            from nmt.jobs.document_job import translate_document  # compiles patterns of documents

            translate = partial(translate_document, kind=kind)
        lines, start = self.options.pool_lines, self.translators
        return translate(source, content, encoding=self.encoding, pool_lines=lines, start=start)

    @cached_property
    def _identity(self) -> dict[str, Any]:
        """Return everything that the output depends on besides the source, as JSON."""
        return self.config.identity() | {"version": __version__}

    def _count_lines(self, source: Path) -> int:
        """Return the number of a file's lines (DataError)."""
        try:
            return count_lines(refuse_binary(source, self._chunks(source), self.encoding))
        except OSError as error:
            raise errors.DataError(f"{source}: {error.strerror or error}") from None

    def _chunks(self, source: Path) -> Iterator[bytes]:
        return read_chunks(source, self.encoding, any_bytes=True)

    def _warn(
        self, counts: Counts, name: Path | str, unit: str = "line", *, too_long: str = _TOO_LONG
    ) -> None:
        """Warn about what was not as it should be, and tell the quality if that is asked for."""
        encoding = "" if unit == "unit" else self.encoding.name
        lines = self.config.calibration.lines if self.config.calibration else 0
        counts.warn(str(name), unit, encoding=encoding, too_long=too_long, calibrated=lines)

    def _before(self, source: Path, line: int) -> Sequence[str]:
        """Return the lines of a file before this one, from 0, as far as they may be context."""
        if not self.config.context:
            return ()
        reader = LineReader(self._chunks(source), name=str(source), encoding=self.encoding)
        lines = (
            one.text for pool in reader.pools(1) if not isinstance(pool, Pause) for one in pool
        )
        return deque(islice(lines, line), maxlen=self.config.context)

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
        if self.config.markup is None and not self.config.prefixes:
            chunks = _warning_of_tags(chunks, name)
        reader = LineReader(
            chunks,
            name=name,
            encoding=self.encoding,
            strict=self.config.strict,
            prefixes=self.config.prefixes,
            lines_read=counts.lines,
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
                composes=translators.translator.language_pair.src_vocabulary.composes,
            )
        limit = translators.translator.language_pair.max_src_tokens
        whose = "sentences of " if self.config.split else ""
        self._warn(counts, name, too_long=f"{whose}more than {limit} tokens")
        if self.options.attention is not None:
            if first:
                picture = translators.translator.draw_attention(
                    first[0].text, first[0].prefix, all_heads=self.options.all_heads
                )
                write_text(Path(self.options.attention), picture)
            else:
                console.warning(f"{self.options.attention}: not drawn, because no line has letters")


def _left(source: Path, output: Path) -> Counts:
    """Leave an output that is the work of somebody else, and warn if its input is newer."""
    if source.stat().st_mtime > output.stat().st_mtime:
        console.warning(
            f"{output}: stays, because somebody else changed or wrote it; but {source} is newer: "
            "bring the output up to date, or pass --overwrite"
        )
    return Counts(edited=1)


def _of_file(source: Path, error: Exception) -> str:
    """Return the message of an error that ended the work on a file."""
    if isinstance(error, errors.NMTError | OSError):
        return errors.describe(error)
    if errors.is_of_memory(error):
        return f"{source}: out of memory; split it, or give the job more memory"
    console.fault(error)
    return f"{source}: failed by a fault of nmt; please report the {type(error).__name__} above"


def _noting_first(pools: Iterable[Pool | Pause], first: list[Line]) -> Iterator[Pool | Pause]:
    """Pass pools on, and remember the first line with letters."""
    for pool in pools:
        if not first and not isinstance(pool, Pause):
            first += [line for line in pool if has_letters(line.text)][:1]
        yield pool


def _warning_of_tags(chunks: Iterator[bytes | Pause], name: str) -> Iterator[bytes | Pause]:
    """Pass chunks on, and warn if they begin with what is not only text."""
    has_begun = False
    for chunk in chunks:
        if not has_begun and not isinstance(chunk, Pause):
            has_begun = True
            if kind := type_of_content(chunk):
                way = "give it as --input FILE" if kind.markup else kind.way
                console.warning(
                    f"{name}: looks like {kind.name}, but is translated as lines of text; {way}"
                )
            elif odd := odd_lines(chunk):
                what, way = odd
                console.warning(
                    f"{name}: most lines have {what}, which are translated like words; {way}"
                )
        yield chunk
