"""The sub-layer that treats each position by itself (Vaswani et al. 2017, section 3.3)."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from nmt.model_config import TransformerConfig
from nmt.models.initial import output_projection
from nmt.models.linear import linear


class FeedForward(nn.Module):
    """max(0, x W1 + b1) W2 + b2 (equation 2)."""

    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        self.inner = nn.Linear(d_model, d_ff)
        self.outer = nn.Linear(d_ff, d_model)
        nn.init.xavier_uniform_(self.inner.weight)
        self.outer.weight = nn.Parameter(output_projection(d_model, d_ff))
        for layer in (self.inner, self.outer):
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map x (..., D) to (..., D)."""
        hidden = F.relu_(linear(x, self.inner.weight, self.inner.bias))  # (..., F)
        return linear(hidden, self.outer.weight, self.outer.bias)  # (..., D)


class SwiGLU(nn.Module):
    """(Swish(x W) * x V) W2 (Shazeer 2020, equation 6), W and V in one product.

    Without biases, as its paper defines it and measured it.
    """

    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        self.inner = nn.Linear(d_model, 2 * d_ff, bias=False)  # W, then V
        self.outer = nn.Linear(d_ff, d_model, bias=False)
        for factor in self.inner.weight.chunk(2):
            nn.init.xavier_uniform_(factor)
        self.outer.weight = nn.Parameter(output_projection(d_model, d_ff))

    def forward(self, x: Tensor) -> Tensor:
        """Map x (..., D) to (..., D)."""
        gate, value = linear(x, self.inner.weight).chunk(2, dim=-1)  # each (..., F)
        return linear(F.silu(gate) * value, self.outer.weight)  # (..., D)


def feed_forward(config: TransformerConfig) -> FeedForward | SwiGLU:
    """Return the sub-layer that a configuration names."""
    kind = SwiGLU if config.feed_forward == "swiglu" else FeedForward
    return kind(config.d_model, config.d_ff)
