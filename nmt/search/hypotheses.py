"""The active hypotheses of a group of sentences, and the constraints on them.

`Constraints` are prefixes and lengths. `ActiveHypotheses` is the common part of `Beams` and
`Samples`.

Legend: B sentences, W hypotheses of each, N = B * W, t tokens so far.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from nmt.data.vocabulary import BOS_ID, EOS_ID
from nmt.models.base import DecoderState
from nmt.search.engine import Hypothesis, Source
from nmt.search.forbidden import ForbiddenSequences, completing_tokens
from nmt.search.options import SearchOptions
from nmt.search.repetition import NO_PAIRS, Pairs, repeating_tokens, tokens_so_far
from nmt.search.shortlist import BatchShortlist
from nmt.search.top_k import NextTokens, StepQuery

Integers = NDArray[np.int64]

FREE = -1  # any token may follow


class Constraints:
    """Prefixes and length limits of B translations, all of the same length so far."""

    def __init__(self, sources: Sequence[Source], options: SearchOptions) -> None:
        """Take the prefixes from the sources, and the lengths from the options.

        A prefix that is longer than the limit is still taken whole.
        """
        limits = [
            options.longest(len(source.ids), is_in_word=source.is_in_word) for source in sources
        ]
        lengths = [len(source.prefix) for source in sources]
        self.longest: Integers = np.maximum(limits, lengths)  # (B,)
        self._min_tokens = options.min_tokens
        self._prefixes: Integers = np.full((len(sources), max(lengths)), FREE)  # (B, P)
        for row, source in enumerate(sources):
            self._prefixes[row, : len(source.prefix)] = source.prefix

    def token(self, length: int) -> Integers:
        """Return the only token (B,) that may follow at this length, or `FREE`."""
        tokens = np.where(self.longest <= length, EOS_ID, FREE)
        if length < self._prefixes.shape[1]:
            given = self._prefixes[:, length]
            tokens = np.where(given == FREE, tokens, given)
        return tokens

    def may_end(self, length: int) -> bool:
        """Tell whether translations may end at this length."""
        return length >= self._min_tokens

    def select(self, sentences: Integers) -> None:
        """Keep these sentences, in this order."""
        self.longest, self._prefixes = self.longest[sentences], self._prefixes[sentences]


@dataclass(frozen=True)
class Group:
    """Sentences that join the batch together."""

    numbers: Sequence[int]  # (B,) chosen by the caller
    sources: Sequence[Source]  # (B,)
    state: DecoderState  # fresh
    cost: int  # of each sentence, against the budget
    shortlist: BatchShortlist | None = None  # tokens that each sentence may take; None: all


class ActiveHypotheses(ABC):
    """The active hypotheses of B sentences, W each, all of the same length."""

    def __init__(self, group: Group, options: SearchOptions) -> None:
        """Start with one hypothesis for each sentence."""
        self.state = group.state
        self.numbers: Integers = np.array(group.numbers)  # (B,)
        (last,) = options.first_ids[-1:] or (BOS_ID,)
        self.last_tokens: Integers = np.full(len(group.numbers), last)  # (N,)
        self.length = 0  # t
        self.constraints = Constraints(group.sources, options)
        self.options = options
        self.shortlist = group.shortlist
        self._forbidden = _forbidden(group.sources, options)  # of each sentence; [] if of none
        self._cost_each = group.cost

    @property
    def cost(self) -> int:
        """The sum of the sentences' costs."""
        return self._cost_each * len(self.numbers)

    def query(self) -> StepQuery:
        """Return the next step's query; `scored_tokens` are the forced tokens, else eos."""
        rows = len(self.last_tokens)
        token = self.constraints.token(self.length)  # (B,)
        scored_tokens = np.where(token == FREE, EOS_ID, token)  # (B,)
        repeating = NO_PAIRS
        size, penalty = self.options.no_repeat_ngram, self.options.repetition_penalty
        if size:
            repeating = repeating_tokens(self.ids(), size)
        return StepQuery(
            scored_tokens=scored_tokens.repeat(rows // len(scored_tokens)),
            may_end=np.full(rows, self.constraints.may_end(self.length)),
            uniforms=np.zeros(0),
            barred=np.concatenate((repeating, self.forbidden_tokens())),
            penalised=tokens_so_far(self.ids()) if penalty > 1 else NO_PAIRS,
            repetition_penalty=penalty,
        )

    def forbidden_tokens(self) -> Pairs:
        """Return the tokens that would complete a forbidden sequence."""
        return completing_tokens(self._forbidden, self.ids()) if self._forbidden else NO_PAIRS

    @abstractmethod
    def ids(self) -> Integers:
        """Return the tokens (N, t) of the hypotheses so far."""

    @abstractmethod
    def extend(self, found: NextTokens) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Extend the hypotheses by a token, and yield the sentences that are done.

        `found` are the next tokens of these hypotheses. It is overwritten.
        """

    def advance(self, sentences: Integers, parents: Integers, tokens: Integers) -> None:
        """Go on with these sentences, in this order, and reorder the model's state.

        Args:
            sentences: (B',) those that are not done.
            parents: (B', W) the hypotheses, of N, that the new ones extend.
            tokens: (B', W) the last tokens of the new ones.
        """
        self.length += 1
        self.numbers = self.numbers[sentences]
        self.last_tokens = tokens.reshape(-1)
        if not len(sentences):
            return
        self.constraints.select(sentences)
        if self._forbidden:
            self._forbidden = [self._forbidden[sentence] for sentence in sentences]
        if self.shortlist is not None:
            self.shortlist.select(sentences)
        self.state.select(torch.from_numpy(parents.reshape(-1)), torch.from_numpy(sentences))


def _forbidden(sources: Sequence[Source], options: SearchOptions) -> list[ForbiddenSequences]:
    if not options.forbidden and not any(source.barred for source in sources):
        return []
    of_all = ForbiddenSequences(options.forbidden)
    return [
        ForbiddenSequences((*options.forbidden, *source.barred)) if source.barred else of_all
        for source in sources
    ]


def closed_up(done: NDArray[np.bool_]) -> Integers:
    """Return the sentences that are not done. The last ones fill the gaps of those that are.

    So most sentences keep their rows, and the model's state moves few of them.
    """
    remaining = np.flatnonzero(~done)
    order = np.arange(len(remaining))
    order[done[: len(remaining)]] = remaining[remaining >= len(remaining)]
    return order


def ranked(hypotheses: Iterable[Hypothesis]) -> list[Hypothesis]:
    """Return hypotheses by score, best first."""
    return sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)
