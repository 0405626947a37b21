"""The recurrent model against loops over one sentence, one position and one unit at a time.

Properties that all architectures share are tested in test_base.py.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import cast

import numpy as np
import pytest
import torch
from pairs import batch_of
from reference import Array, additive_attention, lstm_step
from tiny_models import BOS, EOS, SOURCES, TARGETS, TINY, assert_equal, forced_logits, tiny
from torch import nn

from nmt.data.batches import pack_sources
from nmt.model_config import RecurrentConfig
from nmt.models.layers import seed_dropout
from nmt.models.recurrent import AdditiveAttention, RecurrentModel

CONFIG = cast(RecurrentConfig, TINY["rnn_attention"])
HIDDEN = CONFIG.d_hidden


def model(tie_embeddings: str = "none") -> RecurrentModel:
    """A tiny one whose biases are not zeros and ones, either."""
    made = tiny("rnn_attention", tie_embeddings)
    assert isinstance(made, RecurrentModel)
    for name, parameter in made.named_parameters():
        if "bias" in name:
            nn.init.normal_(parameter, std=0.5)
    return made


def by_loops(weights: dict[str, Array], source: list[int], target: list[int]) -> tuple[Array, ...]:
    """The logits (T, V) and the attention's weights (T, S), from the papers' equations."""
    scale = np.sqrt(weights["tgt_embedding.weight"].shape[1])
    states = [scale * weights["src_embedding.weight"][token] for token in [*source, EOS]]
    for layer in range(CONFIG.num_encoder_layers):
        read = list(zip(*(directions(weights, layer, states)), strict=True))
        outputs = [np.concatenate(both) for both in read]
        states = [x + y for x, y in zip(states, outputs, strict=True)] if layer else outputs
    memory = np.stack(states)
    w, u, v = (weights[f"decoder.attention.{name}"] for name in ("query", "key", "score"))
    fed = zeros(CONFIG.d_model)
    hidden, cells = ([zeros(HIDDEN)] * CONFIG.num_decoder_layers for _ in range(2))
    logits, looks = [], []
    for token in [BOS, *target]:
        x = fed
        for layer in range(CONFIG.num_decoder_layers):
            own = {name: weights[f"decoder.cells.{layer}.{name}"] for name in ("weight", "bias")}
            gates = own["weight"] @ np.concatenate((x, hidden[layer])) + own["bias"]
            if layer == 0:
                embedding = scale * weights["tgt_embedding.weight"][token]
                gates = gates + weights["decoder.embedded"] @ embedding
            i, f, o, g = np.split(gates, 4)
            hidden[layer], cells[layer] = lstm_step(i, f, o, g, cells[layer])
            x = x + hidden[layer] if layer else hidden[layer]
        look = additive_attention(x, memory, w, u, v)
        fed = np.tanh(weights["decoder.attentional"] @ np.concatenate((look @ memory, x)))
        logits.append(weights["output_projection"] @ fed)
        looks.append(look)
    return np.stack(logits), np.stack(looks)


def directions(
    weights: dict[str, Array], layer: int, inputs: list[Array]
) -> tuple[list[Array], list[Array]]:
    """The outputs of an encoder layer's two LSTMs at each position."""
    found = []
    for name in ("ahead", "back"):
        of = {key: weights[f"encoder.{layer}.{name}.{key}_l0"] for key in NAMES}
        output, cells = zeros(HIDDEN // 2), zeros(HIDDEN // 2)
        outputs: list[Array] = []
        for x in inputs if name == "ahead" else inputs[::-1]:
            gates = of["weight_ih"] @ x + of["bias_ih"] + of["weight_hh"] @ output + of["bias_hh"]
            i, f, g, o = np.split(gates, 4)  # torch's order
            output, cells = lstm_step(i, f, o, g, cells)
            outputs.append(output)
        found.append(outputs if name == "ahead" else outputs[::-1])
    return found[0], found[1]


def zeros(count: int) -> Array:
    return np.zeros(count)


NAMES = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


@pytest.mark.parametrize("tie_embeddings", ["none", "all"])
def test_logits_and_weights_are_those_of_loops_over_the_equations(tie_embeddings: str) -> None:
    made = model(tie_embeddings)
    named = made.named_parameters(remove_duplicate=False)
    weights = {name: parameter.detach().numpy() for name, parameter in named}
    looks = made.attention_weights(batch_of(SOURCES, TARGETS)).cross  # (1, B, 1, T, S)
    for index, logits in enumerate(forced_logits(made, SOURCES, TARGETS)):
        source, target = SOURCES[index], TARGETS[index]
        expected, expected_looks = by_loops(weights, source, target)
        assert_equal(logits, torch.from_numpy(expected))
        own = looks[0, index, 0, : len(target) + 1, : len(source) + 1]
        assert_equal(own, torch.from_numpy(expected_looks))


def test_hypotheses_of_a_sentence_share_what_is_computed_of_it() -> None:
    made = model()
    with torch.inference_mode():
        state = made.begin(pack_sources(SOURCES))
        state.select(torch.arange(3).repeat_interleave(5), torch.arange(3))
    keys = state.keys
    assert len(keys.keys) == len(keys.values) == len(keys.mask) == len(SOURCES)


def test_additive_attention_by_hand() -> None:
    # One query 1 and keys 0 and 1, all of one number, W = U = 1 and v = 2: scores are 2 tanh(1)
    # and 2 tanh(2), so the second weight is 1 / (1 + exp(2 tanh(1) - 2 tanh(2))) = 0.5999.
    attention = AdditiveAttention(1, 1).double()
    with torch.no_grad():
        for parameter, number in ((attention.query, 1), (attention.key, 1), (attention.score, 2)):
            parameter.fill_(number)
        values = torch.tensor([[[0.0], [1.0]]], dtype=torch.float64)
        memory = attention.keys(values, torch.ones(1, 2, dtype=torch.bool))
        found, weights = attention(torch.ones(1, 1, dtype=torch.float64), memory)
    second = 1 / (1 + math.exp(2 * math.tanh(1) - 2 * math.tanh(2)))
    assert round(second, 4) == 0.5999
    np.testing.assert_allclose(weights, [[1 - second, second]], atol=1e-12)
    np.testing.assert_allclose(found, [[second]], atol=1e-12)


def test_dropout_is_never_on_the_state_for_the_next_step() -> None:
    # The fed state is never scaled. Only the states for the logits are 0 or doubled.
    torch.manual_seed(1)
    config = replace(CONFIG, dropout=0.5, tie_embeddings="none")
    made = RecurrentModel(config, 30, 30).double().train()
    fed: list[torch.Tensor] = []
    made.decoder.register_forward_hook(lambda _module, _args, found: fed.append(found[0]))
    seed_dropout(1)
    states = made(batch_of(SOURCES[:1], TARGETS[:1])).detach()
    undropped = fed[0][:, 0].detach()
    assert (undropped != 0).all()
    kept = states != 0
    assert 0.2 < kept.double().mean() < 0.8
    assert_equal(states[kept], 2 * undropped[kept])


def test_odd_units_cannot_be_shared_by_two_directions() -> None:
    assert RecurrentConfig(d_hidden=7).problems() == [
        "d_hidden 7 is odd; the encoder's two directions share it"
    ]
    assert not RecurrentConfig().problems()
