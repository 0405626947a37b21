"""The text files of all splits: found, counted and checksummed before anything is written."""

from __future__ import annotations

import codecs
import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from nmt import console
from nmt.data.corpus import Encoding, ParallelText, read_chunks, read_lines
from nmt.data.manifest import CorpusRecord, FileRecord
from nmt.errors import DataError
from nmt.files import sha256_file
from nmt.prepare.options import PrepareOptions
from nmt.prepare.text import Block, read_blocks

# A larger share of bad lines means another encoding, not a few accidents.
_MAX_BAD_SHARE = 0.1
_MOST_LINES = 2**32 - 1  # shards keep line numbers in 32 bits


@dataclass(frozen=True)
class FileSurvey:
    """A text file that has been read once."""

    record: FileRecord
    lines: int
    text_bytes: int
    """Size of the text, uncompressed."""
    warnings: tuple[str, ...]
    """What is odd about its encoding."""
    stamp: tuple[int, int]
    """Size and modification time, to notice changes while we read."""


@dataclass(frozen=True)
class DrawnLines:
    """Lines that were drawn from other texts and have no file of their own."""

    src: bytes
    tgt: bytes
    tags: tuple[str, ...]
    """The tag of each line, from the text that it was drawn from."""


@dataclass(frozen=True)
class SourceText:
    """A parallel text whose two sides have the same number of lines."""

    text: ParallelText
    src: FileSurvey
    tgt: FileSurvey
    weight: float = 1.0
    """How often an epoch visits each of its pairs."""
    tag: str = ""
    """The tag put before each of its source lines."""
    drawn: DrawnLines | None = None
    """All of its lines, if it has no file."""

    @property
    def lines(self) -> int:
        return self.src.lines

    @property
    def text_bytes(self) -> int:
        return self.src.text_bytes + self.tgt.text_bytes

    @property
    def records(self) -> tuple[FileRecord, FileRecord]:
        return self.src.record, self.tgt.record

    def record(self, *, lines: int, rejected: Mapping[str, int]) -> CorpusRecord:
        """Return the record of the text, of which so many lines were read."""
        return CorpusRecord(
            prefix=self.text.prefix,
            src=self.src.record,
            tgt=self.tgt.record,
            lines=lines,
            kept=lines - sum(rejected.values()),
            rejected=rejected,
            weight=self.weight,
            tag=self.tag,
        )

    def tags(self, block: Block) -> Sequence[str]:
        """Return the tag of each source line of a block that was read."""
        return self.drawn.tags if self.drawn is not None else [self.tag] * block.lines

    def read(self, encoding: Encoding, *, corpus: int = 0, start: int = 1) -> Iterator[Block]:
        """Yield the lines from `start` on; DataError if a file has changed."""
        if self.drawn is not None:
            yield Block(corpus, 1, self.lines, self.drawn.src, self.drawn.tgt)
            return
        lines = start - 1
        for block in read_blocks(self.text, encoding, corpus=corpus, start=start):
            lines += block.lines
            yield block
        if lines != self.lines or (_stamp(self.text.src), _stamp(self.text.tgt)) != (
            self.src.stamp,
            self.tgt.stamp,
        ):
            raise DataError(
                f"{self.text.src} or {self.text.tgt} changed while it was read; run again"
            )


@dataclass(frozen=True)
class Sources:
    """The texts of every split."""

    train: tuple[SourceText, ...]
    valid: SourceText | None
    """None until it is drawn from train."""
    tests: Mapping[str, SourceText]
    """By the name of the split: `test-` and the last part of the prefix."""

    @property
    def held_out(self) -> tuple[SourceText, ...]:
        return (*((self.valid,) if self.valid else ()), *self.tests.values())

    @classmethod
    def survey(cls, options: PrepareOptions, encoding: Encoding) -> Sources:
        """Find the files of all prefixes and read each of them once.

        Raises:
            DataError: a file is missing, damaged or in another encoding, or the two sides of a
                text differ in their number of lines.
        """
        names: dict[str, str] = {}
        for prefix in options.test:  # a/test and b/test become test-test and test-test+2
            name = f"test-{Path(prefix).name}"
            same = sum(known.rpartition("+")[0] == name or known == name for known in names)
            names[f"{name}+{same + 1}" if same else name] = prefix
        valids = (options.valid,) if options.valid is not None else ()
        prefixes = (*options.train, *valids, *names.values())
        texts = [ParallelText.find(prefix, *options.langs) for prefix in prefixes]
        paths = [path for text in texts for path in (text.src, text.tgt)]
        surveys = _survey_all(paths, encoding, threads=options.processes)
        weights, tags = options.weights, options.tags
        sources = [
            replace(
                _pair_up(text, src, tgt),
                weight=weights.get(text.prefix, 1.0),
                tag=tags.get(text.prefix, ""),
            )
            for text, src, tgt in zip(texts, surveys[::2], surveys[1::2], strict=True)
        ]
        for survey in surveys:
            for warning in survey.warnings:
                console.warning(warning)
        n = len(options.train)
        tests = dict(zip(names, sources[n + len(valids) :], strict=True))
        return cls(tuple(sources[:n]), sources[n] if valids else None, tests)


def record_file(path: Path) -> FileRecord:
    """Return the name, size and SHA-256 of a file."""
    return FileRecord(path.name, path.stat().st_size, sha256_file(path))


def _survey_all(paths: Sequence[Path], encoding: Encoding, *, threads: int) -> list[FileSurvey]:
    total = sum(path.stat().st_size for path in paths)
    interrupted = threading.Event()
    with (
        console.Progress("Reading", total=total, unit="B") as bar,
        ThreadPoolExecutor(threads) as pool,
    ):

        def advance(size: int) -> None:
            if interrupted.is_set():
                raise InterruptedError
            bar.update(size)

        try:
            return list(pool.map(lambda path: _survey(path, encoding, advance), paths))
        finally:
            interrupted.set()  # else the pool would wait for threads with gigabytes still to read


def _survey(path: Path, encoding: Encoding, advance: Callable[[int], object]) -> FileSurvey:
    stamp = _stamp(path)
    sha256, size, told = hashlib.sha256(), 0, 0
    lines = text_bytes = 0
    last = b""
    own, utf8 = _Validity(encoding.line_codec), _Validity("utf-8")

    def watch(content: bytes) -> None:
        nonlocal size
        sha256.update(content)
        size += len(content)

    for chunk in read_chunks(path, encoding, watch=watch):
        lines += chunk.count(b"\n")
        text_bytes += len(chunk)
        last = chunk[-1:] or last
        own.look_at(chunk)
        if encoding.name != "utf-8":
            utf8.look_at(chunk)
        advance(size - told)
        told = size
    lines += last not in (b"", b"\n")  # a last line without a line feed counts
    if lines > _MOST_LINES:
        raise DataError(f"{path}: {lines:,} lines are more than {_MOST_LINES:,}; split the file")
    warnings = []
    if not own.ends_well():
        bad = _bad_lines(path, encoding)
        warnings.append(
            f"{path} line {bad[0]:,} is not valid {encoding.name} ({len(bad):,} of {lines:,} lines "
            "are not)"
        )
        if len(bad) > _MAX_BAD_SHARE * lines:
            raise DataError(f"{warnings[0]}; pass --encoding, for example --encoding windows-1252")
    if encoding.by_line and utf8.ends_well() and utf8.beyond_ascii:
        warnings.append(f"{path} is valid UTF-8 but is read as {encoding.name}; check --encoding")
    record = FileRecord(path.name, size, sha256.hexdigest())
    return FileSurvey(record, lines, text_bytes, tuple(warnings), stamp)


class _Validity:
    """Checks whether a stream of bytes is valid in an encoding, without splitting lines."""

    def __init__(self, name: str) -> None:
        self._decoder = codecs.getincrementaldecoder(name)()
        self._valid = True
        self.beyond_ascii = False

    def look_at(self, chunk: bytes, *, final: bool = False) -> None:
        if self._valid:
            try:
                text = self._decoder.decode(chunk, final)
            except UnicodeError:
                self._valid = False
            else:
                self.beyond_ascii = self.beyond_ascii or not text.isascii()

    def ends_well(self) -> bool:
        self.look_at(b"", final=True)
        return self._valid


def _bad_lines(path: Path, encoding: Encoding) -> list[int]:
    """Return the numbers of the lines that are not valid text."""
    lines = enumerate(read_lines(path, encoding), start=1)
    return [number for number, line in lines if encoding.decode(line, number=number) is None]


def _pair_up(text: ParallelText, src: FileSurvey, tgt: FileSurvey) -> SourceText:
    if src.lines != tgt.lines:
        raise DataError(
            f"{text.src} has {src.lines:,} lines and {text.tgt} has {tgt.lines:,}; both sides of "
            "a parallel text need one line for each pair"
        )
    return SourceText(text, src, tgt)


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns
