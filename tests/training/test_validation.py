"""Validation's metrics against a plain loop and a plain translation, and over two processes."""

import math
import shutil
import unicodedata
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sacrebleu
import torch
from calls import calls_of
from torch.nn import functional as F
from toy_training import ALONE, Toy, assert_same_weights, pairs, recipe

from nmt.config.fields import Value
from nmt.data.batches import Batch, collate, parts_by_length
from nmt.data.folder import DataFolder
from nmt.models.base import TranslationModel
from nmt.models.model_file import load_model
from nmt.runs.report import ValidationResult
from nmt.search.beam_search import decode
from nmt.training import validation
from nmt.training.loss import losses_of
from nmt.training.validation import Validator
from nmt.translate.translator import Translator

EPS = 0.1
TEXT = pairs(20, seed=2)  # as `prepare_toy` has it

Measure = Callable[..., ValidationResult]


@pytest.fixture(scope="module")
def model(learnt: Path) -> TranslationModel:
    return load_model(learnt / "best.safetensors")[0]


def measured(folder: DataFolder, model: TranslationModel, **values: Value) -> ValidationResult:
    """Measure a model by a recipe with these values."""
    config = recipe(**{"label_smoothing": EPS, "micro_batch_tokens": 60, **values}).training
    result = Validator(folder, ALONE, torch.device("cpu"), config).measure(model, lambda: False)
    assert result is not None
    return result


@pytest.fixture(scope="module")
def measure(data: Path, model: TranslationModel) -> Measure:
    return partial(measured, DataFolder.open(data), model)


@pytest.fixture
def changeable(data: Path, tmp_path: Path) -> DataFolder:
    """A copy of the data, whose valid text may be changed."""
    return DataFolder.open(Path(shutil.copytree(data, tmp_path / "copy")))


@pytest.fixture(scope="module")
def result(measure: Measure) -> ValidationResult:
    return measure(validate_metric="bleu")


def test_loss_and_nll_are_those_of_a_loop_over_single_pairs(
    data: Path, model: TranslationModel, result: ValidationResult
) -> None:
    valid = DataFolder.open(data).valid
    loss = nll = tokens = 0.0
    model.eval()
    for index in range(len(valid)):
        batch = collate(*valid.rows(np.array([index])))
        with torch.no_grad():
            logits, targets = (model(batch) @ model.output_projection.T).double(), batch.targets
        loss += F.cross_entropy(logits, targets, label_smoothing=EPS, reduction="sum").item()
        nll += F.cross_entropy(logits, targets, reduction="sum").item()
        tokens += len(valid.tgt(index)) + 1
    assert result.loss == pytest.approx(loss / tokens, rel=1e-5)
    assert result.nll == pytest.approx(nll / tokens, rel=1e-5)
    assert result.perplexity == pytest.approx(math.exp(nll / tokens), rel=1e-5)


@pytest.mark.parametrize("micro_batch_tokens", [1, 1_000])
def test_batches_change_nothing(
    measure: Measure, result: ValidationResult, micro_batch_tokens: int
) -> None:
    other = measure(micro_batch_tokens=micro_batch_tokens)
    assert (other.loss, other.nll) == pytest.approx((result.loss, result.nll), rel=1e-5)


def test_scores_are_those_of_translating_the_raw_text(learnt: Path, measure: Measure) -> None:
    sources, references = zip(*TEXT, strict=True)
    hypotheses = [best.text for best in Translator.load(learnt).translate(sources)]
    for name, metric in (("bleu", sacrebleu.BLEU()), ("chrf", sacrebleu.CHRF())):
        expected = metric.corpus_score(hypotheses, [references]).score
        assert 1 < expected < 100  # so that it could differ
        result = measure(validate_metric=name)
        assert result.scores == {name: pytest.approx(expected)}
        assert result.signatures == {f"{name}_signature": str(metric.get_signature())}
    assert measure(validate_metric="bleu,chrf").scores.keys() == {"bleu", "chrf"}


@pytest.mark.parametrize("metric", ["none", "bleu"])
def test_samples_are_translations_of_lines_spread_over_the_text(
    learnt: Path, measure: Measure, metric: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [4, 11, 17]  # the middles of three parts of 20 lines, from 1
    sources = [TEXT[line - 1][0] for line in lines]
    expected = [best.text for best in Translator.load(learnt).translate(sources)]
    calls = calls_of(monkeypatch, Translator, "translate")
    samples = measure(validate_metric=metric, sample_translations=3).samples
    assert [tuple(sample.values()) for sample in samples] == [
        (line, *TEXT[line - 1], translation)
        for line, translation in zip(lines, expected, strict=True)
    ]
    translated = [line for _, lines in calls for line in lines]
    # Nothing is translated twice.
    assert translated == ([src for src, _ in TEXT] if metric == "bleu" else sources)


def test_two_processes_find_what_one_finds_and_share_the_work(
    data: Path, measure: Measure, result: ValidationResult, two_ranks: list[Any]
) -> None:
    three, one = (measure(sample_translations=count).samples for count in (3, 1))
    for found in two_ranks:
        assert found["metrics"] == pytest.approx(result.metrics(), rel=1e-5)
        assert (found["samples"], found["sample"]) == (three, one)
        assert found["stopped"]  # also if only the other one was asked to
    shares = [found["batches"] for found in two_ranks]
    valid = DataFolder.open(data).valid
    assert sum(shares) == len(parts_by_length(*valid.lengths(np.arange(len(valid))), 60))
    assert max(shares) - min(shares) <= 1


def test_without_memory_it_goes_on_in_smaller_batches(
    measure: Measure, result: ValidationResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = list[float]()

    def losses_of_few(model: TranslationModel, batch: Batch, label_smoothing: float) -> Any:
        if batch.num_tokens > 20:
            raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory")
        return losses_of(model, batch, label_smoothing)

    def search_few(*arguments: Any, budget: float, **options: Any) -> Any:
        sizes.append(budget)
        if budget > 100:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return decode(*arguments, budget=budget, **options)

    monkeypatch.setattr(validation, "losses_of", losses_of_few)
    monkeypatch.setattr("nmt.search.torch_engine.decode", search_few)
    assert measure(validate_metric="bleu").metrics() == pytest.approx(result.metrics(), rel=1e-5)
    assert sizes == [1024 >> halvings for halvings in range(5)]


def test_validation_does_not_disturb_training(toy: Toy) -> None:
    often = toy.train("often", validate_every=2, validate_metric="bleu")
    assert_same_weights(often, toy.train("never", validate_every=1_000))
    assert recipe().model.dropout > 0  # or no random number could have been disturbed


def test_a_validated_batch_is_no_larger_than_the_share_of_an_update(toy: Toy) -> None:
    calls = calls_of(toy.patch, validation, "parts_by_length")
    toy.train(batch_tokens=40, micro_batch_tokens=4_096, max_updates=1)
    assert [call[-1] for call in calls] == [40]


def test_freed_memory_is_returned_before_and_after_a_validation(toy: Toy) -> None:
    done = list[str]()
    toy.patch.setattr("nmt.training.trainer.return_freed_memory", lambda: done.append("returned"))
    toy.patch.setattr("nmt.training.validation.losses_of", noting(done, losses_of))
    toy.train("often", validate_every=4, max_updates=4)
    assert (done[0], *done[-2:]) == ("returned", "losses", "returned")


def noting(done: list[str], losses: Any) -> Any:
    """Return `losses_of` that notes its calls."""

    def noted(*arguments: Any) -> Any:
        done.append("losses")
        return losses(*arguments)

    return noted


def test_ends_of_documents_are_left_out(changeable: DataFolder, model: TranslationModel) -> None:
    (text,) = changeable.valid_texts
    bleus = []
    for lines in (TEXT, [*TEXT[:5], ("", ""), *TEXT[5:], ("", "")]):
        for path, side in zip((text.src, text.tgt), zip(*lines, strict=True), strict=True):
            path.write_text("".join(f"{line}\n" for line in side))
        result = measured(changeable, model, validate_metric="bleu")
        bleus.append((result.scores, result.samples))
    assert bleus[0] == bleus[1]


@pytest.mark.parametrize(("letterless", "copies"), [(10, True), (11, False)])
def test_lines_without_letters_are_copied_as_in_translation_unless_most_are_such(
    changeable: DataFolder,
    model: TranslationModel,
    capsys: pytest.CaptureFixture[str],
    letterless: int,
    copies: bool,
) -> None:
    (text,) = changeable.valid_texts
    sources = [f"{number} -" for number in range(letterless)] + ["a dog"] * (20 - letterless)
    text.src.write_text("".join(f"{line}\n" for line in sources))
    samples = measured(changeable, model, sample_translations=20).samples
    copied = [sample["source"] == sample["translation"] for sample in samples]
    assert copied == [copies] * letterless + [False] * (20 - letterless)
    assert ("no letters" in capsys.readouterr().err) != copies


def test_bleu_is_of_nfc_if_all_else_is_barred(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = DataFolder.open(data)
    monkeypatch.setattr(folder.tgt_vocabulary, "composes", True)
    validator = Validator(
        folder, ALONE, torch.device("cpu"), recipe(validate_metric="bleu").training
    )
    composed = "der Bär läuft über die Straße"
    text = validation._ValidText(("en", "de"), [""], [unicodedata.normalize("NFD", composed)])
    assert validator._scores([composed], text)["bleu"].score == pytest.approx(100)
    monkeypatch.setattr(folder.tgt_vocabulary, "composes", False)
    assert validator._scores([composed], text)["bleu"].score < 50
