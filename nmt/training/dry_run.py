"""What a run would be, before it is started: its updates, its memory, and the time it would take.

Nothing is written. What can be computed is computed; how long an update takes, and how much memory
in the end, is measured by some seconds of training on the very data.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from nmt import console
from nmt.config import Recipe, TrainingConfig
from nmt.data.batches import Batch, LengthSums, collate
from nmt.data.epochs import Epochs, Pairs, plan_pool
from nmt.data.folder import DataFolder
from nmt.data.permutation import Indices
from nmt.data.stream import Cut, Position, Update
from nmt.errors import NMTError, UsageError
from nmt.files import megabytes
from nmt.models.device import dtype_of
from nmt.models.out_of_memory import memory_errors
from nmt.training.disk_space import Need
from nmt.training.distributed import Ranks
from nmt.training.launch import initial_model, open_data, settle
from nmt.training.machine_rate import device_name, matrix_product_rate
from nmt.training.memory import PeakMemory, micro_batch_bytes
from nmt.training.meter import Figures, Window
from nmt.training.optimizer import Optimizer
from nmt.training.run_folder import RunFolder
from nmt.training.schedule import learning_rate
from nmt.training.stop import StopRequest
from nmt.training.trainer import Trainer

TRIAL_SECONDS = 5.0

Row = tuple[str, str]


@dataclass(frozen=True)
class Survey:
    """What the updates of the first pool of pairs hold, before any subword dropout."""

    updates: int
    updates_an_epoch: int
    lengths: LengthSums  # summed over the updates
    micro_batches: int
    largest: tuple[Indices, ...]  # pairs of the micro-batches that may take the most memory


def survey(pairs: Pairs, config: TrainingConfig, cut: Cut) -> Survey:
    """Plan a pool, and look at all of its updates.

    The largest micro-batches are that of the most tokens and that of the most products of
    attention, its padding counted; which of them takes more memory depends on the model.
    """
    epochs = Epochs(pairs.shares, seed=config.seed)
    plan = plan_pool(
        pairs, epochs, batch_tokens=config.batch_tokens, seed=config.seed, epoch=0, pool=0
    )
    total, count = LengthSums(), 0
    by_tokens = by_attention = (0, plan.order)
    for index in range(len(plan)):
        update = plan.update(index)
        lengths = src, tgt = pairs.lengths(update)
        total += LengthSums.of(src, tgt)
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
    """Return what a run would be, as names and values for people.

    Raises:
        UsageError: where `launch` would, and under torchrun: one process is measured.
    """
    ranks = Ranks.from_environment()
    if ranks.world_size > 1:
        raise UsageError("--dry-run measures one process: run it without torchrun")
    run = RunFolder(run_path)
    device, data = open_data(recipe, data_path, ranks)
    run.check()
    initial = initial_model(init_from, run)
    recipe = settle(recipe, data, run, initial, ranks, device)
    console.notice(f"training in memory for about {TRIAL_SECONDS:.0f} seconds")
    peak = PeakMemory(device)
    trainer = Trainer(recipe, data, run, initial, ranks, device, StopRequest())
    trainer.settle_micro_batch()
    found = survey(data.train, recipe.training, trainer.cut)
    sizes = len(data.src_vocabulary), len(data.tgt_vocabulary)
    candidates = [_alone(data, pairs, trainer.cut) for pairs in found.largest]
    need, largest = max(
        ((micro_batch_bytes(recipe, sizes, update.batches[0]), update) for update in candidates),
        key=lambda sized: sized[0],
    )
    disk = Need.of(
        recipe.training, trainer.optimizer, vocabulary_bytes=trainer.card.vocabulary_bytes
    )
    flops = trainer.flops(found.lengths) / found.updates
    rate = matrix_product_rate(device, dtype_of(recipe.training.precision))
    figures = _try(trainer, largest, rate)
    return [
        ("preset", recipe.preset),
        ("parameters", f"{len(trainer.weights.master):,}"),
        ("device", f"{device_name(device)}, {recipe.training.threads} threads"),
        ("precision", recipe.training.precision),
        *_data_rows(data),
        ("learning rate", _schedule(recipe)),
        *_update_rows(recipe.training, found, largest.batches[0]),
        *_memory_rows(trainer.optimizer, need),
        ("memory, measured", megabytes(peak.bytes())),
        ("disk, at most", megabytes(disk.bytes)),
        ("model TFLOP an update", f"{flops / 1e12:,.3g}"),
        ("GFLOP/s of matrix products", f"{rate / 1e9:,.0f}"),
        ("model-FLOPs utilisation", f"{figures.mfu:.0%}"),
        ("tokens a second", f"{figures.tokens_per_second:,.0f}"),
        ("time an update", f"{1 / figures.updates_per_second:,.3g} s"),
        (
            "time of all updates",
            console.duration(recipe.training.max_updates / figures.updates_per_second),
        ),
    ]


def _try(trainer: Trainer, largest: Update, machine_rate: float) -> Figures:
    """Train for some seconds, at least one update; the largest micro-batch goes before."""
    trainer.train_update(largest, Window.empty(trainer.device))
    next(trainer.updates)  # the first waits until the pool has been planned
    window = Window.empty(trainer.device)
    while not window.updates or time.monotonic() - window.started < TRIAL_SECONDS:
        if trainer.train_update(window.take(trainer.updates), window).out_of_memory:
            raise NMTError(
                "out of memory: lower micro_batch_tokens from "
                f"{trainer.progress.micro_batch_tokens:,}, or train a smaller model"
            )
        window.loss.item()  # waits for a GPU to be done
    return window.figures(trainer.ranks, trainer.flops, machine_rate)


def _alone(data: DataFolder, pairs: Indices, cut: Cut) -> Update:
    """Return one micro-batch as an update of its own."""
    return Update(
        pairs=pairs,
        batches=[collate(*data.train.rows(pairs), cut.shape)],
        lengths=LengthSums.of(*data.train.lengths(pairs)),
        own_tokens=0,
        position=Position(),
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
