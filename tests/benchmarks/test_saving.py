"""How long the training loop waits for saves of `transformer_big`.

The disk writes 200 MB/s. Between two saves the loop multiplies matrices. A thread writes, as
`nmt train` does, or the loop writes by itself. Each save is a checkpoint, or a checkpoint and the
whole training state.
"""

from __future__ import annotations

import itertools
import resource
import time
from pathlib import Path
from statistics import median

import pytest
import torch
from benchmarks.corpora import toy
from benchmarks.harness import publish, rounds, setting, spread, table
from benchmarks.machine import describe

from nmt.config import resolve_recipe
from nmt.data.folder import DataFolder
from nmt.distributed import Ranks
from nmt.models import tensor_file
from nmt.models.presets import preset_values
from nmt.models.registry import build_model
from nmt.runs.checkpoint import RunState
from nmt.runs.run_folder import RunFolder
from nmt.training.first_weights import card_of
from nmt.training.flat_weights import FlatWeights
from nmt.training.optimizer import Optimizer
from nmt.training.saving import Saver

pytestmark = pytest.mark.benchmark

ROUNDS = rounds(3)
SECONDS = setting("SECONDS", 45)  # between two saves
DISK_RATE = 200e6
TYPES = 37_000  # the paper's vocabulary


def test_saving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = resolve_recipe(
        "transformer_big", "transformer", [("preset", preset_values("transformer_big"))]
    )
    model = build_model(recipe.architecture, recipe.model, TYPES, TYPES)
    optimizer = Optimizer(FlatWeights(model, torch.float32), recipe.training, recipe.model.d_model)
    card = card_of(recipe, DataFolder.open(toy(tmp_path / "data")))
    monkeypatch.setattr(tensor_file, "check_room", at_disk_rate)
    rows = []
    kinds = itertools.product(("a checkpoint", "with the state"), ("by a thread", "by the loop"))
    for kind, writer in kinds:
        run = RunFolder(tmp_path / f"{kind} {writer}")
        run.create()
        ranks = Ranks(rank=0, local_rank=0, local_world_size=1, world_size=1)
        saver = Saver(run, ranks, recipe.training, optimizer)
        began = time.monotonic()
        saver.prepare()
        saver.wait()
        prepared, waited, rates = time.monotonic() - began, [], []
        for number in range(ROUNDS):
            began = time.monotonic()
            whole = kind == "with the state"
            saver.save(RunState(update=number), card, best=False, checkpoint=True, whole=whole)
            if writer == "by the loop":
                saver.wait()
            waited.append(time.monotonic() - began)
            rates.append(products_per_second(SECONDS))
        saver.wait()
        rows.append(
            {
                "what": kind,
                "written": writer,
                "memory for copies, seconds": f"{prepared:.2f}",
                f"seconds a save, median of {ROUNDS} (range)": spread(waited, ".2f"),
                "products a second, median": f"{median(rates):.2f}",
            }
        )
    parameters = len(optimizer.weights.master)
    state = sum(vector.nbytes for vector in optimizer.vectors().values())
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    publish(
        f"{describe()}. {parameters:,} parameters, a state of {state / 1e9:.2f} GB and a model of "
        f"{4 * parameters / 1e9:.2f} GB every {SECONDS} s, to a disk of {DISK_RATE / 1e6:.0f} "
        f"MB/s. Peak of memory: {peak / 1e9:.1f} GB; the copy takes as much as the state.\n\n"
        f"{table(rows)}"
    )


def at_disk_rate(_path: Path, needed: int) -> None:
    """Wait as long as a slow disk would write."""
    time.sleep(needed / DISK_RATE)


def products_per_second(seconds: float) -> float:
    """Multiply matrices for some time, as training would."""
    left, right = torch.randn(2048, 1024), torch.randn(1024, 4096)
    began, count = time.monotonic(), 0
    while time.monotonic() < began + seconds:
        left @ right
        count += 1
    return count / seconds
