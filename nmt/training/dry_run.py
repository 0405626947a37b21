"""`nmt train --dry-run`: estimate the updates, memory and time of a run; write nothing.

A few seconds of training on the data measure the time of an update and the memory; everything else
is computed. Under torchrun all processes measure together. Without torchrun you may set WORLD_SIZE
to the planned number of processes: one process then does its share of each update, and the time to
sum gradients is estimated.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from nmt import console
from nmt.config import Recipe, TrainingConfig
from nmt.data.batches import Batch, LengthSums, collate, split_update
from nmt.data.epochs import Epochs, Indices, Pairs, plan_pool
from nmt.data.folder import DataFolder
from nmt.data.stream import Cut, Position, Update
from nmt.distributed import Ranks
from nmt.errors import NMTError
from nmt.files import megabytes
from nmt.models.device import memory_errors
from nmt.runs.run_folder import InitialModel, RunFolder
from nmt.training.launch import initial_model, open_data, settle
from nmt.training.memory import PeakMemory, longest_pair, micro_batch_bytes, share_of_update
from nmt.training.meter import Metrics, Window, device_name, rate_of_ranks
from nmt.training.optimizer import Optimizer, learning_rate
from nmt.training.saving import Need
from nmt.training.stop import StopRequest
from nmt.training.trainer import Trainer, updates_of_run

TRIAL_SECONDS = 5.0

# Assumed bytes per second: sending gradients between processes, and writing to disk.
_SUM_RATE = {"cuda": 10e9, "cpu": 1e9}  # PCI Express; a network
_DISK_RATE = 200e6

Row = tuple[str, str]


@dataclass(frozen=True)
class Survey:
    """Statistics of the updates of the first pool of pairs, before any subword dropout."""

    updates: int
    updates_an_epoch: int
    lengths: LengthSums  # summed over the updates
    micro_batches: int
    largest: tuple[Indices, ...]  # pairs of the micro-batches that may take the most memory


def survey(pairs: Pairs, config: TrainingConfig, cut: Cut) -> Survey:
    """Plan a pool and count over all of its updates.

    The largest micro-batches are the one with the most tokens and the one with the most attention
    scores, including padding. The model decides which of them takes more memory.
    """
    epochs = Epochs(pairs.shares, seed=config.seed)
    plan = plan_pool(
        pairs, epochs, batch_tokens=config.batch_tokens, seed=config.seed, epoch=0, pool=0
    )
    total, count = LengthSums(), 0
    by_tokens = by_attention = (0, plan.order)
    for index in range(len(plan)):
        update = plan.update(index)
        src, tgt = pairs.lengths(update)
        total += LengthSums.of(src, tgt)
        share = split_update(src, tgt, world_size=cut.world_size)[cut.rank]
        update = update[share]
        lengths = src, tgt = src[share], tgt[share]
        for part in cut.parts(src, tgt):
            count += 1
            longest_src, longest_tgt = (int(side[part].max()) + 1 for side in lengths)
            tokens = sum(int(side[part].sum()) for side in lengths) + 2 * len(part)
            if tokens > by_tokens[0]:
                by_tokens = tokens, update[part]
            products = longest_src**2 + longest_tgt**2 + longest_src * longest_tgt
            if len(part) * products > by_attention[0]:
                by_attention = len(part) * products, update[part]
    return Survey(
        updates=len(plan),
        updates_an_epoch=len(plan) * epochs.pools,
        lengths=total,
        micro_batches=count,
        largest=(by_tokens[1], by_attention[1]),
    )


@memory_errors()
def dry_run(
    recipe: Recipe, data_path: Path, run_path: Path, init_from: Path | None = None
) -> list[Row]:
    """Return the estimates for a run as rows of name and value; empty except on the first rank.

    Raises:
        UsageError: in the same cases as `launch`.
    """
    ranks = Ranks.from_environment()
    processes = ranks.world_size
    if "RANK" not in os.environ:  # WORLD_SIZE is not torchrun's, but the user's
        ranks = Ranks(rank=0, local_rank=0, local_world_size=1, world_size=1)
    ranks.join()
    try:
        rows = _rows(recipe, data_path, RunFolder(run_path), init_from, ranks, processes)
    except NMTError:
        ranks.leave()  # all ranks raise this error together
        raise
    ranks.leave()
    return rows if ranks.is_first else []


def _rows(
    recipe: Recipe,
    data_path: Path,
    run: RunFolder,
    init_from: Path | None,
    ranks: Ranks,
    processes: int,
) -> list[Row]:
    """Return the estimates for a run of `processes`; `ranks` are the processes that measure."""
    initial = InitialModel()
    with ranks.together():
        device, data = open_data(recipe, data_path, ranks)
        if ranks.is_first:
            run.check()
            initial = initial_model(init_from, run)
    initial = InitialModel(**ranks.gather(dataclasses.asdict(initial))[0])
    recipe = settle(recipe, data, run, initial, ranks, device)
    config = recipe.training
    console.notice(f"training in memory for about {TRIAL_SECONDS:.0f} seconds")
    peak = PeakMemory(device)
    trainer = Trainer(recipe, data, run, initial, ranks, device, StopRequest())
    trainer.settle_micro_batch()
    is_estimate = processes > ranks.world_size
    if is_estimate:
        _take_share(trainer, processes)
    found = survey(data.train, config, trainer.cut)
    sizes = len(data.src_vocabulary), len(data.tgt_vocabulary)
    candidates = [_alone(data, pairs, trainer.cut) for pairs in found.largest]
    need, largest = max(
        ((micro_batch_bytes(recipe, sizes, update.batches[0]), update) for update in candidates),
        key=lambda sized: sized[0],
    )
    disk = Need.of(config, trainer.optimizer, vocabulary_bytes=trainer.card.vocabulary_bytes)
    flops = trainer.flops(found.lengths) / found.updates
    rate = rate_of_ranks(config.precision, device, ranks)[0] * processes / ranks.world_size
    metrics = _try(trainer, largest, rate)
    with trainer.runner.eager():
        validation = trainer.validator.estimated_seconds(trainer.model) / processes
    sent = 2 * (processes - 1) / processes * trainer.weights.gradient.nbytes
    times = _Times(
        update=1 / metrics.updates_per_second,
        summing=sent / _SUM_RATE[device.type] if is_estimate else 0.0,
        validation=validation,
        state=disk.state_bytes / _DISK_RATE,
        model=disk.model_bytes / _DISK_RATE,
    )
    return [
        ("preset", recipe.preset),
        ("parameters", f"{len(trainer.weights.master):,}"),
        ("device", f"{device_name(device)}, {config.threads} threads"),
        ("processes", f"{processes:,}"),
        ("precision", config.precision),
        *_data_rows(data),
        ("learning rate", _schedule(recipe)),
        *_update_rows(config, found, largest.batches[0]),
        *_memory_rows(trainer.optimizer, need),
        ("memory, measured", megabytes(peak.bytes())),
        ("disk, at most", megabytes(disk.bytes)),
        ("model TFLOP an update", f"{flops / 1e12:,.3g}"),
        ("GFLOP/s of matrix products", f"{rate / 1e9:,.0f}"),
        ("model-FLOPs utilisation", f"{metrics.mfu:.0%}"),
        ("tokens a second", f"{metrics.tokens_per_second:,.0f}"),
        *times.rows(config),
        ("how sure", _how_sure(ranks.world_size, processes, metrics.updates, device.type)),
    ]


def _take_share(trainer: Trainer, processes: int) -> None:
    """Let a single process do the share of the last of several, which has the long sentences."""
    config, longest = trainer.config, longest_pair(trainer.data)
    tokens = trainer.progress.micro_batch_tokens
    if not config.micro_batch_tokens:
        tokens = min(tokens, max(longest, share_of_update(config.batch_tokens, processes)))
    trainer.cut = dataclasses.replace(
        trainer.cut,
        micro_batch_tokens=tokens,
        rank=processes - 1,
        world_size=processes,
        shape=trainer.runner.shape(tokens, longest),
    )
    trainer.updates = updates_of_run(trainer.data, config, trainer.progress, trainer.cut)


def _how_sure(measured: int, processes: int, updates: int, device: str) -> str:
    """Describe how the times were found."""
    if processes == measured:
        who = "one process" if measured == 1 else f"all {measured:,} processes together"
        found = f"measured on {who}, {updates:,} updates"
    else:
        found = (
            f"estimate: one process did 1/{processes} of {updates:,} updates; sum of gradients at "
            f"{_SUM_RATE[device] / 1e9:g} GB/s (assumed), hidden by the backward pass or not at all"
        )
    return f"{found}; validation by a part of it; disk at {_DISK_RATE / 1e6:g} MB/s (assumed)"


@dataclass(frozen=True)
class _Times:
    """Seconds that the parts of a run take."""

    update: float
    summing: float  # of an update's gradients over processes; 0 if `update` includes it
    validation: float
    state: float  # to write one training state
    model: float  # to write one model file

    def rows(self, config: TrainingConfig) -> list[Row]:
        """Return the times of a run as ranges, because summing gradients may overlap other work."""
        an_update = [self.update, self.update + self.summing]
        updates = [config.max_updates * seconds for seconds in an_update]
        validations = config.max_updates // config.validate_every
        validating = validations * self.validation
        checkpoints = config.max_updates // config.save_every
        # Each validation may find a better model; states are also saved by the clock.
        saving = [
            checkpoints * (self.state + self.model)
            + validations * self.model
            + (seconds + validating) / (60 * config.save_minutes) * self.state
            for seconds in updates
        ]
        in_all = [sum(times) + validating for times in zip(updates, saving, strict=True)]
        return [
            ("time an update", _range(f"{seconds:,.3g} s" for seconds in an_update)),
            ("time of all updates", _range(map(console.duration, updates))),
            (
                "time of validating",
                f"{console.duration(validating)}: {validations:,} times {self.validation:,.3g} s",
            ),
            ("time of saving", _range(map(console.duration, saving))),
            ("time in all", _range(map(console.duration, in_all))),
        ]


def _range(ends: Iterable[str]) -> str:
    return " to ".join(dict.fromkeys(ends))  # one value if both are equal


def _try(trainer: Trainer, largest: Update, machine_rate: float) -> Metrics:
    """Train for some seconds, at least one update, after trying the largest micro-batch."""
    trainer.train_update(largest, Window.empty(trainer.device))
    next(trainer.updates)  # the first one waits for the plan of the pool
    window = Window.empty(trainer.device)
    while not window.updates or trainer.ranks.any(
        time.monotonic() - window.started < TRIAL_SECONDS
    ):
        if trainer.train_update(window.take(trainer.updates), window).out_of_memory:
            raise NMTError(
                "out of memory: lower micro_batch_tokens from "
                f"{trainer.progress.micro_batch_tokens:,} or train a smaller model"
            )
        window.loss.item()  # waits for the GPU
    return window.metrics(trainer.ranks, trainer.flops, machine_rate)


def _alone(data: DataFolder, pairs: Indices, cut: Cut) -> Update:
    """Return an update of one micro-batch."""
    return Update(
        pairs=pairs,
        batches=[collate(*data.train.rows(pairs), cut.shape)],
        lengths=LengthSums.of(*data.train.lengths(pairs)),
        own_tokens=0,
        following=Position(),
        epoch=0.0,
    )


def _data_rows(data: DataFolder) -> list[Row]:
    train = data.info.train
    return [
        ("training pairs", f"{train.pairs:,}"),
        (f"{data.src_lang} tokens", f"{train.src.tokens:,}"),
        (f"{data.tgt_lang} tokens", f"{train.tgt.tokens:,}"),
    ]


def _schedule(recipe: Recipe) -> str:
    config = recipe.training
    peak = learning_rate(config, recipe.model.d_model, config.warmup_updates)
    return (
        f"up to {peak:.3g} in {config.warmup_updates:,} updates of {config.max_updates:,}, then "
        f"{config.schedule}"
    )


def _update_rows(config: TrainingConfig, found: Survey, largest: Batch) -> list[Row]:
    src, tgt = (tokens / found.updates for tokens in (found.lengths.src, found.lengths.tgt))
    pairs = len(largest.src.starts) - 1
    return [
        ("tokens an update", f"at most {config.batch_tokens:,} a side"),
        ("tokens an update, mean", f"{src:,.0f} source, {tgt:,.0f} target"),
        ("updates an epoch", f"{found.updates_an_epoch:,}"),
        ("epochs", f"{config.max_updates / found.updates_an_epoch:,.1f}"),
        ("micro-batches an update, mean", f"{found.micro_batches / found.updates:.1f}"),
        (
            "largest micro-batch",
            f"{pairs:,} pairs of up to {largest.src.longest} and {largest.tgt_in.longest} tokens",
        ),
    ]


def _memory_rows(optimizer: Optimizer, micro_batch: int) -> list[Row]:
    held = optimizer.held_bytes() | {"largest micro-batch": micro_batch}
    rows = [(f"memory: {name}", megabytes(size)) for name, size in held.items()]
    return [*rows, ("memory, expected", megabytes(sum(held.values())))]
