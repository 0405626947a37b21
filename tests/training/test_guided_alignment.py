"""Guided alignment: its loss by loops, what it moves, and updates that are split in other ways."""

import math
from itertools import pairwise
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch
from tiny_models import SOURCES, TARGETS, TINY, assert_equal, tiny
from torch import Tensor
from toy_training import Toy, flat, metrics

from nmt.config.fields import Value
from nmt.config.model_config import AttentionHead, TransformerConfig
from nmt.data.batches import NO_LINK, Batch, FixedShape, collate
from nmt.data.folder import DataFolder
from nmt.data.shards import TokenRows
from nmt.errors import UsageError
from nmt.lexical.alignment_links import TokenLinker
from nmt.models.model_file import ModelReader, load_model
from nmt.models.transformer import Transformer
from nmt.training.guided_alignment import GUIDED_HEAD, alignment_loss

LINKS = [[2, NO_LINK, 0], [1, 1, 0, NO_LINK, 0, 1], [3]]
GUIDED: dict[str, Value] = {"guided_alignment": 0.5, "dropout": 0.0, "max_updates": 12}
HEAD = AttentionHead(from_top=1, head=2)


def linked_batch(shape: FixedShape | None = None) -> Batch:
    """The pairs of the models' tests, with links."""
    src, tgt = (TokenRows.from_lists(side, token_bytes=2) for side in (SOURCES, TARGETS))
    return collate(src, tgt, shape, np.concatenate([np.array(row) for row in LINKS]))


def loss_by_loops(queries: Tensor, keys: Tensor, batch: Batch) -> float:
    """The loss, from packed queries and keys, pair by pair and token by token."""
    total = 0.0
    bounds = zip(
        pairwise(batch.tgt_in.starts.tolist()), pairwise(batch.src.starts.tolist()), strict=True
    )
    for links, ((first, _), (start, end)) in zip(LINKS, bounds, strict=False):
        for place, link in enumerate(links):
            if link == NO_LINK:
                continue
            query = queries[first + place].tolist()
            scores = [
                sum(q * k for q, k in zip(query, key, strict=True)) / math.sqrt(len(query))
                for key in keys[start:end].tolist()
            ]
            total += math.log(sum(map(math.exp, scores))) - scores[link]
    return total


SHAPES = [None, FixedShape(src=40, tgt=40, sentences=8, parts=1)]


@pytest.mark.parametrize("shape", SHAPES, ids=["groups", "fixed shape"])
def test_the_loss_is_that_of_loops_and_its_gradient_is_exact(shape: FixedShape | None) -> None:
    batch = linked_batch(shape)
    torch.manual_seed(1)
    queries, keys = (
        torch.randn(len(side.tokens), 5, dtype=torch.float64, requires_grad=True)
        for side in (batch.tgt_in, batch.src)
    )
    found = alignment_loss(queries, keys, batch)
    assert found.item() == pytest.approx(loss_by_loops(queries, keys, batch), rel=1e-12)
    assert torch.autograd.gradcheck(
        lambda q, k: alignment_loss(q, k, batch), (queries, keys), raise_exception=True
    )


def test_without_links_there_is_no_loss_and_no_gradient() -> None:
    src, tgt = (TokenRows.from_lists(side, token_bytes=2) for side in (SOURCES, TARGETS))
    batch = collate(src, tgt, None, np.full(len(tgt.ids), NO_LINK))
    queries, keys = (
        torch.randn(len(side.tokens), 5, requires_grad=True) for side in (batch.tgt_in, batch.src)
    )
    found = alignment_loss(queries, keys, batch)
    found.backward()  # type: ignore[no-untyped-call]
    assert found.item() == 0.0
    assert not any(x.grad.any() for x in (queries, keys))  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "kind", [name for name, config in TINY.items() if isinstance(config, TransformerConfig)]
)
def test_the_loss_is_about_the_weights_that_are_read(kind: str) -> None:
    model, batch = cast(Transformer, tiny(kind)), linked_batch()
    states, queries, keys = model.forward_with_head(batch, HEAD)
    assert_equal(states, model(batch))
    weights = model.cross_attention(batch, HEAD.from_top)[:, HEAD.head]  # (B, T, S)
    expected = -sum(
        weights[pair, place, link].log()
        for pair, links in enumerate(LINKS)
        for place, link in enumerate(links)
        if link != NO_LINK
    )
    assert_equal(alignment_loss(queries, keys, batch), cast(Tensor, expected), 1e-9)


# --- in training


def agreement(run: Path, data: Path) -> float:
    """The share of links that the guided head of the last model looks at most."""
    folder = DataFolder.open(data)
    src, tgt = folder.train.rows(np.arange(len(folder.train)))
    sizes = len(folder.src_vocabulary), len(folder.tgt_vocabulary)
    links, head = TokenLinker.learn(folder.train, *sizes)(src, tgt), GUIDED_HEAD
    model = load_model(run / "last.safetensors")[0].eval()
    batch = collate(src, tgt)
    weights = model.cross_attention(batch, head.from_top)[:, head.head]  # (B, T, S)
    rows = np.repeat(np.arange(len(tgt)), tgt.lengths)
    places = np.arange(len(rows)) - (np.cumsum(tgt.lengths) - tgt.lengths)[rows]
    return float(np.mean((weights.argmax(-1).numpy()[rows, places] == links)[links != NO_LINK]))


def test_guidance_moves_the_head_and_is_told(toy: Toy) -> None:
    values: dict[str, Value] = {"num_decoder_layers": 2, "log_every": 20}
    free, guided = (
        toy.train(name, guided_alignment=weight, max_updates=updates, **values)
        for name, weight, updates in (("free", 0.0, 20), ("guided", 1.0, 60))
    )
    before, after = (agreement(run, toy.data) for run in (free, guided))
    assert after > before + 0.1
    told = [record["alignment_loss"] for record in metrics(guided, "train")]
    assert told[0] > 1.1 * told[-1] > 0
    assert not any("alignment_loss" in record for record in metrics(free, "train"))
    cards = [ModelReader(run / "last.safetensors").card for run in (free, guided)]
    assert [card.alignment_head for card in cards] == [None, GUIDED_HEAD]


def test_without_guidance_nothing_is_linked(toy: Toy) -> None:
    def unwanted(*_: object) -> None:
        raise AssertionError

    for target, name in ((TokenLinker, "learn"), (Transformer, "forward_with_head")):
        toy.patch.setattr(target, name, unwanted)
    toy.train(max_updates=2)


def difference(run: Path, other: Path) -> float:
    ends = (flat(one / "last.safetensors") for one in (run, other))
    return float((next(ends) - next(ends)).abs().max())


def test_micro_batches_and_processes_come_to_the_same_update(toy: Toy) -> None:
    whole, run = toy.undisturbed(**GUIDED, micro_batch_tokens=200), toy.folder / "run"
    toy.train_with(2, run, **GUIDED, micro_batch_tokens=32)
    assert 0 < difference(whole, run) < 1e-4
    for record, again in zip(metrics(whole, "train"), metrics(run, "train"), strict=True):
        assert again["alignment_loss"] == pytest.approx(record["alignment_loss"], rel=1e-4)


def test_other_architectures_are_refused(toy: Toy) -> None:
    with pytest.raises(UsageError, match=r"guided_alignment .*rnn_attention_small"):
        toy.train(preset="rnn_attention_small", guided_alignment=0.1)
