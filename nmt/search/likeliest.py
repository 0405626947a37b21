"""The likeliest next tokens of each hypothesis, found without sorting the whole vocabulary."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from nmt.data.vocabulary import EOS_ID

# On a CPU so many logits are worked on at a time: 2 MB of fp32, which stay in its cache.
_CACHED = 1 << 19


@dataclass(frozen=True)
class Likeliest:
    """The `count` likeliest tokens of N hypotheses, likeliest first; of equal ones, lowest id.

    Log-probabilities are NaN where the logits are no numbers.
    """

    log_probs: NDArray[np.float32]  # (N, count)
    tokens: NDArray[np.int64]  # (N, count)
    eos_log_probs: NDArray[np.float32]  # (N,) of eos, whether among them or not


def likeliest(logits: Tensor, count: int, barred_ids: Sequence[int]) -> Likeliest:
    """Find the likeliest tokens.

    Args:
        logits: (N, V), of any floating type; they are not kept.
        count: of tokens for each hypothesis; no more than V are found.
        barred_ids: tokens that are never taken; their probability is lent to no other.
    """
    rows = max(1, _CACHED // logits.shape[1]) if logits.device.type == "cpu" else len(logits)
    barred = torch.tensor(barred_ids, dtype=torch.int64, device=logits.device)
    parts = [_likeliest(part, count, barred) for part in torch.split(logits, rows)]
    values, tokens, eos = (torch.cat(each).cpu().numpy() for each in zip(*parts, strict=True))
    return Likeliest(values, tokens, eos)


def _likeliest(logits: Tensor, count: int, barred: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    log_probs = torch.log_softmax(logits.float(), dim=-1)  # (n, V)
    # Looked for here, because a NaN has no place in an order; by one of the row, which all share
    # the sum that it has spoilt.
    is_bad = log_probs[:, EOS_ID].isnan()  # (n,)
    log_probs.index_fill_(1, barred, -math.inf)
    values, tokens = largest(log_probs, min(count, logits.shape[1]))
    return values.masked_fill_(is_bad[:, None], math.nan), tokens, log_probs[:, EOS_ID]


def largest(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return each row's `count` largest values and their indices, equal ones by index.

    The largest lie in those `count` blocks of the row whose maxima are largest, so that only the
    maxima, and what these blocks hold, need to be ordered.

    Args:
        values: (n, V) fp32.
        count: from 1 to V.
    """
    width = _block_width(values.shape[1])
    missing = -values.shape[1] % width
    padded = F.pad(values, (0, missing), value=-math.inf) if missing else values
    blocks = padded.view(len(values), -1, width)  # (n, blocks, width)
    maxima = blocks.amax(dim=-1)  # (n, blocks)
    columns = torch.arange(maxima.shape[1], device=values.device)
    chosen = _first(maxima, columns.expand_as(maxima), min(count, maxima.shape[1]))  # (n, c)
    inside = blocks.gather(1, chosen[:, :, None].expand(-1, -1, width)).flatten(1)  # (n, c * width)
    within = torch.arange(width, device=values.device)
    indices = (chosen[:, :, None] * width + within).flatten(1)  # (n, c * width)
    found = _first(inside, indices, count)  # (n, count) places in `inside`
    return inside.gather(1, found), indices.gather(1, found)


def _block_width(size: int) -> int:
    # A tenth of a row in one go is a stretch that a CPU reduces fast; without a divisor in reach
    # the row is padded.
    return next((width for width in range(96, 257) if size % width == 0), 128)


def _first(values: Tensor, indices: Tensor, count: int) -> Tensor:
    """Return where in each row the first `count` stand, by value descending, then by index.

    topk leaves open which of equal values it takes, so it is given keys of which none are equal.
    """
    bits = values.view(torch.int32)
    ascending = bits ^ ((bits >> 31) & 0x7FFFFFFF)  # ordered as the floats are
    keys = (ascending.long() << 32) - indices  # (n, m)
    return keys.topk(count, dim=1).indices
