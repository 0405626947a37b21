"""The convolutional model is the paper's, by loops. In float64, so that bounds are tight."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from pairs import batch_of
from reference import Array, gated_convolution, multi_step_attention
from tiny_models import (
    BOS,
    CONVOLUTIONAL,
    EOS,
    SOURCES,
    TARGETS,
    assert_equal,
    begin,
    forced_logits,
    tiny,
)
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.data.batches import pack_sources
from nmt.models.convolutional import (
    ConvolutionalModel,
    ConvolutionalState,
    GatedConvolution,
    Neighbours,
    PositionedEmbedding,
    Source,
)
from nmt.models.registry import build_model

K, HIDDEN = CONVOLUTIONAL.kernel_width, CONVOLUTIONAL.d_hidden


def convolutional(tie_embeddings: str = "none") -> ConvolutionalModel:
    """The tiny model, with biases other than the zeros of the start."""
    model = tiny("conv_seq2seq", tie_embeddings)
    assert isinstance(model, ConvolutionalModel)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter), alpha=0.3)
    return model


# ------------------------------------------------------------------------ the whole model


def array(x: Tensor) -> Array:
    return x.detach().numpy()


def mapped(x: Array, layer: nn.Module) -> Array:
    assert isinstance(layer, nn.Linear)
    return x @ array(layer.weight).T + array(layer.bias)


def convolved(x: Array, layer: nn.Module, before: int) -> Array:
    assert isinstance(layer, GatedConvolution)
    weight = array(layer.weight).reshape(2 * HIDDEN, K, HIDDEN)
    return gated_convolution(x, weight, array(layer.bias), before)


def by_loops(
    model: ConvolutionalModel, source: list[int], target: list[int]
) -> tuple[Array, Array]:
    """One sentence by the formulas of section 3: logits (T, V) and weights (layers, T, S)."""
    half = math.sqrt(0.5)

    def embed(embedding: PositionedEmbedding, ids: list[int]) -> Array:
        tokens, positions = array(embedding.tokens.weight), array(embedding.positions.weight)
        return np.stack([tokens[token] + positions[place] for place, token in enumerate(ids)])

    e = embed(model.src_embedding, [*source, EOS])
    x = mapped(e, model.encoder_input)
    for layer in model.encoder:
        x = (convolved(x, layer.get_submodule("convolution"), K // 2) + x) * half
    z = mapped(x, model.encoder_output)

    g = embed(model.tgt_embedding, [BOS, *target])
    x = mapped(g, model.decoder_input)
    weights = []
    for layer in model.decoder:
        h = convolved(x, layer.get_submodule("convolution"), K - 1)
        queries = mapped(h, layer.get_submodule("attention.query")) + g
        pairs = [multi_step_attention(query, z, e) for query in queries]
        attended, of_layer = zip(*pairs, strict=True)
        h = (h + mapped(np.stack(attended), layer.get_submodule("attention.output"))) * half
        x = (h + x) * half
        weights.append(np.stack(of_layer))
    logits: Array = mapped(x, model.decoder_output) @ array(model.output_projection).T
    return logits, np.stack(weights)


@pytest.mark.parametrize("tie_embeddings", ["all", "decoder", "none"])
def test_logits_and_weights_are_those_of_loops_over_the_equations(tie_embeddings: str) -> None:
    model = convolutional(tie_embeddings)
    weights = model.attention_weights(batch_of(SOURCES, TARGETS)).cross  # (layers, B, 1, T, S)
    for index, found in enumerate(forced_logits(model, SOURCES, TARGETS)):
        source, target = SOURCES[index], TARGETS[index]
        logits, expected = by_loops(model, source, target)
        np.testing.assert_allclose(found, logits, atol=1e-12)
        own = weights[:, index, 0, : len(target) + 1, : len(source) + 1]
        np.testing.assert_allclose(own, expected, atol=1e-12)


def test_later_positions_have_the_last_vector() -> None:
    model = convolutional()
    ids = [5 + number % 10 for number in range(30)]
    found = forced_logits(model, [ids], [ids])
    with torch.no_grad():  # the same as a longer table whose further vectors are that one
        for embedding in (model.src_embedding, model.tgt_embedding):
            table = embedding.positions
            assert table.num_embeddings == 20 < len(ids)
            last = table.weight[-1:].expand(100, -1)
            embedding.positions = nn.Embedding.from_pretrained(torch.cat((table.weight, last)))  # type: ignore[no-untyped-call]
    longer = forced_logits(model, [ids], [ids])
    assert_equal(found[0], longer[0])


def test_hypotheses_of_a_sentence_share_its_keys_and_values() -> None:
    model = convolutional()
    with torch.inference_mode():
        state = model.begin(pack_sources(SOURCES))
        rows = torch.arange(3).repeat_interleave(5)
        state.select(rows, torch.arange(3))
        model.step([state], torch.full((15,), BOS))
        assert state.source.keys_values.shape == (2, 3, 8, CONVOLUTIONAL.d_model)
        assert (state.num_rows, state.num_sentences) == (15, 3)


def test_a_model_with_an_even_kernel_is_refused() -> None:
    assert not replace(CONVOLUTIONAL, kernel_width=5).problems()
    (problem,) = replace(CONVOLUTIONAL, kernel_width=4).problems()
    assert problem == "kernel_width 4 is even; use an odd number"


# ------------------------------------------------------------------------------- training


def test_the_encoder_gets_the_mean_of_the_attentions_gradients() -> None:
    model = convolutional()
    batch = batch_of(SOURCES, TARGETS)
    weighting = torch.randn(batch.num_tokens, CONVOLUTIONAL.d_model, dtype=torch.float64)

    def objective() -> Tensor:
        states: Tensor = model(batch)
        return (states * weighting).sum()

    objective().backward()  # type: ignore[no-untyped-call]
    for part, attentions in (
        (model.encoder_input, CONVOLUTIONAL.num_decoder_layers),
        (model.encoder_output, CONVOLUTIONAL.num_decoder_layers),
        (model.decoder_input, 1),
        (model.decoder_output, 1),
    ):
        direction = torch.randn_like(part.weight)
        assert part.weight.grad is not None
        found = float((part.weight.grad * direction).sum())
        slopes = []
        with torch.no_grad():
            for step in (1e-6, -1e-6):
                part.weight.add_(direction, alpha=step)
                slopes.append(float(objective()))
                part.weight.add_(direction, alpha=-step)
        slope = (slopes[0] - slopes[1]) / 2e-6  # the true derivative
        assert found == pytest.approx(slope / attentions, rel=1e-5)


def test_a_fresh_model_keeps_the_variance_of_its_embeddings() -> None:
    torch.manual_seed(1)
    config = replace(CONVOLUTIONAL, d_model=256, d_hidden=256, dropout=0.0, num_encoder_layers=15)
    model = build_model("conv_seq2seq", config, 500, 500)
    random = np.random.default_rng(1)
    sources = random.integers(4, 500, (8, 15)).tolist()
    with torch.no_grad():
        state = begin(model, sources)
        assert isinstance(state, ConvolutionalState)
        z = state.source.keys_values[0]
        states = model(batch_of(sources, sources))
    # Tokens and positions have a variance of 0.01 each.
    assert float(z.std()) == pytest.approx(math.sqrt(0.02), rel=0.15)
    assert 0.5 * 0.02 < float(states.var()) < 2 * 0.02


@torch.no_grad()
def test_a_fresh_convolution_keeps_the_variance_before_dropout() -> None:
    # Of small inputs, for which a gate is a half: section 3.5.
    torch.manual_seed(3)
    layer = GatedConvolution(256, 3, dropout=0.4)
    dropped = F.dropout(torch.randn(500, 3 * 256) * 0.01, 0.4)
    assert float(layer(dropped).std()) == pytest.approx(0.01, rel=0.05)


# --------------------------------------------------------------------------- its layers

LENGTHS = [7, 1, 2, 5]


def by_torch(x: Tensor, of: GatedConvolution, k: int, causal: bool) -> Tensor:
    """Each sentence between zeros of its own, through torch's convolution and gated linear unit."""
    weight = of.weight.view(-1, k, x.shape[1]).transpose(1, 2)  # torch's order: (2H, H, k)
    zeros = (k - 1, 0) if causal else (k // 2, k // 2)
    gated = [
        F.glu(F.conv1d(F.pad(sentence.t()[None], zeros), weight, of.bias), dim=1)[0].t()
        for sentence in torch.split(x, LENGTHS)
    ]
    return torch.cat(gated)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("k", [1, 3, 9])
def test_a_convolution_and_its_gradients_are_torch_s(k: int, causal: bool) -> None:
    torch.manual_seed(2)
    layer = GatedConvolution(6, k, dropout=0.1).double()
    nn.init.normal_(layer.bias)
    x = torch.randn(sum(LENGTHS), 6, dtype=torch.float64, requires_grad=True)
    weighting = torch.randn_like(x)
    packed = pack_sources([[4] * (length - 1) for length in LENGTHS])  # and an eos each
    found = layer(Neighbours.of(packed, k, x, causal=causal).of_each(x))
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


def source_of(z: Tensor, e: Tensor) -> Source:
    """Return the keys z (S, D) and values z + e of one sentence."""
    mask = torch.ones(1, len(z), dtype=torch.bool)
    return Source(z[None], (z + e)[None], mask)


def test_multi_step_attention_by_hand() -> None:
    # Keys (1, 0) and (0, 1), embeddings (0, 2) and (4, 0). The query (log 3, 0) weighs them 3 to 1.
    z = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    source = source_of(z, torch.tensor([[0.0, 2.0], [4.0, 0.0]]))
    query = torch.tensor([[[math.log(3), 0.0]]])
    torch.testing.assert_close(source.weights(query), torch.tensor([[[0.75, 0.25]]]))
    # 3/4 (1, 2) + 1/4 (4, 1) = (1.75, 1.75), by 2 * sqrt(1/2) = sqrt(2)
    torch.testing.assert_close(source.attend(query), torch.full((1, 1, 2), 1.75 * math.sqrt(2)))


@pytest.mark.parametrize("length", [1, 4, 100])
def test_equal_weights_keep_the_variance_of_the_values(length: int) -> None:
    torch.manual_seed(3)
    z = torch.zeros(length, 4_000)  # so every weight is 1 / S
    attended = source_of(z, torch.randn(length, 4_000)).attend(torch.ones(1, 1, 4_000))
    assert float(attended.var()) == pytest.approx(1.0, rel=0.1)
