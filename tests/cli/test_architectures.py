"""A preset that is no Transformer goes through all commands as it does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Nmt
from toy_training import TINY, metrics

TRAINING = {key: value for key, value in TINY.items() if key not in ("d_ff", "num_heads")} | {
    "num_encoder_layers": 2,
    "num_decoder_layers": 2,
    "max_updates": 90,
    "validate_every": 30,
    "save_every": 30,
    "d_model": 64,
    "d_hidden": 64,
    "learning_rate": 1e-2,
    "dropout": 0.1,
}
"""By which it learns the toy language in some seconds."""


@pytest.mark.slow
def test_a_convolutional_model_is_trained_averaged_and_translated_with(
    nmt: Nmt, data: Path, tmp_path: Path
) -> None:
    run, model = tmp_path / "run", tmp_path / "average.safetensors"
    settings = ["--model", "conv_seq2seq_small"]
    settings += [f"--set={key}={value}" for key, value in TRAINING.items()]
    assert nmt("train", data, "--out", run, "--quiet", *settings).status == 0
    first, *_, last = (record["loss"] for record in metrics(run, "valid"))
    assert last < 0.7 * first
    assert nmt("average", run, "--last", "2", "--out", model, "--quiet").status == 0
    source, reference = (data.with_name(f"valid.{lang}") for lang in ("en", "de"))

    def translate(*options: str | Path) -> list[str]:
        answer = nmt("translate", model, "--input", source, "--quiet", *options)
        assert answer.status == 0
        # Where bf16 does not pay, it says so.
        assert not answer.stderr or "bf16" in options
        assert answer.stdout.count("\n") == 20
        return answer.stdout.splitlines()

    beam = translate()
    assert translate("--batch-tokens", "1") == beam
    pairs = [line.split(" ||| ") for line in translate("--alignment")]
    assert [text for text, _ in pairs] == beam
    assert all(alignment for _, alignment in pairs)
    for options in (["--beam-size", "1"], ["--precision", "bf16"], ["--ensemble", run]):
        hypothesis = tmp_path / "hypothesis"
        hypothesis.write_text("".join(f"{line}\n" for line in translate(*options)))
        answer = nmt("score", reference, hypothesis, "--metric", "chrf", "--json")
        assert json.loads(answer.stdout)["chrf"]["score"] > 70, options
