"""The KV cache of decoder self-attention, and in-place reordering of rows."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.models.attention import attend
from nmt.models.kernels.padded_layout import Projected
from nmt.models.positions import Relative


class KeyValueCache:
    """Keys and values of all layers, for the positions of N hypotheses so far.

    Memory is allocated ahead: a new position is written into it, and hypotheses that stay in their
    rows are not copied. Hypotheses of a sentence often share their first tokens. If one moves to
    another row, only the positions that differ there are copied. Positions outside the attention
    window are neither read nor copied.
    """

    def __init__(self, num_layers: int, window: int = 0) -> None:
        self.length = 0
        self.num_layers = num_layers
        self.window = window  # positions before its own that a query sees; 0: all
        # Each (layers, parts, capacity, rows, H, width), contiguous. Keys and values have a common
        # store if they come in one tensor. Positions come before rows, so that
        # the filled part has no gaps: with rows first, attention took twice the time (Zen 3, 4 to
        # 30 positions).
        self._stores: list[Tensor] = []
        # Row that wrote each position. Rows with the same writer hold identical vectors.
        self._writers: NDArray[np.int64] = np.zeros((0, 0), np.int64)  # (N, length)

    def attend(self, layer: int, projected: Projected, relative: Relative | None = None) -> Tensor:
        """Add a layer's keys and values of one position, and attend to all or the window.

        Args:
            layer: counted from 0.
            projected: queries (N, H, K), keys and values (N, H, V) of the position.
            relative: vectors that the layer adds to keys and values at each distance.

        Returns:
            (N, H * V).
        """
        first, *others = projected
        added = [first[:, 1:], *others]  # each (N, parts, H, width)
        stores = self._stores if layer else self._with_space(added)
        held: list[Tensor] = []
        for store, new in zip(stores, added, strict=True):
            own = store[layer, :, :, : len(new)]  # (parts, capacity, N, H, width)
            own[:, self.length] = new.transpose(0, 1)
            seen = own[:, self._first : self.length + 1]  # (parts, S, N, H, width)
            held += seen.permute(0, 2, 3, 1, 4)  # each (N, H, S, width)
        key, value = held
        return attend(first[:, 0, :, None], key, value, None, relative).flatten(1)

    @property
    def _first(self) -> int:
        """The first position that the next query sees."""
        return max(0, self.length - self.window) if self.window else 0

    def advance(self) -> None:
        """Finish a position, after all layers have added theirs."""
        self._writers = np.column_stack((self._writers, np.arange(len(self._writers))))
        self.length += 1

    def select(self, rows: Tensor) -> None:
        """Keep these rows (N',) int64 on the CPU, in this order."""
        count = len(rows)
        if not self._stores:  # before the first step
            return
        sources = rows.numpy()
        writers = self._writers[sources]  # (N', length)
        if count > len(self._writers):
            self._stores = [
                self._grown(store[:, :, : self.length].index_select(3, rows.to(store.device)))
                for store in self._stores
            ]
        else:
            differs = writers[:, self._first :] != self._writers[:count, self._first :]
            places, positions = np.nonzero(differs)
            if len(places):
                self._copy(np.stack((sources[places], places, positions + self._first)))
            if 2 * count <= self._stores[0].shape[3]:  # frees the others' memory
                self._stores = [store[:, :, :, :count].contiguous() for store in self._stores]
        self._writers = writers

    def _copy(self, moves: NDArray[np.int64]) -> None:
        """Copy vectors between rows; all are read before any is written.

        Args:
            moves: (3, moves) source rows, target rows and positions.
        """
        for store in self._stores:
            layers, parts, capacity, rows, heads, width = store.shape
            vectors = store.view(-1, heads * width)  # (layers * parts * capacity * rows, H * width)
            blocks = torch.arange(layers * parts, device=store.device)[:, None] * capacity
            sources, places, positions = torch.from_numpy(moves).to(store.device)  # each (moves,)
            first = (blocks + positions) * rows  # (layers * parts, moves)
            read, written = ((first + row).flatten() for row in (sources, places))
            vectors.index_copy_(0, written, vectors.index_select(0, read))

    def _with_space(self, added: list[Tensor]) -> list[Tensor]:
        """Return the stores with space for a new position, each (N, parts, H, width)."""
        if not self._stores:
            self._writers = np.zeros((len(added[0]), 0), np.int64)
            for new in added:
                count, parts, heads, width = new.shape
                self._stores.append(new.new_empty(self.num_layers, parts, 0, count, heads, width))
        if self.length == self._stores[0].shape[2]:
            count = len(added[0])  # maybe fewer than before
            self._stores = [self._grown(store[:, :, :, :count]) for store in self._stores]
        return self._stores

    @staticmethod
    def _grown(store: Tensor) -> Tensor:
        """Return the store with space for half as many positions more, at least 16."""
        layers, parts, length, *vectors = store.shape
        grown = store.new_empty(layers, parts, length + max(16, length // 2), *vectors)
        grown[:, :, :length] = store
        return grown


class Places:
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
            places = _places(old_rows.reshape(-1, width) % width)  # (B', W)
        self.rows = (np.arange(num_sentences)[:, None] * width + places).reshape(-1)  # (N',)
        self._width = width
        by_row = np.empty_like(old_rows)
        by_row[self.rows] = old_rows
        return by_row


def _places(parents: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the place (B, W) of each child among its sentence's rows, given its parent's."""
    same = parents[:, :, None] == parents[:, None, :]  # (B, W, W)
    is_first = ~np.tril(same, -1).any(axis=2)  # (B, W)
    used = np.zeros(parents.shape, np.bool_)
    np.put_along_axis(used, parents, True, 1)
    free = np.argsort(used, axis=1, kind="stable")  # (B, W) places, free ones first
    rank = np.maximum(0, np.cumsum(~is_first, axis=1) - 1)  # (B, W) which free place
    return np.where(is_first, parents, np.take_along_axis(free, rank, 1))


def select_(x: Tensor, dim: int, rows: Tensor) -> Tensor:
    """Return a dimension's rows in another order: row i is rows[i]. x is overwritten.

    Rows that stay in their place are not copied. If few rows are left, the others' memory is freed.

    Args:
        x: any tensor.
        dim: the dimension.
        rows: int64 on the CPU, indices into the dimension.
    """
    count = len(rows)
    if count > x.shape[dim]:
        return x.index_select(dim, rows.to(x.device))
    moved = (rows != torch.arange(count)).nonzero()[:, 0]
    if len(moved):
        source = x.index_select(dim, rows[moved].to(x.device))
        x.index_copy_(dim, moved.to(x.device), source)
    kept = x.narrow(dim, 0, count)
    held = x.untyped_storage().nbytes() // x.element_size()
    return kept.clone() if 2 * kept.numel() < held else kept
