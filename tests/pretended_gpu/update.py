"""Count the work of one update on a GPU, at full size, without a GPU.

    PYTHONPATH=tests/pretended_gpu/site:tests python -m pretended_gpu.update \\
        transformer_big transformer_base,precision=fp32 [--lines]

Each argument is a preset, with settings that differ from it. An update has 25,000 tokens a side of
sentences as long as those of WMT, and a vocabulary of 32,000. `--lines` also lists the operations
by the line that asked for them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

import numpy as np
import torch
from pretended_gpu.counting import GPU, Counts, Work, counting

import nmt.training.loss
import nmt.training.update
from nmt.config.fields import Value
from nmt.config.presets import find_preset, preset_values
from nmt.config.recipes import resolve_recipe
from nmt.data.batches import LengthSums, collate, longest_first
from nmt.data.shards import Lengths, TokenRows
from nmt.data.updates import Position, Update
from nmt.models.device import dtype_of
from nmt.models.registry import build_model
from nmt.system.distributed import Ranks
from nmt.training.flat_weights import FlatWeights
from nmt.training.optimizer import Optimizer
from nmt.training.stop import StopRequest
from nmt.training.update import UpdateRunner

VOCABULARY = 32_000
TOKENS = 25_000
PHASES = ("forward", "loss", "backward", "step", "rest")
SETTINGS: dict[str, Value] = {
    "precision": "bf16",
    "compile": "false",
    "matmul": "torch",
    "threads": 1,
}


def made_up_update(longest: int, tokens: int = TOKENS) -> Update:
    """Return an update of one micro-batch, always the same, of sentences up to some length."""
    random = np.random.default_rng(1)
    src = np.clip(random.lognormal(3.1, 0.55, tokens).astype(np.int32), 1, longest)
    tgt = np.clip((src * random.normal(1.0, 0.15, tokens)).astype(np.int32), 1, longest)
    ends = np.cumsum(np.stack((src, tgt)) + 1, axis=1)  # (2, pairs)
    count = int((ends.max(axis=0) <= tokens).sum())
    order = longest_first(src[:count], tgt[:count])
    src, tgt = src[order], tgt[order]
    sums = LengthSums.of_pairs(src, tgt)
    batch = collate(_rows(src), _rows(tgt), on_gpu=True)
    return Update(np.arange(count), [batch], sums, sums.src + sums.tgt, Position(), 0.0)


def _rows(lengths: Lengths) -> TokenRows:
    return TokenRows((np.arange(lengths.sum()) % VOCABULARY).astype(np.uint32), lengths)


def count_update(preset: str, settings: Mapping[str, Value], longest: int = 190) -> Counts:
    """Count an update that is not the first of its run."""
    spec = find_preset(preset)
    sources = [("preset", preset_values(preset)), ("settings", SETTINGS | dict(settings))]
    recipe = resolve_recipe(preset, spec.architecture, sources)
    update = made_up_update(longest)
    (batch,), sums = update.batches, update.lengths
    with counting() as counts:
        with GPU:
            model = build_model(spec.architecture, recipe.model, VOCABULARY, VOCABULARY).train()
        weights = FlatWeights(model, dtype_of(recipe.training.precision), device=GPU)
        optimizer = Optimizer(weights, recipe.training, recipe.model.d_model)
        runner = UpdateRunner(model, optimizer, Ranks(0, 0, 1, 1), GPU, StopRequest())
        by_size = {
            (sums.src, sums.src): sums.src_src,
            (sums.tgt, sums.tgt): sums.tgt_tgt,
            (sums.tgt, sums.src): sums.src_tgt,
        }
        counts.pairs = lambda queries, keys: by_size[queries, keys]
        with (
            counts.phase("step", optimizer, "step"),
            counts.phase("forward", nmt.training.update, "losses_of"),
            counts.phase("backward", runner, "_backward"),
            counts.phase("loss", nmt.training.loss, "smoothed_cross_entropy"),
        ):
            with torch.no_grad():
                model(batch.to(GPU))  # makes tables of positions
            counts.clear()
            runner.run(update, 1)
    return counts


def report(counts: Counts, *, lines: bool) -> None:
    """Print a table by phase."""
    print(f"{'':10}{'kernels':>9}{'TFLOP':>9}{'GB':>9}{'device ms':>11}{'launch ms':>11}")
    for phase in (*PHASES, None):
        work = counts.total(phase)
        print(f"{phase or 'all':10}{_row(work)}{1e3 * work.launch_seconds:11.1f}")
    for kind, counted in (("copies", counts.copies), ("waits", counts.waits)):
        print(f"{kind}: {sum(counted.values())}")
        for where, number in counted.items():
            print(f"  {number:4} {where}")
    if lines:
        longest = sorted(counts.work.items(), key=lambda item: -item[1].seconds)
        for (phase, name, line), work in longest:
            print(f"{'':10}{_row(work)}  {phase:9} {name:32} {line}")


def _row(work: Work) -> str:
    milliseconds = 1e3 * work.seconds
    return f"{work.kernels:9,}{work.flops / 1e12:9.2f}{work.bytes / 1e9:9.2f}{milliseconds:11.2f}"


def main(arguments: list[str]) -> None:
    lines = "--lines" in arguments
    for argument in arguments:
        if argument != "--lines":
            preset, *settings = argument.split(",")
            print(argument)
            report(
                count_update(preset, dict(setting.split("=") for setting in settings)), lines=lines
            )


if __name__ == "__main__":
    main(sys.argv[1:])
