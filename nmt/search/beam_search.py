"""The loop of search: hypotheses go through the model step by step, in a batch that stays full.

Sentences that are done leave the batch, and when half of the room is free the next ones join: they
are at other positions than those before them, but go through the model's products together. What
becomes of hypotheses between two steps is a matter of beams, or of samples (`nmt.search.sampling`).

Beam search; greedy search is beam size 1.

A hypothesis is scored by its log-probability over a length penalty; higher is better. At each step
the 2W best extensions of a sentence's W alive hypotheses are looked at: the ones among the first W
that close with eos are finished, and the best W that do not are alive in the next step. A sentence
is done when W hypotheses are finished, or earlier when no alive one can still come among the best
`n_best`.

Ties: equal log-probabilities are ordered by hypothesis, then by the likelier last token, then by
its id, the lower first; equal scores by which was finished first.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.data.vocabulary import EOS_ID
from nmt.models.base import Decoder
from nmt.search.engine import Hypothesis
from nmt.search.hypotheses import FREE, Alive, Group, Integers, closed_up, ranked
from nmt.search.options import SearchOptions
from nmt.search.sampling import Samples, drawn
from nmt.search.top_k import Likeliest, Question, likeliest

Floats = NDArray[np.float64]


class Beams(Alive):
    """The best hypotheses of sentences.

    Arrays hold the hypotheses of a sentence best first. In the model's state each one stays in the
    row where its parent was, as far as that is possible, so that little has to be moved.
    """

    def __init__(self, group: Group, options: SearchOptions) -> None:
        """Begin with one hypothesis for each sentence."""
        super().__init__(group, options)
        count = len(group.numbers)
        self._places: Integers = np.zeros((count, 1), np.int64)  # (B, W): each one's row, 0 to W-1
        self._ids: Integers = np.zeros((count, 1, 0), np.int64)  # (B, W, t)
        self._course: Floats = np.zeros((count, 1, 0))  # (B, W, t) log_probs as they have fallen
        self._log_probs: Floats = np.zeros((count, 1))  # (B, W); -inf: there is no hypothesis
        self._finished: list[list[Hypothesis]] = [[] for _ in group.numbers]
        # (B,) the score of the worst finished hypothesis among the best `n_best`; -inf: too few
        self._worst_scores: Floats = np.full(count, -math.inf)
        # (B,) the penalty of the longest hypothesis that there can be
        self._last_penalties: Floats = np.array(
            [options.penalty(int(longest) + 1) for longest in self.demands.longest]
        )

    def extend(self, found: Likeliest, rows: slice) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Take the best extensions, and yield the sentences that are done."""
        log_probs, parents, next_tokens = self._best_extensions(found, rows)
        self._collect_finished(log_probs, parents, next_tokens)
        log_probs, parents, next_tokens = self._continued(log_probs, parents, next_tokens)
        done = self._done(log_probs)
        for row in np.flatnonzero(done):
            best = ranked(self._finished[row])[: self.options.n_best]
            yield int(self.numbers[row]), best
        self._go_on(closed_up(done), log_probs, parents, next_tokens)

    def _best_extensions(self, found: Likeliest, rows: slice) -> tuple[Floats, Integers, Integers]:
        """Return log-probabilities, parents and tokens of the 2W best extensions, each (B, 2W)."""
        batch, width = self._places.shape
        at = np.arange(batch)[:, None] * width + self._places + rows.start  # (B, W)
        next_log_probs, tokens = found.log_probs[at], found.tokens[at]  # (B, W, count)
        demanded = self.demands.token(self.length)  # (B,)
        bound = demanded != FREE
        if bound.any():  # one way is left for these
            next_log_probs[bound] = -math.inf
            next_log_probs[bound, :, 0] = found.asked_log_probs[at[bound]]
            tokens[bound, :, 0] = demanded[bound, None]
        is_bad = np.isnan(next_log_probs)
        if is_bad.any():
            is_alive = self._log_probs > -math.inf  # (B, W)
            next_log_probs[is_bad] = -math.inf
            for row in np.flatnonzero((is_bad & is_alive[:, :, None]).any(axis=(1, 2))):
                next_log_probs[row] = -math.inf  # nothing goes on, nothing counts that was found
                self._finished[row], self._worst_scores[row] = [], -math.inf
        count = next_log_probs.shape[2]
        extended = (self._log_probs[:, :, None] + next_log_probs).reshape(
            batch, -1
        )  # (B, W * count)
        best = np.argsort(-extended, axis=1, kind="stable")[:, : 2 * self.options.beam_size]
        return (
            np.take_along_axis(extended, best, 1),
            best // count,
            np.take_along_axis(tokens.reshape(batch, -1), best, 1),
        )

    def _collect_finished(self, log_probs: Floats, parents: Integers, tokens: Integers) -> None:
        """Move the extensions by eos among the first W to the finished hypotheses."""
        width = self.options.beam_size
        closed = (tokens[:, :width] == EOS_ID) & (log_probs[:, :width] > -math.inf)
        penalty = self.options.penalty(self.length + 1)
        for row, column in np.argwhere(closed).tolist():
            parent, log_prob = parents[row, column], float(log_probs[row, column])
            course = [*self._course[row, parent].tolist(), log_prob]  # t + 1
            finished = self._finished[row]
            finished.append(
                Hypothesis(
                    tuple(self._ids[row, parent].tolist()),
                    log_prob,
                    log_prob / penalty,
                    tuple(map(operator.sub, course, [0.0, *course])),
                )
            )
            if len(finished) >= self.options.n_best:
                self._worst_scores[row] = ranked(finished)[self.options.n_best - 1].score

    def _continued(
        self, log_probs: Floats, parents: Integers, tokens: Integers
    ) -> tuple[Floats, Integers, Integers]:
        """Return the best W extensions without eos, each (B, W): they are alive in the next step.

        Args:
            log_probs, parents, tokens: of the best 2W extensions.
        """
        closes = tokens == EOS_ID  # (B, 2W)
        log_probs = np.where(closes, -math.inf, log_probs)
        # No more rows than hypotheses: a prefix is gone through in one. A state cannot get fewer.
        most = int((log_probs > -math.inf).sum(axis=1).max())
        width = max(self._places.shape[1], min(self.options.beam_size, most))
        # Columns in order, those that close behind all others.
        keep = np.argsort(closes, axis=1, kind="stable")[:, :width]  # (B, W)
        return (
            np.take_along_axis(log_probs, keep, 1),
            np.take_along_axis(parents, keep, 1),
            np.take_along_axis(tokens, keep, 1),
        )

    def _done(self, log_probs: Floats) -> NDArray[np.bool_]:
        """Return which sentences (B,) are done, given those (B, W) that could go on."""
        found = np.array([len(finished) for finished in self._finished])
        # Log-probabilities only fall and penalties only rise, so this is the best that can come;
        # -inf where nothing can.
        bounds = log_probs[:, 0] / self._last_penalties
        return (found >= self.options.beam_size) | (self._worst_scores >= bounds)

    def _go_on(
        self, sentences: Integers, log_probs: Floats, parents: Integers, tokens: Integers
    ) -> None:
        """Keep some sentences (B',), in this order, extend their hypotheses, reorder the state."""
        self.length += 1
        self.numbers = self.numbers[sentences]
        if not len(sentences):
            return
        self.demands.select(sentences)
        if self.chosen is not None:
            self.chosen.select(sentences)
        self._finished = [self._finished[row] for row in sentences]
        self._worst_scores = self._worst_scores[sentences]
        self._last_penalties = self._last_penalties[sentences]
        log_probs, parents, tokens = log_probs[sentences], parents[sentences], tokens[sentences]
        old_width = self._places.shape[1]
        at = sentences[:, None] * old_width + parents  # (B', W) the parents' rows of histories
        self._ids = _grown(self._ids, at, tokens)
        self._course = _grown(self._course, at, log_probs)
        self._log_probs = log_probs
        parents_at = self._places.reshape(-1)[at]  # (B', W) old rows
        self._places = _new_places(parents_at, old_width)  # (B', W)
        sources, last_tokens = np.empty_like(parents_at), np.empty_like(parents_at)
        np.put_along_axis(sources, self._places, parents_at, 1)  # (B', W) by new row
        np.put_along_axis(last_tokens, self._places, tokens, 1)
        self.last_tokens = last_tokens.reshape(-1)
        rows = (sentences[:, None] * old_width + sources).reshape(-1)  # (B' * W,)
        self.state.select(torch.from_numpy(rows), torch.from_numpy(sentences))


def _grown(history: NDArray[Any], at: Integers, values: NDArray[Any]) -> NDArray[Any]:
    """Return histories with a value more for each: (B', W, t + 1).

    Args:
        history: (B, W', t).
        at: (B', W) which of the B * W' are taken.
        values: (B', W).
    """
    batch, width, length = history.shape
    kept = history.reshape(batch * width, length)[at]  # (B', W, t)
    return np.concatenate((kept, values[:, :, None]), axis=2)


def _new_places(parents_at: Integers, old_width: int) -> Integers:
    """Return a row for each new hypothesis: its parent's for the first child of each.

    The others get the rows of hypotheses that have no children. Where there are more hypotheses
    than before all are new.

    Args:
        parents_at: (B, W) the rows of the parents.
        old_width: how many rows a sentence had.
    """
    batch, width = parents_at.shape
    if width > old_width:
        return np.broadcast_to(np.arange(width), (batch, width)).copy()
    same = parents_at[:, :, None] == parents_at[:, None, :]  # (B, W, W)
    is_first = ~np.tril(same, -1).any(axis=2)  # (B, W)
    used = np.zeros((batch, width), np.bool_)
    np.put_along_axis(used, parents_at, True, 1)
    free = np.argsort(used, axis=1, kind="stable")  # (B, W) rows, the free ones first
    turn = np.maximum(0, np.cumsum(~is_first, axis=1) - 1)  # (B, W): which of the free ones
    return np.where(is_first, parents_at, np.take_along_axis(free, turn, 1))


# On a CPU so many logits are worked on at a time: 8 MB of fp32, which the cache of most can hold.
_CACHED = 1 << 21
_FEWEST_ROWS = 64  # of which a product is about as fast as of many


def decode(
    model: Decoder,
    groups: Iterator[Group],
    options: SearchOptions,
    *,
    room: float = math.inf,
    on_step: Callable[[], object] | None = None,
) -> Iterator[tuple[int, list[Hypothesis]]]:
    """Find translations of sentences.

    Args:
        model: made the states.
        groups: the next one is asked for when half of the room is free.
        options: what to look for.
        room: of all sentences at work; a single group may take more.
        on_step: called before each step of the decoder; what it raises ends the search.

    Yields:
        A sentence's number and its `n_best` hypotheses (fewer where fewer exist), best first, in
        the order in which sentences are done. There are none where the model's output is not a
        number.
    """
    kind: type[Alive]
    if options.sampling is None:
        # Each hypothesis may supply all of the 2W best, but greedy search takes the first alone.
        count = 2 * options.beam_size if options.beam_size > 1 else 1
        kind, choose = Beams, partial(likeliest, count=count)
    else:
        kind, choose = Samples, partial(drawn, sampling=options.sampling)
    alive: list[Alive] = []
    while True:
        while sum(part.room for part in alive) <= room / 2:
            group = next(groups, None)
            if group is None:
                break
            alive.append(kind(group, options))
            del group  # with the state, which the sentences outlive
        if not alive:
            return
        if on_step is not None:
            on_step()
        tokens = torch.from_numpy(np.concatenate([part.last_tokens for part in alive]))  # (N,)
        features = model.step([part.state for part in alive], tokens)  # (N, F)
        questions = [part.question() for part in alive]
        if alive[0].chosen is None:
            logits = logits_in_blocks(model, features)
            found = choose(logits, Question.joined(questions), barred_ids=options.barred_ids)
        else:
            rows_of_parts = torch.split(features, [len(part.last_tokens) for part in alive])
            found = Likeliest.of_all(
                [
                    part.chosen.among(choose, rows, question)
                    for part, rows, question in zip(alive, rows_of_parts, questions, strict=True)
                    if part.chosen is not None
                ]
            )
        first = 0
        for part in alive:
            rows = len(part.last_tokens)
            yield from part.extend(found, slice(first, first + rows))
            first += rows
        alive = [part for part in alive if len(part.numbers)]


def logits_in_blocks(model: Decoder, features: Tensor) -> Iterator[Tensor]:
    """Yield the logits (n, V) of rows of features, in their order, some at a time on CPUs."""
    on_cpu = features.device.type == "cpu"
    rows = max(_FEWEST_ROWS, _CACHED // model.vocab_size) if on_cpu else len(features)
    return (model.project(part) for part in torch.split(features, rows))
