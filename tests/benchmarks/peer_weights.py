"""A Transformer's weights in the formats of Marian and of transformers, with the same function.

Marian has two Transformers, and this is the type `transformer-new`. The older one cannot be equal:
its sinusoids have other wavelengths (their exponents run to 1 over d_model / 2 - 1 steps), and it
begins a translation with a vector of zeros instead of the embedding of bos. The newer one also
begins with zeros, but takes matrices of positions for the encoder and the decoder. So the scaled
embedding of bos is added to the decoder's first position. With such matrices Marian does not scale
embeddings, so they are scaled in the file, and the output projection is a separate matrix. Both
types are equally fast: 3.1 ms (new) and 3.0 of CPU time for a word of output (small model, beam 4,
150 captions, pymarian 1.12.42, one thread of Zen 3).

transformers' `MarianMTModel` computes all sines before all cosines of the paper's positions, where
`nmt` has them in turn, and it does not read positions from the file. So the model's dimensions are
put in that order, in all matrices that read or write the residual stream.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from torch import Tensor, nn

from nmt.data.vocabulary import BOS_ID, EOS_ID, PAD_ID
from nmt.model_config import TransformerConfig
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


# ---------------------------------------------------------------------------- Marian

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


# ---------------------------------------------------------------------- transformers

_TRANSFORMERS_PARTS = {
    **{
        f"{ours}.{kind}": f"{theirs}{name}"
        for ours, theirs in (("self", "self_attn"), ("cross", "encoder_attn"))
        for kind, name in (
            ("query", ".q_proj"),
            ("key", ".k_proj"),
            ("value", ".v_proj"),
            ("output", ".out_proj"),
            ("norm", "_layer_norm"),
        )
    },
    "ffn.inner": "fc1",
    "ffn.outer": "fc2",
    "ffn.norm": "final_layer_norm",
}


@torch.no_grad()
def write_transformers(model: Transformer, folder: Path) -> None:
    """Write config.json and model.safetensors into a folder that is there.

    model: whose embeddings are shared three ways.
    """
    config = json.dumps(transformers_config(model.config, len(model.output_projection)), indent=1)
    (folder / "config.json").write_text(config, encoding="utf-8")
    weights = {name: weight.contiguous() for name, weight in _for_transformers(model)}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def _for_transformers(model: Transformer) -> Iterator[tuple[str, Tensor]]:
    width = model.config.d_model
    order = torch.cat((torch.arange(0, width, 2), torch.arange(1, width, 2)))  # (D,)
    yield "model.shared.weight", model.src_embedding.weight[:, order]
    for side, layer, (part, weight, bias) in parts_of(model):
        writes = part.endswith((".output", ".outer", ".norm"))  # to the residual stream
        name = f"model.{side}.layers.{layer}.{_TRANSFORMERS_PARTS[part]}"
        yield f"{name}.weight", weight[order] if writes else weight[:, order]
        yield f"{name}.bias", bias[order] if writes else bias


def transformers_config(config: TransformerConfig, vocab_size: int) -> dict[str, object]:
    """Return the values of a `MarianConfig`."""
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "vocab_size": vocab_size,
        "d_model": config.d_model,
        "encoder_layers": config.num_encoder_layers,
        "decoder_layers": config.num_decoder_layers,
        "encoder_ffn_dim": config.d_ff,
        "decoder_ffn_dim": config.d_ff,
        "encoder_attention_heads": config.num_heads,
        "decoder_attention_heads": config.num_heads,
        "max_position_embeddings": 1024,
        "activation_function": "relu",
        "scale_embedding": True,
        "share_encoder_decoder_embeddings": True,
        "tie_word_embeddings": True,
        "pad_token_id": PAD_ID,
        "bos_token_id": BOS_ID,
        "eos_token_id": EOS_ID,
        "forced_eos_token_id": EOS_ID,
        "decoder_start_token_id": BOS_ID,
    }
