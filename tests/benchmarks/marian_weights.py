"""A Transformer's weights as Marian's model.npz, with the same function.

Marian has two Transformers, and this is the type `transformer-new`. The older one cannot be equal:
its sinusoids have other wavelengths (their exponents run to 1 over d_model / 2 - 1 steps), and it
begins a translation with a vector of zeros instead of the embedding of bos. The newer one also
begins with zeros, but takes matrices of positions for the encoder and the decoder. So the scaled
embedding of bos is added to the decoder's first position. With such matrices Marian does not scale
embeddings, so they are scaled in the file, and the output projection is a separate matrix. Both
types are equally fast: 3.1 ms (new) and 3.0 of CPU time for a word of output (small model, beam 4,
150 captions, pymarian 1.12.42, one thread of Zen 3).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from benchmarks.layers import Projections, decoder_layers, encoder_layers
from numpy.typing import NDArray
from torch import Tensor, nn

from nmt.data.vocabulary import BOS_ID
from nmt.model_config import TransformerConfig
from nmt.models.layers import FeedForward, Residual, SwiGLU
from nmt.models.positions import sinusoidal_positions
from nmt.models.transformer import DecoderLayer, EncoderLayer, Transformer

MAX_LENGTH = 1000
"""Positions in the matrices. Give the same to Marian by --max-length."""

Named = Iterator[tuple[str, Tensor]]
"""Parameters by Marian's names."""

_ENCODER, _DECODER = "TransformerBatchEncoder->encoder", "TransformerBatchDecoder->decoder"
_ENCODER_LAYER = "as<marian::nn::TransformerEncoderLayer>()"
_DECODER_LAYER = "as<marian::nn::TransformerDecoderLayerWithCrossAttention>()"


@torch.no_grad()
def write_marian(model: Transformer, path: Path) -> None:
    """Write a model.npz.

    Args:
        model: whose embeddings are shared three ways.
        path: ends in .npz.
    """
    weights = {name: np.ascontiguousarray(weight.numpy()) for name, weight in _weights(model)}
    config = _config(model.config, len(model.output_projection))
    header = np.frombuffer(config.encode() + b"\0", np.int8)
    arrays: dict[str, NDArray[np.generic]] = {"special:model.yml": header, **weights}
    np.savez(path, allow_pickle=False, **arrays)


def _weights(model: Transformer) -> Named:
    width = model.config.d_model
    embeddings = model.src_embedding.weight * math.sqrt(width)  # (V, D)
    positions = sinusoidal_positions(MAX_LENGTH, width)  # (MAX_LENGTH, D)
    yield "Wemb", embeddings
    yield "decoder_ff_logit_out_Wt", model.output_projection
    yield f"{_ENCODER}->positionEmbedding->embeddings", positions
    bos = torch.zeros_like(positions)
    bos[0] = embeddings[BOS_ID]
    yield f"{_DECODER}->positionEmbedding->embeddings", positions + bos
    for number, below in enumerate(encoder_layers(model)):
        yield from _encoder_layer(f"{_ENCODER}->layers->at({number})->{_ENCODER_LAYER}", below)
    for number, above in enumerate(decoder_layers(model)):
        yield from _decoder_layer(f"{_DECODER}->layers->at({number})->{_DECODER_LAYER}", above)


def _encoder_layer(place: str, layer: EncoderLayer) -> Named:
    block = f"{place}->selfAttentionBlock"
    yield from _attention(f"{block}->selfAttention", Projections.of_self(layer.attention))
    yield from _norm(block, layer.after_attention)
    yield from _feed_forward(place, layer.feed_forward, layer.after_feed_forward)


def _decoder_layer(place: str, layer: DecoderLayer) -> Named:
    block = f"{place}->autoRegressiveBlock"
    yield from _attention(f"{block}->selfAttention", Projections.of_self(layer.attention))
    yield from _norm(block, layer.after_attention)
    block, cross = f"{place}->crossAttentionBlock", Projections.of_cross(layer.cross_attention)
    yield from _attention(f"{block}->crossAttention", cross)
    yield from _norm(block, layer.after_cross_attention)
    yield from _feed_forward(place, layer.feed_forward, layer.after_feed_forward)


def _attention(place: str, projections: Projections) -> Named:
    for letter, weight in (
        ("q", projections.query),
        ("k", projections.key),
        ("v", projections.value),
        ("o", projections.output),
    ):
        yield from _linear(f"{place}->{letter}Proj", weight, torch.zeros(len(weight)))


def _feed_forward(place: str, feed_forward: FeedForward | SwiGLU, after: Residual) -> Named:
    block = f"{place}->filterBlock"
    layers: tuple[tuple[str, nn.Linear], ...] = (
        ("at(0)->as<marian::nn::LinearReluDropout>()", feed_forward.inner),
        ("at(1)->as<marian::nn::Linear>()", feed_forward.outer),
    )
    for kind, layer in layers:
        yield from _linear(f"{block}->layers->{kind}", layer.weight, layer.bias)
    yield from _norm(block, after)


def _linear(place: str, weight: Tensor, bias: Tensor) -> Named:
    yield f"{place}->weight", weight.t()  # (inputs, outputs) in Marian
    yield f"{place}->bias", bias


def _norm(block: str, residual: Residual) -> Named:
    assert isinstance(residual.norm, nn.LayerNorm)
    yield f"{block}->postprocessor->norm->weight", residual.norm.weight
    yield f"{block}->postprocessor->norm->bias", residual.norm.bias


def _config(config: TransformerConfig, vocab_size: int) -> str:
    values = {
        "type": "transformer-new",
        "version": "v1.12.42",
        "dim-vocabs": f"[{vocab_size}, {vocab_size}]",
        "dim-emb": config.d_model,
        "enc-depth": config.num_encoder_layers,
        "dec-depth": config.num_decoder_layers,
        "tied-embeddings-src": "true",
        "tied-embeddings": "false",
        "tied-embeddings-all": "false",
        "output-omit-bias": "true",
        "transformer-train-position-embeddings": "true",
        "transformer-heads": config.num_heads,
        "transformer-dim-ffn": config.d_ff,
        "transformer-ffn-activation": "relu",
        "transformer-preprocess": '""',
        "transformer-postprocess": "dan",
        "transformer-postprocess-emb": "d",
    }
    return "".join(f"{name}: {value}\n" for name, value in values.items())
