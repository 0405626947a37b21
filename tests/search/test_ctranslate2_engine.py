"""CTranslate2 finds what our own search finds, and what it cannot do is refused."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from lending import Lending
from torch import Tensor

from nmt.config.model_config import TransformerConfig
from nmt.data.vocabulary import EOS_ID, Vocabulary
from nmt.errors import DataError, UsageError
from nmt.interchange.ctranslate2 import export_ctranslate2
from nmt.interchange.ctranslate2_manifest import MANIFEST, Export
from nmt.models.model_file import CARD, ModelCard, load_model, write_model
from nmt.search.ctranslate2_engine import CTranslate2Engine
from nmt.search.engine import Hypothesis, SearchResult, Source
from nmt.search.options import SearchOptions
from nmt.search.torch_engine import TorchEngine
from nmt.translate.load_export import load
from nmt.translate.options import TranslationConfig
from nmt.translate.translator import Translator

pytest.importorskip("ctranslate2", reason="needs the extra ctranslate2")

POWER = SearchOptions(length_penalty_form="power", max_extra_tokens=8)


def random_weights(
    card: ModelCard, *, eos_std: float = 0.0, noise: float = 0.0
) -> dict[str, Tensor]:
    """Return random weights, with a row of their own for eos, and noise on all of them."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(11)
        weights = {name: weight.detach() for name, weight in card.build().named_parameters()}
        if eos_std:
            weights["output_projection"][EOS_ID].normal_(std=eos_std)
        for weight in weights.values():
            weight.add_(torch.randn_like(weight), alpha=noise)
    return weights


@pytest.fixture(scope="module")
def model_file(card: ModelCard, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random weights whose translations end, sooner or later."""
    path = tmp_path_factory.mktemp("model") / "ends.safetensors"
    write_model(path, card, random_weights(card, eos_std=0.8))
    return path


@pytest.fixture(scope="module")
def exported(model_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export") / "fast"
    export_ctranslate2(model_file, folder, "float32")
    return folder


@pytest.fixture(scope="module")
def sources(vocabulary: Vocabulary) -> list[Source]:
    random = Random(1)
    words = "the a cat dog bird sees hears small old house tree river and then".split()
    lines = [" ".join(random.choices(words, k=1 + number % 9)) for number in range(40)]
    return [Source(tuple(ids)) for ids in vocabulary.encode(lines)]


def start(folder: Path, options: SearchOptions) -> Translator:
    config = TranslationConfig(models=(folder,), search=options)
    return Translator(*load(config, device="cpu", workers=1, threads=1), config)


def lending(model_file: Path) -> Lending:
    model, card = load_model(model_file)
    return Lending(model.eval(), card.tgt_vocabulary.barred_ids)


def found(translator: Translator, sources: Sequence[Source]) -> list[list[Hypothesis]]:
    return [best for best in translator.engine.search(sources) if not isinstance(best, str)]


def assert_own_scores(ours: Translator, model_file: Path, sources: Sequence[Source]) -> list[bool]:
    """Check the scores of the best translations; return which came to the longest length."""
    options, model = ours.engine.options, lending(model_file)
    cut = []
    for source, (best, *_) in zip(sources, found(ours, sources), strict=True):
        # What comes to the longest length has no eos.
        cut.append(len(best.ids) == options.longest(len(source.ids)))
        tokens = best.ids if cut[-1] else (*best.ids, EOS_ID)
        expected = model.log_prob(source, tokens)
        assert best.log_prob == pytest.approx(expected, abs=1e-3)
        is_power, length = options.length_penalty_form == "power", len(tokens)
        penalty = (length if is_power else (5 + length) / 6) ** options.length_penalty
        assert best.score == pytest.approx(expected / penalty, abs=1e-3)
    return cut


@pytest.mark.parametrize("width", [1, 2, 4])
@pytest.mark.parametrize("penalty", [1.0, 1.3])
def test_hypotheses_are_those_of_our_own_search(
    exported: Path, model_file: Path, sources: list[Source], width: int, penalty: float
) -> None:
    # Where all of a beam's hypotheses are asked for, both search until as many are finished.
    options = replace(POWER, beam_size=width, n_best=width, repetition_penalty=penalty)
    own = TorchEngine(lending(model_file), options, device=torch.device("cpu")).search(sources)
    theirs = found(start(exported, options), sources)
    compared = 0
    for source, ours, other in zip(sources, own, theirs, strict=True):
        assert not isinstance(ours, str)
        if any(len(h.ids) == options.longest(len(source.ids)) for h in ours):
            continue  # what is cut there is not closed
        assert [h.ids for h in ours] == [h.ids for h in other]
        assert [h.score for h in ours] == pytest.approx([h.score for h in other], abs=1e-4)
        assert [h.log_prob for h in ours] == pytest.approx([h.log_prob for h in other], abs=1e-3)
        compared += 1
    assert compared > 10


@pytest.mark.parametrize("size", [1, 2])
def test_no_ngram_is_repeated(
    exported: Path, model_file: Path, sources: list[Source], size: int
) -> None:
    # It lends what repeats its probability to the others, so only greedy search finds the same.
    options = replace(POWER, beam_size=1, no_repeat_ngram=size)
    own = TorchEngine(lending(model_file), options, device=torch.device("cpu")).search(sources)
    theirs = [best[0].ids for best in found(start(exported, options), sources)]
    assert theirs == [best[0].ids for best in own if not isinstance(best, str)]
    for ids in theirs:
        ngrams = [ids[start : start + size] for start in range(len(ids) - size + 1)]
        assert len(set(ngrams)) == len(ngrams)
    free = [best[0].ids for best in found(start(exported, replace(POWER, beam_size=1)), sources)]
    assert any(ours != plain for ours, plain in zip(theirs, free, strict=True))


@pytest.mark.parametrize("with_scores", [True, False])
def test_weights_without_numbers_fail(card: ModelCard, tmp_path: Path, with_scores: bool) -> None:
    assert isinstance(card.config, TransformerConfig)
    untied = replace(card, config=replace(card.config, tie_embeddings="none"))
    weights = random_weights(untied, eos_std=0.8)
    weights["src_embedding.weight"][300] = torch.nan
    write_model(tmp_path / "nan", untied, weights)
    export_ctranslate2(tmp_path / "nan", tmp_path / "fast", "float32")
    config = TranslationConfig(models=(tmp_path / "fast",), search=replace(POWER, beam_size=1))
    engine, _ = load(config, device="cpu", workers=1, threads=1, with_scores=with_scores)
    assert isinstance(engine.search([Source((300, 301))])[0], str)


def test_hypotheses_of_equal_text_count_once(exported: Path, sources: list[Source]) -> None:
    engine = start(exported, replace(POWER, beam_size=4, n_best=4)).engine

    def by_length(ids: Sequence[Sequence[int]]) -> list[str]:
        return [str(len(one)) for one in ids]

    merging = engine.with_options(replace(engine.options, decode=by_length))
    shorter = 0
    for every, merged in zip(engine.search(sources), merging.search(sources), strict=True):
        assert not isinstance(every, str)
        first = {len(one.ids): one for one in reversed(every)}  # the best of each length
        assert merged == [one for one in every if first[len(one.ids)] is one]
        shorter += len(merged) < len(every)
    assert shorter > 10


# CTranslate2 knows the penalty power alone, except that greedy search is the same by any.
@pytest.mark.parametrize(
    ("form", "width", "alpha"),
    [("power", 1, 0.0), ("power", 1, 0.6), ("power", 4, 0.6), ("power", 4, 1.0), ("wu", 1, 0.6)],
)
def test_a_score_is_the_model_s_own(
    exported: Path, model_file: Path, sources: list[Source], form: str, width: int, alpha: float
) -> None:
    options = replace(POWER, beam_size=width, length_penalty=alpha, length_penalty_form=form)
    cut = assert_own_scores(start(exported, options), model_file, sources)
    assert any(cut) and not all(cut)


VARIANTS: list[dict[str, Any]] = [
    {"positions": "learned", "max_positions": 8},  # fewer than there are tokens
    {"pre_norm": True, "norm": "rms", "feed_forward": "swiglu", "positions": "learned"},
    {"pre_norm": True, "norm": "rms", "feed_forward": "swiglu", "positions": "rotary"},
    {"attention_bias": True, "output_bias": True, "norm_epsilon": 1e-3},
    {"first_input": "zeros", "positions": "sinusoidal_halves", "feed_forward": "swish"},
    {"first_input": "eos", "feed_forward": "gelu"},
]


@pytest.mark.parametrize("changes", VARIANTS, ids=repr)
def test_a_variant_s_scores_are_the_model_s_own(
    card: ModelCard, sources: list[Source], tmp_path: Path, changes: dict[str, Any]
) -> None:
    assert isinstance(card.config, TransformerConfig)
    config = replace(card.config, num_encoder_layers=2, num_decoder_layers=2, **changes)
    variant, path = replace(card, config=config), tmp_path / "variant.safetensors"
    write_model(path, variant, random_weights(variant, noise=0.2))  # norms and biases, too
    export_ctranslate2(path, tmp_path / "export", "float32")
    assert_own_scores(start(tmp_path / "export", replace(POWER, beam_size=1)), path, sources)


@pytest.mark.parametrize(
    ("options", "beyond"),
    [
        (POWER, 0),
        (replace(POWER, max_extra_tokens=0, n_best=2), 0),
        # A wide limit is rounded up.
        (replace(POWER, beam_size=1, max_extra_tokens=16), 15),
        (replace(POWER, beam_size=1, max_extra_tokens=16, max_tokens=16), 0),
    ],
    ids=repr,
)
def test_what_stands_beside_a_sentence_changes_nothing(
    exported: Path, sources: list[Source], options: SearchOptions, beyond: int
) -> None:
    translator = start(exported, options)
    together = found(translator, sources)
    alone = [found(translator, [source])[0] for source in sources]
    assert [[h.ids for h in best] for best in together] == [[h.ids for h in best] for best in alone]
    # The limit is each source's own: many translations are cut there.
    rooms = [
        options.longest(len(source.ids)) - len(best.ids)
        for source, (best, *_) in zip(sources, together, strict=True)
    ]
    assert -beyond <= min(rooms) <= 0
    assert (min(rooms) < 0) == (beyond > 0)


# What the command line refuses is in `tests/interchange`.
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (POWER, "prefix"),
        (replace(POWER, barred_ids=(300,)), "can bar only"),
        # The model's longest source has 20 tokens.
        (replace(POWER, max_extra_tokens=1004), "1024 tokens"),
    ],
)
def test_what_it_cannot_do_is_refused(exported: Path, options: SearchOptions, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        start(exported, options).translate(["the cat"], ["a"])


class Counting:
    """A ctranslate2.Translator that counts the sentences that it was given, and fails if told."""

    def __init__(self, model: Any, *, most: int = 1_000) -> None:
        self.model = model
        self.most = most  # sentences that there is memory for
        self.batches: list[int] = []

    def translate_batch(self, source: list[list[str]], **options: Any) -> list[Any]:
        self.batches.append(len(source))
        results: list[Any] = self.model.translate_batch(source, **options)
        return [NoMemory()] * len(source) if len(source) > self.most else results


class NoMemory:
    def result(self) -> None:
        raise RuntimeError("CUDA failed with error out of memory")


def counted(folder: Path, *, workers: int, most: int = 1_000) -> tuple[CTranslate2Engine, Counting]:
    translator = start(folder, POWER)
    assert isinstance(translator.engine, CTranslate2Engine)
    counting = Counting(translator.engine._model, most=most)
    vocabularies = translator.language_pair.src_vocabulary, translator.language_pair.tgt_vocabulary
    engine = CTranslate2Engine(
        counting,
        POWER,
        vocabularies,
        src_tokens=Export.open(folder).src_tokens(folder, len(vocabularies[0])),
        most_tokens=1_000,
        workers=workers,
        batch_tokens=40,
    )
    return engine, counting


@pytest.mark.parametrize("workers", [1, 3])
def test_few_batches_are_under_way(exported: Path, sources: list[Source], workers: int) -> None:
    engine, counting = counted(exported, workers=workers)

    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine.search(sources * 5, on_step=stop)
    assert len(counting.batches) == 2 * workers


def test_without_memory_batches_are_halved(exported: Path, sources: list[Source]) -> None:
    def ids(found: list[SearchResult]) -> list[tuple[int, ...]]:
        return [one[0].ids for one in found if not isinstance(one, str)]

    engine, _ = counted(exported, workers=2)
    expected = ids(engine.search(sources))
    engine, counting = counted(exported, workers=2, most=2)
    assert ids(engine.search(sources)) == expected
    assert max(counting.batches) > 2
    assert counting.batches[-1] <= 2
    engine, _ = counted(exported, workers=2, most=0)
    (problem,) = set(engine.search(sources[:3]))
    assert "memory" in str(problem)


@pytest.fixture
def copied(exported: Path, tmp_path: Path) -> Path:
    """An export to change."""
    return shutil.copytree(exported, tmp_path / "fast")


@pytest.mark.parametrize("name", ["model.bin", CARD, MANIFEST])
def test_a_damaged_export_is_refused(copied: Path, name: str) -> None:
    path = copied / name
    whole = path.read_bytes()
    end = b"x" if name == MANIFEST else bytes([whole[-40] ^ 1]) + whole[-39:]
    path.write_bytes(whole[:-40] + end)
    with pytest.raises(DataError, match=name):
        start(copied, POWER)
    path.unlink()
    with pytest.raises(DataError, match=name):
        start(copied, POWER)


def test_a_manifest_names_no_files_elsewhere(copied: Path) -> None:
    manifest = json.loads((copied / MANIFEST).read_text())
    manifest["files"]["../elsewhere"] = "0" * 64
    (copied / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(DataError, match="elsewhere"):
        start(copied, POWER)


def test_only_an_earlier_export_is_replaced(model_file: Path, copied: Path, tmp_path: Path) -> None:
    export_ctranslate2(model_file, copied, "int8")
    assert json.loads((copied / MANIFEST).read_text())["quantization"] == "int8"
    (copied / "notes.txt").touch()
    with pytest.raises(UsageError, match=r"fast: .*notes\.txt"):
        export_ctranslate2(model_file, copied, "float32")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").touch()
    for manifest in ("", '{"from": "another program"}'):
        with pytest.raises(UsageError, match="mine: "):
            export_ctranslate2(model_file, tmp_path / "mine", "float32")
        (tmp_path / "mine" / MANIFEST).write_text(manifest)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fast", "mine"]
    assert (tmp_path / "mine" / "thesis.txt").is_file()
