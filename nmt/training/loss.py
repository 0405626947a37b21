"""The training objective: cross-entropy with label smoothing (Szegedy et al. 2016, section 7)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from nmt.data.batches import Batch
from nmt.models.base import BARRED, TranslationModel
from nmt.models.kernels.linear import matmul
from nmt.training.guided_alignment import GUIDED_HEAD, alignment_loss

_CHUNK_BYTES = {"cpu": 1 << 23, "cuda": 1 << 28}
"""Of the logits computed at a time. On a CPU, more do not stay in its caches. With fewer, products
have few rows, and the sum over chunks takes long. On a GPU, few are slower."""

OfChunk = Callable[[Tensor, Tensor, float, bool], tuple[Tensor, Tensor, Tensor | None]]


def losses_of(
    model: TranslationModel, batch: Batch, label_smoothing: float, *, compiled: bool = False
) -> tuple[Tensor, ...]:
    """Run a model forward, and return its losses on a batch, summed over target tokens.

    compiled: whether torch.compile fuses the operations on logits.

    Returns scalars: the smoothed loss; the negative log-likelihood, which has no gradient; and the
    alignment loss, if the batch has links.
    """
    alignment: tuple[Tensor, ...] = ()
    if batch.links is None:
        states = model(batch)
    else:
        states, queries, keys = model.forward_with_head(batch, GUIDED_HEAD)
        alignment = (alignment_loss(queries, keys, batch),)
    arguments = states, model.output_projection, batch.targets, label_smoothing
    loss, nll = smoothed_cross_entropy(*arguments, bias=model.output_bias, compiled=compiled)
    return loss, nll, *alignment


def smoothed_cross_entropy(
    states: Tensor,
    projection: Tensor,
    targets: Tensor,
    label_smoothing: float,
    *,
    bias: Tensor | None = None,
    compiled: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return the smoothed loss and the plain negative log-likelihood, each summed over tokens.

    The target distribution gives 1 - eps to the target and spreads eps evenly over all V types:
    loss = (1 - eps) * -log p(target) - eps * mean over types of log p, where p is the softmax of
    states projection^T + bias. Types that the bias bars have no share of eps.

    states: (n, D), the model's last states before its output projection, of n target tokens; rows
        beyond those are padding.
    projection: (V, D).
    targets: (n,) int64.
    label_smoothing: eps.
    bias: (V,), of types; None: 0.
    compiled: whether torch.compile fuses the operations on logits.
    Returns two scalars in fp32 and natural logarithms; only the first carries a gradient.
    """
    of_chunk = _compiled() if compiled else _of_chunk
    if not torch.is_grad_enabled():  # else autograd would want the weights' gradient all the same
        projection, bias = projection.detach(), None if bias is None else bias.detach()
    arguments = (states, projection, bias, targets, label_smoothing, of_chunk)
    loss, nll = _SmoothedCrossEntropy.apply(*arguments)  # type: ignore[no-untyped-call]
    return loss, nll


class _SmoothedCrossEntropy(torch.autograd.Function):
    """Computes loss and gradient together, in chunks of tokens.

    So the logits (n, V) never exist all at once, and none are computed twice.

    With p the softmax, d loss / d logits = p - eps / V - (1 - eps) at the target. The parts of the
    smoothing are the same for all types, so they are computed from the mean row of the projection
    and not from the logits. With a bias, V counts only the types that it does not bar.
    """

    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        projection: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        label_smoothing: float,
        of_chunk: OfChunk,
    ) -> tuple[Tensor, Tensor]:
        types, tokens = len(projection), len(targets)
        loss, nll, mean_bias = torch.zeros(3, dtype=torch.float32, device=states.device)
        # The mean of all logits of a token is its state times the mean row of the projection, plus
        # the mean bias, which stays 0 without a bias.
        if bias is None:
            mean_row = projection.sum(0, dtype=torch.float32) / types  # (D,)
        else:
            shares = (bias > BARRED / 2).float()  # no smoothing towards types that are barred
            shares /= shares.sum()  # (V,)
            mean_row, mean_bias = shares @ projection.float(), shares @ bias.float()
        with_gradient = any(ctx.needs_input_grad[:3])
        if with_gradient:
            states_gradient = torch.empty_like(states)
            # In fp32, since it sums over chunks.
            projection_gradient = torch.zeros(projection.shape, device=states.device)  # (V, D)
            bias_gradient = projection_gradient.new_zeros(types)
        chunk_bytes = _CHUNK_BYTES["cuda" if states.is_cuda else "cpu"]
        rows = max(256, chunk_bytes // (types * states.element_size()))
        # As few chunks, but of about equal size: a multiple of 64, as batches have on a CPU.
        rows = 64 * -(-tokens // (64 * max(1, -(-tokens // rows))))
        for start in range(0, tokens, rows):
            end = min(start + rows, tokens)
            # On a CPU, the last chunk takes padding along: it is there so that products have few
            # sizes (see `collate`).
            padding = len(states) - end if end == tokens and not states.is_cuda else 0
            part = slice(start, end + padding)
            chunk = states[part]  # (rows, D)
            chunk_nll, normaliser, gradient = of_chunk(
                _logits(chunk, projection, bias)[: end - start],
                targets[start:end, None],
                label_smoothing,
                with_gradient,
            )
            nll += chunk_nll
            # (1 - eps) * nll + eps * (log normaliser - mean logit)
            loss += (1 - label_smoothing) * chunk_nll
            if label_smoothing:
                mean_logits = chunk[: end - start].float() @ mean_row + mean_bias
                loss += label_smoothing * (normaliser - mean_logits.sum())
            if gradient is not None:
                gradient = pad(gradient, (0, 0, 0, padding)) if padding else gradient
                states_gradient[part] = matmul(gradient, projection)
                projection_gradient += matmul(gradient.t(), chunk)
                if bias is not None:
                    bias_gradient += gradient.sum(0, dtype=torch.float32)
        if with_gradient:
            states_gradient[tokens:] = 0.0  # of padding
            if label_smoothing:  # what - eps / V at each logit comes to, for all tokens at once
                states_gradient[:tokens] -= (label_smoothing * mean_row).to(states.dtype)
                summed = states[:tokens].sum(0, dtype=torch.float32)  # (D,)
                if bias is None:
                    projection_gradient -= summed * (label_smoothing / types)  # from each row
                else:
                    projection_gradient.addr_(shares, summed, alpha=-label_smoothing)
                    bias_gradient -= label_smoothing * tokens * shares
            ctx.save_for_backward(states_gradient, projection_gradient, bias_gradient)
            ctx.dtype = projection.dtype
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        states_gradient, projection_gradient, bias_gradient = ctx.saved_tensors
        scale = gradients[0]  # of the loss; that of nll is none
        # In place, to save (V, D) in fp32: nobody walks this graph twice.
        states_gradient *= scale.to(states_gradient.dtype)
        projection_gradient *= scale
        bias_gradient = (bias_gradient * scale).to(ctx.dtype) if ctx.needs_input_grad[2] else None
        return states_gradient, projection_gradient.to(ctx.dtype), bias_gradient, *[None] * 3


def _logits(chunk: Tensor, projection: Tensor, bias: Tensor | None) -> Tensor:
    logits = matmul(chunk, projection.t())  # (rows, V)
    return logits if bias is None else logits.add_(bias)


def _of_chunk(
    logits: Tensor, column: Tensor, label_smoothing: float, with_gradient: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Compute a chunk's parts of the loss and the gradient of its logits.

    logits: (rows, V); not needed afterwards.
    column: (rows, 1), the targets.
    label_smoothing: eps.
    with_gradient: whether to compute the gradient.
    Returns the negative log-likelihood and the logarithm of the sum of exp(logits), each summed
    over rows; p - (1 - eps) at the target (rows, V), in the type of the logits. With a gradient,
    a row of the first two is as exact as p in that type: to 0.004 in bf16.
    """
    logits = logits if with_gradient else logits.float()
    # Of half types torch computes it in fp32, and rounds the result, as the gradient is rounded
    # anyway. Two copies in fp32 would take as long as the softmax.
    probabilities = torch.softmax(logits, dim=-1)  # (rows, V)
    at_target = torch.arange(len(logits), device=logits.device), column[:, 0]
    target_logits = logits[at_target].float()  # (rows,)
    target_probabilities = probabilities[at_target].float()  # (rows,)
    # A logit less the log of its probability is the log of the sum of exp(logits). The target's
    # needs no further pass, unless it underflows. But a GPU would have to wait for the answer, and
    # the meta device knows none.
    if logits.device.type == "cpu" and target_probabilities.all():
        normaliser = target_logits - target_probabilities.log()  # (rows,)
    else:  # that of the largest logit never does, but it takes two passes to find
        normaliser = logits.amax(-1).float() - probabilities.amax(-1).float().log()
    nll = (normaliser - target_logits).sum()
    if not with_gradient:
        return nll, normaliser.sum(), None
    # In place: p is needed no more. `scatter_` would copy all of it twice on a CPU.
    of_target = target_probabilities + (label_smoothing - 1)
    probabilities[at_target] = of_target.to(probabilities.dtype)
    return nll, normaliser.sum(), probabilities


def _of_chunk_for_the_compiler(
    logits: Tensor, column: Tensor, label_smoothing: float, with_gradient: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return the same by operations that fuse into two passes.

    One pass sums exp(logits), the other computes the gradient; uncompiled, each would be several.
    """
    dtype = logits.dtype
    logits = logits.float()
    normaliser = logits.logsumexp(-1, keepdim=True)  # (rows, 1)
    nll = (normaliser - logits.gather(1, column)).sum()
    if not with_gradient:
        return nll, normaliser.sum(), None
    at_target = torch.arange(logits.shape[1], device=logits.device) == column  # (rows, V)
    gradient = (logits - normaliser).exp() - (1 - label_smoothing) * at_target
    return nll, normaliser.sum(), gradient.to(dtype)


@functools.cache
def _compiled() -> OfChunk:
    return torch.compile(_of_chunk_for_the_compiler)
