"""Kernels are chosen by measuring. Wrong or hopelessly slow ones are never chosen."""

import os
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import torch
from benchmarks.machine import cpu_flags
from processes import run_python
from torch import Tensor

from nmt.models import packed_weights as kernels
from nmt.models.kernels.linear import Product
from nmt.models.packed_weights import KERNELS, choose, is_usable
from nmt.translate import load_model as loading
from nmt.translate.translator import Translator

TINY_SHAPES = [(32, 16), (16, 16)]


@pytest.fixture(autouse=True)
def _measured_anew() -> Iterator[None]:
    for cached in (kernels.is_usable, kernels._choose):
        cached.cache_clear()
    yield
    for cached in (kernels.is_usable, kernels._choose):
        cached.cache_clear()


def pretend(monkeypatch: pytest.MonkeyPatch, seconds: Mapping[str, float]) -> None:
    """Let kernels take these times."""
    monkeypatch.setattr(kernels, "_race", lambda packers, _: {k: seconds[k] for k in packers})


def wrong(weight: Tensor) -> Product:
    """Sums end at a largest number."""
    return lambda x, bias: torch.nn.functional.linear(x, weight, bias).clamp(-10, 10)


def failing(_weight: Tensor) -> Product:
    raise RuntimeError("not on this CPU")


def of_reference(weight: Tensor) -> Product:
    """As slow as code that is not optimised."""

    def product(x: Tensor, bias: Tensor | None) -> Tensor:
        begun = time.thread_time()
        while time.thread_time() < begun + 0.02:
            pass
        return torch.nn.functional.linear(x, weight, bias)

    return product


@pytest.mark.parametrize("kernel", [wrong, failing, of_reference])
def test_a_wrong_missing_or_hopelessly_slow_kernel_is_not_used(
    kernel: kernels.Packer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(KERNELS, "bf16", {"bad": kernel, **KERNELS["fp32"]})
    assert not is_usable("bad", "bf16")
    assert choose(TINY_SHAPES, "bf16")[0] in KERNELS["fp32"]


@pytest.mark.parametrize(
    ("precision", "seconds", "choice"),
    [
        # A kernel must be a tenth faster than those before it.
        ("fp32", {"transposed": 1.0, "onednn": 0.92, "torch": 0.92}, ("transposed", 1.0)),
        ("fp32", {"transposed": 1.0, "onednn": 0.9, "torch": 1.0}, ("onednn", 1.0)),
        ("fp32", {"transposed": 1.0, "onednn": 0.9, "torch": 0.85}, ("onednn", 1.0)),
        ("fp32", {"transposed": 1.0, "onednn": 0.9, "torch": 0.8}, ("torch", 1.0)),
        # If bf16 is slower than fp32, rounded weights are multiplied in fp32.
        ("bf16", {"onednn-bf16": 0.5, "transposed": 1.0}, ("onednn-bf16", 2.0)),
        ("bf16", {"onednn-bf16": 1.2, "transposed": 1.0}, ("transposed", 1.0)),
    ],
)
def test_kernels_are_chosen_by_the_times_of_those_that_are_usable(
    precision: str,
    seconds: dict[str, float],
    choice: tuple[str, float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kernels, "is_usable", lambda kernel, _: kernel in seconds)
    pretend(monkeypatch, seconds)
    assert choose(TINY_SHAPES, precision) == choice


def test_kernels_are_measured_once_on_the_largest_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    races: list[tuple[tuple[int, int], ...]] = []

    def race(packers: Mapping[str, object], shapes: tuple[tuple[int, int], ...]) -> object:
        races.append(shapes)
        return dict.fromkeys(packers, 1.0)

    monkeypatch.setattr(kernels, "_race", race)
    monkeypatch.setattr(kernels, "in_a_copy", lambda measure: measure())  # or `races` is a copy
    shapes = [(256, 64), (64, 64), (64, 256), (1 << 20, 64), (128, 64), (256, 64)]
    assert choose(shapes, "fp32") == choose(shapes, "fp32")
    assert races == [((1 << 11, 64), (64, 256), (256, 64))]


def test_a_precision_that_is_not_faster_is_used_with_one_warning(
    model_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pretend(monkeypatch, dict.fromkeys(KERNELS["bf16"], 1.0))
    loading._warn_of_slowness.cache_clear()  # another test's warning was another process's
    for _ in range(2):
        assert Translator.load(model_file, precision="bf16").engine.kernel == next(
            kernel for kernel in KERNELS["bf16"] if is_usable(kernel, "bf16")
        )
    warning = capsys.readouterr().err
    assert warning.count("\n") == 1
    assert re.search("bf16 .*--precision fp32", warning)
    Translator.load(model_file, precision="fp32")
    assert not capsys.readouterr().err


# ---------------------------------------------------------- instruction sets, by subprocesses

WORK = """
import torch
from nmt.models.packed_weights import KERNELS, choose

torch.set_num_threads(1)
x, weight = torch.randn(400, 256), torch.randn(256, 256)
products = [KERNELS[one][choose([(256, 256)], one)[0]](weight) for one in KERNELS]
print("WORK", flush=True)
with torch.inference_mode():
    for product in products:
        for rows in (1, 400):
            product(x[:rows], None)
"""


@pytest.mark.parametrize(
    ("level", "capability", "flag"),  # oneDNN's, torch's and Linux's names
    [
        ("DEFAULT", "", ""),  # all that the CPU has
        ("AVX2", "avx2", "avx2"),
        pytest.param("AVX512_CORE", "avx512", "avx512bw", marks=pytest.mark.slow),
        pytest.param("AVX512_CORE_VNNI", "avx512", "avx512_vnni", marks=pytest.mark.slow),
    ],
)
def test_no_instruction_set_takes_reference_code(level: str, capability: str, flag: str) -> None:
    environment = os.environ | {"ONEDNN_VERBOSE": "1"}
    if flag:
        environment |= {"ONEDNN_MAX_CPU_ISA": level, "ATEN_CPU_CAPABILITY": capability}
        if flag not in cpu_flags():
            pytest.skip(f"needs a CPU of {level}")
    _, work = run_python("-W", "ignore", "-c", WORK, env=environment).stdout.split("WORK\n")
    made_by = [line.split(",")[6] for line in work.splitlines() if ",exec," in line]
    assert not [name for name in made_by if name.startswith("ref")], work
