"""`nmt evaluate`: the scores of `nmt translate` and `nmt score`, for all runs and test sets."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from unicodedata import normalize

import pytest
from command_line import Nmt, Stderr
from prepare_job import Job
from toy_training import pairs, prepare_toy, train, write_text

from nmt.cli.evaluate import _scores, _TestSet
from nmt.data.folder import DataFolder, HeldOut


def test_runs_are_scored_on_the_test_sets_of_their_data(nmt: Nmt, tmp_path: Path) -> None:
    prepare_toy(tmp_path)
    sets = {"near": pairs(12, seed=3), "far": pairs(9, seed=4)}
    train_text, valid = str(tmp_path / "train"), str(tmp_path / "valid")
    test = tuple(write_text(tmp_path, name, sets[name]) for name in sets)
    job = Job.of(tmp_path / "tested", train=(train_text,), valid=valid, test=test, vocab_size=345)
    data = job.prepare()
    run = train(data.path, tmp_path / "run1", max_updates=10)
    runs = [run, shutil.copytree(run, tmp_path / "run2")]
    quick = ("--beam-size", "1", "--threads", "1")

    found = json.loads(nmt("evaluate", *runs, *quick, "--json").stdout)
    assert [(one["run"], one["test"]) for one in found] == [
        (str(run), name) for run in runs for name in sets
    ]
    for one in found:
        source, reference = (data.path / f"test-{one['test']}.{lang}" for lang in ("en", "de"))
        output = tmp_path / "output"
        assert nmt("translate", one["run"], "-i", source, "-o", output, *quick).status == 0
        scores = json.loads(nmt("score", reference, output, "--json").stdout)
        assert {metric: one[metric] for metric in scores} == scores
    lines = nmt("evaluate", runs[0], *quick).stdout.splitlines()
    assert [line.split("\t")[1] for line in lines[1:3]] == list(sets)
    assert lines[3:] == [f"{found[0][m]['name']}: {found[0][m]['signature']}" for m in scores]
    averaged = tmp_path / "averaged.safetensors"
    assert nmt("average", runs[0], "--last", "1", "--out", averaged).status == 0
    done = nmt("evaluate", averaged, "--data", data.path, *quick)
    assert [line.split("\t")[1] for line in done.stdout.splitlines()[1:3]] == list(sets)
    assert json.loads((runs[1] / "evaluation.json").read_text()) == found[2:]
    assert "no test sets" in nmt("evaluate", runs[0], "--data", tmp_path / "data").refusal(1)
    assert "is a run folder" in nmt("data", runs[0]).refusal(1)


def test_translations_are_kept_and_compared_with_a_baseline(nmt: Nmt, tmp_path: Path) -> None:
    prepare_toy(tmp_path)
    near = write_text(tmp_path, "near", pairs(12, seed=3))
    text = {"train": (str(tmp_path / "train"),), "valid": str(tmp_path / "valid")}
    data = Job.of(tmp_path / "tested", test=(near,), vocab_size=345, **text).prepare()
    run = train(data.path, tmp_path / "run", max_updates=10)
    old = shutil.copytree(run, tmp_path / "old")
    out, quick = tmp_path / "out", ("--beam-size", "1", "--threads", "1", "--metric", "ter")

    done = nmt("evaluate", run, "--baseline", old, "--out", out, *quick).succeeded()
    first, second = done.stdout.split("\n\n")
    assert first.splitlines()[0] == "run\ttest set\tlanguages\tTER\tTER, far half"
    assert second.splitlines()[1].split("\t")[:5] == [str(run), "near", "en-de", "TER", str(old)]
    assert "may be chance" in done.stderr
    kept = [out / name / "near.de" for name in ("run", "old")]
    scored = json.loads(nmt("score", f"{near}.de", kept[0], "--metric", "ter", "--json").stdout)
    assert first.splitlines()[1].split("\t")[3] == f"{scored['ter']['score']:.2f}"
    assert kept[0].read_bytes() == kept[1].read_bytes()
    assert "--out" in nmt("evaluate", run, run, "--out", out).refusal(2)
    assert "--out" in nmt("evaluate", run, "--out", f"{near}.de").refusal(2)


@pytest.mark.parametrize("composes", [True, False])
def test_letters_and_marks_are_compared_as_in_validation(composes: bool, stderr: Stderr) -> None:
    reference = "\u0958\u0932\u092e \u092f\u0939\u093e\u0901 \u0939\u0948"  # which NFC takes apart
    output = normalize("NFC", reference) + " ."
    lines = (["a"] * 2, [f"{reference} ."] * 2)
    text = SimpleNamespace(langs=("en", "de"), lines=lambda: lines, far_half=list)
    test = _TestSet("run", "test", cast(HeldOut, text), [output] * 2, composes)
    assert (_scores([test], ["bleu"])["bleu"].score.score == pytest.approx(100)) == composes
    told = stderr()
    assert told.count("NFC") == (2 if composes else 1)
    assert ("2 of 2" in told) and ("line 1 " in told) != composes


def test_quotes_of_another_kind_than_the_reference_s_are_reported(stderr: Stderr) -> None:
    lines = (["a"], ["Ответ — “да”."])
    text = SimpleNamespace(langs=("en", "ru"), lines=lambda: lines, far_half=list)
    _scores([_TestSet("run", "test", cast(HeldOut, text), ["Ответ — «да»."], True)], ["chrf"])
    assert "« for “" in stderr()


@pytest.fixture
def tested(tmp_path: Path) -> tuple[Path, Path]:
    """A run, and its data with a test set of which four of nine lines are in train."""
    known, new = pairs(60, seed=1)[:4], [("quite unlike them", "ganz anders")] * 5
    texts = {"train": pairs(60, seed=1), "valid": pairs(9, seed=2), "near": [*known, *new]}
    train_text, valid, near = (write_text(tmp_path, name, text) for name, text in texts.items())
    job = Job.of(tmp_path / "data", train=(train_text,), valid=valid, test=(near,), vocab_size=335)
    data = job.prepare().path
    return train(data, tmp_path / "run", max_updates=4), data


QUICK = ("--beam-size", "1", "--threads", "1")


def test_the_far_half_has_scores_of_its_own_unless_the_data_is_old(
    nmt: Nmt, tested: tuple[Path, Path], tmp_path: Path
) -> None:
    run, data = tested
    done = nmt("evaluate", run, *QUICK, "--json", "--out", tmp_path / "out").succeeded()
    (found,) = json.loads(done.stdout)
    assert found["far_half"]["lines"] == 4
    (text,) = DataFolder.open(data).texts(DataFolder.open(data).info.tests[0])
    assert text.far_half() == [4, 5, 6, 7]  # of five equal lines, the first four
    files = (text.tgt, tmp_path / "out" / "run" / "near.de")
    halves = [tmp_path / "half.de", tmp_path / "half.output"]
    for half, file in zip(halves, files, strict=True):
        half.write_text("".join(file.read_text().splitlines(keepends=True)[4:8]))
    scores = json.loads(nmt("score", *halves, "--json").stdout)
    assert {name: found["far_half"][name] for name in scores} == {
        name: score["score"] for name, score in scores.items()
    }
    info = json.loads((data / "dataset.json").read_text())
    for split in (info["valid"], *info["tests"]):
        del split["overlaps"], split["corpora"][0]["overlap"]
    (data / "dataset.json").write_text(json.dumps(info))
    (old,) = json.loads(nmt("evaluate", run, *QUICK, "--json").succeeded().stdout)
    assert "far_half" not in old
    assert old["bleu"] == found["bleu"]


def test_a_score_that_is_too_low_fails(nmt: Nmt, tested: tuple[Path, Path]) -> None:
    run, _ = tested
    score = json.loads(nmt("evaluate", run, *QUICK, "--json").stdout)[0]["chrf"]["score"]
    for least, status in ((0, 0), (round(score, 2), 0), (round(score, 2) + 0.01, 1)):
        done = nmt("evaluate", run, *QUICK, "--metric", "chrf", "--at-least", str(least))
        assert done.status == status
        told = f"chrF2 {score:.2f} is {'not ' * status}at least {least:g}"
        assert [line for line in done.stderr.splitlines() if told in line]
        assert done.stdout
    assert "--at-least" in nmt("evaluate", run, "--metric", "ter", "--at-least", "9").refusal(2)


def test_data_of_other_runs_is_refused(nmt: Nmt, tested: tuple[Path, Path], tmp_path: Path) -> None:
    run, data = tested
    train_text, valid, near = (str(tmp_path / name) for name in ("train", "valid", "near"))
    job = Job.of(tmp_path / "back", train=(train_text,), valid=valid, test=(near,), vocab_size=335)
    done = nmt("evaluate", run, "--data", job.but(src_lang="de", tgt_lang="en").prepare().path)
    told = done.stderr.splitlines()[-1]
    assert done.status == 2 and "en-de" in told and "de-en" in told and "--data" in told
    data.rename(tmp_path / "moved")
    assert "--data" in nmt("evaluate", run).refusal(2)
    nmt("evaluate", run, "--data", tmp_path / "moved", *QUICK).succeeded()
