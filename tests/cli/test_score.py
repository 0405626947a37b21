"""`nmt score`: tables, JSON, intervals, baselines, the card, lines, and the sacrebleu command."""

import json
import lzma
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from command_line import Nmt, write
from sacrebleu import corpus_bleu

from nmt.scoring.tokenizers import has_packages

REFERENCE = [f"Das {number}. Haus steht seit vielen Jahren am See." for number in range(40)]
NEW = [line.replace("steht", "steht" if n % 3 else "ist") for n, line in enumerate(REFERENCE)]
OLD = [line.replace("vielen", "vielen" if n % 2 else "langen") for n, line in enumerate(REFERENCE)]
SOURCE = [f"The {number}th house has been by the lake for many years." for number in range(40)]

BLEU = ("--metric", "bleu")


class Files(NamedTuple):
    reference: Path
    new: Path
    old: Path
    source: Path


@pytest.fixture
def files(tmp_path: Path) -> Files:
    texts = {"ref.de": REFERENCE, "new.de": NEW, "old.de": OLD, "src.en": SOURCE}
    return Files(*(write(tmp_path / name, lines) for name, lines in texts.items()))


def scores(nmt: Nmt, *words: str | Path, stdin: bytes | None = None) -> dict[str, Any]:
    """Return the answer of `nmt score --json`."""
    answer = nmt("score", "--json", *words, stdin=stdin).succeeded()
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


def test_json_is_one_object_bleu_first_and_the_table_has_its_rows(nmt: Nmt, files: Files) -> None:
    results = scores(nmt, files.reference, files.new)
    assert list(results) == ["bleu", "chrf"]  # TER takes minutes if lines are long
    # 40 lines of 10 tokens and a full stop; 14 of them have one wrong word.
    bleu = results["bleu"]
    assert (bleu["hypothesis_length"], bleu["reference_length"]) == (440, 440)
    assert bleu["brevity_penalty"] == 1
    assert bleu["precisions"][0] == pytest.approx(100 * 426 / 440)

    (rows,) = tables(nmt("score", files.reference, files.new).stdout)
    assert [row["metric"] for row in rows] == ["BLEU", "chrF2"]
    for row, result in zip(rows, results.values(), strict=True):
        assert row["score"] == f"{result['score']:.2f}"
        assert row["signature"] == result["signature"]


def test_scores_and_intervals_are_those_of_the_sacrebleu_command(nmt: Nmt, files: Files) -> None:
    words = (*BLEU, "--lowercase", "--tokenize", "char", "--confidence", "95")
    ours = scores(nmt, files.reference, files.new, *words)["bleu"]
    ((row,),) = tables(nmt("score", files.reference, files.new, *words).stdout)
    lower, upper = map(float, row["95 % interval"].split(" to "))
    assert lower < float(row["score"]) < upper
    assert "bs:1000|seed:12345" in row["signature"] == ours["signature"]
    options = ("-lc", "-tok", "char", "--confidence")
    theirs = json.loads(sacrebleu(files.reference, "-i", files.new, *options))
    assert ours["score"] == pytest.approx(theirs["score"], abs=1e-12)
    assert ours["signature"] == theirs["signature"]
    interval = ours["confidence"]
    assert interval["mean"] == pytest.approx(theirs["confidence_mean"], rel=1e-5)
    half = (interval["upper"] - interval["lower"]) / 2
    assert half == pytest.approx(theirs["confidence_var"], rel=1e-4)


def test_signatures_stay_whole(nmt: Nmt, files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    words = (files.reference, files.new, *BLEU, "--confidence", "95")
    signature = scores(nmt, *words)["bleu"]["signature"]
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    shown = re.sub(r"\x1b\[[\d;]*m", "", nmt("score", *words).stdout)
    assert f"BLEU: {signature}" in shown.replace("\n", "")  # on lines of its own


def test_there_may_be_more_references(nmt: Nmt, files: Files, tmp_path: Path) -> None:
    other = write(tmp_path / "other.de", [line.replace("steht", "ist") for line in REFERENCE])
    both = scores(nmt, files.reference, files.new, "--reference", other)
    assert both["bleu"]["score"] == pytest.approx(100)
    assert "nrefs:2" in both["bleu"]["signature"]


def test_stdin_files_sgml_and_tsv_score_alike(nmt: Nmt, files: Files, tmp_path: Path) -> None:
    def sgml(name: str, lines: list[str]) -> Path:
        segments = [f'<seg id="{n}">{line}</seg>' for n, line in enumerate(lines, start=1)]
        return write(tmp_path / name, ['<doc docid="one">', *segments, "</doc>"])

    raw, packed = files.new.read_bytes(), tmp_path / "new.de.xz"
    packed.write_bytes(lzma.compress(raw))
    pairs = write(tmp_path / "all.tsv", [f"{a}\t{b}" for a, b in zip(REFERENCE, NEW, strict=True)])
    reference, new = sgml("ref.de.sgm", REFERENCE), sgml("new.sgm", NEW)
    expected = scores(nmt, files.reference, files.new, *BLEU)
    assert scores(nmt, files.reference, *BLEU, stdin=raw) == expected
    for words in (
        (files.reference, packed),
        (f"{pairs}:1", f"{pairs}:2"),
        (reference, new),
        (reference, files.new),
        (files.reference, "-"),
    ):
        assert scores(nmt, *words, *BLEU, stdin=raw) == expected


def test_both_sides_may_be_tables_or_documents(nmt: Nmt, files: Files, tmp_path: Path) -> None:
    rows = [
        json.dumps({"src": a, "ref": b, "new": c, "old": d})
        for a, b, c, d in zip(SOURCE, REFERENCE, NEW, OLD, strict=True)
    ]
    table = write(tmp_path / "all.jsonl", rows)
    messages = [f'msgid "{a}"\nmsgstr "{b}"' for a, b in zip(SOURCE, NEW, strict=True)]
    catalogue = write(tmp_path / "new.po", messages)
    words = ("--reference", files.old, "--baseline", files.old, *BLEU)
    expected = scores(nmt, files.reference, files.new, *words)["bleu"]["score"]
    more = ("--reference", f"{table}:old", "--baseline", f"{table}:old", "--source", f"{table}:src")
    for output in (f"{table}:new", catalogue):
        assert scores(nmt, f"{table}:ref", output, *more, *BLEU)["bleu"]["score"] == expected
    short = write(tmp_path / "short.po", messages[1:])
    assert f"{short} has 39" in nmt("score", files.reference, short).refusal(1)


def test_a_document_on_stdin_is_refused(nmt: Nmt, files: Files) -> None:
    stdin = b"1\n00:00:01,000 --> 00:00:02,500\nJa.\n"
    assert "stdin is subtitles" in nmt("score", files.reference, stdin=stdin).refusal(1)


def test_quoting_is_csv_or_none(nmt: Nmt, files: Files) -> None:
    for words in (("score", files.old, files.new), ("rescore", files.old, "--source", files.new)):
        assert "--quoting a.tsv=x" in nmt(*words, "--quoting", "a.tsv=x").refusal(2)


def test_files_may_be_in_another_encoding(nmt: Nmt, tmp_path: Path) -> None:
    latin = tmp_path / "latin.de"
    latin.write_bytes("Die Größe der Häuser am See.\n".encode("iso-8859-1"))
    words = (latin, "--encoding", "iso-8859-1", *BLEU)
    # Stdin is UTF-8, as `nmt translate` writes it.
    stdin = "Die Größe der Häuser am See.\n".encode()
    assert scores(nmt, *words, stdin=stdin)["bleu"]["score"] == pytest.approx(100)
    assert "stdin: line 1 " in nmt("score", *words, stdin=latin.read_bytes()).refusal(1)


def test_baselines_have_a_table_of_their_own(nmt: Nmt, files: Files) -> None:
    words = (files.reference, files.new, "--baseline", files.old, "--baseline", files.new, *BLEU)
    first, second = tables(nmt("score", *words).stdout)
    assert [row["metric"] for row in first] == ["BLEU"]
    assert "95 % interval" not in first[0]
    assert [row["baseline"] for row in second] == [str(files.old), str(files.new)]
    itself = second[1]
    assert (itself["its score"], itself["difference"]) == (first[0]["score"], "+0.00")
    assert itself["p, paired bootstrap"] == itself["p, approximate randomisation"] == "1.0000"
    lower, upper = map(float, second[0]["95 % interval"].split(" to "))
    assert lower < float(second[0]["difference"]) < upper

    found = scores(nmt, *words)["bleu"]
    old, _ = found["baselines"]
    assert old["file"] == str(files.old)
    assert old["difference"] == found["score"] - old["score"]
    assert "bs:1000|ar:10000|seed:12345" in found["signature"]


def test_the_verdict_on_a_baseline_is_in_words(nmt: Nmt, files: Files) -> None:
    def verdicts(output: Path, baseline: Path, *words: str) -> list[str]:
        metrics = ("--metric", "bleu", "--metric", "ter", *words)
        said = nmt("score", files.reference, output, "--baseline", baseline, *metrics).stderr
        return [line for line in said.splitlines() if "warning" not in line]

    for output, baseline, words in (
        (files.reference, files.new, "better than"),
        (files.new, files.reference, "worse than"),
        (files.new, files.new, "may be chance"),
    ):
        bleu, ter = verdicts(output, baseline)
        assert bleu.startswith("nmt: BLEU: ") and ter.startswith("nmt: TER: ")
        assert words in bleu and words in ter
    assert not verdicts(files.new, files.old, "--json")


def test_the_card_is_of_the_language_that_the_reference_ends_in(nmt: Nmt, files: Files) -> None:
    (rows,) = tables(nmt("score", files.reference, files.new, "--card").stdout)
    kinds = ("", "lower-cased ", "tokenised ", "compound-split ", "lower-cased tokenised ")
    assert [row["metric"] for row in rows] == [f"{kind}BLEU" for kind in kinds]
    for row in rows:
        assert row.keys() == {"metric", "score", "comparable with", "signature"}
    words = ("--card", "--lang", "fr", "--confidence", "95")
    found = scores(nmt, files.reference, files.new, *words)
    assert list(found) == ["bleu", "bleu-lowercase", "bleu-tokenised", "bleu-tokenised-lowercase"]
    assert "-fr|" in found["bleu-tokenised"]["signature"]
    assert "only for comparison" in found["bleu-tokenised"]["comparable_with"]
    assert found["bleu-tokenised"]["confidence"]["lower"] < found["bleu-tokenised"]["score"]
    for lang, more, told in (("xx", ("--card",), "xx: Moses"), ("klingon", (), "klingon: ")):
        answer = nmt("score", files.reference, files.new, "--lang", lang, *more).succeeded()
        assert f"--lang {told}" in answer.stderr


ZH = ["红色的门打开着，请进来看看。", "一只小狗在这里睡着，很安静。"]
OTHER_ZH = ["红色的门开着，请进来看看。", "一只小狗在这里睡觉，很安静。"]


@pytest.mark.parametrize(
    ("name", "words", "tokenizer", "told"),
    [
        ("ref.th", (), "char", "BLEU's tokenizer"),
        ("ref.my", ("--lang", "zh_TW"), "zh", "BLEU's tokenizer"),
        ("ref.zh", ("--tokenize", "char"), "char", None),
        ("test.xml", (), "zh", "BLEU's tokenizer"),
        ("ref.txt", (), "13a", "warning: .*ref.txt: 2 of 2 .*--tokenize .*--lang"),
    ],
)
def test_the_tokenizer_is_that_of_the_language(
    nmt: Nmt, tmp_path: Path, name: str, words: tuple[str, ...], tokenizer: str, told: str | None
) -> None:
    segments = [f'<seg id="{n}">{line}</seg>' for n, line in enumerate(ZH)]
    xml = ['<dataset><doc><ref lang="zh">', *segments, "</ref></doc></dataset>"]
    path = write(tmp_path / name, xml if name.endswith(".xml") else ZH)
    answer = nmt("score", "--json", path, write(tmp_path / "output", OTHER_ZH), *words, *BLEU)
    bleu = json.loads(answer.stdout)["bleu"]
    assert bleu["score"] == pytest.approx(corpus_bleu(OTHER_ZH, [ZH], tokenize=tokenizer).score)
    assert f"|tok:{tokenizer}|" in bleu["signature"]
    assert re.search(told, answer.stderr) if told else not answer.stderr


def test_a_tokenizer_that_is_not_installed_is_told_of(nmt: Nmt, tmp_path: Path) -> None:
    if has_packages("ko-mecab"):
        pytest.skip("the extra is installed")
    path = write(tmp_path / "ref.ko", ["나는 오늘 어머니와 시장에 갑니다."])
    answer = nmt("score", path, path, *BLEU)
    assert "tok:13a" in answer.stdout
    assert "sacrebleu[ko]" in answer.stderr
    assert "sacrebleu[ko]" in nmt("score", path, path, "--tokenize", "ko-mecab").refusal(2)


def test_ter_splits_chinese_into_characters(nmt: Nmt, tmp_path: Path) -> None:
    reference, output = write(tmp_path / "ref.zh", ZH), write(tmp_path / "out", OTHER_ZH)
    assert "asian:yes" in scores(nmt, reference, output, "--metric", "ter")["ter"]["signature"]
    thai = write(tmp_path / "ref.th", ["ฉันไปตลาดวันนี้กับแม่"])
    assert "TER would split" in nmt("score", thai, thai, "--metric", "ter").stderr


def test_warnings_name_each_file(nmt: Nmt, files: Files, tmp_path: Path) -> None:
    words = ("score", files.reference, "--source", files.source)
    (line,) = nmt(*words, files.source, "--quiet").succeeded().stderr.splitlines()
    assert line.startswith(f"nmt: warning: {files.source}: 40 of 40 lines equal")
    assert nmt(*words, files.new).stderr == ""
    bad = write(tmp_path / "bad.de", [line.replace(".", " &quot; .") for line in NEW])
    compared = ("score", files.reference, files.new, "--baseline", bad, *BLEU)
    assert re.search(f"nmt: warning: {bad}: 40 of 40 .*entities", nmt(*compared).stderr)
    assert nmt(*compared, "--tokenize", "none", "--quiet").stderr == ""  # tokens are intended


@pytest.mark.parametrize(
    ("line", "words", "is_warned"),
    [
        ("Ja, gut", (), True),
        ("Ja, gut.", (), False),  # four tokens
        ("Ja, gut", ("--metric", "chrf"), False),
    ],
)
def test_bleu_of_lines_that_are_too_short_for_it_points_to_chrf(
    nmt: Nmt, tmp_path: Path, line: str, words: tuple[str, ...], is_warned: bool
) -> None:
    reference = write(tmp_path / "ref.de", ["Nein danke, lieber nicht.", "Ja"])
    output = write(tmp_path / "out.de", [line, line])
    told = nmt("score", reference, output, *words).succeeded().stderr
    assert ("report chrF" in told) == is_warned
