"""Imported models go through all commands."""

from pathlib import Path

import pytest
import torch
from command_line import QUICK, QUICK_TRAINING, Nmt, write
from foreign_m2m100 import M2M100
from foreign_models import (
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
from nmt.models.model_file import load_model


def test_an_imported_model_is_tuned_and_used_as_any_other(nmt: Nmt, tmp_path: Path) -> None:
    model, run = import_huggingface(nmt, MarianMT().write(tmp_path / "opus")), tmp_path / "tuned"
    nmt("prepare", tmp_path / "data", *write_pairs(tmp_path), "--vocab", model).succeeded()
    words = ("--init-from", model, *QUICK_TRAINING, "--batch-tokens", "100", "--max-updates", "2")
    nmt("train", tmp_path / "data", "--out", run, *words, "--set", "warmup_updates=1").succeeded()
    before, card = load_model(model)
    after, tuned_card = load_model(run)
    assert tuned_card.config == card.config
    assert tuned_card.tgt_vocabulary.model == card.tgt_vocabulary.model
    pairs = zip(before.parameters(), after.parameters(), strict=True)
    changed = [not torch.equal(one, other) for one, other in pairs]
    assert sum(changed) > 0.9 * len(changed)
    # What the foreign model does not have stays out of the softmax, and its first input zeros.
    assert before.output_bias is not None and after.output_bias is not None
    barred = before.output_bias == BARRED
    assert barred.any() and torch.equal(after.output_bias == BARRED, barred)
    assert not after.output_projection[BOS_ID].any()

    mean, last, source = tmp_path / "mean.safetensors", run / "last.safetensors", "valid.en"
    assert nmt("average", model, last, "--out", mean).status == 0
    for more in (("--precision", "bf16"), ("--ensemble", last), ("--alignment",), ("--sample",)):
        done = nmt("translate", mean, "--input", tmp_path / source, *QUICK, *more).succeeded()
        assert len(done.stdout.splitlines()) == 8, more
    plain = ("--source", tmp_path / source, "--scores", "--length-penalty", "0")
    done = nmt("rescore", mean, tmp_path / "valid.de", *plain).succeeded()
    texts = [(tmp_path / f"valid.{lang}").read_text().splitlines() for lang in ("en", "de")]
    tagged = [(f"{TAGS[1]}{src}", tgt) for src, tgt in zip(*texts, strict=True)]  # of German
    own = [float(found.sum()) for found in log_probs(mean, tagged)]
    found = [float(line.split("\t")[0]) for line in done.stdout.splitlines()]
    assert found == pytest.approx(own, abs=1e-3)


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
def test_a_package_of_opus_mt_is_its_hugging_face_folder(nmt: Nmt, tmp_path: Path, by: str) -> None:
    folder = MarianMT().write(tmp_path / "opus")
    package = write_package(tmp_path / "package", folder)
    words = ("--src", "en", "--tgt", "de")
    nmt("import", "marian", package / by, tmp_path / "native.safetensors", *words).succeeded()
    lines = [source for source, _ in LINES] + [f"{TAGS[0]} abc", f"{TAGS[1]}gh", ">>xyz<< a", "ßß"]
    given = ("--input", write(tmp_path / "in", lines), *QUICK, "--beam-size", "1")
    theirs = nmt("translate", import_huggingface(nmt, folder), *given).succeeded().stdout
    ours = nmt("translate", tmp_path / "native.safetensors", *given).succeeded().stdout
    assert ours == theirs and len(set(theirs.split("\n"))) > 9  # with an empty one at the end


@pytest.mark.parametrize(
    ("form", "model", "words", "named"),
    [
        ("marian", MarianModel(), (), "--src and --tgt"),
        ("huggingface", MarianMT(), ("--vocab", "x.spm"), "--vocab has no"),
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
