"""How a run gets to a state that it can go on from: at its start, without memory, after divergence.

- `resume_or_begin` loads the newest training state, if there is one.
- `recover` halves the micro-batches after memory ran out, does without torch.compile after it
  failed, and goes back to a sound state after training diverged.
- `fitting_tokens` chooses how many tokens go through the model at once. On a GPU it tries a batch
  of the longest sentences. On a CPU, where the system kills a process that takes too much, it
  computes the memory instead; there, more than 2,048 tokens of fp32 are not faster.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import torch

from nmt.config import Recipe
from nmt.data.folder import DataFolder
from nmt.distributed import Ranks
from nmt.errors import NMTError
from nmt.runs import checkpoint
from nmt.runs.checkpoint import RunState
from nmt.training.memory import (
    CPU_TOKENS,
    available_bytes,
    even_batch,
    longest_pair,
    memory_needs,
    share_of_update,
)
from nmt.training.meter import MetricsWindow
from nmt.training.trainer import Trainer
from nmt.training.update import UpdateResult, UpdateRunner

_FACTOR_AFTER_DIVERGING = 0.5  # of the learning rate


def resume_or_begin(trainer: Trainer) -> None:
    """Load the run folder's newest state, or begin; then start the stream of updates."""
    saved = checkpoint.restore(
        trainer.run,
        trainer.optimizer.vectors(),
        trainer.ranks,
        decay_begins=trainer.config.decay_begins,
    )
    _go_on_from(trainer, saved or RunState())
    trainer.saver.resume_from(trainer.state if saved else None)


def _go_on_from(trainer: Trainer, state: RunState) -> None:
    """Continue from a state whose vectors have been loaded."""
    trainer.state = state
    trainer.optimizer.loaded(learning_rate_factor=state.learning_rate_factor)
    trainer.valid = {}
    trainer.unread.clear()
    trainer.window = MetricsWindow.empty(trainer.device)
    choose_micro_batch(trainer)


def recover(trainer: Trainer, results: Sequence[UpdateResult]) -> bool:
    """See to what went wrong in the newest update that was read.

    Returns:
        Whether the run now goes on from another state, or in another way.
    """
    if not results:
        return False
    newest, update = results[-1], trainer.state.update - len(trainer.unread)
    if newest.out_of_memory:
        _halve_micro_batch(trainer)
    elif newest.uncompiled:
        stop_compiling(trainer, trainer.run.warn)
    elif trainer.optimizer.loss_scaler.has_diverged(newest.bad_in_a_row, last=trainer.is_finished):
        bad = newest.bad_in_a_row
        go_back(trainer, f"no finite gradient in {bad} updates in a row, up to update {update:,}")
    else:
        return False
    return True


def _halve_micro_batch(trainer: Trainer) -> None:
    """Halve the micro-batches after memory ran out; the update comes again."""
    state, longest = trainer.state, longest_pair(trainer.data)
    if state.micro_batch_tokens <= longest:
        raise NMTError(
            f"out of memory: not even one pair of {longest} tokens fits; train a smaller model or "
            "prepare with a smaller --max-length"
        )
    size = max(longest, state.micro_batch_tokens // 2)
    trainer.state = dataclasses.replace(state, micro_batch_tokens=size)
    trainer.start_stream()
    if trainer.ranks.is_first:
        trainer.run.warn(
            f"out of memory in update {state.update + 1:,}: micro-batches now have at most "
            f"{size:,} tokens; updates stay the same"
        )
        trainer.run.record({"kind": "event", "update": state.update, "micro_batch_tokens": size})
    trainer.save(whole=True)  # the run's bits depend on the split


def stop_compiling(trainer: Trainer, warn: Callable[[str], None]) -> None:
    """Do without torch.compile after it failed; the update comes again."""
    warning = trainer.runner.stop_compiling()
    trainer.start_stream()
    if trainer.ranks.is_first:
        warn(warning)


def go_back(trainer: Trainer, symptom: str) -> None:
    """Go back once to the newest state before the divergence, with a lower learning rate.

    Args:
        trainer: the run.
        symptom: what has been seen of the divergence.

    Raises:
        NMTError: if the run has gone back before, or has no such state.
    """
    run, saver, diverged = trainer.run, trainer.saver, trainer.state
    went_back = diverged.learning_rate_factor < 1
    sound = None
    if not went_back:
        saver.wait()
        vectors = trainer.optimizer.vectors()
        sound = checkpoint.restore(
            run,
            vectors,
            trainer.ranks,
            before=diverged.update,
            decay_begins=trainer.config.decay_begins,
        )
    if sound is None:
        why = "as after going back once" if went_back else "with no state to go back to"
        raise NMTError(
            f"{run.path}: diverged: {symptom}, {why}; lower learning_rate, raise warmup_updates or "
            "set clip_norm, and start in a new folder"
        )
    factor = _FACTOR_AFTER_DIVERGING
    slower = dataclasses.replace(
        sound,
        learning_rate_factor=factor,
        old_text=diverged.old_text,
        old_score=diverged.old_score,
    )
    _go_on_from(trainer, slower)
    saver.resume_from(sound)
    trainer.save(whole=True)  # or a run that is killed now would forget the factor
    if trainer.ranks.is_first:
        with run.best_effort(run.path / "metrics.jsonl"):
            run.cut_metrics(sound.update, sound.validated)
        back = f"back at update {sound.update:,}, with {factor:g} times the learning rate"
        trainer.report.went_back(trainer.state, f"{symptom}: {back}")


# --- the size of micro-batches


def choose_micro_batch(trainer: Trainer) -> None:
    """Choose the size of micro-batches, unless it is known, and start the stream of updates."""
    config, ranks, device = trainer.config, trainer.ranks, trainer.device
    wanted = (
        f"{config.micro_batch_tokens} on {device.type}, {ranks.world_size} x "
        f"{ranks.local_world_size}"
    )
    if trainer.state.micro_batch_for != wanted:
        tokens = fitting_tokens(trainer.recipe, trainer.data, trainer.runner, ranks, device)
        trainer.state = dataclasses.replace(
            trainer.state, micro_batch_tokens=tokens, micro_batch_for=wanted
        )
    trainer.start_stream()


def fitting_tokens(
    recipe: Recipe, data: DataFolder, runner: UpdateRunner, ranks: Ranks, device: torch.device
) -> int:
    """Return the tokens of a micro-batch: the recipe's value, or less if memory is too small.

    All ranks take part and get the same number.

    Raises:
        NMTError: if not even one pair fits.
    """
    config, longest = recipe.training, longest_pair(data)
    cpu = device.type == "cpu"
    share = (
        CPU_TOKENS[config.precision]
        if cpu
        else share_of_update(config.batch_tokens, ranks.world_size)
    )
    tokens = max(longest, config.micro_batch_tokens or share)
    sizes = len(data.src_vocabulary), len(data.tgt_vocabulary)

    def is_too_much(*, eager: bool = False) -> bool:
        """Return whether memory is too small for `tokens` on any rank."""
        return ranks.any(not fits(eager=eager))

    def fits(*, eager: bool) -> bool:
        shape = runner.shape(
            data.train, world_size=ranks.world_size, micro_batch_tokens=tokens, longest=longest
        )
        is_guided = bool(config.guided_alignment)
        batch = even_batch(tokens, longest, min(sizes), shape, has_links=is_guided)
        if not cpu:
            return runner.fits(batch, eager=eager)
        if config.micro_batch_tokens:  # we trust the user's value
            return True
        need = memory_needs(recipe, sizes, batch)["micro-batch"]
        copy_to_save = sum(vector.nbytes for vector in runner.optimizer.vectors().values())
        return need + copy_to_save < available_bytes() / ranks.local_world_size

    def halve() -> None:
        nonlocal tokens
        if tokens == longest:
            raise NMTError(
                f"not enough memory to train this model on one pair of {longest} tokens; train a "
                "smaller model or prepare with a smaller --max-length"
            )
        tokens = max(longest, tokens // 2)

    if not cpu:
        runner.rehearse_sum()
    # Compiling for a size takes minutes. So after the first, sizes are tried eager, which takes no
    # less memory, and only the one that fits is compiled. What we return has been tried as it runs.
    while is_too_much():
        halve()
        while config.compiles_loss and not cpu and is_too_much(eager=True):
            halve()
    return tokens
