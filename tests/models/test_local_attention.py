"""Attention to a neighbourhood is full attention under a mask, and goes by n * r."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest
import torch
from pairs import batch_of
from reference import attention as attention_by_loops
from torch import Tensor
from torch.autograd import gradcheck
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from nmt.data.batches import Packed
from nmt.models.kernels.packed_attention import Sentences, attend_packed, attention_weights
from nmt.models.kernels.padded_attention import saves_work, with_neighbours, without_neighbours

H, K = 2, 3


def packed_of(*lengths: int) -> Packed:
    """Sentences of so many tokens."""
    return batch_of([[5] * (length - 1) for length in lengths], [[6]] * len(lengths)).src


PACKED = packed_of(7, 1, 3, 13)  # 24 tokens


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def attend(qkv: Tensor, packed: Packed, window: int, *, causal: bool) -> Tensor:
    sentences = Sentences.of(packed, as_packed=False)
    return attend_packed([qkv], sentences, sentences, causal=causal, window=window)


def seen(length: int, window: int, *, causal: bool) -> Tensor:
    """(length, length), True = may attend."""
    apart = torch.arange(length) - torch.arange(length)[:, None]
    return (apart.abs() <= window) & (apart <= 0 if causal else torch.tensor(True))


def by_loops(qkv: Tensor, packed: Packed, window: int, *, causal: bool) -> Tensor:
    """(n, 3, H, K), sentence by sentence: (n, H, K)."""
    found = []
    for a, b in pairwise(packed.starts.tolist()):
        query, key, value = (x.transpose(0, 1)[None].numpy() for x in qkv[a:b].unbind(1))
        mask = seen(b - a, window, causal=causal).expand(1, H, b - a, b - a).numpy()
        one = attention_by_loops(query, key, value, mask)
        found.append(torch.from_numpy(one[0]).transpose(0, 1))
    return torch.cat(found)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(
    ("window", "in_blocks"),
    [(1, True), (2, True), (5, True), (11, False), (13, False), (40, False)],
)
def test_attention_is_that_of_loops_in_blocks_or_not(
    window: int, in_blocks: bool, causal: bool
) -> None:
    assert saves_work(PACKED, window, causal=causal) is in_blocks
    torch.manual_seed(1)
    qkv = normal(len(PACKED.tokens), 3, H, K)
    found = attend(qkv, PACKED, window, causal=causal)
    expected = by_loops(qkv, PACKED, window, causal=causal)
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("window", [1, 2, 4])
def test_the_gradient_is_that_of_differences(window: int, causal: bool) -> None:
    torch.manual_seed(2)
    packed = packed_of(5, 4, 6)
    assert saves_work(packed, window, causal=causal) is (window < 4)
    qkv = normal(len(packed.tokens), 3, H, K).requires_grad_()
    assert gradcheck(lambda x: attend(x, packed, window, causal=causal), (qkv,))


@pytest.mark.parametrize("causal", [True, False])
def test_a_window_over_everything_is_none(causal: bool) -> None:
    torch.manual_seed(3)
    qkv = normal(len(PACKED.tokens), 3, H, K)
    everywhere = attend(qkv, PACKED, 0, causal=causal)
    torch.testing.assert_close(attend(qkv, PACKED, 12, causal=causal), everywhere)
    assert not torch.allclose(attend(qkv, PACKED, 11, causal=causal), everywhere)


def test_what_is_beyond_the_window_or_beside_the_sentence_moves_nothing() -> None:
    torch.manual_seed(4)
    packed = packed_of(20, 20)
    qkv = normal(40, 3, H, K)
    before = attend(qkv, packed, 4, causal=False)
    changed = qkv.clone()
    changed[17] = 1e30
    moved = (attend(changed, packed, 4, causal=False) != before).any(-1).any(-1)
    assert moved.nonzero()[:, 0].tolist() == [13, 14, 15, 16, 17, 18, 19]


@pytest.mark.parametrize("causal", [True, False])
def test_blocks_have_their_neighbours_and_give_them_back(causal: bool) -> None:
    blocks, parts = 4, 2 if causal else 3
    x = torch.arange(1.0, 1 + blocks)[:, None, None].expand(blocks, 2, 1)  # (C * H, r, K), H = 1
    wide = with_neighbours(x, blocks, parts)
    around = [[0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 0]]
    expected = [[[part] for part in row[:parts] for _ in range(2)] for row in around]
    assert wide.tolist() == expected
    counts = without_neighbours(torch.ones_like(wide), blocks, parts)[:, 0, 0]
    assert counts.tolist() == ([2, 2, 2, 1] if causal else [2, 3, 3, 2])


@pytest.mark.parametrize("causal", [True, False])
def test_weights_are_those_that_values_are_summed_by(causal: bool) -> None:
    torch.manual_seed(5)
    length, window = PACKED.longest, 3
    qkv = normal(len(PACKED.tokens), 3, H, length)
    tells_where = torch.eye(length, dtype=torch.float64)[PACKED.positions]
    qkv[:, 2] = tells_where[:, None]
    sentences = Sentences.of(PACKED, as_packed=False)
    weights = attention_weights(
        [qkv], sentences, sentences, causal=causal, window=window
    )  # (B, H, T, T)
    found = weights.transpose(1, 2)[PACKED.sentences, PACKED.positions]  # (n, H, T)
    expected = by_loops(qkv, PACKED, window, causal=causal)
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)
    assert torch.equal(weights.sum(-1)[:, 0] > 0, sentences.layout.mask)  # type: ignore[union-attr]


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
    packed = packed_of(length)
    with _LargestTensor() as largest:  # type: ignore[no-untyped-call]
        attend(qkv, packed, window, causal=causal).sum().backward()  # type: ignore[no-untyped-call]
    assert largest.numbers == H * length * seen * window
