"""Sampling: translations drawn at random from the model's distribution.

The random numbers of a sample depend only on the seed, the source's tokens and the sample's number.
So a translation does not depend on its batch, or on what was drawn before.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from nmt.data.vocabulary import EOS_ID
from nmt.search.engine import Hypothesis, Ids
from nmt.search.hypotheses import FREE, ActiveHypotheses, Group, Integers, closed_up
from nmt.search.options import Sampling, SearchOptions
from nmt.search.top_k import Fields, NextTokens, StepQuery, joined_fields, top_k

_TOP_P_CANDIDATES = 512


class Samples(ActiveHypotheses):
    """W = `n_best` translations of each sentence, drawn independently of each other."""

    def __init__(self, group: Group, options: SearchOptions) -> None:
        """Start with W hypotheses for each sentence."""
        super().__init__(group, options)
        assert options.sampling is not None
        batch, self._width = len(group.numbers), options.n_best
        self._random = [
            [_generator(options.sampling.seed, number, source.ids) for number in range(self._width)]
            for source in group.sources
        ]  # (B, W)
        # (B, W) lists. A finished hypothesis has one log-probability more than ids: of eos.
        self._ids: list[list[list[int]]] = _empty(batch, self._width)
        self._log_probs: list[list[list[float]]] = _empty(batch, self._width)
        sentences = torch.arange(batch)
        self.state.select(sentences.repeat_interleave(self._width), sentences)
        self.last_tokens = self.last_tokens.repeat(self._width)

    def query(self) -> StepQuery:
        """Return the next step's query, with a random number for each hypothesis."""
        query = super().query()
        uniforms = [random.random() for of_sentence in self._random for random in of_sentence]
        return replace(query, uniforms=np.array(uniforms))

    def ids(self) -> Integers:
        """See `ActiveHypotheses`. Finished samples are filled up with eos."""
        samples = [ids for of_sentence in self._ids for ids in of_sentence]
        filled = [ids + [EOS_ID] * (self.length - len(ids)) for ids in samples]
        return np.array(filled, np.int64).reshape(len(samples), self.length)

    def extend(self, found: NextTokens) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Append the drawn tokens, and yield the sentences that are done."""
        shape = (len(self.numbers), self._width)
        tokens = found.tokens[:, 0].reshape(shape)
        log_probs = found.log_probs[:, 0].reshape(shape)
        forced = self.constraints.token(self.length)[:, None]  # (B, 1)
        is_forced = forced != FREE
        tokens = np.where(is_forced, forced, tokens)
        log_probs = np.where(is_forced, found.scored_log_probs.reshape(shape), log_probs)
        done = np.zeros(len(self.numbers), np.bool_)
        for sentence, number in enumerate(self.numbers.tolist()):
            samples = list(zip(self._ids[sentence], self._log_probs[sentence], strict=True))
            found_here = zip(tokens[sentence].tolist(), log_probs[sentence].tolist(), strict=True)
            for (ids, history), (token, log_prob) in zip(samples, found_here, strict=True):
                if not _is_finished(ids, history):
                    history.append(log_prob)
                    if token != EOS_ID:
                        ids.append(token)
            if any(math.isnan(history[-1]) for _, history in samples):
                yield number, []
            elif all(_is_finished(ids, history) for ids, history in samples):
                yield number, [self._hypothesis(*sample) for sample in samples]
            else:
                continue
            done[sentence] = True
        self._keep(closed_up(done), tokens)

    def _hypothesis(self, ids: list[int], history: list[float]) -> Hypothesis:
        log_prob = sum(history)
        score = log_prob / self.options.penalty(len(history))
        return Hypothesis(tuple(ids), log_prob, score, tuple(history))

    def _keep(self, sentences: Integers, tokens: Integers) -> None:
        """Keep these sentences (B',) in this order; `tokens` (B, W) are the last ones."""
        self._random = [self._random[sentence] for sentence in sentences]
        self._ids = [self._ids[sentence] for sentence in sentences]
        self._log_probs = [self._log_probs[sentence] for sentence in sentences]
        parents = sentences[:, None] * self._width + np.arange(self._width)  # (B', W)
        self.advance(sentences, parents, tokens[sentences])


def draw_tokens(
    logits: Iterable[Tensor], query: StepQuery, *, sampling: Sampling, barred_ids: Sequence[int]
) -> Fields:
    """Draw a token for each hypothesis; see `top_tokens`.

    The log-probabilities are the model's own.
    """
    parts, start = [], 0
    for block in logits:
        rows = slice(start, start + len(block))
        own = query.of_rows(rows, block.device, barred_ids, block.shape[1])
        own.penalise(block)
        log_probs = block.float().log_softmax(dim=-1)  # (n, V)
        weights = log_probs.clone()
        own.bar(weights)
        best = weights.amax(
            dim=-1, keepdim=True
        )  # (n, 1) subtracted, so that low temperatures do not overflow
        weights, tokens = _candidates(weights.sub_(best).div_(sampling.temperature), sampling)
        drawn_tokens = _draw(weights, tokens, own.uniforms, sampling.top_p).long()  # (n, 1)
        values = log_probs.gather(1, drawn_tokens).masked_fill_(best.isinf(), math.nan)
        scored = own.scored_log_probs(log_probs), own.wanted_log_probs(log_probs)
        parts.append((values, drawn_tokens, *scored))
        start = rows.stop
    return joined_fields(parts)


def _draw(weights: Tensor, tokens: Tensor, uniforms: Tensor, top_p: float) -> Tensor:
    """Draw a token (n, 1) of each row.

    Args:
        weights: (n, k) log-probabilities, in descending order if top_p is below 1.
        tokens: (n, k) ids.
        uniforms: (n,) random numbers from [0, 1).
        top_p: tokens after the first ones that reach it together are not drawn.
    """
    probs = weights.double().exp()  # (n, k)
    sums = probs.cumsum(dim=-1)
    if top_p < 1:
        probs = probs.masked_fill(sums - probs >= top_p, 0.0)
        sums = probs.cumsum(dim=-1)
    places = torch.searchsorted(sums, uniforms[:, None] * sums[:, -1:], right=True)  # (n, 1)
    # If rounding makes the number as large as the sum, take the last possible token.
    columns = torch.arange(probs.shape[1], device=probs.device)
    last = ((probs > 0) * columns).amax(dim=-1, keepdim=True)
    return tokens.gather(1, places.minimum(last))


def _candidates(weights: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """Return the log-probabilities (n, k) and ids of tokens that may be drawn; see `_draw`.

    weights: (n, V) log-probabilities, not normalised.
    """
    size = weights.shape[1]
    if 0 < sampling.top_k < size:
        weights, tokens = top_k(weights, sampling.top_k)
        return weights - weights.logsumexp(dim=-1, keepdim=True), tokens
    weights = weights - weights.logsumexp(dim=-1, keepdim=True)
    if sampling.top_p == 1:
        return weights, torch.arange(size, device=weights.device).expand_as(weights)
    # Nearly always some hundred tokens reach top_p.
    candidates, tokens = top_k(weights, min(_TOP_P_CANDIDATES, size))
    if bool((candidates.double().exp().sum(dim=-1) >= sampling.top_p).all()):
        return candidates, tokens
    return weights.sort(dim=-1, descending=True, stable=True)


def _generator(seed: int, sample: int, ids: Ids) -> np.random.Generator:
    digest = hashlib.sha256(np.array([seed, sample, *ids], np.int64).tobytes()).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest[:16])))


def _empty(batch: int, width: int) -> list[list[list]]:  # type: ignore[type-arg]
    return [[[] for _ in range(width)] for _ in range(batch)]


def _is_finished(ids: list[int], history: list[float]) -> bool:
    return len(history) > len(ids)
