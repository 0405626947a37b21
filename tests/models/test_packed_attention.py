"""Attention among packed sentences is equation 1 in each of them, forth and back."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from pairs import batch_of
from reference import attention as attention_by_loops
from reference import rotated as rotated_by_loops
from torch import Tensor
from torch.autograd import gradcheck

from nmt.data.batches import Packed
from nmt.model_config import TransformerConfig
from nmt.models.attention import CrossAttention, SelfAttention
from nmt.models.kernels.packed_attention import Sentences, attend_packed, attention_weights
from nmt.models.kernels.padded_layout import PaddedLayout
from nmt.models.positions import rotations

H, K, V = 3, 4, 5
D = H * K
CONFIG = TransformerConfig(d_model=D, num_heads=H)
BATCH = batch_of([[5] * n for n in (4, 1, 0, 3)], [[6] * n for n in (0, 5, 2, 5)])
"""Sources of 5, 2, 1 and 4 tokens with their eos, targets of 1, 6, 3 and 6."""


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def padded_layout(packed: Packed) -> Sentences:
    return Sentences.of(packed, as_packed=False)


def by_sentence(x: Tensor, packed: Packed) -> list[Tensor]:
    """(n, H, K) -> (H, length, K) of each sentence."""
    return [x[a:b].transpose(0, 1) for a, b in pairwise(packed.starts.tolist())]


def by_loops(
    query: Tensor, key: Tensor, value: Tensor, own: Packed, others: Packed, *, causal: bool
) -> Tensor:
    found = []
    for q, k, v in zip(
        by_sentence(query, own), by_sentence(key, others), by_sentence(value, others), strict=True
    ):
        mask = np.ones((1, H, q.shape[1], k.shape[1]), dtype=bool)
        one = attention_by_loops(
            q.numpy()[None], k.numpy()[None], v.numpy()[None], np.tril(mask) if causal else mask
        )
        found.append(torch.from_numpy(one[0]).transpose(0, 1))
    return torch.cat(found)


def weights_by_loops(
    query: Tensor, key: Tensor, own: Packed, others: Packed, *, causal: bool
) -> Tensor:
    """(B, H, T, S): what is attended to where the values are the rows of an identity matrix."""
    found = torch.zeros(4, H, own.longest, others.longest, dtype=torch.float64)
    pairs = zip(by_sentence(query, own), by_sentence(key, others), strict=True)
    for row, (q, k) in enumerate(pairs):
        length, width = q.shape[1], k.shape[1]
        values = np.broadcast_to(np.eye(width), (1, H, width, width))
        mask = np.ones((1, H, length, width), dtype=bool)
        one = attention_by_loops(
            q.numpy()[None], k.numpy()[None], values, np.tril(mask) if causal else mask
        )
        found[row, :, :length, :width] = torch.from_numpy(one[0])
    return found


def test_a_table_has_a_row_for_each_sentence() -> None:
    layout = PaddedLayout.of(batch_of([[7, 8], []], [[1], [1]]).src)
    assert layout.mask.tolist() == [[True, True, True], [True, False, False]]
    laid_out = layout.rows(torch.arange(4.0)[:, None])
    assert laid_out[..., 0].tolist() == [[0, 1, 2], [3, 3, 3]]  # padding repeats the last token


def test_heads_are_neighbouring_columns_and_come_back() -> None:
    torch.manual_seed(1)
    layout, x = PaddedLayout.of(BATCH.src), normal(12, 2, H, K)
    heads = [layout.heads(x, part) for part in range(2)]
    assert heads[0].shape == (4 * H, 5, K)
    assert torch.equal(heads[1][1 * H + 2, 1], x[6, 1, 2])  # of sentence 1, head 2, its token 1
    assert torch.equal(layout.packed(torch.stack(heads)), x)


@pytest.mark.parametrize("causal", [True, False])
def test_a_sentence_attends_to_itself_alone(causal: bool) -> None:
    torch.manual_seed(2)
    packed = BATCH.tgt_in
    qkv = normal(len(packed.tokens), 3, H, K)
    sentences = padded_layout(packed)
    found = attend_packed([qkv], sentences, sentences, causal=causal)
    query, key, value = qkv.unbind(1)
    expected = by_loops(query, key, value, packed, packed, causal=causal)
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)


def test_a_target_attends_to_its_own_source() -> None:
    torch.manual_seed(3)
    query = normal(len(BATCH.tgt_in.tokens), 1, H, K)
    key_value = normal(len(BATCH.src.tokens), 2, H, K)
    found = attend_packed([query, key_value], padded_layout(BATCH.tgt_in), padded_layout(BATCH.src))
    key, value = key_value.unbind(1)
    expected = by_loops(query[:, 0], key, value, BATCH.tgt_in, BATCH.src, causal=False)
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("causal", [True, False])
def test_values_may_be_of_another_width_than_keys_within_a_sentence(causal: bool) -> None:
    torch.manual_seed(11)
    packed = BATCH.tgt_in
    query_key, value = normal(len(packed.tokens), 2, H, K), normal(len(packed.tokens), 1, H, V)
    sentences = padded_layout(packed)
    found = attend_packed([query_key, value], sentences, sentences, causal=causal)
    query, key = query_key.unbind(1)
    expected = by_loops(query, key, value[:, 0], packed, packed, causal=causal)
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)


def test_values_may_be_of_another_width_than_keys_between_sentences() -> None:
    torch.manual_seed(12)
    query = normal(len(BATCH.tgt_in.tokens), 1, H, K)
    key, value = (normal(len(BATCH.src.tokens), 1, H, width) for width in (K, V))
    found = attend_packed(
        [query, key, value], padded_layout(BATCH.tgt_in), padded_layout(BATCH.src)
    )
    expected = by_loops(query[:, 0], key[:, 0], value[:, 0], BATCH.tgt_in, BATCH.src, causal=False)
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("as_packed", [True, False])
@pytest.mark.parametrize("causal", [True, False])
def test_weights_within_a_sentence_are_those_of_loops(causal: bool, as_packed: bool) -> None:
    torch.manual_seed(9)
    qkv = normal(len(BATCH.tgt_in.tokens), 3, H, K)
    sentences = Sentences.of(BATCH.tgt_in, as_packed=as_packed)
    found = attention_weights([qkv], sentences, sentences, causal=causal)
    query, key, _ = qkv.unbind(1)
    expected = weights_by_loops(query, key, BATCH.tgt_in, BATCH.tgt_in, causal=causal)
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("as_packed", [True, False])
def test_weights_between_sentences_are_those_of_loops(as_packed: bool) -> None:
    torch.manual_seed(10)
    query = normal(len(BATCH.tgt_in.tokens), 1, H, K)
    key_value = normal(len(BATCH.src.tokens), 2, H, K)
    own, others = (
        Sentences.of(packed, as_packed=as_packed) for packed in (BATCH.tgt_in, BATCH.src)
    )
    found = attention_weights([query, key_value], own, others)
    expected = weights_by_loops(query[:, 0], key_value[:, 0], BATCH.tgt_in, BATCH.src, causal=False)
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("causal", [True, False])
def test_the_gradient_within_sentences_is_that_of_differences(causal: bool) -> None:
    torch.manual_seed(4)
    sentences = padded_layout(BATCH.tgt_in)
    qkv = normal(len(BATCH.tgt_in.tokens), 3, H, K).requires_grad_()
    assert gradcheck(lambda x: attend_packed([x], sentences, sentences, causal=causal), (qkv,))


def test_the_gradient_between_sentences_is_that_of_differences() -> None:
    torch.manual_seed(5)
    own, others = padded_layout(BATCH.tgt_in), padded_layout(BATCH.src)
    query = normal(len(BATCH.tgt_in.tokens), 1, H, K).requires_grad_()
    key_value = normal(len(BATCH.src.tokens), 2, H, K).requires_grad_()
    assert gradcheck(lambda q, kv: attend_packed([q, kv], own, others), (query, key_value))


def test_the_gradient_with_values_of_another_width_is_that_of_differences() -> None:
    torch.manual_seed(13)
    own, others = padded_layout(BATCH.tgt_in), padded_layout(BATCH.src)
    queries, keys = len(BATCH.tgt_in.tokens), len(BATCH.src.tokens)
    shapes = ((queries, K), (keys, K), (keys, V))
    parts = [normal(n, 1, H, width).requires_grad_() for n, width in shapes]
    assert gradcheck(lambda *parts: attend_packed(parts, own, others), parts)
    query_key, value = (normal(queries, n, H, w).requires_grad_() for n, w in ((2, K), (1, V)))
    assert gradcheck(lambda *x: attend_packed(x, own, own, causal=True), (query_key, value))


def test_what_stands_beside_a_sentence_moves_nothing_not_even_a_huge_value() -> None:
    torch.manual_seed(6)
    sentences = padded_layout(BATCH.src)
    qkv = normal(len(BATCH.src.tokens), 3, H, K)
    before = attend_packed([qkv], sentences, sentences)
    changed = qkv.clone()
    changed[:5] = 1e30  # the first sentence, which is the longest
    assert torch.equal(attend_packed([changed], sentences, sentences)[5:], before[5:])


def test_self_attention_is_projections_around_it() -> None:
    torch.manual_seed(7)
    module, sentences = SelfAttention(CONFIG).double(), padded_layout(BATCH.src)
    x = normal(len(BATCH.src.tokens), D)
    qkv = torch.stack([x @ w.T for w in module.qkv.detach().chunk(3)], dim=1).view(-1, 3, H, K)
    for causal in (True, False):
        merged = attend_packed([qkv], sentences, sentences, causal=causal).flatten(1)
        found = module(x, sentences, causal=causal)
        torch.testing.assert_close(found, merged @ module.output.detach().T)


def test_cross_attention_is_projections_around_it() -> None:
    torch.manual_seed(8)
    module, own, others = (
        CrossAttention(CONFIG).double(),
        padded_layout(BATCH.tgt_in),
        padded_layout(BATCH.src),
    )
    x, memory = normal(len(BATCH.tgt_in.tokens), D), normal(len(BATCH.src.tokens), D)
    query = (x @ module.query.detach().T).view(-1, 1, H, K)
    pair = [memory @ w.T for w in module.key_value.detach().chunk(2)]
    key_value = torch.stack(pair, dim=1).view(-1, 2, H, K)
    merged = attend_packed([query, key_value], own, others).flatten(1)
    torch.testing.assert_close(module(x, own, memory, others), merged @ module.output.detach().T)


def by_projections(x: Tensor, weight: Tensor, widths: list[int]) -> list[Tensor]:
    """Project x (n, D) by stacked matrices to heads of these widths, each (n, H, width)."""
    matrices = torch.split(weight.detach(), [H * width for width in widths])
    return [(x @ w.T).view(len(x), H, -1) for w in matrices]


def turned(x: Tensor, packed: Packed) -> Tensor:
    """Turn x (n, H, K) by rotary positions, vector by vector."""
    found = x.clone()
    for token, head in np.ndindex(*x.shape[:2]):
        place = int(packed.positions[token])
        found[token, head] = torch.from_numpy(rotated_by_loops(x[token, head].numpy(), place))
    return found


@pytest.mark.parametrize("rotary", [False, True])
@pytest.mark.parametrize(("d_k", "d_v"), [(K, K), (2, 5), (6, 2)])
@pytest.mark.parametrize("causal", [True, False])
def test_self_attention_of_any_widths_is_projections_around_loops(
    d_k: int, d_v: int, causal: bool, rotary: bool
) -> None:
    torch.manual_seed(14)
    packed = BATCH.tgt_in
    module = SelfAttention(replace(CONFIG, d_k=d_k, d_v=d_v)).double()
    rotation = rotations(packed.longest, d_k)[packed.positions] if rotary else None
    sentences = Sentences.of(packed, as_packed=False, rotation=rotation)
    x = normal(len(packed.tokens), D)
    query, key, value = by_projections(x, module.qkv, [d_k, d_k, d_v])
    if rotary:
        query, key = turned(query, packed), turned(key, packed)
    attended = by_loops(query, key, value, packed, packed, causal=causal)
    expected = attended.flatten(1) @ module.output.detach().T
    found = module(x, sentences, causal=causal)
    # Cosines and sines are rounded to fp32.
    torch.testing.assert_close(found, expected, atol=1e-6 if rotary else 1e-12, rtol=0)


def test_cross_attention_of_any_widths_is_projections_around_loops() -> None:
    torch.manual_seed(15)
    module = CrossAttention(replace(CONFIG, d_k=2, d_v=5)).double()
    x, memory = normal(len(BATCH.tgt_in.tokens), D), normal(len(BATCH.src.tokens), D)
    (query,) = by_projections(x, module.query, [2])
    key, value = by_projections(memory, module.key_value, [2, 5])
    attended = by_loops(query, key, value, BATCH.tgt_in, BATCH.src, causal=False)
    found = module(x, padded_layout(BATCH.tgt_in), memory, padded_layout(BATCH.src))
    expected = attended.flatten(1) @ module.output.detach().T
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)
