"""The learning rate of each update, and the update at which training ends by it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from nmt.config.training_config import TrainingConfig

Losses = Sequence[tuple[int, float]]
"""Updates that were validated, and the valid loss."""

_FALL = 0.6
"""The updates in which `until_flat` falls to 0, as a share of those before. Zhai et al. (2022,
"Scaling Vision Transformers", section 3.5) call this a cool-down."""


def learning_rate(config: TrainingConfig, d_model: int, update: int, fall_start: int = 0) -> float:
    """Return the learning rate of update number `update`, counted from 1.

    `inverse_sqrt` with the paper's peak is its equation 3,
    d_model^-0.5 * min(update^-0.5, update * warmup_updates^-1.5). `cosine` is half a cosine
    (Loshchilov and Hutter 2017, equation 5, without restarts).

    fall_start: for `until_flat`, see `start_of_fall`.
    """
    peak = config.learning_rate or (d_model * config.warmup_updates) ** -0.5
    if update <= config.warmup_updates:
        return peak * update / config.warmup_updates
    if config.schedule == "constant":
        return peak
    if config.schedule in ("inverse_sqrt", "until_flat"):
        rate = float(peak * (config.warmup_updates / update) ** 0.5)
        fallen = (update - fall_start) / (_FALL * fall_start) if fall_start else 0.0
        return rate * (1 - min(1.0, max(0.0, fallen)))
    # The share that is left of the way from the peak to max_updates.
    way = max(1, config.max_updates - config.warmup_updates)
    left = max(0, config.max_updates - update) / way
    return peak * (1 - math.cos(math.pi * left)) / 2 if config.schedule == "cosine" else peak * left


def start_of_fall(config: TrainingConfig, losses: Losses) -> int:
    """Return the update from which `until_flat` lets the learning rate fall to 0; else 0.

    That is the first validation whose loss is less than `flat_gain` below the loss after half as
    many updates. If there is none so far, it is the latest from which the rate is 0 at max_updates.
    """
    if config.schedule != "until_flat":
        return 0
    latest = max(1, int(config.max_updates / (1 + _FALL)))
    updates, values = zip(*losses, strict=True) if losses else ((), ())
    for update, loss in losses:
        half = update / 2
        is_comparable = half >= max(updates[0], config.warmup_updates)
        if is_comparable and float(np.interp(half, updates, values)) - loss < config.flat_gain:
            return min(update, latest)
    return latest


def last_update(config: TrainingConfig, losses: Losses) -> int:
    """Return the update after which training ends, as far as is known."""
    fall_start = start_of_fall(config, losses)
    end = math.ceil(fall_start * (1 + _FALL)) if fall_start else config.max_updates
    return min(end, config.max_updates)
