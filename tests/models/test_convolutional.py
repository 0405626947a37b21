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
    SRC_VOCAB,
    TARGETS,
    assert_equal,
    encode,
    forced_logits,
    tiny,
)
from torch import Tensor, nn

from nmt.models.convolutional import (
    ConvolutionalModel,
    ConvolutionalState,
    GatedConvolution,
    PositionedEmbedding,
)
from nmt.models.kernels.packed_weights import pack
from nmt.models.registry import build_model

K, HIDDEN = CONVOLUTIONAL.kernel_width, CONVOLUTIONAL.d_hidden


def convolutional(tie_embeddings: str = "none") -> ConvolutionalModel:
    """The tiny model, with biases that are not the zeros of the start."""
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


def logits_by_loops(model: ConvolutionalModel, source: list[int], target: list[int]) -> Array:
    """One sentence after the formulas of section 3: (length + 1, V)."""
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
    for layer in model.decoder:
        h = convolved(x, layer.get_submodule("convolution"), K - 1)
        queries = mapped(h, layer.get_submodule("attention.query")) + g
        attended = np.stack([multi_step_attention(query, z, e)[0] for query in queries])
        h = (h + mapped(attended, layer.get_submodule("attention.output"))) * half
        x = (h + x) * half
    logits: Array = mapped(x, model.decoder_output) @ array(model.output_projection).T
    return logits


@pytest.mark.parametrize("tie_embeddings", ["all", "decoder", "none"])
def test_the_model_is_that_of_the_paper_by_loops(tie_embeddings: str) -> None:
    model = convolutional(tie_embeddings)
    found = forced_logits(model, SOURCES, TARGETS)
    for logits, source, target in zip(found, SOURCES, TARGETS, strict=True):
        np.testing.assert_allclose(logits, logits_by_loops(model, source, target), atol=1e-12)


# ------------------------------------------------------------------------------ positions


def test_positions_beyond_the_table_have_its_last_vector() -> None:
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


# --------------------------------------------------------------------------------- search


def test_hypotheses_of_a_sentence_share_what_they_attend_to() -> None:
    model = convolutional()
    with torch.inference_mode():
        state = model.start(encode(model, SOURCES))
        assert isinstance(state, ConvolutionalState)
        rows = torch.arange(3).repeat_interleave(5)
        state.select(rows, torch.arange(3))
        model.step([state], torch.full((15,), BOS))
        assert state.source.keys_values.shape == (2, 3, 8, CONVOLUTIONAL.d_model)
        assert (state.num_rows, state.num_sentences) == (15, 3)


@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 1e-5), ("int8", 0.15)])
def test_with_packed_weights_it_computes_what_it_did(precision: str, tolerance: float) -> None:
    model = convolutional("all").float()
    expected = forced_logits(model, SOURCES, TARGETS)
    pack(model, precision)
    with torch.inference_mode():
        state = model.start(encode(model, SOURCES))
        for tokens, row in (([BOS, BOS, BOS], 0), ([20, 4, 10], 1)):
            logits = model.project(model.step([state], torch.tensor(tokens)))
            assert_equal(logits, torch.stack([one[row] for one in expected]), tolerance)


# ------------------------------------------------------------------------------- training


def test_the_encoder_gets_the_mean_of_the_attentions_gradients_and_others_their_own() -> None:
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
        z, _ = encode(model, sources).states.chunk(2, dim=-1)
        states = model(batch_of(sources, sources))
    # Tokens and positions have a variance of 0.01 each.
    assert float(z.std()) == pytest.approx(math.sqrt(0.02), rel=0.15)
    assert 0.5 * 0.02 < float(states.var()) < 2 * 0.02


def test_a_model_with_an_even_kernel_is_refused() -> None:
    assert not replace(CONVOLUTIONAL, kernel_width=5).problems()
    (problem,) = replace(CONVOLUTIONAL, kernel_width=4).problems()
    assert problem == "kernel_width 4 is even; use an odd number"


# --------------------------------------------------------------------------- tied weights


def test_tying_shares_tokens_and_not_positions() -> None:
    model = convolutional("all")
    assert model.src_embedding.tokens is model.tgt_embedding.tokens
    assert model.output_projection is model.tgt_embedding.tokens.weight
    assert model.src_embedding.positions is not model.tgt_embedding.positions
    decoder = convolutional("decoder")
    assert decoder.src_embedding.tokens.weight.shape == (SRC_VOCAB, 12)
    assert decoder.output_projection is decoder.tgt_embedding.tokens.weight
    none = convolutional("none")
    assert none.output_projection is not none.tgt_embedding.tokens.weight
