"""With a shortlist, search finds what it finds where all other tokens are impossible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from lending import Lending

from nmt.data.vocabulary import Vocabulary, learn_vocabulary
from nmt.errors import DataError
from nmt.models.base import TranslationModel
from nmt.models.ensemble import Ensemble
from nmt.models.kernels.packed_weights import pack
from nmt.models.model_file import ModelCard, load_model
from nmt.search.engine import SearchResult, Source
from nmt.search.options import Sampling, SearchOptions
from nmt.search.phrases import Phrase
from nmt.search.shortlist import Shortlist
from nmt.translate.torch_engine import TorchEngine

CPU = torch.device("cpu")
OPTIONS = SearchOptions(beam_size=3, n_best=2, max_extra_tokens=4, barred_ids=(0, 1, 2, 11, 40))
SOURCES = [Source(ids) for ids in ((300, 301, 302), (310,), (305, 311, 320, 6, 7), (7, 7))]

IS_PAYING = Shortlist.pays


@pytest.fixture(scope="module")
def shortlist(vocabulary: Vocabulary) -> Shortlist:
    best = np.random.default_rng(1).integers(-1, len(vocabulary), (len(vocabulary), 6))
    return Shortlist(np.array([20, 11, 290, 300]), best)


@pytest.fixture(autouse=True)
def any_list_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Shortlist, "pays", lambda *_: True)


@pytest.fixture
def model(model_file: Path) -> TranslationModel:
    return load_model(model_file)[0].eval()


def search(
    model: TranslationModel | Ensemble | Lending,
    sources: Sequence[Source] = SOURCES,
    shortlist: Shortlist | None = None,
    options: SearchOptions = OPTIONS,
    batch_tokens: int = 64,
) -> list[SearchResult]:
    engine = TorchEngine(model, options, device=CPU, batch_tokens=batch_tokens, shortlist=shortlist)
    return engine.search(sources)


def assert_same(found: Sequence[SearchResult], expected: Sequence[SearchResult]) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        assert not isinstance(ours, str)
        assert not isinstance(theirs, str)
        assert [one.ids for one in ours] == [one.ids for one in theirs]
        scores = [one.score for one in theirs]
        assert [one.score for one in ours] == pytest.approx(scores, abs=1e-4)


def test_a_list_has_frequent_tokens_translations_the_prefix_and_phrases() -> None:
    best = np.array([[-1, -1]] * 5 + [[30, 9], [9, -1]])
    shortlist = Shortlist(np.array([8, 30]), best)
    phrase = Phrase(((19, 22),), ((21,),))
    found = shortlist.of(Source((5, 6, 5), prefix=(17, 16), phrases=(phrase,)))
    assert found.tolist() == [0, 1, 2, 3, 8, 9, 16, 17, 19, 21, 22, 30]


@pytest.mark.parametrize(
    "options",
    [
        OPTIONS,
        replace(OPTIONS, beam_size=1, n_best=1),
        replace(OPTIONS, beam_size=30, n_best=30, max_extra_tokens=1),  # more than a list has
        replace(OPTIONS, min_tokens=3),
        replace(OPTIONS, sampling=Sampling(top_k=5, seed=3)),
        replace(OPTIONS, no_repeat_ngram=1, max_extra_tokens=20),
        replace(OPTIONS, repetition_penalty=3.0, max_extra_tokens=20),
    ],
)
def test_it_is_search_with_all_other_tokens_impossible(
    model: TranslationModel, shortlist: Shortlist, options: SearchOptions
) -> None:
    found = search(model, shortlist=shortlist, options=options)
    for source, hypotheses in zip(SOURCES, found, strict=True):
        own = shortlist.of(source)
        others = np.setdiff1d(np.arange(model.vocab_size), own).tolist()
        assert_same([hypotheses], search(Lending(model, others), [source], options=options))
        assert not isinstance(hypotheses, str)
        assert {i for one in hypotheses for i in one.ids} <= set(own.tolist())


@pytest.mark.parametrize("members", [1, 2])
def test_a_sentence_does_not_depend_on_those_beside_it(
    model: TranslationModel, card: ModelCard, shortlist: Shortlist, members: int
) -> None:
    torch.manual_seed(6)
    other = card.build().eval()
    with torch.no_grad():  # another model is sure of other tokens
        other.output_projection.normal_()
    searched = model if members == 1 else Ensemble([model, other])
    together = search(searched, shortlist=shortlist)
    for batch_tokens in (1, 12):  # alone; joining those that are at work
        assert_same(search(searched, shortlist=shortlist, batch_tokens=batch_tokens), together)


def test_a_sentence_whose_list_is_too_long_to_pay_has_the_whole_vocabulary(
    model: TranslationModel, shortlist: Shortlist, monkeypatch: pytest.MonkeyPatch
) -> None:
    free, listed = search(model), search(model, shortlist=shortlist)
    pays = [len(source.ids) > 1 for source in SOURCES]
    monkeypatch.setattr(Shortlist, "pays", lambda _, source, *__: len(source.ids) > 1)
    chosen = [both[own] for own, both in zip(pays, zip(free, listed, strict=True), strict=True)]
    assert_same(search(model, shortlist=shortlist), chosen)
    assert not all(pays)


@pytest.mark.parametrize(("width", "most"), [(1, 10), (4, 41), (5, 41)])
def test_a_list_pays_if_it_is_a_small_part_of_the_vocabulary(width: int, most: int) -> None:
    def pays(length: int) -> bool:
        shortlist = Shortlist(np.arange(4, length), np.full((9, 1), -1))
        return IS_PAYING(shortlist, Source((5,)), 330, width)

    assert pays(most)  # 330 / 32 = 10.3
    assert not pays(most + 1)


def test_a_prefix_need_not_be_on_any_list(model: TranslationModel, shortlist: Shortlist) -> None:
    prefix = (77, 78)
    assert not {*prefix} & {*shortlist.of(SOURCES[0]).tolist()}
    (found,) = search(model, [replace(SOURCES[0], prefix=prefix)], shortlist)
    assert not isinstance(found, str)
    assert all(one.ids[:2] == prefix for one in found)


def test_an_ensemble_has_the_mean_of_its_members_on_the_list(
    model: TranslationModel, shortlist: Shortlist
) -> None:
    twice = Ensemble([model, model])  # the mean of a probability and itself
    assert_same(search(twice, shortlist=shortlist), search(model, shortlist=shortlist))


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("tie_embeddings", ["all", "none"])
def test_a_packed_model_has_a_list_as_well(
    model_file: Path, shortlist: Shortlist, precision: str, tie_embeddings: str
) -> None:
    model = load_model(model_file)[0].eval()
    if tie_embeddings == "none":
        model.output_projection = torch.nn.Parameter(model.output_projection.detach().clone())
    tokens, features = torch.arange(30)[None], torch.ones(2, 16)
    expected = model.project_onto(model.own_projections(tokens), features)
    torch.testing.assert_close(expected, model.project(features)[:, :30])
    pack(model, precision)
    found = model.project_onto(model.own_projections(tokens), features)
    torch.testing.assert_close(found, expected)
    for hypotheses in search(model, shortlist=shortlist):
        assert not isinstance(hypotheses, str)
        assert all(np.isfinite(one.score) for one in hypotheses)


# -------------------------------------------------------------------------------- the file


def test_a_file_gives_the_lists_back(
    shortlist: Shortlist, vocabulary: Vocabulary, tmp_path: Path
) -> None:
    shortlist.write(tmp_path / "list", vocabulary, vocabulary)
    found = Shortlist.open(tmp_path / "list", vocabulary, vocabulary)
    np.testing.assert_array_equal(found.frequent, shortlist.frequent)
    np.testing.assert_array_equal(found.best, shortlist.best)


def test_a_file_for_other_vocabularies_is_refused(
    shortlist: Shortlist, vocabulary: Vocabulary, tmp_path: Path
) -> None:
    other = learn_vocabulary(["ein Baum und ein Haus"], vocab_size=275)
    shortlist.write(tmp_path / "list", vocabulary, vocabulary)
    with pytest.raises(DataError, match=r"list: .*vocabularies"):
        Shortlist.open(tmp_path / "list", vocabulary, other)


@pytest.mark.parametrize(
    "wrong",
    [
        Shortlist(np.array([4]), np.full((3, 2), 5)),  # not a row for each token
        Shortlist(np.array([330]), np.full((330, 2), 5)),
        Shortlist(np.array([4]), np.full((330, 2), -2)),
        Shortlist(np.array([-1]), np.full((330, 2), 5)),
    ],
)
def test_a_file_with_tokens_that_are_none_is_refused(
    wrong: Shortlist, vocabulary: Vocabulary, tmp_path: Path
) -> None:
    wrong.write(tmp_path / "list", vocabulary, vocabulary)
    with pytest.raises(DataError, match="list: damaged"):
        Shortlist.open(tmp_path / "list", vocabulary, vocabulary)


def test_coverage_is_the_share_of_the_targets_tokens() -> None:
    best = np.array([[-1]] * 5 + [[30], [9]])
    shortlist = Shortlist(np.array([8]), best)
    pairs = _Pairs([([5], [30, 8, 9]), ([5, 6], [9, 12])])
    length, covered = shortlist.coverage(pairs)  # type: ignore[arg-type]
    assert length == (6 + 7) / 2  # the special four, 8, 30; and 9
    assert covered == 3 / 5


class _Pairs(list[tuple[list[int], list[int]]]):
    def src(self, pair: int) -> np.ndarray:
        return np.array(self[pair][0])

    def tgt(self, pair: int) -> np.ndarray:
        return np.array(self[pair][1])
