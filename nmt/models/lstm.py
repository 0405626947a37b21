"""Long short-term memory (Hochreiter and Schmidhuber 1997; with forget gates, Gers et al. 2000).

Legend: I the width of inputs, H of a layer's output.

The product with one weight at every step of a recurrence.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor, nn

from nmt.models.kernels.linear import linear, matmul
from nmt.models.kernels.padded_layout import Table


class StepProduct:
    """x weight^T + addend, called once a step, for T steps and N rows in each.

    In training the weight's gradient is one product over all steps: taken step by step it would be
    T small products, and as many passes over the gradient to add them up.
    """

    def __init__(self, weight: Tensor, addends: Tensor) -> None:
        """Prepare the products.

        Args:
            weight: (O, I).
            addends: (T, N, O), what is known before the first step; may be expanded to that shape.
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
    """Addends as they are; their gradient, which is that of the products, also is the weight's."""

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
"""So that cells remember at first (Jozefowicz et al. 2015)."""


class BidirectionalLSTM(nn.Module):
    """A layer that reads B sentences in both directions, each by half of its H units.

    torch's own LSTM does it, with the input products of all positions at once; on GPUs that is
    cuDNN's, which is far faster than steps one by one. Sentences stand in a table, and are turned
    round in it for the second direction: torch's packed sequences take CPUs as long, and let the
    CPU wait for a GPU to tell it their lengths.
    """

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.ahead = _lstm(width, hidden // 2)
        self.back = _lstm(width, hidden // 2)

    def forward(self, x: Tensor, order: Tensor) -> Tensor:
        """Read x (S, B, I), a sentence in each column, with its table's `reversal`: (S, B, H)."""
        with warnings.catch_warnings():
            # They are views of the vector of all weights, and cuDNN copies them.
            warnings.filterwarnings("ignore", "RNN module weights are not part of single")
            ahead, _ = self.ahead(x)  # (S, B, H / 2)
            back, _ = self.back(turned(x, order))  # (S, B, H / 2)
        return torch.cat((ahead, turned(back, order)), dim=2)


def turned(x: Tensor, order: Tensor) -> Tensor:
    """Return x (S, B, any) with each sentence, a column, the other way round, by its `reversal`."""
    return x.flatten(0, 1).index_select(0, order).view_as(x)


def reversal(table: Table) -> Tensor:
    """Return for each place of a table that stands time first the one at the sentence's other end.

    Of two sentences with 3 and 2 tokens, the first row of each comes from places 4 and 3, which is
    where they end; padding, wherever it comes from, is padding.

    Returns:
        (S * B,) int64: places are numbered as in x.flatten(0, 1) for x (S, B, any).
    """
    count, longest = table.tokens.shape
    lengths = table.mask.sum(dim=1)  # (B,)
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
    """What a layer does in one step: its weights, and from gates to the next state.

    Gates stand in the order input, forget, output, candidate.
    """

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        bound = hidden**-0.5
        # (4H, I + H): of what comes in, and of the layer's last output
        self.weight = nn.Parameter(
            nn.init.uniform_(torch.empty(4 * hidden, width + hidden), -bound, bound)
        )
        self.bias = nn.Parameter(torch.zeros(4 * hidden))  # (4H,)
        nn.init.constant_(self.bias[hidden : 2 * hidden], _FORGET_BIAS)

    def forward(self, gates: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return the output and the cells' next content, each (N, H).

        Args:
            gates: (N, 4H), before they are squashed.
            memory: (N, H), the content of the cells.
        """
        taken, kept, shown = gates[:, : 3 * self.hidden].sigmoid().chunk(3, dim=1)
        candidate = gates[:, 3 * self.hidden :].tanh()
        memory = torch.addcmul(kept * memory, taken, candidate)  # (N, H)
        return shown * memory.tanh(), memory
