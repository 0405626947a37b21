"""The rate of matrix products that utilisation is measured by."""

from __future__ import annotations

import pytest
import torch

from nmt.training import meter as machine_rate
from nmt.training.meter import device_name, matrix_product_rate

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_rate, "_CPU_SIZE", 64)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_every_precision_has_a_rate(dtype: torch.dtype) -> None:
    assert matrix_product_rate(CPU, dtype) > 0


def test_it_is_the_quickest_of_several_products(monkeypatch: pytest.MonkeyPatch) -> None:
    # Each product takes 2 seconds by this clock but one, which takes half a second.
    clock = iter([0.0, 2.0, 2.5, 4.5, *range(1000, 2000, 2)])
    monkeypatch.setattr(machine_rate, "_SECONDS", 4.0)
    monkeypatch.setattr("nmt.training.meter.time.perf_counter", lambda: float(next(clock)))
    assert matrix_product_rate(CPU, torch.float32) == 2 * 64**3 / 0.5


def test_a_way_of_multiplying_that_the_processor_lacks_is_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unsupported(*_: object) -> None:
        raise RuntimeError("could not create a primitive descriptor")

    monkeypatch.setattr(torch.ops.mkldnn, "_linear_pointwise", unsupported)
    assert matrix_product_rate(CPU, torch.float32) > 0


def test_random_numbers_and_results_are_left_alone() -> None:
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    matrix_product_rate(CPU, torch.float32)
    assert torch.equal(torch.rand(3), expected)


def test_a_cpu_is_told_by_its_instructions() -> None:
    assert device_name(CPU).startswith("CPU ")
