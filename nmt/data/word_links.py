"""Links of words that another aligner found, such as eflomal or fast_align.

They come from the kept column of a data folder (`nmt prepare --keep-column`), in the Pharaoh form:
`0-0 1-2` links source word 0 with target word 0, and 1 with 2. Words are what stands between the
spaces of the text that the subwords were cut from, without the tag that `prepare` put before it. So
the links still fit if subword dropout cuts the words anew.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nmt.data.batches import NO_LINK
from nmt.data.epochs import Indices
from nmt.data.folder import DataFolder, PairDataset
from nmt.data.shards import TokenRows
from nmt.data.token_spans import WORD_START
from nmt.errors import DataError

_LINKS = re.compile(r"\s*(\d{1,9}-\d{1,9}(\s+|$))*")
_CHUNK = 20_000  # pairs that are checked together


@dataclass(frozen=True)
class WordLinks:
    """Links the tokens of pairs by the links of their words."""

    pairs: PairDataset
    names: tuple[str, ...]
    """Of each corpus, for messages."""
    tag_words: NDArray[np.int64]
    """Of each corpus: the words that its tag makes. A language token makes none."""
    src_begins: NDArray[np.bool_]  # (V,): whether a token begins a word
    tgt_begins: NDArray[np.bool_]

    @classmethod
    def of(cls, data: DataFolder) -> WordLinks:
        """Take the kept column of a data folder."""
        begins = [
            np.array(
                [
                    piece.startswith(WORD_START)
                    for piece in vocabulary.tokens(range(len(vocabulary)))
                ]
            )
            for vocabulary in (data.src_vocabulary, data.tgt_vocabulary)
        ]
        corpora = data.info.train.corpora
        tags = data.src_vocabulary.encode([corpus.tag for corpus in corpora])
        tag_words = np.array([int(begins[0][tag].sum()) for tag in tags])
        return cls(
            data.train, tuple(one.prefix for one in corpora), tag_words, begins[0], begins[1]
        )

    def check(self, on_progress: Callable[[int], object]) -> None:
        """Read the links of all pairs.

        on_progress: called with the number of pairs after each chunk of them.

        Raises:
            DataError: if a column is no list of links, or names a word that a line does not have.
        """
        for start in range(0, len(self.pairs), _CHUNK):
            chunk = np.arange(start, min(start + _CHUNK, len(self.pairs)))
            column = self.pairs.provenances(chunk).text()
            for pair, text in zip(chunk.tolist(), column, strict=True):
                if not _LINKS.fullmatch(text):
                    raise DataError(
                        f"{self._where(pair)}: {text[:60]!r} is no list of links such as '0-0 1-2'"
                    )
            self(*self.pairs.rows(chunk), chunk)
            on_progress(len(chunk))

    def __call__(self, src: TokenRows, tgt: TokenRows, pairs: Indices) -> NDArray[np.int64]:
        """Return the position of each target token's source token in its sentence, or `NO_LINK`.

        Of several source words, a target word takes the first in its list. Its first token is
        linked with the source word's first, the second with the second, and further ones with the
        source word's last.

        Args:
            src, tgt: the token ids of pairs, without bos and eos.
            pairs: which pairs these are.

        Returns:
            (target tokens,) of all pairs, one pair after the other.
        """
        rows, links = _read_links(self.pairs.provenances(pairs))  # (links,), (links, 2)
        ours, theirs = _Words.of(src, self.src_begins), _Words.of(tgt, self.tgt_begins)
        tags = self.tag_words[self.pairs.corpora(pairs)]  # (pairs,)
        counts = np.stack((ours.counts - tags, theirs.counts), axis=1)[rows]  # (links, 2)
        if (links >= counts).any():
            at = int(np.flatnonzero((links >= counts).any(axis=1))[0])
            link, sizes = "-".join(map(str, links[at])), " and ".join(map(str, counts[at]))
            raise DataError(
                f"{self._where(int(pairs[rows[at]]))}: the link {link} is beyond the {sizes} words "
                "of the pair; words are what stands between spaces"
            )
        sources = (ours.before + tags)[rows] + links[:, 0]
        targets = theirs.before[rows] + links[:, 1]
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

    def _where(self, pair: int) -> str:
        corpus, line = self.pairs.origin(pair)
        return f"{self.names[corpus]}: line {line:,}"


@dataclass(frozen=True)
class _Words:
    """The words of one side of some pairs, counted through all pairs."""

    word: NDArray[np.int64]  # (tokens,): the word of each token, or NO_LINK before the first
    first: NDArray[np.int64]  # (words,): the first token, counted through all pairs
    size: NDArray[np.int64]  # (words,): in tokens
    start: NDArray[np.int64]  # (words,): the first token of the word's sentence
    counts: NDArray[np.int64]  # (pairs,): words
    before: NDArray[np.int64]  # (pairs,): words of the pairs before

    @classmethod
    def of(cls, rows: TokenRows, begins: NDArray[np.bool_]) -> _Words:
        row = np.repeat(np.arange(len(rows)), rows.lengths)  # (tokens,)
        starts = np.cumsum(rows.lengths) - rows.lengths  # (pairs,)
        is_first = begins[rows.ids]
        first = np.flatnonzero(is_first)
        counts = np.bincount(row[first], minlength=len(rows))
        before = np.cumsum(counts) - counts
        word = np.cumsum(is_first) - 1
        word[word < before[row]] = NO_LINK
        size = np.bincount(word[word != NO_LINK], minlength=len(first))
        return cls(word, first, size, starts[row[first]], counts, before)


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
