"""What the decoder's self-attention remembers of hypotheses, and how their rows are moved."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.models.attention import attend


class KeyValueCache:
    """Keys and values, of all layers, of the positions that N hypotheses have gone through.

    Room is made ahead, in both directions: a position is written into its place, and hypotheses
    that go on where they were are not moved. Those of a sentence mostly share their first tokens:
    where one takes another's place, only what that place does not hold already is copied.
    """

    def __init__(self, num_layers: int) -> None:
        self.length = 0
        self.num_layers = num_layers
        self._store: Tensor | None = None  # (layers, 2, rows, H, capacity, K), contiguous
        # By whose step each place was filled: of a position's equal ones are their vectors equal.
        self._writers: NDArray[np.int64] = np.zeros((0, 0), np.int64)  # (N, length)

    def attend(self, layer: int, qkv: Tensor) -> Tensor:
        """Add a layer's keys and values of one position, and attend to all so far.

        Args:
            layer: counted from 0.
            qkv: (N, 3, H, K), the position's queries, keys and values.

        Returns:
            (N, H * K).
        """
        store = self._store if layer else self._with_room(qkv)
        assert store is not None  # the first layer has made it
        count, _, heads, width = qkv.shape
        own = store[layer, :, :count]  # (2, N, H, capacity, K)
        own[:, :, :, self.length] = qkv[:, 1:].transpose(0, 1)
        key, value = own[:, :, :, : self.length + 1]  # each (N, H, length + 1, K)
        return attend(qkv[:, 0, :, None], key, value, None).view(count, heads * width)

    def advance(self) -> None:
        """Count the position that all layers have added."""
        self._writers = np.column_stack((self._writers, np.arange(len(self._writers))))
        self.length += 1

    def select(self, rows: Tensor) -> None:
        """Keep these rows (N',) int64 on the CPU, in this order."""
        store, count = self._store, len(rows)
        if store is None:  # no step has been made
            return
        chosen = rows.numpy()
        writers = self._writers[chosen]  # (N', length)
        if count > len(self._writers):
            filled = store[..., : self.length, :].index_select(2, rows.to(store.device))
            self._store = self._grown(filled)
        else:
            places, positions = np.nonzero(writers != self._writers[:count])
            if len(places):
                self._copy(np.stack((chosen[places], places, positions)))
            if 2 * count <= store.shape[2]:  # the others' memory is let go
                self._store = store[:, :, :count].clone()
        self._writers = writers

    def _copy(self, moves: NDArray[np.int64]) -> None:
        """Copy vectors from rows to others, all as if at once.

        Args:
            moves: (3, moves) rows that they are copied from, rows that they are copied to, and
                positions.
        """
        assert self._store is not None
        *_, rows, heads, capacity, width = self._store.shape
        device = self._store.device
        vectors = self._store.view(-1, width)  # (layers * 2 * rows * H * capacity, K)
        blocks = torch.arange(self.num_layers * 2, device=device)[:, None, None] * rows
        head = torch.arange(heads, device=device)[:, None]
        sources, places, positions = torch.from_numpy(moves).to(device)  # each (moves,)
        read, written = (
            (((blocks + row) * heads + head) * capacity + positions).flatten()
            for row in (sources, places)
        )  # each (layers * 2 * H * moves,)
        vectors.index_copy_(0, written, vectors.index_select(0, read))

    def _with_room(self, qkv: Tensor) -> Tensor:
        if self._store is None:
            count, _, heads, width = qkv.shape
            self._writers = np.zeros((count, 0), np.int64)
            self._store = qkv.new_empty(self.num_layers, 2, count, heads, 0, width)
        if self.length == self._store.shape[4]:
            self._store = self._grown(self._store)
        return self._store

    @staticmethod
    def _grown(store: Tensor) -> Tensor:
        """Return the store with room for half as many positions more, and at least 16."""
        *outer, length, width = store.shape
        grown = store.new_empty(*outer, length + max(16, length // 2), width)
        grown[..., :length, :] = store
        return grown


def reorder_(x: Tensor, dim: int, rows: Tensor) -> None:
    """Put row rows[i] of a dimension in the place of i, in place.

    What stays where it is, is not touched.

    Args:
        x: any tensor.
        dim: the dimension.
        rows: int64 on the CPU, no more than the dimension has.
    """
    moved = (rows != torch.arange(len(rows))).nonzero()[:, 0]
    if len(moved):
        source = x.index_select(dim, rows[moved].to(x.device))
        x.index_copy_(dim, moved.to(x.device), source)


def first_of(x: Tensor, dim: int, count: int) -> Tensor:
    """Return the first rows of a dimension; where they are few, let the others' memory go."""
    first = x.narrow(dim, 0, count)
    held = x.untyped_storage().nbytes() // x.element_size()
    return first.clone() if 2 * first.numel() < held else first
