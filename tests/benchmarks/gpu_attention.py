"""Ways to attend among the packed sentences of an update, timed side by side.

Flash attention takes the tokens packed, padded groups are for what it does not support, and
FlexAttention (Dong et al. 2024) takes them packed as well, under a mask that keeps sentences apart.

Legend: n tokens, H heads, K the width of a head.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from nmt.data.batches import Packed, collate
from nmt.data.folder import DataFolder
from nmt.models.kernels.packed_attention import Sentences, attend_packed

FLASH, PADDED, FLEX = "flash, packed", "padded groups", "FlexAttention, packed"
WAYS = (FLASH, PADDED, FLEX)
REPEATS = 20

Attend = Callable[[Tensor], Tensor]
"""Takes queries, keys and values (n, 3, H, K), and returns (n, H, K)."""


def update_of(data: DataFolder, batch_tokens: int) -> Packed:
    """Return the sources of an update, longest first, as training has them."""
    lengths = data.train.lengths(np.arange(len(data.train)))[0] + 1  # with eos
    count = int(np.searchsorted(np.cumsum(lengths), batch_tokens))
    src, tgt = data.train.rows(np.argsort(-lengths[:count], kind="stable"))
    return collate(src, tgt).src


def way(name: str, sentences: Packed, *, heads: int) -> Attend:
    """Return a way to attend. What is made once for all layers is made here."""
    if name != FLEX:
        own = Sentences.of(sentences, heads, as_packed=name == FLASH)
        return lambda x: attend_packed((x,), own, own)
    owner, count = sentences.sentences, len(sentences.tokens)
    mask = create_block_mask(
        lambda _row, _head, query, key: owner[query] == owner[key],
        None,
        None,
        count,
        count,
        device=owner.device.type,
    )
    kernel = torch.compile(flex_attention)

    def attend(x: Tensor) -> Tensor:
        query, key, value = x.permute(1, 2, 0, 3)[:, None]  # each (1, H, n, K)
        found: Tensor = kernel(query, key, value, block_mask=mask)
        return found[0].transpose(0, 1)

    return attend


def measure(name: str, sentences: Packed, x: Tensor) -> tuple[str, bool | None]:
    """Return the time of a way, and whether it agrees with padded groups."""
    heads = x.shape[2]
    attend = way(name, sentences, heads=heads)
    expected = way(PADDED, sentences, heads=heads)(x)
    agrees = torch.allclose(attend(x), expected, rtol=2e-2, atol=2e-2)
    times = [seconds(attend, x) for _ in range(REPEATS)]
    text = (
        f"{1000 * median(times):,.2f} ms forward and backward, "
        f"{len(sentences.starts) - 1:,} sentences of {len(x):,} tokens"
    )
    if name == PADDED:
        return text, None
    return f"{text}{'' if agrees else ', but the result differs'}", agrees


def seconds(attend: Attend, x: Tensor) -> float:
    """Return how long it takes to attend once, with the gradient."""
    leaf = x.detach().requires_grad_()
    torch.cuda.synchronize()
    began = time.perf_counter()
    attend(leaf).sum().backward()  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    return time.perf_counter() - began
