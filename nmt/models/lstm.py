"""LSTM layers (Hochreiter and Schmidhuber 1997; with forget gates, Gers et al. 2000).

`BidirectionalLSTM` is an encoder layer, `LSTMCell` one step of a decoder layer. `StepProduct`
and `StepSums` multiply by the same factor at every step, with one product for its gradient.

Legend: I the width of inputs, H of a layer's output.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nmt.models.kernels.linear import linear, matmul
from nmt.models.kernels.padded_layout import PaddedLayout


class StepProduct:
    """x weight^T + addend, called once a step, for the rows of each step.

    In training, the weight's gradient is one product over all steps. Step by step it would take T
    small products and T passes over the gradient to sum them.
    """

    def __init__(self, weight: Tensor, addends: Tensor, rows: Sequence[int]) -> None:
        """Prepare the products.

        Args:
            weight: (O, I).
            addends: (r, O), known before the first step. May be expanded to this shape.
            rows: the number N of rows in each step; r is their sum.
        """
        self._inputs: list[Tensor] | None = None
        self._weight = weight
        if torch.is_grad_enabled() and weight.requires_grad:
            self._inputs, self._weight = [], weight.detach()
            addends = _WithGradientOf.apply(addends, weight, self._inputs, _for_weight)  # type: ignore[no-untyped-call]
        self._addends = iter(torch.split(addends, list(rows)))

    def __call__(self, x: Tensor) -> Tensor:
        """Return the next step's product of x (N, I): (N, O)."""
        if self._inputs is not None:
            self._inputs.append(x.detach())
        return linear(x, self._weight) + next(self._addends)


class StepSums:
    """Weighted sums of values, called once a step; their gradient is one product, too."""

    def __init__(self, values: Tensor, steps: int) -> None:
        """Prepare so many steps with the values (B, S, H)."""
        self._weights: list[Tensor] | None = None
        self._values = values
        if torch.is_grad_enabled() and values.requires_grad:
            self._weights, self._values = [], values.detach()
            count, _, width = values.shape
            nothing = values.new_zeros(()).expand(steps, count, width)
            addends = _WithGradientOf.apply(nothing, values, self._weights, _for_values)  # type: ignore[no-untyped-call]
            self._addends: Iterator[Tensor] = iter(addends.unbind())

    def __call__(self, weights: Tensor) -> Tensor:
        """Return the next step's sums (B, H) by the weights (B, S)."""
        summed: Tensor = torch.bmm(weights[:, None], self._values)[:, 0]
        if self._weights is None:
            return summed
        self._weights.append(weights.detach())
        return summed + next(self._addends)


class _WithGradientOf(torch.autograd.Function):
    """The addends unchanged. Their gradient is that of all steps, and gives that of a factor."""

    @staticmethod
    def forward(
        ctx: Any,
        addends: Tensor,
        factor: Tensor,
        others: list[Tensor],
        gradient: Callable[[Tensor, list[Tensor]], Tensor],
    ) -> Tensor:
        del factor
        # By the time of the backward pass, `others` has the other factor of each step.
        ctx.others, ctx.gradient = others, gradient
        return addends.view_as(addends)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        products = gradients[0]
        for_addends = products if ctx.needs_input_grad[0] else None
        return for_addends, ctx.gradient(products, ctx.others), None, None


def _for_weight(products: Tensor, inputs: list[Tensor]) -> Tensor:
    """Return the gradient of a weight (O, I) for that of its products (r, O) with some inputs."""
    return matmul(products.t(), torch.cat(inputs))


def _for_values(sums: Tensor, weights: list[Tensor]) -> Tensor:
    """Return the gradient of values (B, S, H) for that of their sums (T, B, H) by some weights."""
    return torch.bmm(torch.stack(weights, dim=2), sums.transpose(0, 1))  # (B, S, T), (B, T, H)


_FORGET_BIAS = 1.0
"""Makes cells remember at first (Jozefowicz et al. 2015)."""


class BidirectionalLSTM(nn.Module):
    """A layer that reads sentences in both directions, each by half of its H units.

    It uses torch's LSTM, which multiplies the inputs of all positions at once. On CPUs it goes
    through all steps in oneDNN, on GPUs in cuDNN. Both are far faster than single steps. They pad
    sentences, so it reads groups of similar length. torch's packed sequences take longer on CPUs.
    """

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.ahead = _lstm(width, hidden // 2)
        self.back = _lstm(width, hidden // 2)

    def forward(self, x: Tensor, groups: Sequence[Reading]) -> Tensor:
        """Read packed sentences x (n, I), in these groups: (n, H)."""
        read = [
            torch.cat((_read(self.ahead, x, group.ahead), _read(self.back, x, group.back)), dim=1)
            for group in groups
        ]
        return torch.cat(read)


@dataclass(frozen=True)
class Direction:
    """The order in which a group of B sentences is read, padded to S positions."""

    tokens: Tensor  # (S, B) int64: the token at each place; at padding, any of the same sentence
    places: Tensor  # (n of the group,) int64: where each token is, in tokens.flatten()


@dataclass(frozen=True)
class Reading:
    """How to read a group of sentences in both directions."""

    ahead: Direction
    back: Direction

    @classmethod
    def of(cls, layout: PaddedLayout) -> Reading:
        """Read the sentences of a padded layout.

        For example, sentences of 3 and 2 tokens are 0 1 2 and 3 4. Ahead, they are read as the rows
        0 3, 1 4 and 2 -, and back as 2 4, 1 3 and 0 -.
        """
        count, longest = layout.tokens.shape
        lengths = layout.mask.sum(dim=1)  # (B,)
        steps = torch.arange(longest, device=lengths.device)
        reversed_ = (lengths[:, None] - 1 - steps).clamp_min(0)  # (B, S)
        turned = lengths[layout.sentences] - 1 - layout.positions  # (n,)
        return cls(
            Direction(layout.tokens.t(), layout.positions * count + layout.sentences),
            Direction(layout.tokens.gather(1, reversed_).t(), turned * count + layout.sentences),
        )


def _read(lstm: nn.LSTM, x: Tensor, order: Direction) -> Tensor:
    """Read a group of the packed sentences x (n, I): (n of the group, H / 2)."""
    padded = x.index_select(0, order.tokens.flatten()).view(*order.tokens.shape, -1)  # (S, B, I)
    with warnings.catch_warnings():
        # The weights are views of the vector of all weights, and cuDNN copies them.
        warnings.filterwarnings("ignore", "RNN module weights are not part of single")
        states, _ = lstm(padded)  # (S, B, H / 2)
    return states.flatten(0, 1).index_select(0, order.places)  # type: ignore[no-any-return]


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
