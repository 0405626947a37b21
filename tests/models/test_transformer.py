"""The Transformer is torch's own, and its variants differ in what they say. In float64, so that
bounds are tight."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import cast

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
    encode,
    tiny,
)
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.model_config import TransformerConfig
from nmt.models import transformer
from nmt.models.base import TranslationModel
from nmt.models.positions import LearnedPositions
from nmt.models.registry import build_model
from nmt.models.transformer import DecoderLayer, EncoderLayer, Transformer

# ------------------------------------------------------------------ torch's Transformer


def torch_encoder_layer(layer: EncoderLayer, config: TransformerConfig) -> nn.Module:
    theirs = nn.TransformerEncoderLayer(
        config.d_model,
        config.num_heads,
        config.d_ff,
        0.0,
        batch_first=True,
        norm_first=config.pre_norm,
    ).to(layer.attention.output.dtype)
    theirs.load_state_dict(
        {
            "self_attn.in_proj_weight": layer.attention.qkv,
            "self_attn.in_proj_bias": torch.zeros(3 * config.d_model),
            "self_attn.out_proj.weight": layer.attention.output,
            "self_attn.out_proj.bias": torch.zeros(config.d_model),
            "linear1.weight": layer.feed_forward.inner.weight,
            "linear1.bias": layer.feed_forward.inner.bias,
            "linear2.weight": layer.feed_forward.outer.weight,
            "linear2.bias": layer.feed_forward.outer.bias,
            "norm1.weight": layer.after_attention.norm.weight,
            "norm1.bias": layer.after_attention.norm.bias,
            "norm2.weight": layer.after_feed_forward.norm.weight,
            "norm2.bias": layer.after_feed_forward.norm.bias,
        }
    )
    return theirs


def torch_decoder_layer(layer: DecoderLayer, config: TransformerConfig) -> nn.Module:
    theirs = nn.TransformerDecoderLayer(
        config.d_model,
        config.num_heads,
        config.d_ff,
        0.0,
        batch_first=True,
        norm_first=config.pre_norm,
    ).to(layer.attention.output.dtype)
    cross = layer.cross_attention
    theirs.load_state_dict(
        {
            "self_attn.in_proj_weight": layer.attention.qkv,
            "self_attn.in_proj_bias": torch.zeros(3 * config.d_model),
            "self_attn.out_proj.weight": layer.attention.output,
            "self_attn.out_proj.bias": torch.zeros(config.d_model),
            "multihead_attn.in_proj_weight": torch.cat((cross.query, cross.key_value)),
            "multihead_attn.in_proj_bias": torch.zeros(3 * config.d_model),
            "multihead_attn.out_proj.weight": cross.output,
            "multihead_attn.out_proj.bias": torch.zeros(config.d_model),
            "linear1.weight": layer.feed_forward.inner.weight,
            "linear1.bias": layer.feed_forward.inner.bias,
            "linear2.weight": layer.feed_forward.outer.weight,
            "linear2.bias": layer.feed_forward.outer.bias,
            "norm1.weight": layer.after_attention.norm.weight,
            "norm1.bias": layer.after_attention.norm.bias,
            "norm2.weight": layer.after_cross_attention.norm.weight,
            "norm2.bias": layer.after_cross_attention.norm.bias,
            "norm3.weight": layer.after_feed_forward.norm.weight,
            "norm3.bias": layer.after_feed_forward.norm.bias,
        }
    )
    return theirs


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
        assert isinstance(encoder_layer, EncoderLayer)
        layer = torch_encoder_layer(encoder_layer, config).train()  # without its fused fast path
        memory = layer(memory, src_key_padding_mask=padding)
    memory = final_norm(model.encoder_norm, memory)
    length = tgt_in.shape[1]
    future = torch.ones(length, length, dtype=torch.bool).triu(1)
    x = embed(tgt_in, model.tgt_embedding.weight)
    for decoder_layer in model.decoder:
        layer = torch_decoder_layer(cast(DecoderLayer, decoder_layer), config).train()
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
    # Torch's model ends at the states that ours comes to when nobody looks.
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


def test_the_start_is_the_usual_one() -> None:
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
    # Logits of a fresh model have a variance near 1: the loss starts near log V.
    with torch.no_grad():
        logits = model.eval()(batch_of(SOURCES, TARGETS)) @ model.output_projection.T
    assert 0.5 < float(logits.std()) < 2.0


@pytest.mark.parametrize(
    "config", [config for config in TINY.values() if isinstance(config, TransformerConfig)]
)
def test_every_variant_starts_with_logits_of_a_variance_near_one(
    config: TransformerConfig,
) -> None:
    config = replace(config, d_model=64, d_ff=256)
    torch.manual_seed(1)
    model = build_model("transformer", config, 500, 500).eval()
    with torch.no_grad():
        logits = model(batch_of(SOURCES, TARGETS)) @ model.output_projection.T
    assert 0.5 < float(logits.std()) < 2.0


# ---------------------------------------------------------------------------- variants


def test_learned_positions_are_added_to_scaled_embeddings_of_each_side() -> None:
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


def test_positions_of_source_and_target_are_learned_apart() -> None:
    model = tiny("transformer_learned_positions", "all")
    assert isinstance(model, Transformer)
    src, tgt = model.src_positions, model.tgt_positions
    assert isinstance(src, LearnedPositions)
    assert isinstance(tgt, LearnedPositions)
    assert src.weight.shape == tgt.weight.shape == (7, 16)
    assert not torch.equal(src.weight, tgt.weight)


def test_a_model_without_order_cannot_tell_permuted_sources_and_rotary_positions_can() -> None:
    # Turning is all that tells this model where a source token stands: no vector is added.
    model = tiny("transformer_modern")
    assert isinstance(model, Transformer)
    forth, back = (batch_of([ids], [[4, 5]]) for ids in ([5, 6, 7], [7, 6, 5]))
    assert model.src_positions is None
    with torch.no_grad():
        assert not torch.allclose(model(forth), model(back))
        model.rotations = None
        # The two pass eos, at the end, in different company, but the same set of tokens.
        torch.testing.assert_close(model(forth), model(back))


def test_relative_vectors_tell_where_a_token_stands_and_nothing_else_does() -> None:
    model = tiny("transformer_relative")
    assert isinstance(model, Transformer)
    forth, back = (batch_of([ids], [[4, 5]]) for ids in ([5, 6, 7], [7, 6, 5]))
    with torch.no_grad():
        assert not torch.allclose(model(forth), model(back))
        for name, parameter in model.named_parameters():
            if ".relative." in name:
                parameter.zero_()
        torch.testing.assert_close(model(forth), model(back))


def test_relative_vectors_are_each_layer_s_own_and_all_heads_share_them() -> None:
    sizes = {
        name: tuple(parameter.shape)
        for name, parameter in tiny("transformer_relative").named_parameters()
        if ".relative." in name
    }
    assert sizes == {  # k = 3, and heads of 3 and 5
        f"{side}.{layer}.attention.relative.{part}": (7, width)
        for side in ("encoder", "decoder")
        for layer in range(2)
        for part, width in (("keys", 3), ("values", 5))
    }


@pytest.mark.parametrize(
    ("kind", "takes"),
    [("transformer", True), ("transformer_local", True), ("transformer_relative", False)],
)
def test_flash_attention_serves_windows_and_not_relative_positions(
    kind: str, takes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transformer, "takes_packed", lambda *_: True)
    assert tiny(kind).is_padding_free is takes


def test_a_source_token_reaches_as_far_as_windows_of_all_layers() -> None:
    model = tiny("transformer_local")  # two layers, each of which sees 1 token to either side
    source, place = list(range(4, 16)), 5
    changed = [*source]
    changed[place] = 20
    with torch.no_grad():
        before, after = (encode(model, [ids]).states[0] for ids in (source, changed))
    moved = (before != after).any(dim=1).nonzero()[:, 0].tolist()
    assert moved == [3, 4, 5, 6, 7]


def test_a_pre_norm_stack_ends_in_a_norm_and_a_post_norm_one_has_no_more() -> None:
    names = [name for name, _ in tiny("transformer").named_parameters()]
    pre_norm = [name for name, _ in tiny("transformer_pre_norm").named_parameters()]
    stacks, parts = ("encoder", "decoder"), ("weight", "bias")
    assert set(pre_norm) - set(names) == {f"{s}_norm.{part}" for s in stacks for part in parts}


# ----------------------------------------------------------------------- tied weights


def test_three_way_tying_is_one_parameter() -> None:
    model = tiny("transformer", "all")
    assert isinstance(model, Transformer)
    assert model.src_embedding is model.tgt_embedding
    assert model.output_projection is model.tgt_embedding.weight


def test_the_decoder_s_tying_is_two_parameters() -> None:
    model = tiny("transformer", "decoder")
    assert isinstance(model, Transformer)
    assert model.src_embedding.weight.shape == (SRC_VOCAB, 16)
    assert model.output_projection is model.tgt_embedding.weight


def test_without_tying_there_are_three_parameters() -> None:
    model = tiny("transformer", "none")
    assert isinstance(model, Transformer)
    matrices = (model.src_embedding.weight, model.tgt_embedding.weight, model.output_projection)
    assert len({id(matrix) for matrix in matrices}) == 3


def test_a_tied_weight_is_trained_from_all_its_uses() -> None:
    model = tiny("transformer", "all")
    assert isinstance(model, Transformer)
    logits = model(batch_of(SOURCES, TARGETS)) @ model.output_projection.T
    torch.autograd.backward(logits.square().sum())
    gradient = model.tgt_embedding.weight.grad
    assert gradient is not None
    assert gradient[SOURCES[0][0]].abs().max() > 0  # as a source token
    assert gradient[28].abs().max() > 0  # in neither text: as an output alone
