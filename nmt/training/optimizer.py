"""The optimiser: Adam over the flat weights, with the learning rate.

It also clips the gradient, and keeps an average of the weights and the fp16 loss scale. An update
whose gradient is not finite changes only the loss scaler. Everything happens on the device, so an
update never waits for the GPU.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.optim.adam import adam

from nmt.config.training_config import TrainingConfig
from nmt.training.flat_weights import FlatWeights
from nmt.training.learning_rate import fall_of, learning_rate, share_left

_FP16_SCALE = 2.0**15
_DOUBLED_AFTER = 2_000  # updates in a row without an overflow


class LossScaler:
    """The fp16 loss scale, and the number of updates in a row whose gradient was not finite.

    The scale keeps fp16 gradients in range, as in Micikevicius et al. (2018): it is halved after an
    overflow and doubled after 2,000 updates without one. In fp32 and bf16 it is 1.
    """

    def __init__(self, fp16: bool, device: torch.device) -> None:
        self.fp16 = fp16
        self.state = torch.tensor([_FP16_SCALE if fp16 else 1.0, 0.0, 0.0], device=device)
        """(3,): scale, good updates since the scale changed, bad updates in a row."""

    @property
    def scale(self) -> Tensor:
        """The factor of losses and gradients; a scalar."""
        return self.state[0]

    @property
    def bad_in_a_row(self) -> Tensor:
        """How many updates in a row were bad, up to the last one; (1,)."""
        return self.state[2:]

    def note(self, bad: Tensor, dropped: Tensor) -> None:
        """Count an update.

        bad: a scalar, 1.0 if its gradient was not finite, else 0.0.
        dropped: a scalar, 1.0 if the update does not count, else 0.0.
        """
        scale, good, in_a_row = self.state
        good = (good + 1) * (1 - bad)  # a bad update begins the count anew
        if self.fp16:
            doubled = good >= _DOUBLED_AFTER
            scale = torch.where(doubled, scale * 2, scale) * (1 - bad / 2)
            good = torch.where(doubled, torch.zeros_like(good), good)
        counted = torch.stack((scale, good, (in_a_row + 1) * bad))
        self.state.copy_(torch.where(dropped > 0, self.state, counted))

    def has_diverged(self, bad_in_a_row: int, *, last: bool = False) -> bool:
        """Return whether so many bad updates in a row mean that training diverges.

        Five are too many, or 30 in fp16, which needs some to find its scale. At the end of a run
        two are, except in fp16, because no good update follows.
        """
        return bad_in_a_row >= (30 if self.fp16 else 2 if last else 5)


class Optimizer:
    """Changes the flat weights by each update's gradient, which it clips.

    Adam (Kingma and Ba 2015), with AdamW's decay (Loshchilov and Hutter 2019), and an average.
    """

    def __init__(self, weights: FlatWeights, config: TrainingConfig, d_model: int) -> None:
        self.weights = weights
        self.config = config
        self.d_model = d_model
        self.fall = fall_of(config, ())
        self.loss_scaler = LossScaler(config.precision == "fp16", weights.master.device)
        self.average = weights.master.clone() if config.ema_decay else None
        """(n,), an exponential moving average of the weights, if there is one."""
        self._mean = torch.zeros_like(weights.trainable)  # (m,)
        self._mean_square = torch.zeros_like(weights.trainable)  # (m,)
        self._updates = torch.zeros((), device=weights.master.device)  # without the skipped ones

    @property
    def eval_weights(self) -> Tensor:
        """The weights to validate and write, as in `FlatWeights.master`: perhaps the average."""
        return self.weights.master if self.average is None else self.average

    @property
    def eval_name(self) -> str:
        """Their name among `vectors`."""
        return "weights" if self.average is None else "ema"

    def learning_rate(self, update: int) -> float:
        """Return the learning rate of update number `update`, counted from 1."""
        return learning_rate(self.config, self.d_model, update, self.fall)

    def step(self, update: int, *, dropped: Tensor) -> Tensor:
        """Apply the gradient of update number `update`, counted from 1, and begin the next one.

        dropped: a scalar. If it is 1.0, take no step; else it is 0.0.

        Returns the gradient's norm before clipping, a scalar tensor. If it is not finite, nothing
        except the loss scaler has changed.
        """
        gradient = self.weights.gradient  # (m,)
        norm: Tensor = gradient.norm() / self.loss_scaler.scale  # of the gradient without the scale
        # Flags are tensors: an `if` would make the host wait for the device.
        bad = (~norm.isfinite()).float()
        if self.loss_scaler.fp16:
            gradient /= self.loss_scaler.scale
        if self.config.clip_norm:
            # The epsilon keeps a gradient of zeros from becoming 0 / 0.
            gradient *= (self.config.clip_norm / (norm + 1e-6)).clamp(max=1.0)
        self._adam(gradient, update, torch.maximum(bad, dropped))
        self.weights.begin_gradient()
        self.weights.refresh()
        self.loss_scaler.note(bad, dropped)
        return norm

    def _adam(self, gradient: Tensor, update: int, skipped: Tensor) -> None:
        """Change the weights by a clipped gradient (m,).

        skipped: a scalar. If it is 1.0, nothing changes; else it is 0.0.
        """
        config, weights = self.config, self.weights
        # The function instead of torch.optim.Adam, which takes two seconds to import the compiler.
        adam(
            [weights.trainable],
            [gradient],
            [self._mean],
            [self._mean_square],
            [],  # of AMSGrad
            [self._updates],
            fused=True,  # one pass over all vectors
            amsgrad=False,
            maximize=False,
            weight_decay=config.weight_decay,
            decoupled_weight_decay=True,
            lr=self.learning_rate(update),
            beta1=config.adam_beta1,
            beta2=config.adam_beta2,
            eps=config.adam_epsilon,
            found_inf=skipped,  # if 1, nothing changes
        )
        if self.average is not None:
            # In the first updates the average would mostly be the random start. It also forgets
            # sooner as the learning rate falls until training ends: the last weights are better.
            counted = update * share_left(self.fall, update)
            decay = min(config.ema_decay, counted / (counted + 10))
            # By 0 after a skipped update, so the average stays.
            self.average.lerp_(weights.master, (1 - decay) * (1 - skipped))

    def held_bytes(self) -> dict[str, int]:
        """Return the memory of all vectors with a value per weight, by name."""
        held = {"Adam": self._mean.nbytes + self._mean_square.nbytes}
        if self.average is not None:
            held["moving average"] = self.average.nbytes
        return self.weights.held_bytes() | held

    def vectors(self) -> dict[str, Tensor]:
        """Return every vector that a resumed run needs, by name; loading writes into them."""
        vectors = {
            "weights": self.weights.master,
            "adam_mean": self._mean,
            "adam_mean_square": self._mean_square,
            "adam_updates": self._updates,
        }
        if self.average is not None:
            vectors["ema"] = self.average
        return vectors | {"guard": self.loss_scaler.state}
