"""The Transformer, in all of its variants, is the formulas of its papers, and torch's own.

Properties that all architectures share are tested in test_base.py.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from pairs import batch_of
from reference import attention, rotated, sinusoidal_positions, sinusoids_by_halves
from tiny_models import BOS, EOS, SOURCES, TARGETS, TINY, assert_equal, forced_logits, tiny
from torch import Tensor

from nmt.config.model_config import TransformerConfig
from nmt.models.registry import build_model
from nmt.models.transformer import Transformer

KINDS = {kind: config for kind, config in TINY.items() if isinstance(config, TransformerConfig)}


def randomised(kind: str, tie_embeddings: str = "none") -> Transformer:
    """A tiny model with biases and norms that are not the zeros and ones of the start."""
    model = tiny(kind, tie_embeddings)
    assert isinstance(model, Transformer)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter), alpha=0.3)
    return model


def sinusoids(length: int, width: int) -> Tensor:
    """The positions' vectors, which are in fp32."""
    return torch.from_numpy(sinusoidal_positions(length, width)).float()


# ------------------------------------------------------------------------------ by formulas


class ByFormulas:
    """One pair of sentences, by the formulas."""

    def __init__(self, model: Transformer) -> None:
        self.config = model.config
        named = model.named_parameters(remove_duplicate=False)
        self.of = {name: parameter.detach() for name, parameter in named}
        self.weights: dict[str, Tensor] = {}  # (H, T, S) of each attention

    def logits(self, source: list[int], target: list[int]) -> Tensor:
        memory = self.stack("encoder", self.embed("src", source + [EOS] * self.config.source_end))
        x = self.stack("decoder", self.embed("tgt", [BOS, *target]), memory)
        return x @ self.of["output_projection"].t() + self.of.get("output_bias", 0.0)

    def embed(self, side: str, ids: list[int]) -> Tensor:
        if self.config.first_input == "eos":
            ids = [EOS if token == BOS else token for token in ids]
        x = self.of[f"{side}_embedding.weight"][ids] * math.sqrt(self.config.d_model)
        if self.config.first_input == "zeros":
            x[[token == BOS for token in ids]] = 0.0
        first = self.config.first_position
        if self.config.positions == "sinusoidal":
            return x + sinusoids(first + len(ids), self.config.d_model)[first:]
        if self.config.positions == "sinusoidal_halves":
            rows = sinusoids_by_halves(first + len(ids), self.config.d_model)[first:]
            return x + torch.from_numpy(rows).float()
        if self.config.positions == "learned":  # later positions share the last vector
            vectors = self.of[f"{side}_positions.weight"]
            return x + vectors[torch.arange(len(ids)).clamp(max=len(vectors) - 1)]
        return x

    def stack(self, side: str, x: Tensor, memory: Tensor | None = None) -> Tensor:
        for number in range(getattr(self.config, f"num_{side}_layers")):
            layer = f"{side}.{number}"
            attend = partial(self.attend, f"{layer}.attention", is_causal=memory is not None)
            if memory is not None and self.config.decoder_memory == "ssru":
                attend = partial(self.recur, f"{layer}.attention")
            x = self.residual(f"{layer}.after_attention.norm", x, attend)
            if memory is not None:
                attend = partial(self.attend, f"{layer}.cross_attention", memory=memory)
                x = self.residual(f"{layer}.after_cross_attention.norm", x, attend)
            feed_forward = partial(self.feed_forward, f"{layer}.feed_forward")
            x = self.residual(f"{layer}.after_feed_forward.norm", x, feed_forward)
        return self.norm(f"{side}_norm", x) if self.config.pre_norm else x

    def residual(self, norm: str, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        if self.config.pre_norm:
            return x + sublayer(self.norm(norm, x))
        return self.norm(norm, x + sublayer(x))

    def norm(self, name: str, x: Tensor) -> Tensor:
        gain = self.of[f"{name}.weight"]
        if self.config.norm == "rms":
            return x / (x.square().mean(1, keepdim=True) + 1e-6).sqrt() * gain
        x, epsilon = x - x.mean(1, keepdim=True), self.config.norm_epsilon or 1e-5
        scale = (x.square().mean(1, keepdim=True) + epsilon).sqrt()
        return x / scale * gain + self.of[f"{name}.bias"]

    def feed_forward(self, name: str, x: Tensor) -> Tensor:
        inner, outer = self.of[f"{name}.inner.weight"].t(), self.of[f"{name}.outer.weight"].t()
        if self.config.feed_forward == "swiglu":
            a, b = (x @ inner).chunk(2, dim=1)
            return (a * a.sigmoid() * b) @ outer
        hidden = x @ inner + self.of[f"{name}.inner.bias"]
        match self.config.feed_forward:
            case "relu":
                hidden = hidden.clamp(min=0)
            case "swish":
                hidden = hidden * hidden.sigmoid()
            case "gelu":  # times the share of a normal distribution below
                hidden = hidden * (1 + torch.erf(hidden / math.sqrt(2))) / 2
        return hidden @ outer + self.of[f"{name}.outer.bias"]

    def attend(
        self, name: str, x: Tensor, memory: Tensor | None = None, is_causal: bool = False
    ) -> Tensor:
        heads = self.config.num_heads
        keys, values = (heads * width for width in self.config.head_widths)
        if memory is None:
            parts = torch.split(self.project(f"{name}.qkv", x), [keys, keys, values], dim=1)
        else:
            key_value = self.project(f"{name}.key_value", memory)
            query = self.project(f"{name}.query", x)
            parts = (query, *torch.split(key_value, [keys, values], dim=1))
        # Each (H, n, width).
        q, k, v = (part.reshape(len(part), heads, -1).transpose(0, 1).numpy() for part in parts)
        mask, relative = np.ones((len(x), k.shape[1]), dtype=bool), []
        if memory is None:
            mask &= np.arange(len(x)) - np.arange(len(x))[:, None] <= (0 if is_causal else len(x))
            if self.config.positions == "rotary":
                for head in (*q, *k):
                    head[:] = [rotated(vector, place) for place, vector in enumerate(head)]
            if self.config.positions == "relative":
                relative = [self.of[f"{name}.relative.{of}"].numpy() for of in ("keys", "values")]
        attended, weights = map(torch.from_numpy, attention(q, k, v, mask, relative))
        self.weights[name] = weights
        return self.project(f"{name}.output", attended.transpose(0, 1).flatten(1))

    def recur(self, name: str, x: Tensor) -> Tensor:
        weight, forget_weight = self.of[f"{name}.weight"].chunk(2)
        cell, outputs = torch.zeros_like(x[0]), []
        for vector in x:
            forget = (forget_weight @ vector + self.of[f"{name}.bias"]).sigmoid()
            cell = forget * cell + (1 - forget) * (weight @ vector)
            outputs.append(cell.clamp(min=0))
        return torch.stack(outputs)

    def project(self, name: str, x: Tensor) -> Tensor:
        return x @ self.of[name].t() + self.of.get(f"{name}_bias", 0.0)


@pytest.mark.parametrize("tie_embeddings", ["all", "decoder", "none"])
@pytest.mark.parametrize("kind", KINDS)
def test_logits_and_weights_are_those_of_the_formulas(kind: str, tie_embeddings: str) -> None:
    model = randomised(kind, tie_embeddings)
    # Cosines and sines of rotations are rounded to fp32.
    tolerance = 1e-5 if model.config.positions == "rotary" else 1e-12
    by_model = model.attention_weights(batch_of(SOURCES, TARGETS))
    for index, logits in enumerate(forced_logits(model, SOURCES, TARGETS)):
        expected = ByFormulas(model)
        assert_equal(logits, expected.logits(SOURCES[index], TARGETS[index]), tolerance)
        for name, weights in expected.weights.items():
            side, layer, kind = name.split(".")
            part = by_model.cross if kind == "cross_attention" else getattr(by_model, side)
            found = part[int(layer), index, :, : weights.shape[1], : weights.shape[2]]
            assert_equal(found, weights, tolerance)


def test_an_encoder_may_read_no_eos() -> None:
    model = randomised("transformer_imported_pre_norm", "none")
    model.config = replace(model.config, source_end=False)
    sources = [source or [EOS + 1] for source in SOURCES]
    for index, logits in enumerate(forced_logits(model, sources, TARGETS)):
        assert_equal(logits, ByFormulas(model).logits(sources[index], TARGETS[index]), 1e-12)


# ------------------------------------------------------------------------------- fresh weights


@pytest.mark.parametrize("kind", ["transformer_learned_positions", "transformer_modern"])
def test_weights_start_at_their_usual_sizes(kind: str) -> None:
    torch.manual_seed(1)
    config = replace(KINDS[kind], d_model=64, d_ff=256, max_positions=500)
    model = build_model("transformer", config, 500, 500)
    # Xavier's uniform bound is sqrt(6 / (fan-in + fan-out)). Queries, keys and values count as one
    # 3D x D matrix. The last matrix of a sub-layer starts at half of its bound.
    square, queries, wide = (math.sqrt(6 / (64 + other)) for other in (64, 3 * 64, 256))
    bounds = dict.fromkeys(("qkv", "query", "key_value"), queries)
    bounds |= {"output": square / 2, "inner.weight": wide, "outer.weight": wide / 2}
    for name, parameter in model.named_parameters():
        weight, kind = parameter.detach(), name.split(".", 3)[-1]
        if weight.dim() == 1:
            assert torch.equal(weight, torch.full_like(weight, float("norm.weight" in name)))
        elif "coder" in name:
            for part in torch.split(weight, 256 if "inner" in name else 64):
                assert 0.98 * bounds[kind] < float(part.abs().max()) <= bounds[kind], name
        else:  # vectors of tokens and positions; the variance of 32,000 draws is 1 / 64
            assert float(weight.std()) == pytest.approx(1 / 8, rel=0.02), name


@torch.no_grad()
@pytest.mark.parametrize("kind", KINDS)
def test_a_fresh_model_has_logits_of_a_variance_near_one(kind: str) -> None:
    # So the loss starts near log V.
    torch.manual_seed(1)
    model = build_model("transformer", replace(KINDS[kind], d_model=64, d_ff=256), 500, 500).eval()
    assert 0.5 < float(model.project(model(batch_of(SOURCES, TARGETS))).std()) < 2.0
