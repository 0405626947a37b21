"""Alignments are read off matrices written by hand."""

import dataclasses
from pathlib import Path
from random import Random
from typing import cast

import numpy as np
import pytest
import torch
from torch import Tensor

from nmt.config.model_config import AttentionHead, TransformerConfig
from nmt.data.batches import Batch
from nmt.models.base import TranslationModel
from nmt.models.model_file import ModelCard, load_model, write_model
from nmt.models.registry import build_model
from nmt.search.engine import Ids, Pair
from nmt.search.options import SearchOptions
from nmt.search.torch_engine import TorchEngine
from nmt.translate.alignment import Alignment, align_words
from nmt.translate.translator import Translator

SRC, TGT = ["▁a", "▁b", "▁c", "d", "▁e"], ["▁x", "▁y", "▁z"]


def test_each_segment_looks_at_its_own_source() -> None:
    first, second = np.array([[0.1, 0.9], [0.8, 0.2]]), np.array([[0.2, 0.3, 0.5]])
    found = Alignment.from_attention([first, second], SRC, TGT)
    assert found.positions == (1, 0, 4)
    assert found.words == ((0, 1), (1, 0), (3, 2))


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        (["▁a", "b", "▁c"], [[0], [0], [1]]),
        (["a", "▁b"], [[0], [1]]),  # without a mark before the first word
        (["▁", "<0xE2>", "<0x82>", "▁c"], [[], [0], [0], [1]]),  # a character of several bytes
        (["▁a", "▁", "▁b", "▁"], [[0], [], [1], []]),  # spaces in a row, and at the end
        (["▁of▁the", "m", "▁x"], [[0, 1], [1], [2]]),  # a token of two words
    ],
)
def test_words_are_what_stands_between_spaces(tokens: list[str], words: list[list[int]]) -> None:
    source = ["▁0", "▁1", "▁2", "▁3"][: len(tokens)]
    expected = [(number, word) for number, own in enumerate(words) for word in own]
    assert align_words(range(len(tokens)), source, tokens) == expected
    # And the same the other way round.
    swapped = [(tgt, src) for src, tgt in expected]
    assert align_words(range(len(tokens)), tokens, source) == sorted(swapped)


def test_a_source_token_without_a_link_has_a_weaker_one() -> None:
    first, second = np.array([[0.6, 0.3], [0.5, 0.4]]), np.array([[0.1, 0.2, 0.7]])
    found = Alignment.from_attention([first, second], SRC, TGT)
    assert found.positions == (0, 0, 4)
    assert found.weaker_links() == [(1, 1), (2, 2), (3, 2)]
    assert Alignment.from_attention([first[:0]], SRC[:2], []).weaker_links() == []


def engine_of(model: TranslationModel) -> TorchEngine:
    return TorchEngine(model.eval(), SearchOptions(), device=torch.device("cpu"))


@pytest.fixture
def engine(model_file: Path) -> TorchEngine:
    return engine_of(load_model(model_file)[0])


@pytest.fixture
def pairs() -> list[Pair]:
    random = Random(1)

    def ids() -> Ids:
        return tuple(random.randrange(260, 330) for _ in range(random.randrange(1, 60)))

    return [*((ids(), ids()) for _ in range(60)), ((300,), ())]


def test_pairs_are_looked_at_together_as_alone(engine: TorchEngine, pairs: list[Pair]) -> None:
    for pair, found in zip(pairs, engine.attention(pairs), strict=True):
        (alone,) = engine.attention([pair])
        assert found is not None and alone is not None
        assert found.shape == (len(pair[1]), len(pair[0]))
        np.testing.assert_allclose(found, alone, atol=1e-6)
        # The rest of each row is what looks at eos.
        assert ((found.sum(axis=1) > 0) & (found.sum(axis=1) < 1)).all()


def test_it_is_the_mean_over_the_heads_of_the_penultimate_layer() -> None:
    torch.manual_seed(1)
    config = TransformerConfig(
        num_encoder_layers=1, num_decoder_layers=3, d_model=16, d_ff=32, num_heads=4
    )
    engine = engine_of(build_model("transformer", config, 50, 50))
    source, target = (9, 8, 7), (6, 5)
    expected = engine.attention_weights(source, target).cross[1, 0].mean(dim=0)[:2, :3]
    (found,) = engine.attention([(source, target)])
    assert found is not None
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-6)


def test_it_is_the_head_that_was_trained_for_it(card: ModelCard, tmp_path: Path) -> None:
    head = AttentionHead(from_top=0, head=1)
    path = tmp_path / "guided.safetensors"
    torch.manual_seed(1)
    card = dataclasses.replace(card, alignment_head=head)
    write_model(path, card, dict(card.build().named_parameters()))
    engine = Translator.load(str(path)).engine
    source, target = (300, 301, 302), (303, 304)
    expected = engine.attention_weights(source, target).cross[0, 0, 1, :2, :3]
    (found,) = engine.attention([(source, target)])
    assert found is not None
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-5)
    other = engine.attention_weights(source, target).cross[0, 0, 0, :2, :3]
    assert np.abs(found - other.numpy()).max() > 1e-3


def test_without_memory_groups_are_halved_and_a_pair_alone_has_none(
    engine: TorchEngine, pairs: list[Pair], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = engine.attention(pairs)
    plain = cast(TranslationModel, engine.model).cross_attention

    def short_of_memory(batch: Batch, from_top: int) -> Tensor:
        if len(batch.src.starts) > 3 or batch.src.longest > 50:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return plain(batch, from_top)

    monkeypatch.setattr(engine.model, "cross_attention", short_of_memory)
    for (source, _), found, whole in zip(pairs, engine.attention(pairs), expected, strict=True):
        assert (found is None) == (len(source) + 1 > 50)
        if found is not None and whole is not None:
            np.testing.assert_allclose(found, whole, atol=1e-6)
