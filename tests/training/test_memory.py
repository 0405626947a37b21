"""Expected memory against what real tensors, torch's profiler and a run's files take."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from toy_training import recipe

from nmt.data.batches import collate
from nmt.data.folder import DataFolder
from nmt.models.device import dtype_of
from nmt.models.registry import build_model, count_parameters
from nmt.training.first_weights import freeze
from nmt.training.flat_weights import FlatWeights
from nmt.training.loss import smoothed_cross_entropy
from nmt.training.memory import held_bytes, micro_batch_bytes
from nmt.training.optimizer import Optimizer
from nmt.values import Value

SIZES = (345, 345)


@pytest.mark.parametrize(
    "values",
    [{}, {"precision": "bf16"}, {"ema_decay": 0.9}, {"precision": "fp16"}, {"freeze": "encoder.*"}],
)
def test_weights_take_what_their_vectors_take(values: dict[str, Value]) -> None:
    asked = recipe(**values)
    model = build_model("transformer", asked.model, *SIZES)
    freeze(model, asked.training.freeze)
    weights = FlatWeights(model, dtype_of(asked.training.precision))
    optimizer = Optimizer(weights, asked.training, asked.model.d_model)
    held = [*optimizer.vectors().values(), weights.gradient]
    parameters = list(model.parameters())
    held += [p for p in parameters if p.dtype != torch.float32]
    held += [p.grad for p in parameters if p.grad is not None and p.dtype != torch.float32]
    expected = sum(tensor.nbytes for tensor in held if tensor.numel() > 3)  # no counters
    assert sum(optimizer.held_bytes().values()) == expected


@pytest.mark.parametrize(
    ("values", "bytes_each"),
    [
        ({}, {"weights": 4, "gradient": 4, "Adam": 4 + 4}),
        ({"precision": "bf16"}, {"rounded weights and gradient": 2 + 2}),
        ({"ema_decay": 0.9}, {"moving average": 4}),
    ],
)
def test_what_weights_take_is_known_before_there_are_any(
    values: dict[str, Value], bytes_each: dict[str, int]
) -> None:
    asked = recipe(**values)
    count = count_parameters("transformer", asked.model, *SIZES)
    found = held_bytes(asked, SIZES)
    assert {name: found[name] for name in bytes_each} == {
        name: count * size for name, size in bytes_each.items()
    }


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_micro_batch_takes_what_the_profiler_sees(data: Path, precision: str) -> None:
    asked = recipe(precision=precision, d_model=64, d_ff=128)
    batch = collate(*DataFolder.open(data).train.rows(np.arange(40)))
    model = build_model("transformer", asked.model, *SIZES).to(dtype_of(precision))
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


def test_a_micro_batch_takes_the_same_whenever_it_is_asked(data: Path) -> None:
    asked = recipe(dropout=0.37)  # which no other test has drawn masks for
    batch = collate(*DataFolder.open(data).train.rows(np.arange(40)))
    first = micro_batch_bytes(asked, SIZES, batch)
    assert micro_batch_bytes(asked, SIZES, batch) == first
