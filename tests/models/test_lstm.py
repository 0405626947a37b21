"""LSTM layers against torch's own, and the products of their steps against plain products."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from nmt.data.batches import pack_sources
from nmt.models.kernels.padded_layout import PaddedLayout
from nmt.models.lstm import BidirectionalLSTM, LSTMCell, StepProduct, reversal

WIDTH, HIDDEN = 6, 8


def test_both_directions_are_torch_s_bidirectional_lstm_of_each_sentence() -> None:
    torch.manual_seed(3)
    layer = BidirectionalLSTM(WIDTH, HIDDEN).double()
    for bias in (p for name, p in layer.named_parameters() if "bias" in name):
        nn.init.normal_(bias)
    expected = nn.LSTM(WIDTH, HIDDEN // 2, bidirectional=True).double()
    state = {name: weight.detach() for name, weight in layer.ahead.named_parameters()}
    state |= {f"{n}_reverse": w.detach() for n, w in layer.back.named_parameters()}
    expected.load_state_dict(state)
    lengths = (4, 1, 6)  # eos counted
    sentences = [torch.randn(length, WIDTH, dtype=torch.float64) for length in lengths]
    x = torch.full((6, 3, WIDTH), 1e3, dtype=torch.float64)  # padding that must not count
    for column, sentence in enumerate(sentences):
        x[: len(sentence), column] = sentence
    layout = PaddedLayout.of(pack_sources([[5] * (length - 1) for length in lengths]))
    found = layer(x, reversal(layout))
    for column, sentence in enumerate(sentences):
        own = found[: len(sentence), column]
        torch.testing.assert_close(own, expected(sentence)[0], atol=1e-12, rtol=0)


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


# ---------------------------------------------------------------------- products of steps

STEPS, ROWS, OUT = 4, 3, 5


def numbers() -> tuple[Tensor, Tensor, Tensor]:
    """Return a weight, a bias for all steps and the first input; the first two want a gradient."""
    torch.manual_seed(1)
    weight = torch.randn(OUT, OUT, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(OUT, dtype=torch.float64, requires_grad=True)
    return weight, bias, torch.randn(ROWS, OUT, dtype=torch.float64)


def addends(bias: Tensor, *, differ: bool) -> Tensor:
    """Return the addends (T, N, O): the bias, or other numbers at each step."""
    expanded = bias.expand(STEPS, ROWS, OUT)
    return expanded * torch.arange(1.0, STEPS + 1)[:, None, None] if differ else expanded


def by_plain_products(weight: Tensor, added: Tensor, x: Tensor) -> Tensor:
    for addend in added:
        x = torch.tanh(x @ weight.T + addend)
    return x


def by_steps(weight: Tensor, added: Tensor, x: Tensor) -> Tensor:
    product = StepProduct(weight, added)
    for _ in range(STEPS):
        x = torch.tanh(product(x))
    return x


@pytest.mark.parametrize("differ", [True, False])
def test_a_recurrence_and_its_gradients_are_those_of_plain_products(differ: bool) -> None:
    results = []
    for way in (by_plain_products, by_steps):
        weight, bias, x = numbers()
        last = way(weight, addends(bias, differ=differ), x)
        torch.autograd.backward(last.square().sum())
        results.append((last.detach(), weight.grad, bias.grad))
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)


def test_a_frozen_weight_gets_no_gradient_and_others_do() -> None:
    weight, bias, x = numbers()
    weight.requires_grad_(False)
    torch.autograd.backward(by_steps(weight, addends(bias, differ=False), x).sum())
    assert weight.grad is None
    assert bias.grad is not None


def test_the_weight_s_gradient_is_one_product() -> None:
    weight, bias, x = numbers()
    last = by_steps(weight, addends(bias, differ=False), x)
    with torch.profiler.profile() as profile:
        torch.autograd.backward(last.sum())
    products = [event for event in profile.events() or [] if event.name == "aten::mm"]
    assert len(products) == STEPS - 1 + 1  # the inputs of all steps but the first, and the weight
