"""The course of a run: why it ends and what trains it for longer, and warnings before it starts."""

from __future__ import annotations

from nmt.config.presets import MOST_EPOCHS
from nmt.config.training_config import TrainingConfig
from nmt.runs.checkpoint import RunState


def ends(config: TrainingConfig, state: RunState, last: int) -> dict[str, str]:
    """Return the reasons why a run is finished, each with the option that takes it away.

    last: the update at which the learning rate is 0, or max_updates.
    """
    reasons = dict[str, str]()
    if state.update >= config.max_updates:
        reasons["max_updates"] = f"--max-updates {2 * state.update}"
    elif state.update >= last:
        reasons["validation is flat"] = "--init-from and another --out"
    if 0 < config.patience <= state.bad_validations:
        reason = f"no better result in {config.patience} validations"
        reasons[reason] = f"--set patience={state.bad_validations + config.patience}"
    return reasons


def warnings_before(config: TrainingConfig, updates_an_epoch: int) -> list[str]:
    """Return what is probably wrong with the length of a run, and what to do."""
    warnings, updates, warmup = [], config.max_updates, config.warmup_updates
    if warmup >= updates and warmup > 1:
        warnings.append(
            f"warmup_updates is {warmup:,} and max_updates {updates:,}, so the learning rate "
            f"rises to the end; give --set warmup_updates={max(1, updates // 10)}, or more updates "
            f"than {warmup:,}"
        )
    epochs = updates / updates_an_epoch
    if epochs > MOST_EPOCHS and not config.patience:
        warnings.append(
            f"{updates:,} updates see the training data {epochs:,.0f} times; give "
            f"--max-updates {MOST_EPOCHS * updates_an_epoch} or fewer, or --set patience=5 to stop "
            "when validation gets no better"
        )
    return warnings
