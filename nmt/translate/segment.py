"""A segment: what is searched by itself, with all that search need not know of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from nmt.lexical.word_list import ListedWord
from nmt.search.engine import Ids, SearchResult, Source

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Spans = Sequence[tuple[int, int]]
"""Starts and ends in a text, in order."""


class Copy(NamedTuple):
    """Text without letters, which is its own translation, and its ids in the source."""

    text: str
    ids: Ids


@dataclass(frozen=True)
class Segment:
    """A line, or a part of one, which is searched by itself, and what joins it to the others."""

    source: Source
    separator: str = ""  # between its translation and the next
    is_cut: bool = False  # whether it is part of a long sentence
    added: int = 0  # first tokens that the line itself does not have
    copy: Copy | None = None  # if so, there is nothing to search
    listed: tuple[ListedWord, ...] = ()  # words of a list that begin in it
    # If its source has annotations: the ids without them, and of each id the one that it is or
    # belongs to.
    plain: Ids = ()
    owners: Ids = ()

    def with_tag(self, tag: Ids) -> Segment:
        """Return the segment with a tag or a language token before it."""
        plain, owners = self.plain, self.owners
        if plain:
            plain = (*tag, *plain)
            owners = (*range(len(tag)), *(len(tag) + owner for owner in owners))
        source = replace(self.source, ids=(*tag, *self.source.ids))
        return replace(self, source=source, added=len(tag), plain=plain, owners=owners)

    def attention_to_plain(self, weights: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return attention (T, S) to the source as attention to its plain ids (T, P).

        A word that copies an annotation attends to it, so this counts for the word that the
        annotation belongs to.
        """
        if not self.plain:
            return weights
        import numpy as np

        to_plain = np.zeros((len(weights), len(self.plain)), np.float32)  # (T, P)
        np.add.at(to_plain.T, np.array(self.owners), weights.T)
        return to_plain


class Found(NamedTuple):
    """What search has found for a segment."""

    result: SearchResult
    guarded: bool = False  # whether it was searched again
