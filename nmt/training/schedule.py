"""The learning rate's schedules: linear warm-up to a peak, and what comes after it."""

from __future__ import annotations

import math

from nmt.config import TrainingConfig


def learning_rate(config: TrainingConfig, d_model: int, update: int) -> float:
    """Return the learning rate of update number `update`, counted from 1.

    `inverse_sqrt` with the paper's peak is its equation 3,
    d_model^-0.5 * min(update^-0.5, update * warmup_updates^-1.5). `cosine` is half a cosine
    (Loshchilov and Hutter 2017, equation 5, without restarts).
    """
    peak = config.learning_rate or (d_model * config.warmup_updates) ** -0.5
    if update <= config.warmup_updates:
        return peak * update / config.warmup_updates
    if config.schedule == "constant":
        return peak
    if config.schedule == "inverse_sqrt":
        return float(peak * (config.warmup_updates / update) ** 0.5)
    # The share of the way from the peak to max_updates that is left.
    way = max(1, config.max_updates - config.warmup_updates)
    left = max(0, config.max_updates - update) / way
    return peak * left if config.schedule == "linear" else peak * (1 - math.cos(math.pi * left)) / 2
