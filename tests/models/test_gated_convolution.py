"""Convolutions over packed sentences are torch's own over each sentence alone. In float64."""

from __future__ import annotations

import pytest
import torch
from tiny_models import assert_equal
from torch import Tensor
from torch.nn import functional as F

from nmt.data.batches import Packed, pack_sources
from nmt.models.convolutional import GatedConvolution, Neighbours

H = 6
LENGTHS = [7, 1, 2, 5]


def packed() -> Packed:
    return pack_sources([[4] * (length - 1) for length in LENGTHS])  # and an eos each


def states() -> Tensor:
    random = torch.Generator().manual_seed(1)
    return torch.randn(sum(LENGTHS), H, dtype=torch.float64, generator=random)


def convolution(k: int) -> GatedConvolution:
    torch.manual_seed(2)
    made = GatedConvolution(H, k, dropout=0.1).double()
    torch.nn.init.normal_(made.bias)
    return made


def by_torch(x: Tensor, of: GatedConvolution, k: int, causal: bool) -> Tensor:
    """Each sentence between zeros of its own, through torch's convolution and gated linear unit."""
    weight = of.weight.view(2 * H, k, H).transpose(1, 2)  # as torch has it: (2H, H, k)
    zeros = (k - 1, 0) if causal else (k // 2, k // 2)
    gated = [
        F.glu(F.conv1d(F.pad(sentence.t()[None], zeros), weight, of.bias), dim=1)[0].t()
        for sentence in torch.split(x, LENGTHS)
    ]
    return torch.cat(gated)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("k", [1, 3, 9])
def test_it_is_torch_s_of_each_sentence_and_so_are_its_gradients(k: int, causal: bool) -> None:
    layer, x = convolution(k), states().requires_grad_()
    weighting = torch.randn_like(x)
    neighbours = Neighbours.of(packed(), k, x, causal=causal)
    found = layer(neighbours.of_each(x))
    expected = by_torch(x, layer, k, causal)
    assert_equal(found, expected)
    inputs = (x, layer.weight, layer.bias)
    for own, theirs in zip(
        torch.autograd.grad((found * weighting).sum(), inputs),
        torch.autograd.grad((expected * weighting).sum(), inputs),
        strict=True,
    ):
        assert_equal(own, theirs)


def test_neighbours_of_an_example_by_hand() -> None:
    x = torch.tensor([[1.0], [2.0], [3.0], [4.0]])
    sentences = pack_sources([[4], [4]])  # two of two tokens
    beside = Neighbours.of(sentences, 3, x, causal=False).of_each(x)
    assert beside.tolist() == [[0, 1, 2], [1, 2, 0], [0, 3, 4], [3, 4, 0]]
    before = Neighbours.of(sentences, 3, x, causal=True).of_each(x)
    assert before.tolist() == [[0, 0, 1], [0, 1, 2], [0, 0, 3], [0, 3, 4]]


@torch.no_grad()
def test_a_fresh_convolution_keeps_the_variance_of_what_was_dropped() -> None:
    # Of small inputs, for which a gate is a half: section 3.5.
    torch.manual_seed(3)
    layer = GatedConvolution(256, 3, dropout=0.4)
    x = torch.randn(500, 3 * 256) * 0.01
    dropped = F.dropout(x, 0.4)
    assert float(layer(dropped).std()) == pytest.approx(0.01, rel=0.05)
