"""The card's variants: an independent multi-bleu, the perl scripts of papers, and sacreBLEU."""

import gzip
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest
import sacrebleu
import sacremoses
from multi_bleu import multi_bleu

from nmt.scoring.bleu_card import bleu_card, split_compounds
from nmt.scoring.metrics import Score

HYPOTHESES = [
    'Er sagte: "Das ist, mit Verlaub, ein E-Mail-Konto & mehr."',
    "Die Katze saß auf der rot-weiß karierten Matte.",
    "Dr. Müller kam um 3.30 Uhr, d. h. zu früh.",
]
REFERENCES = [
    'Er sagte: "Das ist, mit Verlaub, ein E-Mail-Konto & nicht mehr."',
    "Die Katze lag auf der rot-weiß karierten Decke.",
    "Dr. Müller kam schon um 3.30 Uhr, d. h. viel zu früh.",
]


def scored(hypotheses: list[str], references: list[list[str]], lang: str) -> dict[str, Score]:
    card = bleu_card(references, lang)
    return {key: metric.score(metric.count(hypotheses)) for key, metric in card.items()}


def moses(lines: list[str], lang: str) -> list[str]:
    tokenizer = sacremoses.MosesTokenizer(lang=lang)
    return [tokenizer.tokenize(line, return_str=True) for line in lines]


@pytest.mark.parametrize(
    ("line", "split"),
    [
        ("rich-text format", "rich ##AT##-##AT## text format"),
        ("Nord-Süd-Achse", "Nord ##AT##-##AT## Süd ##AT##-##AT## Achse"),
        ("- ja - nein-", "- ja - nein-"),
        # As perl finds matches one after the other: the letter of the first is not in a second...
        ("a-b-c", "a ##AT##-##AT## b-c"),
        # ... unless it is of two bytes.
        ("a-ä-c", "a ##AT##-##AT## ä ##AT##-##AT## c"),
        ("x\u00a0-y", "x\u00a0 ##AT##-##AT## y"),
    ],
)
def test_compounds_are_split_as_the_scripts_do(line: str, split: str) -> None:
    assert split_compounds(line) == split


@pytest.mark.parametrize(("code", "lang"), [("de-AT", "de"), ("fr", "fr")])
@pytest.mark.parametrize("references", [[REFERENCES], [REFERENCES, [*reversed(REFERENCES)]]])
def test_scores_are_of_both_scripts(code: str, lang: str, references: list[list[str]]) -> None:
    tokens, *others = (moses(lines, lang) for lines in (HYPOTHESES, *references))
    lower = [[line.lower() for line in lines] for lines in (tokens, *others)]
    split = [
        [line.replace("-", " ##AT##-##AT## ") for line in lines] for lines in (tokens, *others)
    ]
    expected = {
        "bleu": sacrebleu.BLEU().corpus_score(HYPOTHESES, references).score,
        "bleu-lowercase": sacrebleu.BLEU(lowercase=True).corpus_score(HYPOTHESES, references).score,
        "bleu-tokenised": multi_bleu(tokens, others),
        "bleu-compounds": multi_bleu(split[0], split[1:]),
        "bleu-tokenised-lowercase": multi_bleu(lower[0], lower[1:]),
    }
    assert 0 < expected["bleu-tokenised"] < expected["bleu-compounds"] < 100
    if lang == "fr":
        del expected["bleu-compounds"]
    found = scored(HYPOTHESES, references, code)
    assert list(found) == list(expected)
    assert {key: score.score for key, score in found.items()} == pytest.approx(expected)


def test_signatures_and_what_scores_compare_with() -> None:
    scores = scored(HYPOTHESES, [REFERENCES], "de")
    for key, result in scores.items():
        assert result.comparable_with
        assert ("only for comparison" in result.comparable_with) == (key != "bleu")
        assert ("case:lc" in result.signature) == key.endswith("lowercase")
    assert f"tok:sacremoses-{version('sacremoses')}-de|" in scores["bleu-tokenised"].signature
    assert "-de-compounds|smooth:none" in scores["bleu-compounds"].signature
    assert "Vaswani" in scores["bleu-compounds"].comparable_with
    assert len({result.signature for result in scores.values()}) == len(scores)


@pytest.mark.parametrize(
    ("lang", "published", "tokenised", "compounds"),
    # sacreBLEU: as published. The others: what tokenizer.perl -l LANG (as of 2017), the scripts'
    # perl -ple 's{(\S)-(\S)}{$1 ##AT##-##AT## $2}g' and multi-bleu.perl say of the same files.
    [("de", 28.09, 28.0271, 28.4452), ("fr", 34.25, 35.2067, None)],
)
def test_scores_of_a_real_system_are_those_of_the_perl_scripts(
    real_text: Callable[[str], Path],
    lang: str,
    published: float,
    tokenised: float,
    compounds: float | None,
) -> None:
    reference, hypothesis = (
        gzip.decompress(path.read_bytes()).decode().split("\n")[:-1]
        for path in (
            real_text("wmt-news") / f"newstest2013.en-{lang}.{lang}.gz",
            real_text("wmt13-outputs") / f"newstest2013.en-{lang}.bergamot-base-memory.{lang}.gz",
        )
    )
    result = {key: one.score for key, one in scored(hypothesis, [reference], lang).items()}
    assert result["bleu"] == pytest.approx(published, abs=0.005)
    assert result["bleu-tokenised"] == pytest.approx(tokenised, abs=0.00005)
    assert result.get("bleu-compounds") == pytest.approx(compounds, abs=0.00005)
