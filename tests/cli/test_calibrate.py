"""`nmt calibrate` and `nmt translate --quality`: what they tell, and what they refuse."""

import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import Answer, Nmt, write
from filelock import lock_descriptor
from torch import Tensor
from toy_training import pairs, write_text

from nmt.data.language_tokens import LanguageTokens
from nmt.data.manifest import build_value
from nmt.errors import HeldOff, UsageError
from nmt.jobs.parallel import Translators
from nmt.models.model_file import load_model, write_model
from nmt.translate.calibration import Calibration
from nmt.translate.translator import Translator

QUICK = ("--workers", "1", "--threads", "1")
LINES = ["one two three", "", "2024\t7", "five four nine nine nine"]


@pytest.fixture
def calibrated(learnt: Path, nmt: Nmt, tmp_path: Path) -> Path:
    """A run with its calibration."""
    run = shutil.copytree(learnt, tmp_path / "run")
    calibrate(nmt, run).succeeded()
    return run


def calibrate(nmt: Nmt, model: Path, *words: str, count: int = 120) -> Answer:
    text = write_text(model.parent, "held-out", pairs(count, seed=3))
    held_out = ("--source", f"{text}.en", "--reference", f"{text}.de")
    return nmt("calibrate", model, *held_out, *QUICK, *words)


def rate(nmt: Nmt, model: Path, *words: str, lines: list[str] = LINES) -> Answer:
    text = "".join(f"{line}\n" for line in lines).encode()
    return nmt("translate", model, "--quality", *QUICK, *words, stdin=text)


def test_lines_are_told_as_such_lines_were(calibrated: Path, nmt: Nmt, tmp_path: Path) -> None:
    done = calibrate(nmt, calibrated)
    again = done.stdout.splitlines()
    assert "warning" not in done.stderr
    assert [line.split("\t")[0] for line in again[:6]] == ["group", *"12345"]
    assert again[-1].split("\t")[3].startswith("nrefs:1|case:mixed|eff:yes|nc:6")
    prefix = write_text(tmp_path, "other", pairs(150, seed=4))
    sources = Path(f"{prefix}.en").read_text().splitlines()
    answer = rate(nmt, calibrated, lines=sources).succeeded()
    told = [float(line.split("\t")[0]) for line in answer.stdout.splitlines()]
    output = write(tmp_path / "output", (row.split("\t")[1] for row in answer.stdout.splitlines()))
    scored = json.loads(nmt("score", f"{prefix}.de", output, "--json").stdout)
    whole = re.search(r"chrF may be ([\d.]+), if the text is like the 120 lines", answer.stderr)
    assert whole is not None
    weights = list(map(len, sources))
    weighted = sum(one * weight for one, weight in zip(told, weights, strict=True)) / sum(weights)
    assert float(whole[1]) == pytest.approx(weighted, abs=0.1)
    assert weighted == pytest.approx(scored["chrf"]["score"], abs=6)


def test_the_rating_stands_before_the_text(calibrated: Path, nmt: Nmt, tmp_path: Path) -> None:
    rated = rate(nmt, calibrated).succeeded()
    plain = nmt("translate", calibrated, *QUICK, stdin=("\n".join(LINES) + "\n").encode()).stdout
    cells = [line.split("\t") for line in rated.stdout.splitlines()]
    assert [text for _, text in cells] == [text.replace("\t", " ") for text in plain.splitlines()]
    assert [bool(re.fullmatch(r"\d+\.\d", one)) for one, _ in cells] == [True, False, False, True]
    assert {one for one, _ in cells[1:3]} == {"-"}
    assert rate(nmt, calibrated, "--workers", "2", "--pool-lines", "1").stdout == rated.stdout
    objects = list(map(json.loads, rate(nmt, calibrated, "--format", "jsonl").stdout.splitlines()))
    ranges = [one.get("quality") for one in objects]
    assert ranges[1:3] == [None, None]
    assert [f"{one[0]:.1f}" for one in (ranges[0], ranges[3])] == [cells[0][0], cells[3][0]]
    assert all(low <= chrf <= high for chrf, low, high in (ranges[0], ranges[3]))
    (tmp_path / "rated").write_text(rated.stdout)
    write(tmp_path / "ref", [text for _, text in cells])
    both = f"{tmp_path}/rated,{tmp_path}/ref"
    languages = ("--src", "en", "--tgt", "de", "--valid-lines", "1")
    for command in (
        ("score", tmp_path / "ref", tmp_path / "rated"),
        ("prepare", tmp_path / "data", *languages, "--train", both),
    ):
        assert "SCORE<TAB>TEXT" in nmt(*command).refusal(1)


def test_documents_stay_and_are_told_as_a_whole(calibrated: Path, nmt: Nmt, tmp_path: Path) -> None:
    page = write(tmp_path / "page.html", ["<p>one <b>two</b></p>", "<p>four</p>"])
    outputs = [tmp_path / name for name in ("plain.html", "rated.html")]
    for output, words in zip(outputs, ((), ("--quality",)), strict=True):
        done = nmt("translate", calibrated, "-i", page, "-o", output, *QUICK, *words).succeeded()
        assert ("chrF may be" in done.stderr) == bool(words)
    assert outputs[0].read_bytes() == outputs[1].read_bytes()
    again = nmt("translate", calibrated, "-i", page, "-o", outputs[1], *QUICK, "--quality")
    assert "already translated" in again.stderr and "chrF may be" in again.stderr
    calibrate(nmt, calibrated, count=110).succeeded()  # another curve, so the job is another
    newer = nmt("translate", calibrated, "-i", page, "-o", outputs[1], *QUICK, "--quality")
    assert "already translated" not in newer.stderr


def test_unusual_text_is_warned_of(calibrated: Path, nmt: Nmt) -> None:
    told = rate(nmt, calibrated, lines=["zzz qqq", "xyz xyz", "Käse ist gut"]).stderr
    assert "nmt: warning: stdin: chrF may be" in told
    assert "3 of 3 lines are unusual" in told
    assert "warning" not in rate(nmt, calibrated, lines=["one two", "three four five"]).stderr


def test_python_rates_by_the_same_file(calibrated: Path, nmt: Nmt) -> None:
    told = [one.quality for one in Translator.load(calibrated, quality=True).translate(LINES)]
    cells = [line.split("\t")[0] for line in rate(nmt, calibrated).stdout.splitlines()]
    assert [f"{one.chrf:.1f}" if one else "-" for one in told] == cells
    with pytest.raises(UsageError, match="calibrated"):
        Translator.load(calibrated, quality=True, split=True)


def test_another_search_model_or_use_is_refused(
    calibrated: Path, learnt: Path, model_file: Path, nmt: Nmt, tmp_path: Path
) -> None:
    for words in (("--beam-size", "2"), ("--split",), ("--no-repeat-ngram", "3")):
        assert words[0] in rate(nmt, calibrated, *words).refusal(2)
    assert rate(nmt, calibrated, "--length-penalty-form", "power").status == 0
    for words in (("--sample",), ("--prefixes",), ("--context", "1"), ("--ensemble", str(learnt))):
        assert f"{words[0]} does not go with --quality" in rate(nmt, calibrated, *words).refusal(2)
    wide = rate(nmt, calibrated, "--n-best", "8", "--format", "jsonl").refusal(2)
    assert "--beam-size 8" in wide and "--n-best 8" in wide
    model = Path(shutil.copy(model_file, tmp_path / "model.safetensors"))
    file = tmp_path / "model.quality.json"
    assert str(file) in rate(nmt, model).refusal(2)
    shutil.copy(calibrated / "quality.json", file)
    assert "another model" in rate(nmt, model).refusal(1)
    file.write_text("{}")
    assert "damaged" in rate(nmt, model).refusal(1)
    told = calibrate(nmt, model, "--beam-size", "1").succeeded().stderr
    assert "than like that of the next line" in told
    assert rate(nmt, model, "--beam-size", "1").status == 0
    assert "100" in calibrate(nmt, calibrated, count=99).refusal(1)


def test_each_use_has_a_calibration_of_its_own(calibrated: Path, nmt: Nmt, tmp_path: Path) -> None:
    built, card = load_model(calibrated)
    tags = LanguageTokens({"de": "<s>", "fr": "</s>"}, "tgt", "")
    many, weights = tmp_path / "many.safetensors", dict[str, Tensor](built.named_parameters())
    write_model(many, replace(card, languages=tags), weights)
    uses = {111: ("--to", "de"), 112: ("--to", "fr"), 113: ("--to", "fr", "--beam-size", "1")}
    for count, words in uses.items():
        calibrate(nmt, many, *words, count=count).succeeded()
    for count, words in uses.items():
        assert f"like the {count} lines" in rate(nmt, many, *words).succeeded().stderr
    assert "--beam-size 1" in rate(nmt, many, "--to", "de", "--beam-size", "1").refusal(2)
    write_model(many, card, weights)
    calibrate(nmt, many).succeeded()  # another model, to which those of the first are of no use
    assert len(json.loads(many.with_suffix(".quality.json").read_text())["calibrations"]) == 1


def test_calibrations_are_not_written_at_once(calibrated: Path) -> None:
    path = calibrated / "quality.json"
    content = json.loads(path.read_text())
    calibration = build_value(Calibration, content["calibrations"][0], "")
    folder = os.open(calibrated, os.O_RDONLY)
    assert lock_descriptor(folder, blocking=False)
    with pytest.raises(HeldOff, match="another process"):
        calibration.write(path, content["model"])
    os.close(folder)
    calibration.write(path, content["model"])


def test_a_model_is_not_calibrated_if_that_cannot_last(
    calibrated: Path, other_model: Path, nmt: Nmt, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda _path, mode: not mode & os.W_OK)
        assert str(calibrated / "quality.json") in calibrate(nmt, calibrated).refusal(2)
    best, start = calibrated / "best.safetensors", Translators.start

    def replacing(*words: Any) -> Translators:  # as training does
        shutil.copy(other_model, best)
        return start(*words)

    monkeypatch.setattr(Translators, "start", replacing)
    assert f"{calibrated}: " in calibrate(nmt, calibrated).refusal(1)


def test_an_export_takes_the_calibration_along(calibrated: Path, nmt: Nmt, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2", reason="needs ctranslate2")
    for words in ((), ("--quantization", "int8")):
        out = tmp_path / f"export{len(words)}"
        nmt("export", "ctranslate2", calibrated, out, *words).succeeded()
        told, ours = (rate(nmt, model).stdout.splitlines() for model in (out, calibrated))
        for one, other in zip(told, ours, strict=True):
            (chrf, text), (our_chrf, our_text) = one.split("\t"), other.split("\t")
            if text == our_text and chrf != "-":
                assert float(chrf) == pytest.approx(float(our_chrf), abs=3)
        assert told[1].startswith("-\t")
        calibrate(nmt, out).succeeded()  # by its own translations
        files = (folder / "quality.json" for folder in (out, calibrated))
        own, ours_now = (file.read_bytes() for file in files)
        (calibrated / "quality.json").unlink()
        nmt("export", "ctranslate2", calibrated, out, *words).succeeded()
        assert (out / "quality.json").read_bytes() == own
        (calibrated / "quality.json").write_bytes(ours_now)
        nmt("export", "ctranslate2", calibrated, out, *words).succeeded()
        assert (out / "quality.json").read_bytes() == ours_now
