"""Beam search of sentences with phrases that their translations must contain.

This is dynamic beam allocation (Post and Vilar 2018, section 3). Besides the best next tokens of
each hypothesis, search looks at those that begin or continue a phrase. Hypotheses are in banks, by
how many tokens of phrases they have. The banks share the beam, so hypotheses without a phrase do
not push out those that paid for one. A hypothesis may only end in the last bank.

The banks take turns, the last one first, with their next best hypothesis each, until the beam is
full. So a bank without hypotheses leaves its share to the others. The last bank has at least half
of `--beam-size`. The beam is half as large again as that, or larger if there are many banks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmt.data.vocabulary import EOS_ID
from nmt.search.beams import NO_TOKEN, Beams, Floats
from nmt.search.engine import Hypothesis, Source
from nmt.search.hypotheses import FREE, Group, Integers
from nmt.search.options import SearchOptions
from nmt.search.phrases import SentencePhrases, Stage
from nmt.search.top_k import NextTokens, StepQuery

Stages = NDArray[Any]
"""Array of `Stage`s."""


@dataclass(frozen=True)
class _View:
    """What stages say of themselves, as arrays."""

    may_end: NDArray[np.bool_]  # (B, W)
    wanted: Integers  # (B, W, M), `NO_TOKEN` at the end
    wanted_banks: Integers  # (B, W, M)
    other_banks: Integers  # (B, W, 2)

    @classmethod
    def of(cls, stages: Stages) -> _View:
        """Look at stages (B, W)."""
        rows: list[Stage] = stages.reshape(-1).tolist()
        shape = (len(rows), max((len(stage.wanted) for stage in rows), default=0))
        wanted, banks = np.full(shape, NO_TOKEN), np.full(shape, NO_TOKEN)
        for row, stage in enumerate(rows):
            count = len(stage.wanted)
            wanted[row, :count], banks[row, :count] = stage.wanted, stage.wanted_banks
        return cls(
            np.array([stage.may_end for stage in rows], np.bool_).reshape(stages.shape),
            wanted.reshape(*stages.shape, shape[1]),
            banks.reshape(*stages.shape, shape[1]),
            np.array([stage.other_banks for stage in rows], np.int64).reshape(*stages.shape, 2),
        )


class ConstrainedBeams(Beams):
    """The active hypotheses of sentences with phrases."""

    def __init__(self, group: Group, options: SearchOptions) -> None:
        """Start with one hypothesis for each sentence."""
        super().__init__(group, options)
        phrases = [SentencePhrases(one.phrases, options.word_edges) for one in group.sources]
        self._stages: Stages = np.array([[one.first()] for one in phrases])  # (B, W)
        self._view = _View.of(self._stages)
        # (B,) active hypotheses of each sentence
        self._slots: Integers = np.array([beam_size(one, options) for one in group.sources])
        self._width = int(self._slots.max())  # W
        self._last_banks: Integers = np.array([one.all_tokens for one in phrases])  # (B,)

    def query(self) -> StepQuery:
        """Return the next step's query, which also scores what begins or continues a phrase."""
        query = super().query()
        may_end = query.may_end & self._view.may_end.reshape(-1)
        wanted = self._view.wanted.reshape(len(may_end), -1)
        return replace(query, may_end=may_end, wanted=_filled(wanted))

    def _extensions(self, found: NextTokens) -> tuple[Floats, Integers]:
        """Return all extensions, also those by tokens that search wants; see `Beams`."""
        log_probs, tokens = super()._extensions(found)  # each (B, W, k)
        log_probs[(tokens == EOS_ID) & ~self._view.may_end[:, :, None]] = -math.inf
        wanted = self._view.wanted  # (B, W, M)
        scored = found.wanted_log_probs.reshape(*self._stages.shape, -1)[:, :, : wanted.shape[2]]
        extended = self._log_probs[:, :, None] + scored  # (B, W, M)
        is_there = (log_probs > -math.inf)[:, :, :, None]  # (B, W, k, 1)
        is_known = ((tokens[:, :, :, None] == wanted[:, :, None, :]) & is_there).any(axis=2)
        is_only = self.constraints.token(self.length) != FREE  # (B,)
        is_over = ~is_there.any(axis=(1, 2, 3))  # (B,) the model's output is not a number
        is_barred = is_known | (wanted == NO_TOKEN) | (is_only | is_over)[:, None, None]
        extended[is_barred | np.isnan(extended)] = -math.inf
        for row, token in self.forbidden_tokens().tolist():
            place = divmod(row, self._stages.shape[1])
            extended[place][wanted[place] == token] = -math.inf
        return (
            np.concatenate((log_probs, extended), axis=2),
            np.concatenate((tokens, _filled(wanted)), axis=2),
        )

    def _best_extensions(self, found: NextTokens) -> tuple[Floats, Integers, Integers]:
        """Return the extensions that get a place in the beam, in their order; see `Beams`."""
        log_probs, tokens = self._extensions(found)  # each (B, W, k)
        count, _, per_parent = log_probs.shape
        banks, extended = self._banks(tokens).reshape(count, -1), log_probs.reshape(count, -1)
        is_last = banks == self._last_banks[:, None]
        best = in_turns(extended, banks, is_last, _head(self.options))[:, : 2 * self._width]
        extended = np.take_along_axis(extended, best, 1)  # (B, 2W)
        last_tokens = np.take_along_axis(tokens.reshape(count, -1), best, 1)
        # Some sentences have a narrower beam than others.
        is_eos = last_tokens == EOS_ID
        place = np.where(is_eos, np.arange(is_eos.shape[1]), (~is_eos).cumsum(axis=1) - 1)
        extended[place >= self._slots[:, None]] = -math.inf
        return extended, best // per_parent, last_tokens

    def _banks(self, tokens: Integers) -> Integers:
        """Return the bank of each extension (B, W, k)."""
        others = self._view.other_banks  # (B, W, 2)
        edges = self.options.word_edges
        banks = others[:, :, :1]  # (B, W, 1)
        if edges is not None:
            banks = np.where(edges.begin_inside[tokens], others[:, :, 1:], banks)
        is_wanted = tokens[:, :, :, None] == self._view.wanted[:, :, None, :]  # (B, W, k, M)
        after_wanted = self._view.wanted_banks[:, :, None, :]
        wanted_banks = np.where(is_wanted, after_wanted, NO_TOKEN).max(axis=3, initial=NO_TOKEN)
        return np.where(wanted_banks == NO_TOKEN, banks, wanted_banks)

    def _n_best(self, sentence: int) -> list[Hypothesis]:
        """Return the best finished hypotheses.

        If the length limit came before any had all phrases, return the one with most tokens of
        phrases. Its score is -inf.
        """
        found = super()._n_best(sentence)
        if found or self.length < self.constraints.longest[sentence]:
            return found
        banks = [stage.bank for stage in self._stages[sentence]]
        log_probs: list[float] = self._log_probs[sentence].tolist()
        best = max(range(len(banks)), key=lambda own: (banks[own], log_probs[own]))
        ids = tuple(self._ids[sentence, best].tolist())
        return [Hypothesis(ids, log_probs[best], -math.inf)]

    def _keep(
        self, sentences: Integers, log_probs: Floats, parents: Integers, tokens: Integers
    ) -> None:
        """See `Beams`."""
        stages = np.take_along_axis(self._stages, parents, 1)[sentences]  # (B', W)
        pairs = zip(stages.reshape(-1), tokens[sentences].reshape(-1).tolist(), strict=True)
        after: list[Stage] = [stage.after(token) for stage, token in pairs]
        self._stages = np.array(after, object).reshape(stages.shape)
        self._view = _View.of(self._stages)
        self._slots, self._last_banks = self._slots[sentences], self._last_banks[sentences]
        super()._keep(sentences, log_probs, parents, tokens)


def _filled(wanted: Integers) -> Integers:
    return np.where(wanted == NO_TOKEN, EOS_ID, wanted)


def beam_size(source: Source, options: SearchOptions) -> int:
    """Return how many active hypotheses a sentence gets.

    With phrases, these are half as many more, or enough for the last bank and one for each other.
    There are few sizes, so that sentences of equal size fill groups.
    """
    tokens = sum(phrase.most_tokens for phrase in source.phrases)
    if not tokens:
        return options.width
    size, fewest = options.beam_size, tokens + _head(options)
    usual = size + -(-size // 2)
    return usual if fewest <= usual else size * -(-fewest // size)


def _head(options: SearchOptions) -> int:
    """Return how many hypotheses of the last bank have a place before all others."""
    return max(-(-options.beam_size // 2), options.n_best)


def in_turns(log_probs: Floats, banks: Integers, is_last: NDArray[np.bool_], head: int) -> Integers:
    """Order extensions (B, n) so that their banks take turns, after the `head` best of the last.

    For example, with head 2, bank 1: -3 -5 -6, and bank 0: -1 -2 -4, the order is -3 -5, -1, -2,
    -6 -4. Ties keep their order. Those of -inf come last.
    """
    size = log_probs.shape[1]
    by_bank = np.lexsort((-log_probs, banks))
    sorted_banks = np.take_along_axis(banks, by_bank, 1)
    begins = np.ones_like(banks, np.bool_)
    begins[:, 1:] = sorted_banks[:, 1:] != sorted_banks[:, :-1]
    first = np.maximum.accumulate(np.where(begins, np.arange(size), 0), axis=1)
    turns = np.empty_like(banks)
    np.put_along_axis(turns, by_bank, np.arange(size) - first, 1)
    turns[is_last & (turns < head)] = -1
    turns[log_probs == -math.inf] = size
    return np.lexsort((-log_probs, -banks, turns))
