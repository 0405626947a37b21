"""Imported models go through all commands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from command_line import QUICK, QUICK_TRAINING, Answer, Nmt
from foreign_m2m100 import M2M100
from foreign_models import (
    KINDS,
    LINES,
    TAGS,
    MarianModel,
    MarianMT,
    import_huggingface,
    log_probs,
    write_package,
    write_pairs,
)

from nmt.data.vocabulary import BOS_ID
from nmt.models.base import BARRED
from nmt.models.model_file import (
    load_model,
)


def test_an_imported_model_translates_and_is_exported(
    nmt: Nmt, tmp_path: Path, translate_lines: Callable[..., list[str]]
) -> None:
    pytest.importorskip("ctranslate2", reason="needs the extra ctranslate2")
    folder = MarianMT(model_type="bpe").write(tmp_path / "opus")
    model = import_huggingface(nmt, folder)
    lines = [source for source, _ in LINES]
    ours = translate_lines(model, lines)
    assert len(ours) == len(lines) and len(set(ours)) > 3
    done = nmt("export", "ctranslate2", model, tmp_path / "fast")
    assert done.status == 0, done.stderr
    assert translate_lines(tmp_path / "fast", lines) == ours


def test_every_command_takes_an_imported_model(
    nmt: Nmt, tmp_path: Path, tune: Callable[..., Answer]
) -> None:
    model = import_huggingface(nmt, KINDS["separate"].write(tmp_path / "opus"))
    assert tune(model, tmp_path / "tuned", "--max-updates", "2").status == 0
    mean = tmp_path / "mean.safetensors"
    last = tmp_path / "tuned" / "last.safetensors"
    assert nmt("average", model, last, "--out", mean).status == 0
    source, count = tmp_path / "valid.en", 8
    for more in (
        ("--precision", "bf16"),
        ("--ensemble", last),
        ("--alignment",),
        ("--sample",),
    ):
        done = nmt("translate", mean, "--input", source, *QUICK, *more)
        assert done.status == 0, done.stderr
        assert len(done.stdout.splitlines()) == count, more
    plain = ("--scores", "--length-penalty", "0")
    done = nmt("rescore", mean, tmp_path / "valid.de", "--source", source, *plain)
    assert done.status == 0, done.stderr
    texts = [(tmp_path / f"valid.{lang}").read_text().splitlines() for lang in ("en", "de")]
    tagged = [(f"{TAGS[1]}{src}", tgt) for src, tgt in zip(*texts, strict=True)]  # of German
    own = [float(found.sum()) for found in log_probs(mean, tagged)]
    found = [float(line.split("\t")[0]) for line in done.stdout.splitlines()]
    assert found == pytest.approx(own, abs=1e-3)


@pytest.fixture
def translate_lines(nmt: Nmt, tmp_path: Path) -> Callable[[Path, list[str]], list[str]]:
    def translate(model: Path, lines: list[str]) -> list[str]:
        (tmp_path / "in").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        words = ("--input", tmp_path / "in", *QUICK, "--beam-size", "1")
        done = nmt("translate", model, *words)
        assert done.status == 0, done.stderr
        return done.stdout.split("\n")[:-1]

    return translate


@pytest.fixture
def tune(nmt: Nmt, tmp_path: Path) -> Callable[..., Answer]:
    """Prepare text of the foreign languages with a model's vocabulary, and train the model."""

    def run(model: Path, out: Path, *words: str) -> Answer:
        data = tmp_path / "data"
        done = nmt("prepare", data, *write_pairs(tmp_path), "--vocab", model)
        assert done.status == 0, done.stderr
        started = ("train", data, "--out", out, "--init-from", model, *QUICK_TRAINING)
        return nmt(*started, "--batch-tokens", "100", "--set", "warmup_updates=1", *words)

    return run


def test_an_imported_model_is_fine_tuned_with_its_own_architecture(
    nmt: Nmt, tmp_path: Path, tune: Callable[..., Answer]
) -> None:
    model = import_huggingface(nmt, KINDS["unigram"].write(tmp_path / "opus"))
    done = tune(model, tmp_path / "tuned", "--max-updates", "3")
    assert done.status == 0, done.stderr
    before, card = load_model(model)
    after, tuned_card = load_model(tmp_path / "tuned")
    assert (tuned_card.config, tuned_card.tgt_vocabulary.model) == (
        card.config,
        card.tgt_vocabulary.model,
    )
    changed = {
        name
        for (name, one), (_, other) in zip(
            before.named_parameters(), after.named_parameters(), strict=True
        )
        if not torch.equal(one, other)
    }
    assert len(changed) > 0.9 * len(list(before.parameters()))
    # What the foreign model does not have stays out of the softmax, and its first input zeros.
    assert before.output_bias is not None and after.output_bias is not None
    barred = before.output_bias == BARRED
    assert barred.sum() > 1 and torch.equal(after.output_bias == BARRED, barred)
    assert not after.output_projection[BOS_ID].any()


def test_languages_come_from_the_user_or_the_folder(nmt: Nmt, tmp_path: Path) -> None:
    folder = MarianMT().write(tmp_path / "opus")

    def languages(*words: str) -> tuple[str, str]:
        _, card = load_model(import_huggingface(nmt, folder, *words))
        return card.src_lang, card.tgt_lang

    assert languages() == ("en", "de")
    assert languages("--tgt", "fr") == ("en", "fr")
    (folder / "tokenizer_config.json").unlink()
    line = nmt("import", "huggingface", folder, tmp_path / "out").refusal(2)
    assert "--src and --tgt" in line


@pytest.mark.parametrize("by", [".", "decoder.yml"])
def test_a_package_of_opus_mt_translates_as_its_hugging_face_folder(
    nmt: Nmt, tmp_path: Path, translate_lines: Callable[..., list[str]], by: str
) -> None:
    folder = MarianMT().write(tmp_path / "opus")
    package = write_package(tmp_path / "package", folder)
    words = ("--src", "en", "--tgt", "de")
    done = nmt("import", "marian", package / by, tmp_path / "native.safetensors", *words)
    assert done.status == 0, done.stderr
    lines = [source for source, _ in LINES] + [f"{TAGS[0]} abc", f"{TAGS[1]}gh", ">>xyz<< a", "ßß"]
    theirs = translate_lines(import_huggingface(nmt, folder), lines)
    assert translate_lines(tmp_path / "native.safetensors", lines) == theirs
    assert len(set(theirs)) > 8


@pytest.mark.parametrize(
    ("form", "model", "words", "named"),
    [
        ("marian", MarianModel(), (), "--src and --tgt"),
        ("huggingface", MarianMT(), ("--vocab", "x.spm"), "--vocab is"),
        ("huggingface", M2M100(), ("--positions", "marian"), "--positions is"),
    ],
)
def test_options_that_do_not_fit_the_model_are_refused(
    nmt: Nmt,
    tmp_path: Path,
    form: str,
    model: MarianMT | M2M100 | MarianModel,
    words: tuple[str, ...],
    named: str,
) -> None:
    path = model.write(tmp_path / "theirs")
    assert named in nmt("import", form, path, tmp_path / "out", *words).refusal(2)
