"""`nmt score`: tables, JSON, intervals, baselines, the card, lines, and the sacrebleu command."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from terminal import OnTerminal

REFERENCE = [f"Das {number}. Haus steht seit vielen Jahren am See." for number in range(40)]
NEW = [line.replace("steht", "steht" if n % 3 else "ist") for n, line in enumerate(REFERENCE)]
OLD = [line.replace("vielen", "vielen" if n % 2 else "langen") for n, line in enumerate(REFERENCE)]
SOURCE = [f"The {number}th house has been by the lake for many years." for number in range(40)]

BLEU = ("--metric", "bleu")
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


def scores(nmt: Nmt, *words: str | Path, stdin: bytes | None = None) -> dict[str, Any]:
    """Return the answer of `nmt score --json`."""
    answer = nmt("score", "--json", *words, stdin=stdin)
    assert answer.status == 0, answer.stderr
    loaded: dict[str, Any] = json.loads(answer.stdout)
    return loaded


def sacrebleu(*words: str | Path) -> str:
    """Return what the `sacrebleu` command prints."""
    command = [sys.executable, "-m", "sacrebleu", *map(str, words), "-w", "14"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def tables(stdout: str) -> list[list[dict[str, str]]]:
    """Return the tables that a pipe gets, separated by an empty line."""
    found = []
    for block in stdout.rstrip("\n").split("\n\n"):
        head, *rows = (line.split("\t") for line in block.split("\n"))
        found.append([dict(zip(head, row, strict=True)) for row in rows])
    return found


def refusal(nmt: Nmt, status: int, *words: str | Path, stdin: bytes | None = None) -> str:
    """Return the one line of a command that fails."""
    answer = nmt("score", *words, stdin=stdin)
    assert (answer.status, answer.stdout) == (status, "")
    (line,) = answer.stderr.splitlines()
    assert line.startswith("nmt: error: ")
    return str(line)


# -------------------------------------------------------------------------------- scores


def test_json_is_one_object_with_bleu_first(nmt: Nmt, files: Files) -> None:
    results = scores(nmt, files.reference, files.new)
    assert list(results) == ["bleu", "chrf", "ter"]
    for result in results.values():
        assert isinstance(result["score"], float)
        assert result["signature"].startswith("nrefs:1|case:")
    # 40 lines of 10 tokens and a full stop; 14 of them have one wrong word.
    bleu = results["bleu"]
    assert (bleu["hypothesis_length"], bleu["reference_length"]) == (440, 440)
    assert bleu["brevity_penalty"] == 1
    assert bleu["precisions"][0] == pytest.approx(100 * 426 / 440)


def test_scores_are_those_of_the_sacrebleu_command(nmt: Nmt, files: Files) -> None:
    for words, options, labels in (
        ((), ("-m", "bleu", "chrf", "ter"), {"bleu": "BLEU", "chrf": "chrF2", "ter": "TER"}),
        (("--metric", "chrf++"), ("-m", "chrf", "--chrf-word-order", "2"), {"chrf++": "chrF2++"}),
        ((*BLEU, "--lowercase", "--tokenize", "char"), ("-lc", "-tok", "char"), {"bleu": "BLEU"}),
    ):
        ours = scores(nmt, files.reference, files.new, *words)
        printed = json.loads(sacrebleu(files.reference, "-i", files.new, *options))
        theirs = {one["name"]: one for one in (printed if isinstance(printed, list) else [printed])}
        assert list(ours) == list(labels)
        for name, label in labels.items():
            assert ours[name]["name"] == label
            assert ours[name]["score"] == pytest.approx(theirs[label]["score"], abs=1e-12)
            assert ours[name]["signature"] == theirs[label]["signature"]


@pytest.mark.parametrize(
    ("system", "target", "published"),
    [
        ("google", "de", 28.81),
        ("bergamot-base-memory", "de", 28.09),
        ("google", "fr", 26.47),
        ("bergamot-base-memory", "fr", 34.25),
    ],
)
def test_published_bleu_of_real_systems(
    real_text: Callable[[str], Path], nmt: Nmt, system: str, target: str, published: float
) -> None:
    reference = real_text("wmt-news") / f"newstest2013.en-{target}.{target}.gz"
    hypothesis = real_text("wmt13-outputs") / f"newstest2013.en-{target}.{system}.{target}.gz"
    found = scores(nmt, reference, hypothesis, *BLEU)["bleu"]["score"]
    assert found == pytest.approx(published, abs=0.005)


def test_a_table_has_a_row_for_each_metric(nmt: Nmt, files: Files) -> None:
    (rows,) = tables(nmt("score", files.reference, files.new).stdout)
    assert [row["metric"] for row in rows] == ["BLEU", "chrF2", "TER"]
    for row, result in zip(rows, scores(nmt, files.reference, files.new).values(), strict=True):
        assert row["score"] == f"{result['score']:.2f}"
        assert row["signature"] == result["signature"]


@pytest.mark.parametrize("words", [(), ("--confidence", "95")])
def test_a_narrow_terminal_shows_whole_signatures(
    nmt: Nmt, files: Files, words: tuple[str, ...]
) -> None:
    command = [sys.executable, "-m", "nmt", "score", files.reference, files.new, *BLEU, *words]
    shell = shlex.join(map(str, command)) + " >&2"
    terminal = OnTerminal(["bash", "-c", shell], columns=60)
    assert terminal.finish() == 0
    table = [line for line in terminal.screen if line.startswith("│")]
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in table]
    shown = ["".join(column) for column in zip(*rows, strict=True)]
    assert scores(nmt, files.reference, files.new, *BLEU, *words)["bleu"]["signature"] in shown


def test_more_references_can_only_help(nmt: Nmt, files: Files, tmp_path: Path) -> None:
    other = write(tmp_path / "other.de", [line.replace("steht", "ist") for line in REFERENCE])
    both = scores(nmt, files.reference, files.new, "--reference", other)
    assert both["bleu"]["score"] == pytest.approx(100)
    assert "nrefs:2" in both["bleu"]["signature"]


# ---------------------------------------------------------------------------- forms of text


def test_stdin_files_sgml_and_tsv_score_alike(nmt: Nmt, files: Files, tmp_path: Path) -> None:
    def sgml(name: str, lines: list[str]) -> Path:
        segments = [f'<seg id="{n}">{line}</seg>' for n, line in enumerate(lines, start=1)]
        return write(tmp_path / name, ['<doc docid="one">', *segments, "</doc>"])

    reference, new = files.reference, files.new
    expected = scores(nmt, reference, new, *BLEU)
    raw = new.read_bytes()
    assert scores(nmt, reference, *BLEU, stdin=raw) == expected
    assert scores(nmt, reference, "-", *BLEU, stdin=raw) == expected
    for suffix, compress in (
        (".gz", gzip.compress),
        (".bz2", bz2.compress),
        (".xz", lzma.compress),
    ):
        packed = tmp_path / f"new.de{suffix}"
        packed.write_bytes(compress(raw))
        assert scores(nmt, reference, packed, *BLEU) == expected
    pairs = write(tmp_path / "all.tsv", [f"{a}\t{b}" for a, b in zip(REFERENCE, NEW, strict=True)])
    assert scores(nmt, f"{pairs}:1", f"{pairs}:2", *BLEU) == expected
    references = sgml("ref.de.sgm", REFERENCE)
    assert scores(nmt, references, sgml("new.sgm", NEW), *BLEU) == expected
    assert scores(nmt, references, new, *BLEU) == expected


def test_files_may_be_in_another_encoding(nmt: Nmt, tmp_path: Path) -> None:
    latin = tmp_path / "latin.de"
    latin.write_bytes("Die Größe der Häuser am See.\n".encode("iso-8859-1"))
    words = (latin, "--encoding", "iso-8859-1", *BLEU)
    # Stdin is UTF-8, as `nmt translate` writes it.
    stdin = "Die Größe der Häuser am See.\n".encode()
    answer = nmt("score", "--json", *words, stdin=stdin)
    assert json.loads(answer.stdout)["bleu"]["score"] == pytest.approx(100)
    line = refusal(nmt, 1, *words, stdin=latin.read_bytes())
    assert "stdin: line 1 is not valid utf-8" in line
    assert f"{latin}: line 1 is not valid utf-8" in refusal(nmt, 1, latin, latin)


def test_line_separators_inside_real_lines_do_not_split_them(
    real_text: Callable[[str], Path], nmt: Nmt
) -> None:
    news = real_text("wmt-news")
    reference = news / "newstest2009.en-de.de.gz"
    assert "\x85" in gzip.decompress(reference.read_bytes()).decode()
    source = news / "newstest2009.en-de.en.gz"  # has none, so the two agree only if unsplit
    assert nmt("score", reference, source, *BLEU).status == 0


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("short.de", b"eins\nzwei\n", "ref.de has 40, {0} has 2"),
        ("empty", b"", "ref.de has 40, {0} has 0"),
        ("missing", None, "{0}: No such file"),
        ("latin", b"eins\nzwei\ngr\xfc\xdfe\n", "{0}: line 3 is not valid utf-8"),
        (
            "list",
            b"0 ||| Das ist ein Test. ||| -0.500000\n",
            "{0} is an n-best list (LINE ||| TEXT ||| SCORE), not plain text",
        ),
    ],
)
def test_files_that_cannot_be_scored_are_named(
    nmt: Nmt, files: Files, tmp_path: Path, name: str, content: bytes | None, message: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    assert message.format(path) in refusal(nmt, 1, files.reference, path)
    assert str(path) in refusal(nmt, 1, files.reference, files.new, "--baseline", path)


def test_closed_streams_are_reported(files: Files) -> None:
    def answer_of(redirection: str, *words: Path) -> str:
        command = f'"$0" -m nmt score "$@" {redirection}'
        done = subprocess.run(
            ["sh", "-c", command, sys.executable, *words],
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        assert done.returncode == 2
        return done.stderr

    closed = "nmt: error: stdin is closed; name the file of each text\n"
    assert answer_of("<&-", files.reference) == closed
    closed = "nmt: error: stdout is closed, where the answer would go\n"
    assert answer_of(">&-", files.reference, files.new) == closed


def test_a_file_name_may_be_any_bytes(nmt: Nmt, files: Files, tmp_path: Path) -> None:
    baseline = Path(os.fsdecode(os.fsencode(tmp_path) + b"/old\xff.de"))
    baseline.write_bytes(files.old.read_bytes())
    answer = nmt("score", files.reference, files.new, *BLEU, "--baseline", baseline, *FEW)
    assert "old\\udcff.de\t" in answer.stdout


# ------------------------------------------------------------------- intervals and baselines


def test_intervals_are_those_of_the_sacrebleu_command(nmt: Nmt, files: Files) -> None:
    found = scores(nmt, files.reference, files.new, *BLEU, "--confidence", "95")
    theirs = json.loads(sacrebleu(files.reference, "-i", files.new, "--confidence"))
    interval = found["bleu"]["confidence"]
    assert interval["percent"] == 95
    assert interval["mean"] == pytest.approx(theirs["confidence_mean"], rel=1e-5)
    half = (interval["upper"] - interval["lower"]) / 2
    assert half == pytest.approx(theirs["confidence_var"], rel=1e-4)
    assert found["bleu"]["signature"] == theirs["signature"]


def test_intervals_have_a_column_of_their_own(nmt: Nmt, files: Files) -> None:
    words = ("score", files.reference, files.new, "--confidence", "90", "--samples", "100", *BLEU)
    ((row,),) = tables(nmt(*words).stdout)
    lower, upper = map(float, row["90 % interval"].split(" to "))
    assert lower < float(row["score"]) < upper
    assert "bs:100|seed:12345" in row["signature"]
    ((other,),) = tables(nmt(*words, "--seed", "2").stdout)
    assert other["90 % interval"] != row["90 % interval"]


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
    answer = nmt("score", files.reference, files.new, *baselines, *BLEU, *FEW)
    first, second = tables(answer.stdout)
    assert [row["metric"] for row in first] == ["BLEU"]
    assert "95 % interval" not in first[0]
    assert [row["baseline"] for row in second] == [str(files.old), str(files.new)]
    itself = second[1]
    assert (itself["its score"], itself["difference"]) == (first[0]["score"], "+0.00")
    assert itself["p, paired bootstrap"] == itself["p, approximate randomisation"] == "1.0000"
    lower, upper = map(float, second[0]["95 % interval"].split(" to "))
    assert lower < float(second[0]["difference"]) < upper


# --------------------------------------------------------------------------- lines, and the card


def test_single_lines_have_a_row_each(nmt: Nmt, files: Files) -> None:
    words = ("--sentences", "--baseline", files.old, *BLEU, "--metric", "ter")
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


def test_json_has_single_lines_and_the_total(nmt: Nmt, files: Files) -> None:
    words = (files.reference, files.new, "--baseline", files.old, "--metric", "ter", *FEW)
    total, with_lines = scores(nmt, *words)["ter"], scores(nmt, *words, "--sentences")["ter"]
    assert len(with_lines["sentences"]) == len(with_lines["baselines"][0]["sentences"]) == 40
    assert with_lines["sentence_signature"].startswith("nrefs:1|")
    assert with_lines["score"] == total["score"]
    assert "sentences" not in total


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
    answer = nmt("score", files.reference, files.new, "--card", "--tgt", "xx")
    assert answer.status == 0
    assert "--tgt xx: Moses has no rules for it" in answer.stderr


# -------------------------------------------------------------------------- warnings, refusals


def test_warnings_name_each_file(nmt: Nmt, files: Files, tmp_path: Path) -> None:
    answer = nmt("score", files.reference, files.source, "--source", files.source, "--quiet")
    assert answer.status == 0
    (line,) = answer.stderr.splitlines()
    assert line.startswith(f"nmt: warning: {files.source}: 40 of 40 lines equal those of")
    assert nmt("score", files.reference, files.new, "--source", files.source).stderr == ""
    bad = write(tmp_path / "bad.de", ["Hau@@ s", *NEW[1:]])
    answer = nmt("score", files.reference, files.new, "--baseline", bad, *BLEU, *FEW)
    assert f"warning: {bad}: 1 of 40 lines hold subword marks" in answer.stderr


def test_tokenised_text_is_warned_about_unless_it_is_intended(nmt: Nmt, tmp_path: Path) -> None:
    reference = write(tmp_path / "ref", ["Das ist sehr gut."] * 100)
    tokenised = write(tmp_path / "tok", ["Das ist gut ."] * 100)
    answer = nmt("score", reference, tokenised)
    assert answer.stderr.startswith(f"nmt: warning: {tokenised}: 100 of 100 lines end in ' .'")
    assert nmt("score", "--tokenize", "none", reference, tokenised).stderr == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--metric blue", "--metric blue: unknown; did you mean 'bleu'?"),
        ("--tokenize zhh", "--tokenize zhh: unknown; did you mean 'zh'?"),
        ("--tokenize zh --metric ter", "--tokenize is BLEU's"),
        ("--samples 50", "--samples is for --confidence and --baseline"),
        ("--seed 1", "--seed is for --confidence and --baseline"),
        ("--confidence 95 --trials 50", "--trials is for --baseline"),
        ("--confidence 99 --samples 100", "--samples 200"),
        ("--sentences --confidence 95", "leave out --confidence"),
        ("--sentences --baseline old.de --seed 1", "--seed is for --confidence"),
        ("--reference -", "- is stdin, which only HYPOTHESIS can be here"),
        ("--source -", "- is stdin, which only HYPOTHESIS can be here"),
        ("--tgt de", "--tgt is for --card"),
        ("--card --metric ter", "leave out --metric"),
        ("--card --tgt ja", "--tokenize char"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    nmt: Nmt, files: Files, words: str, message: str
) -> None:
    assert message in refusal(nmt, 2, files.reference, files.new, *words.split())


def test_missing_arguments_are_wrong_usage(nmt: Nmt, files: Files, tmp_path: Path) -> None:
    assert "REFERENCE" in refusal(nmt, 2)
    unnamed = write(tmp_path / "reference", REFERENCE)
    assert "pass --tgt" in refusal(nmt, 2, unnamed, files.new, "--card")
