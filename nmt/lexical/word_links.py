"""Links of words that another aligner found, such as eflomal or fast_align.

They come from the kept column of a data folder (`nmt prepare --keep-column`), in the Pharaoh form:
`0-0 1-2` links source word 0 with target word 0, and 1 with 2. Words are what stands between white
space in the text that the subwords were cut from, without the tag that `prepare` put before it. So
the links still fit if subword dropout cuts the words anew.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmt.data.batches import NO_LINK
from nmt.data.epochs import Indices
from nmt.data.folder import DataFolder, PairDataset
from nmt.data.shards import TokenRows
from nmt.data.vocabulary import Vocabulary
from nmt.errors import DataError
from nmt.lexical.token_spans import WORD_START

_LINKS = re.compile(r"\s*([0-9]{1,9}-[0-9]{1,9}(\s+|$))*")
_CHUNK = 20_000  # pairs that are checked together
_MOST_MISFITS = 0.01  # share of pairs


@dataclass(frozen=True)
class WordLinks:
    """Links the tokens of pairs by the links of their words."""

    pairs: PairDataset
    names: tuple[str, ...]
    """Of each corpus, for messages."""
    tag_words: NDArray[np.int64]
    """Of each corpus: the words that its tag makes. A language token makes none."""
    src_begins: NDArray[np.int64]  # (V, 2): see `_begins`
    tgt_begins: NDArray[np.int64]

    @classmethod
    def of(cls, data: DataFolder) -> WordLinks:
        """Take the kept column of a data folder."""
        begins, tgt_begins = _begins(data.src_vocabulary), _begins(data.tgt_vocabulary)
        corpora = data.info.train.corpora
        tags = data.src_vocabulary.encode([corpus.tag for corpus in corpora])
        tag_words = np.array([int(begins[tag, 1].sum()) for tag in tags])
        return cls(
            data.train, tuple(corpus.prefix for corpus in corpora), tag_words, begins, tgt_begins
        )

    def check(self, on_progress: Callable[[int], object]) -> Misfits:
        """Read the links of all pairs, and return which of them do not fit their pair.

        on_progress: called with the number of pairs after each chunk of them.

        Raises:
            DataError: if so many do not fit that the column must be that of another text.
        """
        count, first = 0, ""
        for start in range(0, len(self.pairs), _CHUNK):
            chunk = np.arange(start, min(start + _CHUNK, len(self.pairs)))
            links = self._fitting(*self.pairs.rows(chunk), chunk)
            misfits = np.flatnonzero(~links.fits)
            if len(misfits) and not count:
                first = self._describe(links, int(misfits[0]), start + int(misfits[0]))
            count += len(misfits)
            on_progress(len(chunk))
        if count > _MOST_MISFITS * len(self.pairs):
            raise DataError(
                f"{first}; in all, the links of {count:,} of {len(self.pairs):,} pairs do not fit. "
                "Give links of this text, of the words between its spaces"
            )
        return Misfits(count, first)

    def _describe(self, links: _Links, row: int, pair: int) -> str:
        """Say which links do not fit, and to what."""
        corpus, line = self.pairs.origin(pair)
        sizes = links.src.counts[row] - links.tags[row], links.tgt.counts[row]
        return (
            f"{self.names[corpus]}: line {line:,}: {links.column[row][:60]!r} is no list of links "
            f"such as '0-0 1-2' between {sizes[0]} and {sizes[1]} words"
        )

    def __call__(self, src: TokenRows, tgt: TokenRows, pairs: Indices) -> NDArray[np.int64]:
        """Return the position of each target token's source token in its sentence, or `NO_LINK`.

        Of several source words, a target word takes the first in its list. Its first token is
        linked with the source word's first, the second with the second, and further ones with the
        source word's last. Pairs whose links do not fit have none.

        Args:
            src, tgt: the token ids of pairs, without bos and eos.
            pairs: which pairs these are.

        Returns:
            (target tokens,) of all pairs, one pair after the other.
        """
        links = self._fitting(src, tgt, pairs)
        ours, theirs = links.src, links.tgt
        sources = (ours.before + links.tags)[links.rows] + links.words[:, 0]
        targets = theirs.before[links.rows] + links.words[:, 1]
        source_of = np.full(len(theirs.first), NO_LINK)  # (target words,)
        source_of[targets[::-1]] = sources[::-1]  # the first link comes last, so that it stays
        found = np.full(len(tgt.ids), NO_LINK)
        inside = np.flatnonzero(theirs.word != NO_LINK)
        words = theirs.word[inside]
        inside, words = inside[source_of[words] != NO_LINK], words[source_of[words] != NO_LINK]
        source = source_of[words]
        place = np.minimum(inside - theirs.first[words], ours.size[source] - 1)
        found[inside] = ours.first[source] + place - ours.start[source]
        return found

    def _fitting(self, src: TokenRows, tgt: TokenRows, pairs: Indices) -> _Links:
        """Return the links of the pairs whose links fit."""
        column = self.pairs.provenances(pairs).text()
        fits = np.array([bool(_LINKS.fullmatch(text)) for text in column])
        lists = [text if good else "" for text, good in zip(column, fits, strict=True)]
        rows, words = _read_links(TokenRows.of_text(lists))
        ours, theirs = _Words.of(src, self.src_begins), _Words.of(tgt, self.tgt_begins)
        tags = self.tag_words[self.pairs.corpora(pairs)]
        counts = np.stack((ours.counts - tags, theirs.counts), axis=1)  # (pairs, 2)
        fits[rows[(words >= counts[rows]).any(axis=1)]] = False
        return _Links(column, fits, rows[fits[rows]], words[fits[rows]], ours, theirs, tags)


class Misfits(NamedTuple):
    """The pairs whose links do not fit."""

    pairs: int
    first: str
    """The first of them, in words; empty if there is none."""


@dataclass(frozen=True)
class _Links:
    """The links of some pairs."""

    column: list[str]  # (pairs,)
    fits: NDArray[np.bool_]  # (pairs,)
    rows: NDArray[np.int64]  # (links,): the pair of each
    words: NDArray[np.int64]  # (links, 2): of source and target, from 0
    src: _Words
    tgt: _Words
    tags: NDArray[np.int64]  # (pairs,): source words before the first that counts


@dataclass(frozen=True)
class _Words:
    """The words of one side of some pairs, counted through all pairs."""

    word: NDArray[np.int64]  # (tokens,): that of its first character, or NO_LINK before all words
    first: NDArray[np.int64]  # (words,): the first token, counted through all pairs
    size: NDArray[np.int64]  # (words,): in tokens
    start: NDArray[np.int64]  # (words,): the first token of the word's sentence
    counts: NDArray[np.int64]  # (pairs,): words
    before: NDArray[np.int64]  # (pairs,): words of the pairs before

    @classmethod
    def of(cls, rows: TokenRows, begins: NDArray[np.int64]) -> _Words:
        row = np.repeat(np.arange(len(rows)), rows.lengths)  # (tokens,)
        starts = np.cumsum(rows.lengths) - rows.lengths  # (pairs,)
        at_start, begun = begins[rows.ids].T  # (tokens,) both
        first = np.repeat(np.arange(len(row)), begun)
        counts = np.bincount(row[first], minlength=len(rows))
        before = np.cumsum(counts) - counts
        word = np.cumsum(begun) - begun + at_start - 1
        word[word < before[row]] = NO_LINK
        size = np.bincount(word[word != NO_LINK], minlength=len(first))
        return cls(word, first, np.maximum(size, 1), starts[row[first]], counts, before)


def _begins(vocabulary: Vocabulary) -> NDArray[np.int64]:
    """Return whether a word begins where each piece begins, and how many begin in it: (V, 2).

    White space that is no plain space, such as U+00A0, may stand within a piece.
    """
    pieces = vocabulary.tokens(range(len(vocabulary)))
    spaces = [[char == WORD_START or char.isspace() for char in piece] for piece in pieces]
    return np.array([[int(any(found[:1])), sum(found)] for found in spaces])


def _read_links(column: TokenRows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the row of each link, and its words: (links,) and (links, 2)."""
    is_digit = (column.ids >= ord("0")) & (column.ids <= ord("9"))
    row = np.repeat(np.arange(len(column)), column.lengths)
    # A number begins after another character, or with its row.
    begins = is_digit.copy()
    begins[1:] &= ~is_digit[:-1] | (row[1:] != row[:-1])
    number = np.cumsum(begins)[is_digit] - 1  # (digits,): the number of each
    after = np.cumsum(np.bincount(number))[number] - np.arange(len(number)) - 1  # digits after it
    values = (column.ids[is_digit] - ord("0")) * 10.0**after
    numbers = np.bincount(number, weights=values).astype(np.int64)
    return row[begins][::2], numbers.reshape(-1, 2)
