"""The decoder's state of a whole search, in memory that stays where it is, for CUDA graphs.

A graph knows addresses and shapes only. So all sentences of a search live in slots of common
tensors, and a step computes every slot, used or not. Sizes go up in powers of two, so that there
are few of them. When one changes, the sentences in use are laid out again, from the first slot on.
The memory is the beginning of a few blocks, which grow if a larger size needs it.

What a slot must not see has weight 0. It must be finite, too, since 0 times NaN is NaN. So slots
are cleared before they are used.

Legend: B slots, W rows of each, N = B * W, L positions of the cache, S source length, H heads.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, cast
from weakref import WeakSet

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from nmt.data.batches import Packed
from nmt.models.attention import attend, padding_bias
from nmt.models.base import DecoderState, Integers
from nmt.models.device import to_device
from nmt.models.kernels.padded_layout import Projected
from nmt.models.kv_cache import CacheRows
from nmt.models.positions import Relative

Encoded = tuple[Tensor, Tensor]
"""Keys and values of sources (layers, 2, B, H, S, width), and biases of their scores (B, S)."""

_FEWEST_SLOTS = 4
_FEWEST_POSITIONS = 32  # of sources and translations
_NO_MOVES: Integers = np.zeros((3, 0), np.int64)
_numbers = itertools.count()


class Shape(NamedTuple):
    """The size of all slots."""

    slots: int  # B
    positions: int  # L
    sources: int  # S


def _rounded(count: int, least: int) -> int:
    return max(least, 1 << (count - 1).bit_length())


class SlotState:
    """Hypotheses of the same length, W' of each sentence, in slots (see `DecoderState`)."""

    def __init__(self, encoded: Encoded, rows_of_slot: int) -> None:
        count, self.source_length = encoded[1].shape
        self.number = next(_numbers)
        self.encoded: Encoded | None = encoded  # until it has slots
        self.slots: Integers = np.arange(count)  # (B',); at first, places in `encoded`
        self.length = 0
        self.moves = _NO_MOVES  # (3, moves): rows from, rows to, positions
        self._rows_of_slot = rows_of_slot  # W
        self._width = 1  # W'
        self._places = CacheRows(count)
        # As in `KeyValueCache`: rows with the same writer of a position hold identical vectors.
        self._writers: Integers = np.zeros((count, 0), np.int64)  # (N', length)

    @property
    def rows(self) -> Integers:
        """The row (N',) of each hypothesis among all N."""
        return self._among_all(self._places.rows)

    def select(self, rows: Tensor, sentences: Tensor) -> None:
        assert not self.moves.shape[1], "a step comes between two selections"
        parents, kept = rows.numpy(), sentences.numpy()
        width_before, width = self._width, len(parents) // len(kept)
        from_rows = self._places.select(parents, len(kept))  # (N',) old rows
        writers = self._writers[from_rows]  # (N', length)
        # What is there already: a sentence keeps its slot, and new rows hold nothing yet.
        sentence, place = np.divmod(np.arange(len(parents)), width)
        there = self._writers[kept[sentence] * width_before + np.minimum(place, width_before - 1)]
        there[place >= width_before] = -1
        targets, positions = np.nonzero(writers != there)
        sources = self._among_all(from_rows[targets])
        self.slots, self._width, self._writers = self.slots[kept], width, writers
        self.moves = np.stack((sources, self._among_all(targets), positions))

    def advance(self) -> None:
        """Finish a position."""
        self._writers = np.column_stack((self._writers, np.arange(len(self._writers))))
        self.length += 1

    def _among_all(self, rows: Integers) -> Integers:
        sentence, place = np.divmod(rows, self._width)
        return self.slots[sentence] * self._rows_of_slot + place


class Slots:
    """The slots of the states in use, and what a step is given: a `StaticMemory`."""

    def __init__(
        self,
        width: int,
        vectors: tuple[int, int, int],
        like: Tensor,
        encode: Callable[[Packed], Encoded],
        step_rows: Callable[[Tensor, Tensor, int, list[StepRows]], Tensor],
    ) -> None:
        """Begin empty.

        width: W; vectors: layers, H and the width of a head; like: of the type and device;
        step_rows: see `Transformer.step_rows`.
        """
        self.width = width
        self.shape = Shape(0, 0, 0)
        self.graphs: dict[Hashable, Any] = {}
        self.device = like.device
        self._vectors = vectors
        self._encode, self._step_rows = encode, step_rows
        self._blocks = [like.new_zeros(0) for _ in range(3)]
        self._blocks.append(like.new_zeros(0, dtype=torch.int64))
        self._states: WeakSet[SlotState] = WeakSet()
        self._set_views(self.shape)

    def begin(self, src: Packed) -> SlotState:
        return SlotState(self._encode(src), self.width)

    def prepare(
        self, states: Sequence[DecoderState], tokens: Integers, scored: Integers
    ) -> Integers:
        own = cast(Sequence[SlotState], states)
        self._states.update(own)
        used = sorted(self._states, key=lambda state: state.number)
        shape = Shape(
            _rounded(sum(len(state.slots) for state in used), _FEWEST_SLOTS),
            _rounded(max(state.length for state in used) + 1, _FEWEST_POSITIONS),
            _rounded(max(state.source_length for state in used), _FEWEST_POSITIONS),
        )
        if shape != self.shape:
            self._move(used, *to_device([self._moves(used)], self.device))
            self._lay_out([state for state in used if state.encoded is None], shape)
        for state in used:
            if state.encoded is not None:
                self._enter(state, state.encoded)
        rows = np.concatenate([state.rows for state in own])
        count = shape.slots * self.width
        given = np.zeros(2 * count + shape.slots, np.int64)
        given[rows], given[count + rows] = tokens, scored
        for state in used:
            given[2 * count + state.slots] = state.length
        moves, given_there = to_device([self._moves(used), given], self.device)
        self._given.copy_(given_there)
        self._move(used, moves)
        return rows

    def step(self) -> tuple[Tensor, Tensor]:
        rows = self.shape.slots * self.width
        tokens, scored, positions = torch.split(self._given, [rows, rows, self.shape.slots])
        own = StepRows(self._cache, self._memory, self._score_bias, positions)
        return self._step_rows(tokens, own.positions, self.shape.positions, [own]), scored

    def advance(self, states: Sequence[DecoderState]) -> None:
        for state in cast(Sequence[SlotState], states):
            state.advance()

    def _moves(self, used: Sequence[SlotState]) -> Integers:
        """Return (2, moves): from where to where, of the cache's positions and rows in order."""
        sources, targets, positions = np.concatenate([state.moves for state in used], axis=1)
        moves = np.stack((sources, targets))
        moves += positions * (self.shape.slots * self.width)
        return moves

    def _move(self, used: Sequence[SlotState], moves: Tensor) -> None:
        if moves.shape[1]:
            layers, parts, positions, rows, *_ = self._cache.shape
            vectors = self._cache.view(layers * parts, positions * rows, -1)
            # index_select copies first, so a row may be source and target at once.
            vectors.index_copy_(1, moves[1], vectors.index_select(1, moves[0]))
        for state in used:
            state.moves = _NO_MOVES

    def _lay_out(self, kept: Sequence[SlotState], shape: Shape) -> None:
        """Give the states that have slots the first ones, in tensors of another shape."""
        slots = _slots_of(kept)  # (B',)
        old, old_rows = to_device([slots, self._rows_of(slots)], self.device)
        length = max((state.length for state in kept), default=0)
        source = min(self.shape.sources, shape.sources)  # what is longer is in no slot any more
        cache = self._cache[:, :, :length].index_select(3, old_rows)
        memory = self._memory.narrow(4, 0, source).index_select(2, old)
        score_bias = self._score_bias.narrow(1, 0, source).index_select(0, old)
        self._set_views(shape)
        for view in (self._cache, self._memory, self._score_bias):
            view.zero_()
        count = len(slots)
        self._cache[:, :, :length, : len(old_rows)] = cache
        self._memory[:, :, :count, :, :source] = memory
        self._score_bias[:count] = -math.inf
        self._score_bias[:count, :source] = score_bias
        first = 0
        for state in kept:
            state.slots = np.arange(first, first + len(state.slots))
            first += len(state.slots)

    def _set_views(self, shape: Shape) -> None:
        """Take tensors of a shape from the blocks, which grow if they are too small."""
        layers, heads, width = self._vectors
        slots, positions, sources = shape
        rows = slots * self.width
        shapes = (
            (layers, 2, positions, rows, heads, width),
            (layers, 2, slots, heads, sources, width),
            (slots, sources),
            (2 * rows + slots,),
        )
        sizes = [math.prod(each) for each in shapes]
        if any(len(block) < size for block, size in zip(self._blocks, sizes, strict=True)):
            self.graphs.clear()
            self._cache = self._memory = self._score_bias = self._given = self._blocks[0][:0]
            for number, size in enumerate(sizes):
                if len(self._blocks[number]) < size:
                    self._blocks[number] = self._blocks[number][:0].clone()  # free it first
                    self._blocks[number] = self._blocks[number].new_zeros(size)
        self._cache, self._memory, self._score_bias, self._given = (
            block[:size].view(each)
            for block, size, each in zip(self._blocks, sizes, shapes, strict=True)
        )
        self.shape = shape

    def _enter(self, state: SlotState, encoded: Encoded) -> None:
        """Copy encoded sources into slots that are free."""
        used = _slots_of([own for own in self._states if own.encoded is None])
        slots = np.setdiff1d(np.arange(self.shape.slots), used)[: len(state.slots)]
        arrays = [state.slots, slots, self._rows_of(slots)]
        places, into, into_rows = to_device(arrays, self.device)
        self._cache.index_fill_(3, into_rows, 0.0)
        missing = self.shape.sources - state.source_length
        memory, score_bias = encoded
        memory = F.pad(memory.index_select(2, places), (0, 0, 0, missing))
        self._memory.index_copy_(2, into, memory)
        score_bias = F.pad(score_bias.index_select(0, places), (0, missing), value=-math.inf)
        self._score_bias.index_copy_(0, into, score_bias)
        state.slots, state.encoded = slots, None

    def _rows_of(self, slots: Integers) -> Integers:
        return (slots[:, None] * self.width + np.arange(self.width)).reshape(-1)


def _slots_of(states: Sequence[SlotState]) -> Integers:
    return np.concatenate([np.zeros(0, np.int64), *(state.slots for state in states)])


class StepRows:
    """What `DecoderLayer.step` sees of a step: all N rows as those of one state."""

    def __init__(
        self, cache: Tensor, memory: Tensor, score_bias: Tensor, positions: Tensor
    ) -> None:
        _, _, length, self.num_rows, *_ = cache.shape
        self._stores, self._memory, self.score_bias = cache, memory, score_bias
        width = self.num_rows // len(positions)
        self.positions = positions[:, None].expand(-1, width).flatten()  # (N,)
        each = torch.arange(self.num_rows, device=cache.device)
        self._places = self.positions * self.num_rows + each  # (N,)
        seen = torch.arange(length, device=cache.device) <= self.positions[:, None]  # (N, L)
        self._own_bias = padding_bias(seen, cache.dtype)[:, None, None]  # (N, 1, 1, L)

    @property
    def cache(self) -> StepRows:
        """Itself: it is its own cache."""
        return self

    def memory(self, layer: int) -> tuple[Tensor, Tensor]:
        """Return a layer's keys (B, H, S, K) and values (B, H, S, V) of the sources."""
        key, value = self._memory[layer]
        return key, value

    def attend(self, layer: int, projected: Projected, relative: Relative | None = None) -> Tensor:
        """Add a layer's keys and values of one position, and attend to all so far: (N, H * V)."""
        first, *others = projected
        added = torch.cat([first[:, 1:], *others], dim=1) if others else first[:, 1:]
        store = self._stores[layer]  # (parts, L, N, H, width)
        store.flatten(1, 2).flatten(2).index_copy_(
            1, self._places, added.transpose(0, 1).flatten(2)
        )
        key, value = store.permute(0, 2, 3, 1, 4)  # each (N, H, L, width)
        return attend(first[:, 0, :, None], key, value, self._own_bias, relative).flatten(1)
