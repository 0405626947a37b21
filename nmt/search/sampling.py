"""Sampling: translations drawn at random from the model's distribution.

Each hypothesis goes on by one token that is drawn from the likeliest ones. The random numbers of a
sample are derived from the seed, the source's tokens and the sample's number, so that what stands
beside it, and what has been drawn before, changes nothing.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from nmt.data.vocabulary import EOS_ID
from nmt.search.engine import Hypothesis, Ids
from nmt.search.hypotheses import FREE, Alive, Group, Integers, closed_up, ranked
from nmt.search.options import Sampling, SearchOptions
from nmt.search.top_k import Likeliest, Question, top_k

_FEW = 512


class Samples(Alive):
    """W = `n_best` translations of each sentence, drawn independently of each other."""

    def __init__(self, group: Group, options: SearchOptions) -> None:
        """Begin with W hypotheses for each sentence."""
        super().__init__(group, options)
        assert options.sampling is not None
        batch, self._width = len(group.numbers), options.n_best
        self._random = [
            [_generator(options.sampling.seed, number, source.ids) for number in range(self._width)]
            for source in group.sources
        ]  # (B, W)
        # (B, W); a hypothesis has as many log-probabilities as ids until it is closed by eos.
        self._ids: list[list[list[int]]] = _empty(batch, self._width)
        self._log_probs: list[list[list[float]]] = _empty(batch, self._width)
        sentences: Integers = np.arange(batch)
        self._select(sentences, sentences.repeat(self._width))
        self.last_tokens = self.last_tokens.repeat(self._width)

    def question(self) -> Question:
        """Return what to ask of the state's rows, with a random number for each."""
        asked = super().question()
        chances = [random.random() for of_sentence in self._random for random in of_sentence]
        return Question(asked.asked, asked.may_end, np.array(chances))

    def extend(self, found: Likeliest, rows: slice) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Take the tokens that have been drawn, and yield the sentences that are done."""
        shape = (len(self.numbers), self._width)
        tokens = found.tokens[rows, 0].reshape(shape)
        log_probs = found.log_probs[rows, 0].reshape(shape)
        demanded = self.demands.token(self.length)[:, None]  # (B, 1)
        is_bound = demanded != FREE
        tokens = np.where(is_bound, demanded, tokens)
        log_probs = np.where(is_bound, found.asked_log_probs[rows].reshape(shape), log_probs)
        done = np.zeros(len(self.numbers), np.bool_)
        for sentence, number in enumerate(self.numbers.tolist()):
            samples = list(zip(self._ids[sentence], self._log_probs[sentence], strict=True))
            found_here = zip(tokens[sentence].tolist(), log_probs[sentence].tolist(), strict=True)
            for (ids, history), (token, log_prob) in zip(samples, found_here, strict=True):
                if not _is_closed(ids, history):
                    history.append(log_prob)
                    if token != EOS_ID:
                        ids.append(token)
            if any(math.isnan(history[-1]) for _, history in samples):
                yield number, []
            elif all(_is_closed(ids, history) for ids, history in samples):
                yield number, ranked([self._hypothesis(*sample) for sample in samples])
            else:
                continue
            done[sentence] = True
        self.length += 1
        self._go_on(closed_up(done), tokens)

    def _hypothesis(self, ids: list[int], history: list[float]) -> Hypothesis:
        log_prob = sum(history)
        score = log_prob / self.options.penalty(len(history))
        return Hypothesis(tuple(ids), log_prob, score, tuple(history))

    def _go_on(self, sentences: Integers, tokens: Integers) -> None:
        """Keep some sentences (B',), in this order, with the last tokens (B, W)."""
        self.numbers = self.numbers[sentences]
        self.demands.select(sentences)
        if self.chosen is not None:
            self.chosen.select(sentences)
        self._random = [self._random[sentence] for sentence in sentences]
        self._ids = [self._ids[sentence] for sentence in sentences]
        self._log_probs = [self._log_probs[sentence] for sentence in sentences]
        self.last_tokens = tokens[sentences].reshape(-1)
        if len(sentences):
            rows = sentences[:, None] * self._width + np.arange(self._width)  # (B', W)
            self._select(sentences, rows.reshape(-1))

    def _select(self, sentences: Integers, rows: Integers) -> None:
        self.state.select(torch.from_numpy(rows), torch.from_numpy(sentences))


def drawn(
    logits: Iterable[Tensor], question: Question, *, sampling: Sampling, barred_ids: Sequence[int]
) -> Likeliest:
    """Draw a token for each hypothesis; log-probabilities are the model's own.

    Args:
        logits: (n, V) of some hypotheses after the other, of any floating type.
        question: of each hypothesis.
        sampling: what is drawn from.
        barred_ids: tokens that are never drawn.
    """
    parts, start = [], 0
    for block in logits:
        rows = slice(start, start + len(block))
        log_probs = block.float().log_softmax(dim=-1)  # (n, V)
        weights = log_probs.clone()
        question.bar(weights, rows, barred_ids)
        best = weights.amax(dim=-1, keepdim=True)  # (n, 1), so that no temperature is too low
        weights, tokens = _candidates(weights.sub_(best).div_(sampling.temperature), sampling)
        chances = torch.from_numpy(question.chances[rows]).to(block.device)  # (n,)
        drawn_tokens = _draw(weights, tokens, chances, sampling.top_p)  # (n, 1)
        values = log_probs.gather(1, drawn_tokens).masked_fill_(best.isinf(), math.nan)
        parts.append((values, drawn_tokens, question.answer(log_probs, rows)))
        start = rows.stop
    return Likeliest.joined(parts)


def _draw(weights: Tensor, tokens: Tensor, chances: Tensor, top_p: float) -> Tensor:
    """Return a token (n, 1) of each row.

    Args:
        weights: (n, k) logarithms of chances; in order, if p is not 1.
        tokens: (n, k) that they belong to.
        chances: (n,) uniformly drawn from [0, 1).
        top_p: what stands behind those that reach it together goes.
    """
    probs = weights.double().exp()  # (n, k)
    sums = probs.cumsum(dim=-1)
    if top_p < 1:
        probs = probs.masked_fill(sums - probs >= top_p, 0.0)
        sums = probs.cumsum(dim=-1)
    places = torch.searchsorted(sums, chances[:, None] * sums[:, -1:], right=True)  # (n, 1)
    # Where rounding has made a chance as large as the sum, the last that has a probability.
    columns = torch.arange(probs.shape[1], device=probs.device)
    last = ((probs > 0) * columns).amax(dim=-1, keepdim=True)
    return tokens.gather(1, places.minimum(last))


def _candidates(weights: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """Return what may be drawn: logarithms of chances (n, k), in order if need be, and tokens.

    Args:
        weights: (n, V) logarithms of what chances are in proportion to.
        sampling: what is drawn from.
    """
    size = weights.shape[1]
    if 0 < sampling.top_k < size:
        weights, tokens = top_k(weights, sampling.top_k)
        return weights - weights.logsumexp(dim=-1, keepdim=True), tokens
    weights = weights - weights.logsumexp(dim=-1, keepdim=True)
    if sampling.top_p == 1:
        return weights, torch.arange(size, device=weights.device).expand_as(weights)
    # Nearly always some hundred tokens have that probability together.
    few, tokens = top_k(weights, min(_FEW, size))
    if bool((few.double().exp().sum(dim=-1) >= sampling.top_p).all()):
        return few, tokens
    return weights.sort(dim=-1, descending=True, stable=True)


def _generator(seed: int, sample: int, ids: Ids) -> np.random.Generator:
    digest = hashlib.sha256(np.array([seed, sample, *ids], np.int64).tobytes()).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest[:16])))


def _empty(batch: int, width: int) -> list[list[list]]:  # type: ignore[type-arg]
    return [[[] for _ in range(width)] for _ in range(batch)]


def _is_closed(ids: list[int], history: list[float]) -> bool:
    return len(history) > len(ids)
