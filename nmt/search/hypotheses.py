"""The alive hypotheses of sentences, which beams and samples carry on in ways of their own.

Legend: B sentences, W hypotheses of each, t tokens of each so far.

What is demanded of translations whatever their probability: beginnings and lengths.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nmt.data.vocabulary import BOS_ID, EOS_ID
from nmt.models.base import DecoderState
from nmt.search.engine import Hypothesis, Source
from nmt.search.options import SearchOptions
from nmt.search.shortlist import Chosen
from nmt.search.top_k import Likeliest, Question

Integers = NDArray[np.int64]

FREE = -1  # no token is demanded


class Demands:
    """What is demanded of the translations of B sources, which are all equally long so far."""

    def __init__(self, sources: Sequence[Source], options: SearchOptions) -> None:
        """Take the prefixes from the sources, and the lengths from the options.

        A prefix may be longer than a translation of its own source's length could be.
        """
        self.longest: Integers = np.array(
            [
                max(
                    options.longest(len(source.ids), is_in_word=source.is_in_word),
                    len(source.prefix),
                )
                for source in sources
            ]
        )  # (B,)
        self._fewest = options.min_tokens
        prefixes = max(len(source.prefix) for source in sources)
        self._prefixes: Integers = np.full((len(sources), prefixes), FREE)  # (B, P)
        for row, source in enumerate(sources):
            self._prefixes[row, : len(source.prefix)] = source.prefix

    def token(self, length: int) -> Integers:
        """Return the token (B,) that each translation must take at this length, or `FREE`."""
        tokens = np.where(self.longest <= length, EOS_ID, FREE)
        if length < self._prefixes.shape[1]:
            given = self._prefixes[:, length]
            tokens = np.where(given == FREE, tokens, given)
        return tokens

    def may_end(self, length: int) -> bool:
        """Tell whether translations may be of this length."""
        return length >= self._fewest

    def select(self, rows: Integers) -> None:
        """Keep some sources, in this order."""
        self.longest, self._prefixes = self.longest[rows], self._prefixes[rows]


@dataclass(frozen=True)
class Group:
    """Sentences that join the search together."""

    numbers: Sequence[int]  # (B,) what the caller calls them
    sources: Sequence[Source]  # (B,)
    state: DecoderState  # fresh
    room: int  # what each sentence takes up of the search's room
    chosen: Chosen | None = None  # which tokens each sentence may take; None: all


class Alive(ABC):
    """The alive hypotheses of B sentences, W each, that are equally long."""

    def __init__(self, group: Group, options: SearchOptions) -> None:
        """Begin with one hypothesis for each sentence."""
        self.state = group.state
        self.numbers: Integers = np.array(group.numbers)  # (B,)
        self.last_tokens: Integers = np.full(len(group.numbers), BOS_ID)  # (B * W,) by state's row
        self.length = 0  # t
        self.demands = Demands(group.sources, options)
        self.options = options
        self.chosen = group.chosen
        self._room_each = group.room

    @property
    def room(self) -> int:
        """What the sentences take up."""
        return self._room_each * len(self.numbers)

    def question(self) -> Question:
        """Return what to ask of the state's rows: of tokens that are demanded, else of eos."""
        rows = len(self.last_tokens)
        token = self.demands.token(self.length)  # (B,)
        asked = np.where(token == FREE, EOS_ID, token)  # (B,)
        return Question(
            asked=asked.repeat(rows // len(asked)),
            may_end=np.full(rows, self.demands.may_end(self.length)),
            chances=np.zeros(rows),
        )

    @abstractmethod
    def extend(self, found: Likeliest, rows: slice) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Go a step on, and yield the sentences that are done.

        Args:
            found: next tokens of hypotheses.
            rows: those that belong to the state's rows.
        """


def closed_up(done: NDArray[np.bool_]) -> Integers:
    """Return the sentences that are not done; the last of them fill the gaps of those that are."""
    going = np.flatnonzero(~done)
    order = np.arange(len(going))
    order[done[: len(going)]] = going[going >= len(going)]
    return order


def ranked(hypotheses: list[Hypothesis]) -> list[Hypothesis]:
    """Return hypotheses best first."""
    return sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)
