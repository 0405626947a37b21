"""Metrics: worked out by hand on a few words, and equal to sacreBLEU's on any text."""

import math
from pathlib import Path
from urllib.error import URLError

import pytest
import sacrebleu

from nmt.errors import DataError
from nmt.scoring.bleu_card import bleu_card
from nmt.scoring.metrics import check_line_counts, make_metrics, score
from nmt.scoring.options import TOKENIZERS

HYPOTHESES = [
    'Er sagte: "Das ist, mit Verlaub, nicht 3,5 &amp; 4."',
    "Die Katze saß auf der Matte.",
    "",
    "wir haben keine Zeit\u2028für lange Reden",
    "Zürich, den 3. Mai 1998 - ein Überblick",
]
REFERENCES = [
    'Er sagte: "Das sind, mit Verlaub, keine 3,5 & 4!"',
    "Die Katze lag auf der Matte.",
    "Nichts.",
    "Für lange Reden haben wir keine Zeit",
    "ein Überblick: Zürich, 3. Mai 1998",
]
OTHER_REFERENCES = [line.replace("Die Katze", "Eine Katze") for line in REFERENCES]


def geometric_mean(*precisions: float) -> float:
    return math.prod(precisions) ** (1 / len(precisions))


def test_bleu_by_hand() -> None:
    # 1-grams: all but "sat". 2-grams: "the cat", "on the", "the mat". 3-grams: "on the mat".
    # 4-grams: none of 3, smoothed to half a match.
    result = score(["the cat sat on the mat"], [["the cat is on the mat"]])["bleu"]
    precisions = [5 / 6, 3 / 5, 1 / 4, 0.5 / 3]
    assert result.score == pytest.approx(100 * geometric_mean(*precisions))
    assert result.detail["precisions"] == pytest.approx([100 * p for p in precisions])
    assert result.detail["brevity_penalty"] == 1


def test_bleu_of_a_short_hypothesis_by_hand() -> None:
    # Every n-gram matches; 5 words where the reference has 6.
    result = score(["a b c d e"], [["a b c d e f"]])["bleu"]
    assert result.score == pytest.approx(100 * math.exp(1 - 6 / 5))
    assert (result.detail["hypothesis_length"], result.detail["reference_length"]) == (5, 6)


def test_a_blank_reference_beside_one_with_text_is_none() -> None:
    # The first line has 5 of 6 words of its only reference, the other has a reference of 5.
    lines = ["a b c d e", "a b c d e"]
    references = [["a b c d e f", "a b c d e f g h"], ["  ", "a b c d e"]]
    result = score(lines, references, ["bleu", "ter"])
    assert result["bleu"].score == pytest.approx(100 * math.exp(1 - 11 / 10))
    assert result["ter"].detail["reference_length"] == 6 + 13 / 2
    assert "nrefs:var" in result["bleu"].signature
    # In either order, and in other variants.
    assert score(lines, references[::-1], ["bleu"])["bleu"].score == result["bleu"].score
    for name, variant in bleu_card(references, "de").items():
        assert variant.score(variant.count(lines)).score == result["bleu"].score, name


def test_chrf_by_hand() -> None:
    # One of two letters is right, and the only pair of letters is wrong: (1/2 + 0/1) / 2.
    assert score(["ab"], [["ac"]], ["chrf"])["chrf"].score == pytest.approx(25)


def test_ter_by_hand() -> None:
    # One substitution, and one shift of "a" to the front: 2 edits for 6 reference words.
    result = score(["a b c", "b c a"], [["a b d", "a b c"]], ["ter"])["ter"]
    assert result.score == pytest.approx(100 * 2 / 6)
    assert result.detail["edits"] == 2


@pytest.mark.parametrize("references", [[REFERENCES], [REFERENCES, OTHER_REFERENCES]])
@pytest.mark.parametrize(
    ("name", "oracle"),
    [
        ("bleu", sacrebleu.BLEU()),
        ("chrf", sacrebleu.CHRF()),
        ("chrf++", sacrebleu.CHRF(word_order=2)),
        ("ter", sacrebleu.TER()),
    ],
)
def test_scores_and_signatures_are_sacrebleus(
    name: str, oracle: sacrebleu.metrics.base.Metric, references: list[list[str]]
) -> None:
    expected = oracle.corpus_score(HYPOTHESES, references)
    metric = make_metrics([name], references)[name]
    result = metric.score(metric.count(HYPOTHESES))
    assert (result.name, result.score) == (expected.name, expected.score)
    assert result.signature == str(oracle.get_signature())


def test_all_tokenizers_of_sacrebleu_are_offered() -> None:
    assert set(TOKENIZERS) == set(sacrebleu.BLEU.TOKENIZERS)


@pytest.mark.parametrize("tokenize", ["13a", "intl", "zh", "char", "none"])
def test_tokenizers_are_sacrebleus(tokenize: str) -> None:
    oracle = sacrebleu.BLEU(tokenize=tokenize)
    result = score(HYPOTHESES, [REFERENCES], tokenize=tokenize)["bleu"]
    assert result.score == oracle.corpus_score(HYPOTHESES, [REFERENCES]).score
    assert f"tok:{tokenize}|" in result.signature


@pytest.mark.parametrize("model", [None, b"", b"damaged"])
def test_a_tokenizer_without_its_model_is_refused(
    model: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def offline(_: str) -> None:
        raise URLError("no network")

    monkeypatch.setattr("urllib.request.urlopen", offline)
    monkeypatch.setattr("nmt.scoring.metrics.SACREBLEU_DIR", str(tmp_path))
    for module in ("utils", "tokenizers.tokenizer_spm"):
        monkeypatch.setattr(f"sacrebleu.{module}.SACREBLEU_DIR", str(tmp_path))
    path = tmp_path / "models" / "flores200sacrebleuspm"
    if model is not None:
        path.parent.mkdir()
        path.write_bytes(model)
    with pytest.raises(DataError) as caught:
        score(["a"], [["a"]], tokenize="flores200")
    assert f"flores200 has no model in {path.parent} " in str(caught.value)
    assert "\n" not in str(caught.value)
    assert ("no network" in str(caught.value)) == (model is None)


def test_ter_can_take_chinese_characters_as_words() -> None:
    # One of seven characters and signs is wrong. Without spaces, all would be one word.
    hypotheses, references = ["红色的门开着。"], [["红色的门关着。"]]
    (metric,) = make_metrics(["ter"], references, han_words=True).values()
    found = metric.score(metric.count(hypotheses))
    assert found.score == pytest.approx(100 / 7)
    oracle = sacrebleu.TER(normalized=True, asian_support=True)
    assert found.score == oracle.corpus_score(hypotheses, references).score
    assert found.signature == str(oracle.get_signature())
    assert "asian:yes" in found.signature


def test_unequal_numbers_of_lines_are_refused() -> None:
    with pytest.raises(DataError, match=r"reference 1 .*2, reference 2 .*3"):
        score(["a", "b"], [["a", "b"], ["a", "b", "c"]])
    with pytest.raises(DataError, match=r"ref .*3,003, hyp .*2,737; .*wmt14/full"):
        check_line_counts([("ref", 3003), ("hyp", 2737)])
