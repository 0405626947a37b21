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

from collections.abc import Sequence

import numpy as np

from nmt.data.epochs import mix
from nmt.data.shards import TokenRows
from nmt.data.vocabulary import Vocabulary, join_lines
from nmt.prepare.block import Hashes

Side = tuple[Sequence[Sequence[int]], Sequence[Sequence[int]]]
"""The token ids of one side's lines: of the tag that begins each, which may be empty, and the
others."""


def split_tags(vocabulary: Vocabulary, lines: Sequence[str], rows: TokenRows) -> Side:
    tags = [vocabulary.split_tag(line)[0] for line in lines]
    return tags, [row[len(tag) :] for tag, row in zip(tags, rows.lists(), strict=True)]


def join_side(side: Side, starts: Sequence[int], separator: int | None) -> list[list[int]]:
    """Return the ids of the windows that begin at these lines, one for each line.

    The tag of the last line begins its window. The tags of lines before it are left out.
    """
    assert separator is not None  # `prepare` has seen to it
    tags, lines = side
    joined = (join_lines(lines[start : last + 1], separator) for last, start in enumerate(starts))
    return [[*tag, *ids] for tag, ids in zip(tags, joined, strict=True)]


def choose_windows(
    numbers: Sequence[int], wanted: Sequence[int], src: Side, tgt: Side, *, longest: int
) -> list[int]:
    """Choose the window of each line that passed the rules. A window ends with its line.

    If lines 1, 2 and 4 passed, and two lines before each are wanted, the windows are 1; 1 and 2; 4.

    numbers: of the lines, ascending; wanted: how many lines before it were drawn; longest: the most
    tokens of a window on each side.
    Returns the index of the first line of each window.
    """
    starts = list[int]()
    for last, count in enumerate(wanted):
        first = last
        tokens = [len(tags[last]) + len(lines[last]) for tags, lines in (src, tgt)]
        while last - first < count:
            if not first or numbers[first - 1] != numbers[first] - 1:
                break
            tokens = [
                size + len(lines[first - 1]) + 1
                for size, (_, lines) in zip(tokens, (src, tgt), strict=True)
            ]
            if max(tokens) > longest:
                break
            first -= 1
        starts.append(first)
    return starts


def draw_context(hashes: Hashes, *, window: int, seed: int) -> list[int]:
    """Return how many lines before each pair are wanted, by its hash: 0 to window - 1."""
    key = np.random.SeedSequence((seed, window)).generate_state(1, np.uint64)[0]
    drawn: list[int] = (mix(hashes ^ key) % np.uint64(window)).tolist()
    return drawn
