"""Folders of Eole; test_toolkits.py says that they score and translate as there."""

from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import Nmt, write
from foreign_folders import (
    BY_CODES,
    FOLDERS,
    LANGS,
    SEGMENTERS,
    Importer,
    Spoil,
    config_of,
    copied,
    edited,
    put,
    without,
)

SHARED, APART = FOLDERS / "eole" / "shared", FOLDERS / "eole" / "apart"
FACTOR = "decoder.transformer_layers.1.layer_scalar"


def setting(part: str, name: str, value: object) -> Spoil:
    """A change of a part of the model."""
    return put("config.json", value, "model", part, name)


def test_endless_lines_are_compared_as_far_as_written(importer: Importer, tmp_path: Path) -> None:
    names = ("source.txt", "output.txt")
    pairs = zip(*((SHARED / name).read_text().splitlines() for name in names), strict=True)
    longest = sorted(pairs, key=lambda pair: len(pair[1]))[-3:]
    assert all(len(output) > 2 * len(source) for source, output in longest)
    columns = zip(names, zip(*longest, strict=True), strict=True)
    source, output = (write(tmp_path / name, lines) for name, lines in columns)
    done = importer.answer(SHARED, words=(*LANGS, *BY_CODES, "--check", f"{source},{output}"))
    assert done.stdout == "3 of 3 lines equal\n"


@pytest.mark.parametrize(
    ("spoil", "status", "said"),
    [
        (setting("embeddings", "position_encoding_type", "Learned"), 2, "position_encoding_type"),
        (setting("encoder", "encoder_layer_style", "postnorm"), 2, "encoder_layer_style"),
        (setting("decoder", "layer_norm", "gemma-rms"), 2, "layer_norm"),
        (setting("decoder", "heads_kv", 2), 2, "heads_kv"),
        (setting("decoder", "decoder_type", "rnn"), 2, "decoder_type"),
        (setting("decoder", "parallel_residual", True), 2, "parallel_residual"),
        (setting("decoder", "mlp_activation_fn", "gelu"), 2, "mlp_activation_fn"),
        (setting("embeddings", "tgt_word_vec_size", 96), 2, "tgt_word_vec_size"),
        (put("config.json", None, "model", "encoder"), 1, "no encoder and decoder"),
        (setting("encoder", "share_decoder_embeddings", False), 1, "generator.weight"),
        (put("model.00.safetensors", torch.tensor([0.5]), FACTOR), 2, "layer_scalar"),
        (without("vocab.json"), 1, "vocab.json"),
    ],
)
def test_other_models_are_refused(importer: Importer, spoil: Spoil, status: int, said: str) -> None:
    assert said in importer.refusal(status, SHARED, spoil)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (setting("encoder", "rope_config", {"rotary_theta": 500}), "rotary_theta"),
        # The sides turn other pairs.
        (setting("decoder", "rope_config", {"rotary_interleave": True}), "rotary_interleave"),
        # The end has two ids.
        (edited("vocab.json", lambda vocab: vocab["tgt"].reverse()), "</s>"),
    ],
)
def test_sides_that_contradict_are_refused(importer: Importer, spoil: Spoil, said: str) -> None:
    assert said in importer.refusal(2, APART, spoil)


def test_a_segmenter_that_the_configuration_names_must_be_there(importer: Importer) -> None:
    assert str(APART / "spm.en.model") in importer.refusal(1, APART)


def test_a_folder_that_was_not_imported_is_told_from_one_of_hugging_face(nmt: Nmt) -> None:
    assert "nmt import eole" in nmt("translate", SHARED, stdin=b"A man .\n").refusal(2)


def test_special_tokens_have_the_names_of_the_vocabulary(importer: Importer) -> None:
    def rename(vocab: dict[str, Any]) -> None:
        for side in ("src", "tgt"):
            vocab[side][vocab[side].index("</s>")] = "<end>"
        vocab["specials"]["eos_token"] = "<end>"

    importer.model(SHARED, edited("vocab.json", rename))


def test_the_folder_segments_text_itself(nmt: Nmt, importer: Importer) -> None:
    out = importer.model(APART, *map(copied, SEGMENTERS))
    source, output = ((APART / f"{name}.txt").read_text() for name in ("source", "output"))
    line, expected = source.splitlines()[0], output.splitlines()[0]
    words = ("translate", out, "--beam-size", "1", "--threads", "1", "--no-guard")
    assert nmt(*words, stdin=f"{line}\n".encode()).succeeded().stdout == f"{expected}\n"
    config = config_of(out)
    assert (config.positions, config.norm, config.feed_forward) == ("rotary", "rms", "swiglu")


def test_a_step_that_nmt_leaves_out_is_named(importer: Importer) -> None:
    steps = put("config.json", ["docify", "clean"], "data", "corpus", "transforms")
    answer = importer.answer(SHARED, steps)
    assert "docify" in answer.stderr
    assert "clean" not in answer.stderr
