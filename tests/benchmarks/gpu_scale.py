"""How much the parts of `make gpu` measure, and what they share: data, folders, the report."""

import functools
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import torch
from benchmarks.corpora import made_up
from benchmarks.gpu_report import Report
from benchmarks.harness import setting
from benchmarks.training import Job

from nmt.models.kernels.compiler import problem_of_compiling


@functools.cache
def no_compiler() -> str:
    """Return why nothing can be compiled for this GPU; empty if it can."""
    problem = problem_of_compiling(torch.device("cuda"))
    return problem and f"left out: {problem}"


@dataclass(frozen=True)
class Scale:
    """How much is measured."""

    presets: dict[str, str]
    smoke_tests: tuple[str, ...]  # arguments of pytest
    tests: tuple[str, ...]
    pairs: int
    vocab_size: int
    batch_tokens: int
    product_size: int  # rows and columns of products in fp32
    warmup: int
    updates: int
    lines: int
    rounds: int  # of each translation that is timed
    max_tokens: int  # of a source that is translated
    learnt: int  # updates of the model that translates
    is_rehearsal: bool = False
    settings: Mapping[str, object] = field(default_factory=dict)


GPU = Scale(
    presets={"base": "transformer_base", "big": "transformer_big", "modern": "transformer_wmt"},
    smoke_tests=(
        "tests/test_gpu.py",
        "-k",
        "gradients_of or translations_are or resumed or (training_learns and 16)",
    ),
    tests=("tests/test_gpu.py", "tests/cli/test_gpu_commands.py"),
    pairs=150_000,
    vocab_size=32_000,
    batch_tokens=25_000,
    product_size=4096,
    warmup=20,
    updates=100,
    lines=3_000,
    rounds=2,
    max_tokens=150,
    learnt=1000,
    settings={"warmup_updates": 1000},
)
REHEARSAL = Scale(
    presets={"base": "transformer_tiny"},
    smoke_tests=("tests/test_gpu.py", "-k", "gradients_of"),
    tests=("tests/test_gpu.py", "-k", "first_weights"),
    pairs=120,
    vocab_size=500,
    batch_tokens=2_500,  # of which a tenth holds the longest sentence
    product_size=128,
    warmup=1,
    updates=2,
    lines=20,
    rounds=1,
    max_tokens=12,
    learnt=3,
    is_rehearsal=True,
    settings={"d_model": 32, "d_ff": 64},
)


@dataclass(frozen=True)
class Context:
    """What the parts share."""

    scale: Scale
    report: Report
    work: Path

    @cached_property
    def data(self) -> Path:
        """The data folder, prepared once."""
        path, scale = Path(setting("DATA", str(self.work / "data"))), self.scale
        if not (path / "dataset.json").exists():
            made_up(path, pairs=scale.pairs, vocab_size=scale.vocab_size)
        return path

    def job(self, size: str) -> Job:
        """Return a training of the base or big model."""
        scale = self.scale
        return Job(self.data, scale.presets[size], scale.batch_tokens, "cuda")

    def new_folder(self, name: str) -> Path:
        """Return the path of a folder that is not there."""
        numbered = (self.work / f"{name}-{number}" for number in itertools.count())
        return next(path for path in numbered if not path.exists())
