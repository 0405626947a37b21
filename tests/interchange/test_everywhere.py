"""The preset that `nmt train` takes by itself, and a student, through each program.

Their translations are ours. A program that is not installed is left out.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import Nmt, write
from toy_training import TINY, pairs, prepare_toy, train
from toy_training import nmt as nmt_here

from nmt.config.fields import Value
from nmt.config.presets import preset_for

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
TEXT = pairs(200, seed=9)
LINES = [line for line, _ in TEXT]
ALONE = ("--no-guard", "--workers", "1", "--threads", "1")
GREEDY = ("--beam-size", "1", *ALONE)
FIT = 190
"""Lines of 200 that must be equal. Each program rounds otherwise, and int8 a little more."""


SMALL: dict[str, Value] = {"d_model": 64, "d_ff": 128}


@pytest.fixture(scope="module", params=["usual", "student"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a smaller size that has learnt number words: from text, or from a pre-norm run."""
    folder = tmp_path_factory.mktemp("everywhere")
    data = prepare_toy(folder, count=1_000)
    lengths: dict[str, Value] = dict.fromkeys(("validate_every", "save_every"), 100)
    lengths |= {"max_updates": 500, "warmup_updates": 50, "ema_decay": 0.9}
    if request.param == "usual":
        usual, _ = preset_for(1_000, gpu=False)
        return train(data, folder / "run", preset=usual, **SMALL, **lengths)
    teacher = train(data, folder / "teacher", preset="transformer_low_resource", **SMALL, **lengths)
    kept = ("batch_tokens", "sample_translations", "threads", "matmul", "precision", "device")
    values = {key: TINY[key] for key in kept} | SMALL | {"num_heads": 2, "ema_decay": 0.99}
    words = ("--max-updates", "1000", *[f"--set={key}={one}" for key, one in values.items()])
    done = nmt_here("distill", teacher, "--out", folder / "run", *words)
    assert done.returncode == 0, done.stderr
    return folder / "run"


@pytest.fixture
def given(tmp_path: Path) -> Path:
    return write(tmp_path / "in", LINES)


@pytest.fixture
def export(nmt: Nmt, run: Path, tmp_path: Path) -> Callable[..., Path]:
    """Exports the run in a format."""

    def write(form: str, *words: str) -> Path:
        out = tmp_path / f"{form}.argosmodel"
        done = nmt("export", form, run, out, *words)
        assert (done.status, done.stdout) == (0, ""), done.stderr
        return out

    return write


def output(*command: str | Path, given: Path, **environment: str) -> list[str]:
    """The lines that a program makes of a file."""
    options: Any = {"input": given.read_text(), "env": os.environ | environment}
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stderr
    return [line.rstrip(" ") for line in done.stdout.splitlines()]


@pytest.fixture
def assert_ours(nmt: Nmt, run: Path, given: Path) -> Callable[..., None]:
    """Checks translations against those of the run; words: the search."""

    def check(theirs: list[str], *words: str) -> None:
        ours = nmt("translate", run, "--input", given, *(words or GREEDY)).stdout.splitlines()
        same = sum(one == other for one, other in zip(ours, theirs, strict=True))
        assert same >= FIT

    return check


def test_the_run_has_learnt_its_language(nmt: Nmt, run: Path, given: Path) -> None:
    ours = nmt("translate", run, "--input", given, *GREEDY).stdout.splitlines()
    assert sum(one == target for one, (_, target) in zip(ours, TEXT, strict=True)) >= 150


def test_ctranslate2(
    nmt: Nmt, export: Callable[..., Path], given: Path, assert_ours: Callable[..., None]
) -> None:
    pytest.importorskip("ctranslate2", reason="needs the extra ctranslate2")
    answer = nmt("translate", export("ctranslate2"), "--input", given, *GREEDY)
    assert_ours(answer.stdout.splitlines())


def test_transformers(export: Callable[..., Path], assert_ours: Callable[..., None]) -> None:
    transformers = pytest.importorskip("transformers", reason="needs the extra peers")
    folder = export("huggingface")
    model, loading = transformers.AutoModelForSeq2SeqLM.from_pretrained(
        folder, output_loading_info=True
    )
    assert not any(loading.values())  # such as missing weights
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    ids = model.generate(**tokenizer(LINES, return_tensors="pt", padding=True), num_beams=1)
    assert_ours(tokenizer.batch_decode(ids, skip_special_tokens=True))


def test_marian(export: Callable[..., Path], given: Path, assert_ours: Callable[..., None]) -> None:
    pytest.importorskip("pymarian", reason="needs the extra peers")
    config = export("marian") / "model.npz.decoder.yml"
    words = ("decode", "--config", config, "--beam-size", "1", "--cpu-threads", "1", "--quiet")
    assert_ours(output(sys.executable, "-m", "pymarian", *words, given=given))


def test_bergamot(
    modules: Path, export: Callable[..., Path], given: Path, assert_ours: Callable[..., None]
) -> None:
    package = modules / "node_modules" / "@browsermt" / "bergamot-translator"
    program = ("node", HERE / "bergamot.mjs", package)
    assert_ours(output(*program, export("bergamot"), "en", "de", given=given))


def test_argos(
    python_with: Callable[[str], Path],
    export: Callable[..., Path],
    given: Path,
    tmp_path: Path,
    assert_ours: Callable[..., None],
) -> None:
    pytest.importorskip("ctranslate2", reason="needs the extra ctranslate2")
    python = python_with("argostranslate==1.11.0")
    package = export("argos", "--quantization", "float32")
    here = {"HOME": str(tmp_path), "ARGOS_COMPUTE_TYPE": "float32"}
    theirs = output(python, HERE / "argos_client.py", package, given=given, **here)
    assert_ours(theirs, "--length-penalty", "0.2", *ALONE)
