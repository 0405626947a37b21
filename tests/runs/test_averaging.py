"""Averages: the mean, of the right checkpoints, of models that belong together."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor
from toy_training import content, flat, metrics, nmt, weights

from nmt.cli.average import average as average_command
from nmt.data.vocabulary import learn_vocabulary
from nmt.errors import DataError, UsageError, describe
from nmt.models.model_file import ModelCard, ModelReader, write_model
from nmt.runs.averaging import average_models, select_checkpoints
from nmt.translate.translator import Translator


@pytest.fixture
def write(card: ModelCard, tmp_path: Path) -> Callable[..., Path]:
    """Write a model file of random weights."""

    def write(name: str, seed: int = 0, **changes: object) -> Path:
        changed = dataclasses.replace(card, **changes)  # type: ignore[arg-type]
        torch.manual_seed(seed)
        path = tmp_path / f"{name}.safetensors"
        write_model(path, changed, dict(changed.build().named_parameters()))
        return path

    return write


def test_the_average_is_the_mean_of_every_weight(
    write: Callable[..., Path], tmp_path: Path
) -> None:
    paths = [write(str(n), seed=n, update=10 * n) for n in (3, 1, 2)]
    average_models(paths, tmp_path / "mean.safetensors")
    found, parts = weights(tmp_path / "mean.safetensors"), [weights(path) for path in paths]
    assert found.keys() == parts[0].keys()
    for name, weight in found.items():
        exact = torch.stack([part[name].double() for part in parts]).mean(0)
        assert torch.equal(weight, exact.float()), name
    card = ModelReader(tmp_path / "mean.safetensors").card
    assert (card.update, card.valid) == (30, {})  # the newest one's; nothing was measured on it


def test_the_mean_is_taken_in_double_precision(
    card: ModelCard, write: Callable[..., Path], tmp_path: Path
) -> None:
    # In fp32 1e8 + 1 - 1e8 is 0, and a sum of a million 0.1 is off in the third digit.
    shapes = {name: weight.shape for name, weight in weights(write("any")).items()}
    paths = []
    for value in (1e8, 1.0, -1e8):
        paths.append(tmp_path / f"{value}.safetensors")
        write_model(paths[-1], card, {n: torch.full(s, value) for n, s in shapes.items()})
    average_models(paths, tmp_path / "mean.safetensors")
    for weight in weights(tmp_path / "mean.safetensors").values():
        torch.testing.assert_close(weight, torch.full_like(weight, 1 / 3))


def test_weights_are_read_one_at_a_time(
    write: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [write(str(n), seed=n) for n in range(3)]
    read: list[tuple[str, str]] = []
    weight = ModelReader.weight

    def note(self: ModelReader, name: str) -> Tensor:
        read.append((name, self.path.stem))
        return weight(self, name)

    monkeypatch.setattr(ModelReader, "weight", note)
    average_models(paths, tmp_path / "mean.safetensors")
    names = ModelReader(paths[0]).weight_names
    # Every model's first weight, then every model's second: no model is ever held as a whole.
    assert read == [(name, str(n)) for name in names for n in range(3)]


# --- which ones


def updates(paths: list[Path]) -> list[int]:
    return [ModelReader(path).card.update for path in paths]


def test_the_last_are_the_newest(learnt: Path) -> None:
    assert updates(select_checkpoints(learnt, 2, best=False)) == [200, 250]


def test_the_best_are_best_by_the_run_s_metric(learnt: Path, tmp_path: Path) -> None:
    by_loss = sorted(metrics(learnt, "valid"), key=lambda record: record["loss"])
    expected = [record["update"] for record in by_loss]
    for count in (1, 2, 3):
        assert updates(select_checkpoints(learnt, count, best=True)) == expected[:count]
    # The same files of a run whose metric is BLEU, the higher the better.
    other = tmp_path / "run"
    other.mkdir()
    (other / "checkpoints").symlink_to(learnt / "checkpoints")
    text = (learnt / "config.toml").read_text()
    (other / "config.toml").write_text(text.replace('best_metric = "loss"', 'best_metric = "bleu"'))
    by_bleu = sorted(by_loss[:3], key=lambda record: -record["bleu"])
    found = select_checkpoints(other, 3, best=True)
    assert updates(found) == [record["update"] for record in by_bleu]


def test_fewer_than_asked_for_is_an_error(learnt: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "mean.safetensors")
    for choice, keep in ({"last": 4}, "keep_last"), ({"best": 4}, "keep_best"):
        message = f"has only 3 of the 4 checkpoints; .* larger {keep}"
        with pytest.raises(UsageError, match=message):
            average_command([learnt], out, last=choice.get("last"), best=choice.get("best"))
    assert not list(tmp_path.iterdir())


def test_one_run_or_several_files(learnt: Path, write: Callable[..., Path], tmp_path: Path) -> None:
    one, out = write("one"), tmp_path / "mean.safetensors"
    refused: list[tuple[list[Path], dict[str, int]]] = [
        ([one], {}),
        ([learnt], {}),
        ([learnt, one], {}),
        ([learnt, learnt], {"last": 1}),
        ([learnt], {"last": 1, "best": 1}),
        ([tmp_path], {"last": 1}),  # a folder, but of no run
    ]
    for paths, choice in refused:
        with pytest.raises(UsageError):
            average_command(paths, str(out), last=choice.get("last"), best=choice.get("best"))
    assert not out.exists()


# --- what it refuses


def test_models_of_other_shapes_are_refused_by_name(
    card: ModelCard, write: Callable[..., Path], tmp_path: Path
) -> None:
    other = dataclasses.replace(card.config, d_model=64, dropout=0.3)
    paths = [write("one"), write("two", config=other)]
    message = "cannot be averaged: d_model 16 and 64; dropout 0.1 and 0.3"
    with pytest.raises(DataError, match=message):
        average_models(paths, tmp_path / "mean.safetensors")
    assert not (tmp_path / "mean.safetensors").exists()


def test_models_of_other_vocabularies_or_languages_are_refused(
    card: ModelCard, write: Callable[..., Path], tmp_path: Path
) -> None:
    lines = ["ganz andere Wörter als dort stehen hier", "und noch mehr davon, viel mehr"]
    other = learn_vocabulary(lines, vocab_size=len(card.src_vocabulary))
    words = write("words", src_vocabulary=other, tgt_vocabulary=other)
    target = write("target", tgt_vocabulary=other)
    french = write("french", tgt_lang="fr")
    one = write("one")
    for path, message in (
        (words, "another src vocabulary; another tgt vocabulary"),
        (target, "averaged: another tgt vocabulary"),
        (french, "tgt_lang de and fr"),
    ):
        with pytest.raises(DataError, match=message):
            average_models([one, one, path], tmp_path / "mean.safetensors")


def test_the_command_tells_what_it_averaged(learnt: Path, tmp_path: Path) -> None:
    out = tmp_path / "mean.safetensors"
    done = nmt("average", learnt, "--last", "2", "--out", out)
    assert (done.returncode, done.stdout) == (0, "")
    assert "the mean of update-00000200.safetensors, update-00000250.safetensors" in done.stderr
    expected = [
        flat(learnt / f"checkpoints/update-{update:08d}.safetensors") for update in (200, 250)
    ]
    torch.testing.assert_close(flat(out), sum(expected) / 2)
    (translation,) = Translator.load(out).translate(["one two"])
    assert translation.text


def test_what_is_missing_is_named(learnt: Path, write: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nowhere: no such folder"):
        average_command([learnt], str(tmp_path / "nowhere" / "mean.safetensors"), last=2)
    with pytest.raises(DataError, match=r"gone\.safetensors: no such file"):
        average_models([write("one"), tmp_path / "gone.safetensors"], tmp_path / "mean.safetensors")


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("best.safetensors", "best.safetensors belongs to a training run"),
        ("checkpoints/update-00000250.safetensors", "is one of the models to average"),
        ("checkpoints/mean.safetensors", "belongs to a training run"),
        ("config.toml", "belongs to a training run"),
        ("notes", "notes exists and is not a model file"),
        ("no/", "no/: is a folder; name a file"),
        ("checkpoints", "checkpoints: is a folder; name a file"),
        ("round", "round: Too many levels of symbolic links"),
    ],
)
def test_an_average_replaces_nothing_but_a_model_of_no_run(
    learnt: Path, tmp_path: Path, out: str, message: str
) -> None:
    run = tmp_path / "run"
    shutil.copytree(learnt, run)
    (run / "notes").write_text("mine\n")
    (run / "round").symlink_to("round")
    before = content(run)
    with pytest.raises((UsageError, OSError)) as caught:
        average_command([run], f"{run}/{out}", last=2)
    assert isinstance(caught.value, UsageError | OSError)
    assert message in describe(caught.value)
    assert content(run) == before


def test_models_to_average_are_not_replaced(write: Callable[..., Path], tmp_path: Path) -> None:
    paths = [write("one"), write("two")]
    (tmp_path / "link").symlink_to(paths[1])
    for out in (paths[0], tmp_path / "link"):
        with pytest.raises(UsageError, match="is one of the models to average"):
            average_command(paths, str(out))


def test_an_earlier_average_is_replaced_also_in_the_run_folder(
    learnt: Path, tmp_path: Path
) -> None:
    shutil.copytree(learnt, tmp_path / "run")
    for last in (2, 3):
        average_command([tmp_path / "run"], str(tmp_path / "run" / "mean.safetensors"), last=last)
