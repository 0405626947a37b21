"""All weights of a model in one vector.

One vector makes everything that touches every weight one operation: the sum over ranks, clipping,
Adam, the moving average. The model computes with views of it, or, in bf16 and fp16, with views of
a rounded copy; the vector itself always is fp32.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from nmt.models.contract import TranslationModel

_ALL = slice(None)


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
        self.trained: list[tuple[nn.Parameter, slice]] = []
        """The parameters that need a gradient, and where each stands in the vectors."""
        self._shapes: dict[str, tuple[int, torch.Size]] = {}
        offset = 0
        for name, parameter in named:
            end = offset + parameter.numel()
            self._shapes[name] = (offset, parameter.shape)
            parameter.data = self._compute[offset:end].view(parameter.shape)
            if parameter.requires_grad:
                parameter.grad = self._partial[offset:end].view(parameter.shape)
                self.trained.append((parameter, slice(offset, end)))
            offset = end

    def held_bytes(self) -> dict[str, int]:
        """Return the memory that the vectors take, by what they are."""
        held = {"weights": self.master.nbytes, "gradient": self.gradient.nbytes}
        if self._compute is not self.master:
            held["rounded weights and gradient"] = self._compute.nbytes + self._partial.nbytes
        return held

    def named(self, vector: Tensor) -> dict[str, Tensor]:
        """Return views of a vector of n values under the parameters' names."""
        return {
            name: vector[offset : offset + shape.numel()].view(shape)
            for name, (offset, shape) in self._shapes.items()
        }

    def collect_gradient(self, part: slice = _ALL) -> None:
        """Add a part of what the backward pass has left to the update's gradient."""
        if self._partial is not self.gradient:
            self.gradient[part] += self._partial[part]
            self._partial[part].zero_()

    def clear_gradient(self) -> None:
        """Forget what the update's backward passes have left so far."""
        self.gradient.zero_()
        if self._partial is not self.gradient:
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
