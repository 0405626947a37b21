"""Beam search: step the model, find the top-k next tokens, finish hypotheses, reorder the others.

`decode` is the loop. Sentences join the batch in groups and leave it one by one when they are done.
When half of the budget is free, the next group joins, so groups may have different lengths. `Beams`
are the active hypotheses of a group. `Beams.extend` is a step of beam search.

A hypothesis's score is its log-probability divided by a length penalty. Higher is better. Each step
looks at the 2W best extensions of a sentence's W active hypotheses. Those among the first W that
end with eos are finished. The best W without eos are active in the next step. A sentence is done
when W hypotheses are finished, or earlier, when no active one can still become one of the best
`n_best`. Hypotheses of equal text count as one, the better one, so search goes on until there are
as many texts. Greedy search is beam size 1. Sampling is the same loop, but each of W = `n_best`
hypotheses is extended by a token that is drawn, and none takes the place of another.

Ties: equal log-probabilities are ordered by hypothesis, then by the more probable last token, then
by the lower id. Equal scores are ordered by which hypothesis finished first.

Legend: G sentences of a group, B of them still active, W hypotheses of each, N = B * W, t tokens so
far, k next tokens of each hypothesis, C candidates of each sentence among its W * k extensions, M
more tokens that constraints ask about, V vocabulary, F features. B' and W' are those of the next
step: sentences leave, and W grows from 1 to `max_width` as soon as there are so many hypotheses.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.data.vocabulary import BOS_ID, EOS_ID
from nmt.models.base import Decoder, DecoderState
from nmt.search.constraints import Constraint, constraints_of
from nmt.search.engine import Hypothesis, OnStep, Searched, Source
from nmt.search.options import SearchOptions
from nmt.search.phrase_banks import Floats, PhraseBanks
from nmt.search.sampling import draw_tokens, generators_of
from nmt.search.top_k import FREE, Integers, NextTokens, Pick, StepQuery, pick_tokens, top_tokens

# On a CPU, this many logits are computed at a time: 2 MB of fp32, which fits most caches.
_LOGITS_PER_BLOCK = 1 << 19
_MIN_BLOCK_ROWS = 64  # a product of fewer rows takes nearly as long


class Group(NamedTuple):
    """Sentences that join the batch together."""

    numbers: Sequence[int]  # (G,) chosen by the caller
    sources: Sequence[Source]  # (G,)
    state: DecoderState  # fresh
    cost_per_sentence: int  # against the budget


def decode(
    model: Decoder,
    groups: Iterator[Group],
    options: SearchOptions,
    *,
    budget: float = math.inf,
    on_step: OnStep = None,
) -> Iterator[Searched]:
    """Find translations of sentences.

    model: the one that made the groups' states.
    groups: the next one is taken when half of the budget is free.
    budget: the largest sum of the active sentences' costs. A single group may exceed it.
    on_step: called before each step of the decoder. If it raises, the search ends.
    Yields a sentence's number and its `n_best` hypotheses, best first, as soon as the sentence is
    done. Fewer if fewer exist, and none if the model's output is not a number.
    """
    if options.sampling is None:
        # All of the 2W best may extend one hypothesis. Greedy search needs only the first.
        count = 2 * options.beam_size if options.beam_size > 1 else 1
        pick: Pick = partial(top_tokens, count=count)
    else:
        pick = partial(draw_tokens, sampling=options.sampling)
    active: list[Beams] = []
    while True:
        while sum(beams.cost for beams in active) <= budget / 2:
            if (group := next(groups, None)) is None:
                break
            active.append(Beams.begin(group, options))
            del group  # it holds the state's memory
        if not active:
            return
        if on_step is not None:
            on_step()
        # Step the model: a row for each hypothesis, of all groups together.
        last_tokens = torch.from_numpy(np.concatenate([beams.last_tokens for beams in active]))
        features = model.step([beams.group.state for beams in active], last_tokens)  # (N, F)
        # Top-k: the best next tokens of each.
        queries = [beams.query() for beams in active]
        logits, query = logits_in_blocks(model, features), StepQuery.joined(queries)
        picked = pick_tokens(logits, query, pick=pick, barred_ids=options.barred_ids)
        # Finish and reorder.
        parts = picked.split([len(beams.last_tokens) for beams in active])
        for beams, query, next_tokens in zip(active, queries, parts, strict=True):
            yield from beams.extend(query, next_tokens)
        active = [beams for beams in active if len(beams.sentences)]


def logits_in_blocks(model: Decoder, features: Tensor) -> Iterator[Tensor]:
    """Yield the logits (n, V) of rows of features in order: on a CPU, a cacheful at a time."""
    on_cpu = features.device.type == "cpu"
    # A power of two, which `in_few_sizes` need not fill up.
    most = max(_MIN_BLOCK_ROWS, _LOGITS_PER_BLOCK // model.vocab_size)
    per_block = 1 << most.bit_length() - 1
    blocks = torch.split(features, per_block if on_cpu else len(features))
    return (model.project(block) for block in blocks)


@dataclass
class Beams:
    """The active hypotheses of a group, W for each sentence, all of t tokens."""

    group: Group
    options: SearchOptions
    max_width: int  # the largest W
    longest: Integers  # (G,) int64: after so many tokens, eos is forced
    last_penalties: Floats  # (G,) float64: length penalty of the longest hypothesis possible
    constraints: list[Constraint]  # those that are asked for
    phrases: PhraseBanks | None
    generators: list[list[np.random.Generator]]  # (G, W) of samples; else empty
    # (G,) finished hypotheses by text, or by ids if search does not know the text, or by the number
    # of the sample
    finished: list[dict[Hashable, Hypothesis]]
    worst_scores: Floats  # (G,) float64: lowest of the `n_best` best; -inf: fewer are finished
    sentences: Integers  # (B,) int64: those that are active, of the G
    last_tokens: Integers  # (N,) int64
    ids: Integers  # (B, W, t) int64
    log_probs: Floats  # (B, W) float64: sums over the tokens; -inf: no hypothesis
    history: Floats  # (B, W, t) float64: `log_probs` after each token

    @classmethod
    def begin(cls, group: Group, options: SearchOptions) -> Self:
        """Start with one hypothesis for each sentence, or with all samples."""
        sources, count = group.sources, len(group.sources)
        sentences = np.arange(count)
        width = 1  # equal hypotheses would fill the beam with equal extensions
        phrases = None
        if options.sampling is not None:
            width = options.n_best
            rows = torch.from_numpy(sentences)
            group.state.select(rows.repeat_interleave(width), rows)
        elif any(source.phrases for source in sources):
            phrases = PhraseBanks([source.phrases for source in sources], options)
        limits = [options.longest(len(source.ids), source.is_in_word) for source in sources]
        # A prefix that is longer than the limit is still taken whole.
        longest = np.maximum(limits, [len(source.prefix) for source in sources])
        (first,) = options.first_ids[-1:] or (BOS_ID,)
        return cls(
            group,
            options,
            max_width=options.width if phrases is None else phrases.max_width,
            longest=longest,
            last_penalties=np.array([options.penalty(int(most) + 1) for most in longest]),
            constraints=constraints_of(sources, options, phrases),
            phrases=phrases,
            generators=generators_of(sources, options),
            finished=[{} for _ in sources],
            worst_scores=np.full(count, -math.inf),
            sentences=sentences,
            last_tokens=np.full(count * width, first),
            ids=np.zeros((count, width, 0), np.int64),
            log_probs=np.zeros((count, width)),
            history=np.zeros((count, width, 0)),
        )

    @property
    def cost(self) -> int:
        return self.group.cost_per_sentence * len(self.sentences)

    def query(self) -> StepQuery:
        is_over = self.longest[self.sentences] <= self.ids.shape[2]  # (B,)
        query = StepQuery(np.where(is_over, EOS_ID, FREE).repeat(self.ids.shape[1]))
        for constraint in self.constraints:
            constraint(query, self.sentences, self.ids)
        if self.generators:
            generators = [each for row in self.sentences for each in self.generators[row]]
            query.uniforms = np.array([generator.random() for generator in generators])  # (N,)
        return query

    def extend(self, query: StepQuery, next_tokens: NextTokens) -> Iterator[Searched]:
        """Extend the hypotheses by a token, and yield the sentences that are done.

        For example, with W = 2 and k = 4, a sentence's hypotheses `a` (-1.0) and `b` (-1.2) have
        these next tokens:

            a: eos -0.5, c -1.0, d -2.0, e -3.0       sums: -1.5 -2.0 -3.0 -4.0
            b: d -0.4, eos -1.5, c -2.0, e -4.0       sums: -1.6 -2.7 -3.2 -5.2

        The 2W best of the W * k = 8 sums are at 0, 4, 1 and 5. So their parents are 0 1 0 1 (the
        quotients by k), and their tokens eos, d, c and eos. `a eos` is one of the first W, so it is
        finished. `b eos` is not, and is dropped. The first W others are active: `b d` with parent
        1, and `a c` with parent 0.

        Use up what this yields: only then are the others reordered. `next_tokens` is overwritten.
        """
        # All extensions, and the best of them: the candidates, best first.
        all_log_probs, all_tokens = self._extensions(query, next_tokens)  # (B, W, k)
        count, width, per_parent = all_tokens.shape
        if self.options.sampling is not None:  # each hypothesis has only one extension
            best = np.broadcast_to(np.arange(width), (count, width))  # (B, C), C = W
        elif self.phrases is None:
            # At least W of 2W do not end: each hypothesis has only one extension by eos.
            flat = -all_log_probs.reshape(count, -1)  # (B, W * k)
            best = np.argsort(flat, axis=1, kind="stable")[:, : 2 * self.max_width]  # (B, C)
        else:
            best = self.phrases.rank(all_log_probs, all_tokens)  # (B, C)
        parents = best // per_parent  # (B, C)
        log_probs = np.take_along_axis(all_log_probs.reshape(count, -1), best, 1)  # (B, C)
        tokens = np.take_along_axis(all_tokens.reshape(count, -1), best, 1)  # (B, C)

        # Candidates that end.
        is_eos = tokens == EOS_ID
        self._finish(is_eos[:, : self.max_width], log_probs, parents)

        # The others, of which the first are active in the next step.
        log_probs[is_eos] = -math.inf
        if self.options.sampling is None:
            # No more rows than hypotheses: a forced prefix takes one. W never shrinks.
            most = int((log_probs > -math.inf).sum(axis=1).max())
            next_width = max(width, min(self.max_width, most))
            # Those without eos first, in their order.
            active = np.argsort(is_eos, axis=1, kind="stable")[:, :next_width]  # (B, W')
            log_probs = np.take_along_axis(log_probs, active, 1)  # (B, W')
            parents = np.take_along_axis(parents, active, 1)  # (B, W')
            tokens = np.take_along_axis(tokens, active, 1)  # (B, W')

        # Sentences that are done leave, and the others go on.
        num_finished = np.array([len(self.finished[sentence]) for sentence in self.sentences])
        # The best score still possible: log-probabilities only fall, and penalties only rise.
        bounds = log_probs.max(axis=1) / self.last_penalties[self.sentences]  # (B,)
        is_done = num_finished >= self.options.width
        is_done |= self.worst_scores[self.sentences] >= bounds
        for row in np.flatnonzero(is_done).tolist():
            yield self.group.numbers[self.sentences[row]], self._n_best(row)
        rows = closed_up(is_done)  # (B',)
        self._reorder(rows, log_probs[rows], parents[rows], tokens[rows])

    def _extensions(self, query: StepQuery, next_tokens: NextTokens) -> tuple[Floats, Integers]:
        """Return the log-probabilities and last tokens of all extensions, each (B, W, k)."""
        shape = self.log_probs.shape  # B, W
        log_probs = next_tokens.log_probs.reshape(*shape, -1)  # (B, W, k)
        tokens = next_tokens.tokens.reshape(*shape, -1)  # (B, W, k)
        scored = next_tokens.scored_log_probs.reshape(*shape, -1)  # (B, W, 1 + M)
        if self.phrases is not None:
            log_probs, tokens = self.phrases.with_wanted(log_probs, tokens, scored[:, :, 1:])
        forced = query.forced.reshape(shape)  # (B, W)
        is_forced = forced != FREE
        if is_forced.any():  # these have only one extension
            log_probs[is_forced] = -math.inf
            log_probs[is_forced, 0] = scored[is_forced, 0]
            tokens[is_forced, 0] = forced[is_forced]
        is_nan = np.isnan(log_probs)
        if is_nan.any():
            log_probs[is_nan] = -math.inf
            is_bad = is_nan & (self.log_probs[:, :, None] > -math.inf)  # (B, W, k)
            for row in np.flatnonzero(is_bad.any(axis=(1, 2))):
                log_probs[row] = -math.inf  # the sentence ends without any hypothesis
                sentence = self.sentences[row]
                self.finished[sentence], self.worst_scores[sentence] = {}, -math.inf
        return self.log_probs[:, :, None] + log_probs, tokens

    def _finish(self, is_eos: NDArray[np.bool_], log_probs: Floats, parents: Integers) -> None:
        """Finish the extensions (B, W) that end with eos."""
        rows, columns = np.nonzero(is_eos & (log_probs[:, : is_eos.shape[1]] > -math.inf))
        if not len(rows):
            return
        penalty = self.options.penalty(self.ids.shape[2] + 1)  # with eos
        finished_ids = [tuple(ids) for ids in self.ids[rows, parents[rows, columns]].tolist()]
        keys: Sequence[Hashable] = finished_ids  # of `finished`
        if self.options.sampling is not None:
            keys = columns.tolist()
        elif self.options.decode is not None:
            keys = self.options.decode(finished_ids)
        for row, column, ids, key in zip(rows.tolist(), columns, finished_ids, keys, strict=True):
            log_prob = float(log_probs[row, column])
            history = [*self.history[row, parents[row, column]].tolist(), log_prob]  # t + 1
            token_log_probs = tuple(map(operator.sub, history, [0.0, *history]))
            hypothesis = Hypothesis(ids, log_prob, log_prob / penalty, token_log_probs)
            sentence = self.sentences[row]
            finished = self.finished[sentence]
            if key not in finished or finished[key].score < hypothesis.score:
                finished[key] = hypothesis
            if len(finished) >= self.options.n_best:
                worst = ranked(finished.values())[self.options.n_best - 1]
                self.worst_scores[sentence] = worst.score

    def _n_best(self, row: int) -> list[Hypothesis]:
        """Return the best finished hypotheses of an active sentence, or all samples in order.

        If the length limit came before any had all phrases, return the one with most tokens of
        phrases. Its score is -inf.
        """
        sentence = self.sentences[row]
        finished = self.finished[sentence]
        if self.options.sampling is not None:
            return [finished[number] for number in sorted(finished)]
        is_over = self.ids.shape[2] >= self.longest[sentence]
        if not finished and self.phrases is not None and is_over:
            column = self.phrases.furthest(row, self.log_probs[row])
            ids = tuple(self.ids[row, column].tolist())
            return [Hypothesis(ids, float(self.log_probs[row, column]), -math.inf)]
        return ranked(finished.values())[: self.options.n_best]

    def _reorder(
        self, rows: Integers, log_probs: Floats, parents: Integers, tokens: Integers
    ) -> None:
        """Go on with these sentences (B',) in this order, and extend their hypotheses.

        log_probs, parents, tokens: each (B', W') of the new hypotheses. For example, with W = 2,
        parents 1 0 of sentence 3 are rows 7 and 6 of the model's state.

        The state moves nothing yet. It notes what to move in its next step (`nmt.models.kv_cache`).
        """
        if self.phrases is not None:
            self.phrases.follow(rows, parents, tokens)
        parents = rows[:, None] * self.log_probs.shape[1] + parents  # (B', W') of N
        self.ids = _extended(self.ids, parents, tokens)  # (B', W', t + 1)
        self.history = _extended(self.history, parents, log_probs)  # (B', W', t + 1)
        self.log_probs, self.last_tokens = log_probs, tokens.reshape(-1)  # (B', W'), (N',)
        self.sentences = self.sentences[rows]
        if len(rows):  # else the group is done, and its state is not used again
            self.group.state.select(torch.from_numpy(parents.reshape(-1)), torch.from_numpy(rows))


def closed_up(is_done: NDArray[np.bool_]) -> Integers:
    """Return the sentences that are not done. The last ones fill the gaps of those that are.

    So most sentences keep their rows, and the model's state moves few of them. For example, if 1
    and 4 of 0 to 5 are done, 0 5 2 3 are left.
    """
    remaining = np.flatnonzero(~is_done)
    order = np.arange(len(remaining))
    order[is_done[: len(remaining)]] = remaining[remaining >= len(remaining)]
    return order


def ranked(hypotheses: Iterable[Hypothesis]) -> list[Hypothesis]:
    """Return hypotheses by score, best first."""
    return sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)


def _extended(history: NDArray[Any], parents: Integers, values: NDArray[Any]) -> NDArray[Any]:
    """Extend the histories (B, W, t) of these parents (B', W') by values: (B', W', t + 1)."""
    count, width, length = history.shape
    of_parents = history.reshape(count * width, length)[parents]  # (B', W', t)
    return np.concatenate((of_parents, values[:, :, None]), axis=2)
