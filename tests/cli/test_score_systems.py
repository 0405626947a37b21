"""`nmt score` beyond one figure: intervals, baselines, the card, single lines, forms of text."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

REFERENCE = [f"Das {number}. Haus steht seit vielen Jahren am See." for number in range(40)]
NEW = [line.replace("steht", "steht" if n % 3 else "ist") for n, line in enumerate(REFERENCE)]
OLD = [line.replace("vielen", "vielen" if n % 2 else "langen") for n, line in enumerate(REFERENCE)]
SOURCE = [f"The {number}th house has been by the lake for many years." for number in range(40)]

FEW = ("--samples", "100", "--trials", "100")

Nmt = Callable[..., Any]


class Files(NamedTuple):
    reference: Path
    new: Path
    old: Path
    source: Path


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(
        write(tmp_path / "ref.de", REFERENCE),
        write(tmp_path / "new.de", NEW),
        write(tmp_path / "old.de", OLD),
        write(tmp_path / "src.en", SOURCE),
    )


def scores(nmt: Nmt, *words: str | Path) -> dict[str, Any]:
    answer = nmt("score", "--json", *words)
    assert answer.status == 0, answer.stderr
    loaded = json.loads(answer.stdout)
    assert isinstance(loaded, dict)
    return loaded


def sacrebleu(*words: str | Path) -> str:
    """What the `sacrebleu` command prints."""
    raw = subprocess.run(
        [sys.executable, "-m", "sacrebleu", *map(str, words), "-w", "10"],
        capture_output=True,
        text=True,
        check=True,
    )
    return raw.stdout


def tables(stdout: str) -> list[list[dict[str, str]]]:
    """The tables that a pipe gets, an empty line between them."""
    found = []
    for block in stdout.rstrip("\n").split("\n\n"):
        head, *rows = (line.split("\t") for line in block.split("\n"))
        found.append([dict(zip(head, row, strict=True)) for row in rows])
    return found


def refusal(nmt: Nmt, *words: str | Path, status: int) -> str:
    answer = nmt("score", *words)
    assert (answer.status, answer.stdout) == (status, "")
    (line,) = answer.stderr.splitlines()
    assert isinstance(line, str)
    return line


def test_intervals_are_those_of_the_sacrebleu_command(nmt: Nmt, files: Files) -> None:
    found = scores(nmt, files.reference, files.new, "--metric", "bleu", "--confidence", "95")
    theirs = json.loads(sacrebleu(files.reference, "-i", files.new, "--confidence"))
    interval = found["bleu"]["confidence"]
    assert interval["percent"] == 95
    assert interval["mean"] == pytest.approx(theirs["confidence_mean"], rel=1e-5)
    half = (interval["upper"] - interval["lower"]) / 2
    assert half == pytest.approx(theirs["confidence_var"], rel=1e-4)
    assert found["bleu"]["signature"] == theirs["signature"]


def test_intervals_have_a_column_of_their_own(nmt: Nmt, files: Files) -> None:
    words = ("score", files.reference, files.new, "--confidence", "90", "--samples", "100")
    answer = nmt(*words, "--metric", "bleu")
    ((row,),) = tables(answer.stdout)
    lower, upper = map(float, row["90 % interval"].split(" to "))
    assert lower < float(row["score"]) < upper
    assert "bs:100|seed:12345" in row["signature"]
    other = nmt(*words, "--metric", "bleu", "--seed", "2")
    assert tables(other.stdout)[0][0]["90 % interval"] != row["90 % interval"]


def test_p_values_of_real_systems_are_those_of_the_sacrebleu_command(
    real_text: Callable[[str], Path], nmt: Nmt, tmp_path: Path
) -> None:
    outputs = real_text("wmt13-outputs")
    reference, new, old = (
        write(tmp_path / path.stem, gzip.decompress(path.read_bytes()).decode().split("\n")[:300])
        for path in (
            real_text("wmt-news") / "newstest2013.en-de.de.gz",
            outputs / "newstest2013.en-de.google.de.gz",
            outputs / "newstest2013.en-de.bergamot-base-memory.de.gz",
        )
    )
    metrics = ("--metric", "bleu", "--metric", "chrf")
    found = scores(nmt, reference, new, "--baseline", old, *metrics, "--trials", "200")
    test = ("--paired-ar", "--paired-ar-n", "200", "-f", "json")
    printed = sacrebleu(reference, "-i", old, new, "-m", "bleu", "chrf", *test)
    baseline, output = json.loads(printed)
    for name, label in (("bleu", "BLEU"), ("chrf", "chrF2")):
        (against,) = found[name]["baselines"]
        assert against["file"] == str(old)
        assert against["p_randomisation"] == pytest.approx(output[label]["p_value"])
        assert against["score"] == pytest.approx(baseline[label]["score"])
        assert found[name]["score"] == pytest.approx(output[label]["score"])
        assert against["difference"] == found[name]["score"] - against["score"]
        assert "bs:1000|ar:200|seed:12345" in found[name]["signature"]


def test_baselines_have_a_table_of_their_own(nmt: Nmt, files: Files) -> None:
    baselines = ("--baseline", files.old, "--baseline", files.new)
    answer = nmt("score", files.reference, files.new, *baselines, "--metric", "bleu", *FEW)
    first, second = tables(answer.stdout)
    assert [row["metric"] for row in first] == ["BLEU"]
    assert "95 % interval" not in first[0]
    assert [row["baseline"] for row in second] == [str(files.old), str(files.new)]
    itself = second[1]
    assert (itself["its score"], itself["difference"]) == (first[0]["score"], "+0.00")
    assert itself["p, paired bootstrap"] == itself["p, approximate randomisation"] == "1.0000"
    lower, upper = map(float, second[0]["95 % interval"].split(" to "))
    assert lower < float(second[0]["difference"]) < upper


def test_a_baseline_of_another_length_is_refused(nmt: Nmt, files: Files, tmp_path: Path) -> None:
    short = write(tmp_path / "short.de", OLD[:39])
    line = refusal(nmt, files.reference, files.new, "--baseline", short, status=1)
    assert f"{files.new} has 40, {short} has 39" in line


def test_single_lines_have_a_row_each(nmt: Nmt, files: Files) -> None:
    words = ("--sentences", "--baseline", files.old, "--metric", "bleu", "--metric", "ter")
    answer = nmt("score", files.reference, files.new, *words)
    (rows,) = tables(answer.stdout)
    assert [row["line"] for row in rows] == [str(number) for number in range(1, 41)]
    theirs = sacrebleu(files.reference, "-i", files.new, "-sl", "-f", "text").splitlines()
    for row, line in zip(rows, theirs, strict=True):
        assert float(row["BLEU"]) == pytest.approx(float(line.split()[2]), abs=0.005)
    # The first line of each has one wrong word of 9.
    assert rows[0]["TER"] == rows[0][f"TER {files.old}"] == f"{100 / 9:.2f}"
    assert rows[1]["TER"] == rows[1][f"TER {files.old}"] == "0.00"
    assert f"BLEU of lines: {theirs[0].split()[0].removeprefix('BLEU|')}\n" in answer.stderr


def test_json_has_single_lines_beside_the_whole(nmt: Nmt, files: Files) -> None:
    words = (files.reference, files.new, "--baseline", files.old, "--metric", "ter", *FEW)
    whole, with_lines = scores(nmt, *words)["ter"], scores(nmt, *words, "--sentences")["ter"]
    assert len(with_lines["sentences"]) == len(with_lines["baselines"][0]["sentences"]) == 40
    assert with_lines["sentence_signature"].startswith("nrefs:1|")
    assert with_lines["score"] == whole["score"]
    assert "sentences" not in whole


def test_the_card_is_of_the_language_that_the_reference_ends_in(nmt: Nmt, files: Files) -> None:
    (rows,) = tables(nmt("score", files.reference, files.new, "--card").stdout)
    assert [row["metric"] for row in rows] == [
        "BLEU",
        "lower-cased BLEU",
        "tokenised BLEU",
        "compound-split BLEU",
        "lower-cased tokenised BLEU",
    ]
    for row in rows:
        assert row.keys() == {"metric", "score", "comparable with", "signature"}
    words = ("--card", "--tgt", "fr", "--confidence", "95", "--samples", "100")
    found = scores(nmt, files.reference, files.new, *words)
    assert list(found) == ["bleu", "bleu-lowercase", "bleu-tokenised", "bleu-tokenised-lowercase"]
    assert "-fr|" in found["bleu-tokenised"]["signature"]
    assert "only for comparison" in found["bleu-tokenised"]["comparable_with"]
    assert found["bleu-tokenised"]["confidence"]["lower"] < found["bleu-tokenised"]["score"]


def test_the_card_needs_a_language(nmt: Nmt, files: Files, tmp_path: Path) -> None:
    unnamed = write(tmp_path / "reference", REFERENCE)
    assert "pass --tgt" in refusal(nmt, unnamed, files.new, "--card", status=2)
    words = (files.reference, files.new)
    assert "--card" in refusal(nmt, *words, "--tgt", "de", status=2)
    assert "--metric" in refusal(nmt, *words, "--card", "--metric", "ter", status=2)
    assert "--tokenize char" in refusal(nmt, unnamed, files.new, "--card", "--tgt", "ja", status=2)


def test_a_language_that_moses_does_not_know_is_warned_about(nmt: Nmt, files: Files) -> None:
    answer = nmt("score", files.reference, files.new, "--card", "--tgt", "xx")
    assert answer.status == 0
    assert "--tgt xx: Moses has no rules for it" in answer.stderr


def test_sgml_and_tsv_are_scored_as_plain_text_is(nmt: Nmt, files: Files, tmp_path: Path) -> None:
    def sgml(name: str, lines: list[str]) -> Path:
        segments = [f'<seg id="{n}">{line}</seg>' for n, line in enumerate(lines, start=1)]
        return write(tmp_path / name, ['<doc docid="one">', *segments, "</doc>"])

    pairs = write(tmp_path / "all.tsv", [f"{a}\t{b}" for a, b in zip(REFERENCE, NEW, strict=True)])
    bleu = ("--metric", "bleu")
    expected = scores(nmt, files.reference, files.new, *bleu)
    assert scores(nmt, sgml("ref.de.sgm", REFERENCE), sgml("new.sgm", NEW), *bleu) == expected
    assert scores(nmt, f"{pairs}:1", f"{pairs}:2", *bleu) == expected
    assert scores(nmt, sgml("ref.de.sgm", REFERENCE), files.new, *bleu) == expected
    shuffled = ['<seg id="2">zwei</seg>', '<seg id="1">eins</seg>']
    other = write(tmp_path / "other.sgm", ['<doc docid="one">', *shuffled, "</doc>"])
    both = (sgml("two.sgm", REFERENCE[:2]), other)
    assert "segment 1 is one:1" in refusal(nmt, *both, status=1)


def test_untranslated_lines_are_warned_about(nmt: Nmt, files: Files) -> None:
    answer = nmt("score", files.reference, files.source, "--source", files.source, "--quiet")
    assert answer.status == 0
    (line,) = answer.stderr.splitlines()
    assert line.startswith(f"nmt: warning: {files.source}: 40 of 40 lines equal those of")
    assert nmt("score", files.reference, files.new, "--source", files.source).stderr == ""


def test_a_warning_goes_with_every_output(nmt: Nmt, files: Files, tmp_path: Path) -> None:
    bad = write(tmp_path / "bad.de", ["Hau@@ s", *NEW[1:]])
    answer = nmt("score", files.reference, files.new, "--baseline", bad, "--metric", "bleu", *FEW)
    assert f"warning: {bad}: 1 of 40 lines hold subword marks" in answer.stderr


def test_too_few_samples_are_refused(nmt: Nmt, files: Files) -> None:
    words = (files.reference, files.new, "--confidence", "99", "--samples", "100")
    assert "--samples 200" in refusal(nmt, *words, status=2)
