"""What `nmt export` writes is what `nmt translate` reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from toy_training import prepare_toy

from nmt.data.folder import DataFolder
from nmt.models.model_file import ModelCard, write_model

Nmt = Callable[..., Any]

LINES = ["the cat sees a bird", "", "a dog. The old house and the river", "the small tree"]
QUICK = ["--workers", "1", "--threads", "1", "--beam-size", "2", "--max-extra-tokens", "3"]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "in"
    path.write_text("".join(f"{line}\n" for line in LINES))
    return path


def test_an_export_translates_as_its_model_does(
    nmt: Nmt, model_file: Path, text: Path, tmp_path: Path
) -> None:
    pytest.importorskip("ctranslate2", reason="needs the extra ctranslate2")
    done = nmt("export", "ctranslate2", model_file, tmp_path / "fast")
    assert (done.status, done.stdout) == (0, "")
    words = ("--input", text, *QUICK, "--beam-size", "1")
    fast = nmt("translate", tmp_path / "fast", *words)
    assert fast.status == 0
    assert len(fast.stdout.splitlines()) == len(LINES)
    assert fast.stdout.splitlines()[1] == ""
    for more, message in (
        (("--beam-size", "4", "--length-penalty-form", "wu"), "supports only"),
        (("--prefixes",), "--prefixes"),
        (("--attention", "a.svg"), "--attention"),
        (("--max-tokens", "0"), "--max-tokens must be 1 or more"),
        (("--alignment",), "no alignments"),
        (("--format", "jsonl"), "no log-probabilities of tokens"),
        (("--precision", "int8"), "leave out --precision"),
        (("--sample",), "samples"),
        (("--ensemble", model_file), "fast is a CTranslate2 export, which cannot join an ensemble"),
        (("--shortlist", model_file), "takes no shortlist"),
    ):
        refused = nmt("translate", tmp_path / "fast", *words, *more)
        assert (refused.status, refused.stdout) == (2, "")
        assert message in refused.stderr
    # Other commands need the weights.
    refused = nmt("rescore", tmp_path / "fast", text, "--source", text)
    assert (refused.status, refused.stdout) == (1, "")
    assert "fast: is a CTranslate2 export; give the model file" in refused.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("onnx", "MODEL", "out"), "unknown format 'onnx'"),
        (("ctranslate2", "MODEL", "nowhere/out"), "nowhere: no such folder"),
        (("ctranslate2", "MODEL", "out", "--quantization", "int9"), "did you mean 'int8'?"),
        (("ctranslate2", "MODEL", "out", "--best", "9"), "--best has no meaning for ctranslate2"),
        (("shortlist", "MODEL", "out", "--quantization", "int8"), "has no meaning for shortlist"),
    ],
)
def test_what_cannot_be_exported_is_one_line(
    nmt: Nmt,
    model_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = nmt("export", *(model_file if word == "MODEL" else word for word in words))
    assert (answer.status, answer.stdout) == (2, "")
    (line,) = answer.stderr.splitlines()
    assert message in line
    assert list(tmp_path.iterdir()) == []


# --------------------------------------------------------------------------------- shortlists


def test_translations_are_made_of_the_tokens_on_a_shortlist(
    nmt: Nmt, card: ModelCard, text: Path, tmp_path: Path
) -> None:
    data = prepare_toy(tmp_path)
    folder = DataFolder.open(data)
    torch.manual_seed(1)
    trained = replace(
        card, src_vocabulary=folder.src_vocabulary, tgt_vocabulary=folder.tgt_vocabulary
    )
    write_model(tmp_path / "model", trained, dict(trained.build().named_parameters()))
    words = ("--frequent", "3", "--best", "1")
    answer = nmt("export", "shortlist", data, tmp_path / "list", *words)
    assert (answer.status, answer.stdout) == (0, "")
    assert "of 345 tokens on average, which have " in answer.stderr
    chosen = ("translate", tmp_path / "model", "--input", text, *QUICK)
    free, listed = nmt(*chosen), nmt(*chosen, "--shortlist", tmp_path / "list")
    assert (free.status, listed.status) == (0, 0)
    assert free.stdout != listed.stdout
    to_file = (*chosen, "--output", tmp_path / "out")
    assert nmt(*to_file).status == 0
    assert "already translated" not in nmt(*to_file, "--shortlist", tmp_path / "list").stderr


def test_a_shortlist_replaces_nothing_but_a_shortlist(nmt: Nmt, tmp_path: Path) -> None:
    data, out = prepare_toy(tmp_path), tmp_path / "out"
    for _ in range(2):
        assert nmt("export", "shortlist", data, out).status == 0
    for other, message in (
        (data / "vocab.model", "exists and is not a shortlist"),
        (data, "is a folder; name a file"),
    ):
        answer = nmt("export", "shortlist", data, other)
        assert (answer.status, answer.stdout) == (2, "")
        assert f"{other}: {message}" in answer.stderr
    assert nmt("data", data, "--verify").status == 0


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere", "nowhere: no such file"),
        ("in", "in: damaged, or not a file that nmt wrote"),
        ("model", "not a shortlist of nmt, but"),
    ],
)
def test_what_is_no_shortlist_is_refused(
    nmt: Nmt, model_file: Path, text: Path, tmp_path: Path, name: str, message: str
) -> None:
    (tmp_path / "model").write_bytes(model_file.read_bytes())
    for more in ((), ("--output", tmp_path / "out")):
        words = ("--input", text, *more, "--shortlist", tmp_path / name)
        answer = nmt("translate", model_file, *words, *QUICK)
        assert (answer.status, answer.stdout) == (1, "")
        (line,) = answer.stderr.splitlines()
        assert message in line.replace("No such", "no such")
