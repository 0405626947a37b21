"""LSTM layers against torch's own, sentence by sentence."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from nmt.data.batches import pack_sources
from nmt.models.kernels.padded_layout import PaddedLayout
from nmt.models.lstm import BidirectionalLSTM, LSTMCell, reversal, reversed_sentences

WIDTH, HIDDEN = 6, 8
LENGTHS = (4, 1, 6)  # eos counted


def layout() -> PaddedLayout:
    return PaddedLayout.of(pack_sources([[5] * (length - 1) for length in LENGTHS]))


def sentences() -> list[Tensor]:
    torch.manual_seed(2)
    return [torch.randn(length, WIDTH, dtype=torch.float64) for length in LENGTHS]


def laid_out() -> Tensor:
    """The sentences as a padded tensor (S, B, I), with numbers at padding that nothing may see."""
    x = torch.full((max(LENGTHS), len(LENGTHS), WIDTH), 1e3, dtype=torch.float64)
    for column, sentence in enumerate(sentences()):
        x[: len(sentence), column] = sentence
    return x


def test_turning_puts_each_sentence_the_other_way_round() -> None:
    found = reversed_sentences(laid_out(), reversal(layout()))
    for column, sentence in enumerate(sentences()):
        assert torch.equal(found[: len(sentence), column], sentence.flip(0))


def test_both_directions_are_torch_s_bidirectional_lstm_of_each_sentence() -> None:
    torch.manual_seed(3)
    layer = BidirectionalLSTM(WIDTH, HIDDEN).double()
    for bias in (p for name, p in layer.named_parameters() if "bias" in name):
        nn.init.normal_(bias)
    expected = nn.LSTM(WIDTH, HIDDEN // 2, bidirectional=True).double()
    state = {name: weight.detach() for name, weight in layer.ahead.named_parameters()}
    state |= {f"{n}_reverse": w.detach() for n, w in layer.back.named_parameters()}
    expected.load_state_dict(state)
    found = layer(laid_out(), reversal(layout()))
    for column, sentence in enumerate(sentences()):
        torch.testing.assert_close(
            found[: len(sentence), column], expected(sentence)[0], atol=1e-12, rtol=0
        )


def test_a_cell_is_torch_s_with_gates_in_another_order() -> None:
    torch.manual_seed(4)
    cell = LSTMCell(WIDTH, HIDDEN).double()
    nn.init.normal_(cell.bias)
    expected = nn.LSTMCell(WIDTH, HIDDEN).double()
    i, f, o, g = (slice(k * HIDDEN, (k + 1) * HIDDEN) for k in range(4))
    order = torch.cat([torch.arange(4 * HIDDEN)[part] for part in (i, f, g, o)])
    with torch.no_grad():
        expected.weight_ih.copy_(cell.weight[order, :WIDTH])
        expected.weight_hh.copy_(cell.weight[order, WIDTH:])
        expected.bias_ih.copy_(cell.bias[order])
        expected.bias_hh.zero_()
    x, output, memory = (
        torch.randn(3, width, dtype=torch.float64) for width in (WIDTH, HIDDEN, HIDDEN)
    )
    gates = torch.cat((x, output), dim=1) @ cell.weight.T + cell.bias
    for found, wanted in zip(cell(gates, memory), expected(x, (output, memory)), strict=True):
        torch.testing.assert_close(found, wanted, atol=1e-12, rtol=0)


@pytest.mark.parametrize(
    "bias",
    [
        LSTMCell(WIDTH, HIDDEN).bias,
        BidirectionalLSTM(WIDTH, 2 * HIDDEN).ahead.bias_ih_l0,
        BidirectionalLSTM(WIDTH, 2 * HIDDEN).back.bias_ih_l0,
    ],
)
def test_cells_remember_at_first(bias: Tensor) -> None:
    # In torch's order and in ours, forget gates are the second of four.
    assert bias.view(4, HIDDEN).mean(dim=1).tolist() == [0.0, 1.0, 0.0, 0.0]
