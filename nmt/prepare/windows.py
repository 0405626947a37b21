"""Windows: training pairs of several neighbouring lines of a document, for `--documents`.

Each line that passes the rules ends one window, so there are as many pairs as without windows. How
many lines come before it is drawn uniformly from 0 to N - 1, by the seed and the pair's own text.
So it depends neither on workers nor on the place of a line, and a document that comes twice gives
the same windows twice, which the rules of duplicates find. A window has fewer lines than drawn

- at the beginning of a document, of a block of the reader, or after a line that was dropped: no
  lines are joined over a hole;
- if it would exceed `--max-length` on a side.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from nmt.data.epochs import mix
from nmt.data.shards import TokenRows
from nmt.data.vocabulary import Vocabulary, join_lines
from nmt.prepare.duplicates import hash_lines, hash_pairs
from nmt.prepare.encode import Subwords
from nmt.prepare.text import Hashes, Work

AT_BREAK, TOO_LONG = "break", "max_length"
SHORTENED = {
    AT_BREAK: "a document or a block begins there, or the line before was dropped",
    TOO_LONG: "--max-length",
}
"""Why a window has fewer lines than were drawn."""

_BETWEEN = "\x1e"
"""Between the lines of a window in its text, which tells windows apart."""


@dataclass(frozen=True)
class Side:
    """The lines of one side of a block that passed the rules, as token ids."""

    tags: Sequence[tuple[int, ...]]
    """The language token, or the tag of its own, that begins each line."""
    lines: Sequence[Sequence[int]]
    """The other tokens of each."""
    separator: int

    @classmethod
    def of(cls, vocabulary: Vocabulary, lines: Sequence[str], rows: TokenRows) -> Side:
        """Return the side, given its lines and their ids."""
        assert vocabulary.separator is not None  # `prepare` has seen to it
        tags = [vocabulary.split_tag(line)[0] for line in lines]
        ids = [row[len(tag) :] for tag, row in zip(tags, rows.lists(), strict=True)]
        return cls(tags, ids, vocabulary.separator)

    def joined(self, starts: Sequence[int]) -> list[list[int]]:
        """Return the ids of the windows that begin at these lines, one for each line.

        The tag of the last line begins its window. The others are left out.
        """
        return [
            [*self.tags[last], *join_lines(self.lines[start : last + 1], self.separator)]
            for last, start in enumerate(starts)
        ]


@dataclass(frozen=True)
class Windows:
    """The windows of a block, one for each line that passed the rules."""

    starts: Sequence[int]
    """The first line of each window, as an index of those that passed; the last is its own."""
    shortened: Counter[str] = field(default_factory=Counter)
    """How many have fewer lines than drawn, by the reason."""

    @classmethod
    def choose(
        cls, numbers: Sequence[int], wanted: Sequence[int], src: Side, tgt: Side, *, longest: int
    ) -> Windows:
        """Choose the window of each line.

        Args:
            numbers: of the lines, ascending.
            wanted: how many lines before it were drawn.
            src, tgt: the lines.
            longest: the most tokens of a window on each side.
        """
        starts, shortened = [], Counter[str]()
        for last, count in enumerate(wanted):
            first = last
            tokens = [len(side.tags[last]) + len(side.lines[last]) for side in (src, tgt)]
            while last - first < count:
                if not first or numbers[first - 1] != numbers[first] - 1:
                    shortened[AT_BREAK] += 1
                    break
                for at, side in enumerate((src, tgt)):
                    tokens[at] += len(side.lines[first - 1]) + 1
                if max(tokens) > longest:
                    shortened[TOO_LONG] += 1
                    break
                first -= 1
            starts.append(first)
        return cls(starts, shortened)

    def texts(self, lines: Sequence[str]) -> list[str]:
        """Return the text of each window on a side, in one string."""
        return [_BETWEEN.join(lines[start : last + 1]) for last, start in enumerate(self.starts)]


@dataclass(frozen=True)
class JoinWindows:
    """The step that makes a window of each pair and some that come before it."""

    subwords: Subwords
    window: int
    """The most lines of a pair."""
    seed: int
    longest: int
    """The most tokens of a side."""

    def __call__(self, work: Work) -> None:
        assert work.ids is not None
        vocabularies = self.subwords.vocabularies(work.block.langs)
        src, tgt = map(Side.of, vocabularies, (work.tagged, work.lines[1]), work.ids)
        hashes = hash_pairs(*map(hash_lines, work.lines))
        wanted = draw_context(hashes, window=self.window, seed=self.seed)
        windows = Windows.choose(work.numbers.tolist(), wanted, src, tgt, longest=self.longest)
        src_ids, tgt_ids = (self.subwords.rows(side.joined(windows.starts)) for side in (src, tgt))
        work.ids = src_ids, tgt_ids
        work.lines = windows.texts(work.lines[0]), windows.texts(work.lines[1])
        work.shortened = windows.shortened


def draw_context(hashes: Hashes, *, window: int, seed: int) -> list[int]:
    """Return how many lines before each pair are wanted: uniformly from 0 to window - 1.

    hashes: of the pairs' text.
    """
    key = np.random.SeedSequence((seed, window)).generate_state(1, np.uint64)[0]
    drawn: list[int] = (mix(hashes ^ key) % np.uint64(window)).tolist()
    return drawn
