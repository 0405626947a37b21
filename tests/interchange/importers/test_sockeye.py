"""Models of Sockeye; test_toolkits.py says that they score and translate as there."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import Nmt

HERE = Path(__file__).parent / "sockeye"
LANGS = ("--src", "en", "--tgt", "de")
Tensors = dict[str, torch.Tensor]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of a model, to be changed."""
    return Path(shutil.copytree(HERE / "post", tmp_path / "model"))


@pytest.mark.parametrize(
    ("line", "new", "said"),
    [
        ("use_glu: false", "use_glu: true", "use_glu"),
        ("lhuc: false", "lhuc: true", "lhuc"),
        ("decoder_type: transformer", "decoder_type: ssru_transformer", "ssru_transformer"),
        ("positional_embedding_type: fixed", "positional_embedding_type: learned", "learned"),
        ("postprocess_sequence: drn", "postprocess_sequence: nr", "preprocess_sequence"),
        ("act_type: relu", "act_type: tanh", "tanh"),
        ("dtype: float32", "dtype: int8", "int8"),
        ("config_length_task: null", "config_length_task: {weight: 1}", "config_length_task"),
        ("factor_configs: null", "factor_configs: [1, 2]", "factor_configs"),
        (
            "config_decoder: !TransformerConfig\n  act_type: relu",
            "config_decoder: !TransformerConfig\n  act_type: gelu",
            "differ in act_type",
        ),
    ],
)
def test_what_our_transformer_is_not_is_refused(
    nmt: Nmt, folder: Path, tmp_path: Path, line: str, new: str, said: str
) -> None:
    config = (folder / "config").read_text()
    assert f"{line}\n" in config
    (folder / "config").write_text(config.replace(f"{line}\n", f"{new}\n"))
    out = tmp_path / "out.safetensors"
    assert said in nmt("import", "sockeye", folder, out, *LANGS).refusal(2)
    assert not out.exists()


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("!ModelConfig {}", "no settings of Sockeye 3"),
        ("!!python/object/apply:len [[]]", "not YAML"),
        ("a: &a [1]\nb: {<<: *a}", "not YAML"),
        ("- 1", "not YAML"),
    ],
)
def test_a_damaged_configuration_is_refused(
    nmt: Nmt, folder: Path, tmp_path: Path, config: str, said: str
) -> None:
    (folder / "config").write_text(config)
    words = ("import", "sockeye", folder, tmp_path / "out.safetensors", *LANGS)
    assert said in nmt(*words).refusal(1)


@pytest.mark.parametrize(
    ("change", "status", "said"),
    [
        (lambda tensors: tensors.pop("encoder.layers.0.ff.ff1.weight"), 1, "lacks "),
        (
            lambda tensors: tensors["decoder.layers.1.enc_attention.ff_kv.weight"].resize_(64, 64),
            1,
            "no matrix for 4 heads",
        ),
        (lambda tensors: tensors.update({"length_ratio.x": torch.ones(2)}), 2, "length_ratio"),
        (lambda tensors: tensors.pop("output_layer.bias"), 1, "no model of Sockeye 3"),
        (lambda tensors: tensors.update(x=Path("x")), 1, "more than tensors"),
        (lambda tensors: tensors.update(x=torch.ones(())), 2, "model.x"),
    ],
)
def test_other_parameters_are_refused(
    nmt: Nmt,
    folder: Path,
    tmp_path: Path,
    change: Callable[[dict[str, Any]], object],
    status: int,
    said: str,
) -> None:
    tensors = torch.load(folder / "params.best", weights_only=True)
    change(tensors)
    torch.save(tensors, folder / "params.best")
    words = ("import", "sockeye", folder, tmp_path / "out.safetensors", *LANGS)
    assert said in nmt(*words).refusal(status)


def test_what_is_missing_is_named(nmt: Nmt, folder: Path, tmp_path: Path) -> None:
    words = ("import", "sockeye", folder, tmp_path / "out.safetensors")
    assert "--src and --tgt" in nmt(*words).refusal(2)
    vocabulary = json.loads((folder / "vocab.trg.0.json").read_text())
    vocabulary["<s>"], vocabulary["</s>"] = vocabulary["</s>"], vocabulary["<s>"]
    (folder / "vocab.trg.0.json").write_text(json.dumps(vocabulary))
    assert "does not begin with <pad>" in nmt(*words, *LANGS).refusal(1)
    for name in ("vocab.trg.0.json", "params.best", "config"):
        (folder / name).unlink()
        assert f"{name}: " in nmt(*words, *LANGS).refusal(1)
