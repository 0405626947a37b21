"""Attention among packed sentences is equation 1 in each of them, forward and backward.

So it is with windows, in blocks or not, with the relative positions of Shaw et al. (2018), and with
values of another width than keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from pairs import batch_of
from reference import attention, relative_attention, rotated
from torch import Tensor
from torch.autograd import gradcheck
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from nmt.data.batches import Packed
from nmt.model_config import TransformerConfig
from nmt.models.attention import CrossAttention, SelfAttention, attend
from nmt.models.kernels.packed_attention import (
    Sentences,
    attend_packed,
    attention_weights,
    saves_work,
    with_neighbours,
    without_neighbours,
)
from nmt.models.kernels.padded_layout import PaddedLayout
from nmt.models.positions import Relative, rotations, spread_by_distance, sum_by_distance

H, K, V = 3, 4, 5
D = H * K
CONFIG = TransformerConfig(d_model=D, num_heads=H)


def packed_of(*lengths: int) -> Packed:
    """Sentences of these numbers of tokens."""
    return batch_of([[5] * (length - 1) for length in lengths], [[6]] * len(lengths)).src


SOURCES, TARGETS = packed_of(7, 1, 3, 13), packed_of(2, 6, 1, 3)


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def padded(packed: Packed) -> Sentences:
    return Sentences.of(packed, as_packed=False)


@dataclass(frozen=True)
class Case:
    """Self-attention of the sources, or attention from targets to sources."""

    causal: bool = False
    window: int = 0
    farthest: int = 0  # k of relative positions; 0: none
    value_width: int = K
    crosses: bool = False

    def inputs(self, own: Packed, others: Packed) -> list[Tensor]:
        """Return random queries, keys and values (n, H, width), and relative vectors, if any."""
        queries, keys = len(own.tokens), len(others.tokens)
        parts = [normal(queries, H, K), normal(keys, H, K), normal(keys, H, self.value_width)]
        if self.farthest:
            parts += [normal(2 * self.farthest + 1, width) for width in (K, self.value_width)]
        return parts

    def options(self, vectors: list[Tensor]) -> dict[str, Any]:
        relative: Relative | None = (vectors[0], vectors[1]) if vectors else None
        return {"causal": self.causal, "window": self.window, "relative": relative}

    def projected(self, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
        """Join the parts as products of a model have them."""
        is_joined = key.shape == value.shape
        if self.crosses:
            joined = [torch.stack((key, value), 1)] if is_joined else [key[:, None], value[:, None]]
            return [query[:, None], *joined]
        if is_joined:
            return [torch.stack((query, key, value), 1)]
        return [torch.stack((query, key), 1), value[:, None]]

    def attend(self, own: Packed, others: Packed, *inputs: Tensor) -> Tensor:
        query, key, value, *vectors = inputs
        projected = self.projected(query, key, value)
        return attend_packed(projected, padded(own), padded(others), **self.options(vectors))

    def by_loops(self, own: Packed, others: Packed, *inputs: Tensor) -> Tensor:
        """Attend sentence by sentence: (n, H, V)."""
        query, key, value, *vectors = inputs
        found = []
        for (a, b), (c, d) in zip(
            pairwise(own.starts.tolist()), pairwise(others.starts.tolist()), strict=True
        ):
            parts = (query[a:b], key[c:d], value[c:d])  # each (length, H, width)
            q, k, v = (x.transpose(0, 1)[None].numpy() for x in parts)
            apart = np.arange(d - c) - np.arange(b - a)[:, None]
            seen = (apart <= 0) if self.causal else np.ones(apart.shape, dtype=bool)
            if self.window:
                seen &= abs(apart) <= self.window
            mask = np.broadcast_to(seen, (1, H, *seen.shape))
            if vectors:
                for_keys, for_values = (x.numpy() for x in vectors)
                one = relative_attention(q, k, v, mask, for_keys, for_values)
            else:
                one = attention(q, k, v, mask)
            found.append(torch.from_numpy(one[0]).transpose(0, 1))
        return torch.cat(found)


WIDTHS = [
    *(Case(value_width=V), Case(causal=True, value_width=V)),
    *(Case(crosses=True), Case(crosses=True, value_width=V)),
]
CASES = [
    *(Case(causal, window) for causal in (True, False) for window in (0, 1, 2, 5, 11, 13, 40)),
    *(
        Case(causal, window, farthest, V)
        for causal in (True, False)
        for window in (0, 1, 2)
        for farthest in (1, 3, 8)
    ),
    *WIDTHS,
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_attention_is_that_of_loops(case: Case) -> None:
    torch.manual_seed(1)
    own = TARGETS if case.crosses else SOURCES
    inputs = case.inputs(own, SOURCES)
    found = case.attend(own, SOURCES, *inputs)
    expected = case.by_loops(own, SOURCES, *inputs)
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("as_packed", [True, False])
@pytest.mark.parametrize(
    "case",
    [
        *(Case(causal, window) for causal in (True, False) for window in (0, 3)),
        *(Case(causal, farthest=2) for causal in (True, False)),
        Case(crosses=True),
    ],
    ids=str,
)
def test_weights_are_those_that_values_are_summed_by(case: Case, as_packed: bool) -> None:
    torch.manual_seed(2)
    own = TARGETS if case.crosses else SOURCES
    query, key, _, *vectors = case.inputs(own, SOURCES)
    # The value of a token is its place. So attention returns how much it attends to each place.
    places = torch.eye(SOURCES.longest, dtype=torch.float64)[SOURCES.positions]
    values = places[:, None].expand(-1, H, -1)
    if vectors:
        vectors[1] = vectors[1].new_zeros(len(vectors[1]), SOURCES.longest)
    expected = case.by_loops(own, SOURCES, query, key, values, *vectors)
    sides = (Sentences.of(packed, as_packed=as_packed) for packed in (own, SOURCES))
    projected = case.projected(query, key, values)
    weights = attention_weights(projected, *sides, **case.options(vectors))  # (B, H, T, S)
    found = weights.transpose(1, 2)[own.sentences, own.positions]  # (n, H, S)
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)
    assert torch.equal(weights.sum(-1)[:, 0] > 0, PaddedLayout.of(own).mask)


@pytest.mark.parametrize(
    "case",
    [
        *(Case(causal, window) for causal in (True, False) for window in (0, 1, 2, 4)),
        *(
            Case(causal, window, farthest=2, value_width=V)
            for causal in (True, False)
            for window in (0, 2)
        ),
        *WIDTHS,
    ],
    ids=str,
)
def test_the_gradient_is_that_of_differences(case: Case) -> None:
    torch.manual_seed(3)
    others = packed_of(5, 1, 4)
    own = packed_of(1, 4, 2) if case.crosses else others
    inputs = [x.requires_grad_() for x in case.inputs(own, others)]
    assert gradcheck(lambda *inputs: case.attend(own, others, *inputs), inputs)


def test_nothing_outside_a_sentence_changes_it() -> None:
    torch.manual_seed(4)
    case, changed = Case(), packed_of(5, 2, 4)
    inputs = case.inputs(changed, changed)
    before = case.attend(changed, changed, *inputs)
    for x in inputs:
        x[:5] = 1e30  # the first sentence, which is the longest
    assert torch.equal(case.attend(changed, changed, *inputs)[5:], before[5:])


# ------------------------------------------------------------------------------- layouts


def test_a_padded_layout_has_a_row_for_each_sentence() -> None:
    layout = PaddedLayout.of(packed_of(3, 1))
    assert layout.mask.tolist() == [[True, True, True], [True, False, False]]
    laid_out = layout.rows(torch.arange(4.0)[:, None])
    assert laid_out[..., 0].tolist() == [[0, 1, 2], [3, 3, 3]]  # padding repeats the last token


def test_heads_are_neighbouring_columns_and_come_back() -> None:
    torch.manual_seed(5)
    layout, x = PaddedLayout.of(SOURCES), normal(24, 2, H, K)
    heads = [layout.heads(x, part) for part in range(2)]
    assert heads[0].shape == (4 * H, 13, K)
    assert torch.equal(heads[1][2 * H + 1, 1], x[9, 1, 1])  # of sentence 2, head 1, its token 1
    assert torch.equal(layout.packed(torch.stack(heads)), x)


# ------------------------------------------------------------------------------- windows


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("window", "in_blocks"), [(1, True), (5, True), (11, False), (40, False)])
def test_blocks_are_for_windows_that_save_work(window: int, in_blocks: bool, causal: bool) -> None:
    assert saves_work(SOURCES, window, causal=causal) is in_blocks


def test_nothing_beyond_the_window_or_in_another_sentence_changes_a_token() -> None:
    torch.manual_seed(6)
    case, packed = Case(window=4), packed_of(20, 20)
    inputs = case.inputs(packed, packed)
    before = case.attend(packed, packed, *inputs)
    for x in inputs:
        x[17] = 1e30
    moved = (case.attend(packed, packed, *inputs) != before).any(-1).any(-1)
    assert moved.nonzero()[:, 0].tolist() == [13, 14, 15, 16, 17, 18, 19]


@pytest.mark.parametrize("causal", [True, False])
def test_blocks_get_their_neighbours_and_return_them(causal: bool) -> None:
    blocks, parts = 4, 2 if causal else 3
    x = torch.arange(1.0, 1 + blocks)[:, None, None].expand(blocks, 2, 1)  # (C * H, r, K), H = 1
    wide = with_neighbours(x, blocks, parts)
    around = [[0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 0]]
    expected = [[[part] for part in row[:parts] for _ in range(2)] for row in around]
    assert wide.tolist() == expected
    counts = without_neighbours(torch.ones_like(wide), blocks, parts)[:, 0, 0]
    assert counts.tolist() == ([2, 2, 2, 1] if causal else [2, 3, 3, 2])


class _LargestTensor(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes the numbers of the largest tensor that any operation returns."""

    numbers = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        sizes = [x.numel() for x in tree_leaves(made) if isinstance(x, Tensor)]
        self.numbers = max(self.numbers, *sizes, 0)
        return made


@pytest.mark.parametrize(("causal", "seen"), [(True, 2), (False, 3)])
def test_no_tensor_is_larger_than_the_pairs_within_blocks(causal: bool, seen: int) -> None:
    length, window = 1024, 16
    qkv = torch.randn(length, 3, H, K, requires_grad=True)
    sentences = padded(packed_of(length))
    with _LargestTensor() as largest:  # type: ignore[no-untyped-call]
        attended = attend_packed([qkv], sentences, sentences, causal=causal, window=window)
        attended.sum().backward()  # type: ignore[no-untyped-call]
    assert largest.numbers == H * length * seen * window


# -------------------------------------------------------------------- relative positions


def test_distances_are_clipped_at_the_farthest() -> None:
    by_distance = torch.tensor([[-2, -1, 0, 1, 2]]).expand(4, 5)  # k = 2
    assert spread_by_distance(by_distance, 4).tolist() == [
        [0, 1, 2, 2],
        [-1, 0, 1, 2],
        [-2, -1, 0, 1],
        [-2, -2, -1, 0],
    ]
    assert spread_by_distance(by_distance[:2], 4, first=2).tolist() == [
        [-2, -1, 0, 1],
        [-2, -2, -1, 0],
    ]


@pytest.mark.parametrize("first", [0, 2, 6])
@pytest.mark.parametrize("farthest", [1, 2, 9])
@pytest.mark.parametrize("queries", [1, 5])
def test_sums_by_distance_are_those_of_loops(queries: int, farthest: int, first: int) -> None:
    torch.manual_seed(7)
    x = normal(2, queries, 7)
    expected = torch.zeros(2, queries, 2 * farthest + 1, dtype=torch.float64)
    for row, t, s in np.ndindex(*x.shape):
        apart = max(-farthest, min(farthest, s - t - first))
        expected[row, t, apart + farthest] += x[row, t, s]
    torch.testing.assert_close(sum_by_distance(x, farthest, first), expected, atol=1e-12, rtol=0)


def test_a_step_attends_as_the_last_query_of_all() -> None:
    torch.manual_seed(8)
    length, farthest = 7, 2
    query, key, value = (normal(1, H, length, width) for width in (K, K, V))
    relative = normal(2 * farthest + 1, K), normal(2 * farthest + 1, V)
    mask = np.ones((1, H, length, length), dtype=bool)
    for_keys, for_values = (x.numpy() for x in relative)
    expected = relative_attention(
        query.numpy(), key.numpy(), value.numpy(), mask, for_keys, for_values
    )[:, :, -1:]
    found = attend(query[:, :, -1:], key, value, None, relative)
    torch.testing.assert_close(found, torch.from_numpy(expected), atol=1e-12, rtol=0)


# ----------------------------------------------------------------------------- sub-layers


def in_heads(x: Tensor, weight: Tensor, widths: list[int]) -> list[Tensor]:
    """Project x (n, D) by stacked matrices to heads of these widths, each (n, H, width)."""
    matrices = torch.split(weight.detach(), [H * width for width in widths])
    return [(x @ w.T).view(len(x), H, -1) for w in matrices]


def rotated_by_loops(x: Tensor, packed: Packed) -> Tensor:
    """Rotate x (n, H, K) vector by vector."""
    found = x.clone()
    for token, head in np.ndindex(*x.shape[:2]):
        place = int(packed.positions[token])
        found[token, head] = torch.from_numpy(rotated(x[token, head].numpy(), place))
    return found


@pytest.mark.parametrize("rotary", [False, True])
@pytest.mark.parametrize(("d_k", "d_v"), [(K, K), (2, 5), (6, 2)])
@pytest.mark.parametrize("causal", [True, False])
def test_self_attention_is_projections_around_loops(
    d_k: int, d_v: int, causal: bool, rotary: bool
) -> None:
    torch.manual_seed(9)
    module = SelfAttention(replace(CONFIG, d_k=d_k, d_v=d_v)).double()
    rotation = rotations(SOURCES.longest, d_k)[SOURCES.positions] if rotary else None
    sentences = Sentences.of(SOURCES, as_packed=False, rotation=rotation)
    x = normal(len(SOURCES.tokens), D)
    query, key, value = in_heads(x, module.qkv, [d_k, d_k, d_v])
    if rotary:
        query, key = rotated_by_loops(query, SOURCES), rotated_by_loops(key, SOURCES)
    attended = Case(causal).by_loops(SOURCES, SOURCES, query, key, value)
    expected = attended.flatten(1) @ module.output.detach().T
    found = module(x, sentences, causal=causal)
    # Cosines and sines are rounded to fp32.
    torch.testing.assert_close(found, expected, atol=1e-6 if rotary else 1e-12, rtol=0)


@pytest.mark.parametrize(("d_k", "d_v"), [(K, K), (2, 5)])
def test_cross_attention_is_projections_around_loops(d_k: int, d_v: int) -> None:
    torch.manual_seed(10)
    module = CrossAttention(replace(CONFIG, d_k=d_k, d_v=d_v)).double()
    x, memory = normal(len(TARGETS.tokens), D), normal(len(SOURCES.tokens), D)
    (query,) = in_heads(x, module.query, [d_k])
    key, value = in_heads(memory, module.key_value, [d_k, d_v])
    attended = Case().by_loops(TARGETS, SOURCES, query, key, value)
    found = module(x, padded(TARGETS), memory, padded(SOURCES))
    expected = attended.flatten(1) @ module.output.detach().T
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)
