"""The top-k next tokens of each hypothesis, without sorting the whole vocabulary.

`StepQuery` is what search wants to know of a step, and `NextTokens` is the answer.

For example, with beam size 2 and a vocabulary of the words a, b, c and d and eos, which have the
ids 0, 1, 2, 4 and 3. A sentence has the hypotheses `a b a` and `a c d`. No pair of tokens may be
there twice (`--no-repeat-ngram 2`). So b must not follow `a b a`, and the query has

    forced   FREE FREE         no prefix is given
    barred   (0, 1)            hypothesis 0, token 1: place 0 * 5 + 1 = 1 of the flattened logits

The model's probabilities, and their logarithms:

                a b c eos d                     a     b     c     eos   d
    a b a       .10 .50 .20 .15 .05             -2.30 -0.69 -1.61 -1.90 -3.00
    a c d       .05 .10 .05 .60 .20             -3.00 -2.30 -3.00 -0.51 -1.61

`pick_tokens` first reads the tokens that it was asked about by name. These are eos of both: -1.90
and -0.51. Only then it sets the barred one to -inf. The others are not renormalised. Then it takes
the 2 * 2 = 4 best of each row. a and c are equal in the second row, and the lower id is taken:

    a b a       c -1.61     eos -1.90   a -2.30     d -3.00
    a c d       eos -0.51   d -1.61     b -2.30     a -3.00

Why four: search looks at the four best extensions of both, and all may be of one hypothesis. Why
not two: those that end leave the beam. Of four, at most two do. `Beams.extend` goes on from here.

If the translation must begin with `a b a d`, `a b a` is the only hypothesis, and `forced` is 4.
Then d is read by name, -3.00, and search uses nothing else. It is read before any token is barred,
so a prefix may contain what would be barred.

Legend: N hypotheses of all groups, n of a block, k next tokens of each, M wanted tokens of each,
V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch import device as Device
from torch.nn import functional as F

from nmt.data.vocabulary import EOS_ID
from nmt.models.device import joined, to_device

Integers = NDArray[np.int64]

Pairs = Integers  # (K, 2): the number of a hypothesis, and a token

FREE = -1  # any token may follow

_NO_PLACES: Integers = np.zeros(0, np.int64)


class NextTokens(NamedTuple):
    """The k best next tokens of N hypotheses, best first. Ties: the lowest id first.

    Log-probabilities are NaN if the logits are.
    """

    log_probs: NDArray[np.float32]  # (N, k)
    tokens: Integers  # (N, k)
    scored_log_probs: NDArray[np.float32]  # (N, 1 + M) of `StepQuery.scored`

    @classmethod
    def read(cls, fields: Fields) -> NextTokens:
        """Read them, from a GPU in one transfer."""
        if fields[0].device.type == "cpu":
            found = cls(*(values.numpy() for values in fields))
        else:
            log_probs, tokens, scored = fields
            # One tensor (N, 2k + 1 + M): floats travel as their bits.
            each = tokens.int(), log_probs.view(torch.int32), scored.view(torch.int32)
            bits, count = torch.cat(each, dim=1).cpu().numpy(), tokens.shape[1]
            floats = np.ascontiguousarray(bits[:, count:]).view(np.float32)  # (N, k + 1 + M)
            found = cls(floats[:, :count], bits[:, :count].astype(np.int64), floats[:, count:])
        # NaN cannot be ordered. One makes the whole row NaN, through the sum of the softmax.
        is_bad = np.isnan(found.scored_log_probs[:, 0])
        found.log_probs[is_bad], found.tokens[is_bad] = math.nan, EOS_ID  # any valid id will do
        return found

    def split(self, rows: Sequence[int]) -> list[NextTokens]:
        """Split into parts of so many hypotheses."""
        parts = [slice(end - count, end) for count, end in zip(rows, accumulate(rows), strict=True)]
        log_probs, tokens, scored = self
        return [NextTokens(log_probs[part], tokens[part], scored[part]) for part in parts]


Fields = tuple[Tensor, ...]  # the fields of `NextTokens` as tensors


@dataclass
class StepQuery:
    """What search wants to know of N hypotheses at a step. Constraints write into it."""

    forced: Integers  # (N,) the only token that may follow, or `FREE`
    barred: list[Pairs] = field(default_factory=list)  # tokens that may not follow
    penalised: list[Pairs] = field(default_factory=list)  # they get the repetition penalty
    repetition_penalty: float = 1.0  # at least 1
    wanted: Integers | None = None  # (N, M) tokens that are scored, too; filled up with eos
    uniforms: NDArray[np.float64] | None = None  # (N,) random numbers from [0, 1), for samples

    @property
    def scored(self) -> Integers:
        """The tokens (N, 1 + M) that are scored even if barred: forced ones or eos, and wanted."""
        first = np.where(self.forced == FREE, EOS_ID, self.forced)[:, None]
        return first if self.wanted is None else np.concatenate((first, self.wanted), axis=1)

    def bar_end(self, rows: Integers) -> None:
        """Do not let these hypotheses end."""
        self.barred.append(np.stack((rows, np.full_like(rows, EOS_ID)), axis=1))

    @classmethod
    def joined(cls, queries: Sequence[StepQuery]) -> StepQuery:
        if len(queries) == 1:
            return queries[0]
        starts = accumulate((len(query.forced) for query in queries), initial=0)
        moved = [  # hypotheses are numbered through
            (query, np.array([start, 0])) for query, start in zip(queries, starts, strict=False)
        ]
        uniforms = [query.uniforms for query in queries if query.uniforms is not None]
        return cls(
            np.concatenate([query.forced for query in queries]),
            [pairs + move for query, move in moved for pairs in query.barred],
            [pairs + move for query, move in moved for pairs in query.penalised],
            max(query.repetition_penalty for query in queries),
            _joined_wanted(queries),
            np.concatenate(uniforms) if uniforms else None,
        )

    def of_rows(
        self, rows: slice, device: Device, barred_ids: Sequence[int], vocab_size: int
    ) -> BlockQuery:
        """Return the query of some rows on their device, which gets it in one transfer.

        barred_ids: tokens that none of the V = vocab_size may be.
        """
        scored = self.scored[rows]
        if scored.shape[1] == 1 and (scored == EOS_ID).all():  # nearly always
            scored = scored[:0]
        uniforms = np.zeros(0) if self.uniforms is None else self.uniforms[rows]
        barred = _places(self.barred, rows, vocab_size) if self.barred else _NO_PLACES
        penalised = _places(self.penalised, rows, vocab_size) if self.penalised else _NO_PLACES
        # All are of one type, so that they are one tensor on the way: random numbers as their bits.
        tensors = to_device([scored, barred, penalised, uniforms.view(np.int64)], device)
        return BlockQuery(tuple(barred_ids), self.repetition_penalty, *tensors)


class BlockQuery(NamedTuple):
    """The query of n hypotheses, on the device that has their logits (n, V)."""

    barred_ids: tuple[int, ...]
    repetition_penalty: float
    scored: Tensor  # (n, 1 + M), or (0, 1) if all are eos
    barred: Tensor  # (b,) places in the flattened logits
    penalised: Tensor  # (p,) likewise
    uniform_bits: Tensor  # (n,)

    @property
    def uniforms(self) -> Tensor:
        """Random numbers (n,) in fp64."""
        return self.uniform_bits.view(torch.float64)

    def scored_log_probs(self, log_probs: Tensor) -> Tensor:
        """Return the log-probabilities (n, 1 + M) of `scored`, given all (n, V)."""
        if len(self.scored):
            return log_probs.gather(1, self.scored)
        return log_probs[:, EOS_ID : EOS_ID + 1].clone()

    def penalise(self, logits: Tensor) -> None:
        """Apply the repetition penalty to logits (n, V) in place.

        Positive logits are divided by it (Keskar et al. 2019, section 4.1), negative ones
        multiplied.
        """
        flat, penalty = logits.view(-1), self.repetition_penalty
        values = flat.index_select(0, self.penalised)
        # The smaller one is the quotient of a positive logit, and the product of a negative.
        flat.index_copy_(0, self.penalised, torch.minimum(values / penalty, values * penalty))

    def bar(self, logits: Tensor) -> None:
        """Bar tokens in logits (n, V) or log-probabilities, in place."""
        for stretch in _stretches(self.barred_ids):
            logits[:, stretch] = -math.inf
        if len(self.barred):
            logits.view(-1).index_fill_(0, self.barred, -math.inf)


@cache
def _stretches(ids: tuple[int, ...]) -> list[slice]:
    """Return the stretches of neighbouring ids: 0 to 2 and 5 to 5 for 0 2 1 5."""
    known = set(ids)
    firsts = sorted(id_ for id_ in known if id_ - 1 not in known)
    lasts = sorted(id_ for id_ in known if id_ + 1 not in known)
    return [slice(first, last + 1) for first, last in zip(firsts, lasts, strict=True)]


def _joined_wanted(queries: Sequence[StepQuery]) -> Integers | None:
    if all(query.wanted is None for query in queries):
        return None
    each = [query.scored[:, 1:] for query in queries]
    most = max(wanted.shape[1] for wanted in each)
    fill = ((0, 0), (0, most))  # enough for any of them; what is too much is cut off
    filled: list[Integers] = [np.pad(own, fill, constant_values=EOS_ID)[:, :most] for own in each]
    return np.concatenate(filled)


def _places(pairs: Sequence[Pairs], rows: slice, vocab_size: int) -> Integers:
    """Return where the pairs of some hypotheses are in the flattened logits of these (n, V).

    For example, token 5 of hypothesis 12 is at 2 * V + 5 in those of hypotheses 10 to 19.
    """
    numbers, tokens = np.concatenate(pairs).T
    is_own = (numbers >= rows.start) & (numbers < rows.stop)
    places: Integers = ((numbers - rows.start) * vocab_size + tokens)[is_own]
    return places


Pick = Callable[[Tensor, BlockQuery], tuple[Tensor, Tensor]]
"""`top_tokens` or `draw_tokens` with their own options bound: from log-probabilities (n, V), which
it may overwrite, to those of the tokens that it picks (n, k), and the tokens."""


def pick_tokens(
    logits: Iterable[Tensor], query: StepQuery, *, pick: Pick, barred_ids: Sequence[int]
) -> NextTokens:
    """Pick the next tokens of each hypothesis.

    logits: blocks (n, V) of the hypotheses in order, of any floating type. Overwritten.
    query: of all hypotheses.
    pick: chooses among the log-probabilities.
    barred_ids: tokens that are never taken. The others are not renormalised.
    """
    parts, start = [], 0
    for block in logits:
        rows = slice(start, start + len(block))
        start = rows.stop
        own = query.of_rows(rows, block.device, barred_ids, block.shape[1])
        if len(own.penalised):
            own.penalise(block)
        log_probs = block.float()  # (n, V)
        torch.log_softmax(log_probs, dim=-1, out=log_probs)  # saves as much memory again
        scored = own.scored_log_probs(log_probs)  # (n, 1 + M), before any is barred
        parts.append((*pick(log_probs, own), scored))
    return NextTokens.read(tuple(map(joined, zip(*parts, strict=True))))


def top_tokens(log_probs: Tensor, query: BlockQuery, *, count: int) -> tuple[Tensor, Tensor]:
    """Find the `count` most probable next tokens (n, count), or all V if there are fewer."""
    query.bar(log_probs)
    return top_k(log_probs, min(count, log_probs.shape[1]))


def top_k(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return each row's `count` largest fp32 values (n, V), and their indices; ties by index.

    Values are log-probabilities, or other numbers that are at most 0.
    """
    if values.device.type != "cpu":  # checking for ties would wait for the GPU
        return values.max(dim=1, keepdim=True) if count == 1 else _top_k_by_keys(values, count)
    if count == 1:  # numpy's argmax is vectorised and takes the first of ties
        first = torch.from_numpy(values.numpy().argmax(axis=1))[:, None]  # (n, 1)
        return values.gather(1, first), first
    largest, indices, is_clear = _top_k_by_values(values, count)
    if not is_clear.all():
        unclear = (~is_clear).nonzero()[:, 0]
        largest[unclear], by_key = _top_k_by_keys(values[unclear], count)
        indices[unclear] = by_key.long()
    return largest, indices


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
    # A group is a column: maxima over rows would take several times as long.
    grouped = padded.view(len(values), width, -1)  # (n, width, g)
    # Equal maxima are equal values, perhaps of a group that is left out.
    _, best, maxima_are_clear = _strictly_first(grouped.amax(dim=1), count)  # (n, count)
    within = torch.arange(width) * grouped.shape[2]
    indices = (best[:, :, None] + within).flatten(1)  # (n, count * width)
    largest, places, is_clear = _strictly_first(padded.gather(1, indices), count)
    return largest, indices.gather(1, places), is_clear & maxima_are_clear


def _group_width(size: int, count: int) -> int:
    """Return the size of a group.

    torch.topk is several times faster (1.9 ns a value against 12 on Zen 3) if a row has at least 64
    values for each one wanted, so there are that many groups. A divisor of the row's size is
    preferred, because padding copies the values.
    """
    most = size // (64 * (count + 1))  # one more is looked at, to see ties
    return next((width for width in range(most, most // 2, -1) if size % width == 0), max(1, most))


def _strictly_first(values: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the `count` largest values, their places, and which rows have no ties or NaN.

    A row has none if each value is larger than the next one, up to the one after the last.
    """
    largest = values.topk(min(count + 1, values.shape[1]), dim=1)
    is_clear = (largest.values[:, :-1] > largest.values[:, 1:]).all(dim=1)  # (n,)
    return largest.values[:, :count], largest.indices[:, :count], is_clear


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
    numbers = torch.arange(maxima.shape[1], device=values.device)
    most = min(count, maxima.shape[1])  # c
    best = _keys(maxima, numbers).topk(most, dim=1, largest=False, sorted=False)  # (n, c)
    chosen = best.indices[:, :, None]  # (n, c, 1)
    inside = blocks.gather(1, chosen.expand(-1, -1, width)).flatten(1)  # (n, c * width)
    within = torch.arange(width, device=values.device)
    indices = torch.add(within, chosen, alpha=width).flatten(1)  # (n, c * width)
    smallest = _keys(inside, indices).topk(count, dim=1, largest=False)  # (n, count)
    return _from_keys(smallest.values)


def _block_width(size: int) -> int:
    # CPUs reduce stretches of this size fast. Without a divisor nearby the row is padded.
    return next((width for width in range(96, 257) if size % width == 0), 128)


def _keys(values: Tensor, indices: Tensor) -> Tensor:
    """Return int64 keys that are smaller for larger values, and of equal ones for lower indices.

    torch.topk does not say which of equal values it takes, so it gets keys without ties. The
    absolute value's bits are the upper half of a key: they grow as the value falls below 0.
    """
    return torch.add(indices, values.abs().view(torch.int32), alpha=1 << 32)


def _from_keys(keys: Tensor) -> tuple[Tensor, Tensor]:
    """Undo `_keys`: values, and indices as int32."""
    halves = keys[..., None].view(torch.int32)  # (n, count, 2), the lower half first
    return halves[..., 1].view(torch.float32).neg(), halves[..., 0]
