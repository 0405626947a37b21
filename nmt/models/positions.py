"""Positions in the Transformer: sinusoidal, learned, rotary and relative.

Positions are counted from 0 in each sentence. Sinusoidal and learned vectors are added to
embeddings. Rotary positions rotate queries and keys.

Relative positions add vectors to keys and values (see `kernels.relative_positions`).

Legend: K and V the widths of a head's keys and values, n tokens of packed sentences.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.config.model_config import TransformerConfig


def _angles(length: int, width: int) -> Tensor:
    """Return pos / 10000^(2i / width) for all positions and pairs: (length, width / 2) in fp64."""
    # In fp32, an angle of 1,000 would be known to 4 digits after the point only.
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


def sinusoids_by_halves(length: int, d_model: int) -> Tensor:
    """Return Marian's position encodings (length, d_model) in fp32.

    The first half are sines of pos / 10000^(i / (d_model / 2 - 1)), and the second half cosines, as
    in Tensor2Tensor. So the longest wavelength is reached, and not nearly.
    """
    half = d_model // 2
    positions = torch.arange(length, dtype=torch.float64)[:, None]  # (length, 1)
    exponents = torch.arange(half, dtype=torch.float64) / max(1, half - 1)  # (d_model / 2,)
    angles = positions * torch.exp(exponents * -math.log(10000.0))  # (length, d_model / 2)
    return torch.cat((angles.sin(), angles.cos()), dim=1).float()


def rotations(length: int, width: int) -> Tensor:
    """Return the cosines, then the sines, of the angles of `rotated`: (length, width) in fp32.

    Pair i of position pos is rotated by pos / 10000^(2i / width) (Su et al. 2021, section 3.2.2).
    """
    angles = _angles(length, width)  # (length, width / 2)
    return torch.cat((angles.cos(), angles.sin()), dim=1).float()


def rotated(x: Tensor, rotation: Tensor) -> Tensor:
    """Rotate each pair of neighbouring numbers (Su et al. 2021, equation 34).

    The dot product of two rotated vectors depends on their distance, but not on their positions.

    Computed in fp32 at least: half precision is too coarse for the angles of far positions.

    x: (n, parts, H, K), K even; rotation: (n, K), rows of `rotations`.
    Returns the shape and type of x.
    """
    cosine, sine = rotation[:, None, None].chunk(2, dim=-1)  # each (n, 1, 1, K / 2)
    precise = x.to(torch.promote_types(x.dtype, torch.float32))
    pairs = precise.view(*x.shape[:-1], -1, 2)  # (n, parts, H, K / 2, 2)
    if x.is_cuda or torch.compiler.is_compiling():
        first, second = pairs.unbind(-1)  # each (n, parts, H, K / 2)
        turned = (first * cosine - second * sine, first * sine + second * cosine)
        return torch.stack(turned, dim=-1).flatten(-2).to(x.dtype)
    # CPUs multiply complex numbers in one pass, ten times as fast. Compilers do not know them.
    product = torch.view_as_complex(pairs) * torch.complex(cosine, sine)  # (n, parts, H, K / 2)
    return torch.view_as_real(product).flatten(-2).to(x.dtype)


class PositionTable(nn.Module):
    """Rows of a formula, computed for as many positions as needed so far.

    first: the position of a sentence's first token.
    """

    def __init__(
        self, formula: Callable[[int, int], Tensor], width: int, *, first: int = 0
    ) -> None:
        super().__init__()
        self._formula = formula
        self._width = width
        self._first = first
        self._table: Tensor | None = None

    def forward(self, places: Tensor, end: int) -> Tensor:
        """Return the rows of some positions, all below `end`.

        places: (..., ) int64 positions, counted from 0 in each sentence.
        end: a bound, so that finding the largest does not wait for the GPU.
        Returns (..., width) in fp32.
        """
        table = self._table
        if table is None or len(table) < end or table.device != places.device:
            # Doubling keeps the number of rebuilds logarithmic in the longest sentence seen.
            length = max(2 * len(table) if table is not None else 0, end, 256)
            rows = self._formula(self._first + length, self._width)[self._first :]
            self._table = table = rows.to(places.device)
        return F.embedding(places, table)


class LearnedPositions(nn.Module):
    """A learned vector for each of the first positions (Gehring et al. 2017, section 3.1; Vaswani
    et al. 2017, table 3, row E). Later ones share the last vector.

    So no sentence is too long. Translations may be longer than their sources, and valid lines
    longer than training lines.
    """

    def __init__(self, max_positions: int, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(max_positions, d_model))
        nn.init.normal_(self.weight, std=d_model**-0.5)

    def forward(self, places: Tensor, end: int) -> Tensor:
        """Return the vectors (..., D) of positions (...,), all below `end`."""
        last = len(self.weight) - 1
        return F.embedding(places.clamp_max(last) if end > last + 1 else places, self.weight)


Positions = PositionTable | LearnedPositions


def added_positions(config: TransformerConfig) -> Positions | None:
    """Return the module for vectors (..., D) added to the embeddings of a side, if any."""
    match config.positions:
        case "sinusoidal":
            return PositionTable(sinusoidal_positions, config.d_model, first=config.first_position)
        case "sinusoidal_halves":
            return PositionTable(sinusoids_by_halves, config.d_model, first=config.first_position)
        case "learned":
            return LearnedPositions(config.max_positions, config.d_model)
    return None


def turning_positions(config: TransformerConfig) -> Positions | None:
    """Return the module for the rotations (n, K) of queries and keys, if any."""
    key_width, _ = config.head_widths
    return PositionTable(rotations, key_width) if config.positions == "rotary" else None


class RelativePositions(nn.Module):
    """The vectors a^K and a^V of a layer, shared by its heads."""

    def __init__(self, farthest: int, head_widths: tuple[int, int]) -> None:
        super().__init__()
        self.keys, self.values = (
            nn.Parameter(nn.init.xavier_uniform_(torch.empty(2 * farthest + 1, width)))
            for width in head_widths
        )
