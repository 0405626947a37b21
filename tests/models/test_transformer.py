"""The Transformer is torch's own, and its variants differ in what they say. In float64, so that
bounds are tight."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
import torch
from pairs import batch_of
from reference import sinusoidal_positions
from tiny_models import (
    BOS,
    EOS,
    PAD,
    SOURCES,
    SRC_VOCAB,
    TARGETS,
    TGT_VOCAB,
    TINY,
    TRANSFORMER,
    assert_equal,
    begin,
    tiny,
)
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.model_config import TransformerConfig
from nmt.models import transformer
from nmt.models.base import TranslationModel
from nmt.models.registry import build_model
from nmt.models.transformer import DecoderLayer, EncoderLayer, Transformer, TransformerState

# ------------------------------------------------------------------ torch's Transformer


TorchLayer = nn.TransformerEncoderLayer | nn.TransformerDecoderLayer


def torch_layer(layer: EncoderLayer | DecoderLayer, config: TransformerConfig) -> TorchLayer:
    """Return torch's layer with the same weights."""
    sizes = (config.d_model, config.num_heads, config.d_ff, 0.0)
    fed, no_bias = layer.feed_forward, torch.zeros(3 * config.d_model)
    weights: dict[str, Any] = {
        "self_attn.in_proj_weight": layer.attention.qkv,
        "self_attn.in_proj_bias": no_bias,
        "self_attn.out_proj.weight": layer.attention.output,
        "self_attn.out_proj.bias": no_bias[: config.d_model],
        "linear1.weight": fed.inner.weight,
        "linear1.bias": fed.inner.bias,
        "linear2.weight": fed.outer.weight,
        "linear2.bias": fed.outer.bias,
    }
    residuals = [layer.after_attention, layer.after_feed_forward]
    theirs: TorchLayer
    if isinstance(layer, DecoderLayer):
        theirs = nn.TransformerDecoderLayer(*sizes, batch_first=True, norm_first=config.pre_norm)
        cross = layer.cross_attention
        weights |= {
            "multihead_attn.in_proj_weight": torch.cat((cross.query, cross.key_value)),
            "multihead_attn.in_proj_bias": no_bias,
            "multihead_attn.out_proj.weight": cross.output,
            "multihead_attn.out_proj.bias": no_bias[: config.d_model],
        }
        residuals.insert(1, layer.after_cross_attention)
    else:
        theirs = nn.TransformerEncoderLayer(*sizes, batch_first=True, norm_first=config.pre_norm)
    for number, residual in enumerate(residuals, start=1):
        weights[f"norm{number}.weight"] = residual.norm.weight
        weights[f"norm{number}.bias"] = residual.norm.bias
    theirs.to(layer.attention.output.dtype).load_state_dict(weights)
    return theirs.train()  # without its fused fast path


def randomised(model: TranslationModel) -> Transformer:
    """The model with biases and norms that are not the zeros and ones of the start."""
    assert isinstance(model, Transformer)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter), alpha=0.3)
    return model


def padded(rows: list[list[int]]) -> Tensor:
    longest = max(map(len, rows))
    return torch.tensor([[*ids, *[PAD] * (longest - len(ids))] for ids in rows])


@torch.no_grad()
def torch_logits(model: Transformer, config: TransformerConfig) -> Tensor:
    """What torch's own encoder and decoder layers make of the same weights, for all pairs."""
    src = padded([[*ids, EOS] for ids in SOURCES])
    tgt_in = padded([[BOS, *ids] for ids in TARGETS])
    dtype = model.output_projection.dtype

    def embed(tokens: Tensor, weight: Tensor) -> Tensor:
        positions = sinusoidal_positions(tokens.shape[1], config.d_model).astype(np.float32)
        return weight[tokens] * math.sqrt(config.d_model) + torch.from_numpy(positions).to(dtype)

    padding = src == PAD

    def final_norm(norm: nn.Module, x: Tensor) -> Tensor:
        if not config.pre_norm:
            return x
        weight, bias = norm.parameters()
        return F.layer_norm(x, (config.d_model,), weight, bias)

    memory = embed(src, model.src_embedding.weight)
    for encoder_layer in model.encoder:
        layer = torch_layer(cast(EncoderLayer, encoder_layer), config)
        memory = layer(memory, src_key_padding_mask=padding)
    memory = final_norm(model.encoder_norm, memory)
    length = tgt_in.shape[1]
    future = torch.ones(length, length, dtype=torch.bool).triu(1)
    x = embed(tgt_in, model.tgt_embedding.weight)
    for decoder_layer in model.decoder:
        layer = torch_layer(cast(DecoderLayer, decoder_layer), config)
        x = layer(x, memory, tgt_mask=future, memory_key_padding_mask=padding)
    return (final_norm(model.decoder_norm, x) @ model.output_projection.T)[tgt_in != PAD]


@pytest.mark.parametrize("kind", ["transformer", "transformer_pre_norm"])
@pytest.mark.parametrize("tie_embeddings", ["all", "decoder", "none"])
def test_the_transformer_is_torch_s_without_attention_biases(
    tie_embeddings: str, kind: str
) -> None:
    model = randomised(tiny(kind, tie_embeddings))
    config = model.config
    batch = batch_of(SOURCES, TARGETS)
    with torch.no_grad():
        found = model(batch) @ model.output_projection.T
    assert_equal(found, torch_logits(model, config))
    with torch.no_grad():
        found = model.float()(batch) @ model.output_projection.T
    assert_equal(found, torch_logits(model, config), tolerance=2e-5)


def test_attention_weights_are_those_of_torch_s_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    config = TRANSFORMER
    model, batch = randomised(tiny("transformer")), batch_of(SOURCES, TARGETS)
    theirs: list[Tensor] = []  # of each attention that torch's model goes through (B, H, T, S)
    attend = nn.MultiheadAttention.forward

    def attend_and_note(
        self: nn.MultiheadAttention, *args: Tensor, **options: object
    ) -> tuple[Tensor, Tensor | None]:
        options |= {"need_weights": True, "average_attn_weights": False}
        attended, weights = attend(self, *args, **options)  # type: ignore[arg-type]
        assert weights is not None
        theirs.append(weights)
        return attended, weights

    monkeypatch.setattr(nn.MultiheadAttention, "forward", attend_and_note)
    with torch.no_grad():
        assert_equal(model(batch) @ model.output_projection.T, torch_logits(model, config))
    found = model.attention_weights(batch)
    # Theirs has weights from padding, too; sources have 8, 3 and 5 tokens, targets 4, 7 and 2.
    src, tgt = (
        (torch.arange(length) < torch.tensor(lengths)[:, None])[:, None, :, None]
        for length, lengths in ((8, (8, 3, 5)), (7, (4, 7, 2)))
    )
    assert_equal(found.encoder, torch.stack(theirs[:2]) * src)
    assert_equal(found.decoder, torch.stack(theirs[2::2]) * tgt)
    assert_equal(found.cross, torch.stack(theirs[3::2]) * tgt)


def test_weights_start_at_their_usual_sizes() -> None:
    config = replace(TRANSFORMER, d_model=64, d_ff=256)
    torch.manual_seed(1)
    model = build_model("transformer", config, 500, 500)
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1:
            assert torch.equal(parameter, torch.full_like(parameter, float("norm.weight" in name)))
        elif "feed_forward" in name:
            # Xavier's uniform bound, sqrt(6 / (64 + 256)) = 0.137, and half of it on the way out.
            bound = math.sqrt(6 / 320) * (0.5 if "outer" in name else 1.0)
            assert 0.99 * bound < float(parameter.detach().abs().max()) <= bound


@pytest.mark.parametrize(
    "config", [config for config in TINY.values() if isinstance(config, TransformerConfig)]
)
def test_a_fresh_model_has_logits_of_a_variance_near_one(config: TransformerConfig) -> None:
    # So the loss starts near log V.
    config = replace(config, d_model=64, d_ff=256)
    torch.manual_seed(1)
    model = build_model("transformer", config, 500, 500).eval()
    with torch.no_grad():
        logits = model(batch_of(SOURCES, TARGETS)) @ model.output_projection.T
    assert 0.5 < float(logits.std()) < 2.0


# ---------------------------------------------------------------------------- variants


def test_learned_positions_are_added_to_scaled_embeddings() -> None:
    # With the vectors that are the sinusoids, it is the Transformer with sinusoids.
    sinusoids = tiny("transformer")
    model = tiny("transformer_learned_positions")
    assert isinstance(model, Transformer)
    table = torch.from_numpy(sinusoidal_positions(10, 16).astype(np.float32))
    weights = sinusoids.state_dict()
    for side in ("src", "tgt"):
        weights[f"{side}_positions.weight"] = table.double()
    config = replace(model.config, max_positions=10)
    model = build_model("transformer", config, SRC_VOCAB, TGT_VOCAB).double().eval()
    model.load_state_dict(weights)
    batch = batch_of(SOURCES, TARGETS)
    with torch.no_grad():
        assert torch.equal(model(batch), sinusoids(batch))


@pytest.mark.parametrize("kind", ["transformer_modern", "transformer_relative"])
def test_only_rotations_or_relative_vectors_tell_the_order_of_a_source(kind: str) -> None:
    model = tiny(kind)
    assert isinstance(model, Transformer)
    forth, back = (batch_of([ids], [[4, 5]]) for ids in ([5, 6, 7], [7, 6, 5]))
    assert model.src_positions is None
    with torch.no_grad():
        assert not torch.allclose(model(forth), model(back))
        model.rotations = None
        for name, parameter in model.named_parameters():
            if ".relative." in name:
                parameter.zero_()
        torch.testing.assert_close(model(forth), model(back))


@pytest.mark.parametrize(
    ("kind", "takes"),
    [("transformer", True), ("transformer_local", True), ("transformer_relative", False)],
)
def test_flash_attention_serves_windows_and_not_relative_positions(
    kind: str, takes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transformer, "takes_packed", lambda *_: True)
    assert tiny(kind).is_padding_free is takes


def test_a_source_token_reaches_through_the_windows_of_all_layers() -> None:
    model = tiny("transformer_local")  # two layers, each of which sees 1 token to either side
    source, place = list(range(4, 16)), 5
    changed = [*source]
    changed[place] = 20
    with torch.no_grad():
        states = [begin(model, [ids]) for ids in (source, changed)]
    before, after = (cast(TransformerState, state).keys[0, 0] for state in states)  # (H, S, K)
    moved = (before != after).any(dim=2).any(dim=0).nonzero()[:, 0].tolist()
    assert moved == [3, 4, 5, 6, 7]


# ----------------------------------------------------------------------- tied weights


def test_a_tied_weight_is_trained_from_all_its_uses() -> None:
    model = tiny("transformer", "all")
    assert isinstance(model, Transformer)
    logits = model(batch_of(SOURCES, TARGETS)) @ model.output_projection.T
    torch.autograd.backward(logits.square().sum())
    gradient = model.tgt_embedding.weight.grad
    assert gradient is not None
    assert gradient[SOURCES[0][0]].abs().max() > 0  # as a source token
    assert gradient[28].abs().max() > 0  # in neither text: as an output alone
