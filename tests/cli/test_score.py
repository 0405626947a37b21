"""`nmt score` as it is called: exit statuses, stdin, table and JSON, and the sacrebleu command."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from terminal import OnTerminal

REFERENCE = ["Das ist ein Test.", "Die Katze lag auf der Matte.", "Gute Nacht!"]
HYPOTHESIS = ["Das ist ein Test.", "Die Katze saß auf der Matte.", "Guten Abend!"]

Answer = subprocess.CompletedProcess[str]


def run(*words: str | Path, stdin: bytes = b"", module: str = "nmt", check: bool = True) -> Answer:
    raw = subprocess.run(
        [sys.executable, "-m", module, *map(str, words)],
        input=stdin,
        capture_output=True,
        check=False,
        env={**os.environ, "NO_COLOR": "1"},
    )
    answer = Answer(raw.args, raw.returncode, raw.stdout.decode(), raw.stderr.decode())
    if check:
        assert answer.returncode == 0, answer.stderr
    return answer


def scores(*words: str | Path, stdin: bytes = b"") -> dict[str, Any]:
    """What `nmt score --json` says."""
    loaded = json.loads(run("score", "--json", *words, stdin=stdin).stdout)
    assert isinstance(loaded, dict)
    return loaded


def sacrebleu_scores(reference: Path, hypothesis: Path, *words: str) -> dict[str, Any]:
    """What the `sacrebleu` command says of the same files, by its own metric names."""
    answer = run(reference, "-i", hypothesis, "-w", "14", *words, module="sacrebleu")
    loaded = json.loads(answer.stdout)
    return {one["name"]: one for one in (loaded if isinstance(loaded, list) else [loaded])}


def refusal(*words: str | Path, status: int, stdin: bytes = b"") -> str:
    """The one line that a refused command leaves."""
    answer = run("score", *words, stdin=stdin, check=False)
    assert answer.returncode == status, answer.stderr
    assert answer.stdout == ""
    (line,) = answer.stderr.splitlines()
    assert line.startswith("nmt: error: ")
    return line


@pytest.fixture
def reference(tmp_path: Path) -> Path:
    return write(tmp_path / "ref.de", REFERENCE)


@pytest.fixture
def hypothesis(tmp_path: Path) -> Path:
    return write(tmp_path / "hyp.de", HYPOTHESIS)


def write(path: Path, lines: list[str]) -> Path:
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    return path


def assert_equal_to_sacrebleu(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> None:
    assert ours["name"] == theirs["name"]
    assert ours["score"] == pytest.approx(theirs["score"], abs=1e-12)
    assert ours["signature"] == theirs["signature"]


def test_json_is_one_object_with_bleu_first(reference: Path, hypothesis: Path) -> None:
    answer = run("score", reference, hypothesis, "--json")
    assert answer.stderr == ""
    results = json.loads(answer.stdout)
    assert list(results) == ["bleu", "chrf", "ter"]
    for result in results.values():
        assert isinstance(result["score"], float)
        assert result["signature"].startswith("nrefs:1|case:")
    # 3 sentences of 5, 7 and 3 tokens, the punctuation counted.
    bleu = results["bleu"]
    assert (bleu["hypothesis_length"], bleu["reference_length"]) == (15, 15)
    assert bleu["brevity_penalty"] == 1
    assert len(bleu["precisions"]) == 4
    assert bleu["precisions"][0] == pytest.approx(100 * 12 / 15)


def test_figures_are_those_of_the_sacrebleu_command(reference: Path, hypothesis: Path) -> None:
    ours = scores(reference, hypothesis, "--metric", "bleu", "--metric", "chrf", "--metric", "ter")
    theirs = sacrebleu_scores(reference, hypothesis, "-m", "bleu", "chrf", "ter")
    for name, label in (("bleu", "BLEU"), ("chrf", "chrF2"), ("ter", "TER")):
        assert_equal_to_sacrebleu(ours[name], theirs[label])
    theirs = sacrebleu_scores(reference, hypothesis, "-m", "chrf", "--chrf-word-order", "2")
    ours = scores(reference, hypothesis, "--metric", "chrf++")
    assert list(ours) == ["chrf++"]
    assert_equal_to_sacrebleu(ours["chrf++"], theirs["chrF2++"])


def test_the_table_has_a_row_for_each_metric(reference: Path, hypothesis: Path) -> None:
    rows = [line.split("\t") for line in run("score", reference, hypothesis).stdout.splitlines()]
    assert [row[0] for row in rows] == ["metric", "BLEU", "chrF2", "TER"]
    expected = scores(reference, hypothesis)
    for row, result in zip(rows[1:], expected.values(), strict=True):
        assert row[1] == f"{result['score']:.2f}"
        assert result["signature"] in row


@pytest.mark.parametrize("words", [(), ("--confidence", "95")])
def test_a_narrow_terminal_shows_whole_signatures(
    reference: Path, hypothesis: Path, words: tuple[str, ...]
) -> None:
    nmt = [sys.executable, "-m", "nmt", "score", reference, hypothesis, "--metric", "bleu", *words]
    shell = shlex.join(map(str, nmt)) + " >&2"
    terminal = OnTerminal(["bash", "-c", shell], columns=60)
    assert terminal.finish() == 0
    table = [line for line in terminal.screen if line.startswith("│")]
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in table]
    shown = ["".join(column) for column in zip(*rows, strict=True)]
    assert scores(reference, hypothesis, "--metric", "bleu", *words)["bleu"]["signature"] in shown


def test_the_hypothesis_may_come_from_stdin(reference: Path, hypothesis: Path) -> None:
    expected = scores(reference, hypothesis)
    assert scores(reference, stdin=hypothesis.read_bytes()) == expected
    assert scores(reference, "-", stdin=hypothesis.read_bytes()) == expected


def test_more_references_can_only_help(tmp_path: Path, reference: Path, hypothesis: Path) -> None:
    other = write(tmp_path / "other.de", ["Dies ist ein Test.", HYPOTHESIS[1], HYPOTHESIS[2]])
    both = scores(reference, hypothesis, "--reference", other)
    assert both["bleu"]["score"] == pytest.approx(100)
    assert "nrefs:2" in both["bleu"]["signature"]
    assert both["bleu"]["score"] > scores(reference, hypothesis)["bleu"]["score"]


@pytest.mark.parametrize(
    ("suffix", "compress"),
    [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)],
)
def test_files_may_be_compressed(
    suffix: str, compress: Any, reference: Path, hypothesis: Path
) -> None:
    packed = hypothesis.with_name(hypothesis.name + suffix)
    packed.write_bytes(compress(hypothesis.read_bytes()))
    assert scores(reference, packed) == scores(reference, hypothesis)


def test_unequal_numbers_of_lines_are_refused(
    tmp_path: Path, reference: Path, hypothesis: Path
) -> None:
    short = write(tmp_path / "short.de", HYPOTHESIS[:2])
    line = refusal(reference, short, status=1)
    assert f"{reference} has 3" in line
    assert f"{short} has 2" in line
    line = refusal(reference, hypothesis, "--reference", short, status=1)
    assert f"{short} has 2" in line
    assert "stdin has 1" in refusal(reference, stdin=b"eins\n", status=1)


def test_empty_files_are_refused(tmp_path: Path) -> None:
    empty = write(tmp_path / "empty", [])
    assert "nothing to score" in refusal(empty, empty, status=1)


def test_a_missing_file_is_named(tmp_path: Path, reference: Path) -> None:
    missing = tmp_path / "missing.de"
    assert str(missing) in refusal(reference, missing, status=1)
    assert str(missing) in refusal(missing, reference, status=1)


def test_invalid_utf8_is_named_with_its_line(tmp_path: Path, reference: Path) -> None:
    latin = tmp_path / "latin.de"
    latin.write_bytes(b"eins\nzwei\ngr\xfc\xdfe\n")
    line = refusal(reference, latin, status=1)
    assert str(latin) in line
    assert "line 3" in line or f"{latin}:3" in line


def test_files_may_be_of_another_encoding(tmp_path: Path, hypothesis: Path) -> None:
    latin = tmp_path / "latin.de"
    latin.write_bytes("".join(f"{line}\n" for line in HYPOTHESIS).encode("iso-8859-1"))
    words = (latin, "--encoding", "iso-8859-1", "--metric", "bleu")
    # stdin is what `nmt translate` has written: UTF-8.
    assert scores(*words, stdin=hypothesis.read_bytes())["bleu"]["score"] == pytest.approx(100)
    assert "stdin: line 2 is not valid utf-8" in refusal(*words, stdin=latin.read_bytes(), status=1)


def test_an_unknown_metric_is_refused(reference: Path, hypothesis: Path) -> None:
    line = refusal(reference, hypothesis, "--metric", "blue", status=2)
    assert "'blue'" in line
    assert "did you mean 'bleu'?" in line


def test_a_missing_reference_is_wrong_usage() -> None:
    refusal(status=2)


def test_case_and_tokenizer_are_the_users(reference: Path, hypothesis: Path) -> None:
    words = ("--lowercase", "--tokenize", "char", "--metric", "bleu")
    result = scores(reference, hypothesis, *words)["bleu"]
    theirs = sacrebleu_scores(reference, hypothesis, "-lc", "-tok", "char")["BLEU"]
    assert_equal_to_sacrebleu(result, theirs)
    line = refusal(reference, hypothesis, "--tokenize", "zhh", status=2)
    assert "did you mean 'zh'?" in line
    line = refusal(reference, hypothesis, "--tokenize", "zh", "--metric", "ter", status=2)
    assert "--tokenize" in line


def test_options_that_say_nothing_are_refused(reference: Path, hypothesis: Path) -> None:
    for words, message in (
        (("--samples", "50"), "--samples is for --confidence and --baseline"),
        (("--seed", "1"), "--seed is for --confidence and --baseline"),
        (("--confidence", "95", "--trials", "50"), "--trials is for --baseline"),
        (("--sentences", "--confidence", "95"), "leave out --confidence"),
        (("--sentences", "--baseline", reference, "--seed", "1"), "--seed is for --confidence"),
        (("--reference", "-"), "- is stdin, which only HYPOTHESIS can be here"),
        (("--source", "-"), "- is stdin, which only HYPOTHESIS can be here"),
    ):
        assert message in refusal(reference, hypothesis, *words, status=2)


def test_closed_streams_are_told(reference: Path, hypothesis: Path) -> None:
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

    assert answer_of("<&-", reference) == (
        "nmt: error: stdin is closed; name the file of each text\n"
    )
    assert answer_of(">&-", reference, hypothesis) == (
        "nmt: error: stdout is closed, where the answer would go\n"
    )


def test_a_baseline_s_name_may_be_any_bytes(
    tmp_path: Path, reference: Path, hypothesis: Path
) -> None:
    baseline = Path(os.fsdecode(os.fsencode(tmp_path) + b"/old\xff.de"))
    baseline.write_bytes(hypothesis.read_bytes())
    words = ("--metric", "bleu", "--baseline", baseline, "--trials", "10", "--samples", "40")
    assert "old\\udcff.de\t" in run("score", reference, hypothesis, *words).stdout


def test_tokenised_output_is_warned_about(tmp_path: Path) -> None:
    reference = write(tmp_path / "ref", ["Das ist sehr gut."] * 100)
    tokenised = write(tmp_path / "tok", ["Das ist gut ."] * 100)
    detokenised = write(tmp_path / "detok", ["Das ist gut."] * 100)
    answer = run("score", "--quiet", reference, tokenised)
    assert answer.stderr.startswith(f"nmt: warning: {tokenised}: 100 of 100 lines end in ' .'")
    assert run("score", reference, detokenised).stderr == ""
    assert run("score", "--tokenize", "none", reference, tokenised).stderr == ""


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
    real_text: Callable[[str], Path], system: str, target: str, published: float
) -> None:
    reference = real_text("wmt-news") / f"newstest2013.en-{target}.{target}.gz"
    hypothesis = real_text("wmt13-outputs") / f"newstest2013.en-{target}.{system}.{target}.gz"
    ours = scores(reference, hypothesis, "--metric", "bleu")["bleu"]
    assert ours["score"] == pytest.approx(published, abs=0.005)
    assert_equal_to_sacrebleu(ours, sacrebleu_scores(reference, hypothesis)["BLEU"])


def test_all_metrics_of_a_real_system_are_sacrebleus(
    real_text: Callable[[str], Path], tmp_path: Path
) -> None:
    # The first 500 lines: chrF and TER of all 3,000 take ten seconds each way.
    reference, hypothesis = (
        write(tmp_path / path.stem, gzip.decompress(path.read_bytes()).decode().split("\n")[:500])
        for path in (
            real_text("wmt-news") / "newstest2013.en-de.de.gz",
            real_text("wmt13-outputs") / "newstest2013.en-de.google.de.gz",
        )
    )
    ours = scores(reference, hypothesis)
    theirs = sacrebleu_scores(reference, hypothesis, "-m", "bleu", "chrf", "ter")
    for name, label in (("bleu", "BLEU"), ("chrf", "chrF2"), ("ter", "TER")):
        assert_equal_to_sacrebleu(ours[name], theirs[label])


def test_line_separators_inside_real_lines_do_not_split_them(
    real_text: Callable[[str], Path],
) -> None:
    news = real_text("wmt-news")
    reference = news / "newstest2009.en-de.de.gz"
    assert "\x85" in gzip.decompress(reference.read_bytes()).decode()
    assert scores(reference, reference, "--metric", "bleu")["bleu"]["score"] == pytest.approx(100)
    source = news / "newstest2009.en-de.en.gz"  # holds none, so the two agree only if unsplit
    scores(reference, source, "--metric", "bleu")


def test_an_n_best_list_is_not_scored_as_text(tmp_path: Path) -> None:
    (tmp_path / "ref").write_text("Das ist ein Test.\n")
    (tmp_path / "list").write_text("0 ||| Das ist ein Test. ||| -0.500000\n")
    answer = run("score", tmp_path / "ref", tmp_path / "list", check=False)
    assert (answer.returncode, answer.stdout) == (1, "")
    assert "list is an n-best list (LINE ||| TEXT ||| SCORE), not plain text" in answer.stderr
