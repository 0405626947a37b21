"""Given translations have the probabilities of a plain loop over the decoder, and of search."""

import math
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from tiny_models import BOS, EOS, TINY, begin, tiny
from torch import Tensor

from nmt.models.base import TranslationModel
from nmt.models.ensemble import Ensemble
from nmt.search.engine import Pair
from nmt.search.options import SearchOptions
from nmt.search.torch_engine import TorchEngine
from nmt.translate.output import BLANK, Translation
from nmt.translate.rescoring import Likelihood, score_pairs
from nmt.translate.translator import Translator

# Of many lengths, so that most share a batch with longer ones; without a source, and a target.
PAIRS: list[Pair] = [
    ((5, 6, 7, 8, 9, 10, 11), (20, 21, 22)),
    ((12, 13), (4, 5, 6, 7, 8, 9)),
    ((14,), tuple(range(4, 26))),
    ((14, 15, 16, 17), ()),
    ((), (10, 11)),
    (tuple(range(4, 22)), (10,)),
]
SENTENCES = [
    ("the cat sees the dog", "the dog sees the cat"),
    ("a red bird.", "a small bird"),
    ("the old house", "the river and then the tree and then the house."),
    ("the cat", "x"),
    ("and then slowly", "a red cat hears the old dog"),
]


@torch.no_grad()
def step_by_step(model: TranslationModel, source: Sequence[int], target: Sequence[int]) -> Tensor:
    """The probabilities (T + 1, V) of what follows each part of a target, by a step for each."""
    state = begin(model, [list(source)])
    steps = [model.step([state], torch.tensor([token])) for token in (BOS, *target)]
    return torch.stack([torch.softmax(model.project(each)[0], dim=-1) for each in steps])


ENSEMBLE = ("transformer", "rnn_attention", "conv_seq2seq")


@pytest.mark.parametrize("kinds", [*((kind,) for kind in TINY), ENSEMBLE], ids="+".join)
def test_log_probs_are_those_of_a_loop_over_the_decoder_s_steps(kinds: tuple[str, ...]) -> None:
    """An ensemble has the mean of its members' probabilities."""
    members = [tiny(kind, seed=seed) for seed, kind in enumerate(kinds, start=1)]
    model = Ensemble(members) if len(members) > 1 else members[0]
    engine = TorchEngine(model, SearchOptions(), device=torch.device("cpu"))
    for (source, target), found in zip(PAIRS, engine.log_probs(PAIRS), strict=True):
        probs = torch.stack([step_by_step(member, source, target) for member in members])
        rows = zip(probs.mean(dim=0), (*target, EOS), strict=True)
        assert found == pytest.approx([math.log(row[token]) for row, token in rows], abs=1e-6)


@pytest.fixture
def ready(model_file: Path) -> Translator:
    return Translator.load(model_file)


def scored(translator: Translator, pairs: Sequence[tuple[str, str]]) -> list[Translation]:
    return list(score_pairs(translator, pairs, Likelihood()))


def test_pairs_come_in_order_whatever_stands_beside_them(ready: Translator) -> None:
    pairs = SENTENCES * 3 + [("", ""), ("the cat", "")]
    together = scored(ready, pairs)
    assert [each.text for each in together] == [text for _, text in pairs]
    alone = [scored(ready, [pair])[0].score for pair in pairs]
    assert [each.score for each in together] == pytest.approx(alone, abs=1e-5)


def test_perplexity_is_of_all_tokens_with_eos_and_of_no_blank_pairs(ready: Translator) -> None:
    likelihood = Likelihood()
    pairs = [("", ""), (" \t", " "), ("the cat", ""), ("", "a"), *SENTENCES]
    found = list(score_pairs(ready, pairs, likelihood))
    assert found[:2] == [BLANK, BLANK]
    assert all(each.segments == 1 and each.log_prob < 0 for each in found[2:])
    tokens = sum(len(each.tokens) + 1 for each in found[2:])
    log_prob = sum(each.log_prob for each in found)
    assert (likelihood.lines, likelihood.tokens) == (len(pairs), tokens)
    assert likelihood.log_prob == pytest.approx(log_prob)
    assert likelihood.perplexity == pytest.approx(math.exp(-log_prob / tokens))


def test_long_lines_are_scored_whole_and_endless_ones_left_out(ready: Translator) -> None:
    likelihood = Likelihood()
    long, endless = "the cat sees the dog and " * 6, "q" * 4_097  # above 20 and 4,096 tokens
    pairs = [SENTENCES[0], ("a", long), (long, "a"), ("a", endless), (endless, "a")]
    found = list(score_pairs(ready, pairs, likelihood))
    assert [math.isfinite(each.score) for each in found] == [True] * 3 + [False] * 2
    assert ["4,096" in each.error for each in found] == [False] * 3 + [True] * 2
    assert (likelihood.failed.lines, likelihood.failed.first) == (2, 4)
    assert likelihood.tokens == sum(len(each.tokens) + 1 for each in found[:3])
