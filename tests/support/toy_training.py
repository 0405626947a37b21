"""A language that is learnt in seconds, and runs on it, for the tests of training.

Number words, the other way round: "one two three" is "drei zwei eins".
"""

import json
import os
import re
import signal
import subprocess
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from mishaps import signal_after
from prepare_job import Job
from torch import Tensor
from warm_python import warm_python

from nmt.config.fields import Value
from nmt.config.model_config import MODEL_CONFIGS
from nmt.config.presets import find_preset, preset_values
from nmt.config.recipes import Recipe, resolve_recipe
from nmt.config.training_config import TrainingConfig
from nmt.errors import Stopped
from nmt.models.model_file import ModelReader
from nmt.models.tensor_file import TensorFile
from nmt.runs.checkpoint import STATE_KIND, STATE_VERSION
from nmt.system.distributed import Ranks
from nmt.training.choose_recipe import TrainCommand
from nmt.training.train import train as train_run

ENGLISH = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
GERMAN = ["eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn"]
LONG = [(" ".join(ENGLISH * 3), " ".join(GERMAN[::-1] * 3))]  # the one long pair in train

TINY: dict[str, Value] = {
    "num_encoder_layers": 1,
    "num_decoder_layers": 1,
    "d_model": 32,
    "d_ff": 64,
    "num_heads": 2,
    "batch_tokens": 200,
    "micro_batch_tokens": 120,
    "learning_rate": 3e-3,
    "warmup_updates": 10,
    "max_updates": 30,
    "log_every": 5,
    "validate_every": 7,
    "save_every": 8,
    "sample_translations": 0,
    "threads": 1,
    "matmul": "torch",
    "precision": "fp32",
    "device": "cpu",
}
"""Dropout is on, seven updates make an epoch, and 30 updates take a second."""


FP32: dict[str, Value] = {"ema_decay": 0.9, "keep_last": 2, "keep_best": 2}
ALONE = Ranks(rank=0, local_rank=0, local_world_size=1, world_size=1)

Name = str | Path


def pairs(count: int, *, seed: int) -> list[tuple[str, str]]:
    """Draw different pairs of one to five words."""
    random = Random(seed)
    numbers: set[tuple[int, ...]] = set()
    while len(numbers) < count:
        numbers.add(tuple(random.choices(range(10), k=random.randint(1, 5))))
    return [
        (" ".join(ENGLISH[n] for n in row), " ".join(GERMAN[n] for n in reversed(row)))
        for row in sorted(numbers)
    ]


def write_text(folder: Path, name: str, text: list[tuple[str, str]]) -> str:
    """Write pairs as name.en and name.de; return their prefix."""
    folder.mkdir(parents=True, exist_ok=True)
    for lang, side in zip(("en", "de"), zip(*text, strict=True), strict=True):
        (folder / f"{name}.{lang}").write_text("".join(f"{line}\n" for line in side))
    return str(folder / name)


def prepare_toy(
    folder: Path, *, count: int = 300, separate_vocab: bool = False, keep_text: bool = False
) -> Path:
    """Make a data folder of `count` training pairs."""
    job = Job.of(
        folder / "data",
        train=(write_text(folder, "train", pairs(count - 1, seed=1) + LONG),),
        valid=write_text(folder, "valid", pairs(20, seed=2)),
        vocab_size=310 if separate_vocab else 345,
        separate_vocab=separate_vocab,
        normalization="identity",  # whose model is small and learnt at once
        keep_text=keep_text,
    )
    return job.prepare().path


def recipe(**values: Value) -> Recipe:
    """Return the tiny recipe with some values changed, or that of another `preset`."""
    preset = str(values.pop("preset", "transformer_tiny"))
    architecture = find_preset(preset).architecture
    known = {f.name for cls in (MODEL_CONFIGS[architecture], TrainingConfig) for f in fields(cls)}
    tiny = {key: value for key, value in TINY.items() if key in known}
    layers = [("preset", preset_values(preset)), ("tiny", tiny), ("test", values)]
    return resolve_recipe(preset, architecture, layers)


def train(data: Path, out: Path, init_from: Path | None = None, /, **values: Value) -> Path:
    """Train in this process; return the run folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHON_EXEC", warm_python())  # which draws the curves
        train_run(recipe(**values), TrainCommand(data, out, init_from))
    return out


def settings_of(**values: Value) -> list[str]:
    """Return the tiny recipe as arguments of `nmt train`."""
    assignments = [f"{key}={value}" for key, value in (TINY | values).items()]
    return ["--model", "transformer_tiny", *(f"--set={one}" for one in assignments)]


@dataclass(frozen=True)
class Toy:
    """What a test of training has: data, a folder for its runs, and a way to let things go wrong.

    A run is named by its folder below `folder`, or by a path of its own.
    """

    data: Path
    folder: Path
    patch: pytest.MonkeyPatch  # undone after the test
    undisturbed: Callable[..., Path]  # the run of some values that was never stopped

    def train(self, run: Name = "run", init_from: Path | None = None, /, **values: Value) -> Path:
        """Train in this process; return the run folder."""
        return train(self.data, self.folder / run, init_from, **values)

    def stopped_after(
        self, update: int, run: Name = "run", init_from: Path | None = None, /, **values: Value
    ) -> Path:
        """Train until SIGTERM stops the run after an update."""
        with self.patch.context() as patch, pytest.raises(Stopped):
            signal_after(patch, update, signal.SIGTERM)
            self.train(run, init_from, **values)
        return self.folder / run

    def words(self, run: Name, *more: Name, **values: Value) -> list[str]:
        """Return the arguments of `nmt` that train a run, and `more` of them."""
        words = ["train", self.data, *settings_of(**values), *more, "--out", self.folder / run]
        return [str(word) for word in words]

    def train_with(self, ranks: int, run: Name, *more: Name, **values: Value) -> str:
        """Train in so many processes; return what they say."""
        done = nmt(*self.words(run, *more, **values), ranks=ranks)
        assert done.returncode == 0, done.stderr
        return done.stderr

    def disturbed(self, happens: Mapping[str, Any], /, *more: Name, **values: Value) -> list[str]:
        """Return a command, but for its Python, that trains `run`; something happens on its way.

        happens: see `training/disturbed.py`.
        """
        program = Path(__file__).parents[1] / "training" / "disturbed.py"
        return [str(program), json.dumps(happens), *self.words("run", *more, **values)]


def nmt(
    *arguments: str | Path, ranks: int | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run the real command line, under torchrun where `ranks` are given."""
    return run_command(nmt_command(*arguments, ranks=ranks), **options)


def nmt_command(*arguments: str | Path, ranks: int | None = None) -> list[str]:
    """Return the command line that `nmt` runs."""
    return python_command("-m", "nmt", *arguments, ranks=ranks)


def python_command(*arguments: str | Path, ranks: int | None = None) -> list[str]:
    """Return a command line of a warm Python, under torchrun where `ranks` are given."""
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    torchrun += ["--local-addr", "127.0.0.1"]  # this machine's name need not resolve
    torchrun += ["--signals-to-handle", "SIGTERM,SIGINT,SIGHUP,SIGUSR1"]
    return [warm_python(), *(torchrun if ranks else []), *map(str, arguments)]


def run_command(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command with one thread a process, and with the tests importable."""
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment(), **options
    )


def environment() -> dict[str, str]:
    """Return this process's environment, one thread a process, with the tests importable."""
    path = os.pathsep.join(filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")]))
    return os.environ | {
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": path,
        "PYTHON_EXEC": warm_python(),  # by which torchrun starts its processes
    }


def weights(path: Path) -> dict[str, Tensor]:
    """Read a model file's weights."""
    reader = ModelReader(path)
    return {name: reader.weight(name) for name in reader.weight_names}


def newest_state(run: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read a run's newest training state: its header and its vectors."""
    file = TensorFile(max(run.glob("checkpoints/*.state")), kind=STATE_KIND, version=STATE_VERSION)
    file.verify()
    return file.header, {name: file.read(name) for name in file.names}


def metrics(run: Path, kind: str = "") -> list[dict[str, Any]]:
    """Read metrics.jsonl strictly, all records or those of a kind."""
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    records: list[dict[str, Any]] = [
        json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
        for line in lines
    ]
    return [record for record in records if kind in ("", record["kind"])]


def config_of(run: Path) -> dict[str, Any]:
    """Read config.toml."""
    return tomllib.loads((run / "config.toml").read_text(encoding="utf-8"))


def status(run: Path) -> dict[str, Any]:
    """Read status.json."""
    found: dict[str, Any] = json.loads((run / "status.json").read_text())
    return found


def log_of(run: Path) -> str:
    """Read train.log without its times and line breaks, which depend on the length of paths."""
    return " ".join(line[15:].strip() for line in (run / "train.log").read_text().splitlines())


def content(folder: Path) -> dict[str, bytes]:
    """Return all files below a folder but the lock."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "lock"
    }


def flat(path: Path) -> Tensor:
    """Read a model file's weights as one vector, in order of their names."""
    return torch.cat([weight.flatten() for _, weight in sorted(weights(path).items())])


def validated_last(run: Path) -> int:
    """The update that a run which may be at work has validated last."""
    lines = (run / "train.log").read_text().splitlines() if (run / "train.log").exists() else []
    found = [re.search(r"update ([\d,]+) valid:", line) for line in lines]
    return max((int(match[1].replace(",", "")) for match in found if match), default=0)


def assert_same_weights(run: Path, expected: Path) -> None:
    """Check that runs end with the same weights, bit for bit."""
    assert torch.equal(*(flat(one / "last.safetensors") for one in (run, expected)))


_TIMES = {"seconds", "tokens_per_second", "updates_per_second", "mfu", "data_wait"}
_MEANS = {"updates", "loss", "nll", "alignment_loss", "perplexity", "padding", "skipped_updates"}


def assert_same_state(run: Path, expected: Path) -> None:
    """Check that the newest training states are equal bit for bit, but for the time taken."""
    header, vectors = newest_state(run)
    expected_header, expected_vectors = newest_state(expected)
    for found in (header, expected_header):
        del found["progress"]["seconds"]
    assert header == expected_header
    assert vectors.keys() == expected_vectors.keys()
    for name, vector in vectors.items():
        assert torch.equal(vector, expected_vectors[name]), name


def assert_same_run(run: Path, expected: Path) -> None:
    """Check everything that is a function of recipe and data: all but times and speeds."""
    assert_same_state(run, expected)
    models = sorted(path.relative_to(expected) for path in expected.rglob("*.safetensors"))
    assert sorted(path.relative_to(run) for path in run.rglob("*.safetensors")) == models
    for path in models:
        written, wanted = weights(run / path), weights(expected / path)
        assert all(torch.equal(written[name], wanted[name]) for name in wanted), path
        assert ModelReader(run / path).card.valid == ModelReader(expected / path).card.valid
    assert metrics(run, "valid") == metrics(expected, "valid")
    logged = {record["update"] for record in metrics(expected, "train")}
    # A stop adds a record of what came before it.
    records = [record for record in metrics(run, "train") if record["update"] in logged]
    for record, wanted_record in zip(records, metrics(expected, "train"), strict=True):
        # Where the run was stopped since the record before, its means are over fewer updates.
        left_out = _TIMES if record["updates"] == wanted_record["updates"] else _TIMES | _MEANS
        for key in wanted_record.keys() - left_out:
            assert record[key] == wanted_record[key], (record["update"], key)
    assert status(run) == status(expected)
    assert not list(run.rglob("*.partial"))
