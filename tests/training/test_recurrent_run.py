"""The recurrent model through training and translation, by the toy language."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from mishaps import signal_after
from toy_training import (
    FP32,
    TINY,
    assert_same_run,
    metrics,
)

import nmt
from nmt.config import resolve_recipe
from nmt.errors import Stopped
from nmt.models.presets import preset_values
from nmt.training.launch import launch
from nmt.values import Value

OWN: dict[str, Value] = {"d_hidden": 32, "micro_batch_tokens": 400, "max_updates": 16}
ONLY_TRANSFORMERS = ("d_ff", "num_heads")
BF16: dict[str, Value] = {"precision": "bf16"}
LINE, TRANSLATION = "one two three four", "vier drei zwei eins"


def train(data: Path, out: Path, **values: Value) -> Path:
    """Train in this process by the toy's recipe; return the run folder."""
    tiny = {key: value for key, value in TINY.items() if key not in ONLY_TRANSFORMERS}
    layers = [("preset", preset_values("rnn_attention_small")), ("tiny", tiny | OWN)]
    recipe = resolve_recipe("rnn_attention_small", "rnn_attention", [*layers, ("test", values)])
    launch(recipe, data, out, None)
    return out


@pytest.mark.parametrize("values", [FP32, BF16], ids=["fp32", "bf16"])
def test_a_stopped_run_goes_on_bit_for_bit(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, values: dict[str, Value]
) -> None:
    expected, run = train(data, tmp_path / "undisturbed", **values), tmp_path / "run"
    for update in (4, 14):
        with monkeypatch.context() as patch, pytest.raises(Stopped):
            signal_after(patch, update, signal.SIGTERM)
            train(data, run, **values)
    train(data, run, **values)
    assert_same_run(run, expected)


@pytest.fixture(scope="module")
def learnt(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    values: dict[str, Value] = {"d_model": 64, "d_hidden": 64, "num_encoder_layers": 1}
    values |= {"learning_rate": 1e-2, "dropout": 0.1}
    values |= {"max_updates": 250, "save_every": 50, "validate_every": 125, "keep_last": 2}
    return train(data, tmp_path_factory.mktemp("recurrent") / "run", **values)


def test_a_language_is_learnt(learnt: Path) -> None:
    assert metrics(learnt, "valid")[-1]["nll"] < 0.15  # by chance it would be log 10 = 2.3


@pytest.mark.parametrize(
    ("beam_size", "precision"), [(4, "fp32"), (1, "fp32"), (4, "int8")], ids=str
)
def test_it_translates(learnt: Path, beam_size: int, precision: str) -> None:
    options = nmt.SearchOptions(beam_size=beam_size)
    translator = nmt.Translator.load(learnt, options, precision=precision)
    assert [found.text for found in translator.translate([LINE])] == [TRANSLATION]


def test_two_of_its_checkpoints_translate_together(learnt: Path) -> None:
    checkpoints = sorted(learnt.glob("checkpoints/update-*.safetensors"))
    assert len(checkpoints) == 2
    translator = nmt.Translator.load(checkpoints)
    assert [found.text for found in translator.translate([LINE])] == [TRANSLATION]


def test_its_attention_aligns_words(learnt: Path) -> None:
    (found,) = nmt.Translator.load(learnt, alignment=True).translate([LINE])
    assert found.alignment is not None
    assert found.alignment.words == ((0, 3), (1, 2), (2, 1), (3, 0))
