"""`nmt evaluate`: the scores of `nmt translate` and `nmt score`, for all runs and test sets."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from unicodedata import normalize
from xml.etree import ElementTree

import pytest
from command_line import Nmt
from prepare_job import Job
from svg_picture import texts
from toy_training import pairs, prepare_toy, train, write_text

from nmt.cli.evaluate import _scores
from nmt.data.folder import HeldOut
from nmt.jobs.parallel import Translators


def test_runs_are_scored_on_the_test_sets_of_their_data(nmt: Nmt, tmp_path: Path) -> None:
    prepare_toy(tmp_path)
    sets = {"near": pairs(12, seed=3), "far": pairs(9, seed=4)}
    data = Job.of(
        tmp_path / "tested",
        train=(str(tmp_path / "train"),),
        valid=str(tmp_path / "valid"),
        test=tuple(write_text(tmp_path, name, sets[name]) for name in sets),
        vocab_size=345,
    ).prepare()
    run = train(data.path, tmp_path / "run1", max_updates=10)
    runs = [run, shutil.copytree(run, tmp_path / "run2")]
    svg, quick = tmp_path / "curves.svg", ("--beam-size", "1", "--threads", "1")

    found = json.loads(nmt("evaluate", *runs, *quick, "--svg", svg, "--json").stdout)
    assert [(one["run"], one["test"]) for one in found] == [
        (str(run), name) for run in runs for name in sets
    ]
    for one in found:
        source, reference = (data.path / f"test-{one['test']}.{lang}" for lang in ("en", "de"))
        output = tmp_path / "output"
        assert nmt("translate", one["run"], "-i", source, "-o", output, *quick).status == 0
        scores = json.loads(nmt("score", reference, output, "--json").stdout)
        assert {metric: one[metric] for metric in scores} == scores
    drawn = texts(ElementTree.parse(svg).getroot())
    assert all(any(text.startswith(f"{run} ") for text in drawn) for run in runs)

    lines = nmt("evaluate", runs[0], *quick).stdout.splitlines()
    assert [line.split("\t")[1] for line in lines[1:3]] == list(sets)
    assert lines[3:] == [f"{found[0][m]['name']}: {found[0][m]['signature']}" for m in scores]
    averaged = tmp_path / "averaged.safetensors"
    assert nmt("average", runs[0], "--last", "1", "--out", averaged).status == 0
    done = nmt("evaluate", averaged, "--data", data.path, *quick)
    assert [line.split("\t")[1] for line in done.stdout.splitlines()[1:3]] == list(sets)
    assert "not a run folder" in nmt("evaluate", averaged).refusal(2)
    assert "no test sets" in nmt("evaluate", runs[0], "--data", tmp_path / "data").refusal(1)
    assert "not a run folder" in nmt("evaluate", tmp_path).refusal(2)
    assert "is a run folder" in nmt("data", runs[0]).refusal(1)
    assert "no such run folder" in nmt("evaluate", tmp_path / "nowhere").refusal(2)


@pytest.mark.parametrize("composes", [True, False])
def test_letters_and_marks_are_compared_as_in_validation(
    composes: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    reference = "\u0958\u0932\u092e \u092f\u0939\u093e\u0901 \u0939\u0948"  # which NFC takes apart
    output = SimpleNamespace(text=normalize("NFC", reference) + " .", error=None)
    translators = SimpleNamespace(
        translator=SimpleNamespace(
            language_pair=SimpleNamespace(tgt_vocabulary=SimpleNamespace(composes=composes)),
            translate=lambda lines, **_: [output for _ in lines],
        )
    )
    text = SimpleNamespace(langs=("en", "de"), lines=lambda: (["a"] * 2, [f"{reference} ."] * 2))
    scores = _scores(cast(Translators, translators), "run", cast(HeldOut, text))
    assert (scores["bleu"].score.score == pytest.approx(100)) == composes
    told = capsys.readouterr().err
    assert told.count("NFC") == (2 if composes else 1)
    assert ("2 of 2" in told) and ("line 1 " in told) != composes
