"""The top-k next tokens of each hypothesis, without sorting the whole vocabulary.

`StepQuery` and `NextTokens` are what search wants to know of a step, and the result.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch import device as Device
from torch.nn import functional as F

from nmt.data.vocabulary import EOS_ID
from nmt.models.device import to_device
from nmt.search.repetition import NO_PAIRS, Pairs


@dataclass(frozen=True)
class NextTokens:
    """The `count` best next tokens of N hypotheses, best first. Ties: the lowest id first.

    Log-probabilities are NaN if the logits are.
    """

    log_probs: NDArray[np.float32]  # (N, count)
    tokens: NDArray[np.int64]  # (N, count)
    scored_log_probs: NDArray[np.float32]  # (N,) of `StepQuery.scored_tokens`
    wanted_log_probs: NDArray[np.float32]  # (N, M) of `StepQuery.wanted`

    @classmethod
    def joined(cls, parts: Sequence[tuple[Tensor, ...]]) -> NextTokens:
        """Join the four fields of blocks of the hypotheses, from a GPU in one transfer."""
        fields = [torch.cat(part) for part in zip(*parts, strict=True)]
        if fields[0].device.type == "cpu":
            return cls(*(field.numpy() for field in fields))
        count = fields[0].shape[1]
        return cls.from_bits(to_bits(*fields).cpu().numpy(), count)

    @classmethod
    def from_bits(cls, bits: NDArray[np.int32], count: int) -> NextTokens:
        """Undo `to_bits`."""
        log_probs, tokens, scored, wanted = np.split(
            bits, [count, 2 * count, 2 * count + 1], axis=1
        )
        floats = [
            np.ascontiguousarray(part).view(np.float32) for part in (log_probs, scored, wanted)
        ]
        return cls(floats[0], tokens.astype(np.int64), floats[1][:, 0], floats[2])

    def split(self, rows: Sequence[int]) -> list[NextTokens]:
        """Split into parts of so many hypotheses."""
        parts, first = [], 0
        for count in rows:
            own = slice(first, first + count)
            parts.append(
                NextTokens(
                    self.log_probs[own],
                    self.tokens[own],
                    self.scored_log_probs[own],
                    self.wanted_log_probs[own],
                )
            )
            first = own.stop
        return parts


def to_bits(
    log_probs: Tensor, tokens: Tensor, scored_log_probs: Tensor, wanted_log_probs: Tensor
) -> Tensor:
    """Join the fields of `NextTokens` in one tensor (N, 2k + 1 + M), floats as their bits."""
    floats = [
        values.view(torch.int32)
        for values in (log_probs, scored_log_probs[:, None], wanted_log_probs)
    ]
    return torch.cat((floats[0], tokens.int(), *floats[1:]), dim=1)


@dataclass(frozen=True)
class StepQuery:
    """What search wants to know of N hypotheses at a step."""

    scored_tokens: NDArray[np.int64]  # (N,) always scored, even if barred or not among the best
    may_end: NDArray[np.bool_]  # (N,) whether eos may be taken
    uniforms: NDArray[np.float64]  # (N,) random numbers from [0, 1) for samples; 0 for beams
    # (K, 2) hypotheses, and tokens that they may not take, or that get the repetition penalty
    barred: Pairs = field(default_factory=lambda: NO_PAIRS)
    penalised: Pairs = field(default_factory=lambda: NO_PAIRS)
    repetition_penalty: float = 1.0  # at least 1
    # (N, M) other tokens that are always scored, filled up with eos
    wanted: NDArray[np.int64] | None = None

    @classmethod
    def joined(cls, queries: Sequence[StepQuery]) -> StepQuery:
        """Join queries of the same search."""
        starts = np.cumsum([0, *(len(query.may_end) for query in queries[:-1])])
        moves = [(start, 0) for start in starts]  # hypotheses are numbered through
        return cls(
            np.concatenate([query.scored_tokens for query in queries]),
            np.concatenate([query.may_end for query in queries]),
            np.concatenate([query.uniforms for query in queries]),
            np.concatenate([q.barred + move for q, move in zip(queries, moves, strict=True)]),
            np.concatenate([q.penalised + move for q, move in zip(queries, moves, strict=True)]),
            queries[0].repetition_penalty,
            _joined_wanted(queries),
        )

    def onto(self, shortlist: NDArray[np.int64]) -> StepQuery:
        """Return the query with places on an ascending list of tokens instead of ids."""
        listed = self.barred[np.isin(self.barred[:, 1], shortlist)]  # others are not taken anyway
        barred, penalised = (
            np.stack((pairs[:, 0], np.searchsorted(shortlist, pairs[:, 1])), axis=1)
            for pairs in (listed, self.penalised)
        )
        return replace(
            self,
            scored_tokens=np.searchsorted(shortlist, self.scored_tokens),
            barred=barred,
            penalised=penalised,
            wanted=None if self.wanted is None else np.searchsorted(shortlist, self.wanted),
        )

    def scored_log_probs(self, log_probs: Tensor, rows: slice) -> Tensor:
        """Return the log-probabilities (n,) of `scored_tokens`, given those (n, V) of some rows."""
        tokens = self.scored_tokens[rows]
        if (tokens == EOS_ID).all():
            return log_probs[:, EOS_ID].clone()
        (columns,) = to_device([tokens], log_probs.device)
        return log_probs.gather(1, columns[:, None])[:, 0]

    def wanted_log_probs(self, log_probs: Tensor, rows: slice) -> Tensor:
        """Return the log-probabilities (n, M) of `wanted`, given those (n, V) of some rows."""
        if self.wanted is None:
            return log_probs[:, :0]
        (columns,) = to_device([self.wanted[rows]], log_probs.device)
        return log_probs.gather(1, columns)

    def penalise(self, logits: Tensor, rows: slice) -> None:
        """Apply the repetition penalty in place to the logits (n, V) of some rows.

        Positive logits are divided by it (Keskar et al. 2019, section 4.1), negative ones
        multiplied.
        """
        if len(self.penalised):
            places = _places(self.penalised, rows, logits.device)
            values, penalty = logits[places], self.repetition_penalty
            logits[places] = torch.where(values > 0, values / penalty, values * penalty)

    def bar(self, logits: Tensor, rows: slice, barred_ids: Sequence[int]) -> None:
        """Bar tokens in place: `barred_ids` everywhere, `barred`, and eos if it may not be taken.

        logits: (n, V) of some rows of the query, or log-probabilities.
        """
        for token in barred_ids:
            logits[:, token] = -math.inf
        may_end = self.may_end[rows]
        if not may_end.all():
            (no_end,) = to_device([~may_end], logits.device)
            logits[:, EOS_ID].masked_fill_(no_end, -math.inf)
        if len(self.barred):
            logits[_places(self.barred, rows, logits.device)] = -math.inf


def _joined_wanted(queries: Sequence[StepQuery]) -> NDArray[np.int64] | None:
    most = max(0 if query.wanted is None else query.wanted.shape[1] for query in queries)
    if not most:
        return None
    rows = []
    for query in queries:
        filled = np.full((len(query.may_end), most), EOS_ID)
        if query.wanted is not None:
            filled[:, : query.wanted.shape[1]] = query.wanted
        rows.append(filled)
    return np.concatenate(rows)


def _places(pairs: Pairs, rows: slice, device: Device) -> tuple[Tensor, ...]:
    """Return rows and columns of the pairs of some hypotheses."""
    own = pairs[(pairs[:, 0] >= rows.start) & (pairs[:, 0] < rows.stop)]
    return tuple(to_device([own[:, 0] - rows.start, own[:, 1]], device))


def top_tokens(
    logits: Iterable[Tensor], query: StepQuery, *, count: int, barred_ids: Sequence[int]
) -> NextTokens:
    """Find the `count` most probable next tokens of each hypothesis.

    Args:
        logits: blocks (n, V) of the hypotheses in order, of any floating type. Overwritten.
        query: of all hypotheses.
        count: tokens for each hypothesis, at most V.
        barred_ids: tokens that are never taken. The others are not renormalised.
    """
    parts, start = [], 0
    for block in logits:
        rows = slice(start, start + len(block))
        query.penalise(block, rows)
        log_probs = torch.log_softmax(block.float(), dim=-1)  # (n, V)
        scored_log_probs = query.scored_log_probs(log_probs, rows)  # (n,)
        wanted_log_probs = query.wanted_log_probs(log_probs, rows)  # (n, M)
        query.bar(log_probs, rows, barred_ids)
        values, tokens = top_k(log_probs, min(count, log_probs.shape[1]))
        # NaN cannot be ordered. One makes the whole row NaN, through the sum of the softmax.
        values.masked_fill_(scored_log_probs.isnan()[:, None], math.nan)
        parts.append((values, tokens, scored_log_probs, wanted_log_probs))
        start = rows.stop
    return NextTokens.joined(parts)


def top_k(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return each row's `count` largest fp32 values (n, V), and their indices; ties by index."""
    if values.device.type != "cpu":  # checking for ties would wait for the GPU
        return _top_k_by_keys(values, count)
    if count == 1:  # numpy's argmax is vectorised and takes the first of ties
        first = torch.from_numpy(values.numpy().argmax(axis=1))[:, None]  # (n, 1)
        return values.gather(1, first), first
    found, indices, is_clear = _top_k_by_values(values, count)
    if not is_clear.all():
        unclear = (~is_clear).nonzero()[:, 0]
        found[unclear], indices[unclear] = _top_k_by_keys(values[unclear], count)
    return found, indices


def _top_k_by_values(values: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return each row's `count` largest values and their indices, and which rows are clear.

    torch.topk does not say which of equal values it takes, and cannot order NaN. Rows with ties or
    NaN among their largest values are not clear.

    Each row is cut into groups of every g-th value. The largest values are in the groups with the
    largest maxima, so only the maxima and the values of these groups are searched. For example,
    with 1 2 9 4 5 6 and g = 3 the maxima are 4 5 9, and the two largest are among 9 6 and 2 5.
    """
    width = _group_width(values.shape[1], count)
    if width == 1:
        return _strictly_first(values, count)
    missing = -values.shape[1] % width
    padded = F.pad(values, (0, missing), value=-math.inf) if missing else values
    grouped = padded.view(len(values), width, -1)  # (n, width, g)
    _, best, maxima_are_clear = _strictly_first(grouped.amax(dim=1), count)  # (n, count)
    within = torch.arange(width) * grouped.shape[2]
    indices = (best[:, :, None] + within).flatten(1)  # (n, count * width)
    found, places, is_clear = _strictly_first(padded.gather(1, indices), count)
    return found, indices.gather(1, places), is_clear & maxima_are_clear


def _group_width(size: int, count: int) -> int:
    """Return the size of a group.

    torch.topk is several times faster (1.9 ns a value against 12 on Zen 3) if a row has at least 64
    values for each one wanted, so there are that many groups. A divisor of the row's size is
    preferred, because padding copies the values.
    """
    most = size // (64 * (count + 1))
    return next((width for width in range(most, most // 2, -1) if size % width == 0), max(1, most))


def _strictly_first(values: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the `count` largest values, their places, and which rows have no ties or NaN.

    A row has none if each value is larger than the next one, up to the one after the last.
    """
    found = values.topk(min(count + 1, values.shape[1]), dim=1)
    is_clear = (found.values[:, :-1] > found.values[:, 1:]).all(dim=1)  # (n,)
    return found.values[:, :count], found.indices[:, :count], is_clear


def _top_k_by_keys(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return each row's `count` largest values and their indices; ties by index.

    The largest values are in the `count` blocks of the row with the largest maxima, so only the
    maxima and the values of these blocks are ordered.
    """
    width = _block_width(values.shape[1])
    missing = -values.shape[1] % width
    padded = F.pad(values, (0, missing), value=-math.inf) if missing else values
    blocks = padded.view(len(values), -1, width)  # (n, blocks, width)
    maxima = blocks.amax(dim=-1)  # (n, blocks)
    columns = torch.arange(maxima.shape[1], device=values.device)
    best = _first(maxima, columns.expand_as(maxima), min(count, maxima.shape[1]))  # (n, c)
    firsts = torch.arange(len(values), device=values.device)[:, None] * blocks.shape[1]  # (n, 1)
    inside = padded.view(-1, width).index_select(0, (firsts + best).flatten())
    inside = inside.view(len(values), -1)  # (n, c * width)
    within = torch.arange(width, device=values.device)
    indices = (best[:, :, None] * width + within).flatten(1)  # (n, c * width)
    found = _first(inside, indices, count)  # (n, count) places in `inside`
    return inside.gather(1, found), indices.gather(1, found)


def _block_width(size: int) -> int:
    # CPUs reduce stretches of this size fast. Without a divisor nearby the row is padded.
    return next((width for width in range(96, 257) if size % width == 0), 128)


def _first(values: Tensor, indices: Tensor, count: int) -> Tensor:
    """Return the places of each row's first `count`, by value descending, then by index.

    torch.topk does not say which of equal values it takes, so it gets keys without ties.
    """
    bits = (values + 0.0).view(torch.int32)  # + 0.0 turns -0.0 into 0.0
    ascending = bits ^ ((bits >> 31) & 0x7FFFFFFF)  # same order as the floats
    keys = (ascending.long() << 32) - indices  # (n, m)
    return keys.topk(count, dim=1).indices
