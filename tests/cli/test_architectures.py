"""Presets that are no Transformer go through all commands as it does."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from toy_training import TINY, metrics, prepare_toy

from nmt.values import Value

Nmt = Callable[..., Any]

TRAINING = {key: value for key, value in TINY.items() if key not in ("d_ff", "num_heads")} | {
    "num_encoder_layers": 2,
    "num_decoder_layers": 2,
    "max_updates": 90,
    "validate_every": 30,
    "save_every": 30,
}
SMALL: dict[str, dict[str, Value]] = {
    "conv_seq2seq_small": {"d_model": 64, "d_hidden": 64, "learning_rate": 1e-2, "dropout": 0.1},
}
"""By preset, what makes it learn the toy language in some seconds."""


@pytest.mark.parametrize("preset", SMALL)
def test_a_preset_is_trained_averaged_and_translated_with(
    nmt: Nmt, tmp_path: Path, preset: str
) -> None:
    data, run, model = prepare_toy(tmp_path), tmp_path / "run", tmp_path / "average.safetensors"
    settings = [f"--set={key}={value}" for key, value in (TRAINING | SMALL[preset]).items()]
    assert nmt("train", data, "--out", run, "--model", preset, "--quiet", *settings).status == 0
    first, *_, last = (record["loss"] for record in metrics(run, "valid"))
    assert last < 0.7 * first
    assert nmt("average", run, "--last", "2", "--out", model, "--quiet").status == 0
    source, reference = (tmp_path / f"valid.{lang}" for lang in ("en", "de"))

    def translate(*options: str | Path) -> list[str]:
        answer = nmt("translate", model, "--input", source, "--quiet", *options)
        assert answer.status == 0
        # Where int8 does not pay, it says so.
        assert not answer.stderr or "int8" in options
        lines: list[str] = answer.stdout.splitlines()
        assert len(lines) == 20
        return lines

    beam = translate()
    assert translate("--batch-tokens", "1") == beam
    pairs = [line.split(" ||| ") for line in translate("--alignment")]
    assert [text for text, _ in pairs] == beam
    assert all(alignment for _, alignment in pairs)
    for options in (["--beam-size", "1"], ["--precision", "int8"], ["--ensemble", run]):
        hypothesis = tmp_path / "hypothesis"
        hypothesis.write_text("".join(f"{line}\n" for line in translate(*options)))
        answer = nmt("score", reference, hypothesis, "--metric", "chrf", "--json")
        assert json.loads(answer.stdout)["chrf"]["score"] > 70, options
