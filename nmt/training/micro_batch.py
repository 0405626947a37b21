"""How many tokens go through the model at once: as many as there is memory for, within what pays.

On a GPU a batch of that size and of the longest sentences is tried before the first update. On a
CPU, where the system kills whoever takes too much, its memory is computed beforehand, and more than
2,048 tokens of fp32 at once make nothing faster.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from nmt.config import Recipe
from nmt.data.batches import Batch, FixedShape, collate
from nmt.data.folder import DataFolder
from nmt.data.shards import TokenRows
from nmt.errors import NMTError
from nmt.training.distributed import Ranks
from nmt.training.memory import available_bytes, micro_batch_bytes
from nmt.training.update import UpdateRunner

CPU_TOKENS = {"fp32": 2_048, "bf16": 4_096, "fp16": 4_096}


def longest_pair(data: DataFolder) -> int:
    """Return the tokens of the longest training sentence of either side, eos counted."""
    train = data.info.train
    return max(train.src.longest, train.tgt.longest) + 1


def fitting_tokens(
    recipe: Recipe, data: DataFolder, runner: UpdateRunner, ranks: Ranks, device: torch.device
) -> int:
    """Return the tokens of a micro-batch: what is asked for, or less where there is no memory.

    Ranks find the same number together.

    Raises:
        NMTError: if not even one pair fits.
    """
    config, longest = recipe.training, longest_pair(data)
    cpu = device.type == "cpu"
    share = (
        CPU_TOKENS[config.precision]
        if cpu
        else share_of_update(config.batch_tokens, ranks.world_size)
    )
    tokens = max(longest, config.micro_batch_tokens or share)
    sizes = len(data.src_vocabulary), len(data.tgt_vocabulary)

    def fits() -> bool:
        batch = even_batch(tokens, longest, min(sizes), runner.shape(tokens, longest))
        if not cpu:
            return runner.fits(batch)
        if config.micro_batch_tokens:  # whoever asks for a number knows the machine
            return True
        return micro_batch_bytes(recipe, sizes, batch) < available_bytes() / ranks.local_world_size

    while ranks.any(not fits()):
        if tokens == longest:
            raise NMTError(
                f"there is not memory enough to train this model on one pair of {longest} tokens"
            )
        tokens = max(longest, tokens // 2)
    return tokens


def share_of_update(batch_tokens: int, ranks: int) -> int:
    """Return the most tokens that a rank's share of an update may have on either side."""
    # Shares are equal in the sum of both sides, and nearly so in each.
    return batch_tokens if ranks == 1 else math.ceil(1.1 * batch_tokens / ranks)


def even_batch(tokens: int, length: int, types: int, shape: FixedShape | None = None) -> Batch:
    """Return a batch of as many tokens a side, or hardly fewer, in sentences of one length.

    Args:
        tokens: of each side, no fewer than `length`.
        length: of every sentence, its eos counted.
        types: words of the smaller vocabulary.
        shape: of the batch, if it has to be a certain one.
    """
    rows = tokens // length
    ids = (np.arange(rows * (length - 1)) % types).astype(np.uint32)
    lines = TokenRows(ids, np.full(rows, length - 1, dtype=np.int32))
    return collate(lines, lines, shape)
