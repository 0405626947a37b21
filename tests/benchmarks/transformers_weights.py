"""A Transformer's weights as a folder of transformers' `MarianMTModel`, with the same function.

That class computes all sines before all cosines of the paper's positions, where `nmt` has them in
turn, and it does not read positions from the file. So the model's dimensions are put in that order,
in all matrices that read or write the residual stream.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import torch
from benchmarks.layers import Projections, decoder_layers, encoder_layers
from safetensors.torch import save_file
from torch import Tensor, nn

from nmt.data.vocabulary import BOS_ID, EOS_ID, PAD_ID
from nmt.model_config import TransformerConfig
from nmt.models.layers import FeedForward, Residual, SwiGLU
from nmt.models.transformer import DecoderLayer, EncoderLayer, Transformer

Named = Iterator[tuple[str, Tensor]]
"""Parameters by the class's names."""

_POSITIONS = 1024


@torch.no_grad()
def write_transformers(model: Transformer, folder: Path) -> None:
    """Write config.json and model.safetensors into a folder that is there.

    model: whose embeddings are shared three ways.
    """
    config = _config(model.config, len(model.output_projection))
    (folder / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    weights = {name: weight.contiguous() for name, weight in _weights(model)}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def _weights(model: Transformer) -> Named:
    width = model.config.d_model
    order = torch.cat((torch.arange(0, width, 2), torch.arange(1, width, 2)))  # (D,)
    yield "model.shared.weight", model.src_embedding.weight[:, order]
    for number, below in enumerate(encoder_layers(model)):
        yield from _encoder_layer(f"model.encoder.layers.{number}", below, order)
    for number, above in enumerate(decoder_layers(model)):
        yield from _decoder_layer(f"model.decoder.layers.{number}", above, order)


def _encoder_layer(place: str, layer: EncoderLayer, order: Tensor) -> Named:
    own = Projections.of_self(layer.attention)
    yield from _attention(f"{place}.self_attn", own, layer.after_attention, order)
    yield from _feed_forward(place, layer.feed_forward, layer.after_feed_forward, order)


def _decoder_layer(place: str, layer: DecoderLayer, order: Tensor) -> Named:
    own, cross = Projections.of_self(layer.attention), Projections.of_cross(layer.cross_attention)
    yield from _attention(f"{place}.self_attn", own, layer.after_attention, order)
    yield from _attention(f"{place}.encoder_attn", cross, layer.after_cross_attention, order)
    yield from _feed_forward(place, layer.feed_forward, layer.after_feed_forward, order)


def _attention(place: str, projections: Projections, after: Residual, order: Tensor) -> Named:
    bias = torch.zeros(len(order))
    for letter, weight in (
        ("q", projections.query),
        ("k", projections.key),
        ("v", projections.value),
    ):
        yield f"{place}.{letter}_proj.weight", weight[:, order]
        yield f"{place}.{letter}_proj.bias", bias.clone()  # a file holds no tensor twice
    yield f"{place}.out_proj.weight", projections.output[order]
    yield f"{place}.out_proj.bias", bias.clone()
    yield from _norm(f"{place}_layer_norm", after, order)


def _feed_forward(
    place: str, feed_forward: FeedForward | SwiGLU, after: Residual, order: Tensor
) -> Named:
    yield f"{place}.fc1.weight", feed_forward.inner.weight[:, order]
    yield f"{place}.fc1.bias", feed_forward.inner.bias
    yield f"{place}.fc2.weight", feed_forward.outer.weight[order]
    yield f"{place}.fc2.bias", feed_forward.outer.bias[order]
    yield from _norm(f"{place}.final_layer_norm", after, order)


def _norm(place: str, residual: Residual, order: Tensor) -> Named:
    assert isinstance(residual.norm, nn.LayerNorm)
    yield f"{place}.weight", residual.norm.weight[order]
    yield f"{place}.bias", residual.norm.bias[order]


def _config(config: TransformerConfig, vocab_size: int) -> dict[str, object]:
    sizes: dict[str, object] = {}
    for side, layers in (
        ("encoder", config.num_encoder_layers),
        ("decoder", config.num_decoder_layers),
    ):
        sizes |= {
            f"{side}_layers": layers,
            f"{side}_ffn_dim": config.d_ff,
            f"{side}_attention_heads": config.num_heads,
        }
    return sizes | {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "vocab_size": vocab_size,
        "d_model": config.d_model,
        "max_position_embeddings": _POSITIONS,
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
