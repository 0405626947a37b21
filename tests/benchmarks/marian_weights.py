"""A Transformer's weights in Marian's format, with the same function.

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
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nmt.data.vocabulary import BOS_ID
from nmt.models.attention import SelfAttention
from nmt.models.layers import Residual
from nmt.models.positions import sinusoidal_positions
from nmt.models.transformer import DecoderLayer, EncoderLayer, Transformer

MAX_LENGTH = 1000
"""Positions in Marian's matrices. Give the same to Marian by --max-length."""


Part = tuple[str, Tensor, Tensor]
"""A linear map, weight (outputs, inputs), or a norm, weight (D,), after its name; with its bias."""


def parts_of(model: Transformer) -> Iterator[tuple[str, int, Part]]:
    """Yield the maps and norms of all layers, after their side and their layer's number."""
    for side, layers in (("encoder", model.encoder), ("decoder", model.decoder)):
        for number, layer in enumerate(cast(list[EncoderLayer | DecoderLayer], layers)):
            for part in _parts_of(layer):
                yield side, number, part


def _parts_of(layer: EncoderLayer | DecoderLayer) -> Iterator[Part]:
    own = cast(SelfAttention, layer.attention)
    yield from _attention("self", *own.qkv.chunk(3), own.output)
    yield _norm("self.norm", layer.after_attention)
    if isinstance(layer, DecoderLayer):
        cross = layer.cross_attention
        yield from _attention("cross", cross.query, *cross.key_value.chunk(2), cross.output)
        yield _norm("cross.norm", layer.after_cross_attention)
    inner, outer = layer.feed_forward.inner, layer.feed_forward.outer
    yield "ffn.inner", inner.weight, inner.bias
    yield "ffn.outer", outer.weight, outer.bias
    yield _norm("ffn.norm", layer.after_feed_forward)


def _attention(name: str, *weights: Tensor) -> Iterator[Part]:
    for kind, weight in zip(("query", "key", "value", "output"), weights, strict=True):
        yield f"{name}.{kind}", weight, torch.zeros(len(weight))


def _norm(name: str, residual: Residual) -> Part:
    assert isinstance(residual.norm, nn.LayerNorm)
    return name, residual.norm.weight, residual.norm.bias


_MARIAN_SIDES = {
    "encoder": "TransformerBatchEncoder->encoder",
    "decoder": "TransformerBatchDecoder->decoder",
}
_MARIAN_LAYERS = {
    "encoder": "as<marian::nn::TransformerEncoderLayer>()",
    "decoder": "as<marian::nn::TransformerDecoderLayerWithCrossAttention>()",
}
_MARIAN_BLOCKS = {"cross": "crossAttentionBlock", "ffn": "filterBlock"}
_MARIAN_PARTS = {  # within a block; {} is self or cross
    "query": "{}Attention->qProj",
    "key": "{}Attention->kProj",
    "value": "{}Attention->vProj",
    "output": "{}Attention->oProj",
    "inner": "layers->at(0)->as<marian::nn::LinearReluDropout>()",
    "outer": "layers->at(1)->as<marian::nn::Linear>()",
    "norm": "postprocessor->norm",
}


@torch.no_grad()
def write_marian(model: Transformer, path: Path) -> None:
    """Write a model.npz.

    Args:
        model: whose embeddings are shared three ways.
        path: ends in .npz.
    """
    weights = {name: np.ascontiguousarray(weight.numpy()) for name, weight in _for_marian(model)}
    header = np.frombuffer(_marian_config(model).encode() + b"\0", np.int8)
    arrays: dict[str, NDArray[np.generic]] = {"special:model.yml": header, **weights}
    np.savez(path, allow_pickle=False, **arrays)


def _for_marian(model: Transformer) -> Iterator[tuple[str, Tensor]]:
    width = model.config.d_model
    embeddings = model.src_embedding.weight * math.sqrt(width)  # (V, D)
    positions = sinusoidal_positions(MAX_LENGTH, width)  # (MAX_LENGTH, D)
    bos = torch.zeros_like(positions)
    bos[0] = embeddings[BOS_ID]
    yield "Wemb", embeddings
    yield "decoder_ff_logit_out_Wt", model.output_projection
    yield f"{_MARIAN_SIDES['encoder']}->positionEmbedding->embeddings", positions
    yield f"{_MARIAN_SIDES['decoder']}->positionEmbedding->embeddings", positions + bos
    for side, layer, (part, weight, bias) in parts_of(model):
        place = f"{_MARIAN_SIDES[side]}->layers->at({layer})->{_MARIAN_LAYERS[side]}"
        sublayer, _, kind = part.partition(".")
        own = "autoRegressiveBlock" if side == "decoder" else "selfAttentionBlock"
        block = _MARIAN_BLOCKS.get(sublayer, own)
        name = f"{place}->{block}->{_MARIAN_PARTS[kind].format(sublayer)}"
        yield f"{name}->weight", weight if kind == "norm" else weight.t()  # (inputs, outputs)
        yield f"{name}->bias", bias


def _marian_config(model: Transformer) -> str:
    config, vocab_size = model.config, len(model.output_projection)
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
