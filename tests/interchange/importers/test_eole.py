"""Folders of Eole; test_toolkits.py says that they score and translate as there."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import Nmt
from safetensors.torch import load_file, save_file

from nmt.config.model_config import TransformerConfig
from nmt.models.model_file import read_card

HERE = Path(__file__).parent
SHARED, APART = HERE / "eole" / "shared", HERE / "eole" / "apart"
LANGS = ("--src", "en", "--tgt", "de")
CODES = ("--vocab", HERE / "fairseq" / "post" / "codes.bpe", "--moses-tokenize")
Values = dict[str, Any]


def changed(
    tmp_path: Path, folder: Path, change: Callable[[Values], object], name: str = "config.json"
) -> Path:
    """A copy of a folder of which one file was changed."""
    copy = shutil.copytree(folder, tmp_path / "changed")
    values = json.loads((copy / name).read_text())
    change(values)
    (copy / name).write_text(json.dumps(values))
    return copy


def setting(part: str, name: str, value: object) -> Callable[[Values], object]:
    """A change of a part of the model."""
    return lambda config: config["model"][part].__setitem__(name, value)


def test_lines_that_never_end_are_compared_as_far_as_others_write_them(
    nmt: Nmt, tmp_path: Path
) -> None:
    names = ("source.txt", "output.txt")
    pairs = zip(*((SHARED / name).read_text().splitlines() for name in names), strict=True)
    longest = sorted(pairs, key=lambda pair: len(pair[1]))[-3:]
    assert all(len(output) > 2 * len(source) for source, output in longest)
    files = [tmp_path / name for name in names]
    for file, lines in zip(files, zip(*longest, strict=True), strict=True):
        file.write_text("".join(f"{line}\n" for line in lines))
    words = ("import", "eole", SHARED, tmp_path / "out.safetensors", *LANGS, *CODES)
    done = nmt(*words, "--check", f"{files[0]},{files[1]}")
    assert done.succeeded().stdout == "3 of 3 lines equal\n"


@pytest.mark.parametrize(
    ("change", "status", "said"),
    [
        (setting("embeddings", "position_encoding_type", "Learned"), 2, "position_encoding_type"),
        (setting("encoder", "encoder_layer_style", "postnorm"), 2, "encoder_layer_style"),
        (setting("decoder", "layer_norm", "gemma-rms"), 2, "layer_norm"),
        (setting("decoder", "heads_kv", 2), 2, "heads_kv"),
        (setting("decoder", "decoder_type", "rnn"), 2, "decoder_type"),
        (setting("decoder", "parallel_residual", True), 2, "parallel_residual"),
        (setting("decoder", "mlp_activation_fn", "gelu"), 2, "mlp_activation_fn"),
        (setting("embeddings", "tgt_word_vec_size", 96), 2, "tgt_word_vec_size"),
        (lambda config: config["model"].update(encoder=None), 1, "no encoder and decoder"),
        (setting("encoder", "share_decoder_embeddings", False), 1, "generator.weight"),
    ],
)
def test_what_our_transformer_is_not_is_refused(
    nmt: Nmt, tmp_path: Path, change: Callable[[Values], object], status: int, said: str
) -> None:
    out = tmp_path / "out.safetensors"
    folder = changed(tmp_path, SHARED, change)
    assert said in nmt("import", "eole", folder, out, *LANGS).refusal(status)
    assert not out.exists()


def test_rotations_of_another_base_are_refused(nmt: Nmt, tmp_path: Path) -> None:
    change = setting("encoder", "rope_config", {"rotary_theta": 500})
    words = ("import", "eole", changed(tmp_path, APART, change), tmp_path / "out", *LANGS)
    assert "rotary_theta" in nmt(*words).refusal(2)


def test_sides_that_turn_other_pairs_are_refused(nmt: Nmt, tmp_path: Path) -> None:
    change = setting("decoder", "rope_config", {"rotary_interleave": True})
    words = ("import", "eole", changed(tmp_path, APART, change), tmp_path / "out", *LANGS)
    assert "rotary_interleave" in nmt(*words).refusal(2)


def test_an_end_of_two_ids_is_refused(nmt: Nmt, tmp_path: Path) -> None:
    folder = changed(tmp_path, APART, lambda vocab: vocab["tgt"].reverse(), "vocab.json")
    words = ("import", "eole", folder, tmp_path / "out.safetensors", *LANGS)
    assert "</s>" in nmt(*words).refusal(2)


def test_a_missing_file_is_named(nmt: Nmt, tmp_path: Path) -> None:
    folder = shutil.copytree(SHARED, tmp_path / "copy")
    (folder / "vocab.json").unlink()
    words = ("import", "eole", folder, tmp_path / "out.safetensors", *LANGS)
    assert "vocab.json" in nmt(*words).refusal(1)
    # The configuration names it.
    assert str(APART / "spm.en.model") in nmt(*words[:2], APART, *words[3:]).refusal(1)


def test_a_folder_that_was_not_imported_is_told_from_one_of_hugging_face(nmt: Nmt) -> None:
    assert "nmt import eole" in nmt("translate", SHARED, stdin=b"A man .\n").refusal(2)


def test_special_tokens_have_the_names_of_the_vocabulary(nmt: Nmt, tmp_path: Path) -> None:
    def rename(vocab: Values) -> None:
        for side in ("src", "tgt"):
            vocab[side][vocab[side].index("</s>")] = "<end>"
        vocab["specials"]["eos_token"] = "<end>"

    folder = changed(tmp_path, SHARED, rename, "vocab.json")
    nmt("import", "eole", folder, tmp_path / "out.safetensors", *LANGS).succeeded()


def test_a_factor_of_a_layer_is_refused(nmt: Nmt, tmp_path: Path) -> None:
    folder = shutil.copytree(SHARED, tmp_path / "copy")
    weights = load_file(folder / "model.00.safetensors")
    weights["decoder.transformer_layers.1.layer_scalar"] = torch.tensor([0.5])
    save_file(weights, folder / "model.00.safetensors")
    words = ("import", "eole", folder, tmp_path / "out.safetensors", *LANGS)
    assert "layer_scalar" in nmt(*words).refusal(2)


def test_the_folder_segments_text_itself(nmt: Nmt, tmp_path: Path) -> None:
    folder, out = shutil.copytree(APART, tmp_path / "copy"), tmp_path / "out.safetensors"
    for lang in ("en", "de"):
        shutil.copy(HERE / "fairseq" / "pre" / f"spm.{lang}.model", folder)
    nmt("import", "eole", folder, out, *LANGS).succeeded()
    source, output = ((APART / f"{name}.txt").read_text() for name in ("source", "output"))
    line, expected = source.splitlines()[0], output.splitlines()[0]
    words = ("translate", out, "--beam-size", "1", "--threads", "1", "--no-guard")
    assert nmt(*words, stdin=f"{line}\n".encode()).succeeded().stdout == f"{expected}\n"
    config = read_card(out).config
    assert isinstance(config, TransformerConfig)
    assert (config.positions, config.norm, config.feed_forward) == ("rotary", "rms", "swiglu")


def test_a_step_that_nmt_leaves_out_is_named(nmt: Nmt, tmp_path: Path) -> None:
    def add(config: Values) -> None:
        config["data"]["corpus"]["transforms"] = ["docify", "clean"]

    folder = changed(tmp_path, SHARED, add)
    answer = nmt("import", "eole", folder, tmp_path / "out.safetensors", *LANGS).succeeded()
    assert "docify" in answer.stderr
    assert "clean" not in answer.stderr
