"""Layers that architectures share: embeddings, feed-forward, norms, residuals, dropout.

The Transformer's paper leaves initial weights open. Here they follow Xavier's rule (Glorot and
Bengio 2010), with gains that let a post-norm model learn sooner (measured in README.md):

- 2^-0.5 for queries, keys and values, as if the three were one matrix. It halves the first scores,
  so that attention starts flatter.
- 0.5 for the last matrix of a sub-layer. It keeps LayerNorm(x + sub-layer(x)) nearer to x.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.config.model_config import ModelConfig, TransformerConfig
from nmt.models.kernels.linear import linear, linear_relu

_INPUT_GAIN = 2**-0.5
_OUTPUT_GAIN = 0.5


def input_projections(width: int, *widths: int) -> Tensor:
    """Return projections to queries, keys or values of these widths, stacked: (sum, width)."""
    projections = torch.empty(sum(widths), width)
    for part in torch.split(projections, list(widths)):
        nn.init.xavier_uniform_(part, gain=_INPUT_GAIN)
    return projections


def output_projection(width: int, inner: int) -> Tensor:
    """Return the last matrix of a sub-layer: (width, inner)."""
    return nn.init.xavier_uniform_(torch.empty(width, inner), gain=_OUTPUT_GAIN)


def variance_preserving(inputs: int, outputs: int, dropout: float = 0.0) -> nn.Linear:
    """Return a layer with zero biases whose output has the variance of its input before dropout.

    Dropout raises the variance (Gehring et al. 2017, section 3.5).
    """
    layer = nn.Linear(inputs, outputs)
    nn.init.normal_(layer.weight, std=((1 - dropout) / inputs) ** 0.5)
    nn.init.zeros_(layer.bias)
    return layer


_RANGE = 1 << 16
_drawn_masks: dict[tuple[float, torch.dtype, torch.device], Tensor] = {}
"""By rate, type and device: a vector of 0 and 1 / (1 - p)."""


def dropout(x: Tensor, p: float, training: bool) -> Tensor:
    """Zero each element of x with probability p and scale the others by 1 / (1 - p).

    On CPUs torch draws a random number per element in one thread, which takes longer than a layer's
    matrix products. Here a mask is a stretch of a pool, from a random start. Two masks of a forward
    pass may overlap in the pool, but within a mask all elements are independent. p is rounded to a
    multiple of 2^-16. On GPUs this is torch's dropout.
    """
    if not training or p == 0.0:
        return x
    return F.dropout(x, p) if x.is_cuda else x * _mask(x, p)


def add_dropped(x: Tensor, output: Tensor, p: float, training: bool) -> Tensor:
    """Return x + dropout(output), both of one shape, in one pass."""
    if not training or p == 0.0 or x.is_cuda:
        return x + dropout(output, p, training)
    return torch.addcmul(x, output, _mask(output, p))


def seed_dropout(seed: int) -> None:
    torch.manual_seed(seed)
    _drawn_masks.clear()


def forget_masks(device: torch.device) -> None:
    """Drop the masks that were drawn for a device; the next masks are drawn anew."""
    for key in [key for key in _drawn_masks if key[2] == device]:
        del _drawn_masks[key]


def _mask(x: Tensor, p: float) -> Tensor:
    size = x.numel()
    # At least twice as long as the mask, so that masks of one size begin at different places.
    masks = _drawn_masks.get((p, x.dtype, x.device))
    if masks is None or len(masks) < 2 * size:
        with torch.inference_mode(False):  # so that gradients can flow through it later
            masks = _drawn_masks[p, x.dtype, x.device] = _draw(2 * size, p, x)
    start = int(torch.randint(len(masks) - size + 1, (), device="cpu"))
    return masks[start : start + size].view(x.shape)


def _draw(size: int, p: float, like: Tensor) -> Tensor:
    # One 64-bit number decides four elements.
    quarters = torch.empty((size + 3) // 4, dtype=torch.int64, device=like.device)
    quarters.random_(-(1 << 63), None)
    drawn = quarters.view(torch.int16)[:size]  # uniform on -2^15 .. 2^15 - 1
    dropped = min(round(p * _RANGE), _RANGE - 1)  # of the 2^16 values; never all
    # Kept units are scaled by the rounded probability, so that the mean stays exact.
    return (drawn >= dropped - _RANGE // 2).to(like.dtype).mul_(_RANGE / (_RANGE - dropped))


class TokenEmbedding(nn.Module):
    """Embeddings scaled by sqrt(d_model), plus positions, with dropout on the sum (section 5.4).

    If embeddings are tied, the same matrix, unscaled, projects the decoder's output to logits.
    """

    def __init__(self, vocab_size: int, d_model: int, dropout: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab_size, d_model))
        # Variance 1 / d_model, so that scaled embeddings and logits both start at unit variance.
        nn.init.normal_(self.weight, std=d_model**-0.5)
        self.dropout = dropout

    def forward(
        self, tokens: Tensor, positions: Tensor | None = None, blank: Tensor | None = None
    ) -> Tensor:
        """Embed tokens.

        tokens: (..., ) int64; positions: (..., D), added to the embeddings, if any; blank: (..., )
        bool, True = the embedding is zeros, if any.
        Returns (..., D).
        """
        embedded = F.embedding(tokens, self.weight) * math.sqrt(self.weight.shape[1])  # (..., D)
        if blank is not None:
            embedded = embedded.masked_fill(blank[..., None], 0.0)
        if positions is not None:
            embedded = embedded + positions.to(embedded.dtype)
        return dropout(embedded, self.dropout, self.training)


def shared_embeddings(
    config: ModelConfig, src_vocab_size: int, tgt_vocab_size: int
) -> tuple[TokenEmbedding, TokenEmbedding, nn.Parameter]:
    """Return the target's embedding, the source's, and the output projection (V, D).

    They are one, two or three matrices, as `tie_embeddings` says (section 3.4).
    """
    width = config.d_model
    source = target = TokenEmbedding(tgt_vocab_size, width, config.dropout)
    projection = target.weight
    if config.tie_embeddings != "all":
        source = TokenEmbedding(src_vocab_size, width, config.dropout)
    if config.tie_embeddings == "none":
        weight = nn.init.normal_(torch.empty(tgt_vocab_size, width), std=width**-0.5)
        projection = nn.Parameter(weight)
    return target, source, projection


_HIDDEN: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "relu": linear_relu,
    "swish": lambda x, weight, bias: F.silu(linear(x, weight, bias)),
    "gelu": lambda x, weight, bias: F.gelu(linear(x, weight, bias)),
}
"""By activation: maps x (..., D), W1 and b1 to (..., F)."""


class FeedForward(nn.Module):
    """max(0, x W1 + b1) W2 + b2 (equation 2), or with Swish or GELU in place of the ReLU."""

    def __init__(self, d_model: int, d_ff: int, activation: str) -> None:
        super().__init__()
        self.hidden = _HIDDEN[activation]
        self.inner = nn.Linear(d_model, d_ff)
        self.outer = nn.Linear(d_ff, d_model)
        nn.init.xavier_uniform_(self.inner.weight)
        self.outer.weight = nn.Parameter(output_projection(d_model, d_ff))
        for layer in (self.inner, self.outer):
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map x (..., D) to (..., D)."""
        hidden = self.hidden(x, self.inner.weight, self.inner.bias)  # (..., F)
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
    if config.feed_forward == "swiglu":
        return SwiGLU(config.d_model, config.d_ff)
    return FeedForward(config.d_model, config.d_ff, config.feed_forward)


# Added to the mean square, as in LayerNorm. torch's default depends on the type and is 0.008 in
# bf16, so the model would differ between precisions.
_EPSILONS = {"layer": 1e-5, "rms": 1e-6}


class RMSNorm(nn.RMSNorm):
    """RMSNorm (Zhang and Sennrich 2019, equation 4).

    On CPUs torch computes it in a dozen passes over the vectors, forward and backward, and in bf16
    on copies in fp32. Here there are half as many, without copies.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Map x (..., D) to (..., D)."""
        if x.is_cuda:
            return super().forward(x)
        normed: Tensor = _RMSNorm.apply(x, self.weight, self.eps)  # type: ignore[no-untyped-call]
        return normed


class _RMSNorm(torch.autograd.Function):
    """x / sqrt(mean(x^2) + epsilon) * gain, and its gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, gain: Tensor, epsilon: float) -> Tensor:
        wide = torch.promote_types(x.dtype, torch.float32)
        norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=wide)  # (..., 1)
        scale: Tensor = norm.square_().div_(x.shape[-1]).add_(epsilon).rsqrt_().to(x.dtype)
        normed = x * scale
        ctx.save_for_backward(normed, scale, gain)
        return normed * gain

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        normed, scale, gain = ctx.saved_tensors
        of_gain = (gradients[0] * normed).flatten(0, -2).sum(0)  # (D,)
        of_normed = gradients[0] * gain
        # What would change the root mean square has no effect.
        wide = torch.promote_types(normed.dtype, torch.float32)
        along = (of_normed * normed).mean(-1, keepdim=True, dtype=wide).to(normed.dtype)
        return torch.addcmul(of_normed, normed, along, value=-1).mul_(scale), of_gain, None


def norm(config: TransformerConfig) -> nn.LayerNorm | nn.RMSNorm:
    """Return LayerNorm (Ba et al. 2016) or RMSNorm."""
    kind = RMSNorm if config.norm == "rms" else nn.LayerNorm
    return kind(config.d_model, eps=config.norm_epsilon or _EPSILONS[config.norm])


def bias(present: bool, size: int) -> nn.Parameter | None:
    """Return a bias (size,) of zeros, if it should be present."""
    return nn.Parameter(torch.zeros(size)) if present else None


def final_norm(config: TransformerConfig) -> nn.Module:
    """Return the norm after the last layer, which only pre-norm models have."""
    return norm(config) if config.pre_norm else nn.Identity()


class Residual(nn.Module):
    """LayerNorm(x + Dropout(Sublayer(x))) (Vaswani et al. 2017, sections 3.1 and 5.4).

    With pre-norm, it is x + Dropout(Sublayer(LayerNorm(x))) (Xiong et al. 2020, figure 1).
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.norm = norm(config)
        self.pre_norm = config.pre_norm
        self.dropout = config.dropout

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """Add the output of a sub-layer to x (n, D), with dropout and norm."""
        output = sublayer(self.norm(x) if self.pre_norm else x)  # (n, D)
        summed = add_dropped(x, output, self.dropout, self.training)
        return summed if self.pre_norm else self.norm(summed)
