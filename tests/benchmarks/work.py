"""The size of a Transformer's training: its configuration, and the work of a token."""

from __future__ import annotations

import numpy as np

from nmt.config import resolve_recipe
from nmt.data.batches import LengthSums
from nmt.data.folder import DataFolder
from nmt.model_config import TransformerConfig
from nmt.models.flops import training_flops
from nmt.models.presets import preset_values


def config_of(preset: str) -> TransformerConfig:
    """Return the configuration of a Transformer's preset."""
    config = resolve_recipe(preset, "transformer", [(preset, preset_values(preset))]).model
    assert isinstance(config, TransformerConfig)
    return config


def flops_per_token(config: TransformerConfig, data: DataFolder) -> float:
    """Return the FLOPs of forward and backward pass by source or target token of the data."""
    sums = LengthSums.of(*data.train.lengths(np.arange(len(data.train))))
    flops = training_flops("transformer", config, len(data.tgt_vocabulary), sums)
    return flops / (sums.src + sums.tgt)


def update_tokens(data: DataFolder, batch_tokens: int) -> float:
    """Return the tokens of an update on both sides; batch_tokens are those of the longer side."""
    counts = data.info.train
    sides = [side.tokens + counts.pairs for side in (counts.src, counts.tgt)]
    return batch_tokens * sum(sides) / max(sides)
