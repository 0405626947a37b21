"""The metrics of a `train` record, counted by hand, the rate of products, and the checksum."""

import dataclasses
import math
import time
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from toy_training import ALONE

from nmt.data.batches import FixedShape, LengthSums, collate
from nmt.data.shards import TokenRows
from nmt.data.updates import Position, Update
from nmt.training import run_metrics
from nmt.training.run_metrics import MetricsWindow, checksum, matrix_product_rate
from nmt.training.update import UpdateResult

CPU = torch.device("cpu")


def update(*pairs: tuple[int, int], epoch: float = 0.5, shape: FixedShape | None = None) -> Update:
    """An update of one micro-batch, of pairs of so many source and target tokens without eos."""
    src, tgt = (
        TokenRows.from_lists([[7] * length for length in side], token_bytes=2)
        for side in zip(*pairs, strict=True)
    )
    return Update(
        pairs=np.arange(len(pairs)),
        batches=[collate(src, tgt, shape)],
        lengths=LengthSums.of_pairs(src.lengths, tgt.lengths),
        own_tokens=sum(s + t + 2 for s, t in pairs),
        following=Position(),
        epoch=epoch,
    )


def result(*, loss: float = 0, nll: float = 0, norm: float = 1, bad: bool = False) -> UpdateResult:
    """What an update that was done has returned."""
    losses, is_bad = torch.tensor([loss, nll]), torch.tensor(float(bad))
    return UpdateResult(torch.tensor(norm), losses, is_bad, flags=torch.zeros(4))


def metrics(window: MetricsWindow, rate: float = 1.0) -> dict[str, float]:
    return window.metrics(ALONE, lambda sums: 1000.0 * sums.src + sums.src_tgt, rate)


def test_speeds_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)

    def slow() -> Iterator[Update]:
        nonlocal now
        for one in (update((2, 3), (4, 1)), update((5, 5))):
            now += 0.75
            yield one

    window, updates = dataclasses.replace(MetricsWindow.empty(CPU), started=now), slow()
    for _ in range(2):
        window.count(window.take(updates), result())
    now += 2.5
    with window.paused():  # for a validation
        now += 9.0
    # With their eos, sources of 3, 5, 6 and targets of 4, 2, 6: 14,000 + 3 * 4 + 5 * 2 + 6 * 6
    # operations in 4 seconds, where products alone would do 14,058 a second.
    found = metrics(window, rate=14_058.0)
    assert found["seconds"] == 4.0
    assert found["updates_per_second"] == 2 / 4
    assert found["tokens_per_second"] == (14 + 12) / 4
    assert found["data_wait"] == 1.5 / 4
    assert found["mfu"] == pytest.approx(0.25)


def test_padding_is_the_share_of_tokens_that_are_not_real() -> None:
    # With their eos, sources of 3 and 5 and targets of 4 and 2: 14 of twice 16 are real.
    for shape, padding in ((None, 0.0), (FixedShape(16, 16, 4, 1), 18 / 32)):
        window = MetricsWindow.empty(CPU)
        window.count(update((2, 3), (4, 1), shape=shape), result())
        assert metrics(window)["padding"] == pytest.approx(padding)


def test_updates_without_a_finite_gradient_count_for_no_mean_over_tokens() -> None:
    window = MetricsWindow.empty(CPU)
    bad = result(norm=math.nan, bad=True)
    assert not window.has_metrics()
    window.count(update((9, 9)), bad)
    assert not window.has_metrics()
    window.count(update((2, 3), (4, 1)), result(loss=12.0, nll=9.0, norm=1.25))
    window.count(update((9, 9), epoch=0.75), bad)
    assert window.has_metrics()
    found = metrics(window)  # over 6 target tokens
    assert (found["loss"], found["nll"], found["perplexity"]) == (2.0, 1.5, math.exp(1.5))
    assert (found["grad_norm"], found["epoch"]) == (1.25, 0.75)
    assert (found["updates"], found["skipped_updates"]) == (3, 2)


# --- the rate of matrix products


@pytest.fixture(autouse=True)
def _small_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_metrics, "_SMALLEST", 64)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_every_precision_has_a_rate_and_random_numbers_are_left_alone(dtype: torch.dtype) -> None:
    before = torch.get_rng_state()
    assert matrix_product_rate(CPU, dtype) > 0
    assert torch.equal(torch.get_rng_state(), before)


def test_it_is_the_quickest_of_several_products(monkeypatch: pytest.MonkeyPatch) -> None:
    # Each product takes 2 seconds by this clock but one, which takes half a second.
    clock = iter([0.0, 2.0, 2.5, 4.5, *range(1000, 2000, 2)])
    monkeypatch.setattr(run_metrics, "_SECONDS", 4.0)
    monkeypatch.setattr("nmt.training.run_metrics.time.perf_counter", lambda: float(next(clock)))
    assert matrix_product_rate(CPU, torch.float32) == 2 * 64**3 / 0.5


def test_a_fast_device_gets_larger_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    def seconds(size: int, *_: object) -> float:
        return {64: 4e-4, 128: 8e-4, 256: 2e-3}[size]

    monkeypatch.setattr(run_metrics, "_fastest_product", seconds)
    assert matrix_product_rate(CPU, torch.float32) == 2 * 256**3 / 2e-3


@pytest.mark.parametrize("chunk", [1, 7, 1_000, 1 << 22])
def test_the_checksum_is_of_any_chunks(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(run_metrics, "_CHUNK", chunk)
    vector = torch.randn(1_000, generator=torch.Generator().manual_seed(1)) * 1e3
    vector[3], vector[4] = math.nan, -0.0
    bits = vector.numpy().view("int32").tolist()
    assert checksum(vector) == sum((2 * i + 1) * b for i, b in enumerate(bits)) % 2**64
