"""How many operators an update begins on the pretended GPU, and copies, whatever its size.

`test_pretended_gpu.py` runs these tests on it. That an update does not wait is in `test_gpu.py`.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from pretended_gpu.cuda import counts
from tiny_models import SOURCES, SRC_VOCAB, TARGETS, TGT_VOCAB, TINY, architecture_of
from toy_training import ALONE, recipe

from nmt.config.model_config import TransformerConfig
from nmt.data.batches import LengthSums, collate
from nmt.data.shards import TokenRows
from nmt.data.updates import Position, Update
from nmt.models.device import dtype_of
from nmt.models.registry import build_model
from nmt.training.flat_weights import FlatWeights
from nmt.training.optimizer import Optimizer
from nmt.training.stop_request import StopRequest
from nmt.training.update import TrainStep

GPU = torch.device("cuda")


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
    config, training = TINY[kind], recipe(precision=precision, compile="false").training
    if isinstance(config, TransformerConfig):
        config = replace(config, num_heads=2)  # 8 wide, as flash attention wants it
    model = build_model(architecture_of(config), config, SRC_VOCAB, TGT_VOCAB).train()
    weights = FlatWeights(model, dtype_of(precision), device=GPU)
    optimizer = Optimizer(weights, training, config.d_model)
    train_step = TrainStep(model, optimizer, ALONE, GPU, StopRequest())
    src, tgt = (TokenRows.from_lists(side, token_bytes=2) for side in (SOURCES, TARGETS))
    sums, found = LengthSums.of_pairs(src.lengths, tgt.lengths), []
    for number in (1, 2, 3):  # the first one makes tables
        batches = [collate(src, tgt, on_gpu=True)]
        update = Update(np.arange(3), batches, sums, sums.src + sums.tgt, Position(), 0.0)
        before = counts()
        train_step.run(update, number)
        found.append({name: count - before[name] for name, count in counts().items()})
    assert found[1] == found[2]
    assert found[1]["operators"] == pytest.approx(operators, rel=0.03)
    # Each tensor of the batch has a copy, and the host gets one of what became of the update.
    assert (found[1]["copies in"] <= 10, found[1]["copies out"]) == (True, 1)
