"""Alignments are read off matrices written by hand."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch
from torch import Tensor

from nmt.data.batches import Batch
from nmt.model_config import TransformerConfig
from nmt.models.model_file import load_model
from nmt.models.registry import build_model
from nmt.search.engine import Ids
from nmt.translate.aligner import Aligner, between_tokens
from nmt.translate.alignment import Alignment, align_words, pharaoh

# Rows of the states that predict two tokens and eos, columns of three tokens and eos.
MEAN = torch.tensor([[0.3, 0.3, 0.15, 0.25], [0.15, 0.05, 0.15, 0.65], [0.5, 0.0, 0.0, 0.5]])


def align(attention: Tensor) -> list[int]:
    found = between_tokens(attention, attention.shape[1] - 1, attention.shape[0] - 1)
    tokens = [["▁x"] * size for size in found.shape[::-1]]
    return list(Alignment.of([found], *tokens).positions)


def test_eos_is_aligned_on_neither_side_and_the_first_of_equal_weights_counts() -> None:
    assert align(MEAN) == [0, 0]


def test_padding_is_left_out() -> None:
    padded = torch.full((5, 7), 9.0)
    padded[:3, :4] = MEAN
    assert between_tokens(padded, 3, 2).tolist() == MEAN[:2, :3].tolist()


def test_each_piece_looks_at_its_own_source() -> None:
    first, second = np.array([[0.1, 0.9], [0.8, 0.2]]), np.array([[0.2, 0.3, 0.5]])
    src, tgt = ["▁a", "▁b", "▁c", "d", "▁e"], ["▁x", "▁y", "▁z"]
    found = Alignment.of([first, second], src, tgt)
    assert found.positions == (1, 0, 4)
    assert found.words == ((0, 1), (1, 0), (3, 2))


def test_an_empty_target_has_no_alignment() -> None:
    assert align(MEAN[-1:]) == []


def test_words_are_aligned_where_any_of_their_subwords_are() -> None:
    # "the dog house" and "das Hundehaus".
    src, tgt = ["▁the", "▁d", "og", "▁house"], ["▁das", "▁Hund", "e", "haus"]
    assert align_words([0, 2, 2, 3], src, tgt) == [(0, 0), (1, 1), (2, 1)]


def test_pairs_stand_in_the_order_of_the_source() -> None:
    assert align_words([2, 0, 1], ["▁a", "▁b", "▁c"], ["▁x", "▁y", "▁z"]) == [
        (0, 1),
        (1, 2),
        (2, 0),
    ]


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


def test_pharaoh_s_format() -> None:
    assert pharaoh([(0, 0), (1, 2), (10, 3)]) == "0-0 1-2 10-3"
    assert pharaoh([]) == ""


@pytest.fixture
def aligner(model_file: Path) -> Aligner:
    return Aligner(load_model(model_file)[0].eval(), torch.device("cpu"))


@pytest.fixture
def pairs() -> list[tuple[Ids, Ids]]:
    random = Random(1)

    def ids() -> Ids:
        return tuple(random.randrange(260, 330) for _ in range(random.randrange(1, 60)))

    return [*((ids(), ids()) for _ in range(60)), ((300,), ())]


def test_pairs_are_looked_at_together_as_they_are_alone(
    aligner: Aligner, pairs: list[tuple[Ids, Ids]]
) -> None:
    for pair, found in zip(pairs, aligner.attention(pairs), strict=True):
        (alone,) = aligner.attention([pair])
        assert found is not None
        assert alone is not None
        assert found.shape == (len(pair[1]), len(pair[0]))
        np.testing.assert_allclose(found, alone, atol=1e-6)
        # The rest of each row is what looks at eos.
        assert (found.sum(axis=1) < 1).all()
        assert (found.sum(axis=1) > 0).all()


def test_it_is_the_mean_over_the_heads_of_the_penultimate_layer() -> None:
    torch.manual_seed(1)
    config = TransformerConfig(
        num_encoder_layers=1, num_decoder_layers=3, d_model=16, d_ff=32, num_heads=4
    )
    model = build_model("transformer", config, 50, 50).eval()
    aligner, source, target = Aligner(model, torch.device("cpu")), (9, 8, 7), (6, 5)
    expected = aligner.weights(source, target).cross[1, 0].mean(dim=0)[:2, :3]
    (found,) = aligner.attention([(source, target)])
    assert found is not None
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-6)


def test_without_memory_groups_are_halved_and_a_pair_alone_has_none(
    aligner: Aligner, pairs: list[tuple[Ids, Ids]], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = aligner.attention(pairs)
    plain = aligner.model.cross_attention

    def short_of_memory(batch: Batch, from_top: int) -> Tensor:
        if len(batch.src.starts) > 3 or batch.src.longest > 50:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return plain(batch, from_top)

    monkeypatch.setattr(aligner.model, "cross_attention", short_of_memory)
    for (source, _), found, whole in zip(pairs, aligner.attention(pairs), expected, strict=True):
        if len(source) + 1 > 50:
            assert found is None
        else:
            assert found is not None
            assert whole is not None
            np.testing.assert_allclose(found, whole, atol=1e-6)
