"""The likeliest next tokens of each hypothesis, found without sorting the whole vocabulary."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from nmt.data.vocabulary import EOS_ID


@dataclass(frozen=True)
class Likeliest:
    """The `count` likeliest tokens of N hypotheses, likeliest first; of equal ones, lowest id.

    Log-probabilities are NaN where the logits are no numbers.
    """

    log_probs: NDArray[np.float32]  # (N, count)
    tokens: NDArray[np.int64]  # (N, count)
    asked_log_probs: NDArray[np.float32]  # (N,) of a token of each one, barred or not

    @classmethod
    def joined(cls, parts: Sequence[tuple[Tensor, Tensor, Tensor]]) -> Likeliest:
        """Return the three fields of parts of the hypotheses as those of all."""
        return cls(*(torch.cat(part).cpu().numpy() for part in zip(*parts, strict=True)))

    @classmethod
    def of_all(cls, parts: Sequence[Likeliest]) -> Likeliest:
        """Return what has been found of parts of the hypotheses as that of all.

        Where one has fewer tokens, impossible ones stand behind them.
        """
        count = max(part.tokens.shape[1] for part in parts)
        missing = [((0, 0), (0, count - part.tokens.shape[1])) for part in parts]
        return cls(
            np.concatenate(
                [
                    np.pad(part.log_probs, pad, constant_values=-math.inf)
                    for part, pad in zip(parts, missing, strict=True)
                ]
            ),
            np.concatenate(
                [np.pad(part.tokens, pad) for part, pad in zip(parts, missing, strict=True)]
            ),
            np.concatenate([part.asked_log_probs for part in parts]),
        )


@dataclass(frozen=True)
class Question:
    """What a step of the search wants to know of N hypotheses."""

    asked: NDArray[np.int64]  # (N,) tokens whose log-probabilities are wanted in any case
    may_end: NDArray[np.bool_]  # (N,) whether eos may be taken
    chances: NDArray[np.float64]  # (N,) drawn uniformly from [0, 1) for samples; 0 for beams

    @classmethod
    def joined(cls, questions: Sequence[Question]) -> Question:
        """Return questions as one."""
        parts = zip(*((q.asked, q.may_end, q.chances) for q in questions), strict=True)
        return cls(*(np.concatenate(part) for part in parts))

    def answer(self, log_probs: Tensor, rows: slice) -> Tensor:
        """Return the log-probabilities (n,) of what is asked, given those (n, V) of some rows."""
        asked = self.asked[rows]
        if (asked == EOS_ID).all():
            return log_probs[:, EOS_ID].clone()
        return log_probs.gather(1, torch.from_numpy(asked).to(log_probs.device)[:, None])[:, 0]

    def bar(self, logits: Tensor, rows: slice, barred_ids: Sequence[int]) -> None:
        """Make tokens impossible, in place: these everywhere, and eos where it may not be taken.

        Args:
            logits: (n, V) of some rows, or log-probabilities.
            rows: which they are.
            barred_ids: the tokens.
        """
        for token in barred_ids:
            logits[:, token] = -math.inf
        may_end = self.may_end[rows]
        if not may_end.all():
            no_end = torch.from_numpy(~may_end).to(logits.device)
            logits[:, EOS_ID].masked_fill_(no_end, -math.inf)


def likeliest(
    logits: Iterable[Tensor], question: Question, *, count: int, barred_ids: Sequence[int]
) -> Likeliest:
    """Find the likeliest tokens.

    Args:
        logits: (n, V) of some hypotheses after the other, of any floating type; overwritten.
        question: of each hypothesis.
        count: of tokens for each hypothesis; no more than V are found.
        barred_ids: tokens that are never taken; their probability is lent to no other.
    """
    parts, start = [], 0
    for block in logits:
        rows = slice(start, start + len(block))
        log_probs = torch.log_softmax(block.float(), dim=-1)  # (n, V)
        asked_log_probs = question.answer(log_probs, rows)  # (n,)
        question.bar(log_probs, rows, barred_ids)
        values, tokens = top_k(log_probs, min(count, log_probs.shape[1]))
        # A NaN has no place in an order; but one spoils the sum that its whole row shares.
        values.masked_fill_(asked_log_probs.isnan()[:, None], math.nan)
        parts.append((values, tokens, asked_log_probs))
        start = rows.stop
    return Likeliest.joined(parts)


def top_k(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return each row's `count` largest values and their indices, equal ones by index.

    Args:
        values: (n, V) fp32.
        count: from 1 to V.
    """
    if values.device.type != "cpu":  # a GPU would have to be asked for ties
        return _top_k_by_keys(values, count)
    if count == 1:  # numpy's argmax compares many values at once, and takes the first of equal ones
        first = torch.from_numpy(values.numpy().argmax(axis=1))[:, None]  # (n, 1)
        return values.gather(1, first), first
    found, indices, is_clear = _top_k_by_values(values, count)
    if not is_clear.all():
        unclear = (~is_clear).nonzero()[:, 0]
        found[unclear], indices[unclear] = _top_k_by_keys(values[unclear], count)
    return found, indices


def _top_k_by_values(values: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return each row's `count` largest values and their indices, and where they are in order.

    topk leaves open which of equal values it takes, and a NaN has no order: rows with such among
    their first ones are not in order.

    A row is cut into groups of every g-th value. The largest values lie in those groups whose
    maxima are largest, so that only the maxima, and what these groups hold, need to be searched:
    of 1 2 9 4 5 6 and g = 3, the maxima are 4 5 9, and the two largest are among 9 6 and 2 5.
    """
    width = _group_width(values.shape[1], count)
    if width == 1:
        return _strictly_first(values, count)
    missing = -values.shape[1] % width
    padded = F.pad(values, (0, missing), value=-math.inf) if missing else values
    grouped = padded.view(len(values), width, -1)  # (n, width, g)
    _, chosen, maxima_are_clear = _strictly_first(grouped.amax(dim=1), count)  # (n, count)
    within = torch.arange(width) * grouped.shape[2]
    indices = (chosen[:, :, None] + within).flatten(1)  # (n, count * width)
    found, places, is_clear = _strictly_first(padded.gather(1, indices), count)
    return found, indices.gather(1, places), is_clear & maxima_are_clear


def _group_width(size: int, count: int) -> int:
    """Return how many values a group has.

    torch looks through a row several times faster (1.9 ns a value against 12, Zen 3) where it has
    64 values or more for each that is wanted: so many groups there are. A width without remainder
    is preferred, or the values have to be copied.
    """
    most = size // (64 * (count + 1))
    return next((width for width in range(most, most // 2, -1) if size % width == 0), max(1, most))


def _strictly_first(values: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the first `count` values, their places, and which rows are without ties or NaN.

    That is so where each value is larger than the next, that behind the last among them.
    """
    found = values.topk(min(count + 1, values.shape[1]), dim=1)
    is_clear = (found.values[:, :-1] > found.values[:, 1:]).all(dim=1)  # (n,)
    return found.values[:, :count], found.indices[:, :count], is_clear


def _top_k_by_keys(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return each row's `count` largest values and their indices, equal ones by index.

    The largest lie in those `count` blocks of the row whose maxima are largest, so that only the
    maxima, and what these blocks hold, need to be ordered.
    """
    width = _block_width(values.shape[1])
    missing = -values.shape[1] % width
    padded = F.pad(values, (0, missing), value=-math.inf) if missing else values
    blocks = padded.view(len(values), -1, width)  # (n, blocks, width)
    maxima = blocks.amax(dim=-1)  # (n, blocks)
    columns = torch.arange(maxima.shape[1], device=values.device)
    chosen = _first(maxima, columns.expand_as(maxima), min(count, maxima.shape[1]))  # (n, c)
    firsts = torch.arange(len(values), device=values.device)[:, None] * blocks.shape[1]  # (n, 1)
    inside = padded.view(-1, width).index_select(0, (firsts + chosen).flatten())
    inside = inside.view(len(values), -1)  # (n, c * width)
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
    bits = (values + 0.0).view(torch.int32)  # of -0.0, too, those of 0.0
    ascending = bits ^ ((bits >> 31) & 0x7FFFFFFF)  # ordered as the floats are
    keys = (ascending.long() << 32) - indices  # (n, m)
    return keys.topk(count, dim=1).indices
