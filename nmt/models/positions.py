"""How a Transformer knows where a token stands: by vectors that are added to embeddings, or by
turning queries and keys.

Places are counted from 0, in each sentence.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.model_config import TransformerConfig


def _angles(length: int, width: int) -> Tensor:
    """Return pos / 10000^(2i / width) for all positions and pairs: (length, width / 2) in fp64."""
    positions = torch.arange(length, dtype=torch.float64)[:, None]  # (length, 1)
    pairs = torch.arange(0, width, 2, dtype=torch.float64)  # (width / 2,)
    return positions * torch.exp(pairs * (-math.log(10000.0) / width))


def sinusoidal_positions(length: int, d_model: int) -> Tensor:
    """Return position encodings (length, d_model) in fp32.

    PE(pos, 2i) = sin(pos / 10000^(2i / d_model)) and PE(pos, 2i + 1) its cosine: wavelengths run
    from 2 pi to 10000 * 2 pi (Vaswani et al. 2017, section 3.5).
    """
    angles = _angles(length, d_model)  # (length, d_model / 2)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1).float()


def rotations(length: int, width: int) -> Tensor:
    """Return the cosines, then the sines, of what `rotated` turns by: (length, width) in fp32.

    Pair i of position pos is turned by pos / 10000^(2i / width) (Su et al. 2021, section 3.2.2).
    """
    angles = _angles(length, width)  # (length, width / 2)
    return torch.cat((angles.cos(), angles.sin()), dim=1).float()


def rotated(x: Tensor, rotation: Tensor) -> Tensor:
    """Turn each pair of neighbouring numbers: the dot product of two vectors turned so depends on
    how far apart they stand, and not on where (Su et al. 2021, equation 34).

    It is done in fp32 at least, since half precision would blur the angles of far positions.

    Args:
        x: (n, parts, H, K), K even.
        rotation: (n, K), rows of `rotations`.

    Returns:
        The shape and type of x.
    """
    cosine, sine = rotation[:, None, None].chunk(2, dim=-1)  # each (n, 1, 1, K / 2)
    first, second = x.view(*x.shape[:-1], -1, 2).unbind(-1)  # each (n, parts, H, K / 2)
    turned = (first * cosine - second * sine, first * sine + second * cosine)
    return torch.stack(turned, dim=-1).flatten(-2).to(x.dtype)


class PositionTable(nn.Module):
    """Rows of a formula, made for as many positions as have been asked for."""

    def __init__(self, formula: Callable[[int, int], Tensor], width: int) -> None:
        super().__init__()
        self._formula = formula
        self._width = width
        self._table: Tensor | None = None

    def forward(self, places: Tensor, end: int) -> Tensor:
        """Return the rows of some places, all of them below `end`.

        Args:
            places: (..., ) int64.
            end: a bound, so that no device has to be asked for the largest.

        Returns:
            (..., width) in fp32.
        """
        table = self._table
        if table is None or len(table) < end or table.device != places.device:
            # Doubling keeps the number of rebuilds logarithmic in the longest sentence seen.
            length = max(2 * len(table) if table is not None else 0, end, 256)
            self._table = table = self._formula(length, self._width).to(places.device)
        return F.embedding(places, table)


class LearnedPositions(nn.Module):
    """A learned vector for each of the first positions (Gehring et al. 2017, section 3.1; Vaswani
    et al. 2017, table 3, row E). Those behind them share the last one's.

    So no sentence is too long to be read: a translation may have more tokens than its source, and
    valid lines more than any that was trained on.
    """

    def __init__(self, max_positions: int, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(max_positions, d_model))
        nn.init.normal_(self.weight, std=d_model**-0.5)

    def forward(self, places: Tensor, end: int) -> Tensor:
        """Return the vectors (..., D) of places (...,), all of them below `end`."""
        last = len(self.weight) - 1
        return F.embedding(places.clamp_max(last) if end > last + 1 else places, self.weight)


Positions = PositionTable | LearnedPositions


def added_positions(config: TransformerConfig) -> Positions | None:
    """Return what makes the vectors (..., D) added to embeddings of a side; None: none are."""
    match config.positions:
        case "sinusoidal":
            return PositionTable(sinusoidal_positions, config.d_model)
        case "learned":
            return LearnedPositions(config.max_positions, config.d_model)
    return None


def turning_positions(config: TransformerConfig) -> Positions | None:
    """Return what makes the (n, K) that queries and keys are turned by; None: they are not."""
    key_width, _ = config.head_widths
    return PositionTable(rotations, key_width) if config.positions == "rotary" else None
