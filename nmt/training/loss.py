"""The training objective: cross-entropy with label smoothing (Szegedy et al. 2016, section 7)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def smoothed_cross_entropy(
    logits: Tensor, targets: Tensor, label_smoothing: float
) -> tuple[Tensor, Tensor]:
    """Return the smoothed loss and the plain negative log-likelihood, each summed over tokens.

    The target distribution gives 1 - eps to the target and spreads eps evenly over all V types:
    loss = (1 - eps) * -log p(target) - eps * mean over types of log p.

    Args:
        logits: (num_tokens, V), any float type; the sums are taken in fp32.
        targets: (num_tokens,) int64.
        label_smoothing: eps.

    Returns:
        Two scalars in fp32 and natural logarithms; only the first carries a gradient.
    """
    loss, nll = _SmoothedCrossEntropy.apply(logits, targets, label_smoothing)  # type: ignore[no-untyped-call]
    return loss, nll


class _SmoothedCrossEntropy(torch.autograd.Function):
    """Computes the gradient along with the loss, which saves most passes over the (n, V) logits.

    With p the softmax, d loss / d logits = p - eps / V - (1 - eps) at the target: the smoothing's
    part is the same for all logits.
    """

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, targets: Tensor, label_smoothing: float
    ) -> tuple[Tensor, Tensor]:
        log_probs = torch.log_softmax(logits, dim=-1, dtype=torch.float32)  # (num_tokens, V)
        column = targets[:, None]  # (num_tokens, 1)
        nll = -log_probs.gather(1, column).sum()  # scalar
        loss = (1 - label_smoothing) * nll
        if label_smoothing:
            loss = loss - label_smoothing * log_probs.mean(dim=-1).sum()
        if ctx.needs_input_grad[0]:
            gradient = log_probs.exp_().sub_(label_smoothing / logits.shape[-1])
            gradient.scatter_add_(1, column, gradient.new_full(column.shape, label_smoothing - 1))
            # fp16 would lose small values before the loss scale can lift them into its range.
            half = logits.dtype == torch.float16
            ctx.save_for_backward(gradient if half else gradient.to(logits.dtype))
            ctx.dtype = logits.dtype
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        scaled = gradient * gradients[0].to(gradient.dtype)  # (num_tokens, V)
        return scaled.to(ctx.dtype), None, None
