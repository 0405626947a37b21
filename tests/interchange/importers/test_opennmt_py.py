"""Checkpoints of OpenNMT-py; test_toolkits.py says that they score and translate as there."""

import argparse
import shutil
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import Nmt
from safetensors.torch import save_file

from nmt.config.model_config import TransformerConfig
from nmt.models.model_file import load_model, read_card

SHARED = Path(__file__).parent / "opennmt_py" / "shared"
LANGS = ("--src", "en", "--tgt", "de")
NAME = "model_step_1200.pt"
Content = dict[str, Any]


def changed(tmp_path: Path, change: Callable[[Content], object]) -> Path:
    """A copy of the folder whose checkpoint was changed."""
    folder = tmp_path / "changed"
    shutil.copytree(SHARED, folder)
    with torch.serialization.safe_globals([argparse.Namespace]):
        content = torch.load(folder / NAME, weights_only=True)
    change(content)
    torch.save(content, folder / NAME)
    return folder


def setting(name: str, value: object) -> Callable[[Content], object]:
    return lambda content: setattr(content["opt"], name, value)


@pytest.mark.parametrize(
    ("change", "status", "said"),
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
        (lambda content: content["vocab"]["tgt"].remove("</s>"), 2, "</s>"),
        (lambda content: content["vocab"]["src"].pop(), 1, "has 455 pieces"),
        (lambda content: content.pop("vocab"), 1, "no model of OpenNMT-py 3"),
        (lambda content: content.pop("model"), 1, "no weights"),
        (lambda content: content["model"].popitem(), 1, "lacks "),
    ],
)
def test_what_our_transformer_is_not_is_refused(
    nmt: Nmt, tmp_path: Path, change: Callable[[Content], object], status: int, said: str
) -> None:
    out = tmp_path / "out.safetensors"
    folder = changed(tmp_path, change)
    assert said in nmt("import", "opennmt-py", folder, out, *LANGS).refusal(status)
    assert not out.exists()


@pytest.mark.parametrize(
    ("form", "positions"),
    [("SinusoidalInterleaved", "sinusoidal"), ("SinusoidalConcat", "sinusoidal_halves")],
)
def test_sinusoids_are_ours(nmt: Nmt, tmp_path: Path, form: str, positions: str) -> None:
    out = tmp_path / "out.safetensors"
    folder = changed(tmp_path, setting("position_encoding_type", form))
    nmt("import", "opennmt-py", folder, out, *LANGS).succeeded()
    config = read_card(out).config
    assert isinstance(config, TransformerConfig)
    assert config.positions == positions


def test_objects_of_version_2_are_refused(
    nmt: Nmt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = types.ModuleType("torchtext")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    module.Vocab = type("Vocab", (), {"__module__": module.__name__})  # type: ignore[attr-defined]
    checkpoint = tmp_path / "model_step_1.pt"
    torch.save({"vocab": module.Vocab()}, checkpoint)
    words = ("import", "opennmt-py", checkpoint, tmp_path / "out.safetensors", *LANGS)
    assert "version 2" in nmt(*words).refusal(2)


def test_a_step_that_nmt_leaves_out_is_named(nmt: Nmt, tmp_path: Path) -> None:
    folder = changed(tmp_path, setting("transforms", ["prefix", "bpe", "filtertoolong"]))
    answer = nmt("import", "opennmt-py", folder, tmp_path / "out.safetensors", *LANGS).succeeded()
    assert "prefix, bpe," in answer.stderr


def test_languages_must_be_named(nmt: Nmt, tmp_path: Path) -> None:
    out = tmp_path / "out.safetensors"
    assert "--src and --tgt" in nmt("import", "opennmt-py", SHARED, out).refusal(2)


def test_weights_may_be_in_a_file_beside(nmt: Nmt, tmp_path: Path) -> None:
    def move(content: Content) -> None:
        generator = {f"generator.{name}": one for name, one in content.pop("generator").items()}
        weights = {name: one.clone() for name, one in (content.pop("model") | generator).items()}
        save_file(weights, tmp_path / "weights")

    folder = changed(tmp_path, move)
    beside = (tmp_path / "weights").rename(folder / NAME.replace(".pt", ".00.safetensors"))
    (folder / NAME.replace(".pt", "0.safetensors")).write_bytes(b"of another step")
    models = tmp_path / "apart.safetensors", tmp_path / "together.safetensors"
    for source, out in zip((folder, SHARED), models, strict=True):
        nmt("import", "opennmt-py", source, out, *LANGS).succeeded()
    apart, together = (dict(load_model(path)[0].named_parameters()) for path in models)
    assert apart.keys() == together.keys()
    assert all(torch.equal(apart[name], together[name]) for name in apart)
    other = shutil.copy(beside, folder / NAME.replace(".pt", ".01.safetensors"))
    words = ("import", "opennmt-py", folder, tmp_path / "twice.safetensors", *LANGS)
    assert str(other) in nmt(*words).refusal(1)


def test_the_newest_checkpoint_of_a_folder_is_read(nmt: Nmt, tmp_path: Path) -> None:
    folder, out = tmp_path / "run", tmp_path / "out.safetensors"
    folder.mkdir()
    (folder / "model_step_900.pt").write_bytes(b"damaged")
    shutil.copy(SHARED / NAME, folder)
    done = nmt("import", "opennmt-py", folder, out, *LANGS).succeeded()
    assert f"{folder / NAME}, en to de" in done.stderr
    config = read_card(out).config
    assert isinstance(config, TransformerConfig)
    assert not config.source_end
    words = ("import", "opennmt-py", folder, tmp_path / "other.safetensors", *LANGS)
    shutil.copy(SHARED / NAME, folder / "another_step_1.pt")
    assert "another and model" in nmt(*words).refusal(1)
    (folder / "another_step_1.pt").unlink()
    (folder / NAME).rename(folder / "model.pt")
    (folder / "model_step_900.pt").unlink()
    assert "name the file" in nmt(*words).refusal(1)


def test_an_export_knows_that_sources_have_no_end(nmt: Nmt, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2", reason="needs the extra ctranslate2")
    model, export = tmp_path / "model.safetensors", tmp_path / "export"
    nmt("import", "opennmt-py", SHARED, model, *LANGS).succeeded()
    nmt("export", "ctranslate2", model, export).succeeded()
    source = tmp_path / "subwords"
    source.write_text("A@@ n@@ na hel@@ ps the old man .\nThe lamp is too heavy .\n" * 3)
    words = ("--input", source, "--workers", "1", "--threads", "1", "--no-guard")
    ours, theirs = (nmt("translate", one, *words).succeeded().stdout for one in (model, export))
    assert ours == theirs
