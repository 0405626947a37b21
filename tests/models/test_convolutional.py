"""The convolutional model is the paper's formulas. In float64, so that bounds are tight.

Properties that all architectures share are tested in test_base.py.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
import tiny_models
import torch
from pairs import batch_of
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.models.convolutional import (
    ConvolutionalDecoderLayer,
    ConvolutionalEncoderLayer,
    ConvolutionalModel,
    ConvolutionalState,
    GatedConvolution,
    PositionedEmbedding,
)
from nmt.models.registry import build_model


def by_formulas(
    model: ConvolutionalModel, source: list[int], target: list[int]
) -> tuple[Tensor, Tensor]:
    """One sentence by section 3 and torch's convolutions: logits (T, V), weights (layers, T, S)."""
    k, half = model.config.kernel_width, math.sqrt(0.5)

    def embed(embedding: PositionedEmbedding, ids: list[int]) -> Tensor:
        positions = embedding.positions.weight  # later ones share the last vector
        places = torch.arange(len(ids)).clamp(max=len(positions) - 1)
        return embedding.tokens.weight[ids] + positions[places]

    def convolved(x: Tensor, layer: GatedConvolution, zeros: tuple[int, int]) -> Tensor:
        weight = layer.weight.view(-1, k, x.shape[1]).transpose(1, 2)  # torch's order: (2H, H, k)
        return F.glu(F.conv1d(F.pad(x.t(), zeros), weight, layer.bias), dim=0).t()

    e = embed(model.src_embedding, [*source, tiny_models.EOS])
    x = model.encoder_input(e)
    for layer in model.encoder:
        assert isinstance(layer, ConvolutionalEncoderLayer)
        x = (convolved(x, layer.convolution, (k // 2, k // 2)) + x) * half
    z = model.encoder_output(x)

    g = embed(model.tgt_embedding, [tiny_models.BOS, *target])
    x = model.decoder_input(g)
    weights = []
    for layer in model.decoder:
        assert isinstance(layer, ConvolutionalDecoderLayer)
        h = convolved(x, layer.convolution, (k - 1, 0))
        a = ((layer.attention.query(h) + g) @ z.t()).softmax(dim=1)
        h = (h + layer.attention.output(a @ (z + e) * len(e) * math.sqrt(1 / len(e)))) * half
        x = (h + x) * half
        weights.append(a)
    return model.decoder_output(x) @ model.output_projection.t(), torch.stack(weights)


@torch.no_grad()
@pytest.mark.parametrize("kernel_width", [1, 3, 9])
@pytest.mark.parametrize("tie_embeddings", ["all", "decoder", "none"])
def test_logits_and_weights_are_those_of_formulas(tie_embeddings: str, kernel_width: int) -> None:
    torch.manual_seed(1)
    config = replace(
        tiny_models.CONVOLUTIONAL, tie_embeddings=tie_embeddings, kernel_width=kernel_width
    )
    model = ConvolutionalModel(config, tiny_models.TGT_VOCAB, tiny_models.TGT_VOCAB).double().eval()
    for name, parameter in model.named_parameters():
        if "bias" in name:
            nn.init.normal_(parameter, std=0.3)
    longer = [5 + number % 10 for number in range(config.max_positions + 10)]
    sources, targets = [*tiny_models.SOURCES, longer], [*tiny_models.TARGETS, longer]
    weights = model.attention_weights(batch_of(sources, targets)).cross  # (layers, B, 1, T, S)
    for index, logits in enumerate(tiny_models.forced_logits(model, sources, targets)):
        expected, looks = by_formulas(model, sources[index], targets[index])
        tiny_models.assert_equal(logits, expected)
        tiny_models.assert_equal(weights[:, index, 0, : looks.shape[1], : looks.shape[2]], looks)


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_a_fresh_model_keeps_the_variance_of_its_embeddings(dropout: float) -> None:
    # Sections 3.4 and 3.5: before dropout, if there is any.
    torch.manual_seed(1)
    config = replace(
        tiny_models.CONVOLUTIONAL, d_model=256, d_hidden=256, dropout=dropout, num_encoder_layers=15
    )
    model = build_model("conv_seq2seq", config, 500, 500)
    sources = np.random.default_rng(1).integers(4, 500, (8, 15)).tolist()
    with torch.no_grad():
        state = tiny_models.begin(model, sources)
        assert isinstance(state, ConvolutionalState)
        z = state.source.keys_values[0]
        states = model(batch_of(sources, sources))
    # Tokens and positions have a variance of 0.01 each.
    assert float(z.std()) == pytest.approx(math.sqrt(0.02), rel=0.15)
    assert 0.5 * 0.02 < float(states.var()) < 2 * 0.02


def test_a_model_with_an_even_kernel_is_refused() -> None:
    assert not replace(tiny_models.CONVOLUTIONAL, kernel_width=5).problems()
    (problem,) = replace(tiny_models.CONVOLUTIONAL, kernel_width=4).problems()
    assert problem.startswith("kernel_width 4 ")
