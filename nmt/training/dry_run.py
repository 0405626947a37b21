"""`nmt train --dry-run`: estimate the updates, memory and time of a run; write nothing.

A few seconds of training on the data measure the time of an update and the memory; everything else
is computed. The time is that of the median round of updates, which leaves out what comes once, such
as compiling for another length. All processes of the run measure together. For more than you can
start, set WORLD_SIZE to the planned number: one process then does its share of each update, and the
time to sum gradients is estimated. On a CPU, where an update of many micro-batches takes minutes,
each process does one micro-batch of it. The optimiser's step then counts as often, so the time is a
little too long.
"""

from __future__ import annotations

import math
import os
import time

import torch

from nmt import console
from nmt.config.recipes import Recipe
from nmt.config.training_config import TrainingConfig
from nmt.data.batches import Batch
from nmt.errors import NMTError
from nmt.models.device import memory_errors, return_freed_memory
from nmt.runs.run_folder import RunFolder
from nmt.system.distributed import Ranks
from nmt.system.files import megabytes
from nmt.training import memory
from nmt.training.choose_recipe import TrainCommand
from nmt.training.run_metrics import MetricsWindow, device_name
from nmt.training.saving import DiskBudget
from nmt.training.setup import open_run
from nmt.training.stop_request import StopRequest
from nmt.training.trainer import Trainer

TRIAL_SECONDS = 5.0
_ROUND_SECONDS = 0.5

# Assumed bytes per second: sending gradients between processes, and writing to disk.
_SUM_RATE = {"cuda": 10e9, "cpu": 1e9}  # PCI Express; a network
_DISK_RATE = 200e6
# Assumed share of an A100's dense products in bf16, and their rate per second. The big Transformer
# of NVIDIA's DeepLearningExamples reaches a third, with 82,059 target tokens a second.
_A100_SHARE, _A100_RATE = 0.3, 312e12

Row = tuple[str, str]
MAIN_ROWS = (
    "preset",
    "parameters",
    "device",
    "processes",
    "precision",
    "epochs, about",
    "tokens a second",
    "time an update",
    "time of validating",
    "how sure",
)
"""What most people want to know besides the answer in short."""
Round = tuple[MetricsWindow, dict[str, float]]


@memory_errors()
def dry_run(recipe: Recipe, command: TrainCommand) -> list[Row]:
    """Return the estimates for a run as rows of name and value; empty except on the first rank.

    The first row is the answer in short.

    UsageError in the same cases as `train`.
    """
    ranks = Ranks.from_environment(command.reason)
    processes = ranks.world_size
    if "RANK" not in os.environ:  # WORLD_SIZE is not torchrun's, but the user's
        ranks = Ranks(rank=0, local_rank=0, local_world_size=1, world_size=1)
    ranks.join()
    peak, free = memory.PeakMemory(torch.device("cpu")), memory.available_bytes()
    try:
        run = RunFolder(command.out)
        opened = open_run(recipe, command, run, ranks, is_trial=True)
        device = opened.device
        is_resumed = ranks.is_first and run.exists
        if is_resumed and (changes := run.changes(opened.recipe, opened.initial)[0]):
            console.notice(f"{run.path}: {'; '.join(changes)}")
        console.notice(f"training in memory for about {TRIAL_SECONDS:.0f} seconds")
        if device.type == "cuda":
            free = torch.cuda.get_device_properties(device).total_memory
            peak = memory.PeakMemory(device)
        trainer = Trainer(opened, StopRequest())
        trainer.choose_micro_batch()
        rows = _rows(trainer, peak, free, processes)
    except NMTError:
        ranks.leave()  # all ranks raise this error together
        raise
    ranks.leave()
    return rows if ranks.is_first else []


def _rows(trainer: Trainer, peak: memory.PeakMemory, free: float, processes: int) -> list[Row]:
    """Return the estimates for a run of `processes`; others than those may measure."""
    recipe, data, device, ranks = trainer.recipe, trainer.data, trainer.device, trainer.ranks
    config = recipe.training
    for warning in trainer.warnings():
        console.warning(warning)
    peak.restart()  # after the sizes that were tried
    longest, share = trainer.longest, memory.share_of_update(config.batch_tokens, processes)
    tokens = min(trainer.state.micro_batch_tokens, max(longest, share))
    is_estimate = processes > ranks.world_size
    # All shares of an update are about equal, so a process may do another's, or a part of its own.
    parts = 1 if device.type == "cuda" else -(-share // tokens)  # of a process's share
    if is_estimate or parts > 1:
        first = processes - 1 if is_estimate else ranks.rank
        trainer.begin_stream((first * parts, processes * parts), tokens)
    sizes = len(data.src_vocabulary), len(data.tgt_vocabulary)
    shape, is_guided = trainer.train_step.fixed_shape, bool(config.guided_alignment)
    largest = memory.even_batch(tokens, longest, min(sizes), shape, has_links=is_guided)
    needs = memory.memory_needs(recipe, sizes, largest)
    disk = DiskBudget.of(trainer.optimizer, trainer.card)
    rounds = _try(trainer, largest)
    window, metrics = sorted(rounds, key=lambda one: one[1]["updates_per_second"])[len(rounds) // 2]
    if device.type == "cuda":  # whose attention keeps no scores, which are counted above
        needs["micro-batch"] = peak.bytes() - sum(trainer.optimizer.held_bytes().values())
    return_freed_memory()  # as before a validation
    weights = trainer.optimizer.weights  # in fp32, like those that are validated
    with weights.replaced_by(trainer.optimizer.eval_weights), trainer.train_step.eager():
        validation = trainer.validator.estimated_seconds(trainer.model) / processes
    sent = 2 * (processes - 1) / processes * trainer.optimizer.weights.gradient.nbytes
    summing = sent / _SUM_RATE[device.type] if is_estimate else 0.0
    an_epoch = trainer.updates_an_epoch()
    operations = trainer.flops(window.lengths) / window.updates * config.max_updates
    times = _time_rows(config, disk, parts / metrics["updates_per_second"] + summing, validation)
    used = max(sum(needs.values()), peak.bytes())
    if device.type == "cpu":  # of all processes of this machine
        shared = peak.file_bytes()
        used = peak.before + shared + ranks.local_world_size * (peak.bytes() - shared)
    updates = sum(one.updates for one, _ in rounds)
    most = "at most " if config.schedule == "until_flat" else ""
    answer = (
        f"{most}{times[-1][1]} in all, {megabytes(used)} of memory of {megabytes(int(free))} free, "
        f"which {'fits' if used < free else 'is too much'}; {megabytes(disk.bytes)} of disk"
    )
    return [
        ("in short", answer),
        ("preset", recipe.preset),
        ("parameters", f"{trainer.optimizer.weights.count:,}"),
        (
            "device",
            f"{device_name(device)}, {console.counted(config.threads, 'thread', 'threads')}",
        ),
        ("processes", ", ".join(filter(None, (f"{processes:,}", ranks.reason)))),
        ("precision", config.precision),
        ("updates an epoch, about", f"{an_epoch:,}"),
        ("epochs, about", f"{config.max_updates / an_epoch:,.1f}"),
        ("micro-batch", f"at most {tokens:,} tokens a side"),
        *((f"memory: {name}", megabytes(size)) for name, size in needs.items()),
        ("memory, expected", megabytes(sum(needs.values()))),
        ("memory, measured", megabytes(peak.bytes())),
        ("memory of the host to save", megabytes(disk.state_bytes)),
        ("disk, at most", megabytes(disk.bytes)),
        ("tokens a second", f"{metrics['tokens_per_second'] / parts:,.0f}"),
        *times,
        ("operations of all updates", f"{operations:.2g}"),
        (
            "on one NVIDIA A100, at least",
            f"{console.duration(operations / (_A100_SHARE * _A100_RATE))}, at "
            f"{_A100_SHARE:.0%} of its {_A100_RATE / 1e12:.0f} TFLOP/s in bf16 (assumed)",
        ),
        ("how sure", _how_sure(ranks.world_size, processes, parts, updates, device.type)),
    ]


def _how_sure(measured: int, processes: int, parts: int, updates: int, device: str) -> str:
    """Describe how the times were found."""
    done = console.counted(updates, "update", "updates")
    if processes == measured:
        who = "one process" if measured == 1 else f"{measured:,} processes together"
        share = f"1/{parts} of " if parts > 1 else ""
        how = f"measured on {who}, {share}{done}"
    else:
        share = f"1/{processes * parts} of "
        how = (
            f"estimate: one process did {share}{done}; sum of gradients at "
            f"{_SUM_RATE[device] / 1e9:g} GB/s (assumed), not hidden by the backward pass"
        )
    return f"{how}; validation by a part of it; disk at {_DISK_RATE / 1e6:g} MB/s (assumed)"


def _time_rows(
    config: TrainingConfig, disk: DiskBudget, update: float, validation: float
) -> list[Row]:
    """Return the times of a run, from the seconds of an update and of a validation."""
    updates = config.max_updates * update
    validations = math.ceil(config.max_updates / config.validate_every)
    validating = validations * validation
    training = updates + validating
    # Each validation may find a better model; states are saved by the clock.
    models = config.max_updates // config.save_every + validations
    states = training / (60 * config.save_minutes)
    saving = (models * disk.model_bytes + states * disk.state_bytes) / _DISK_RATE
    each = f"{console.counted(validations, 'time', 'times')} {validation:,.3g} s"
    return [
        ("time an update", f"{update:,.3g} s"),
        ("time of all updates", console.duration(updates)),
        ("time of validating", f"{console.duration(validating)}: {each}"),
        ("time of saving, meanwhile", console.duration(saving)),
        ("time in all", console.duration(max(training, saving))),
    ]


def _try(trainer: Trainer, largest: Batch) -> list[Round]:
    """Train for some seconds, at least one update, after trying the largest micro-batch.

    Returns its rounds of updates, each with its metrics.
    """
    rounds: list[Round] = []
    fits = not trainer.ranks.any(not trainer.train_step.fits(largest))
    began, updates, is_first = time.monotonic(), 1, True
    while fits and (not rounds or trainer.ranks.any(time.monotonic() - began < TRIAL_SECONDS)):
        trainer.begin_window()
        fits = _has_memory_for(updates, trainer)
        window = trainer.window
        # The first update waits for the plan of the pool. A long one is enough to go by.
        if is_first and trainer.ranks.any(time.monotonic() - began < TRIAL_SECONDS):
            began = time.monotonic()
        elif window.has_metrics():
            metrics = window.metrics(trainer.ranks, trainer.flops, trainer.machine_rate)
            rounds.append((window, metrics))
            wanted = max(1, round(_ROUND_SECONDS * metrics["updates_per_second"]))
            updates = trainer.ranks.gather(wanted)[0]
        is_first = False
    if not fits:
        raise NMTError(
            "out of memory: lower micro_batch_tokens from "
            f"{trainer.state.micro_batch_tokens:,} or train a smaller model"
        )
    return rounds


def _has_memory_for(updates: int, trainer: Trainer) -> bool:
    """Train some updates as the loop does, and return whether they had enough memory."""
    for number in range(updates):
        update = trainer.next_update()
        trainer.advance(update, trainer.train_step.run(update, trainer.state.update + 1))
        results = trainer.read_results(wait=number == updates - 1)
        if any(result.outcome.out_of_memory for result in results):
            return False
    return True
