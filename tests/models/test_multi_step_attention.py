"""Multi-step attention is that of section 3.3, by loops and by hand. In float64."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from reference import multi_step_attention
from tiny_models import assert_equal
from torch import Tensor

from nmt.data.batches import Packed, pack_sources
from nmt.models.base import Memory
from nmt.models.convolutional import MultiStepAttention, Source
from nmt.models.kernels.padded_layout import PaddedLayout

D, H = 4, 6
SRC, TGT = [5, 1, 3], [2, 4, 1]  # tokens of the sentences


def packed(lengths: list[int]) -> Packed:
    return pack_sources([[4] * (length - 1) for length in lengths])  # and an eos each


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def source_of(keys: Tensor, embeddings: Tensor, lengths: list[int]) -> Source:
    """What is attended to, with numbers at padding that must not count."""
    layout = PaddedLayout.of(packed(lengths))
    states = layout.rows(torch.cat((keys, keys + embeddings), dim=1))
    states[~layout.mask] = 7.0
    return Source(Memory(states, layout.mask))


@torch.no_grad()
def test_it_is_the_loop_reference_sentence_by_sentence() -> None:
    torch.manual_seed(1)
    attention = MultiStepAttention(D, H).double()
    for bias in (attention.query.bias, attention.output.bias):
        torch.nn.init.normal_(bias)
    z, e, h, g = normal(sum(SRC), D), normal(sum(SRC), D), normal(sum(TGT), H), normal(sum(TGT), D)
    own, source = PaddedLayout.of(packed(TGT)), source_of(z, e, SRC)
    found = attention(h, g, own, source)
    weights = attention.weights(h, g, own, source)  # (B, 1, T, S)
    assert weights.shape == (3, 1, 4, 5)

    parts = ((z, SRC), (e, SRC), (h, TGT), (g, TGT))
    sides = zip(*(torch.split(x, lengths) for x, lengths in parts), strict=True)
    expected = []
    for b, (keys, embeddings, states, read) in enumerate(sides):
        queries = states @ attention.query.weight.T + attention.query.bias + read
        for t, query in enumerate(queries):
            attended, by = multi_step_attention(query.numpy(), keys.numpy(), embeddings.numpy())
            expected.append(
                attention.output.weight @ torch.from_numpy(attended) + attention.output.bias
            )
            np.testing.assert_allclose(weights[b, 0, t, : len(by)], by, atol=1e-12)
            assert not weights[b, 0, t, len(by) :].any()
    assert_equal(found, torch.stack(expected))


def test_an_example_by_hand() -> None:
    # Keys (1, 0) and (0, 1), embeddings (0, 2) and (4, 0); the query (log 3, 0) weighs them 3 to 1.
    z = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    e = torch.tensor([[0.0, 2.0], [4.0, 0.0]])
    source = source_of(z, e, [2])
    query = torch.tensor([[[math.log(3), 0.0]]])
    torch.testing.assert_close(source.weights(query), torch.tensor([[[0.75, 0.25]]]))
    # 3/4 (1, 2) + 1/4 (4, 1) = (1.75, 1.75), by 2 * sqrt(1/2) = sqrt(2)
    torch.testing.assert_close(source.attend(query), torch.full((1, 1, 2), 1.75 * math.sqrt(2)))


def test_a_source_that_drops_sentences_leaves_the_memory_as_it_was() -> None:
    torch.manual_seed(2)
    layout = PaddedLayout.of(packed(SRC))
    memory = Memory(layout.rows(normal(sum(SRC), 2 * D)), layout.mask)
    states, mask = memory.states.clone(), memory.mask.clone()
    source, whole = Source(memory), Source(memory)
    queries = normal(3, 2, D)
    source.select(torch.tensor([2, 0]))
    assert_equal(source.attend(queries[[2, 0]]), whole.attend(queries)[[2, 0]])
    assert torch.equal(memory.states, states)
    assert torch.equal(memory.mask, mask)


@pytest.mark.parametrize("length", [1, 4, 100])
def test_equal_weights_keep_the_variance_of_what_is_attended_to(length: int) -> None:
    torch.manual_seed(3)
    z = torch.zeros(length, 4_000)  # and so every weight is 1 / S
    attended = source_of(z, torch.randn(length, 4_000), [length]).attend(torch.ones(1, 1, 4_000))
    assert float(attended.var()) == pytest.approx(1.0, rel=0.1)
