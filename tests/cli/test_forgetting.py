"""Tuning that watches what the model knew: --valid-old and stop_if_worse."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import Answer, Nmt
from toy_training import metrics

from nmt.models.model_file import read_card
from nmt.scoring.metrics import score


@pytest.fixture
def tune(nmt: Nmt, data: Path, learnt: Path, tmp_path: Path) -> Callable[..., Answer]:
    """Train the learnt model on pairs whose targets are not translations."""
    text = [(data / f"valid.{lang}").read_text().splitlines(keepends=True) for lang in ("en", "de")]
    for lang, lines in (("en", text[0]), ("de", text[1][3:] + text[1][:3])):
        (tmp_path / f"wrong.{lang}").write_text("".join(lines))
    texts = ("--train", tmp_path / "wrong", "--valid", tmp_path / "wrong", "--keep", "overlap")
    pair = ("--src", "en", "--tgt", "de", "--vocab", learnt, "--workers", "1")
    done = nmt("prepare", tmp_path / "wrong-data", *pair, *texts)
    assert done.status == 0, done.stderr

    def run(*more: str | Path) -> Answer:
        fast = ("learning_rate=0.01", "warmup_updates=1", "validate_every=5", "schedule=constant")
        sets = [word for value in fast for word in ("--set", value)]
        words = ("--out", tmp_path / "tuned", "--init-from", learnt, "--precision", "fp32")
        small = ("--batch-tokens", "200", *sets)
        return nmt("train", tmp_path / "wrong-data", *words, *small, *more)

    return run


def valid(run: Path) -> list[dict[str, Any]]:
    return metrics(run, "valid")


def test_a_run_that_forgets_is_stopped(
    nmt: Nmt, data: Path, learnt: Path, tune: Callable[..., Answer], tmp_path: Path
) -> None:
    words = ("--valid-old", data / "valid", "--set", "stop_if_worse=5", "--max-updates", "500")
    done = tune(*words)
    assert done.status == 0, done.stderr
    run = tmp_path / "tuned"
    start, *others = valid(run)
    translated = nmt("translate", learnt, "--input", data / "valid.en").stdout.splitlines()
    references = (data / "valid.de").read_text().splitlines()
    assert start["old_bleu"] == pytest.approx(score(translated, [references])["bleu"].score)
    assert (start["update"], others[-1]["update"] % 5) == (0, 0)
    lost = [start["old_bleu"] - one["old_bleu"] for one in others]
    assert lost[-1] > 5 and all(one <= 5 for one in lost[:-1])
    status = json.loads((run / "status.json").read_text())
    assert status["status"] == "finished" and status["update"] == others[-1]["update"] < 500
    assert re.match(f"BLEU of {data / 'valid'} .*{lost[-1]:.2f}", status["reason"])
    # The weights that have forgotten are never the best.
    assert read_card(run / "best.safetensors").update < status["update"]

    # It does not go on by itself, but with a larger bound.
    assert tune(*words).status == 0
    assert len(valid(run)) == 1 + len(others)
    words = (*words[:2], "--set", "stop_if_worse=100", "--max-updates", str(status["update"] + 5))
    assert tune(*words).status == 0
    ended = status["update"] + 5
    assert [one["update"] for one in valid(run)[-2:]] == [status["update"], ended]
    # Another old text is measured anew: the wrong pairs, which the model has learnt since.
    other = ("--valid-old", tmp_path / "wrong", "--set", "stop_if_worse=5")
    done = tune(*other, "--max-updates", str(ended + 5))
    assert done.status == 0, done.stderr
    assert valid(run)[-1]["update"] == ended + 5


def test_without_a_bound_the_old_text_is_only_measured_by_chrf_if_asked_for(
    nmt: Nmt, data: Path, learnt: Path, tune: Callable[..., Answer], tmp_path: Path
) -> None:
    words = ("--valid-old", data / "valid", "--set", "validate_metric=chrf")
    done = tune(*words, "--max-updates", "5")
    assert done.status == 0, done.stderr
    start, end = valid(tmp_path / "tuned")
    translated = nmt("translate", learnt, "--input", data / "valid.en").stdout.splitlines()
    references = (data / "valid.de").read_text().splitlines()
    found = score(translated, [references], ("chrf",))["chrf"]
    assert start["old_chrf"] == pytest.approx(found.score)
    assert start["old_chrf_signature"] == found.signature
    assert "old_bleu" not in start and "old_chrf" in end
    assert "old chrF" in done.stderr
    assert ">old " in (tmp_path / "tuned" / "curves.svg").read_text()
