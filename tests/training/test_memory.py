"""Expected memory against what real tensors, torch's profiler and a run's files take."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from toy_training import recipe, train

from nmt.config import Value
from nmt.data.batches import collate
from nmt.data.folder import DataFolder
from nmt.models.device import DTYPES
from nmt.models.registry import build_model, count_parameters
from nmt.training.flat_weights import FlatWeights
from nmt.training.loss import smoothed_cross_entropy
from nmt.training.memory import disk_bytes, micro_batch_bytes, weight_bytes
from nmt.training.optimizer import Optimizer

SIZES = (345, 345)


@pytest.mark.parametrize(
    "values", [{}, {"precision": "bf16"}, {"ema_decay": 0.9}, {"precision": "fp16"}]
)
def test_weights_take_what_their_vectors_take(values: dict[str, Value]) -> None:
    asked = recipe(**values)
    model = build_model("transformer", asked.model, *SIZES)
    weights = FlatWeights(model, DTYPES[asked.training.precision])
    optimizer = Optimizer(weights, asked.training, asked.model.d_model)
    held = [*optimizer.vectors().values(), weights.gradient]
    parameters = list(model.parameters())
    held += [p for p in parameters if p.dtype != torch.float32]
    held += [p.grad for p in parameters if p.grad is not None and p.dtype != torch.float32]
    expected = sum(tensor.nbytes for tensor in held if tensor.numel() > 3)  # no counters
    count = count_parameters("transformer", asked.model, *SIZES)
    assert sum(weight_bytes(asked.training, count).values()) == expected


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_micro_batch_takes_what_the_profiler_sees(data: Path, precision: str) -> None:
    asked = recipe(precision=precision, d_model=64, d_ff=128)
    batch = collate(*DataFolder.open(data).train.rows(np.arange(40)))
    model = build_model("transformer", asked.model, *SIZES).to(DTYPES[precision])
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    with torch.profiler.profile(profile_memory=True) as profiler:
        loss, _ = smoothed_cross_entropy(model(batch), model.output_projection, batch.targets, 0.1)
        loss.backward()  # type: ignore[no-untyped-call]
    changes = [
        event.nbytes()
        for event in profiler.profiler.kineto_results.events()
        if event.name() == "[memory]"
    ]
    measured = np.cumsum(changes).max()
    assert micro_batch_bytes(asked, SIZES, batch) == pytest.approx(measured, rel=0.05)


@pytest.mark.parametrize("values", [{}, {"ema_decay": 0.9, "keep_best": 2, "max_updates": 24}])
def test_the_disk_holds_what_a_run_leaves(
    data: Path, tmp_path: Path, values: dict[str, Value]
) -> None:
    values = {"keep_last": 2, **values}
    out = train(data, tmp_path / "run", **values)
    # A model file may stand under several names.
    sizes = {path.stat().st_ino: path.stat().st_size for path in out.rglob("*.safetensors")}
    states = sum(path.stat().st_size for path in out.rglob("*.state"))
    besides = (data / "vocab.model").stat().st_size
    asked = recipe(**values)
    count = count_parameters("transformer", asked.model, *SIZES)
    measured = sum(sizes.values()) - len(sizes) * besides + states
    assert disk_bytes(asked.training, count) == pytest.approx(measured, rel=0.03)
