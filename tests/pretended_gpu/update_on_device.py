"""What an update begins on the pretended GPU, and copies, whatever its size; and CUDA graphs of it.

`test_pretended_gpu.py` runs these tests on it. That an update does not wait is in `test_gpu.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from pairs import Rows
from pretended_gpu.cuda import counts
from tiny_models import SOURCES, SRC_VOCAB, TARGETS, TGT_VOCAB, TINY, architecture_of
from toy_training import ALONE, recipe

from nmt.config.fields import Value
from nmt.config.model_config import TransformerConfig
from nmt.data import batches
from nmt.data.batches import FixedShape, LengthSums, collate, pack_sources
from nmt.data.shards import TokenRows
from nmt.data.updates import Position, Update
from nmt.errors import UsageError
from nmt.models.device import dtype_of
from nmt.models.registry import build_model
from nmt.training.flat_weights import FlatWeights
from nmt.training.optimizer import Optimizer
from nmt.training.stop import StopRequest
from nmt.training.update import UpdateRunner

GPU = torch.device("cuda")


def runner_of(kind: str, *, dropout: float = 0.2, **values: Value) -> UpdateRunner:
    config, training = TINY[kind], recipe(**{"compile": "false"} | values).training
    config = replace(config, dropout=dropout)
    if isinstance(config, TransformerConfig):
        config = replace(config, num_heads=2)  # 8 wide, as flash attention wants it
    torch.manual_seed(1)
    model = build_model(architecture_of(config), config, SRC_VOCAB, TGT_VOCAB).train()
    weights = FlatWeights(model, dtype_of(training.precision), device=GPU)
    optimizer = Optimizer(weights, training, config.d_model)
    return UpdateRunner(model, optimizer, ALONE, GPU, StopRequest())


def update_of(*micro_batches: tuple[Rows, Rows], shape: FixedShape | None = None) -> Update:
    made, sums = [], LengthSums()
    for sides in micro_batches:
        src, tgt = (TokenRows.from_lists(side, token_bytes=2) for side in sides)
        made.append(collate(src, tgt, shape, on_gpu=True))
        sums += LengthSums.of_pairs(src.lengths, tgt.lengths)
    return Update(np.arange(3), made, sums, sums.src + sums.tgt, Position(), 0.0)


def counted(runner: UpdateRunner, updates: Sequence[Update]) -> list[Counter[str]]:
    """Run updates; return what each has begun, copied and waited for."""
    found = []
    for number, update in enumerate(updates, 1):
        before = counts()
        runner.run(update, number)
        found.append(Counter(counts()) - Counter(before))
    return found


@pytest.mark.parametrize(
    ("kind", "precision", "operators"),
    [
        ("transformer", "bf16", 343),  # by flash attention
        ("transformer", "fp32", 596),  # in padded groups
        ("transformer_relative", "bf16", 885),
        ("conv_seq2seq", "bf16", 498),
        ("rnn_attention", "bf16", 1765),  # every position begins its own
    ],
)
def test_an_update_begins_so_many_operators(kind: str, precision: str, operators: int) -> None:
    """If it begins fewer, lower the number here. More have to be worth it."""
    updates = [update_of((SOURCES, TARGETS))] * 3
    # The first one makes tables.
    _, second, third = counted(runner_of(kind, precision=precision), updates)
    assert second == third
    assert second["operators"] == pytest.approx(operators, rel=0.03)
    # Each tensor of the batch has a copy, and the host gets one of what became of the update.
    assert (second["copies in"] <= 10, second["copies out"]) == (True, 1)


# --- CUDA graphs

SHAPE = FixedShape(src=48, tgt=40, sentences=20, parts=1)
SHORT = ([[5, 6, 7], [12, 13]], [[20, 21], [9, 8, 7]])
"""Micro-batches with another bound on lengths than SOURCES and TARGETS."""
COURSE = [
    [(SOURCES, TARGETS), SHORT],
    [SHORT],
    [(TARGETS, SOURCES), (SOURCES[1:], TARGETS[1:])],
    [SHORT, (SOURCES[:2], TARGETS[:2]), SHORT],
    [(SOURCES, TARGETS), SHORT, SHORT],
]
"""The micro-batches of some updates."""


@pytest.fixture(autouse=True)
def _two_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let short sentences have bounds of 4 and 8."""
    monkeypatch.setattr(batches, "_SHORT", 4)


@pytest.mark.parametrize(
    ("kind", "precision"),
    [
        ("transformer", "bf16"),
        ("transformer", "fp16"),
        ("transformer_modern", "bf16"),
        ("transformer_imported", "bf16"),
    ],
)
def test_graphs_come_to_the_same_losses_gradients_and_weights(kind: str, precision: str) -> None:
    # With dropout, the other run has batches of the same shape, so that it draws the same numbers.
    for dropout, shape in ((0.0, None), (0.2, SHAPE)):
        values: dict[str, Value] = {"precision": precision, "ema_decay": 0.9}
        plain = runner_of(kind, dropout=dropout, **values)
        graphed = runner_of(kind, dropout=dropout, **values, cuda_graphs=True)
        for number, micro_batches in enumerate(COURSE * 2, 1):
            expected = plain.run(update_of(*micro_batches, shape=shape), number)
            found = graphed.run(update_of(*micro_batches, shape=SHAPE), number)
            torch.testing.assert_close(found.losses, expected.losses, rtol=2e-3, atol=1e-3)
            torch.testing.assert_close(found.norm, expected.norm, rtol=2e-2, atol=1e-3)
            one, other = (of.optimizer.weights.gradient for of in (graphed, plain))
            assert (one - other).norm() < 0.03 * other.norm()
        one, other = (of.optimizer.weights.master for of in (graphed, plain))
        assert (one - other).norm() < 0.01 * other.norm()


def test_a_graph_is_captured_once_a_kind_and_little_is_begun_outside() -> None:
    runner = runner_of("transformer", precision="bf16", cuda_graphs=True)
    updates = [update_of(*micro_batches, shape=SHAPE) for micro_batches in COURSE]
    counted(runner, updates * 2)
    assert runner._graphs is not None
    # For each bound, one that sets the gradient and one that adds to it.
    assert sorted(runner._graphs._graphs) == [
        (bound, bound, adds) for bound in (4, 8) for adds in (False, True)
    ]
    kept = list(runner._graphs._graphs.values())
    for micro_batches, found in zip(COURSE, counted(runner, updates), strict=True):
        parts = len(micro_batches)
        assert found["graphs"] == parts
        assert found["waits"] == 0
        # A copy of each tensor, the number of tokens, and two losses to add; then the optimiser.
        assert found["operators"] <= 12 * parts + 40
        assert found["copies in"] <= 9 * parts + 1
    assert list(runner._graphs._graphs.values()) == kept


def test_longer_sentences_leave_what_graphs_read() -> None:
    runner = runner_of("transformer_modern", precision="bf16", cuda_graphs=True)
    update = update_of((SOURCES, TARGETS), shape=SHAPE)
    counted(runner, [update] * 2)
    with torch.no_grad():  # which makes longer tables of positions
        runner.model.begin(pack_sources([[5] * 700], on_gpu=True).to(GPU))
    result = runner.run(update, 3)
    assert bool(result.losses.isfinite().all())


def test_memory_that_runs_out_in_a_capture_drops_the_update(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runner = runner_of("transformer", precision="bf16", cuda_graphs=True)
    update = update_of((SOURCES, TARGETS), shape=SHAPE)
    assert not runner.run(update, 1).dropped
    with monkeypatch.context() as patch:

        def fail(*_: object, **__: object) -> None:
            raise torch.OutOfMemoryError("CUDA out of memory")

        patch.setattr(UpdateRunner, "_backward", fail)
        assert runner.run(update, 2).out_of_memory
    runner.go_on()
    runner.optimizer.weights.begin_gradient()
    assert not runner.run(update, 2).dropped


@pytest.mark.parametrize(
    ("kind", "precision"), [("transformer", "fp32"), ("transformer_relative", "bf16")]
)
def test_what_cannot_be_captured_is_refused(kind: str, precision: str) -> None:
    with pytest.raises(UsageError, match="cuda_graphs"):
        runner_of(kind, precision=precision, cuda_graphs=True)
