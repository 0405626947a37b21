"""LSTM layers (Hochreiter and Schmidhuber 1997; with forget gates, Gers et al. 2000).

`BidirectionalLSTM` is an encoder layer, `LSTMCell` one step of a decoder layer. `StepProduct`
multiplies by the same weight at every step, with one product for its gradient.

Legend: I the width of inputs, H of a layer's output.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor, nn

from nmt.models.kernels.linear import linear, matmul
from nmt.models.kernels.padded_layout import PaddedLayout


class StepProduct:
    """x weight^T + addend, called once a step, for T steps and N rows in each.

    In training, the weight's gradient is one product over all steps. Step by step it would take T
    small products and T passes over the gradient to sum them.
    """

    def __init__(self, weight: Tensor, addends: Tensor) -> None:
        """Prepare the products.

        Args:
            weight: (O, I).
            addends: (T, N, O), known before the first step. May be expanded to this shape.
        """
        self._inputs: list[Tensor] | None = None
        self._weight = weight
        if torch.is_grad_enabled() and weight.requires_grad:
            self._inputs, self._weight = [], weight.detach()
            addends = _WithGradientOf.apply(addends, weight, self._inputs)  # type: ignore[no-untyped-call]
        self._addends = iter(addends.unbind())

    def __call__(self, x: Tensor) -> Tensor:
        """Return the next step's product of x (N, I): (N, O)."""
        if self._inputs is not None:
            self._inputs.append(x.detach())
        return linear(x, self._weight) + next(self._addends)


class _WithGradientOf(torch.autograd.Function):
    """The addends unchanged. Their gradient is that of the products, and gives the weight's."""

    @staticmethod
    def forward(ctx: Any, addends: Tensor, weight: Tensor, inputs: list[Tensor]) -> Tensor:
        del weight
        ctx.inputs = inputs  # T of (N, I), by the time of the backward pass
        return addends.view_as(addends)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        products = gradients[0]  # (T, N, O)
        for_weight = matmul(products.flatten(0, 1).t(), torch.cat(ctx.inputs), "weight")  # (O, I)
        return (products if ctx.needs_input_grad[0] else None), for_weight, None


_FORGET_BIAS = 1.0
"""Makes cells remember at first (Jozefowicz et al. 2015)."""


class BidirectionalLSTM(nn.Module):
    """A layer that reads B sentences in both directions, each by half of its H units.

    It uses torch's LSTM, which multiplies the inputs of all positions at once. On GPUs this is
    cuDNN, which is far faster than single steps. Sentences are padded, and reversed for the second
    direction. torch's packed sequences are no faster on CPUs, and on GPUs they wait for the
    sentences' lengths.
    """

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.ahead = _lstm(width, hidden // 2)
        self.back = _lstm(width, hidden // 2)

    def forward(self, x: Tensor, order: Tensor) -> Tensor:
        """Read x (S, B, I), with the `reversal` of its padded layout: (S, B, H)."""
        with warnings.catch_warnings():
            # The weights are views of the vector of all weights, and cuDNN copies them.
            warnings.filterwarnings("ignore", "RNN module weights are not part of single")
            ahead, _ = self.ahead(x)  # (S, B, H / 2)
            back, _ = self.back(reversed_sentences(x, order))  # (S, B, H / 2)
        return torch.cat((ahead, reversed_sentences(back, order)), dim=2)


def reversed_sentences(x: Tensor, order: Tensor) -> Tensor:
    """Return x (S, B, any) with each sentence, a column, reversed by `order` from `reversal`."""
    return x.flatten(0, 1).index_select(0, order).view_as(x)


def reversal(layout: PaddedLayout) -> Tensor:
    """Return the order that reverses each sentence of a padded layout, time first.

    For example, two sentences of 3 and 2 tokens are at 0 2 4 and 1 3. Their first rows come from 4
    and 3, where they end. Padding may come from anywhere.

    Returns:
        (S * B,) int64, positions in x.flatten(0, 1) for x (S, B, any).
    """
    count, longest = layout.tokens.shape
    lengths = layout.mask.sum(dim=1)  # (B,)
    device = lengths.device
    positions = lengths - 1 - torch.arange(longest, device=device)[:, None]  # (S, B)
    return (positions.clamp_min(0) * count + torch.arange(count, device=device)).flatten()


def _lstm(width: int, hidden: int) -> nn.LSTM:
    lstm = nn.LSTM(width, hidden)
    biases: list[nn.Parameter] = [lstm.get_parameter(f"bias_{of}_l0") for of in ("ih", "hh")]
    for bias in biases:
        nn.init.zeros_(bias)
    nn.init.constant_(biases[0][hidden : 2 * hidden], _FORGET_BIAS)
    return lstm


class LSTMCell(nn.Module):
    """One step of a layer: its weights, and the next state from the gates.

    Gates are in the order input, forget, output, candidate.
    """

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        bound = hidden**-0.5
        # (4H, I + H) for the input and the layer's last output
        self.weight = nn.Parameter(
            nn.init.uniform_(torch.empty(4 * hidden, width + hidden), -bound, bound)
        )
        self.bias = nn.Parameter(torch.zeros(4 * hidden))  # (4H,)
        nn.init.constant_(self.bias[hidden : 2 * hidden], _FORGET_BIAS)

    def forward(self, gates: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return the output and the next cell state, each (N, H).

        Args:
            gates: (N, 4H), before sigmoid and tanh.
            memory: (N, H), the cell state.
        """
        input_gate, forget_gate, output_gate = gates[:, : 3 * self.hidden].sigmoid().chunk(3, dim=1)
        candidate = gates[:, 3 * self.hidden :].tanh()
        memory = torch.addcmul(forget_gate * memory, input_gate, candidate)  # (N, H)
        return output_gate * memory.tanh(), memory
