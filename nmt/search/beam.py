"""Batched beam search over any model's decoder states; greedy search is beam size 1.

A hypothesis is scored by its log-probability over a length penalty; higher is better. At each step
the 2W best extensions of a sentence's W alive hypotheses are looked at: the ones among the first W
that close with eos are finished, and the best W that do not are alive in the next step. A sentence
is done when W hypotheses are finished, or earlier when no alive one can still come among the best
`n_best`. It then leaves the batch, and when half of the room is free the next sentences join: they
are at other positions than those before them, but go through the model's products together.

Ties: equal log-probabilities are ordered by hypothesis, then by the likelier last token, then by
its id, the lower first; equal scores by which was finished first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nmt.data.vocabulary import BOS_ID, EOS_ID
from nmt.models.contract import DecoderState, TranslationModel
from nmt.search.likeliest import Likeliest, likeliest
from nmt.search.options import SearchOptions

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Hypothesis:
    """A finished translation as token ids."""

    ids: tuple[int, ...]  # without eos
    log_prob: float  # natural logarithm, eos counted
    score: float  # log_prob over the length penalty


@dataclass(frozen=True)
class Group:
    """Sentences that join the search together."""

    numbers: Sequence[int]  # (B,) what the caller calls them
    limits: Sequence[int]  # (B,) most tokens of each one's translation, eos not counted
    state: DecoderState  # fresh
    room: int  # what each sentence takes up of the search's room


def beam_search(
    model: TranslationModel,
    groups: Iterator[Group],
    options: SearchOptions,
    *,
    room: float = math.inf,
    on_step: Callable[[], object] | None = None,
) -> Iterator[tuple[int, list[Hypothesis]]]:
    """Find the best translations of sentences.

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
    beams: list[_Beams] = []
    while True:
        while sum(beam.room for beam in beams) <= room / 2:
            group = next(groups, None)
            if group is None:
                break
            beams.append(_Beams(group, options))
        if not beams:
            return
        if on_step is not None:
            on_step()
        tokens = torch.from_numpy(np.concatenate([beam.last_tokens for beam in beams]))  # (N,)
        logits = model.step([beam.state for beam in beams], tokens)  # (N, V)
        # Each hypothesis may supply all of the 2W best, but greedy search takes the first alone.
        count = 2 * options.beam_size if options.beam_size > 1 else 1
        found = likeliest(logits, count, options.barred_ids)
        first = 0
        for beam in beams:
            rows = len(beam.last_tokens)
            yield from beam.extend(found, slice(first, first + rows))
            first += rows
        beams = [beam for beam in beams if len(beam.numbers)]


class _Beams:
    """The alive hypotheses of B sentences, W each, that are equally long.

    Arrays hold the hypotheses of a sentence best first. In the model's state each one stays in the
    row where its parent was, as far as that is possible, so that little has to be moved.
    """

    def __init__(self, group: Group, options: SearchOptions) -> None:
        count = len(group.numbers)
        self.state = group.state
        self.numbers = np.array(group.numbers)  # (B,)
        self.last_tokens: Integers = np.full(count, BOS_ID)  # (B * W,) as the state's rows stand
        self._options = options
        self._room_each = group.room
        self._limits = np.array(group.limits)  # (B,)
        self._places: Integers = np.zeros((count, 1), np.int64)  # (B, W): each one's row, 0 to W-1
        self._ids: Integers = np.zeros((count, 1, 0), np.int64)  # (B, W, t)
        self._log_probs: Floats = np.zeros((count, 1))  # (B, W); -inf: there is no hypothesis
        self._finished: list[list[Hypothesis]] = [[] for _ in group.numbers]

    @property
    def room(self) -> int:
        """What the sentences take up."""
        return self._room_each * len(self.numbers)

    def extend(self, found: Likeliest, rows: slice) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Take the best extensions, and yield the sentences that are done.

        Args:
            found: the likeliest next tokens of hypotheses.
            rows: those that are these beams'.
        """
        log_probs, parents, next_tokens = self._best_extensions(found, rows)
        self._collect_finished(log_probs, parents, next_tokens)
        parents, next_tokens = self._advance(log_probs, parents, next_tokens)
        done = np.array([self._is_done(row) for row in range(len(self.numbers))])
        for row in np.flatnonzero(done):
            best = _ranked(self._finished[row])[: self._options.n_best]
            yield int(self.numbers[row]), best
        self._go_on(_closed_up(done), parents, next_tokens)

    def _best_extensions(self, found: Likeliest, rows: slice) -> tuple[Floats, Integers, Integers]:
        """Return log-probabilities, parents and tokens of the 2W best extensions, each (B, 2W)."""
        batch, width = self._places.shape
        at = np.arange(batch)[:, None] * width + self._places + rows.start  # (B, W)
        next_log_probs, tokens = found.log_probs[at], found.tokens[at]  # (B, W, count)
        at_limit = self._limits <= self._ids.shape[2]  # (B,)
        if at_limit.any():  # all that is left for these is to close
            next_log_probs[at_limit] = -math.inf
            next_log_probs[at_limit, :, 0] = found.eos_log_probs[at[at_limit]]
            tokens[at_limit, :, 0] = EOS_ID
        for row in np.flatnonzero(np.isnan(next_log_probs).any(axis=(1, 2))):
            next_log_probs[row] = -math.inf  # nothing goes on, and nothing counts that was found
            self._finished[row] = []
        count = next_log_probs.shape[2]
        extended = (self._log_probs[:, :, None] + next_log_probs).reshape(
            batch, -1
        )  # (B, W * count)
        best = np.argsort(-extended, axis=1, kind="stable")[:, : 2 * self._options.beam_size]
        return (
            np.take_along_axis(extended, best, 1),
            best // count,
            np.take_along_axis(tokens.reshape(batch, -1), best, 1),
        )

    def _collect_finished(self, log_probs: Floats, parents: Integers, tokens: Integers) -> None:
        """Move the extensions by eos among the first W to the finished hypotheses."""
        width = self._options.beam_size
        closed = (tokens[:, :width] == EOS_ID) & (log_probs[:, :width] > -math.inf)
        penalty = self._options.penalty(self._ids.shape[2] + 1)
        for row, column in np.argwhere(closed):
            log_prob = float(log_probs[row, column])
            ids = tuple(self._ids[row, parents[row, column]].tolist())
            self._finished[row].append(Hypothesis(ids, log_prob, log_prob / penalty))

    def _advance(
        self, log_probs: Floats, parents: Integers, tokens: Integers
    ) -> tuple[Integers, Integers]:
        """Extend the alive hypotheses by the best W extensions without eos.

        Returns:
            The parents of the new hypotheses and their last tokens, each (B, W).
        """
        closes = tokens == EOS_ID  # (B, 2W)
        # Columns in order, those that close behind all others. Each parent closes once at most.
        width = min(self._options.beam_size, max(1, closes.shape[1] - self._places.shape[1]))
        keep = np.argsort(closes, axis=1, kind="stable")[:, :width]  # (B, W)
        self._log_probs = np.take_along_axis(np.where(closes, -math.inf, log_probs), keep, 1)
        parents = np.take_along_axis(parents, keep, 1)
        tokens = np.take_along_axis(tokens, keep, 1)
        prefixes = np.take_along_axis(self._ids, parents[:, :, None], 1)  # (B, W, t)
        self._ids = np.concatenate((prefixes, tokens[:, :, None]), axis=2)  # (B, W, t + 1)
        return parents, tokens

    def _is_done(self, row: int) -> bool:
        found, best_alive = self._finished[row], float(self._log_probs[row, 0])
        if len(found) >= self._options.beam_size or best_alive == -math.inf:
            return True
        if len(found) < self._options.n_best:
            return False
        # Log-probabilities only fall and penalties only rise, so this is the best that can come.
        bound = best_alive / self._options.penalty(int(self._limits[row]) + 1)
        return _ranked(found)[self._options.n_best - 1].score >= bound

    def _go_on(self, sentences: Integers, parents: Integers, tokens: Integers) -> None:
        """Keep some sentences (B',), in this order, and reorder the state."""
        old_width = self._places.shape[1]
        self.numbers, self._limits = self.numbers[sentences], self._limits[sentences]
        self._ids, self._log_probs = self._ids[sentences], self._log_probs[sentences]
        self._finished = [self._finished[row] for row in sentences]
        if not len(sentences):
            return
        parents_at = np.take_along_axis(self._places, parents, 1)[sentences]  # (B', W) old rows
        self._places = _new_places(parents_at, old_width)  # (B', W)
        sources, last_tokens = np.empty_like(parents_at), np.empty_like(parents_at)
        np.put_along_axis(sources, self._places, parents_at, 1)  # (B', W) by new row
        np.put_along_axis(last_tokens, self._places, tokens[sentences], 1)
        self.last_tokens = last_tokens.reshape(-1)
        rows = (sentences[:, None] * old_width + sources).reshape(-1)  # (B' * W,)
        self.state.select(torch.from_numpy(rows), torch.from_numpy(sentences))


def _closed_up(done: NDArray[Any]) -> Integers:
    """Return the sentences that are not done; the last of them fill the gaps of those that are."""
    going = np.flatnonzero(~done)
    order = np.arange(len(going))
    order[done[: len(going)]] = going[going >= len(going)]
    return order


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


def _ranked(hypotheses: list[Hypothesis]) -> list[Hypothesis]:
    return sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)
