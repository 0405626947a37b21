"""Samples have the distribution that they should have, and depend on nothing but their source."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from reference import Ids, NextLogits, all_translations, log_softmax
from tables import EOS, SPECIAL, A, B, C, decoded, random_table

from nmt.search.engine import Source
from nmt.search.options import Sampling, SearchOptions
from nmt.search.sampling import draw_tokens
from nmt.search.top_k import FREE, NextTokens, StepQuery, pick_tokens

LOGITS = [0.0, 9.0, 0.0, 1.0, 2.0, 0.5, -1.0]  # as many as there are tokens; <unk> is the top one
ALLOWED = [EOS, A, B, C]


def options(sampling: Sampling, **others: int) -> SearchOptions:
    return SearchOptions(
        sampling=sampling,
        barred_ids=SPECIAL,
        max_extra_tokens=0,
        **others,  # type: ignore[arg-type]
    )


def drawn(
    logits: list[torch.Tensor], query: StepQuery, *, sampling: Sampling, barred_ids: Sequence[int]
) -> NextTokens:
    pick = partial(draw_tokens, sampling=sampling)
    return pick_tokens(logits, query, pick=pick, barred_ids=barred_ids)


def frequencies(sampling: Sampling, draws: int = 20_000) -> NDArray[np.float64]:
    """Return how often each token is drawn by equidistant numbers, which stand for random ones."""
    query = StepQuery(np.full(draws, FREE), uniforms=(np.arange(draws) + 0.5) / draws)
    found = drawn(
        [torch.tensor([LOGITS]).repeat(draws, 1)], query, sampling=sampling, barred_ids=SPECIAL
    )
    return np.bincount(found.tokens[:, 0], minlength=len(LOGITS)) / draws


@pytest.mark.parametrize(
    ("sampling", "left"),
    [
        (Sampling(), ALLOWED),
        (Sampling(temperature=0.5), ALLOWED),
        (Sampling(temperature=2.0), ALLOWED),
        (Sampling(temperature=0.001), [A]),
        (Sampling(top_k=1), [A]),
        (Sampling(top_k=2), [A, EOS]),
        (Sampling(top_k=3), [A, EOS, B]),
        # Their probabilities are 0.60, 0.22, 0.13 and 0.03.
        (Sampling(top_p=0.1), [A]),
        (Sampling(top_p=0.59), [A]),
        (Sampling(top_p=0.65), [A, EOS]),
        (Sampling(top_p=0.9), [A, EOS, B]),
        # Of the top two, 0.73 and 0.27.
        (Sampling(top_k=2, top_p=0.72), [A]),
        (Sampling(top_k=2, top_p=0.74), [A, EOS]),
    ],
)
def test_tokens_are_drawn_by_the_probability_left(sampling: Sampling, left: list[int]) -> None:
    logits = np.array([LOGITS[token] for token in left])
    weights = np.exp((logits - logits.max()) / sampling.temperature)
    found = frequencies(sampling)
    assert found[left] == pytest.approx(weights / weights.sum(), abs=1e-3)
    assert set(np.flatnonzero(found)) <= set(left)


def test_whole_translations_are_drawn_by_their_probability() -> None:
    limit, draws = 2, 4_000
    table = random_table(3)
    everything = all_translations(table, limit, SPECIAL)
    # What is barred lends its probability to the others, token by token.
    chances = {ids: _chance(table, ids, limit) for ids, _ in everything}
    assert sum(chances.values()) == pytest.approx(1.0)
    (found,) = decoded([table], [Source((A,) * limit)], options(Sampling(), n_best=draws))
    counts = Counter(h.ids for h in found)
    for ids, chance in chances.items():
        deviation = np.sqrt(chance * (1 - chance) / draws)
        assert counts[ids] / draws == pytest.approx(chance, abs=5 * deviation)


def _chance(table: NextLogits, ids: tuple[int, ...], limit: int) -> float:
    chance = 1.0
    for length, token in enumerate((*ids, EOS)):
        if length < limit:  # there, eos is forced
            weights = np.exp(table(ids[:length]))
            chance *= weights[token] / weights[ALLOWED].sum()
    return float(chance)


def test_scores_are_the_model_s_own() -> None:
    table = random_table(1)
    sampling = Sampling(temperature=1.5, top_k=3)
    (found,) = decoded([table], [Source((A,) * 4)], options(sampling, n_best=5))
    for hypothesis in found:
        for length, token in enumerate((*hypothesis.ids, EOS)):
            expected = log_softmax(table(hypothesis.ids[:length]))[token]
            assert hypothesis.token_log_probs[length] == pytest.approx(expected, rel=1e-5)
        assert hypothesis.score == pytest.approx(
            hypothesis.log_prob / ((5 + len(hypothesis.ids) + 1) / 6) ** 0.6
        )


def test_samples_depend_on_the_seed_the_source_and_their_number() -> None:
    def drawn(seed: int, count: int, source: Ids = (A,) * 9) -> list[Ids]:
        wanted = options(Sampling(seed=seed), n_best=count)
        return [h.ids for h in decoded([random_table(1)], [Source(source)], wanted)[0]]

    assert drawn(1, 8) == drawn(1, 8)
    for count in (1, 3):  # in the order in which they are drawn
        assert drawn(1, count) == drawn(1, 8)[:count]
    assert len(set(drawn(1, 8))) > 1
    assert drawn(2, 4) != drawn(1, 4) != drawn(1, 4, (B,) * 9)


def test_prefixes_and_lengths_are_kept_to() -> None:
    tables = [random_table(seed) for seed in range(2)]
    sources = [Source((A,) * 5, (C, B)), Source((A,) * 5)]
    wanted = replace(options(Sampling(), n_best=20), min_tokens=3, max_tokens=4)
    with_prefix, without = decoded(tables, sources, wanted)
    assert all(h.ids[:2] == (C, B) for h in with_prefix)
    assert len({h.ids[:2] for h in without}) > 1
    assert {len(h.ids) for h in with_prefix + without} == {3, 4}


def test_a_sentence_whose_logits_are_no_numbers_has_no_samples() -> None:
    tables: list[NextLogits] = [random_table(1), lambda _prefix: [float("nan")] * 7]
    good, bad = decoded(tables, [Source((A,))] * 2, options(Sampling()))
    assert len(good) == 1
    assert bad == []


def test_what_follows_a_closed_sample_is_of_no_concern() -> None:
    def nothing_behind_eos(prefix: tuple[int, ...]) -> list[float]:
        return [float("nan")] * 7 if EOS in prefix else list(random_table(1)(prefix))

    (found,) = decoded([nothing_behind_eos], [Source((A,) * 9)], options(Sampling(), n_best=5))
    assert len({len(h.ids) for h in found}) > 1
    assert len(found) == 5


def test_where_nothing_may_be_drawn_there_is_no_log_probability() -> None:
    query = StepQuery(np.full(2, FREE), uniforms=np.zeros(2))
    query.bar_end(np.array([1]))
    everything = [token for token in range(len(LOGITS)) if token != EOS]
    found = drawn(
        [torch.tensor([LOGITS, LOGITS])], query, sampling=Sampling(), barred_ids=everything
    )
    assert found.tokens[0, 0] == EOS
    assert np.isnan(found.log_probs[:, 0]).tolist() == [False, True]


@pytest.mark.parametrize("top_p", [0.3, 0.9, 0.999])
def test_few_candidates_stand_for_all(top_p: float) -> None:
    # Of 2,000 tokens, so flat that hundreds have that probability together, or so steep that few.
    random = torch.Generator().manual_seed(1)
    uniforms = np.linspace(0, 0.999, 40)
    query = StepQuery(np.full(40, FREE), uniforms=uniforms)
    for scale in (0.1, 3.0):
        logits = scale * torch.randn(1, 2_000, generator=random).repeat(40, 1)
        found = drawn([logits], query, sampling=Sampling(top_p=top_p), barred_ids=())
        probs, order = logits[0].double().softmax(0).sort(descending=True)
        sums = probs[: int((probs.cumsum(0) < top_p).sum()) + 1].cumsum(0)
        for chance, token in zip(uniforms, found.tokens[:, 0], strict=True):
            assert token == order[int((sums <= chance * sums[-1]).sum())]
