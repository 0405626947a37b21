"""Checkpoints of fairseq; test_toolkits.py says that they score and translate as there."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import Nmt, write
from foreign_folders import (
    BY_CODES,
    BY_PIECES,
    CODES,
    FOLDERS,
    LANGS,
    SEGMENTERS,
    Importer,
    Spoil,
    Words,
    changed,
    copied,
    edited,
    put,
    renamed,
    taken,
    without,
)

POST, PRE = FOLDERS / "fairseq" / "post", FOLDERS / "fairseq" / "pre"
NAME = "checkpoint_last.pt"
ALONE = ("--workers", "1", "--threads", "1")
NORM = "encoder.layernorm_embedding.weight"


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def equal(ours: str, theirs: list[str]) -> int:
    lines = ours.splitlines()
    assert len(lines) == len(theirs)
    return sum(map(str.__eq__, lines, theirs))


def test_lines_are_subwords_without_a_segmenter(nmt: Nmt, tmp_path: Path) -> None:
    out = tmp_path / "model.safetensors"
    done = nmt("import", "fairseq", POST, out, *LANGS).succeeded()
    assert "--vocab codes.bpe" in done.stderr
    done = nmt("translate", out, *ALONE, stdin=b"A@@ n@@ na xyz</s> .\n")
    subwords = {line.split()[0] for line in lines_of(POST / "dict.de.txt")}
    assert done.succeeded().stdout.split()
    assert set(done.stdout.split()) <= subwords


def test_check_tells_how_many_lines_are_equal(importer: Importer, tmp_path: Path) -> None:
    sources, outputs = (lines_of(POST / f"{name}.txt")[:3] for name in ("source", "output"))
    source = write(tmp_path / "source", sources)
    output = write(tmp_path / "output", [outputs[0], "Sie.", outputs[2]])
    check = ("--check", f"{source},{output}")
    assert importer.answer(POST, words=(*LANGS, *BY_CODES, *check)).stdout.splitlines() == [
        "2 of 3 lines equal",
        f"line 2, source: {sources[1]}",
        "line 2, output: Sie.",
        f"line 2, nmt: {outputs[1]}",
    ]
    write(output, ["Sie."])
    assert "3 lines of source, but 1 of output" in importer.refusal(1, POST, words=(*LANGS, *check))
    assert "two files" in importer.refusal(2, POST, words=(*LANGS, "--check", "one"))


def setting(name: str, value: object) -> Spoil:
    return put(NAME, value, "cfg", "model", name)


def in_task(**values: str) -> Spoil:
    return edited(NAME, lambda content: content["cfg"]["task"].update(values))


def spoil_a_row(content: dict[str, Any]) -> None:
    content["model"]["encoder.layers.1.fc1.weight"][3] = math.nan


@pytest.mark.parametrize(
    ("spoil", "status", "said"),
    [
        (setting("adaptive_softmax_cutoff", "1000,2000"), 2, "adaptive_softmax_cutoff"),
        (setting("no_cross_attention", True), 2, "no_cross_attention"),
        (setting("decoder_ffn_embed_dim", 256), 2, "ffn_embed_dim"),
        (setting("decoder_normalize_before", True), 2, "normalize_before"),
        (setting("arch", "lightconv"), 2, "lightconv"),
        (setting("arch", "transformer_monotonic_iwslt_de_en"), 2, "transformer_monotonic"),
        (setting("simul_type", "waitk"), 2, "simul_type"),
        (setting("encoder_unidirectional", True), 2, "encoder_unidirectional"),
        (setting("activation_fn", "tanh"), 2, "tanh"),
        (in_task(_name="denoising"), 2, "denoising"),
        (in_task(source_lang="de", target_lang="en"), 2, "translates de to en"),
        (taken(NAME, "cfg"), 1, "no settings"),
        (taken(NAME, "model"), 1, "no model"),
        (taken(NAME, "model", "encoder.layers.0.fc1.weight"), 1, "lacks "),
        (put(NAME, torch.ones(64), "model", NORM), 2, "layernorm_embedding"),
        (put(NAME, Path("x"), "extra"), 1, "more than tensors"),
        (edited(NAME, spoil_a_row), 1, "encoder.1.feed_forward.inner.weight has numbers"),
    ],
)
def test_other_models_are_refused(importer: Importer, spoil: Spoil, status: int, said: str) -> None:
    assert said in importer.refusal(status, POST, spoil, words=(*LANGS, *BY_CODES))


def test_settings_of_older_releases_are_a_namespace(nmt: Nmt, importer: Importer) -> None:
    def as_args(content: dict[str, Any]) -> None:
        content["args"] = content.pop("cfg")["model"]

    old, new = (
        nmt("translate", model, *ALONE, "--input", POST / "source.txt").succeeded().stdout
        for model in (
            importer.model(POST, edited(NAME, as_args), words=(*LANGS, *BY_CODES)),
            importer.model(POST, words=(*LANGS, *BY_CODES)),
        )
    )
    assert old == new


def test_embeddings_that_are_not_scaled_are_ours_scaled_back(nmt: Nmt, importer: Importer) -> None:
    def unscale(content: dict[str, Any]) -> None:
        content["cfg"]["model"].no_scale_embedding = True
        for side in ("encoder", "decoder"):
            content["model"][f"{side}.embed_tokens.weight"] *= 8.0  # the root of d_model

    out = importer.model(PRE, edited(NAME, unscale), words=(*LANGS, *BY_PIECES))
    done = nmt("translate", out, *ALONE, "--input", PRE / "source.txt", "--beam-size", "1")
    assert equal(done.succeeded().stdout, lines_of(PRE / "output.txt")) >= 198


@pytest.mark.parametrize(
    ("spoils", "said"),
    [
        ([without("dict.de.txt")], "dict.de.txt: no such file"),
        ([changed("dict.de.txt", lambda text: text.partition(b"\n")[2])], "dict.de.txt: has 287 "),
        ([renamed(NAME, "a.pt"), copied(PRE / NAME, "b.pt")], "a.pt, b.pt; name the checkpoint"),
    ],
)
def test_what_is_missing_is_named(importer: Importer, spoils: list[Spoil], said: str) -> None:
    assert said in importer.refusal(1, PRE, *spoils, words=(*LANGS, *BY_PIECES))


@pytest.mark.parametrize(
    ("folder", "words", "said"),
    [
        (PRE, (), "spm.model"),
        (POST, ("--vocab", CODES, "--moses-escape"), "--moses-tokenize"),
        (POST, ("--vocab", SEGMENTERS[0], "--vocab", CODES), "share"),
    ],
)
def test_a_wrong_segmenter_fails(importer: Importer, folder: Path, words: Words, said: str) -> None:
    assert said in importer.refusal(2, folder, words=(*LANGS, *words))
