"""Which preset and which values `nmt train` takes, and that any preset goes the whole way."""

import json
from pathlib import Path

import pytest
from command_line import Nmt, write
from toy_training import TINY, recipe

from nmt.config.presets import MOST_EPOCHS
from nmt.config.recipes import Recipe
from nmt.data.folder import DataFolder
from nmt.interchange.programs import PROGRAMS, opening
from nmt.runs.run_folder import RunFolder
from nmt.training import dry_run as dry_run_module
from nmt.training import setup
from nmt.training import train as train_module


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[Recipe]:
    """The recipes that `train` was given. Nothing is trained."""
    recipes: list[Recipe] = []
    monkeypatch.setattr(train_module, "train", lambda one, *_, **__: recipes.append(one))
    return recipes


def test_without_a_preset_one_that_fits_is_taken_and_named(
    nmt: Nmt, data: Path, tmp_path: Path, trained: list[Recipe]
) -> None:
    answer = nmt("train", data, "--out", tmp_path / "run", "--set", "dropout=0.2")
    assert [one.preset for one in trained] == ["transformer_portable_few"]
    assert answer.status == 0
    first, second, opened = answer.stderr.splitlines()
    assert first == (
        "nmt: no --model given: taking transformer_portable_few, because the data has only 300 "
        "pairs"
    )
    train, values = DataFolder.open(data).info.train, trained[0].training
    tokens = max(train.src.tokens, train.tgt.tokens) + train.pairs
    assert values.max_updates == MOST_EPOCHS * max(1, tokens // values.batch_tokens)
    assert values.warmup_updates < values.max_updates / 2
    assert f" {values.max_updates:,}, " in second
    assert opened == f"nmt: {opening(trained[0].model, is_chosen=False)}"
    assert all(program.name in opened for program in PROGRAMS.values())


@pytest.mark.usefixtures("trained")
@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_the_first_lines_say_what_opens_the_model(
    nmt: Nmt, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]
) -> None:
    monkeypatch.setattr(dry_run_module, "dry_run", lambda *_: [])
    words = ("train", data, "--out", tmp_path / "run", "--model", "transformer_student_tiny")
    (line,) = nmt(*words, "--set", "decoder_memory=attention", *more).stderr.splitlines()
    assert all(program.name in line for program in PROGRAMS.values())
    (line,) = nmt(*words, *more).stderr.splitlines()
    assert line.endswith("Marian, Bergamot")  # and no other advice than the user's own


@pytest.mark.parametrize(
    "words", ["--max-updates 5000", "--set batch_tokens=500", "--model transformer_portable_few"]
)
def test_who_names_a_preset_or_a_length_gets_it(
    nmt: Nmt, data: Path, tmp_path: Path, trained: list[Recipe], words: str
) -> None:
    nmt("train", data, "--out", tmp_path / "run", *words.split())
    assert trained[0].training.max_updates in (5_000, 4_800)
    assert trained[0].training.warmup_updates == 500


def test_a_run_and_its_configuration_bring_their_preset(
    nmt: Nmt, data: Path, tmp_path: Path, trained: list[Recipe]
) -> None:
    run = RunFolder(tmp_path / "run")
    run.create()
    run.write_config(recipe(), DataFolder.open(data), ("", ""), ranks=1, command="")
    assert nmt("train", data, "--out", run.path).stderr == ""  # the run goes on
    assert [one.preset for one in trained] == ["transformer_tiny"]
    nmt("train", data, "--out", tmp_path / "again", "--config", run.path / "config.toml")
    assert trained[1:] == [recipe()]


@pytest.mark.parametrize(("processes", "threads"), [("3", 5), ("2", 0), ("auto", 0)])
def test_a_configuration_brings_its_threads_to_as_many_processes_only(
    nmt: Nmt,
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    processes: str,
    threads: int,
    trained: list[Recipe],
) -> None:
    monkeypatch.setattr(setup, "choose_processes", lambda *_: (1, "so that none is started"))
    run = RunFolder(tmp_path / "run")
    run.create()
    run.write_config(recipe(threads=5), DataFolder.open(data), ("", ""), ranks=3, command="")
    given = ("--config", run.config, "--processes", processes)
    nmt("train", data, "--out", tmp_path / "again", *given)
    assert [one.training.threads for one in trained] == [threads]


def test_options_precede_files(nmt: Nmt, data: Path, tmp_path: Path, trained: list[Recipe]) -> None:
    (tmp_path / "own.toml").write_text("[training]\nmax_updates = 50\nlog_every = 20\nseed = 3\n")
    given = ("--config", tmp_path / "own.toml", "--set", "log_every=10", "--max-updates", "7")
    nmt("train", data, "--out", tmp_path / "run", "--model", "transformer_tiny", *given)
    values = trained[0].training
    assert (values.max_updates, values.log_every, values.seed) == (7, 10, 3)


TRAINING = {key: value for key, value in TINY.items() if key not in ("d_ff", "num_heads")}
TRAINING |= {"num_encoder_layers": 2, "num_decoder_layers": 2, "d_model": 64, "d_hidden": 64}
TRAINING |= {"max_updates": 90, "validate_every": 30, "save_every": 30}
TRAINING |= {"learning_rate": 1e-2, "dropout": 0.1}
"""By which it learns the toy language in some seconds."""


@pytest.mark.slow
def test_convolutional_models_train_and_translate(nmt: Nmt, data: Path, tmp_path: Path) -> None:
    run, model = tmp_path / "run", tmp_path / "average.safetensors"
    settings = ["--model", "conv_seq2seq_small"]
    settings += [f"--set={key}={value}" for key, value in TRAINING.items()]
    assert nmt("train", data, "--out", run, "--quiet", *settings).status == 0
    assert nmt("average", run, "--last", "2", "--out", model, "--quiet").status == 0
    source, reference = (data.with_name(f"valid.{lang}") for lang in ("en", "de"))
    bf16, ensemble = ["--precision", "bf16"], ["--ensemble", run]
    for options in ([], ["--beam-size", "1"], bf16, ensemble, ["--alignment"]):
        done = nmt("translate", model, "--input", source, "--quiet", *options).succeeded()
        texts = [line.partition(" ||| ")[0] for line in done.stdout.splitlines()]
        hypothesis = write(tmp_path / "hypothesis", texts)
        answer = nmt("score", reference, hypothesis, "--metric", "chrf", "--json")
        assert json.loads(answer.stdout)["chrf"]["score"] > 70, options
