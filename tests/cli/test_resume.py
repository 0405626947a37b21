"""A run goes on with its own values: only what is given anew changes, and is named."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
import toy_training
from command_line import Nmt
from prepare_job import Job
from toy_training import train as train_here

from nmt.config.fields import Value
from nmt.models.model_file import ModelReader

SHORT: dict[str, Value] = {"max_updates": 6, "validate_every": 4, "save_every": 3, "seed": 3}


@pytest.fixture(scope="module")
def finished(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short run; nobody changes it."""
    return train_here(data, tmp_path_factory.mktemp("finished") / "run", **SHORT)


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return shutil.copytree(finished, tmp_path / "run")


def test_a_config_that_was_edited_is_refused(nmt: Nmt, data: Path, run: Path) -> None:
    config = run / "config.toml"
    config.write_text(config.read_text().replace("patience = 0", "patience = 7"))
    before = toy_training.content(run)
    assert f"{config} was edited" in nmt("train", data, "--out", run).refusal(2)
    assert toy_training.content(run) == before


@pytest.mark.parametrize("lost", ["ranks = 1", "data_path = .*"])
def test_a_config_without_a_value_is_damaged(nmt: Nmt, data: Path, run: Path, lost: str) -> None:
    config = run / "config.toml"
    config.write_text(re.sub(f"^{lost}\n", "", config.read_text(), flags=re.MULTILINE))
    name = lost.partition(" ")[0]
    assert f"{config}: damaged: [run] has no valid {name}" in nmt(
        "train", data, "--out", run
    ).refusal(1)


def test_what_is_not_given_stays_and_what_is_given_is_named(
    nmt: Nmt, data: Path, run: Path, tmp_path: Path
) -> None:
    before = toy_training.config_of(run)
    done = nmt("train", data, "--out", run, "--max-updates", "9").succeeded()
    assert re.match(f"nmt: {run}: max_updates was 6 and is now 9\n", done.stderr)
    assert re.search("max_updates .*6 .*9", (run / "train.log").read_text())
    after = toy_training.config_of(run)
    assert after["training"] == before["training"] | {"max_updates": 9}
    assert (after["model"], after["augment"]) == (before["model"], before["augment"])
    assert [record["update"] for record in toy_training.metrics(run, "valid")] == [4, 6, 8, 9]
    toy_training.assert_same_state(
        run, train_here(data, tmp_path / "whole", **SHORT | {"max_updates": 9})
    )


def test_a_dry_run_of_a_run_takes_its_values(
    nmt: Nmt, data: Path, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nmt.training.dry_run.TRIAL_SECONDS", 0.0)
    before = toy_training.content(run)
    done = nmt("train", data, "--out", run, "--max-updates", "8", "--dry-run", "--verbose")
    assert re.search("max_updates .*6 .*8", done.stderr)
    assert re.search("warmup_updates .*10 .*max_updates 8", done.stderr)
    assert "epochs, about\t" in done.stdout
    assert toy_training.content(run) == before


def test_a_tuned_run_knows_its_model(nmt: Nmt, data: Path, finished: Path, tmp_path: Path) -> None:
    start = Path(shutil.copy(finished / "best.safetensors", tmp_path / "start.safetensors"))
    sets = ("--set", "sample_translations=0", "--set", "matmul=torch", "--precision", "fp32")
    words = ("train", data, "--out", tmp_path / "tuned", "--max-updates", "2", *sets)
    said = nmt(*words, "--batch-tokens", "200", "--init-from", start).stderr
    assert "starting: fine-tuning, " in said
    assert "--model" not in said  # which would not go with the weights
    start.unlink()
    nmt("train", data, "--out", tmp_path / "tuned", "--max-updates", "3").succeeded()
    assert toy_training.config_of(tmp_path / "tuned")["run"]["init_from"] == str(start)
    assert ModelReader(tmp_path / "tuned/last.safetensors").card.update == 3


def test_a_finished_run_says_so_and_how_to_train_it_longer(nmt: Nmt, data: Path, run: Path) -> None:
    before = toy_training.metrics(run)
    said = " ".join(nmt("train", data, "--out", run).stderr.splitlines())
    assert re.match(rf"nmt: {run} .* 6 \(max_updates\); .*--max-updates 12 .* 6", said)
    assert toy_training.metrics(run) == before


def test_an_end_without_a_validation_is_made_up_for(nmt: Nmt, toy: toy_training.Toy) -> None:
    # Update 6 is the last one, and 4 the last one validated.
    run = toy.stopped_after(6, **SHORT | {"max_updates": 20})
    done = nmt("train", toy.data, "--out", run, "--max-updates", "6").succeeded()
    assert [record["update"] for record in toy_training.metrics(run, "valid")] == [4, 6]
    assert "update 6 (max_updates)" in done.stderr


def test_another_value_is_refused_and_the_run_stays(nmt: Nmt, data: Path, run: Path) -> None:
    before = toy_training.content(run)
    line = nmt("train", data, "--out", run, "--set", "learning_rate=1e-3").refusal(2)
    assert re.search(rf"{run} .*: learning_rate .*0\.003 .*0\.001; .*--init-from {run} ", line)
    assert toy_training.content(run) == before


def test_the_configuration_records_data_command_version_and_date(
    nmt: Nmt, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(data, tmp_path / "data \U0001f600")
    monkeypatch.chdir(tmp_path)
    words = ["train", "data \U0001f600", "--out", "run", "--max-updates", "2"]
    words += toy_training.settings_of(**SHORT)
    words.remove("--set=max_updates=6")
    said = nmt(*words).stderr
    # The last line names the model, its update and its metrics.
    card = ModelReader(tmp_path / "run" / "best.safetensors").card
    assert re.search(r" 2 \(max_updates\) .*0\.0 minutes", said)
    model = f"best model: run/best.safetensors, of update {card.update}, "
    assert f"{model}nll {card.valid['nll']:.4f}, " in said
    noted = toy_training.config_of(tmp_path / "run")["run"]
    assert noted["data_path"] == str(tmp_path / "data \U0001f600")
    program, *recorded = shlex.split(noted["command"])
    assert program == "nmt"
    plain = [part for word in words for part in word.replace("--set=", "--set ", 1).split(" ", 1)]
    assert sorted(" ".join(recorded).split()) == sorted(" ".join(plain).split())
    assert noted["nmt"] == "0.1.0"
    assert noted["date"][:2] == "20" and noted["date"][10] == "T"

    # A resume notes where the data is now, and keeps what is of the start.
    (tmp_path / "data \U0001f600").rename(tmp_path / "moved")
    assert nmt("train", "moved", "--out", "run", "--max-updates", "3").status == 0
    now = toy_training.config_of(tmp_path / "run")["run"]
    moved = {"data_path": str(tmp_path / "moved"), "checksum": now["checksum"]}
    assert now == noted | moved


def test_other_data_is_named_by_its_path(
    nmt: Nmt, data: Path, run: Path, finished: Path, tmp_path: Path
) -> None:
    place = shutil.copytree(data, tmp_path / "data")
    assert nmt("train", place, "--out", run, "--max-updates", "7").status == 0
    text = toy_training.write_text(tmp_path / "same", "train", toy_training.pairs(60, seed=8))
    job = Job.of(tmp_path / "same/data", train=(text,), valid=str(data / "valid"))
    same_vocabulary = job.but(vocab=(finished,)).prepare().path
    for other in (
        same_vocabulary,
        toy_training.prepare_toy(tmp_path / "other", separate_vocab=True),
    ):
        line = nmt("train", other, "--out", run).stderr.splitlines()[-1]
        assert re.search(f"DATA .*{place} .*{other}, ", line)
    # Data that was prepared again in its place is said to be.
    shutil.rmtree(place)
    same_vocabulary.rename(place)
    line = nmt("train", place, "--out", run).stderr.splitlines()[-1]
    assert f"DATA {place} " in line
