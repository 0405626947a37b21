"""All weights in one vector, and the paper's Adam over it.

One vector makes everything that touches every weight one operation: the sum over ranks, clipping,
Adam, the moving average. The model computes with views of it, or, in bf16 and fp16, with views of
a rounded copy; the vector itself always is fp32.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from nmt.config import TrainingConfig
from nmt.models.contract import TranslationModel
from nmt.training.schedule import learning_rate


class FlatWeights:
    """A model's parameters and gradients as vectors; n is the number of parameters, tied once.

    The m that need a gradient stand first, so that what concerns them alone is a slice.
    """

    def __init__(self, model: TranslationModel, dtype: torch.dtype) -> None:
        """Move the model's parameters into one vector and make them views of it.

        Args:
            model: in fp32, on the device where it computes.
            dtype: in which the model computes.
        """
        # Tied parameters stand here once.
        named = sorted(model.named_parameters(), key=lambda item: not item[1].requires_grad)
        self.master = torch.cat([p.detach().flatten() for _, p in named])  # (n,) fp32
        trainable = sum(p.numel() for _, p in named if p.requires_grad)
        self.trainable = self.master[:trainable]  # (m,) a view
        self.gradient = torch.zeros_like(self.trainable)  # (m,) fp32, summed over micro-batches
        if dtype == torch.float32:
            self._compute, self._partial = self.master, self.gradient
        else:
            self._compute = self.master.to(dtype)  # (n,)
            self._partial = torch.zeros_like(self._compute[:trainable])  # (m,) of one micro-batch
        self._shapes: dict[str, tuple[int, torch.Size]] = {}
        offset = 0
        for name, parameter in named:
            end = offset + parameter.numel()
            self._shapes[name] = (offset, parameter.shape)
            parameter.data = self._compute[offset:end].view(parameter.shape)
            if parameter.requires_grad:
                parameter.grad = self._partial[offset:end].view(parameter.shape)
            offset = end

    def named(self, vector: Tensor) -> dict[str, Tensor]:
        """Return views of a vector of n values under the parameters' names."""
        return {
            name: vector[offset : offset + shape.numel()].view(shape)
            for name, (offset, shape) in self._shapes.items()
        }

    def collect_gradient(self) -> None:
        """Add the backward pass just done to the update's gradient."""
        if self._partial is not self.gradient:
            self.gradient += self._partial
            self._partial.zero_()

    def refresh(self) -> None:
        """Bring the model's copy up to date with the vector."""
        if self._compute is not self.master:
            self._compute.copy_(self.master)

    @contextlib.contextmanager
    def replaced_by(self, vector: Tensor) -> Iterator[None]:
        """Let the model compute with other values of its weights for a while."""
        if vector is self.master:  # these are the values it computes with
            yield
            return
        kept = self._compute.clone()
        self._compute.copy_(vector)
        try:
            yield
        finally:
            self._compute.copy_(kept)


@dataclass
class LossScale:
    """The factor that keeps fp16 gradients in range; found by trial, as in Micikevicius et al.
    (2018): halved when a gradient overflows, doubled after 2,000 updates without."""

    factor: float = 1.0
    good_updates: int = 0

    def succeed(self) -> None:
        """Count an update whose gradient was finite."""
        self.good_updates += 1
        if self.good_updates == 2_000:
            self.factor, self.good_updates = self.factor * 2, 0

    def fail(self) -> None:
        """Step down after an overflow."""
        self.factor, self.good_updates = self.factor / 2, 0


class Optimizer:
    """Adam (Kingma and Ba 2015) over the flat weights, with clipping and a moving average."""

    def __init__(self, weights: FlatWeights, config: TrainingConfig, d_model: int) -> None:
        self.weights = weights
        self.config = config
        self.d_model = d_model
        self.scale = LossScale(2.0**15) if config.precision == "fp16" else LossScale()
        self.ema = weights.master.clone() if config.ema_decay else None
        self._parameter = nn.Parameter(weights.trainable)
        self._parameter.grad = weights.gradient
        self._adam = torch.optim.Adam(
            [self._parameter],
            betas=(config.adam_beta1, config.adam_beta2),
            eps=config.adam_epsilon,
            fused=True,
        )
        self._adam.state[self._parameter] = {
            "step": torch.zeros((), device=weights.master.device),
            "exp_avg": torch.zeros_like(weights.trainable),
            "exp_avg_sq": torch.zeros_like(weights.trainable),
        }

    @property
    def kept_weights(self) -> Tensor:
        """The weights (n,) that are validated and written: the moving average if there is one."""
        return self.weights.master if self.ema is None else self.ema

    def step(self, update: int) -> Tensor | None:
        """Apply the gradient of update number `update`, counted from 1, and clear it.

        Returns:
            The gradient's norm before clipping (a scalar tensor), or None where an fp16 gradient
            overflowed and the weights were left as they are.
        """
        gradient = self.weights.gradient
        norm: Tensor = gradient.norm() / self.scale.factor
        if self.config.precision == "fp16":
            if not math.isfinite(norm.item()):
                self.scale.fail()
                gradient.zero_()
                return None
            gradient /= self.scale.factor
            self.scale.succeed()
        if self.config.clip_norm:
            gradient *= (self.config.clip_norm / (norm + 1e-6)).clamp(max=1.0)
        for group in self._adam.param_groups:
            group["lr"] = learning_rate(self.config, self.d_model, update)
        self._adam.step()
        gradient.zero_()
        self.weights.refresh()
        if self.ema is not None:
            # In the first updates the average would mostly be the random start.
            decay = min(self.config.ema_decay, update / (update + 10))
            self.ema.lerp_(self.weights.master, 1 - decay)
        return norm

    def vectors(self) -> dict[str, Tensor]:
        """Return every vector that a resumed run needs, by name; loading writes into them."""
        state = self._adam.state[self._parameter]
        vectors = {
            "weights": self.weights.master,
            "adam_mean": state["exp_avg"],
            "adam_mean_square": state["exp_avg_sq"],
            "adam_updates": state["step"],
        }
        return vectors if self.ema is None else vectors | {"ema": self.ema}
