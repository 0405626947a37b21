"""Writing the splits of a data folder: shards, and their records for `dataset.json`.

- `HeldOutText` is valid or a test set. Its text is checked, not cleaned: an unusable line is an
  error.
- `TrainSplit` sends blocks to the workers and takes the results back in order. The main process
  does only what depends on the order: find duplicates, count rejects, fill shards. A shard ends
  with the block that fills it, so that a killed run can resume with the next block.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import repeat
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nmt import console
from nmt.data import manifest
from nmt.data.folder import TEXT, PairDataset
from nmt.data.language_tokens import tagged
from nmt.data.languages import primary_language
from nmt.data.shards import TEXT_BYTES, Shard, ShardBuilder
from nmt.data.word_ids import Subwords
from nmt.errors import DataError
from nmt.prepare.block import KEPT, Block, Hashes, Judgements, Mask, Misfit, Overlaps, Pairs
from nmt.prepare.block_steps import IDS, EncodedBlock
from nmt.prepare.cleaning_options import CleaningOptions
from nmt.prepare.corpora import SourceText
from nmt.prepare.duplicates import (
    NEAR_COPY,
    OVERLAP_UNIT,
    SAME,
    HeldOutLines,
    SeenHashes,
    line_overlaps,
    pair_keys,
)
from nmt.prepare.filters import CODES
from nmt.prepare.fixes import examine
from nmt.prepare.options import PrepareOptions
from nmt.prepare.reject_report import warn_of_flaws
from nmt.prepare.resume import Progress, hashed_rule, read_hashes, write_hashes, write_progress
from nmt.prepare.text_checks import misfit, warn_of_misfit
from nmt.system.files import write_text
from nmt.system.workers import map_in_order

_WORTH_A_WARNING = 0.2  # of the pairs of valid or test


def write_shard(
    path: Path, builder: ShardBuilder, *, corpus: int = 0, marker: int | None = None
) -> manifest.ShardRecord:
    """Write the pairs of a builder, all from one corpus, as a shard.

    marker: the id that begins an annotation, if there are some.
    """
    builder.write(path, corpus=corpus)
    shard = Shard.open(path)
    counts = np.zeros(0) if marker is None else shard.count_in_sources(marker)
    return manifest.ShardRecord(
        **asdict(manifest.record_file(path)),
        corpus=shard.corpus,
        pairs=len(shard),
        src_tokens=shard.src_tokens,
        tgt_tokens=shard.tgt_tokens,
        annotations=int(counts.sum()),
        annotated=int(np.count_nonzero(counts)),
    )


def split_record(
    folder: Path,
    name: str,
    shards: Sequence[manifest.ShardRecord],
    corpora: Sequence[manifest.CorpusRecord],
    *,
    separator: int | None = None,
) -> manifest.SplitRecord:
    """Return the record of a split whose shards are all written, without its other files.

    separator: the token between the lines of a window, if pairs are windows.
    """
    pairs = PairDataset([Shard.open(folder / shard.name) for shard in shards])
    src_counts, tgt_counts = pairs.length_counts()
    return manifest.SplitRecord(
        name=name,
        pairs=len(pairs),
        src=_statistics(src_counts),
        tgt=_statistics(tgt_counts),
        corpora=tuple(corpora),
        shards=tuple(shards),
        windows=() if separator is None else tuple(pairs.window_counts(separator)),
    )


def _statistics(counts: npt.NDArray[np.int64]) -> manifest.LengthRecord:
    """Return the length statistics; counts: how many sides have 0, 1, 2 ... tokens."""
    pairs = int(counts.sum())
    tokens = int(counts @ np.arange(len(counts)))
    return manifest.LengthRecord(
        tokens=tokens,
        mean=round(tokens / pairs, 3) if pairs else 0.0,
        # Half of the sides have at most the median's tokens.
        median=int(np.searchsorted(counts.cumsum(), (pairs + 1) // 2)),
        longest=int(counts.nonzero()[0].max(initial=0)),
    )


class HeldOutText(NamedTuple):
    """A text for valid or test, every line of which can be used.

    With `--documents`, the text may have lines that are blank on both sides, which end documents.
    Such lines are in its raw text, and no pairs.
    """

    source: SourceText
    raw: tuple[list[str], list[str]]  # source and target as they are written
    lines: tuple[list[str], list[str]]  # the same, repaired as in train
    pairs: frozenset[frozenset[str]]  # the keys of whole pairs, of any length
    breaks: Mask  # (lines,) which of them end a document
    nearest: Overlaps = np.zeros(0, np.int16)
    """The overlap of each line with train, once train is written."""

    @classmethod
    def read(cls, source: SourceText, *, documents: bool, fix: Sequence[str] = ()) -> HeldOutText:
        """Read the text; DataError names the first unusable line.

        fix: what is repaired in train, and so in the lines that train must not repeat.
        """
        raw: tuple[list[str], list[str]] = ([], [])
        repaired: tuple[list[str], list[str]] = ([], []) if fix else raw
        breaks = [np.zeros(0, np.bool_)]
        found: Misfit | None = None
        before: Block | None = None
        for lines in map(Pairs.decode, source.read()):
            block = lines.block
            if found is None and (found := misfit(lines)):
                warn_of_misfit(source, found, block, before)
            before = block
            are_bad = lines.src.is_bad | lines.tgt.is_bad
            are_breaks = (lines.longer == 0) & documents & ~are_bad
            breaks.append(are_breaks)
            if block.missing:
                raise DataError(
                    f"{source.prefix} row {min(block.missing):,} lacks a side; every row of valid "
                    "and test is kept, so remove it"
                )
            for where, side in zip(_places(source), lines.sides, strict=True):
                name = block.encoding.name
                _refuse(where, block.number, side.is_bad, f"is not valid {name}", "fix it")
                is_blank = (side.visible == 0) & ~are_breaks
                _refuse(where, block.number, is_blank, "is blank", "remove the pair")
            for side, text in zip(lines.sides, raw, strict=True):
                text += side.lines
            if fix:
                for side, text in zip(examine(lines, fix)[0].sides, repaired, strict=True):
                    text += side.lines
        are_breaks = np.concatenate(breaks)
        if are_breaks.all():
            raise DataError(" and ".join(source.reader.sides) + " are empty")
        return cls(source, raw, repaired, frozenset(pair_keys(*repaired)), are_breaks)

    def write(
        self, folder: Path, stem: str, subwords: Subwords, corpus: int
    ) -> manifest.ShardRecord:
        """Write STEM.bin, the shard of the text, and its raw lines."""
        source, tgt = self.source, self.raw[1]
        src = list(map(tagged, self.raw[0], source.line_tags or repeat(source.tag)))
        rows = subwords.encode(src, tgt, source.langs)
        are_pairs = ~self.breaks
        for where, side in zip(_places(source), rows, strict=True):
            _refuse(where, 1, are_pairs & (side.lengths == 0), "has no tokens", "remove the pair")
        builder = ShardBuilder(token_bytes=subwords.token_bytes)
        src_rows, tgt_rows = (side.select(are_pairs) for side in rows)
        builder.extend(src_rows, tgt_rows, 1 + np.flatnonzero(are_pairs))
        for path, lines in zip(self.text_files(folder, stem), (src, tgt), strict=True):
            write_text(path, "".join(f"{line}\n" for line in lines))
        return write_shard(folder / f"{stem}.bin", builder, corpus=corpus)

    def faults(self, others: Sequence[HeldOutText]) -> Iterator[str]:
        """Yield what makes scores on this text say little.

        others: texts that should have other pairs.
        """
        src, tgt = map(primary_language, self.source.langs)
        copies = (line_overlaps(*self.lines) >= NEAR_COPY).sum() if src != tgt else 0
        pairs = self.source.lines - int(self.breaks.sum())
        found = {
            "have a target that equals or nearly copies its source; is it translated?": copies,
            "repeat an earlier pair; remove them": pairs - len(self.pairs) + self.breaks.any(),
            "have a side that stands in train, so scores on it flatter; see the far half of "
            "`nmt evaluate`": (self.nearest >= SAME).sum(),
        }
        for other in others:
            also = f"stand in {other.source.prefix}, too; choose by one text, and test on another"
            found[also] = len(self.pairs & other.pairs)
        for fault, count in found.items():
            if count >= _WORTH_A_WARNING * pairs:
                yield f"{self.source.prefix}: {count:,} of {pairs:,} pairs {fault}"

    def text_files(self, folder: Path, stem: str) -> list[Path]:
        """Return the files of the raw lines, source and target."""
        return [folder / f"{stem}.{lang}" for lang in self.source.langs]

    def record(self) -> manifest.CorpusRecord:
        """Return the record of the text."""
        rejected = {"break": int(self.breaks.sum())} if self.breaks.any() else {}
        record = self.source.record(lines=self.source.lines, rejected=rejected)
        of_pairs = self.nearest[~self.breaks]
        same, near = ((of_pairs >= least).sum() for least in (SAME, NEAR_COPY))
        median = round(float(np.median(np.minimum(of_pairs, OVERLAP_UNIT))) / OVERLAP_UNIT, 3)
        return replace(record, overlap=manifest.OverlapRecord(int(same), int(near - same), median))


def with_nearest(texts: Sequence[HeldOutText], nearest: Overlaps) -> list[HeldOutText]:
    """Return texts with their overlaps, given those of all their lines."""
    parts = np.split(nearest, np.cumsum([text.source.lines for text in texts])[:-1])
    return [text._replace(nearest=part) for text, part in zip(texts, parts, strict=True)]


def write_held_out(
    folder: Path, name: str, texts: Mapping[str, HeldOutText], subwords: Subwords
) -> manifest.SplitRecord:
    """Write a split for valid or test: a shard, raw lines and overlaps of each text by its stem."""
    shards = [
        text.write(folder, stem, subwords, corpus)
        for corpus, (stem, text) in enumerate(texts.items())
    ]
    corpora = [text.record() for text in texts.values()]
    files = [path for stem, text in texts.items() for path in text.text_files(folder, stem)]
    overlaps = [folder / f"{stem}.overlap" for stem in texts]
    for path, text in zip(overlaps, texts.values(), strict=True):
        shares = np.minimum(text.nearest, OVERLAP_UNIT) / OVERLAP_UNIT
        write_text(path, "".join(f"{share:.4f}\n" for share in shares))
    records, of_lines = (tuple(map(manifest.record_file, paths)) for paths in (files, overlaps))
    return replace(split_record(folder, name, shards, corpora), text=records, overlaps=of_lines)


def index_lines(
    texts: Sequence[HeldOutText], train: Sequence[SourceText]
) -> dict[str, HeldOutLines]:
    """Return the lines of texts by language, to be compared with those of train."""
    indices = {}
    for lang in dict.fromkeys(lang for text in texts for lang in text.source.langs):
        lines, numbers, first = list[str](), list[int](), 0
        for text in texts:
            for of_side, of_lines in zip(text.source.langs, text.lines, strict=True):
                if of_side == lang:
                    lines += of_lines
                    numbers += range(first, first + len(of_lines))
            first += text.source.lines
        of_train = [text for text in train if lang in text.langs]
        indices[lang] = HeldOutLines.of(
            lines,
            np.array(numbers),
            train_lines=sum(text.lines for text in of_train),
            train_bytes=sum(text.text_bytes for text in of_train) // 2,
        )
    return indices


def _places(source: SourceText) -> tuple[str, str]:
    """Return what messages call a line of the source and of the target, without its number."""
    src, tgt = source.reader.sides
    return f"{src} {source.reader.unit}", f"{tgt} {source.reader.unit}"


def _refuse(where: str, first: int, bad: Mask, problem: str, advice: str) -> None:
    """Raise DataError that names the first bad line of a mask; first: the mask's first line."""
    if bad.any():
        number = first + int(np.argmax(bad))
        raise DataError(
            f"{where} {number:,} {problem}; every line of valid and test is kept, so {advice}"
        )


@dataclass
class TrainSplit:
    """Writes the training shards of a folder, starting from `progress`."""

    folder: Path
    texts: Sequence[SourceText]
    progress: Progress
    options: PrepareOptions
    cleaning: CleaningOptions
    subwords: Subwords

    def __post_init__(self) -> None:
        self.rejects = self.progress.rejects
        self.nearest = np.array(self.progress.nearest, np.int16)
        self._builders = self._new_builders()
        self._lines = sum(text.lines for text in self.texts)
        self._seen = {rule: SeenHashes(self._lines) for rule in self.cleaning.duplicate_rules}
        # The hashes that were new since the last complete shard.
        self._new_hashes: dict[str, list[Hashes]] = {rule: [] for rule in self._seen}
        for file in self.progress.hashes:
            self._seen[hashed_rule(file)].add(read_hashes(self.folder, file))
        self._seconds = np.zeros(2)
        self._misfits: set[int] = set()  # texts that we have warned of
        self._before: Block | None = None  # the block that was written last
        self._flawed = [set[tuple[str, str]]() for _ in self.texts]  # sides and kinds, likewise

    def write(self, encode: Callable[[Block], EncodedBlock], judgements: Judgements) -> None:
        """Write all missing shards.

        encode: does the work on a block, in a worker.
        judgements: on blocks that an earlier pass of this run has cleaned.
        """
        done = sum(corpus.lines for corpus in self.rejects)
        corpus = self.progress.corpus
        began = time.process_time()
        with console.progress(
            "Encoding train", total=self._lines, unit="pairs", initial=done
        ) as bar:
            blocks, workers = self._blocks(judgements), self.options.processes
            for block, result in map_in_order(encode, blocks, workers=workers):
                if block.corpus != corpus:
                    self._flush(corpus, corpus + 1, 1)
                corpus = block.corpus
                self._add(block, result)
                bar.update(block.lines)
            self._flush(corpus, corpus + 1, 1)
        encoding, judging = self._seconds
        reading = time.process_time() - began - (judging + encoding if workers == 1 else 0)
        console.detail(
            f"CPU seconds: {judging:.1f} cleaning, {encoding:.1f} SentencePiece, {reading:.1f} "
            "reading, comparing and writing"
        )

    def record(self) -> manifest.SplitRecord:
        """Return the record of the split."""
        corpora = [
            text.record(lines=rejects.lines, rejected=rejects.counts, flaws=rejects.flaws)
            for text, rejects in zip(self.texts, self.rejects, strict=True)
        ]
        shards, side_columns = self.progress.shards, self.progress.side_columns
        separator = self.subwords.separator if self.options.documents else None
        record = split_record(self.folder, "train", shards, corpora, separator=separator)
        return replace(record, side_columns=side_columns)

    def _new_builders(self) -> dict[str, ShardBuilder]:
        """Return empty builders by the suffixes of their shards: of ids, and of text if kept."""
        sizes = {IDS: self.subwords.token_bytes}
        sizes |= {TEXT: TEXT_BYTES} if self.options.keep_text else {}
        return {suffix: ShardBuilder(token_bytes=size) for suffix, size in sizes.items()}

    def _blocks(self, judgements: Judgements) -> Iterator[Block]:
        for corpus, text in enumerate(self.texts):
            if corpus >= self.progress.corpus:
                start = self.progress.line if corpus == self.progress.corpus else 1
                for block in text.read(corpus=corpus, start=start):
                    yield replace(block, judgement=judgements.get((corpus, block.number)))

    def _add(self, block: Block, result: EncodedBlock) -> None:
        columns = result.columns
        if not all(self._builders[name].has_room_for(*columns[name]) for name in columns):
            self._flush(block.corpus, block.corpus, block.number)
        self._warn_of_misfit(block, result.misfit)
        verdicts = result.verdicts.copy()  # from a Ray cluster it is read-only
        rows = np.flatnonzero(verdicts == KEPT)
        is_left = np.ones(len(rows), np.bool_)
        for rule, seen in self._seen.items():
            hashes = result.hashes[rule][is_left]
            is_new = seen.add(hashes)
            self._new_hashes[rule].append(hashes[is_new])
            left = np.flatnonzero(is_left)
            verdicts[rows[left[~is_new]]] = CODES[rule]
            is_left[left] = is_new
        rejects = self.rejects[block.corpus]
        rejects.add(block, verdicts, result.flaws)
        self.nearest = np.maximum(self.nearest, result.nearest)
        warn_of_flaws(rejects, self.texts[block.corpus].lines, self._flawed[block.corpus])
        lines = block.number + rows[is_left]
        for name, (src, tgt) in columns.items():
            self._builders[name].extend(src.select(is_left), tgt.select(is_left), lines)
        self._seconds += result.seconds
        if len(self._builders[IDS]) >= self.options.shard_pairs:
            self._flush(block.corpus, block.corpus, block.number + block.lines)

    def _warn_of_misfit(self, block: Block, found: Misfit | None) -> None:
        """Warn of the first block of a text whose sides are out of step."""
        before, self._before = self._before, block
        if found is not None and block.corpus not in self._misfits:
            self._misfits.add(block.corpus)
            is_same = before is not None and before.corpus == block.corpus
            warn_of_misfit(self.texts[block.corpus], found, block, before if is_same else None)

    def _flush(self, corpus: int, next_corpus: int, next_line: int) -> None:
        """Write a shard, if there are pairs for it."""
        if not len(self._builders[IDS]):
            return
        number = len(self.progress.shards)
        files = [
            write_hashes(self.folder, rule, number, np.concatenate(hashes))
            for rule, hashes in self._new_hashes.items()
        ]
        paths = {name: self.folder / f"train-{number:05d}.{name}" for name in self._builders}
        marker = None if self.options.terms is None else self.subwords.marker
        shard = write_shard(paths.pop(IDS), self._builders[IDS], corpus=corpus, marker=marker)
        for name, path in paths.items():
            self._builders[name].write(path, corpus=corpus)
        self._builders = self._new_builders()
        for hashes in self._new_hashes.values():
            hashes.clear()
        self.progress = replace(
            self.progress,
            shards=(*self.progress.shards, shard),
            hashes=(*self.progress.hashes, *files),
            side_columns=(*self.progress.side_columns, *map(manifest.record_file, paths.values())),
            nearest=tuple(self.nearest.tolist()),
            corpus=next_corpus,
            line=next_line,
        )
        write_progress(self.folder, self.progress)
