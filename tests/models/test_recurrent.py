"""The recurrent model is its papers' equations, one sentence and one position at a time.

Properties that all architectures share are tested in test_base.py.
"""

from dataclasses import replace
from typing import cast

import pytest
import torch
from pairs import batch_of
from tiny_models import BOS, EOS, SOURCES, TARGETS, TINY, assert_equal, forced_logits, tiny
from torch import Tensor, nn

from nmt.config.model_config import RecurrentConfig
from nmt.models.layers import seed_dropout
from nmt.models.recurrent import BidirectionalLSTM, LSTMCell, RecurrentModel

CONFIG = cast(RecurrentConfig, TINY["rnn_attention"])
HIDDEN = CONFIG.d_hidden


def read(layer: nn.Module, x: Tensor) -> Tensor:
    """Read a sentence (S, I) by torch's bidirectional LSTM with the same weights: (S, H)."""
    assert isinstance(layer, BidirectionalLSTM)
    lstm = nn.LSTM(x.shape[1], HIDDEN // 2, bidirectional=True).double()
    weights = dict(layer.ahead.named_parameters())
    weights |= {f"{name}_reverse": weight for name, weight in layer.back.named_parameters()}
    lstm.load_state_dict(weights)
    states: Tensor = lstm(x)[0]
    return states


def by_equations(
    model: RecurrentModel, source: list[int], target: list[int]
) -> tuple[Tensor, Tensor]:
    """The logits (T, V) and the attention's weights (T, S) of a pair."""
    scale, decoder = CONFIG.d_model**0.5, model.decoder
    first, *others = model.encoder
    memory = read(first, scale * model.src_embedding.weight[[*source, EOS]])
    for layer in others:
        memory = memory + read(layer, memory)  # (S, H)
    fed = memory.new_zeros(CONFIG.d_model)
    hidden, memories = ([memory.new_zeros(HIDDEN)] * len(decoder.cells) for _ in range(2))
    logits, looks = [], []
    for token in [BOS, *target]:
        x = fed
        for number, cell in enumerate(cast("list[LSTMCell]", decoder.cells)):
            gates = cell.weight @ torch.cat((x, hidden[number])) + cell.bias
            if number == 0:
                gates = gates + decoder.embedded @ (scale * model.tgt_embedding.weight[token])
            i, f, o, g = gates.chunk(4)
            memories[number] = f.sigmoid() * memories[number] + i.sigmoid() * g.tanh()
            hidden[number] = o.sigmoid() * memories[number].tanh()
            x = x + hidden[number] if number else hidden[number]
        w, u, v = (decoder.attention.get_parameter(name) for name in ("query", "key", "score"))
        look = ((w @ x + memory @ u.t()).tanh() @ v).softmax(dim=0)  # (S,)
        fed = (decoder.attentional @ torch.cat((look @ memory, x))).tanh()
        logits.append(model.output_projection @ fed)
        looks.append(look)
    return torch.stack(logits), torch.stack(looks)


@torch.no_grad()
@pytest.mark.parametrize("tie_embeddings", ["none", "all"])
def test_logits_and_weights_are_those_of_the_equations(tie_embeddings: str) -> None:
    model = cast(RecurrentModel, tiny("rnn_attention", tie_embeddings))
    for name, parameter in model.named_parameters():
        if "bias" in name:
            nn.init.normal_(parameter, std=0.5)
    found = model.attention_weights(batch_of(SOURCES, TARGETS)).cross  # (1, B, 1, T, S)
    for index, own_logits in enumerate(forced_logits(model, SOURCES, TARGETS)):
        logits, looks = by_equations(model, SOURCES[index], TARGETS[index])
        assert_equal(own_logits, logits)
        assert_equal(found[0, index, 0, : looks.shape[0], : looks.shape[1]], looks)


def test_dropout_is_never_on_the_state_for_the_next_step() -> None:
    # The fed state is never scaled. Only the states for the logits are 0 or doubled.
    torch.manual_seed(1)
    config = replace(CONFIG, dropout=0.5, tie_embeddings="none")
    model = RecurrentModel(config, 30, 30).double().train()
    fed: list[Tensor] = []
    model.decoder.register_forward_hook(lambda _module, _args, found: fed.append(found[0]))
    seed_dropout(1)
    states = model(batch_of(SOURCES[:1], TARGETS[:1])).detach()
    undropped = fed[0].detach()
    assert (undropped != 0).all()
    kept = states != 0
    assert 0.2 < kept.double().mean() < 0.8
    assert_equal(states[kept], 2 * undropped[kept])


BOTH = BidirectionalLSTM(6, 16)


@pytest.mark.parametrize("bias", [LSTMCell(6, 8).bias, BOTH.ahead.bias_ih_l0, BOTH.back.bias_ih_l0])
def test_cells_remember_at_first(bias: Tensor) -> None:
    # In torch's order and in ours, forget gates are the second of four.
    assert bias.view(4, 8).mean(dim=1).tolist() == [0.0, 1.0, 0.0, 0.0]


def test_odd_units_cannot_be_shared_by_two_directions() -> None:
    (problem,) = RecurrentConfig(d_hidden=7).problems()
    assert problem.startswith("d_hidden 7 ")
    assert not RecurrentConfig().problems()
