"""Sampling: translations drawn at random from the model's distribution.

The random numbers of a sample depend only on the seed, the source's tokens and the sample's number.
So a translation does not depend on its batch, or on what was drawn before.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from nmt.search.engine import Ids, Source
from nmt.search.options import Sampling, SearchOptions
from nmt.search.top_k import BlockQuery, top_k

_TOP_P_CANDIDATES = 512


def generators_of(
    sources: Sequence[Source], options: SearchOptions
) -> list[list[np.random.Generator]]:
    """Return a generator of random numbers for each sample of each source."""
    if options.sampling is None:
        return []
    seed, samples = options.sampling.seed, range(options.n_best)
    return [[_generator(seed, number, source.ids) for number in samples] for source in sources]


def _generator(seed: int, sample: int, ids: Ids) -> np.random.Generator:
    digest = hashlib.sha256(np.array([seed, sample, *ids], np.int64).tobytes()).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest[:16])))


def draw_tokens(
    log_probs: Tensor, query: BlockQuery, *, sampling: Sampling
) -> tuple[Tensor, Tensor]:
    """Draw a token for each hypothesis, given log-probabilities (n, V); see `Pick`."""
    weights = log_probs.clone()
    query.bar(weights)
    best = weights.amax(dim=-1, keepdim=True)  # (n, 1)
    # It is subtracted, so that low temperatures do not overflow.
    weights, tokens = _candidates(weights.sub_(best).div_(sampling.temperature), sampling)
    drawn = _draw(weights, tokens, query.uniforms, sampling.top_p).long()  # (n, 1)
    return log_probs.gather(1, drawn).masked_fill_(best.isinf(), math.nan), drawn


def _candidates(weights: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """Return the log-probabilities (n, k) and ids of tokens that may be drawn; see `_draw`.

    weights: (n, V) log-probabilities, not normalised.
    """
    size = weights.shape[1]
    if 0 < sampling.top_k < size:
        weights, tokens = top_k(weights, sampling.top_k)  # (n, k)
        return weights - weights.logsumexp(dim=-1, keepdim=True), tokens
    weights = weights - weights.logsumexp(dim=-1, keepdim=True)
    if sampling.top_p == 1:
        return weights, torch.arange(size, device=weights.device).expand_as(weights)
    # Nearly always some hundred tokens reach top_p.
    candidates, tokens = top_k(weights, min(_TOP_P_CANDIDATES, size))  # (n, k)
    if bool((candidates.double().exp().sum(dim=-1) >= sampling.top_p).all()):
        return candidates, tokens
    return weights.sort(dim=-1, descending=True, stable=True)


def _draw(weights: Tensor, tokens: Tensor, uniforms: Tensor, top_p: float) -> Tensor:
    """Draw a token (n, 1) of each row.

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
    last = ((probs > 0) * columns).amax(dim=-1, keepdim=True)  # (n, 1)
    return tokens.gather(1, places.minimum(last))
