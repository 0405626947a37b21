"""Validation's metrics against a plain loop and a plain translation, and over two processes."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sacrebleu
import torch
from torch import Tensor
from torch.nn import functional as F
from toy_training import (
    ALONE,
    metrics,
    pairs,
    recipe,
    train,
    weights,
)

from nmt.data.batches import collate, parts_by_length
from nmt.data.folder import DataFolder
from nmt.models.base import TranslationModel
from nmt.models.model_file import ModelReader, load_model
from nmt.runs.report import Sample, ValidationResult
from nmt.search.beam_search import decode
from nmt.training import validation
from nmt.training.loss import smoothed_cross_entropy
from nmt.training.validation import Validator, spread
from nmt.translate.output import Translation
from nmt.translate.rescoring import Likelihood, Scorer
from nmt.translate.translator import Translator
from nmt.values import Value

EPS = 0.1


@pytest.fixture(scope="module")
def model(learnt: Path) -> TranslationModel:
    return load_model(learnt / "best.safetensors")[0]


def validator(data: Path, **values: Value) -> Validator:
    config = recipe(**{"label_smoothing": EPS, "micro_batch_tokens": 60, **values}).training
    return Validator(DataFolder.open(data), ALONE, torch.device("cpu"), config)


def measure(data: Path, model: TranslationModel, **values: Value) -> ValidationResult:
    result = validator(data, **values).measure(model, lambda: False)
    assert result is not None
    return result


@pytest.fixture(scope="module")
def result(data: Path, model: TranslationModel) -> ValidationResult:
    return measure(data, model, validate_bleu=True)


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


def test_batches_change_nothing(
    data: Path, model: TranslationModel, result: ValidationResult
) -> None:
    for micro_batch_tokens in (1, 1_000):
        other = measure(data, model, micro_batch_tokens=micro_batch_tokens)
        assert (other.loss, other.nll) == pytest.approx((result.loss, result.nll), rel=1e-5)


def test_bleu_is_that_of_translating_the_raw_text(learnt: Path, result: ValidationResult) -> None:
    text = pairs(20, seed=2)  # as `prepare_toy` has it
    translator = Translator.load(learnt)
    hypotheses = [best.text for best in translator.translate([src for src, _ in text])]
    bleu = sacrebleu.BLEU()
    expected = bleu.corpus_score(hypotheses, [[tgt for _, tgt in text]])
    assert result.bleu == pytest.approx(expected.score)
    assert 1 < expected.score < 100  # so that it could differ
    assert result.bleu_signature == str(bleu.get_signature())


def test_training_logged_the_figures_of_the_model_it_wrote(
    learnt: Path, result: ValidationResult
) -> None:
    card = ModelReader(learnt / "best.safetensors").card
    (record,) = (r for r in metrics(learnt, "valid") if r["update"] == card.update)
    assert card.valid == {key: record[key] for key in ("loss", "nll", "perplexity", "bleu")}
    assert result.metrics() == pytest.approx(card.valid, rel=1e-5)


@pytest.mark.parametrize("with_bleu", [False, True])
def test_samples_are_translations_of_lines_spread_over_the_text(
    data: Path,
    learnt: Path,
    model: TranslationModel,
    with_bleu: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = pairs(20, seed=2)  # as `prepare_toy` has it
    lines = [4, 11, 17]  # the middles of three parts of 20 lines, from 1
    sources = [text[line - 1][0] for line in lines]
    expected = [best.text for best in Translator.load(learnt).translate(sources)]
    translated: list[str] = []
    translate = Translator.translate

    def record(self: Translator, lines: list[str], **options: Any) -> list[Translation]:
        translated.extend(lines)
        return translate(self, lines, **options)

    monkeypatch.setattr(Translator, "translate", record)
    samples = measure(data, model, validate_bleu=with_bleu, sample_translations=3).samples
    assert samples == tuple(
        Sample(line, *text[line - 1], translation)
        for line, translation in zip(lines, expected, strict=True)
    )
    assert translated == ([src for src, _ in text] if with_bleu else sources)  # nothing twice


def test_two_processes_find_what_one_finds_and_share_the_work(
    data: Path, model: TranslationModel, result: ValidationResult, two_ranks: list[Any]
) -> None:
    three, one = (
        [asdict(sample) for sample in measure(data, model, sample_translations=count).samples]
        for count in (3, 1)
    )
    for found in two_ranks:
        assert found["metrics"] == pytest.approx(result.metrics(), rel=1e-5)
        assert (found["samples"], found["sample"]) == (three, one)
        assert found["stopped"]  # also if only the other one was asked to
    shares = [found["batches"] for found in two_ranks]
    assert sum(shares) == len(parts_by_length(DataFolder.open(data).valid, 60))
    assert max(shares) - min(shares) <= 1


def test_without_memory_it_goes_on_in_smaller_batches(
    data: Path, model: TranslationModel, result: ValidationResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    losses, sizes = smoothed_cross_entropy, list[float]()

    def loss_of_few(states: Tensor, projection: Tensor, targets: Tensor, eps: float) -> Any:
        if len(targets) > 20:
            raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory")
        return losses(states, projection, targets, eps)

    def search_few(*arguments: Any, budget: float, **options: Any) -> Any:
        sizes.append(budget)
        if budget > 100:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return decode(*arguments, budget=budget, **options)

    monkeypatch.setattr(validation, "smoothed_cross_entropy", loss_of_few)
    monkeypatch.setattr("nmt.translate.torch_engine.decode", search_few)
    found = measure(data, model, validate_bleu=True)
    assert found.metrics() == pytest.approx(result.metrics(), rel=1e-5)
    assert sizes == [4096 >> halvings for halvings in range(7)]


@pytest.mark.parametrize(
    ("count", "total", "lines"),
    [(0, 5, []), (1, 5, [2]), (2, 8, [2, 6]), (3, 3, [0, 1, 2]), (9, 2, [0, 1])],
)
def test_spread(count: int, total: int, lines: list[int]) -> None:
    assert spread(count, total) == lines


@pytest.mark.parametrize("batches", [0, 1, None])
def test_a_stop_is_answered_between_batches_and_before_samples(
    data: Path, model: TranslationModel, batches: int | None
) -> None:
    if batches is None:
        batches = len(parts_by_length(DataFolder.open(data).valid, 60))
    asked: list[bool] = []

    def stop_requested() -> bool:
        asked.append(len(asked) == batches)
        return asked[-1]

    assert validator(data, sample_translations=3).measure(model, stop_requested) is None
    assert asked == [False] * batches + [True]
    assert model.training  # training goes on with dropout, whatever the end


def test_validation_does_not_disturb_training(data: Path, tmp_path: Path) -> None:
    often = train(data, tmp_path / "often", validate_every=2, validate_bleu=True)
    never = train(data, tmp_path / "never", validate_every=1_000)
    found, expected = (weights(run / "last.safetensors") for run in (often, never))
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert recipe().model.dropout > 0  # or no random number could have been disturbed


def test_a_hopeless_model_has_a_finite_perplexity() -> None:
    assert math.isfinite(ValidationResult(1e6, 1e6, None, None).perplexity)


def test_the_perplexity_of_the_valid_text_is_the_valid_split_s(
    data: Path, learnt: Path, result: ValidationResult
) -> None:
    sources, references = (
        path.read_text().splitlines() for path in DataFolder.open(data).valid_text
    )
    likelihood = Likelihood()
    list(Scorer(Translator.load(learnt)).stream(zip(sources, references, strict=True), likelihood))
    assert likelihood.nll == pytest.approx(result.nll, rel=1e-5)
    assert likelihood.perplexity == pytest.approx(result.perplexity, rel=1e-5)
