"""Checkpoints of OpenNMT-py; test_toolkits.py says that they score and translate as there."""

import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import Nmt, write
from foreign_folders import (
    FOLDERS,
    LANGS,
    Importer,
    Spoil,
    config_of,
    copied,
    edited,
    put,
    renamed,
    replaced,
    taken,
)
from safetensors.torch import save_file

from nmt.models.model_file import load_model

SHARED = FOLDERS / "opennmt_py" / "shared"
NAME = "model_step_1200.pt"


def setting(name: str, value: object) -> Spoil:
    return put(NAME, value, "opt", name)


@pytest.mark.parametrize(
    ("spoil", "status", "said"),
    [
        (setting("self_attn_type", "average"), 2, "self_attn_type"),
        (setting("position_encoding_type", "Learned"), 2, "position_encoding_type"),
        (setting("max_relative_positions", 4), 2, "max_relative_positions"),
        (setting("rotary_theta", 500), 2, "rotary_theta"),
        (setting("position_encoding", False), 2, "position_encoding"),
        (setting("max_relative_positions", -2), 2, "max_relative_positions"),
        (setting("layer_norm", "gemma-rms"), 2, "layer_norm"),
        (setting("copy_attn", True), 2, "copy_attn"),
        (setting("decoder_type", "rnn"), 2, "decoder_type"),
        (setting("dec_hid_size", 128), 2, "dec_hid_size"),
        (setting("pos_ffn_activation_fn", "gated-gelu"), 2, "gated-gelu"),
        # It is SwiGLU there, for which this model lacks a factor.
        (setting("pos_ffn_activation_fn", "silu"), 1, "feed_forward.inner"),
        (edited(NAME, lambda content: content["vocab"]["tgt"].remove("</s>")), 2, "</s>"),
        (edited(NAME, lambda content: content["vocab"]["src"].pop()), 1, "has 455 pieces"),
        (taken(NAME, "vocab"), 1, "no model of OpenNMT-py 3"),
        (taken(NAME, "model"), 1, "no weights"),
        (edited(NAME, lambda content: content["model"].popitem()), 1, "lacks "),
    ],
)
def test_other_models_are_refused(importer: Importer, spoil: Spoil, status: int, said: str) -> None:
    assert said in importer.refusal(status, SHARED, spoil)


@pytest.mark.parametrize(
    ("form", "positions"),
    [("SinusoidalInterleaved", "sinusoidal"), ("SinusoidalConcat", "sinusoidal_halves")],
)
def test_sinusoids_are_ours(importer: Importer, form: str, positions: str) -> None:
    model = importer.model(SHARED, setting("position_encoding_type", form))
    assert config_of(model).positions == positions


def test_version_2_is_refused(nmt: Nmt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("torchtext")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    module.Vocab = type("Vocab", (), {"__module__": module.__name__})  # type: ignore[attr-defined]
    checkpoint = tmp_path / "model_step_1.pt"
    torch.save({"vocab": module.Vocab()}, checkpoint)
    words = ("import", "opennmt-py", checkpoint, tmp_path / "out.safetensors", *LANGS)
    assert "version 2" in nmt(*words).refusal(2)


def test_a_step_that_nmt_leaves_out_is_named(importer: Importer) -> None:
    steps = ["prefix", "bpe", "filtertoolong"]
    assert "prefix, bpe," in importer.answer(SHARED, setting("transforms", steps)).stderr


def test_languages_must_be_named(importer: Importer) -> None:
    assert "--src and --tgt" in importer.refusal(2, SHARED, words=())


def test_weights_may_be_in_a_file_beside(importer: Importer, tmp_path: Path) -> None:
    def move(content: dict[str, Any]) -> None:
        generator = {f"generator.{name}": one for name, one in content.pop("generator").items()}
        weights = {name: one.clone() for name, one in (content.pop("model") | generator).items()}
        save_file(weights, tmp_path / "weights")

    second = NAME.replace(".pt", ".01.safetensors")
    beside = [edited(NAME, move), copied(tmp_path / "weights", second.replace("01", "00"))]
    of_another_step = replaced(NAME.replace(".pt", "0.safetensors"), b"damaged")
    models = importer.model(SHARED, *beside, of_another_step), importer.model(SHARED)
    apart, together = (dict(load_model(path)[0].named_parameters()) for path in models)
    assert apart.keys() == together.keys()
    assert all(torch.equal(apart[name], together[name]) for name in apart)
    twice = [*beside, copied(tmp_path / "weights", second)]
    assert f"{second}: " in importer.refusal(1, SHARED, *twice)


def test_the_newest_checkpoint_of_a_folder_is_read(nmt: Nmt, importer: Importer) -> None:
    older = replaced("model_step_900.pt", b"damaged")
    folder = importer.copy(SHARED, older)
    out = folder / "out.safetensors"
    done = nmt("import", "opennmt-py", folder, out, *LANGS).succeeded()
    assert f"{folder / NAME}, en to de" in done.stderr
    assert not config_of(out).source_end
    other = replaced("another_step_1.pt", b"")
    assert "another and model" in importer.refusal(1, SHARED, older, other)
    assert "name the file" in importer.refusal(1, SHARED, renamed(NAME, "model.pt"))


def test_an_export_knows_sources_without_end(nmt: Nmt, importer: Importer, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2", reason="needs the extra ctranslate2")
    model, export = importer.model(SHARED), tmp_path / "export"
    nmt("export", "ctranslate2", model, export).succeeded()
    lines = ["A@@ n@@ na hel@@ ps the old man .", "The lamp is too heavy ."] * 3
    source = write(tmp_path / "subwords", lines)
    words = ("--input", source, "--workers", "1", "--threads", "1", "--no-guard")
    ours, theirs = (nmt("translate", one, *words).succeeded().stdout for one in (model, export))
    assert ours == theirs
