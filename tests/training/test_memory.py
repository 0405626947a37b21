"""Expected memory against what real tensors, torch's profiler and a run's files take."""

from mmap import ACCESS_READ, mmap
from pathlib import Path

import numpy as np
import pytest
import torch
from toy_training import recipe

from nmt.config.fields import Value
from nmt.data.batches import Batch, collate
from nmt.data.folder import DataFolder
from nmt.models.device import dtype_of
from nmt.models.registry import build_model
from nmt.training.first_weights import freeze
from nmt.training.flat_weights import FlatWeights
from nmt.training.loss import losses_of
from nmt.training.memory import PeakMemory, memory_needs
from nmt.training.optimizer import Optimizer

SIZES = (345, 345)


@pytest.fixture(scope="module")
def batch(data: Path) -> Batch:
    return collate(*DataFolder.open(data).train.rows(np.arange(40)))


@pytest.mark.parametrize(
    "values",
    [{}, {"precision": "bf16"}, {"ema_decay": 0.9}, {"precision": "fp16"}, {"freeze": "encoder.*"}],
)
def test_weights_take_what_their_vectors_take(batch: Batch, values: dict[str, Value]) -> None:
    asked = recipe(**values)
    model = build_model("transformer", asked.model, *SIZES)
    freeze(model, asked.training.freeze)
    weights = FlatWeights(model, dtype_of(asked.training.precision))
    optimizer = Optimizer(weights, asked.training, asked.model.d_model)
    vectors = [*optimizer.vectors().values(), weights.gradient]
    vectors += [p for p in model.parameters() if p.dtype != torch.float32]
    expected = sum(tensor.nbytes for tensor in vectors if tensor.numel() > 3)  # no counters
    needs = memory_needs(asked, SIZES, batch)
    assert needs.pop("micro-batch") > 0
    assert sum(needs.values()) == expected


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_micro_batch_takes_what_the_profiler_sees(batch: Batch, precision: str) -> None:
    asked = recipe(precision=precision, d_model=64, d_ff=128)
    model = build_model("transformer", asked.model, *SIZES).to(dtype_of(precision))
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    with torch.profiler.profile(profile_memory=True) as profiler:
        loss, _ = losses_of(model, batch, 0.1)
        loss.backward()  # type: ignore[no-untyped-call]
    changes = [
        event.nbytes()
        for event in profiler.profiler.kineto_results.events()
        if event.name() == "[memory]"
    ]
    measured = np.cumsum(changes).max()
    assert memory_needs(asked, SIZES, batch)["micro-batch"] == pytest.approx(measured, rel=0.05)


def test_an_encoder_that_reads_no_eos_takes_a_little_less(batch: Batch) -> None:
    with_eos, without = (
        memory_needs(recipe(source_end=is_read), SIZES, batch)["micro-batch"]
        for is_read in (True, False)
    )
    assert 0.8 * with_eos < without < with_eos


def test_a_micro_batch_takes_the_same_whenever_it_is_asked(batch: Batch) -> None:
    asked = recipe(dropout=0.37)  # which no other test has drawn masks for
    assert memory_needs(asked, SIZES, batch) == memory_needs(asked, SIZES, batch)


def test_of_the_peak_files_are_known(tmp_path: Path) -> None:
    status = Path("/proc/self/status")
    if not status.exists() or "RssFile" not in status.read_text():
        pytest.skip("the system does not tell")
    (tmp_path / "code").write_bytes(bytes(16 << 20))
    peak = PeakMemory(torch.device("cpu"))
    assert peak.file_bytes() < 8e6
    with (tmp_path / "code").open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as code:
        assert not any(code[:: 4 << 10])
        assert 15e6 < peak.file_bytes() < 25e6
