"""`nmt join`: data folders that were prepared apart become one, without pairs that repeat.

1. Check that the folders have one vocabulary, the same options, and the same valid and test sets.
2. Hash the token ids of each training pair into a file. Then sort it range by range, so that memory
   is bounded, and mark all but the first pair of each hash.
3. Copy the shards from file to file, with their corpora renumbered, and without the marked pairs.

The order is that of the folders as they are named. Text is not there any more, so pairs are equal
if their token ids are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nmt import console
from nmt.data import manifest
from nmt.data.epochs import mix
from nmt.data.folder import DataFolder
from nmt.data.language_tokens import spell_pair
from nmt.data.manifest import LEARNING, FileRecord, ShardRecord
from nmt.data.shards import Shard, TokenRows
from nmt.data.vocabulary import ANNOTATION
from nmt.errors import DataError, UsageError
from nmt.prepare.block import Hashes, Mask
from nmt.prepare.duplicates import hash_lines, hash_pairs
from nmt.prepare.readers.reader import record_file
from nmt.prepare.reject_report import (
    EXAMPLES_PER_RULE,
    CorpusRejects,
    Example,
    read_report,
    write_reports,
)
from nmt.prepare.resume import (
    building_folder,
    check_space,
    check_target,
    check_unstarted,
    empty_folder,
    find_folder,
)
from nmt.prepare.write_splits import shard_record, split_record
from nmt.system.files import link_or_copy, resolved, write_text

JOINED = "joined"  # the setting that names the folders of a joined one, by their fingerprints
_RULE = "duplicate"
_CHUNK_PAIRS = 1 << 14
_BYTES_A_PAIR = 40  # of a range: hashes, places, and what sorting takes


def join(out: Path, paths: Sequence[Path], *, memory: float) -> DataFolder:
    """Make one data folder of several, or open it if it was made of them already.

    memory: gigabytes for finding pairs that repeat; the result does not depend on it.
    UsageError: the folders do not fit together, or `out` is another folder. DataError: a folder is
    damaged.
    """
    target = resolved(out)
    check_target(target)
    folders = [DataFolder.open(path) for path in paths]
    fingerprints = [folder.fingerprint for folder in folders]
    there = find_folder(target)
    if there is not None:
        if there.info.settings.get(JOINED) != fingerprints:
            raise UsageError(f"{out} is another data folder; remove it or choose another name")
        console.notice(f"{out} is already joined from the same folders")
        return there
    check_unstarted(target)
    for folder in folders[1:]:
        _check_fit(folders[0], folder)
    _check_corpora(folders)
    check_space(target, sum(file.size for folder in folders for file in folder.info.files))
    with building_folder(target) as partial:
        empty_folder(partial)
        _join(partial, folders, int(memory * 1e9))
        DataFolder.open(partial)
    return DataFolder.open(target)


def _check_fit(first: DataFolder, other: DataFolder) -> None:
    """Check that two folders were prepared in the same way."""
    mine, theirs = first.info, other.info
    ignored: tuple[str, ...] = JOINED, "max_length", "shard_pairs"
    if mine.vocabulary.given or theirs.vocabulary.given:
        ignored += LEARNING
    differences = [
        name
        for name in sorted(mine.settings.keys() | theirs.settings.keys())
        if mine.settings.get(name) != theirs.settings.get(name) and name not in ignored
    ]
    if mine.vocabulary.files != theirs.vocabulary.files:
        differences.append("the vocabulary")
    if mine.valid.text != theirs.valid.text:
        differences.append("valid")
    if [test.text for test in mine.tests] != [test.text for test in theirs.tests]:
        differences.append("the test sets")
    if differences:
        raise UsageError(
            f"{other.path} and {first.path} differ in {', '.join(differences)}; prepare all "
            "folders with the same options, --vocab, --valid and --test"
        )


def _check_corpora(folders: Sequence[DataFolder]) -> None:
    seen: dict[tuple[object, ...], Path] = {}
    for folder in folders:
        for corpus in folder.info.train.corpora:
            key = (corpus.src.sha256, corpus.tgt.sha256, corpus.langs, corpus.columns, corpus.tag)
            if key in seen:
                raise UsageError(
                    f"{folder.path}: the text of {corpus.prefix} is also in {seen[key]}; leave one "
                    "of the folders out"
                )
            seen[key] = folder.path


@dataclass(frozen=True)
class _Place:
    """A shard that is read, and where it goes."""

    folder: DataFolder
    record: ShardRecord
    side_columns: tuple[FileRecord, ...]  # the side columns of its pairs
    corpus: int  # its number in the new folder
    langs: tuple[str, str]
    first: int  # number of its first pair, over all folders

    def open(self) -> Shard:
        return Shard.open(self.folder.path / self.record.name)


def _join(path: Path, folders: Sequence[DataFolder], memory: int) -> None:
    """Write the files of the new folder; memory: bytes for finding pairs that repeat."""
    info = folders[0].info
    places = list(_places(folders))
    rejects = [corpus for folder in folders for corpus in _report(folder)]
    by_source = info.settings["duplicates_by"] == "source"
    repeats = (
        np.zeros(sum(place.record.pairs for place in places), np.bool_)
        if _RULE in info.settings["keep"]
        else _repeats(path / "hashes", places, by_source=by_source, memory=memory)
    )
    vocabulary = folders[0].src_vocabulary
    marker = vocabulary.control_ids(ANNOTATION)[0] if info.reads_annotations else None
    shards, side_columns = _write_shards(path, places, repeats, rejects, marker)
    corpora = [corpus for folder in folders for corpus in folder.info.train.corpora]
    counted = zip(corpora, rejects, strict=True)
    train = split_record(
        path,
        "train",
        shards,
        [replace(corpus, kept=left.kept, rejected=left.counts) for corpus, left in counted],
        side_columns=side_columns,
        separator=vocabulary.separator if info.window > 1 else None,
    )
    of_train = (*info.train.shards, *info.train.side_columns)
    for file in info.files:
        if file not in (*of_train, info.rejects, info.rejects_text):
            link_or_copy(folders[0].path / file.name, path / file.name)
    settings: dict[str, Any] = {
        **info.settings,
        "max_length": max(folder.info.max_length for folder in folders),
        JOINED: [folder.fingerprint for folder in folders],
    }
    json_file, text_file = write_reports(path, rejects)
    joined = replace(
        info, settings=settings, train=train, rejects=json_file, rejects_text=text_file
    )
    write_text(path / manifest.FILE_NAME, manifest.to_json(joined))


def _places(folders: Sequence[DataFolder]) -> Iterator[_Place]:
    corpora = first = 0
    for folder in folders:
        train = folder.info.train
        for record in train.shards:
            stem = Path(record.name).stem
            columns = tuple(file for file in train.side_columns if Path(file.name).stem == stem)
            langs = train.corpora[record.corpus].langs
            yield _Place(folder, record, columns, corpora + record.corpus, langs, first)
            first += record.pairs
        corpora += len(train.corpora)


def _repeats(file: Path, places: Sequence[_Place], *, by_source: bool, memory: int) -> Mask:
    """Return which pairs came earlier, by their token ids: (pairs,).

    file: for the hashes; it is removed. memory: bytes that may be used.
    """
    pairs = sum(place.record.pairs for place in places)
    hashes = np.memmap(file, np.uint64, "w+", shape=(max(1, pairs),))
    with console.progress("Hashing", total=pairs, unit="pairs") as bar:
        for place in places:
            shard = place.open()
            languages = hash_lines([spell_pair(place.langs)])
            for rows in _chunks(len(shard)):
                src, tgt = map(_hash_rows, shard.rows(rows))
                pair_hashes = src if by_source else hash_pairs(src, tgt)
                # In other languages it is another pair.
                hashes[place.first + rows] = mix(pair_hashes ^ languages)
                bar.update(len(rows))
    repeats = np.zeros(pairs, np.bool_)
    ranges = -(-pairs * _BYTES_A_PAIR // memory) or 1
    with console.progress("Comparing", total=ranges, unit="ranges of hashes") as bar:
        for number in range(ranges):
            bounds = [number * 2**64 // ranges, (number + 1) * 2**64 // ranges - 1]
            low, high = (np.uint64(bound) for bound in bounds)
            parts = [np.zeros(0, np.int64)]
            for rows in _chunks(pairs):
                chunk = hashes[rows[0] : rows[-1] + 1]
                parts.append(rows[(low <= chunk) & (chunk <= high)])
            at = np.concatenate(parts)
            order = np.argsort(hashes[at], kind="stable")  # so the first pair stays the first
            in_order = hashes[at[order]]
            repeats[at[order[1:][in_order[1:] == in_order[:-1]]]] = True
            bar.update(1)
    del hashes
    file.unlink()
    return repeats


def _write_shards(
    path: Path,
    places: Sequence[_Place],
    repeats: Mask,
    rejects: Sequence[CorpusRejects],
    marker: int | None,
) -> tuple[list[ShardRecord], list[FileRecord]]:
    """Write what is left of each shard, and count the rest in `rejects`.

    marker: the id that begins an annotation of a source, if there are some.
    """
    shards, side_columns = list[ShardRecord](), list[FileRecord]()
    with console.progress("Writing", total=len(repeats), unit="pairs") as bar:
        for place in places:
            count = place.record.pairs
            is_left = ~repeats[place.first : place.first + count]
            rows = np.flatnonzero(is_left)
            shard = place.open()
            _count(rejects[place.corpus], place.folder, shard, np.flatnonzero(~is_left))
            if len(rows):
                file = path / f"train-{len(shards):05d}.bin"
                shard.copy(file, rows, corpus=place.corpus)
                shards.append(shard_record(file, marker))
                for column in place.side_columns:
                    copy = file.with_suffix(Path(column.name).suffix)
                    values = Shard.open(place.folder.path / column.name)
                    values.copy(copy, rows, corpus=place.corpus)
                    side_columns.append(record_file(copy))
            bar.update(count)
    return shards, side_columns


def _report(folder: DataFolder) -> list[CorpusRejects]:
    """Return the report of a folder; DataError if it is not that of its corpora."""
    report = read_report(folder.path)
    told = [corpus.prefix for corpus in report]
    known = [corpus.prefix for corpus in folder.info.train.corpora]
    if told != known:
        raise DataError(
            f"{folder.path / manifest.REJECTS_NAME}: damaged: it tells of {', '.join(told)}, but "
            f"the corpora are {', '.join(known)}; run `nmt prepare` again"
        )
    return report


def _chunks(pairs: int) -> Iterator[npt.NDArray[np.int64]]:
    for start in range(0, pairs, _CHUNK_PAIRS):
        yield np.arange(start, min(pairs, start + _CHUNK_PAIRS))


def _hash_rows(rows: TokenRows) -> Hashes:
    """Return a 64-bit hash of the ids of each row, none of which is empty: (rows,)."""
    starts = np.cumsum(rows.lengths, dtype=np.int64) - rows.lengths
    places = np.arange(len(rows.ids)) - np.repeat(starts, rows.lengths)
    tokens = mix(rows.ids.astype(np.uint64) + (places.astype(np.uint64) << np.uint64(32)))
    if not len(starts):
        return np.zeros(0, np.uint64)
    sums: Hashes = np.add.reduceat(tokens, starts)
    return mix(sums + rows.lengths.astype(np.uint64))


def _count(
    rejects: CorpusRejects, folder: DataFolder, shard: Shard, rows: npt.NDArray[np.int64]
) -> None:
    """Count the pairs at `rows` as duplicates, and show the first of them."""
    if not len(rows):
        return
    rejects.rejected[_RULE] = rejects.rejected.get(_RULE, 0) + len(rows)
    examples = rejects.examples.setdefault(_RULE, [])
    for row in rows[:EXAMPLES_PER_RULE].tolist():
        src = folder.src_vocabulary.decode([shard.src(row).tolist()])[0]
        tgt = folder.tgt_vocabulary.decode([shard.tgt(row).tolist()])[0]
        examples.append(Example(shard.line(row), src, tgt))
    examples.sort(key=lambda example: example.line)
    del examples[EXAMPLES_PER_RULE:]
