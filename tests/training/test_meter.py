"""The metrics of a `train` record, counted by hand, and the rate of matrix products."""

from __future__ import annotations

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
from nmt.data.stream import Position, Update
from nmt.training import meter
from nmt.training.meter import Window, matrix_product_rate
from nmt.training.update import Outcome

CPU = torch.device("cpu")


class Clock:
    """A clock that stands still until it is told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)

    def window(self) -> Window:
        return dataclasses.replace(Window.empty(CPU), started=self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def update(*pairs: tuple[int, int], epoch: float = 0.5, shape: FixedShape | None = None) -> Update:
    """An update of one micro-batch, of pairs of so many source and target tokens without eos."""
    src, tgt = (
        TokenRows.of([[7] * length for length in side], token_bytes=2)
        for side in zip(*pairs, strict=True)
    )
    return Update(
        pairs=np.arange(len(pairs)),
        batches=[collate(src, tgt, shape)],
        lengths=LengthSums.of(src.lengths, tgt.lengths),
        own_tokens=sum(s + t + 2 for s, t in pairs),
        following=Position(),
        epoch=epoch,
    )


def outcome(
    *, loss: float = 0.0, nll: float = 0.0, norm: float = 1.0, bad: bool = False
) -> Outcome:
    """What became of an update that was done."""
    return Outcome(
        stop=False,
        out_of_memory=False,
        save=False,
        norm=torch.tensor(norm),
        loss=torch.tensor(loss),
        nll=torch.tensor(nll),
        bad=torch.tensor(float(bad)),
    )


def do(window: Window, *updates: Update) -> None:
    """Take and count updates."""
    for one in updates:
        window.count(window.take(iter([one])), outcome())


def metrics(window: Window, rate: float = 1.0) -> dict[str, float]:
    return window.metrics(ALONE, lambda sums: 1000.0 * sums.src + sums.src_tgt, rate)


def test_speed_counts_real_tokens_of_both_sides_and_whole_updates(clock: Clock) -> None:
    window = clock.window()
    do(window, update((2, 3), (4, 1)), update((5, 5)))
    clock.now += 4.0
    found = metrics(window)
    assert found["seconds"] == 4.0
    assert found["updates_per_second"] == 2 / 4
    # With their eos, sources of 3, 5, 6 and targets of 4, 2, 6.
    assert found["tokens_per_second"] == (14 + 12) / 4


def test_padding_is_the_share_of_tokens_that_are_not_real() -> None:
    window = Window.empty(CPU)
    do(window, update((2, 3), (4, 1)))
    assert metrics(window)["padding"] == 0.0
    # With their eos, sources of 3 and 5 and targets of 4 and 2: 14 of twice 16 are real.
    do(window := Window.empty(CPU), update((2, 3), (4, 1), shape=FixedShape(16, longest=8)))
    assert metrics(window)["padding"] == pytest.approx(18 / 32)


def test_the_wait_for_data_is_a_share_of_the_time(clock: Clock) -> None:
    def slow() -> Iterator[Update]:
        clock.now += 1.5
        yield update((2, 2))

    window = clock.window()
    window.count(window.take(slow()), outcome())
    clock.now += 4.5
    assert metrics(window)["data_wait"] == 1.5 / 6


def test_model_flops_utilisation_is_a_share_of_the_machines_rate(clock: Clock) -> None:
    window = clock.window()
    do(window, *[update((2, 3))] * 2)  # 3 and 4 tokens
    clock.now += 2.0
    # 2 * (3,000 + 12) operations in 2 seconds, where products alone would do 12,048 a second.
    assert metrics(window, rate=12_048.0)["mfu"] == pytest.approx(0.25)


def test_updates_without_a_finite_gradient_count_for_no_mean_over_tokens() -> None:
    window = Window.empty(CPU)
    bad = outcome(norm=math.nan, bad=True)
    assert not window.has_metrics()
    window.count(update((9, 9)), bad)
    assert not window.has_metrics()
    window.count(update((2, 3), (4, 1)), outcome(loss=12.0, nll=9.0, norm=1.25))
    window.count(update((9, 9), epoch=0.75), bad)
    assert window.has_metrics()
    found = metrics(window)  # over 6 target tokens
    assert (found["loss"], found["nll"], found["perplexity"]) == (2.0, 1.5, math.exp(1.5))
    assert (found["grad_norm"], found["epoch"]) == (1.25, 0.75)
    assert (found["updates"], found["skipped_updates"]) == (3, 2)


# --- the rate of matrix products


@pytest.fixture(autouse=True)
def _small_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meter, "_CPU_SIZE", 64)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_every_precision_has_a_rate_and_random_numbers_are_left_alone(dtype: torch.dtype) -> None:
    before = torch.get_rng_state()
    assert matrix_product_rate(CPU, dtype) > 0
    assert torch.equal(torch.get_rng_state(), before)


def test_it_is_the_quickest_of_several_products(monkeypatch: pytest.MonkeyPatch) -> None:
    # Each product takes 2 seconds by this clock but one, which takes half a second.
    clock = iter([0.0, 2.0, 2.5, 4.5, *range(1000, 2000, 2)])
    monkeypatch.setattr(meter, "_SECONDS", 4.0)
    monkeypatch.setattr("nmt.training.meter.time.perf_counter", lambda: float(next(clock)))
    assert matrix_product_rate(CPU, torch.float32) == 2 * 64**3 / 0.5


def test_a_way_of_multiplying_that_the_processor_lacks_is_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unsupported(*_: object) -> None:
        raise RuntimeError("could not create a primitive descriptor")

    monkeypatch.setattr(torch.ops.mkldnn, "_linear_pointwise", unsupported)
    assert matrix_product_rate(CPU, torch.float32) > 0
