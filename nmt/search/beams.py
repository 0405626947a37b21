"""The hypotheses of beam search, and how a step extends them.

A hypothesis's score is its log-probability divided by a length penalty. Higher is better. Each step
looks at the 2W best extensions of a sentence's W active hypotheses. Those among the first W that
end with eos are finished. The best W without eos are active in the next step. A sentence is done
when W hypotheses are finished, or earlier, when no active one can still become one of the best
`n_best`. Hypotheses of equal text count as one, the better one, so search goes on until there are
as many texts.

Ties: equal log-probabilities are ordered by hypothesis, then by the more probable last token, then
by the lower id. Equal scores are ordered by which hypothesis finished first.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Hashable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmt.data.vocabulary import EOS_ID
from nmt.search.engine import Hypothesis
from nmt.search.hypotheses import FREE, ActiveHypotheses, Group, Integers, closed_up, ranked
from nmt.search.options import SearchOptions
from nmt.search.top_k import NextTokens

Floats = NDArray[np.float64]

Finished = dict[Hashable, Hypothesis]
"""Finished hypotheses by their text, or by their ids if search does not know the text."""

NO_TOKEN = -1


class Beams(ActiveHypotheses):
    """The active hypotheses of beam search: B sentences, W each, best first."""

    def __init__(self, group: Group, options: SearchOptions) -> None:
        """Start with one hypothesis for each sentence."""
        super().__init__(group, options)
        self._width = options.beam_size  # W
        self._enough = self._width  # finished hypotheses, after which a sentence is done
        self._wanted = options.n_best
        count = len(group.numbers)
        self._ids: Integers = np.zeros((count, 1, 0), np.int64)  # (B, W, t)
        self._log_probs: Floats = np.zeros((count, 1))  # (B, W), -inf: no hypothesis
        self._log_prob_history: Floats = np.zeros((count, 1, 0))  # (B, W, t) after each token
        self._finished: list[Finished] = [{} for _ in range(count)]
        # (B,) lowest score among the best that are wanted, -inf: fewer are finished
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
        for sentence in np.flatnonzero(done).tolist():
            yield int(self.numbers[sentence]), self._n_best(sentence)
        self._keep(closed_up(done), log_probs, parents, tokens)

    def _best_extensions(self, found: NextTokens) -> tuple[Floats, Integers, Integers]:
        """Return log-probabilities, parents and tokens of the 2W best extensions, each (B, 2W)."""
        log_probs, tokens = self._extensions(found)  # each (B, W, k)
        count, _, per_parent = log_probs.shape
        extended, all_tokens = log_probs.reshape(count, -1), tokens.reshape(count, -1)
        best = np.argsort(-extended, axis=1, kind="stable")[:, : 2 * self._width]
        return (
            np.take_along_axis(extended, best, 1),
            best // per_parent,
            np.take_along_axis(all_tokens, best, 1),
        )

    def _extensions(self, found: NextTokens) -> tuple[Floats, Integers]:
        """Return the log-probabilities and last tokens of all extensions, each (B, W, k)."""
        count, width = self._log_probs.shape
        next_log_probs = found.log_probs.reshape(count, width, -1)  # (B, W, k)
        tokens = found.tokens.reshape(count, width, -1)
        forced = self.constraints.token(self.length)  # (B,)
        is_forced = forced != FREE
        if is_forced.any():  # these have only one extension
            next_log_probs[is_forced] = -math.inf
            scored = found.scored_log_probs.reshape(count, width)
            next_log_probs[is_forced, :, 0] = scored[is_forced]
            tokens[is_forced, :, 0] = forced[is_forced, None]
        is_bad = np.isnan(next_log_probs)
        if is_bad.any():
            is_active = self._log_probs > -math.inf  # (B, W)
            next_log_probs[is_bad] = -math.inf
            bad = (is_bad & is_active[:, :, None]).any(axis=(1, 2))  # (B,)
            for row in np.flatnonzero(bad):
                next_log_probs[row] = -math.inf  # the sentence ends without any hypothesis
                self._finished[row], self._worst_scores[row] = {}, -math.inf
        return self._log_probs[:, :, None] + next_log_probs, tokens

    def _collect_finished(self, log_probs: Floats, parents: Integers, tokens: Integers) -> None:
        """Finish the extensions among the first W that end with eos."""
        width = self._width
        is_finished = (tokens[:, :width] == EOS_ID) & (log_probs[:, :width] > -math.inf)
        penalty = self.options.penalty(self.length + 1)
        rows, columns = np.nonzero(is_finished)
        ids = [tuple(own) for own in self._ids[rows, parents[rows, columns]].tolist()]
        texts = self.options.decode(ids) if self.options.decode is not None and ids else ids
        for row, column, own, text in zip(rows.tolist(), columns, ids, texts, strict=True):
            parent, log_prob = parents[row, column], float(log_probs[row, column])
            history = [*self._log_prob_history[row, parent].tolist(), log_prob]  # t + 1
            token_log_probs = tuple(map(operator.sub, history, [0.0, *history]))
            finished = self._finished[row]
            _add(finished, text, Hypothesis(own, log_prob, log_prob / penalty, token_log_probs))
            if len(finished) >= self._wanted:
                self._worst_scores[row] = ranked(finished.values())[self._wanted - 1].score

    def _n_best(self, sentence: int) -> list[Hypothesis]:
        """Return a sentence's best finished hypotheses."""
        return ranked(self._finished[sentence].values())[: self.options.n_best]

    def _best_active(
        self, log_probs: Floats, parents: Integers, tokens: Integers
    ) -> tuple[Floats, Integers, Integers]:
        """Return the W best extensions without eos, each (B, W): active in the next step."""
        log_probs = np.where(tokens == EOS_ID, -math.inf, log_probs)  # (B, 2W)
        # No more rows than hypotheses: a forced prefix takes one. The width never shrinks.
        most = int((log_probs > -math.inf).sum(axis=1).max())
        width = max(self._log_probs.shape[1], min(self._width, most))
        keep = _without_eos(tokens, width)  # (B, W)
        return (
            np.take_along_axis(log_probs, keep, 1),
            np.take_along_axis(parents, keep, 1),
            np.take_along_axis(tokens, keep, 1),
        )

    def _done(self, log_probs: Floats) -> NDArray[np.bool_]:
        """Return which sentences (B,) are done, given `log_probs` (B, W) of the active."""
        num_finished = np.array([len(finished) for finished in self._finished])
        # The best score still possible: log-probabilities only fall, and penalties only rise.
        bounds = log_probs.max(axis=1) / self._last_penalties
        return np.asarray((num_finished >= self._enough) | (self._worst_scores >= bounds))

    def _keep(
        self, sentences: Integers, log_probs: Floats, parents: Integers, tokens: Integers
    ) -> None:
        """Keep these sentences (B',) in this order, and extend their hypotheses."""
        log_probs, parents, tokens = log_probs[sentences], parents[sentences], tokens[sentences]
        parents += sentences[:, None] * self._log_probs.shape[1]  # (B', W) among all hypotheses
        self._ids = _extended(self._ids, parents, tokens)
        self._log_probs = log_probs
        self._log_prob_history = _extended(self._log_prob_history, parents, log_probs)
        self._finished = [self._finished[sentence] for sentence in sentences]
        self._worst_scores = self._worst_scores[sentences]
        self._last_penalties = self._last_penalties[sentences]
        self.advance(sentences, parents, tokens)


def _add(finished: Finished, text: Hashable, hypothesis: Hypothesis) -> None:
    """Add a hypothesis, unless there is one of the same text with a score as high."""
    known = finished.get(text)
    if known is None or known.score < hypothesis.score:
        finished[text] = hypothesis


def _without_eos(tokens: Integers, width: int) -> Integers:
    """Return the places (B, W) of the first tokens (B, 2W) other than eos, in order."""
    return np.argsort(tokens == EOS_ID, axis=1, kind="stable")[:, :width]


def _extended(history: NDArray[Any], parents: Integers, values: NDArray[Any]) -> NDArray[Any]:
    """Extend those of the histories (B, W', t) by values (B', W): (B', W, t + 1).

    parents: (B', W) which of the B * W' histories.
    """
    count, width, length = history.shape
    kept = history.reshape(count * width, length)[parents]  # (B', W, t)
    return np.concatenate((kept, values[:, :, None]), axis=2)
