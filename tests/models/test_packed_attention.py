"""Attention among packed sentences is equation 1 in each of them, forward and backward.

So it is with the relative positions of Shaw et al. (2018), and with values of another width than
keys.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
import torch
from pairs import batch_of
from reference import attention
from torch import Tensor
from torch.autograd import gradcheck

from nmt.data import batches
from nmt.data.batches import Packed
from nmt.models.kernels.packed_attention import Sentences, attend_packed, attention_weights

H, K, V = 3, 4, 5


def packed_of(*lengths: int) -> Packed:
    """Sentences of these numbers of tokens."""
    return batch_of([[5] * (length - 1) for length in lengths], [[6]] * len(lengths)).src


@pytest.fixture
def _two_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pad the first two sentences to one length, and the others to another."""
    monkeypatch.setattr(batches, "group_bounds", lambda *_, **__: [2])


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


@dataclass(frozen=True)
class Case:
    """Self-attention of the sources, or attention from targets to sources."""

    causal: bool = False
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

    def projected(self, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
        """Join the parts as products of a model have them."""
        is_joined = key.shape == value.shape
        if self.crosses:
            joined = [torch.stack((key, value), 1)] if is_joined else [key[:, None], value[:, None]]
            return [query[:, None], *joined]
        if is_joined:
            return [torch.stack((query, key, value), 1)]
        return [torch.stack((query, key), 1), value[:, None]]

    def attend(
        self,
        own: Packed,
        others: Packed,
        *inputs: Tensor,
        function: Callable[..., Tensor] = attend_packed,
        as_packed: bool = False,
    ) -> Tensor:
        return function(
            self.projected(*inputs[:3]),
            Sentences.of(own, H, as_packed=as_packed),
            Sentences.of(others, H, as_packed=as_packed),
            causal=self.causal,
            relative=inputs[3:] or None,
        )

    def by_loops(self, own: Packed, others: Packed, *inputs: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Attend sentence by sentence: (n, H, V). The weights of each are (H, T, S)."""
        query, key, value, *relative = (x.numpy() for x in inputs)
        attended, weights = [], []
        for (a, b), (c, d) in zip(
            pairwise(own.starts.tolist()), pairwise(others.starts.tolist()), strict=True
        ):
            parts = (query[a:b], key[c:d], value[c:d])  # each (length, H, width)
            q, k, v = (x.swapaxes(0, 1) for x in parts)
            apart = np.arange(d - c) - np.arange(b - a)[:, None]
            mask = (apart <= 0) if self.causal else np.ones(apart.shape, dtype=bool)
            found = attention(q, k, v, mask, relative)
            attended.append(torch.from_numpy(found[0]).transpose(0, 1))
            weights.append(torch.from_numpy(found[1]))
        return torch.cat(attended), weights


CASES = [
    Case(),
    Case(causal=True),
    Case(value_width=V),
    Case(causal=True, value_width=V),
    Case(crosses=True),
    Case(crosses=True, value_width=V),
    *(Case(causal, farthest, V) for causal in (True, False) for farthest in (1, 3, 8)),
]


@pytest.mark.usefixtures("_two_groups")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_attention_and_its_weights_are_those_of_loops(case: Case) -> None:
    torch.manual_seed(1)
    others = packed_of(7, 1, 3, 13)
    own = packed_of(2, 6, 1, 3) if case.crosses else others
    inputs = case.inputs(own, others)
    expected, weights = case.by_loops(own, others, *inputs)
    torch.testing.assert_close(case.attend(own, others, *inputs), expected, atol=1e-12, rtol=0)
    for as_packed in (True, False):
        found = case.attend(
            own, others, *inputs, function=attention_weights, as_packed=as_packed
        )  # (B, H, T, S)
        for one, wanted in zip(found, weights, strict=True):
            padded = torch.zeros_like(one)
            padded[:, : wanted.shape[1], : wanted.shape[2]] = wanted
            torch.testing.assert_close(one, padded, atol=1e-12, rtol=0)


@pytest.mark.usefixtures("_two_groups")
@pytest.mark.parametrize(
    "case",
    [
        Case(),
        Case(causal=True),
        Case(crosses=True, value_width=V),
        Case(farthest=2, value_width=V),
        Case(causal=True, farthest=2, value_width=V),
    ],
    ids=str,
)
def test_the_gradient_is_that_of_differences(case: Case) -> None:
    torch.manual_seed(3)
    others = packed_of(4, 1, 3)
    own = packed_of(1, 3, 2) if case.crosses else others
    inputs = [x.requires_grad_() for x in case.inputs(own, others)]
    assert gradcheck(lambda *inputs: case.attend(own, others, *inputs), inputs)
