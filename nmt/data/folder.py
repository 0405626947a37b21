"""The data folder that `prepare` writes, opened for training and for `nmt data`.

Opening checks the version, that every file is there with its recorded size, and that the shards
agree with `dataset.json`. With `verify` it also checks every checksum, offset and token id.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nmt.data import manifest
from nmt.data.epochs import Indices, mixed_shares
from nmt.data.language_tokens import tagged
from nmt.data.manifest import DatasetInfo, SplitRecord
from nmt.data.shards import TEXT_BYTES, Ids, Lengths, Shard, TokenRows, token_bytes_for
from nmt.data.vocabulary import Vocabulary
from nmt.errors import DataError
from nmt.system.files import read_file, sha256_file

TEXT = "text"  # the side column of the raw lines of source and target
_AGAIN = "run `nmt prepare` again into a new folder"


class PairDataset:
    """The pairs of several shards as one sequence, in the order of the text.

    shares: runs of pairs with the same weight, as (number of pairs, weight); by default all pairs
    have weight 1.
    """

    def __init__(
        self, shards: Sequence[Shard], shares: Sequence[tuple[int, float]] | None = None
    ) -> None:
        self._shards = tuple(shards)
        # Pairs [3, 2, 4] start at [0, 3, 5]: pair 4 is pair 4 - 3 of shard 1.
        ends = list(accumulate(len(shard) for shard in shards))
        self._starts = np.array([0, *ends[:-1]])
        self._length = ends[-1] if ends else 0
        self.shares = tuple(shares) if shares is not None else ((self._length, 1.0),)

    def __len__(self) -> int:
        return self._length

    def by_shard(self) -> list[PairDataset]:
        """Return the pairs of each shard; of valid, those are the pairs of each text."""
        return [PairDataset([shard]) for shard in self._shards]

    def lengths(self, indices: Indices) -> tuple[Lengths, Lengths]:
        """Return the source and target lengths of some pairs, without eos: (len(indices),) each."""
        src, tgt = (np.empty(len(indices), np.int32) for _ in range(2))
        for shard, chosen, within in self._by_shard(indices):
            src[chosen], tgt[chosen] = shard.lengths(within)
        return src, tgt

    def rows(self, indices: Indices) -> tuple[TokenRows, TokenRows]:
        """Return copies of the source and target ids of some pairs, in the order of `indices`."""
        by_shard = list(self._by_shard(indices))
        parts = [shard.rows(within) for shard, _, within in by_shard]
        if len(parts) == 1:
            return parts[0]
        order = np.argsort(np.concatenate([chosen for _, chosen, _ in by_shard]))
        src, tgt = (TokenRows.join([part[side] for part in parts]).take(order) for side in (0, 1))
        return src, tgt

    def length_counts(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return how many sources and targets have 0, 1, 2 ... tokens."""
        src, tgt = np.zeros(1, np.int64), np.zeros(1, np.int64)
        for shard in self._shards:
            src_lengths, tgt_lengths = map(np.bincount, shard.all_lengths())
            src, tgt = _add_counts(src, src_lengths), _add_counts(tgt, tgt_lengths)
        return src, tgt

    def window_counts(self, separator: int) -> list[int]:
        """Return how many pairs are windows of 1, 2, 3 ... lines, given the token between them."""
        counts = np.zeros(1, np.int64)
        for shard in self._shards:
            counts = _add_counts(counts, np.bincount(shard.count_in_sources(separator)))
        return counts.tolist()

    def _by_shard(self, indices: Indices) -> Iterator[tuple[Shard, Indices, Indices]]:
        """Yield each shard with some of the pairs, which ones, and their indices in the shard.

        For example, of pairs [4, 0] of shards with 3 and 2 pairs: the first one with [1] and [0],
        then the second one with [0] and [1].
        """
        shard_of = np.searchsorted(self._starts, indices, side="right") - 1
        # An empty shard has the same start as the next one; searchsorted finds the last of them.
        order = np.argsort(shard_of, kind="stable")
        for chosen in np.split(order, np.flatnonzero(np.diff(shard_of[order])) + 1):
            if len(chosen):
                number = int(shard_of[chosen[0]])
                yield self._shards[number], chosen, indices[chosen] - self._starts[number]

    def src(self, index: int) -> Ids:
        """Return the source ids of a pair: a read-only view, (length,)."""
        shard, within = self._locate(index)
        return shard.pair(within)[0]

    def tgt(self, index: int) -> Ids:
        """Return the target ids of a pair: a read-only view, (length,)."""
        shard, within = self._locate(index)
        return shard.pair(within)[1]

    def origin(self, index: int) -> tuple[int, int]:
        """Return a pair's corpus (from 0) and its line number there (from 1).

        Corpora are numbered within the split, as in `dataset.json`.
        """
        shard, within = self._locate(index)
        return shard.corpus, shard.line(within)

    def corpora(self, indices: Indices) -> list[int]:
        """Return the corpus of each of some pairs, numbered as in `origin`."""
        corpora = np.empty(len(indices), np.int64)
        for shard, chosen, _ in self._by_shard(indices):
            corpora[chosen] = shard.corpus
        return [int(corpus) for corpus in corpora]

    def _locate(self, index: int) -> tuple[Shard, int]:
        """Return the shard of a pair, and its index in the shard."""
        if not 0 <= index < self._length:
            raise IndexError(f"pair {index} of {self._length}")
        number = int(np.searchsorted(self._starts, index, side="right")) - 1
        return self._shards[number], index - int(self._starts[number])


def _add_counts(one: npt.NDArray[np.int64], other: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    size = max(len(one), len(other))
    return np.pad(one, (0, size - len(one))) + np.pad(other, (0, size - len(other)))


class HeldOut(NamedTuple):
    """The raw text of valid or a test set: UTF-8, lines end in `\\n`."""

    langs: tuple[str, str]
    src: Path
    tgt: Path
    overlaps: Path | None = None
    """How near each line is to train; folders of older versions have none."""

    def lines(self) -> tuple[list[str], list[str]]:
        """Return the lines of source and target."""
        src, tgt = (read_file(path).decode().split("\n")[:-1] for path in (self.src, self.tgt))
        return src, tgt

    def far_half(self) -> list[int]:
        """Return the half of the lines, counted from 0, that is farther from train; [] if unknown.

        Of lines with the same overlap, the first ones count as farther. A line that is blank on
        both sides ends a document, and is in neither half.
        """
        if self.overlaps is None:
            return []
        shares = list(map(float, read_file(self.overlaps).split()))
        texts = ("".join(pair).strip() for pair in zip(*self.lines(), strict=True))
        pairs = [line for line, text in enumerate(texts) if text]
        nearest_last = sorted(pairs, key=lambda line: shares[line])
        return sorted(nearest_last[: len(pairs) // 2])


@dataclass(frozen=True)
class DataFolder:
    path: Path
    info: DatasetInfo
    fingerprint: str  # SHA-256 of `dataset.json`, which contains the checksums of all other files
    src_vocabulary: Vocabulary
    tgt_vocabulary: Vocabulary
    train: PairDataset
    valid: PairDataset
    test: PairDataset | None  # all test sets one after the other, in the order of `info.tests`
    train_text: PairDataset | None
    """The raw lines of train as bytes, if `prepare` kept them; before tags and Moses' rules."""

    @classmethod
    def open(cls, path: Path, *, verify: bool = False) -> DataFolder:
        """Open a folder; DataError names a file that is missing, damaged or of another format."""
        info = manifest.read_info(path)
        _check_shape(path, info)
        check_files(path, info, verify=verify)
        vocabularies = load_vocabularies(path, info)
        sizes = info.vocabulary.sizes
        if [len(vocabulary) for vocabulary in vocabularies] != [sizes[0], sizes[-1]]:
            raise DataError(
                f"{path}: its vocabulary is not the one that dataset.json describes; {_AGAIN}"
            )
        shares = weighted_shares(info, [corpus.weight for corpus in info.train.corpora])
        are_weighted = any(weight != 1 for _, weight in shares)
        train = _open_shards(path, info.train, info, verify)
        text = _open_text(path, info.train)
        tests = [shard for split in info.tests for shard in _open_shards(path, split, info, verify)]
        return cls(
            path=path,
            info=info,
            fingerprint=sha256_file(path / manifest.FILE_NAME),
            src_vocabulary=vocabularies[0],
            tgt_vocabulary=vocabularies[-1],
            train=PairDataset(train, shares if are_weighted else None),
            valid=PairDataset(_open_shards(path, info.valid, info, verify)),
            test=PairDataset(tests) if tests else None,
            train_text=PairDataset(text) if text else None,
        )

    @property
    def joint(self) -> bool:
        """Whether both languages share their ids, so that they can share one embedding."""
        return self.src_vocabulary.has_ids_of(self.tgt_vocabulary)

    def encode(
        self, corpora: Sequence[int], lines: Sequence[tuple[str, str]]
    ) -> tuple[list[list[int]], list[list[int]]]:
        """Return the token ids of raw source and target lines, as `prepare` makes them.

        corpora: of each pair, the corpus of train that it comes from; lines: source and target.
        """
        records = [self.info.train.corpora[corpus] for corpus in corpora]
        langs = [record.langs for record in records]
        src = [tagged(line, record.tag) for (line, _), record in zip(lines, records, strict=True)]
        texts = src, [line for _, line in lines]
        encoded: tuple[list[list[int]], list[list[int]]] = ([[]] * len(lines), [[]] * len(lines))
        for pair in dict.fromkeys(langs):
            rows = [row for row, langs_of_row in enumerate(langs) if langs_of_row == pair]
            for side, vocabulary in enumerate(self.vocabularies(pair)):
                ids = vocabulary.encode([texts[side][row] for row in rows])
                for row, row_ids in zip(rows, ids, strict=True):
                    encoded[side][row] = row_ids
        return encoded

    @property
    def valid_texts(self) -> list[HeldOut]:
        """The texts of valid: one for each pair of languages."""
        return self.texts(self.info.valid)

    def vocabularies(self, langs: tuple[str, str]) -> tuple[Vocabulary, Vocabulary]:
        """Return the vocabularies with the language tokens of a pair of languages, if any."""
        vocabularies, languages = (self.src_vocabulary, self.tgt_vocabulary), self.info.languages
        return vocabularies if languages is None else languages.begin(vocabularies, langs)

    def texts(self, split: SplitRecord) -> list[HeldOut]:
        """Return the texts of valid or of a test set: one for each pair of languages."""
        src, tgt = ([self.path / file.name for file in split.text[side::2]] for side in (0, 1))
        langs = (corpus.langs for corpus in split.corpora)
        overlaps: list[Path | None] = [self.path / file.name for file in split.overlaps]
        overlaps = overlaps or [None] * len(src)
        return [HeldOut(*text) for text in zip(langs, src, tgt, overlaps, strict=True)]


def check_files(path: Path, info: DatasetInfo, *, verify: bool) -> None:
    """Check that every file has its recorded size and, with `verify`, its checksum."""
    for record in info.files:
        file = path / record.name
        if Path(record.name).name != record.name or record.name in ("", ".."):
            raise DataError(f"{path}: dataset.json names a file outside the folder: {record.name}")
        if not record.name.isprintable():  # not even a name
            raise DataError(f"{path}: dataset.json is damaged: a file without a name")
        try:
            size = file.stat().st_size
        except FileNotFoundError:
            raise DataError(f"{file}: missing; {_AGAIN}") from None
        if size != record.size:
            raise DataError(
                f"{file}: {size:,} bytes, but {record.size:,} were written; it was cut short or "
                f"altered; {_AGAIN}"
            )
        if verify and sha256_file(file) != record.sha256:
            raise DataError(
                f"{file}: altered: its SHA-256 differs from that in dataset.json; {_AGAIN}"
            )


def load_vocabularies(path: Path, info: DatasetInfo) -> tuple[Vocabulary, Vocabulary]:
    """Return the source and target vocabularies; one object if they are the same."""
    files, moses, languages = info.vocabulary.files, info.moses, info.languages
    src = tgt = Vocabulary.load(path / files[0].name, moses[0])
    if len(files) > 1 or moses != (None, None):
        tgt = Vocabulary.load(path / files[-1].name, moses[1])
    return (src, tgt) if languages is None else languages.begin((src, tgt), info.langs)


def weighted_shares(info: DatasetInfo, weights: Sequence[float]) -> list[tuple[int, float]]:
    """Return the number of pairs and the weight of each corpus, mixed by the temperature.

    weights: of each corpus of train.
    """
    split = info.train
    pairs = [0] * len(split.corpora)
    for shard in split.shards:
        pairs[shard.corpus] += shard.pairs
    langs = [corpus.langs for corpus in split.corpora]
    return mixed_shares(list(zip(pairs, weights, strict=True)), langs, info.temperature)


def _check_shape(path: Path, info: DatasetInfo) -> None:
    if len(info.vocabulary.files) not in (1, 2):
        raise DataError(f"{path}: dataset.json is damaged: a folder has one or two vocabularies")
    for split in info.splits:
        numbers = [shard.corpus for shard in split.shards]
        if numbers != sorted(numbers) or max(numbers, default=0) >= len(split.corpora):
            raise DataError(f"{path}: dataset.json is damaged: {split.name} has no such corpus")
    for split in (info.valid, *info.tests):
        if len(split.text) != 2 * len(split.corpora):
            raise DataError(f"{path}: dataset.json is damaged: {split.name} needs two text files")
        if len(split.overlaps) not in (0, len(split.corpora)):
            raise DataError(f"{path}: dataset.json is damaged: {split.name} lacks overlaps")


def _open_shards(path: Path, split: SplitRecord, info: DatasetInfo, verify: bool) -> list[Shard]:
    token_bytes = token_bytes_for(max(info.vocabulary.sizes))
    shards = []
    for record in split.shards:
        shard = Shard.open(path / record.name)
        actual = (shard.corpus, len(shard), shard.src_tokens, shard.tgt_tokens, shard.token_bytes)
        said = (record.corpus, record.pairs, record.src_tokens, record.tgt_tokens, token_bytes)
        if actual != said:
            raise DataError(f"{shard.path} is not the shard that dataset.json describes; {_AGAIN}")
        if verify:
            shard.check_content(info.vocabulary.sizes[0], info.vocabulary.sizes[-1])
        shards.append(shard)
    if sum(map(len, shards)) != split.pairs or not shards:
        raise DataError(
            f"{path}: the shards of {split.name} do not have its {split.pairs} pairs; {_AGAIN}"
        )
    return shards


def _open_text(path: Path, train: SplitRecord) -> list[Shard]:
    """Return the raw lines of each shard of train; none if they were not kept."""
    if len(train.side_columns) not in (0, len(train.shards)):
        raise DataError(f"{path}: dataset.json is damaged: each shard of train needs its text")
    shards = []
    for record, file in zip(train.shards, train.side_columns, strict=False):
        shard = Shard.open(path / file.name)
        actual = (file.name, shard.corpus, len(shard), shard.token_bytes)
        if actual != (f"{Path(record.name).stem}.{TEXT}", record.corpus, record.pairs, TEXT_BYTES):
            raise DataError(f"{shard.path} is not the text of {record.name}; {_AGAIN}")
        shards.append(shard)
    return shards
