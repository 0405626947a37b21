"""Multiply-adds against torch's own count of every matrix product of the model."""

import numpy as np
import pytest
import torch
from pairs import batch_of
from tiny_models import TINY, architecture_of
from torch.utils.flop_counter import FlopCounterMode

from nmt.config.model_config import ModelConfig, RecurrentConfig
from nmt.data.batches import Batch, LengthSums
from nmt.models.flops import MULTIPLY_ADDS, training_flops
from nmt.models.registry import build_model

SENTENCES, SRC, TGT, VOCABULARY = 5, 7, 11, 97


def batch_without_padding() -> Batch:
    """On torch's meta device, where a model runs without content."""
    src, tgt = ([[4] * (length - 1)] * SENTENCES for length in (SRC, TGT))
    return batch_of(src, tgt).to(torch.device("meta"))


def lengths() -> LengthSums:
    src, tgt = (np.full(SENTENCES, length - 1, np.int32) for length in (SRC, TGT))
    return LengthSums.of_pairs(src, tgt)


def without_gradient(config: ModelConfig) -> int:
    """Return the multiply-adds of the backward pass that are counted but not computed.

    The zeros that recurrences begin with get no gradient: those of both directions of each layer,
    and the decoder's first input, what is fed to it and its own output.
    """
    if not isinstance(config, RecurrentConfig):
        return 0
    hidden = config.d_hidden
    encoder = config.num_encoder_layers * 2 * 4 * (hidden // 2) ** 2
    return SENTENCES * (encoder + 4 * hidden * (config.d_model + hidden))


@pytest.mark.parametrize("kind", TINY)
def test_they_are_what_torch_counts(kind: str) -> None:
    architecture, config = architecture_of(TINY[kind]), TINY[kind]
    with torch.device("meta"):
        model = build_model(architecture, config, VOCABULARY, VOCABULARY)
        with FlopCounterMode(display=False) as forward:
            logits = model(batch_without_padding()) @ model.output_projection.T
        with FlopCounterMode(display=False) as backward:
            logits.sum().backward()
    multiply_adds = MULTIPLY_ADDS[architecture](config, VOCABULARY, lengths())
    assert forward.get_total_flops() == 2 * multiply_adds
    done = forward.get_total_flops() + backward.get_total_flops()
    assert done + 2 * without_gradient(config) == training_flops(
        architecture, config, VOCABULARY, lengths()
    )
