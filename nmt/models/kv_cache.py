"""The KV cache of decoder self-attention, and in-place reordering of rows.

Moves are lazy. After a step, search calls `select` of a state (`Beams._reorder`). That computes on
the host which vectors have to move, and leaves the device alone. The next step sends these moves to
the device, in one transfer with its tokens, and only then moves the vectors. After the last step
nothing moves at all.
"""

from __future__ import annotations

import math
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.models.attention import attend
from nmt.models.kernels.linear import batched_type
from nmt.models.kernels.padded_layout import Projected
from nmt.models.kernels.relative_positions import Relative

_AHEAD = 32
"""The least positions that a store is made longer by. Most translations need no more."""


class KeyValueCache:
    """Keys and values of all layers, for the positions of N hypotheses so far.

    Memory is allocated ahead: a new position is written into it, and hypotheses that stay in their
    rows are not copied. Hypotheses of a sentence often share their first tokens. If one moves to
    another row, only the positions that differ there are copied.

    For example, a sentence with three hypotheses in rows 0 to 2. A letter is the vector of a
    position, and the digits are the writer of each position:

        after two steps     parents in rows 0 2 2     the third step       parents in rows 2 1 2
        0: a b    0 0       0: a b    0 0             0: a b e    0 0 0    0: a d g    0 2 2
        1: a c    0 1       1: a d    0 2             1: a d f    0 2 1    1: a d f    0 2 1
        2: a d    0 2       2: a d    0 2             2: a d g    0 2 2    2: a d g    0 2 2

    All rows begin with a copy of `a`, which row 0 wrote when it was the only one. So `a` never
    moves again. In the second column, row 1 gets a child of row 2. Their writers differ at position
    1 only, so one vector is copied, `d`. In the last column, row 0 gets a child of row 2, and `d`
    and `g` are copied. Comparing numbers on the host replaces comparing vectors on the device.

    Three sentences with a hypothesis each have no vectors in common. If the second is done, the
    third moves into its row (`closed_up`), and the cache is trimmed to two rows:

        0: a d    0 0       0: a d    0 0
        1: b e    1 1       1: c f    2 2       both positions are copied
        2: c f    2 2       (c f)               no longer used

    The store keeps its three rows, since making it smaller copies everything. That is done when at
    most half of the rows are used: here, when one is left.
    """

    def __init__(self, num_layers: int) -> None:
        self.length = 0
        self.num_layers = num_layers
        # Each (layers, parts, capacity, rows, H, width), contiguous. Keys and values have a common
        # store if they come in one tensor. Positions come before rows, so that the filled part has
        # no gaps: with rows first, attention took twice the time (Zen 3, 4 to 30 positions).
        self._stores: list[Tensor] = []
        # Row that wrote each position. Rows with the same writer hold identical vectors.
        self._writers: NDArray[np.int64] = np.zeros((0, 0), np.int64)  # (N, length)

    def attend(self, layer: int, projected: Projected, relative: Relative | None = None) -> Tensor:
        """Add a layer's keys and values of one position, and attend to all so far.

        projected: queries (N, H, K), keys and values (N, H, V) of the position.
        relative: vectors that the layer adds to keys and values at each distance.
        Returns (N, H * V).
        """
        first, *others = projected
        added = [first[:, 1:], *others]  # each (N, parts, H, width)
        stores = self._stores if layer else self._with_space(added)  # of all layers at once
        held: list[Tensor] = []
        for store, new in zip(stores, added, strict=True):
            cached = store[layer, :, :, : len(new)]  # (parts, capacity, N, H, width)
            cached[:, self.length] = new.transpose(0, 1)  # (parts, N, H, width)
            seen = cached[:, : self.length + 1]  # (parts, S, N, H, width)
            held += seen.permute(0, 2, 3, 1, 4)  # each (N, H, S, width)
        key, value = held
        # Without a mask: all rows have as many positions.
        return attend(first[:, 0, :, None], key, value, None, relative).flatten(1)

    def advance(self) -> None:
        """Finish a position, after all layers have added theirs."""
        self._writers = np.column_stack((self._writers, np.arange(len(self._writers))))
        self.length += 1

    def select(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Keep these rows (N',), in this order.

        Returns (2, moves), which `move` takes before the next step: from where to where, among the
        positions and rows of the store: row r of position t is at t * rows + r.

        In the second column above, rows are 0 2 2, and `d` is at position 1. So it moves from
        1 * 3 + 2 = 5 to 1 * 3 + 1 = 4: the result is [[5], [4]].
        """
        if not self._stores:  # before the first step
            return np.zeros((2, 0), np.int64)
        # A row has to be copied where the vectors that belong there were written by another row.
        writers = self._writers[rows]  # (N', length)
        before = self._writers[: len(rows)]
        if len(before) < len(rows):
            # New rows hold nothing yet, which no writer matches.
            before = np.pad(before, ((0, len(rows) - len(before)), (0, 0)), constant_values=-1)
        places, positions = np.nonzero(writers != before)
        self._writers = writers
        # In the order of the store, where positions come before rows.
        num_rows = max(len(rows), self._stores[0].shape[3])  # of the store, widened if necessary
        moves: NDArray[np.int64] = np.stack((rows[places], places))
        moves += positions * num_rows
        return moves

    def move(self, moves: Tensor) -> None:
        """Copy vectors by (2, moves) sources and targets; all are read before any is written."""
        count = len(self._writers)
        if self._stores and count > self._stores[0].shape[3]:
            self._resize(self._stores[0].shape[2], count)
        if moves.shape[1]:
            self._copy(moves)
        # Only now, since moves count through all rows of the store. Frees the others' memory.
        if self._stores and 2 * count <= self._stores[0].shape[3]:
            self._resize(self._stores[0].shape[2], count)

    def _copy(self, moves: Tensor) -> None:
        sources, targets = moves  # each (moves,)
        for store in self._stores:
            layers, parts, capacity, rows, heads, width = store.shape
            vectors = store.view(layers * parts, capacity * rows, heads * width)
            # index_select copies first, so a row may be source and target at once.
            vectors.index_copy_(1, targets, vectors.index_select(1, sources))

    def _with_space(self, added: list[Tensor]) -> list[Tensor]:
        """Return the stores with space for a new position, each (N, parts, H, width)."""
        if not self._stores:
            self._writers = np.zeros((len(added[0]), 0), np.int64)
            for new in added:
                count, parts, heads, width = new.shape
                shape = self.num_layers, parts, 0, count, heads, width
                self._stores.append(new.new_empty(shape, dtype=batched_type(new)))
        if self.length == self._stores[0].shape[2]:
            self._resize(self.length + max(_AHEAD, self.length // 2), len(added[0]))
        return self._stores

    def _resize(self, positions: int, count: int) -> None:
        """Make space for so many positions and rows, at least as many as are used."""
        for number, store in enumerate(self._stores):
            layers, parts, _, rows, *vector = store.shape
            resized = _unwritten(store, (layers, parts, positions, count, *vector))
            kept = min(rows, count)
            resized[:, :, : self.length, :kept] = store[:, :, : self.length, :kept]
            self._stores[number] = resized


def _unwritten(like: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return a tensor of a type and device. On a CPU it only takes memory where it is written.

    A mapping of its own also goes back to the system when it is freed. In the allocator's memory,
    stores of all sizes would come and go, and leave gaps.
    """
    if like.device.type != "cpu" or 0 in shape:  # a mapping has at least a byte
        return like.new_empty(shape)
    mapping = mmap(-1, math.prod(shape) * like.itemsize, MAP_PRIVATE | MAP_ANONYMOUS)
    return torch.frombuffer(mapping, dtype=like.dtype).view(shape)


class CacheRows:
    """The row of each hypothesis in a cache, chosen so that few rows are copied.

    The first child of a hypothesis takes its parent's row. The others take rows of hypotheses
    without children: the children of those in rows 2 0 2 take rows 2 0 1. The hypotheses of a
    sentence stay together. If their number changes, they take rows in order.
    """

    def __init__(self, num_sentences: int) -> None:
        self.rows: NDArray[np.int64] = np.arange(num_sentences)  # (N,) of each hypothesis
        self._width = 1  # W, hypotheses of each sentence

    def select(self, parents: NDArray[np.int64], num_sentences: int) -> NDArray[np.int64]:
        """Give rows to the children of these hypotheses (N',), and return each row's old row."""
        width = len(parents) // num_sentences
        old_rows = self.rows[parents]  # (N',) in the order of the children
        places = np.arange(width)
        if width == self._width:
            # A sentence's rows are W in a row, so the remainder is the place among them.
            places = _rows_of_children(old_rows.reshape(-1, width) % width)  # (B', W)
        self.rows = (np.arange(num_sentences)[:, None] * width + places).reshape(-1)  # (N',)
        self._width = width
        by_row = np.empty_like(old_rows)
        by_row[self.rows] = old_rows
        return by_row


def _rows_of_children(parents: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the place (B, W) of each child among its sentence's rows, given its parent's."""
    same = parents[:, :, None] == parents[:, None, :]  # (B, W, W)
    is_first = ~np.tril(same, -1).any(axis=2)  # (B, W)
    # First children keep their parent's row, so all rows with a child are used.
    used = np.zeros(parents.shape, np.bool_)
    np.put_along_axis(used, parents, True, 1)
    free = np.argsort(used, axis=1, kind="stable")  # (B, W) places, free ones first
    rank = np.maximum(0, np.cumsum(~is_first, axis=1) - 1)  # (B, W) which free place
    return np.where(is_first, parents, np.take_along_axis(free, rank, 1))


class KeptRows:
    """The hypotheses and sentences with which a state goes on.

    The next step moves them on the device, so that all that the device has to know of a step is in
    one transfer.

    For example, the device has the rows X Y Z. `select` of 0 2, and then of 1, leaves the row 2. So
    `moves` has [[2], [0]]: only Z moves, to the first place. Y has never moved.
    """

    def __init__(self, num_sentences: int) -> None:
        self.rows: NDArray[np.int64] = np.arange(num_sentences)  # (N,) of those on the device
        self.sentences: NDArray[np.int64] = np.arange(num_sentences)  # (B,) likewise

    @property
    def num_rows(self) -> int:
        """N."""
        return len(self.rows)

    @property
    def num_sentences(self) -> int:
        """B."""
        return len(self.sentences)

    def select(self, rows: Tensor, sentences: Tensor) -> None:
        self.rows = self.rows[rows.numpy()]
        self.sentences = self.sentences[sentences.numpy()]

    def moves(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the moves of rows, then those of sentences, for `move_`."""
        return moved(self.rows), moved(self.sentences)

    def are_moved(self) -> None:
        """Note that the device has these rows and sentences now, in this order."""
        self.rows, self.sentences = np.arange(len(self.rows)), np.arange(len(self.sentences))


def moved(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the rows that do not stay in their place: (2, moves) sources and targets."""
    places = np.flatnonzero(rows != np.arange(len(rows)))
    return np.stack((rows[places], places))


def move_(x: Tensor, dim: int, moves: Tensor, count: int) -> Tensor:
    """Return the first `count` rows of a dimension, after moves (2, moves) within x.

    Rows that stay in their place are not copied. If few rows are left, the others' memory is freed.
    If there are to be more rows than before, the moves fill them.
    """
    sources, targets = moves
    if count > x.shape[dim]:
        shape = [*x.shape]
        shape[dim] = count
        widened = x.new_empty(shape)
        widened.narrow(dim, 0, x.shape[dim]).copy_(x)
        return widened.index_copy_(dim, targets, x.index_select(dim, sources))
    if len(sources):
        x.index_copy_(dim, targets, x.index_select(dim, sources))
    left = x.narrow(dim, 0, count)
    held = x.untyped_storage().nbytes() // x.element_size()
    return left.clone() if 2 * left.numel() < held else left
