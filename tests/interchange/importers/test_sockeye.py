"""Models of Sockeye; test_toolkits.py says that they score and translate as there."""

from pathlib import Path

import foreign_folders
import pytest
import torch

POST = foreign_folders.FOLDERS / "sockeye" / "post"
PARAMS, TARGETS = "params.best", "vocab.trg.0.json"
KEYS_AND_VALUES = "decoder.layers.1.enc_attention.ff_kv.weight"


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
def test_other_models_are_refused(
    importer: foreign_folders.Importer, line: str, new: str, said: str
) -> None:
    old = f"{line}\n".encode()
    assert old in (POST / "config").read_bytes()
    spoil = foreign_folders.changed("config", lambda text: text.replace(old, f"{new}\n".encode()))
    assert said in importer.refusal(2, POST, spoil)


def swap_ends(ids: dict[str, int]) -> None:
    ids["<s>"], ids["</s>"] = ids["</s>"], ids["<s>"]


@pytest.mark.parametrize(
    ("spoil", "status", "said"),
    [
        (foreign_folders.replaced("config", b"!ModelConfig {}"), 1, "no settings of Sockeye 3"),
        (foreign_folders.replaced("config", b"!!python/object/apply:len [[]]"), 1, "not YAML"),
        (foreign_folders.replaced("config", b"a: &a [1]\nb: {<<: *a}"), 1, "not YAML"),
        (foreign_folders.replaced("config", b"- 1"), 1, "not YAML"),
        (foreign_folders.taken(PARAMS, "encoder.layers.0.ff.ff1.weight"), 1, "lacks "),
        (
            foreign_folders.put(PARAMS, torch.ones(64, 64), KEYS_AND_VALUES),
            1,
            "no matrix for 4 heads",
        ),
        (foreign_folders.put(PARAMS, torch.ones(2), "length_ratio.x"), 2, "length_ratio"),
        (foreign_folders.taken(PARAMS, "output_layer.bias"), 1, "no model of Sockeye 3"),
        (foreign_folders.put(PARAMS, Path("x"), "x"), 1, "more than tensors"),
        (foreign_folders.put(PARAMS, torch.ones(()), "x"), 2, "model.x"),
        (foreign_folders.edited(TARGETS, swap_ends), 1, "does not begin with <pad>"),
        *((foreign_folders.without(name), 1, f"{name}: ") for name in (TARGETS, PARAMS, "config")),
    ],
)
def test_a_damaged_or_other_file_is_refused(
    importer: foreign_folders.Importer, spoil: foreign_folders.Spoil, status: int, said: str
) -> None:
    assert said in importer.refusal(status, POST, spoil)


def test_languages_must_be_named(importer: foreign_folders.Importer) -> None:
    assert "--src and --tgt" in importer.refusal(2, POST, words=())
