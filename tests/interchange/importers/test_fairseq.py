"""Checkpoints of fairseq; test_toolkits.py says that they score and translate as there."""

import argparse
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import Nmt

HERE = Path(__file__).parent / "fairseq"
ALONE = ("--workers", "1", "--threads", "1")
LANGS = ("--src", "en", "--tgt", "de")
SEGMENTED = {
    "post": ("--vocab", HERE / "post" / "codes.bpe", "--moses-tokenize"),
    "pre": ("--vocab", HERE / "pre" / "spm.en.model", "--vocab", HERE / "pre" / "spm.de.model"),
}


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def equal(ours: str, theirs: list[str]) -> int:
    lines = ours.splitlines()
    assert len(lines) == len(theirs)
    return sum(map(str.__eq__, lines, theirs))


def test_lines_are_subwords_without_a_segmenter(nmt: Nmt, tmp_path: Path) -> None:
    out = tmp_path / "model.safetensors"
    done = nmt("import", "fairseq", HERE / "post", out, *LANGS).succeeded()
    assert "--vocab codes.bpe" in done.stderr
    done = nmt("translate", out, *ALONE, stdin=b"A@@ n@@ na xyz</s> .\n")
    subwords = {line.split()[0] for line in lines_of(HERE / "post" / "dict.de.txt")}
    assert done.succeeded().stdout.split()
    assert set(done.stdout.split()) <= subwords


def test_check_tells_how_many_lines_are_equal(nmt: Nmt, tmp_path: Path) -> None:
    folder = HERE / "post"
    source = tmp_path / "source"
    source.write_text("".join(f"{line}\n" for line in lines_of(folder / "source.txt")[:3]))
    outputs = lines_of(folder / "output.txt")[:3]
    output = tmp_path / "output"
    output.write_text(f"{outputs[0]}\nSie.\n{outputs[2]}\n")
    check = f"{source},{output}"
    words = ("import", "fairseq", folder, tmp_path / "m.safetensors", *LANGS, *SEGMENTED["post"])
    said = nmt(*words, "--check", check).succeeded().stdout.splitlines()
    assert said[0] == "2 of 3 lines equal"
    assert said[1:] == [
        f"line 2, source: {lines_of(source)[1]}",
        "line 2, output: Sie.",
        f"line 2, nmt: {outputs[1]}",
    ]
    output.write_text("Sie.\n")
    words = (*words[:3], tmp_path / "n.safetensors", *LANGS)
    assert "3 lines of source, but 1 of output" in nmt(*words, "--check", check).refusal(1)
    assert "two files" in nmt(*words, "--check", "one").refusal(2)
    assert not (tmp_path / "n.safetensors").exists()


Change = Callable[[dict[str, Any]], object]


def changed(tmp_path: Path, model: str, change: Change) -> Path:
    """A copy of a folder whose checkpoint was changed."""
    folder = tmp_path / model
    shutil.copytree(HERE / model, folder)
    path = folder / "checkpoint_last.pt"
    with torch.serialization.safe_globals([argparse.Namespace]):
        content = torch.load(path, weights_only=True)
    change(content)
    torch.save(content, path)
    return folder


def setting(name: str, value: object) -> Change:
    return lambda content: setattr(content["cfg"]["model"], name, value)


@pytest.mark.parametrize(
    ("change", "status", "said"),
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
        (lambda content: content["cfg"]["task"].update(_name="denoising"), 2, "denoising"),
        (
            lambda content: content["cfg"]["task"].update(source_lang="de", target_lang="en"),
            2,
            "translates de to en",
        ),
        (lambda content: content.pop("cfg"), 1, "no settings"),
        (lambda content: content.pop("model"), 1, "no model"),
        (lambda content: content["model"].pop("encoder.layers.0.fc1.weight"), 1, "lacks "),
        (
            lambda content: content["model"].update(
                {"encoder.layernorm_embedding.weight": torch.ones(64)}
            ),
            2,
            "layernorm_embedding",
        ),
        (lambda content: content.update(extra=Path("x")), 1, "more than tensors"),
        (
            lambda content: content["model"]["encoder.layers.1.fc1.weight"][3].fill_(math.nan),
            1,
            "encoder.1.feed_forward.inner.weight has numbers",
        ),
    ],
)
def test_what_our_transformer_is_not_is_refused(
    nmt: Nmt, tmp_path: Path, change: Change, status: int, said: str
) -> None:
    folder = changed(tmp_path, "post", change)
    out = tmp_path / "out.safetensors"
    words = ("import", "fairseq", folder, out, *LANGS, *SEGMENTED["post"])
    assert said in nmt(*words).refusal(status)
    assert not out.exists()


def test_settings_of_older_releases_are_a_namespace(nmt: Nmt, tmp_path: Path) -> None:
    def as_args(content: dict[str, Any]) -> None:
        cfg = content.pop("cfg")
        content["args"] = cfg["model"]

    folder, source = changed(tmp_path, "post", as_args), HERE / "post" / "source.txt"
    models = [tmp_path / "old.safetensors", tmp_path / "new.safetensors"]
    for path, out in zip((folder, HERE / "post"), models, strict=True):
        nmt("import", "fairseq", path, out, *LANGS, *SEGMENTED["post"]).succeeded()
    old, new = (
        nmt("translate", one, *ALONE, "--input", source).succeeded().stdout for one in models
    )
    assert old == new


def test_embeddings_that_are_not_scaled_are_ours_scaled_back(nmt: Nmt, tmp_path: Path) -> None:
    def unscale(content: dict[str, Any]) -> None:
        content["cfg"]["model"].no_scale_embedding = True
        for side in ("encoder", "decoder"):
            content["model"][f"{side}.embed_tokens.weight"] *= 8.0  # the root of d_model

    folder, out = changed(tmp_path, "pre", unscale), tmp_path / "model.safetensors"
    nmt("import", "fairseq", folder, out, *LANGS, *SEGMENTED["pre"]).succeeded()
    done = nmt("translate", out, *ALONE, "--input", HERE / "pre" / "source.txt", "--beam-size", "1")
    assert equal(done.succeeded().stdout, lines_of(HERE / "pre" / "output.txt")) >= 198


def test_what_is_missing_is_named(nmt: Nmt, tmp_path: Path) -> None:
    out = tmp_path / "out.safetensors"
    folder = tmp_path / "pre"
    shutil.copytree(HERE / "pre", folder)
    words = ("import", "fairseq", folder, out)
    assert "spm.model" in nmt(*words, *LANGS).refusal(2)
    dictionary = folder / "dict.de.txt"
    listed = dictionary.read_text(encoding="utf-8")
    dictionary.write_text(listed.partition("\n")[2], encoding="utf-8")
    assert "dict.de.txt: has 287 pieces" in nmt(*words, *SEGMENTED["pre"], *LANGS).refusal(1)
    dictionary.unlink()
    assert "dict.de.txt: no such file" in nmt(*words, *LANGS).refusal(1)
    (folder / "checkpoint_last.pt").rename(folder / "a.pt")
    shutil.copy(folder / "a.pt", folder / "b.pt")
    assert "has a.pt, b.pt; name the checkpoint" in nmt(*words, *LANGS).refusal(1)
    alone = (*LANGS, *SEGMENTED["post"][:2], "--moses-escape")
    assert "--moses-tokenize" in nmt("import", "fairseq", HERE / "post", out, *alone).refusal(2)
    codes = (
        *LANGS,
        "--vocab",
        HERE / "pre" / "spm.en.model",
        "--vocab",
        HERE / "post" / "codes.bpe",
    )
    assert "share" in nmt("import", "fairseq", HERE / "post", out, *codes).refusal(2)
