"""The optimiser: Adam or Schedule-Free AdamW over the flat weights, with the learning rate.

It also clips the gradient, and keeps an average of the weights and the fp16 loss scale. An update
whose gradient is not finite changes only the loss scaler. Everything happens on the device, so an
update never waits for the GPU.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.optim.adam import adam

from nmt.config.training_config import TrainingConfig
from nmt.system.distributed import Vector
from nmt.training.flat_weights import FlatWeights

_FP16_SCALE = 2.0**15
_DOUBLED_AFTER = 2_000  # updates in a row without an overflow


def learning_rate(config: TrainingConfig, d_model: int, update: int) -> float:
    """Return the learning rate of update number `update`, counted from 1.

    `inverse_sqrt` with the paper's peak is its equation 3,
    d_model^-0.5 * min(update^-0.5, update * warmup_updates^-1.5). `cosine` is half a cosine
    (Loshchilov and Hutter 2017, equation 5, without restarts). `wsd` is of Hu et al. (2024),
    section 4.2, with a linear decay.
    """
    peak = config.learning_rate or (d_model * config.warmup_updates) ** -0.5
    if update <= config.warmup_updates:
        return peak * update / config.warmup_updates
    if config.schedule == "constant" or update <= config.decay_begins:
        return peak
    if config.schedule == "inverse_sqrt":
        return float(peak * (config.warmup_updates / update) ** 0.5)
    # The share that is left of the way from the peak to max_updates.
    way = max(1, config.max_updates - max(config.warmup_updates, config.decay_begins))
    left = max(0, config.max_updates - update) / way
    return peak * (1 - math.cos(math.pi * left)) / 2 if config.schedule == "cosine" else peak * left


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

        Args:
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


class _Adam:
    """Adam (Kingma and Ba 2015), with AdamW's decay (Loshchilov and Hutter 2019), and an average.

    `average` (n,) is validated and written, if there is one. It is an exponential moving average.
    """

    def __init__(self, weights: FlatWeights, config: TrainingConfig) -> None:
        self.average = weights.master.clone() if config.ema_decay else None
        self._weights = weights
        self._config = config
        self._mean = torch.zeros_like(weights.trainable)  # (s,)
        self._mean_square = torch.zeros_like(weights.trainable)  # (s,)
        self._updates = torch.zeros((), device=weights.master.device)  # without the skipped ones

    def step(self, gradient: Tensor, update: int, learning_rate: float, skipped: Tensor) -> None:
        """Change the weights by a clipped gradient (s,), which may be written over.

        skipped: a scalar. If it is 1.0, nothing changes; else it is 0.0.
        """
        config, weights = self._config, self._weights
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
            lr=learning_rate,
            beta1=config.adam_beta1,
            beta2=config.adam_beta2,
            eps=config.adam_epsilon,
            found_inf=skipped,  # if 1, nothing changes
        )
        if self.average is not None:
            # In the first updates the average would mostly be the random start.
            decay = min(config.ema_decay, update / (update + 10))
            # By 0 after a skipped update, so the average stays.
            self.average.lerp_(weights.master, (1 - decay) * (1 - skipped))

    def held_bytes(self) -> dict[str, int]:
        """Return the memory of what this keeps for each weight, by name."""
        held = {"Adam": self._mean.nbytes + self._mean_square.nbytes}
        if self.average is not None:
            held["moving average"] = self.average.nbytes
        return held

    def vectors(self) -> dict[str, Vector]:
        """Return what a resumed run needs, without the weights, by name."""
        vectors = {
            "adam_mean": Vector(self._mean, self._weights.trained_places),
            "adam_mean_square": Vector(self._mean_square, self._weights.trained_places),
            "adam_updates": Vector(self._updates),
        }
        if self.average is not None:
            vectors["ema"] = Vector(self.average, self._weights.places)
        return vectors


class _ScheduleFree:
    """Schedule-Free AdamW (Defazio et al. 2024, "The Road Less Scheduled", algorithm 1).

    The iterate z takes Adam's steps without momentum. The average x is the mean of all z, each with
    the square of its learning rate as its weight; x is the model. Training runs at
    y = (1 - beta1) z + beta1 x: these are the weights that the gradient is of. A run needs no end
    that is known from the start, because x takes the place of a decay.
    """

    def __init__(self, weights: FlatWeights, config: TrainingConfig) -> None:
        self.average = weights.master.clone()  # x (n,)
        self._weights = weights  # y
        self._config = config
        self._iterate = weights.trainable.clone()  # z (s,)
        self._mean_square = torch.zeros_like(weights.trainable)  # (s,)
        self._updates = torch.zeros((), device=weights.master.device)  # without the skipped ones
        self._sum = torch.zeros((), device=weights.master.device)  # of the weights of all z

    def step(self, gradient: Tensor, _: int, learning_rate: float, skipped: Tensor) -> None:
        config, trainable = self._config, self._weights.trainable
        if config.weight_decay:
            share = learning_rate * config.weight_decay * (1 - skipped)
            self._iterate.addcmul_(trainable, share, value=-1)
        # With beta1 = 0, Adam's mean is the gradient itself, which so needs no vector of its own.
        adam(
            [self._iterate],
            [gradient],
            [gradient],
            [self._mean_square],
            [],  # of AMSGrad
            [self._updates],
            fused=True,
            amsgrad=False,
            maximize=False,
            weight_decay=0.0,
            lr=learning_rate,
            beta1=0.0,
            beta2=config.adam_beta2,
            eps=config.adam_epsilon,
            found_inf=skipped,
        )
        weight = learning_rate**2 * (1 - skipped)
        self._sum += weight
        average = self.average[: len(trainable)]  # (s,)
        # Until an update counts, both are 0.
        average.lerp_(self._iterate, weight / self._sum.clamp(min=1e-30))
        torch.lerp(self._iterate, average, config.adam_beta1, out=trainable)

    def held_bytes(self) -> dict[str, int]:
        return {
            "Schedule-Free AdamW": self._iterate.nbytes + self._mean_square.nbytes,
            "average": self.average.nbytes,
        }

    def vectors(self) -> dict[str, Vector]:
        places = self._weights.trained_places
        return {
            "average": Vector(self.average, self._weights.places),
            "iterate": Vector(self._iterate, places),
            "mean_square": Vector(self._mean_square, places),
            "updates": Vector(self._updates),
            "sum_of_weights": Vector(self._sum),
        }


class Optimizer:
    """Changes the flat weights by each update's gradient, which it clips."""

    def __init__(self, weights: FlatWeights, config: TrainingConfig, d_model: int) -> None:
        self.weights = weights
        self.config = config
        self.d_model = d_model
        self.loss_scaler = LossScaler(config.precision == "fp16", weights.master.device)
        self.learning_rate_factor = 1.0  # less after the run has diverged
        rule = _ScheduleFree if config.optimizer == "schedule_free" else _Adam
        self._rule = rule(weights, config)

    @property
    def eval_weights(self) -> Tensor:
        """The weights to validate and write, as in `FlatWeights.master`: perhaps an average."""
        average = self._rule.average
        return self.weights.master if average is None else average

    @property
    def eval_name(self) -> str:
        """Their name among `vectors`."""
        held = self.eval_weights
        return next(name for name, vector in self.vectors().items() if vector.held is held)

    def loaded(self, *, learning_rate_factor: float) -> None:
        """Continue with what has been loaded into `vectors`."""
        self.learning_rate_factor = learning_rate_factor
        self.weights.refresh()

    def learning_rate(self, update: int) -> float:
        """Return the learning rate of update number `update`, counted from 1."""
        return learning_rate(self.config, self.d_model, update) * self.learning_rate_factor

    def step(self, update: int, *, dropped: Tensor) -> Tensor:
        """Apply the gradient of update number `update`, counted from 1, and begin the next one.

        dropped: a scalar. If it is 1.0, take no step; else it is 0.0.

        Returns:
            The gradient's norm before clipping, a scalar tensor. If it is not finite, nothing
            except the loss scaler has changed.
        """
        gradient = self.weights.own_gradient  # (s,)
        norm = self.weights.norm() / self.loss_scaler.scale  # of the gradient without the scale
        # Flags are tensors: an `if` would make the host wait for the device.
        bad = (~norm.isfinite()).float()
        if self.loss_scaler.fp16:
            gradient /= self.loss_scaler.scale
        if self.config.clip_norm:
            # The epsilon keeps a gradient of zeros from becoming 0 / 0.
            gradient *= (self.config.clip_norm / (norm + 1e-6)).clamp(max=1.0)
        self._rule.step(gradient, update, self.learning_rate(update), torch.maximum(bad, dropped))
        self.weights.begin_gradient()
        self.weights.refresh()
        self.loss_scaler.note(bad, dropped)
        return norm

    def held_bytes(self) -> dict[str, int]:
        """Return the memory of all vectors with a value per weight, by name."""
        return self.weights.held_bytes() | self._rule.held_bytes()

    def vectors(self) -> dict[str, Vector]:
        """Return every vector that a resumed run needs, by name; loading writes into them."""
        return {
            "weights": Vector(self.weights.master, self.weights.places),
            **self._rule.vectors(),
            "guard": Vector(self.loss_scaler.state),
        }
