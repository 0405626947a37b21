"""Start a run: join the ranks, open data and run folder, choose the device, build and train."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable
from pathlib import Path

import torch

from nmt import program
from nmt.config import STAGES, Recipe, resolve_recipe
from nmt.data.corpus import read_pairs
from nmt.data.folder import DataFolder
from nmt.data.stages import Stages
from nmt.distributed import Ranks
from nmt.errors import NMTError, Stopped, UsageError
from nmt.models.device import choose_device, keep_freed_memory, memory_errors
from nmt.models.model_file import model_checksum
from nmt.runs.checkpoint import STATE, updates_of
from nmt.runs.report import require_tensorboard
from nmt.runs.run_folder import Changes, InitialModel, RunFolder
from nmt.training.command_line import CommandLine
from nmt.training.loop import train
from nmt.training.open_values import resolve_open_values
from nmt.training.recovery import resume_or_begin
from nmt.training.saving import DiskBudget
from nmt.training.stop import StopRequest
from nmt.training.trainer import Trainer, TrainingSetup
from nmt.training.validation import tokenizers_of


@memory_errors()
def launch(recipe: Recipe, command: CommandLine, *, deadline: float = math.inf) -> None:
    """Train a model, or resume a run that was stopped.

    Args:
        recipe: all values.
        command: the folders, and what else the user gave.
        deadline: the time, as of `time.monotonic`, at which the run stops.

    Raises:
        UsageError: if the recipe does not fit the data, the machine or the run folder.
        Stopped: if asked to stop, with everything saved.
        NMTError: for example, if another process of the run has failed.
    """
    ranks, run, stop = Ranks.from_environment(), RunFolder(command.out), StopRequest(deadline)
    has_begun, trainer = False, None

    def claim() -> None:
        if recipe.training.tensorboard:
            require_tensorboard()
        run.create()
        run.lock()

    ranks.join()
    try:
        setup = set_up(recipe, command, run, ranks, claim)
        has_begun = True
        with stop.listening():
            try:
                trainer = _trainer(setup, stop)
                train(trainer)
            except Exception:
                # torchrun sends SIGTERM to the ranks that are left; first they find out what to
                # say, and write what they have to save.
                if ranks.in_group:
                    program.end()
                raise
    except Stopped:
        ranks.leave()
        raise
    except (KeyboardInterrupt, Exception) as error:
        if ranks.in_group:
            program.end()
        with StopRequest().listening():  # or the next signal would interrupt this
            cause = ranks.cause_elsewhere(error)
            if cause is None:
                _leave_word(error, stop.reason, ranks)
            if trainer is not None:
                trainer.saver.wait()
            if has_begun and ranks.is_first:
                _write_end(cause or error, stop.reason, run, trainer)
        if cause is not None:
            raise cause from error
        if isinstance(error, NMTError):
            ranks.leave()  # all ranks raise it together; after any other error, nobody may wait
        raise
    finally:
        if trainer is not None:
            trainer.saver.wait()  # before another process may write there
        run.unlock()
    ranks.leave()


def _leave_word(error: BaseException, asked: str, ranks: Ranks) -> None:
    """Tell the other ranks why this one ends."""
    if isinstance(error, KeyboardInterrupt):
        ranks.leave_word("stopped", asked or "by a signal")
    else:
        kind = "" if isinstance(error, NMTError) else f"{type(error).__name__}: "
        ranks.leave_word("failed", f"{kind}{error}")


def _write_end(error: BaseException, asked: str, run: RunFolder, trainer: Trainer | None) -> None:
    """Write to status.json how a run has ended that could not end in an orderly way."""
    saved = max(updates_of(run, STATE), default=0)
    update = trainer.state.update if trainer else saved
    status, reason = "failed", str(error)
    if isinstance(error, KeyboardInterrupt | Stopped):
        reason = asked or str(error) or "by a signal"
        lost = ": updates after the last save are lost" if update > saved else ""
        status, reason, update = "stopped", f"interrupted ({reason}){lost}", saved
    if run.path.is_dir():
        with contextlib.suppress(OSError):  # the failure may be a full disk
            run.write_status(status, update, reason)


def _trainer(setup: TrainingSetup, stop: StopRequest) -> Trainer:
    """Return the trainer in the state of the run folder, with enough disk for all that it saves."""
    recipe, run, ranks = setup.recipe, setup.run, setup.ranks
    # Finding the size of micro-batches may take minutes, to compile the model; so may links.
    takes_long = recipe.training.compiles or recipe.training.guided_alignment
    with stop.at_once() if takes_long else contextlib.nullcontext():
        trainer = Trainer(setup, stop)
        resume_or_begin(trainer)
    # Only now, so that you can correct a recipe that does not fit the data in this folder.
    with ranks.raise_on_all_ranks():
        if ranks.is_first:
            DiskBudget.of(recipe.training, trainer.optimizer, trainer.card).check(run)
            if setup.changes:
                run.log(setup.changes)
            run.write_config(
                recipe,
                setup.data.fingerprint,
                setup.initial,
                ranks=ranks.world_size,
                data_path=setup.command.data,
                command=str(setup.command),
            )
    return trainer


def set_up(
    recipe: Recipe,
    command: CommandLine,
    run: RunFolder,
    ranks: Ranks,
    claim: Callable[[], None],
) -> TrainingSetup:
    """Open the data, choose the device, and fill in the values that the recipe leaves open.

    Args:
        recipe: that of the first rank counts, as only its machine need have the run folder.
        command: see `launch`.
        run: the run folder.
        ranks: all processes.
        claim: makes sure of the run folder, on the first rank.

    Raises:
        UsageError: if the recipe does not fit the data, the machine or the run folder.
    """
    initial, changes = InitialModel(), ""
    recipe = _of_first(recipe, ranks)
    with ranks.raise_on_all_ranks():
        device = choose_device(recipe.training.device, ranks.local_rank)
        if device.type == "cpu":
            keep_freed_memory()
        data = DataFolder.open(command.data, verify=ranks.local_rank == 0)
        if ranks.is_first and run.exists:
            _refuse(run.other_data(command.data, data.fingerprint), run, recipe, data, command)
        _check_fit(recipe, data)
        if ranks.is_first:
            initial = _initial_model(command.init_from, run)
            if recipe.training.lora_rank and not initial.path:
                raise UsageError("lora_rank is for a model that is tuned; give --init-from")
            claim()
    _check_same(data, device, ranks)
    initial = InitialModel(**ranks.gather(dataclasses.asdict(initial))[0])
    recipe = resolve_open_values(recipe, data, run, ranks, device)
    with ranks.raise_on_all_ranks():
        if ranks.is_first and run.exists:
            compared = run.changes(recipe, initial)
            _refuse(compared, run, recipe, data, command)
            if compared.allowed:
                changes = f"{run.path}: {'; '.join(compared.allowed)}"
    return TrainingSetup(recipe, command, data, run, initial, ranks, device, changes)


def _refuse(
    changes: Changes, run: RunFolder, recipe: Recipe, data: DataFolder, command: CommandLine
) -> None:
    """Raise UsageError if something changed that must not, with the command that does it."""
    if changes.refused:
        raise UsageError(
            f"{run.path} has a run with other values: {'; '.join(changes.refused)}; give the old "
            f"values to resume it, or {command.elsewhere(run, changes, recipe, data)}"
        )


def _of_first(recipe: Recipe, ranks: Ranks) -> Recipe:
    """Return the first rank's recipe."""
    values: dict[str, object] = {STAGES: [dataclasses.asdict(stage) for stage in recipe.stages]}
    for section in recipe.sections.values():
        values |= dataclasses.asdict(section)
    preset, architecture, values = ranks.gather([recipe.preset, recipe.architecture, values])[0]
    return resolve_recipe(preset, architecture, [("the first process", values)])


def _initial_model(init_from: Path | None, run: RunFolder) -> InitialModel:
    """Return the model that the weights start from, as the run folder records it."""
    if run.exists:
        noted = run.initial_model()
        # The weights are in the state. The model may be gone, or its run may have a better one now.
        if updates_of(run, STATE) and str(init_from or noted.path) == noted.path:
            return noted
        if init_from is None and noted.path:
            init_from = Path(noted.path)
    if init_from is None:
        return InitialModel()
    return InitialModel(str(init_from), model_checksum(init_from))


def _check_same(data: DataFolder, device: torch.device, ranks: Ranks) -> None:
    """Refuse copies of the data or kinds of device that differ between machines."""
    if len(set(ranks.gather(device.type))) > 1:
        raise UsageError("only some of the processes have a GPU; give --device cpu")
    if len(set(ranks.gather(data.fingerprint))) > 1:
        raise UsageError(f"{data.path} differs between the machines; copy one folder to all")


def _check_fit(recipe: Recipe, data: DataFolder) -> None:
    if recipe.augment.any and data.train_text is None:
        raise UsageError(
            f"{data.path} has no text, which [augment] changes; prepare it with --keep-text"
        )
    if recipe.training.guided_alignment and recipe.architecture != "transformer":
        raise UsageError(
            f"guided_alignment is for Transformers, but {recipe.preset} is {recipe.architecture}; "
            "set guided_alignment=0"
        )
    Stages.of(data, recipe.stages)
    tokenizers_of(recipe.training.validate_tokenizer, data)
    if recipe.training.valid_old:
        if not all(data.info.langs):
            raise UsageError(
                f"{data.path} has several pairs of languages, and valid_old needs one; leave it out"
            )
        read_pairs(recipe.training.valid_old, *data.info.langs)
    if not data.joint and getattr(recipe.model, "tie_embeddings", "") == "all":
        raise UsageError(
            f"{data.path} has separate vocabularies, which cannot share one embedding; "
            "add --set tie_embeddings=decoder"
        )
    longest, limit = data.info.max_length + 1, recipe.model.longest_sentence  # with eos
    if limit is not None and longest > limit:
        raise UsageError(
            f"{data.path} has sentences of up to {longest} tokens, but max_positions is {limit}; "
            f"add --set max_positions={longest} or prepare with --max-length {limit - 1}"
        )
