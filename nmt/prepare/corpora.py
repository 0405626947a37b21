"""The text files of all splits: found, counted and checksummed before anything is written."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import NamedTuple

from nmt import console
from nmt.data.corpus import Encoding
from nmt.data.language_tokens import spell_pair
from nmt.data.manifest import CorpusRecord, FileRecord, FlawRecord
from nmt.errors import DataError
from nmt.prepare.block import Block
from nmt.prepare.options import PrepareOptions
from nmt.prepare.readers.find import find_reader
from nmt.prepare.readers.line_files import Survey
from nmt.prepare.readers.reading import Reader, blocks_of, surveys_of
from nmt.tables.formats import file_and_columns, name_and_value

_BYTES_A_BYTE, _BYTES_A_PAIR = 0.6, 28
"""Disk space while a data folder is built: for each byte of text (a token takes two bytes and
covers about four), and for each pair (two offsets, a line number and two hashes)."""
_TEXT_BYTES_A_PAIR = 12
"""Disk space for each pair whose text is kept, beside the text: two offsets, a line number."""

_SIGNS = re.compile(r"[*?\[\]]+")  # of a pattern of files
_MOST_LINES = 2**32 - 1  # shards keep line numbers in 32 bits


class SourceText(NamedTuple):
    """A parallel text that has been read once."""

    prefix: str
    """Its name in messages and records: as the user gave it, without what a URL has of secrets."""
    reader: Reader
    langs: tuple[str, str]  # languages of source and target
    surveys: tuple[Survey, ...]  # of each side, or of both together
    stamps: tuple[tuple[int, int], ...]  # of its files, when it was read
    weight: float = 1.0  # how often an epoch visits each of its pairs
    tag: str = ""  # the tag put before each of its source lines
    line_tags: tuple[str, ...] = ()
    """The tag of each source line, if they differ: of lines that were drawn from several texts."""

    @property
    def lines(self) -> int:
        return self.surveys[0].lines

    @property
    def text_bytes(self) -> int:
        return sum(survey.text_bytes for survey in self.surveys)

    @property
    def records(self) -> tuple[FileRecord, FileRecord]:
        """The files of the source and of the target, which may be the same."""
        return self.surveys[0].record, self.surveys[-1].record

    def record(
        self, *, lines: int, rejected: Mapping[str, int], flaws: Sequence[FlawRecord] = ()
    ) -> CorpusRecord:
        """Return the record of the text, of which so many lines were read."""
        src, tgt = self.records
        return CorpusRecord(
            prefix=self.prefix,
            src=src,
            tgt=tgt,
            lines=lines,
            kept=lines - sum(rejected.values()),
            rejected=rejected,
            weight=self.weight,
            tag=self.tag,
            langs=self.langs,
            columns=self.reader.columns,
            quoted=self.reader.quoted,
            flaws=tuple(flaws),
        )

    def read(self, *, corpus: int = 0, start: int = 1) -> Iterator[Block]:
        """Yield the lines from `start` on; DataError if a file has changed."""
        lines = start - 1
        for block in blocks_of(self.reader, corpus=corpus, start=start):
            lines += block.lines
            yield replace(block, langs=self.langs, tag=self.tag)
        if lines != self.lines or stamps(self.reader.files) != self.stamps:
            src, tgt = self.reader.sides
            raise DataError(f"{src} or {tgt} changed while it was read; run again")


class Sources(NamedTuple):
    train: tuple[SourceText, ...]
    valids: tuple[SourceText, ...]
    """One for each pair of languages; empty until they are drawn from train."""
    tests: Mapping[str, SourceText]
    """By the name of the split: `test-` and the last part of the prefix."""

    @property
    def held_out(self) -> tuple[SourceText, ...]:
        return (*self.valids, *self.tests.values())

    def space_needed(self, options: PrepareOptions) -> int:
        """Return an upper estimate of the bytes that a data folder takes while it is built."""
        train_bytes = sum(text.text_bytes for text in self.train)
        pairs = sum(text.lines for text in self.train)
        held_out_bytes = sum(text.text_bytes for text in self.held_out)
        kept_text = train_bytes + _TEXT_BYTES_A_PAIR * pairs if options.keep_text else 0
        visits = (1 + options.lines_a_pair) / 2  # of each line, on average
        ids = int(_BYTES_A_BYTE * visits * train_bytes + _BYTES_A_PAIR * pairs)
        return ids + kept_text + 2 * held_out_bytes + (1 << 22)

    @classmethod
    def survey(
        cls, options: PrepareOptions, encoding: Encoding, copies: Mapping[str, Path] = {}
    ) -> Sources:
        """Find the files of all texts and read each of them once.

        copies: of stdin and of URLs, by name.
        DataError: a file is missing, damaged or in another encoding, or the two sides of a text
        differ in their number of lines.
        """
        names: dict[str, str] = {}
        for text in options.test:  # a/test and b/test become test-test and test-test+2
            file, _ = file_and_columns(console.without_secrets(options.prefix_of(text)))
            name = f"test-{_SIGNS.sub('_', Path(file).name)}"
            if options.pair:
                name += f".{spell_pair(options.langs_of(text))}"
            others = (f"{name}+{number}" for number in count(2))
            names[next(new for new in chain([name], others) if new not in names)] = text
        train = options.train or options.pair
        n, texts = len(train), [*train, *options.valid, *names.values()]
        splits = ["train"] * n + ["valid"] * len(options.valid) + ["test"] * len(names)
        quotings = dict(map(name_and_value, options.quoting))
        find = partial(find_reader, encoding=encoding, documents=options.documents, copies=copies)
        readers = [
            find(prefix, langs, quoting=quotings.get(file_and_columns(prefix)[0], ""), split=split)
            for (prefix, langs), split in zip(options.texts, splits, strict=True)
        ]
        surveys = _survey_all(readers, threads=options.threads)
        weights, tags = options.weights, options.tags
        sources = []
        for index, (text, reader, survey) in enumerate(zip(texts, readers, surveys, strict=True)):
            name = file_and_columns(text)[0]
            read = reader, options.langs_of(text), survey, stamps(reader.files)
            weight = weights.get(name, 1.0) if index < n else 1.0
            source = SourceText(console.without_secrets(text), *read, weight, tags.get(name, ""))
            _check(source)
            sources.append(source)
        # Of equal pairs the first one stays, which should be one of the largest weight.
        by_weight = sorted(sources[:n], key=lambda source: -source.weight)
        valids = n + len(options.valid)
        tests = dict(zip(names, sources[valids:], strict=True))
        return cls(tuple(by_weight), tuple(sources[n:valids]), tests)


def stamps(files: Sequence[Path]) -> tuple[tuple[int, int], ...]:
    """Return size and modification time of each file, to notice changes while we read."""
    return tuple((status.st_size, status.st_mtime_ns) for status in (path.stat() for path in files))


def _survey_all(readers: Sequence[Reader], *, threads: int) -> list[tuple[Survey, ...]]:
    total = sum(path.stat().st_size for reader in readers for path in reader.files)
    interrupted = threading.Event()
    with (
        console.progress("Reading", total=total, unit="B") as bar,
        ThreadPoolExecutor(threads) as executor,
    ):

        def advance(size: int) -> None:
            if interrupted.is_set():
                raise InterruptedError
            bar.update(size)

        try:
            under_way = [
                [executor.submit(survey, advance) for survey in surveys_of(reader)]
                for reader in readers
            ]
            return [tuple(job.result() for job in of_reader) for of_reader in under_way]
        finally:
            interrupted.set()  # else it would wait for threads with gigabytes still to read


def _check(source: SourceText) -> None:
    first, last = source.surveys[0], source.surveys[-1]
    src, tgt = source.reader.sides
    if first.lines != last.lines:
        raise DataError(
            f"{src} has {first.lines:,} lines and {tgt} has {last.lines:,}; both sides of "
            "a parallel text need one line for each pair"
        )
    if first.lines > _MOST_LINES:
        raise DataError(
            f"{source.prefix}: {first.lines:,} lines are more than {_MOST_LINES:,}; split the file"
        )
    for warning in chain.from_iterable(survey.warnings for survey in source.surveys):
        console.warning(warning)
