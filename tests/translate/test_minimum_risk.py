"""Of a line's translations, minimum Bayes risk takes the one that agrees most with all of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from sacrebleu import BLEU, CHRF

import nmt
from nmt.translate.minimum_risk import by_utility
from nmt.translate.output import Translation, render_json


def translation(text: str, score: float) -> Translation:
    return Translation(text, score, score, (), (), 1)


def test_the_one_in_the_middle_is_best_and_ties_keep_their_order() -> None:
    texts = ["a cat", "the dog sleeps", "the dog slept", "a big cat sleeps", "a cat"]
    first, *others = (translation(text, -float(rank)) for rank, text in enumerate(texts))
    for metric, theirs in (("chrf", CHRF()), ("bleu", BLEU(effective_order=True))):
        means = {
            text: sum(theirs.sentence_score(text, [other]).score for other in texts) / len(texts)
            for text in texts
        }
        found = by_utility(replace(first, others=tuple(others)), metric).n_best
        expected = sorted((first, *others), key=lambda one: -means[one.text])
        assert [(one.text, one.score) for one in found] == [(e.text, e.score) for e in expected]
        assert [one.utility for one in found] == pytest.approx([means[e.text] for e in expected])
        assert all(not one.others for one in found[1:])
    assert json.loads(render_json(0, found[0])[0])["utility"] == pytest.approx(
        found[0].utility, abs=1e-4
    )


@pytest.mark.parametrize("sampling", [None, nmt.Sampling(seed=3)])
def test_a_translator_orders_what_it_has_found(
    model_file: Path, sampling: nmt.Sampling | None
) -> None:
    options = nmt.SearchOptions(beam_size=8, n_best=8, sampling=sampling, max_extra_tokens=3)
    lines = ["the cat sees a bird", "", "a dog. The old house and the river and the small tree"]
    usual = nmt.Translator.load(model_file, options).translate(lines)
    for metric in ("chrf", "bleu"):
        translator = nmt.Translator.load(model_file, replace(options, mbr=metric))
        assert translator.translate(lines) == [by_utility(one, metric) for one in usual]
