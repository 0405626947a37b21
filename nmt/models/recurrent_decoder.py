"""LSTM decoder with attention and input feeding (Luong et al. 2015, section 3.3).

Legend: N hypotheses, T positions, D the width of embeddings and attentional states, H that of
layers, A that of the attention's hidden layer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import cast

import torch
from torch import Tensor, nn

from nmt.model_config import RecurrentConfig
from nmt.models.additive_attention import AdditiveAttention
from nmt.models.dropout import add_dropped, dropout
from nmt.models.linear import linear
from nmt.models.lstm import LSTMCell
from nmt.models.step_product import StepProduct

Passed = tuple[Tensor, ...]
"""What a step passes to the next, of N hypotheses: the attentional state (N, D), then of each layer
its output (N, H) and what its cells hold (N, H)."""

Attend = Callable[[Tensor], Tensor]
"""From queries (N, A) to what they find in the memory (N, H)."""


class InputFeedingDecoder(nn.Module):
    """Layers of LSTMs, the attention of the last, and the attentional state."""

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        embedded, hidden = config.d_model, config.d_hidden
        self.config = config
        # The first layer reads the last token's embedding, too, which training knows beforehand.
        bound = hidden**-0.5
        self.embedded = nn.Parameter(
            nn.init.uniform_(torch.empty(4 * hidden, embedded), -bound, bound)
        )  # (4H, D)
        widths = [embedded] + [hidden] * (config.num_decoder_layers - 1)
        self.cells = nn.ModuleList(LSTMCell(width, hidden) for width in widths)
        self.attention = AdditiveAttention(hidden, embedded)
        self.attentional = nn.Parameter(
            nn.init.xavier_uniform_(torch.empty(embedded, 2 * hidden))
        )  # (D, 2H)

    def beginning(self, count: int) -> Passed:
        """Return what is passed to the first step of so many hypotheses: zeros."""
        widths = [self.config.d_model] + [self.config.d_hidden] * (2 * len(self.cells))
        return tuple(self.embedded.new_zeros(count, width) for width in widths)

    def forward(self, embedded: Tensor, passed: Passed, attend: Attend) -> tuple[Tensor, Passed]:
        """Go through T positions of N hypotheses.

        Args:
            embedded: (T, N, D), the tokens that are read.
            passed: to the first of these steps.
            attend: to the hypotheses' memories.

        Returns:
            The attentional states (T, N, D), and what is passed on.
        """
        steps = embedded.shape[:2]
        cells = cast(Sequence[LSTMCell], self.cells)
        first, *others = cells
        known = [linear(embedded, self.embedded, first.bias)]  # (T, N, 4H)
        known += [cell.bias.expand(*steps, -1) for cell in others]
        gates = [StepProduct(cell.weight, part) for cell, part in zip(cells, known, strict=True)]
        nothing = embedded.new_zeros(())
        query, attentional = (
            StepProduct(weight, nothing.expand(*steps, len(weight)))
            for weight in (self.attention.query, self.attentional)
        )
        fed, *layers = passed
        hidden, memories = layers[::2], layers[1::2]
        states = []
        for _ in range(len(embedded)):
            x = fed
            for number, cell in enumerate(cells):
                read = torch.cat((x, hidden[number]), dim=1)  # (N, D + H or 2H)
                hidden[number], memories[number] = cell(gates[number](read), memories[number])
                x = self._up(x, hidden[number], is_first=number == 0)  # (N, H)
            found = attend(query(x))  # (N, H)
            fed = attentional(torch.cat((found, x), dim=1)).tanh()  # (N, D)
            states.append(fed)
        return torch.stack(states), (fed, *chain(*zip(hidden, memories, strict=True)))

    def _up(self, x: Tensor, output: Tensor, *, is_first: bool) -> Tensor:
        """Return what a layer that read x passes to the layer above."""
        if is_first:
            return dropout(output, self.config.dropout, self.training)
        return add_dropped(x, output, self.config.dropout, self.training)


def joined(parts: Sequence[Passed]) -> Passed:
    """Return the rows of all parts, those of one behind those of the other."""
    return parts[0] if len(parts) == 1 else tuple(map(torch.cat, zip(*parts, strict=True)))


def split(passed: Passed, rows: Sequence[int]) -> list[Passed]:
    """Undo `joined`, of parts with so many rows."""
    return list(zip(*(torch.split(x, list(rows)) for x in passed), strict=True))
