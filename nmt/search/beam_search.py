"""Beam search: the loop that extends hypotheses step by step, in a batch that stays full.

`decode` is the loop: step the model, find the best next tokens, extend the hypotheses, reorder the
model's state. Sentences that are done leave the batch, and new ones join when half of the budget
is free. The sentences of a batch may be at different positions. `Beams` extends the hypotheses of
beam search. Greedy search is beam size 1. `nmt.search.sampling` extends samples.

A hypothesis's score is its log-probability divided by a length penalty. Higher is better. Each step
looks at the 2W best extensions of a sentence's W active hypotheses. Those among the first W that
end with eos are finished. The best W without eos are active in the next step. A sentence is done
when W hypotheses are finished, or earlier, when no active one can still become one of the best
`n_best`.

Ties: equal log-probabilities are ordered by hypothesis, then by the more probable last token, then
by the lower id. Equal scores are ordered by which hypothesis finished first.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.data.vocabulary import EOS_ID
from nmt.models.base import Decoder
from nmt.search.engine import Hypothesis
from nmt.search.hypotheses import FREE, ActiveHypotheses, Group, Integers, closed_up, ranked
from nmt.search.options import SearchOptions
from nmt.search.sampling import Samples, draw_tokens
from nmt.search.shortlist import PickTokens
from nmt.search.top_k import NextTokens, StepQuery, top_tokens

Floats = NDArray[np.float64]

# On a CPU, this many logits are computed at a time: 8 MB of fp32, which fits most caches.
_LOGITS_PER_BLOCK = 1 << 21
_MIN_BLOCK_ROWS = 64  # a product of fewer rows takes nearly as long


def decode(
    model: Decoder,
    groups: Iterator[Group],
    options: SearchOptions,
    *,
    budget: float = math.inf,
    on_step: Callable[[], object] | None = None,
) -> Iterator[tuple[int, list[Hypothesis]]]:
    """Find translations of sentences.

    Args:
        model: the one that made the groups' states.
        groups: the next one is taken when half of the budget is free.
        budget: the largest sum of the active sentences' costs. A single group may exceed it.
        on_step: called before each step of the decoder. If it raises, the search ends.

    Yields:
        A sentence's number and its `n_best` hypotheses, best first, as soon as the sentence is
        done. Fewer if fewer exist, and none if the model's output is not a number.
    """
    kind: type[ActiveHypotheses]
    if options.sampling is None:
        # All of the 2W best may extend one hypothesis. Greedy search needs only the first.
        count = 2 * options.beam_size if options.beam_size > 1 else 1
        kind, pick = Beams, partial(top_tokens, count=count)
    else:
        kind, pick = Samples, partial(draw_tokens, sampling=options.sampling)
    active: list[ActiveHypotheses] = []
    while True:
        while sum(group.cost for group in active) <= budget / 2:
            joining = next(groups, None)
            if joining is None:
                break
            active.append(kind(joining, options))
            del joining  # it holds the state's memory
        if not active:
            return
        if on_step is not None:
            on_step()
        last_tokens = torch.from_numpy(np.concatenate([group.last_tokens for group in active]))
        features = model.step([group.state for group in active], last_tokens)  # (N, F)
        found = _next_tokens(model, features, active, pick, options.barred_ids)
        for group, next_tokens in zip(active, found, strict=True):
            yield from group.extend(next_tokens)  # finishes hypotheses, reorders the state
        active = [group for group in active if len(group.numbers)]


def _next_tokens(
    model: Decoder,
    features: Tensor,
    active: list[ActiveHypotheses],
    pick: PickTokens,
    barred_ids: Sequence[int],
) -> list[NextTokens]:
    """Pick the next tokens of each group's hypotheses, given their features (N, F)."""
    queries = [group.query() for group in active]
    rows = [len(group.last_tokens) for group in active]
    if active[0].shortlist is None:
        logits = logits_in_blocks(model, features)
        return pick(logits, StepQuery.joined(queries), barred_ids=barred_ids).split(rows)
    return [
        group.shortlist.pick(pick, own_features, query)
        for group, own_features, query in zip(
            active, torch.split(features, rows), queries, strict=True
        )
        if group.shortlist is not None
    ]


def logits_in_blocks(model: Decoder, features: Tensor) -> Iterator[Tensor]:
    """Yield the logits (n, V) of rows of features in order: on a CPU, a cacheful at a time."""
    on_cpu = features.device.type == "cpu"
    per_block = max(_MIN_BLOCK_ROWS, _LOGITS_PER_BLOCK // model.vocab_size)
    blocks = torch.split(features, per_block if on_cpu else len(features))
    return (model.project(block) for block in blocks)


class Beams(ActiveHypotheses):
    """The active hypotheses of beam search: W of each sentence, best first."""

    def __init__(self, group: Group, options: SearchOptions) -> None:
        """Start with one hypothesis for each sentence."""
        super().__init__(group, options)
        count = len(group.numbers)
        self._ids: Integers = np.zeros((count, 1, 0), np.int64)  # (B, W, t)
        self._log_probs: Floats = np.zeros((count, 1))  # (B, W), -inf: no hypothesis
        self._log_prob_history: Floats = np.zeros((count, 1, 0))  # (B, W, t) after each token
        self._finished: list[list[Hypothesis]] = [[] for _ in group.numbers]
        # (B,) lowest score among the best `n_best` finished, -inf: fewer are finished
        self._worst_scores: Floats = np.full(count, -math.inf)
        # (B,) length penalty of the longest possible hypothesis
        self._last_penalties: Floats = np.array(
            [options.penalty(int(longest) + 1) for longest in self.constraints.longest]
        )

    def ids(self) -> Integers:
        """See `ActiveHypotheses`."""
        return self._ids.reshape(len(self.last_tokens), self.length)

    def extend(self, found: NextTokens) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Extend the hypotheses by a token, and yield the sentences that are done."""
        log_probs, parents, tokens = self._best_extensions(found)  # each (B, 2W)
        self._collect_finished(log_probs, parents, tokens)
        log_probs, parents, tokens = self._best_active(log_probs, parents, tokens)  # each (B, W)
        done = self._done(log_probs)
        for row in np.flatnonzero(done):
            best = ranked(self._finished[row])[: self.options.n_best]
            yield int(self.numbers[row]), best
        self._keep(closed_up(done), log_probs, parents, tokens)

    def _best_extensions(self, found: NextTokens) -> tuple[Floats, Integers, Integers]:
        """Return log-probabilities, parents and tokens of the 2W best extensions, each (B, 2W)."""
        batch, width = self._log_probs.shape
        next_log_probs = found.log_probs.reshape(batch, width, -1)  # (B, W, count)
        tokens = found.tokens.reshape(batch, width, -1)
        forced = self.constraints.token(self.length)  # (B,)
        is_forced = forced != FREE
        if is_forced.any():  # these have only one extension
            next_log_probs[is_forced] = -math.inf
            scored = found.scored_log_probs.reshape(batch, width)
            next_log_probs[is_forced, :, 0] = scored[is_forced]
            tokens[is_forced, :, 0] = forced[is_forced, None]
        is_bad = np.isnan(next_log_probs)
        if is_bad.any():
            is_active = self._log_probs > -math.inf  # (B, W)
            next_log_probs[is_bad] = -math.inf
            for row in np.flatnonzero((is_bad & is_active[:, :, None]).any(axis=(1, 2))):
                next_log_probs[row] = -math.inf  # the sentence ends without any hypothesis
                self._finished[row], self._worst_scores[row] = [], -math.inf
        extended = (self._log_probs[:, :, None] + next_log_probs).reshape(batch, -1)
        best = np.argsort(-extended, axis=1, kind="stable")[:, : 2 * self.options.beam_size]
        return (
            np.take_along_axis(extended, best, 1),
            best // next_log_probs.shape[2],
            np.take_along_axis(tokens.reshape(batch, -1), best, 1),
        )

    def _collect_finished(self, log_probs: Floats, parents: Integers, tokens: Integers) -> None:
        """Finish the extensions among the first W that end with eos."""
        width = self.options.beam_size
        is_finished = (tokens[:, :width] == EOS_ID) & (log_probs[:, :width] > -math.inf)
        penalty = self.options.penalty(self.length + 1)
        for row, column in np.argwhere(is_finished).tolist():
            parent, log_prob = parents[row, column], float(log_probs[row, column])
            history = [*self._log_prob_history[row, parent].tolist(), log_prob]  # t + 1
            finished = self._finished[row]
            finished.append(
                Hypothesis(
                    tuple(self._ids[row, parent].tolist()),
                    log_prob,
                    log_prob / penalty,
                    tuple(map(operator.sub, history, [0.0, *history])),
                )
            )
            if len(finished) >= self.options.n_best:
                self._worst_scores[row] = ranked(finished)[self.options.n_best - 1].score

    def _best_active(
        self, log_probs: Floats, parents: Integers, tokens: Integers
    ) -> tuple[Floats, Integers, Integers]:
        """Return the W best extensions without eos, each (B, W): active in the next step."""
        is_eos = tokens == EOS_ID  # (B, 2W)
        log_probs = np.where(is_eos, -math.inf, log_probs)
        # No more rows than hypotheses: a forced prefix takes one. The width never shrinks.
        most = int((log_probs > -math.inf).sum(axis=1).max())
        width = max(self._log_probs.shape[1], min(self.options.beam_size, most))
        # The columns without eos first, in order.
        keep = np.argsort(is_eos, axis=1, kind="stable")[:, :width]  # (B, W)
        return (
            np.take_along_axis(log_probs, keep, 1),
            np.take_along_axis(parents, keep, 1),
            np.take_along_axis(tokens, keep, 1),
        )

    def _done(self, log_probs: Floats) -> NDArray[np.bool_]:
        """Return which sentences (B,) are done, given `log_probs` (B, W) of the active."""
        num_finished = np.array([len(finished) for finished in self._finished])
        # The best score still possible: log-probabilities only fall, and penalties only rise.
        bounds = log_probs[:, 0] / self._last_penalties
        return (num_finished >= self.options.beam_size) | (self._worst_scores >= bounds)

    def _keep(
        self, sentences: Integers, log_probs: Floats, parents: Integers, tokens: Integers
    ) -> None:
        """Keep these sentences (B',) in this order, and extend their hypotheses."""
        log_probs, parents, tokens = log_probs[sentences], parents[sentences], tokens[sentences]
        parents += sentences[:, None] * self._log_probs.shape[1]  # (B', W) among all hypotheses
        self._ids = _extended(self._ids, parents, tokens)
        self._log_probs = log_probs
        self._log_prob_history = _extended(self._log_prob_history, parents, log_probs)
        self._finished = [self._finished[row] for row in sentences]
        self._worst_scores = self._worst_scores[sentences]
        self._last_penalties = self._last_penalties[sentences]
        self.advance(sentences, parents, tokens)


def _extended(history: NDArray[Any], parents: Integers, values: NDArray[Any]) -> NDArray[Any]:
    """Extend those of the histories (B, W', t) by values (B', W): (B', W, t + 1).

    parents: (B', W) which of the B * W' histories.
    """
    batch, width, length = history.shape
    kept = history.reshape(batch * width, length)[parents]  # (B', W, t)
    return np.concatenate((kept, values[:, :, None]), axis=2)
