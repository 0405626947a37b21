"""Beams of sentences with phrases: dynamic beam allocation (Post and Vilar 2018, section 3).

Besides the best next tokens of each hypothesis, search looks at those that begin or continue a
phrase. Hypotheses are in banks, by how many tokens of phrases they have. The banks share the beam,
so hypotheses without a phrase do not push out those that paid for one. A hypothesis may only end in
the last bank.

The banks take turns, the last one first, with their next best hypothesis each, until the beam is
full. So a bank without hypotheses leaves its share to the others. The last bank has at least half
of `--beam-size`. The beam is half as large again as that, or larger if there are many banks.

For example, with beam size 2, the words a, b, c and d, and the phrase `c d`. It has two tokens, so
there are banks 0, 1 and 2. The beam has 2 + 1 = 3 places. At the first step, the log-probabilities
are

    a -0.69     b -1.20     eos -2.30   d -2.53     c -3.91

eos is barred, since the phrase is not there. c is wanted, since it begins the phrase, so it is
scored however unlikely it is. After c, a hypothesis is in bank 1, and after a, b or d in bank 0.
Bank 2 is empty. The others take turns, the higher bank first: c, a, and then b. Without banks, the
three best would be a, b and d, and c would have no place.

At the second step, `c` wants d, which leads to bank 2, and c, which begins the phrase anew and
stays in bank 1. Any other token leads back to bank 0, since the tokens of a phrase are in a row.
`c d` is in the last bank, so it may end.

Legend: B active sentences, W hypotheses of each, N = B * W, k next tokens of each, M wanted tokens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmt.data.vocabulary import EOS_ID
from nmt.search.options import SearchOptions
from nmt.search.phrases import Phrase, PhraseStage, SentencePhrases, StageKey
from nmt.search.top_k import Integers, StepQuery

Floats = NDArray[np.float64]

NO_TOKEN = -1


class PhraseBanks:
    """How far the active hypotheses of a group are with their phrases."""

    def __init__(self, phrases: Sequence[Sequence[Phrase]], options: SearchOptions) -> None:
        """Take the phrases of each sentence; it has one hypothesis yet."""
        sentences = [SentencePhrases(each, options.word_edges) for each in phrases]
        self._options = options
        self._last_banks: Integers = np.array([each.all_tokens for each in sentences])  # (B,)
        # (B,) active hypotheses of each sentence
        self._slots: Integers = np.array([beam_size(each, options) for each in phrases])
        self.max_width = int(self._slots.max())  # the largest W
        self._reach(np.array([[each.stage(StageKey())] for each in sentences]))

    def _reach(self, stages: NDArray[Any]) -> None:
        """Note the stages (B, W) of the hypotheses, and what they say of themselves as arrays."""
        rows: list[PhraseStage] = stages.reshape(-1).tolist()
        shape = (*stages.shape, max((len(stage.wanted) for stage in rows), default=0))
        wanted, banks = np.full((2, len(rows), shape[2]), NO_TOKEN)
        for row, stage in enumerate(rows):
            count = len(stage.wanted)
            wanted[row, :count], banks[row, :count] = stage.wanted, stage.wanted_banks
        others = np.array([stage.other_banks for stage in rows], np.int64)
        may_end = np.array([stage.may_end for stage in rows], np.bool_)
        self._stages = stages  # (B, W)
        self._may_end = may_end.reshape(stages.shape)  # (B, W)
        self._wanted = wanted.reshape(shape)  # (B, W, M), `NO_TOKEN` at the end
        self._wanted_banks = banks.reshape(shape)  # (B, W, M)
        self._other_banks = others.reshape(*stages.shape, 2)  # (B, W, 2)

    def restrict(self, query: StepQuery, _sentences: Integers, _ids: Integers) -> None:
        """Let only hypotheses with all phrases end, and ask for what begins or continues one."""
        query.wanted = _filled(self._wanted.reshape(len(query.forced), -1))  # (N, M)
        query.bar_end(np.flatnonzero(~self._may_end))

    def with_wanted(
        self,
        log_probs: NDArray[np.float32],
        tokens: Integers,
        wanted_log_probs: NDArray[np.float32],
    ) -> tuple[NDArray[np.float32], Integers]:
        """Add the wanted tokens (B, W, M) to the best next tokens (B, W, k): (B, W, k + M) each."""
        wanted = self._wanted  # (B, W, M)
        is_there = (log_probs > -math.inf)[:, :, :, None]  # (B, W, k, 1)
        is_known = ((tokens[:, :, :, None] == wanted[:, :, None, :]) & is_there).any(axis=2)
        added = wanted_log_probs[:, :, : wanted.shape[2]]  # another group may want more
        added[is_known | (wanted == NO_TOKEN)] = -math.inf
        return (
            np.concatenate((log_probs, added), axis=2),
            np.concatenate((tokens, _filled(wanted)), axis=2),
        )

    def rank(self, log_probs: Floats, tokens: Integers) -> Integers:
        """Return the extensions that get a place in the beam, in their order.

        log_probs: (B, W, k) of all extensions. Those that have no place get -inf.
        tokens: (B, W, k) their last tokens.
        Returns (B, 2W) places among the W * k of a sentence.
        """
        log_probs[(tokens == EOS_ID) & ~self._may_end[:, :, None]] = -math.inf
        flat = log_probs.reshape(len(log_probs), -1)  # (B, W * k), the same memory
        banks = self._banks(tokens).reshape(flat.shape)
        is_last = banks == self._last_banks[:, None]
        order = in_turns(flat, banks, is_last, _head(self._options))  # (B, W * k)
        best = order[:, : 2 * self.max_width]  # (B, 2W)
        # Some sentences have a narrower beam than others.
        is_eos = np.take_along_axis(tokens.reshape(flat.shape), best, 1) == EOS_ID
        place = np.where(is_eos, np.arange(is_eos.shape[1]), (~is_eos).cumsum(axis=1) - 1)
        scores = np.take_along_axis(flat, best, 1)  # (B, 2W)
        scores[place >= self._slots[:, None]] = -math.inf
        np.put_along_axis(flat, best, scores, 1)
        return best

    def _banks(self, tokens: Integers) -> Integers:
        """Return the bank of each extension (B, W, k)."""
        others = self._other_banks  # (B, W, 2)
        edges = self._options.word_edges
        banks = others[:, :, :1]  # (B, W, 1)
        if edges is not None:
            banks = np.where(edges.begin_inside[tokens], others[:, :, 1:], banks)
        is_wanted = tokens[:, :, :, None] == self._wanted[:, :, None, :]  # (B, W, k, M)
        after_wanted = self._wanted_banks[:, :, None, :]
        wanted_banks = np.where(is_wanted, after_wanted, NO_TOKEN).max(axis=3, initial=NO_TOKEN)
        return np.where(wanted_banks == NO_TOKEN, banks, wanted_banks)

    def follow(self, rows: Integers, parents: Integers, tokens: Integers) -> None:
        """Go on with these sentences (B',), and the new tokens and parents (B', W') of each."""
        stages = np.take_along_axis(self._stages[rows], parents, 1)  # (B', W')
        pairs = zip(stages.reshape(-1), tokens.reshape(-1).tolist(), strict=True)
        after: list[PhraseStage] = [stage.after(token) for stage, token in pairs]
        self._reach(np.array(after, object).reshape(stages.shape))
        self._slots, self._last_banks = self._slots[rows], self._last_banks[rows]

    def furthest(self, row: int, log_probs: Floats) -> int:
        """Return which hypothesis (W,) of a sentence has most tokens of phrases."""
        banks = [stage.bank for stage in self._stages[row]]
        return max(range(len(banks)), key=lambda column: (banks[column], log_probs[column]))


def _filled(wanted: Integers) -> Integers:
    return np.where(wanted == NO_TOKEN, EOS_ID, wanted)


def beam_size(phrases: Sequence[Phrase], options: SearchOptions) -> int:
    """Return how many active hypotheses a sentence with these phrases gets.

    These are half as many more than usual, or enough for the last bank and one for each other.
    There are few sizes, so that sentences of equal size fill groups.
    """
    tokens = sum(phrase.most_tokens for phrase in phrases)
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
    order: NDArray[np.int64] = np.lexsort((-log_probs, -banks, turns))
    return order
