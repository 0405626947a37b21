"""Averages: the mean, of the right checkpoints, of models that belong together."""

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from calls import calls_of
from toy_training import content, flat, metrics, weights

from nmt.cli.average import average as command
from nmt.config.model_config import AttentionHead
from nmt.data.vocabulary import learn_vocabulary
from nmt.errors import DataError, UsageError, describe
from nmt.models.model_file import ModelCard, ModelReader, write_model
from nmt.runs.averaging import average_models, select_checkpoints

Write = Callable[..., Path]


@pytest.fixture
def write(card: ModelCard, tmp_path: Path) -> Write:
    """Write a model file of random weights."""

    def write(name: str, seed: int = 0, **changes: object) -> Path:
        changed = dataclasses.replace(card, **changes)  # type: ignore[arg-type]
        torch.manual_seed(seed)
        path = tmp_path / f"{name}.safetensors"
        write_model(path, changed, dict(changed.build().named_parameters()))
        return path

    return write


@pytest.fixture
def run(learnt: Path, tmp_path: Path) -> Path:
    """A copy of a run, to write into."""
    return Path(shutil.copytree(learnt, tmp_path / "run"))


@pytest.fixture
def mean(tmp_path: Path) -> Path:
    """Where the average goes."""
    return tmp_path / "mean.safetensors"


def average(paths: list[Path], out: str, last: int | None = None, best: int | None = None) -> None:
    """Run the command without its command line."""
    command(paths, out=out, last=last, best=best)


def test_the_average_is_the_mean_of_every_weight_in_double_precision(
    write: Write, mean: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [write(str(n), seed=n, update=10 * n) for n in (3, 1, 2)]
    parts = [weights(path) for path in paths]
    with monkeypatch.context() as patch:
        calls = calls_of(patch, ModelReader, "weight")
        average(paths, str(mean))
    found = weights(mean)
    # Every model's first weight, then every model's second: no model is ever held as a whole.
    read = [(name, reader.path.stem) for reader, name in calls]
    assert read == [(name, path.stem) for name in sorted(found) for path in paths]
    for name, own in found.items():
        exact = torch.stack([part[name].double() for part in parts]).mean(0)
        assert torch.equal(own, exact.float()), name
    card = ModelReader(mean).card
    assert (card.update, card.valid) == (30, {})  # the newest one's; nothing was measured on it


def test_a_head_for_alignments_is_kept_if_all_have_it(write: Write, mean: Path) -> None:
    head = AttentionHead(from_top=1, head=1)
    guided = [write(name, alignment_head=head) for name in ("one", "two")]
    average_models(guided, mean)
    assert ModelReader(mean).card.alignment_head == head
    for paths in ([*guided, write("free")], [write("free"), guided[0]]):
        average_models(paths, mean)
        assert ModelReader(mean).card.alignment_head is None


# --- which ones


def updates(paths: list[Path]) -> list[int]:
    return [ModelReader(path).card.update for path in paths]


def test_the_last_are_the_newest_also_of_a_run_at_work(run: Path) -> None:
    half_written = run / "checkpoints/update-00000300.safetensors.77.partial"
    half_written.write_bytes(b"of a process that is still at it")
    before = content(run)
    assert updates(select_checkpoints(run, 2, best=False)) == [200, 250]
    assert content(run) == before


def test_the_best_are_best_by_the_run_s_metric(run: Path) -> None:
    by_loss = sorted(metrics(run, "valid"), key=lambda record: float(record["loss"]))
    expected = [record["update"] for record in by_loss]
    for count in (1, 2, 3):
        assert updates(select_checkpoints(run, count, best=True)) == expected[:count]
    # The same files of a run whose metric is BLEU, the higher the better.
    text = (run / "config.toml").read_text()
    (run / "config.toml").write_text(text.replace('best_metric = "loss"', 'best_metric = "bleu"'))
    by_bleu = sorted(by_loss[:3], key=lambda record: -float(record["bleu"]))
    found = select_checkpoints(run, 3, best=True)
    assert updates(found) == [record["update"] for record in by_bleu]


def test_the_loss_decides_between_equal_scores(run: Path) -> None:
    text = (run / "config.toml").read_text()
    (run / "config.toml").write_text(text.replace('best_metric = "loss"', 'best_metric = "bleu"'))
    losses: dict[int, float] = {}
    for path in sorted((run / "checkpoints").glob("best-*.safetensors")):
        reader = ModelReader(path)
        loss = 5.0 - len(losses)  # the oldest one has the highest
        card = dataclasses.replace(reader.card, valid={"bleu": 0.0, "loss": loss})
        write_model(path, card, {name: reader.weight(name) for name in reader.weight_names})
        losses[card.update] = loss
    assert updates(select_checkpoints(run, 3, best=True)) == sorted(losses, key=losses.__getitem__)


@pytest.mark.parametrize(
    ("choice", "keep"), [({"last": 4}, "keep_last"), ({"best": 4}, "keep_best")]
)
def test_too_few_is_an_error(learnt: Path, mean: Path, choice: dict[str, int], keep: str) -> None:
    with pytest.raises(UsageError, match=f"has only 3 of the 4 checkpoints; .* larger {keep}"):
        average([learnt], str(mean), **choice)
    assert not mean.exists()


def test_one_run_or_several_files(learnt: Path, write: Write, mean: Path) -> None:
    one = write("one")
    refused: list[tuple[list[Path], dict[str, int]]] = [
        ([one], {}),
        ([learnt], {}),
        ([learnt, one], {}),
        ([learnt, learnt], {"last": 1}),
        ([learnt], {"last": 1, "best": 1}),
        ([mean.parent], {"last": 1}),  # a folder, but of no run
    ]
    for paths, choice in refused:
        with pytest.raises(UsageError):
            average(paths, str(mean), **choice)
    assert not mean.exists()


def test_the_command_tells_what_it_averaged(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mean = run / "mean.safetensors"  # which may lie in the run folder
    for last in (3, 2):  # and be replaced
        average([run], str(mean), last=last)
    assert "update-00000200.safetensors, update-00000250.safetensors" in capsys.readouterr().err
    expected = sum(flat(run / f"checkpoints/update-00000{n}.safetensors") for n in (200, 250)) / 2
    torch.testing.assert_close(flat(mean), expected)


# --- what it refuses


def test_models_that_do_not_fit_are_refused(card: ModelCard, write: Write, mean: Path) -> None:
    lines = ["ganz andere Wörter als dort stehen hier", "und noch mehr davon, viel mehr"]
    other = learn_vocabulary(lines, vocab_size=len(card.src_vocabulary))
    wide = dataclasses.replace(card.config, d_model=64, dropout=0.3)
    one = write("one")
    refused: list[tuple[dict[str, object], str]] = [
        ({"config": wide}, "d_model 16 and 64; dropout 0.1 and 0.3"),
        ({"src_vocabulary": other, "tgt_vocabulary": other}, "src vocabulary; .*tgt vocabulary"),
        ({"tgt_vocabulary": other}, "[^;]*: another tgt vocabulary"),
        ({"tgt_lang": "fr"}, "tgt_lang de and fr"),
    ]
    for changes, message in refused:
        with pytest.raises(DataError, match=message):
            average_models([one, one, write("other", **changes)], mean)
    assert not mean.exists()


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("best.safetensors", "best.safetensors belongs"),
        ("checkpoints/update-00000250.safetensors", "one of"),
        ("checkpoints/mean.safetensors", "belongs"),
        ("config.toml", "belongs"),
        ("notes", "notes exists"),
        ("no/", "no/: "),
        ("checkpoints", "checkpoints: "),
        ("round", "round: "),
        ("link", "one of"),
    ],
)
def test_an_average_replaces_only_a_model_of_no_run(run: Path, out: str, message: str) -> None:
    (run / "notes").write_text("mine\n")
    (run / "round").symlink_to("round")
    (run / "link").symlink_to("checkpoints/update-00000250.safetensors")
    before = content(run)
    with pytest.raises((UsageError, OSError)) as caught:
        average([run], f"{run}/{out}", last=2)
    assert isinstance(caught.value, UsageError | OSError)
    assert message in describe(caught.value)
    assert content(run) == before
