"""`nmt rescore`: perplexity, lines with their scores, n-best lists in another order."""

import json
import math
import re
import subprocess
from pathlib import Path

import pytest
from command_line import Nmt, write

from nmt.models.model_file import model_checksum
from nmt.translate.rescoring import Likelihood, score_pairs
from nmt.translate.translator import Translator

SOURCES = ["the cat sees the dog", "a red bird.", "", "the old house and then the river", "x"]
TARGETS = ["the dog sees the cat", "a small bird", "", "the tree", "and then slowly the cat"]
OTHERS = ["the dog", "a bird", "", "the tree and the dog", "the house"]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write(tmp_path / "test.en", SOURCES)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return write(tmp_path / "test.de", TARGETS)


def likelihood(targets: list[str], *models: Path) -> Likelihood:
    found = Likelihood()
    list(score_pairs(Translator.load(models), zip(SOURCES, targets, strict=True), found))
    return found


def answer(nmt: Nmt, *words: str | Path, stdin: str | None = None) -> str:
    found = nmt("rescore", *words, stdin=None if stdin is None else stdin.encode())
    assert (found.status, found.stderr) == (0, "")
    return found.stdout


@pytest.mark.parametrize("is_ensemble", [False, True])
def test_perplexity_of_a_text(
    nmt: Nmt, source: Path, target: Path, model_file: Path, other_model: Path, is_ensemble: bool
) -> None:
    models = (model_file, other_model) if is_ensemble else (model_file,)
    ensemble = ("--ensemble", other_model) if is_ensemble else ()
    words = (model_file, target, "--source", source, "--device", "cpu", *ensemble)
    results = json.loads(answer(nmt, *words, "--json"))
    assert list(results) == ["perplexity"]
    found, expected = results["perplexity"], likelihood(TARGETS, *models)
    assert found["score"] == pytest.approx(math.exp(-expected.log_prob / expected.tokens))
    assert found["nll"] == pytest.approx(-expected.log_prob / expected.tokens)
    assert (found["tokens"], found["lines"]) == (expected.tokens, len(TARGETS))
    checksums = "+".join(model_checksum(model)[:12] for model in models)
    assert found["signature"].startswith(
        f"model:{checksums}|subwords:330|eos:yes|precision:fp32|version:nmt-"
    )
    columns, cells = (row.split("\t") for row in answer(nmt, *words).splitlines())
    assert columns == ["perplexity", "signature", "nll", "log-probability", "tokens", "lines"]
    assert cells[:3] == [f"{found['score']:.3f}", found["signature"], f"{found['nll']:.3f}"]


def test_both_sides_may_be_of_one_catalogue(nmt: Nmt, tmp_path: Path, model_file: Path) -> None:
    messages = [
        f'msgid "{source or "3"}"\nmsgstr "{target}"'
        for source, target in zip(SOURCES, TARGETS, strict=True)
    ]
    path = write(tmp_path / "a.po", messages)
    rows = answer(nmt, model_file, path, "--source", path, "--scores").splitlines()
    assert [row.split("\t")[1] for row in rows] == TARGETS


def test_a_text_with_scores_is_no_translation(nmt: Nmt, source: Path, model_file: Path) -> None:
    scored = "".join(f"-1.5\t{line}\n" for line in OTHERS).encode()
    refused = nmt("rescore", model_file, "--source", source, stdin=scored)
    assert "stdin is SCORE<TAB>TEXT" in refused.refusal(1)


def test_stdin_is_the_text_that_is_not_named(nmt: Nmt, source: Path, model_file: Path) -> None:
    others = "".join(f"{line}\n" for line in OTHERS)
    expected = likelihood(OTHERS, model_file).perplexity
    for words in ((), ("-",)):
        words = (model_file, *words, "--json", "--source", source)
        results = json.loads(answer(nmt, *words, stdin=others))
        assert results["perplexity"]["score"] == pytest.approx(expected)


def test_lines_are_those_of_the_translator_for_the_same_text(
    nmt: Nmt, tmp_path: Path, source: Path, target: Path, model_file: Path
) -> None:
    # The translator is left no choice but its prefixes; blank lines have none.
    pairs = zip(SOURCES, TARGETS, strict=True)
    prefixed = write(tmp_path / "prefixed", [f"{line}\t{text}" for line, text in pairs])
    forced = ("--prefixes", "--max-tokens", "0", "--quiet", "--workers", "1")
    search = ("translate", model_file, "--input", prefixed, *forced)
    words = (model_file, target, "--source", source)
    penalty = ("--length-penalty", "1.5", "--length-penalty-form", "power")

    expected = [row.split("\t") for row in nmt(*search, "--scores", *penalty).stdout.splitlines()]
    found = [row.split("\t") for row in answer(nmt, *words, "--scores", *penalty).splitlines()]
    assert [text for _, text in found] == [text for _, text in expected] == TARGETS
    scores = [float(score) for score, _ in expected]
    assert [float(score) for score, _ in found] == pytest.approx(scores, abs=1e-5)

    texts = (nmt(*search, "--format", "jsonl").stdout, answer(nmt, *words, "--tokens"))
    objects = ([json.loads(row) for row in text.splitlines()] for text in texts)
    for one, other in zip(*objects, strict=True):
        assert one.keys() == other.keys()
        for key, value in one.items():
            is_float = isinstance(value, float) or key == "token_log_probs"
            assert other[key] == (pytest.approx(value, abs=1e-5) if is_float else value)


def test_an_n_best_list_is_read_written_and_put_into_order(
    nmt: Nmt, source: Path, model_file: Path, other_model: Path
) -> None:
    def parsed(text: str) -> list[tuple[int, str, float]]:
        rows = (row.split(" ||| ") for row in text.splitlines())
        return [(int(line), content, float(score)) for line, content, score in rows]

    options = ("--n-best", "3", "--max-tokens", "5", "--quiet", "--workers", "1")
    searched = nmt("translate", model_file, "--input", source, *options).stdout
    words = (other_model, "--n-best", "-", "--source", source)
    before, after = parsed(searched), parsed(answer(nmt, *words, stdin=searched))
    assert after != before
    pairs = [(SOURCES[line], text) for line, text, _ in before]
    scored = score_pairs(Translator.load(other_model), pairs, Likelihood())
    others = [found.score for found in scored]
    assert [row[2] for row in sorted(after)] == pytest.approx(
        [score for _, score in sorted(zip(before, others, strict=True))], abs=1e-5
    )
    ranks = [(line, -score) for line, _, score in after]
    assert ranks == sorted(ranks)

    expected = sorted(
        (line, text, 0.75 * score + 0.25 * other)
        for (line, text, score), other in zip(before, others, strict=True)
    )
    found = sorted(parsed(answer(nmt, *words, "--weight", "0.25", stdin=searched)))
    assert [row[:2] for row in found] == [row[:2] for row in expected]
    assert [row[2] for row in found] == pytest.approx([row[2] for row in expected], abs=1e-5)


def test_the_manual_s_awk_takes_each_line_s_best_and_reverses_words() -> None:
    readme = (Path(__file__).parents[2] / "nmt/translate/README.md").read_text(encoding="utf-8")
    functions = re.findall(r"^(?:best|reverse)\(\) \{ .*?; \}$", readme, re.DOTALL | re.MULTILINE)
    assert len(functions) == 2

    def run(command: str, text: str) -> str:
        script = "\n".join([*functions, command])
        return subprocess.run(
            ["bash", "-c", script], input=text, capture_output=True, text=True, check=True
        ).stdout

    n_best = "0 ||| a ||| c ||| -1.0\n0 ||| d ||| -2.0\n1 |||  ||| 0.0\n12 ||| e f ||| -inf\n"
    assert run("best", n_best) == "a ||| c\n\ne f\n"
    assert run("reverse | best", n_best) == "c ||| a\n\nf e\n"
    assert run("reverse | reverse", n_best) == n_best


def test_endless_lines_fail(nmt: Nmt, tmp_path: Path, model_file: Path) -> None:
    endless = write(tmp_path / "endless", ["a", "q" * 5_000])
    found = nmt("rescore", model_file, endless, "--scores", "--source", endless)
    assert found.status == 1
    assert [row.split("\t")[1][:3] for row in found.stdout.splitlines()] == ["a", "qqq"]
    assert found.stdout.splitlines()[1].startswith("-inf\t")
    assert re.search("line 2: .*4,096 tokens", found.stderr.splitlines()[-1])
