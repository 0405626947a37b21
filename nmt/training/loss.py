"""The training objective: cross-entropy with label smoothing (Szegedy et al. 2016, section 7)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nmt.models.linear import matmul

_CHUNK_LOGITS = 1 << 25
"""How many logits exist at once; products over fewer tokens would be slower."""


def smoothed_cross_entropy(
    states: Tensor, projection: Tensor, targets: Tensor, label_smoothing: float
) -> tuple[Tensor, Tensor]:
    """Return the smoothed loss and the plain negative log-likelihood, each summed over tokens.

    The target distribution gives 1 - eps to the target and spreads eps evenly over all V types:
    loss = (1 - eps) * -log p(target) - eps * mean over types of log p, where p is the softmax of
    states projection^T.

    Args:
        states: (n, D), the model's last states before its output projection, of n target tokens.
        projection: (V, D).
        targets: (n,) int64.
        label_smoothing: eps.

    Returns:
        Two scalars in fp32 and natural logarithms; only the first carries a gradient.
    """
    loss, nll = _SmoothedCrossEntropy.apply(states, projection, targets, label_smoothing)  # type: ignore[no-untyped-call]
    return loss, nll


class _SmoothedCrossEntropy(torch.autograd.Function):
    """Goes through the tokens in chunks and takes the gradient along with the loss, so that all
    logits (n, V) never exist at once, and none are computed twice.

    With p the softmax, d loss / d logits = p - eps / V - (1 - eps) at the target. The smoothing's
    part, and the mean of the logits in the loss, are the same for all types: they are taken from
    the sum of the projection's rows and never touch the logits.
    """

    @staticmethod
    def forward(
        ctx: Any, states: Tensor, projection: Tensor, targets: Tensor, label_smoothing: float
    ) -> tuple[Tensor, Tensor]:
        types = len(projection)
        loss, nll = torch.zeros(2, dtype=torch.float32, device=states.device)
        mean_row = projection.sum(0, dtype=torch.float32) / types  # (D,)
        wanted = any(ctx.needs_input_grad[:2])
        if wanted:
            for_states = torch.empty_like(states)
            for_projection = torch.zeros(projection.shape, device=states.device)  # fp32
        rows = max(256, _CHUNK_LOGITS // types)
        for start in range(0, len(states), rows):
            chunk, column = states[start : start + rows], targets[start : start + rows, None]
            logits = matmul(chunk, projection.t()).float()  # (rows, V)
            probabilities = torch.softmax(logits, dim=-1)  # (rows, V)
            # log of the sum of exp(logits), by the largest logit, whose probability never is 0
            normaliser = logits.amax(-1) - probabilities.amax(-1).log()  # (rows,)
            chunk_nll = (normaliser - logits.gather(1, column)[:, 0]).sum()
            nll += chunk_nll
            loss += (1 - label_smoothing) * chunk_nll
            if label_smoothing:
                loss += label_smoothing * (normaliser - chunk.float() @ mean_row).sum()
            if not wanted:
                continue
            del logits
            at_target = probabilities.new_full(column.shape, label_smoothing - 1)
            gradient = probabilities.scatter_add_(1, column, at_target).to(states.dtype)
            for_states[start : start + rows] = matmul(gradient, projection)
            for_projection += matmul(gradient.t(), chunk)
        if wanted:
            if label_smoothing:
                for_states -= (label_smoothing * mean_row).to(states.dtype)
                for_projection -= states.sum(0, dtype=torch.float32) * (label_smoothing / types)
            ctx.save_for_backward(for_states, for_projection)
            ctx.dtype = projection.dtype
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None]:
        for_states, for_projection = ctx.saved_tensors
        scale = gradients[0]
        for_states *= scale.to(for_states.dtype)
        for_projection *= scale
        return for_states, for_projection.to(ctx.dtype), None, None
