"""The learning rate of each update, and the update at which training ends by it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from nmt.config.training_config import TrainingConfig

History = Sequence[tuple[int, float]]
"""Updates that were validated, and `best_metric`: the loss, or BLEU or chrF with a minus."""

Fall = tuple[int, int]
"""The update from which `until_flat` lets the learning rate fall, and that at which it is 0."""

_FALL = 0.6
"""The updates of the fall, as a share of those until it is flat. Zhai et al. (2022, "Scaling
Vision Transformers", section 3.5) call it a cool-down."""
_SHORTEST_FALL = 0.1  # the same, if validations are far apart
_LEAST_BLEU = 5.0
"""Lower BLEU tells too little: 0 while the loss falls, and from 0.8 to 0.9 is chance."""


def learning_rate(config: TrainingConfig, d_model: int, update: int, fall: Fall) -> float:
    """Return the learning rate of update number `update`, counted from 1.

    `inverse_sqrt` with the paper's peak is its equation 3,
    d_model^-0.5 * min(update^-0.5, update * warmup_updates^-1.5). `cosine` is half a cosine
    (Loshchilov and Hutter 2017, equation 5, without restarts).

    fall: see `fall_of`.
    """
    peak = config.learning_rate or (d_model * config.warmup_updates) ** -0.5
    if update <= config.warmup_updates:
        return peak * update / config.warmup_updates
    if config.schedule == "constant":
        return peak
    falling = float(peak * (config.warmup_updates / update) ** 0.5)
    if config.schedule == "inverse_sqrt":
        return falling
    if config.schedule == "until_flat":
        return falling * share_left(fall, update)
    left = share_left((config.warmup_updates, fall[1]), update)
    return peak * (1 - math.cos(math.pi * left)) / 2 if config.schedule == "cosine" else peak * left


def share_left(fall: Fall, update: int) -> float:
    """Return how much is left of a fall at an update: 1 before it begins, and 0 at its end."""
    start, end = fall
    return 1.0 if update <= start else max(0, end - update) / max(1, end - start)


def fall_of(config: TrainingConfig, history: History) -> Fall:
    """Return the fall of `until_flat`, at whose end training ends; else both are at max_updates.

    Validation is flat where it gained no more than `flat_gain` since half as many updates. Between
    two validations that is interpolated, so that the end depends little on where they are. As long
    as it is not flat, the fall will be the latest one: to max_updates.
    """
    end = config.max_updates
    if config.schedule != "until_flat":
        return end, end
    latest = max(config.warmup_updates, int(end / (1 + _FALL))), end
    gains = _gains(config, history)
    for number, (start, gain) in enumerate(gains):
        if start < latest[0] and gain < config.flat_gain:
            # At this validation, or since the one before.
            two = gains[max(0, number - 1) : number + 1][::-1]
            flat = float(np.interp(config.flat_gain, [g for _, g in two], [u for u, _ in two]))
            return start, math.ceil(max((1 + _FALL) * flat, (1 + _SHORTEST_FALL) * start))
    return latest


def _gains(config: TrainingConfig, history: History) -> list[tuple[int, float]]:
    """Return the updates that were validated, and what each gained since half as many updates.

    A gain is a share of BLEU or chrF, as its logarithm, or of the perplexity. Where there is too
    little to tell it, it is infinite.
    """
    if not history:
        return []
    updates, values = zip(*history, strict=True)
    gains = []
    for update, value in history:
        before = float(np.interp(update / 2, updates, values))
        if update / 2 >= max(updates[0], config.warmup_updates):
            if config.best_metric == "loss":
                gains.append((update, before - value))
            else:
                least = _LEAST_BLEU if config.best_metric == "bleu" else 0.0
                is_telling = before and -value > least
                gains.append((update, math.log(value / before) if is_telling else math.inf))
    return gains
