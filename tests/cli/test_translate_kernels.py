"""A job is translated by one kernel to its end, though another has become the fastest meanwhile."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from command_line import Answer, Nmt
from mishaps import stop_after_pools

from nmt.models import packed_weights as kernels

TEXT = "".join(f"the {word} cat sees a dog\n" for word in ("red", "old", "small") * 4)


@pytest.fixture
def job(translate: Nmt, tmp_path: Path) -> Callable[[str], Answer]:
    """Translate the folder `in`, where the text is `a`, in pools of three lines."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_text(TEXT)

    def run(output: str) -> Answer:
        words = ["--precision", "bf16", "--scores", "--pool-lines", "3"]
        return translate(*words, "--input", tmp_path / "in", "--output", tmp_path / output)

    return run


@pytest.fixture
def faster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Two kernels, whose results differ much: choose which measurements find faster."""
    rounded, exact = kernels.KERNELS["bf16"]["transposed"], kernels.KERNELS["fp32"]["transposed"]
    monkeypatch.setitem(kernels.KERNELS, "bf16", {"own": rounded, "transposed": exact})

    def forget() -> None:
        kernels.is_usable.cache_clear()
        kernels._choose.cache_clear()

    def choose(kernel: str) -> None:
        forget()
        monkeypatch.setattr(
            kernels, "_race", lambda packers, _: {name: 1.0 + (name != kernel) for name in packers}
        )

    forget()
    yield choose
    forget()


def kernel_of(output: Path) -> str:
    journal = output.parent / ".nmt-journals" / f"{output.name}.journal"
    return str(json.loads(journal.read_text().splitlines()[0])["kernel"])


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_job_keeps_its_kernel_or_begins_again_if_it_is_missing(
    job: Callable[[str], Answer],
    tmp_path: Path,
    faster: Callable[[str], None],
    is_lost: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected: dict[str, bytes] = {}
    for kernel in ("own", "transposed"):
        faster(kernel)
        assert job(kernel).status == 0
        assert kernel_of(tmp_path / kernel / "a") == kernel
        expected[kernel] = (tmp_path / kernel / "a").read_bytes()
    assert expected["own"] != expected["transposed"]

    faster("own")
    with monkeypatch.context() as patch:
        stop_after_pools(patch, 2)
        assert job("out").status == 75
    faster("transposed")
    (tmp_path / "in" / "b").write_text(TEXT)  # goes by the kernel at work
    if is_lost:
        rest = {"transposed": kernels.KERNELS["bf16"]["transposed"]}
        monkeypatch.setitem(kernels.KERNELS, "bf16", rest)
    resumed = job("out").succeeded()
    kernel = "transposed" if is_lost else "own"
    for name in ("a", "b"):
        assert kernel_of(tmp_path / "out" / name) == kernel
        assert (tmp_path / "out" / name).read_bytes() == expected[kernel]
    assert ("kernel 'own' for bf16" in resumed.stderr) == is_lost
    assert ("after line 6" in resumed.stderr) != is_lost
