"""What self-attention to all of a sentence costs, and to a neighbourhood, at growing lengths.

One layer of the base model, forward and backward, over 4,096 tokens: 64 sentences of 64 at first,
one of 4,096 at last. So a column that does not grow is one whose cost goes by the number of tokens.

    NMT_BENCH_ROUNDS    measurements of each layer and length, 5 by default; the fastest counts
    NMT_BENCH_OUT       a file that the tables are added to
"""

from __future__ import annotations

import math
import os
import time

import pytest
import torch
from benchmarks.machine import describe
from benchmarks.report import publish, table
from pairs import batch_of
from torch import Tensor

from nmt.data.batches import Packed
from nmt.model_config import TransformerConfig
from nmt.models.attention import SelfAttention
from nmt.models.packed_attention import Sentences
from nmt.models.presets import PRESETS
from nmt.training.memory import LiveBytes

pytestmark = pytest.mark.benchmark

ROUNDS = int(os.environ.get("NMT_BENCH_ROUNDS", "5"))
TOKENS = 4096
LENGTHS = [2**power for power in range(6, 13)]
WIDE = TransformerConfig(**PRESETS["transformer_local"].changes).attention_window  # type: ignore[arg-type]
LAYERS = {
    "full": TransformerConfig(),
    f"relative, k = {TransformerConfig().max_relative_distance}": TransformerConfig(
        positions="relative"
    ),
    **{f"r = {r}": TransformerConfig(attention_window=r) for r in (WIDE // 4, WIDE)},
}


@pytest.mark.parametrize("causal", [False, True], ids=["encoder", "decoder"])
def test_attention_cost(causal: bool) -> None:
    times, sizes = [], []
    for length in LENGTHS:
        sentences = [[5] * (length - 1)] * (TOKENS // length)
        packed = batch_of(sentences, [[6]] * len(sentences)).src
        costs = [cost(config, packed, causal=causal) for config in LAYERS.values()]
        times.append([f"{length:,}", *(f"{1e3 * seconds:,.0f}" for seconds, _ in costs)])
        sizes.append([f"{length:,}", *(f"{held / 2**20:,.0f}" for _, held in costs)])
    side = "decoder's" if causal else "encoder's"
    threads = f"{torch.get_num_threads()} threads"
    for rows, unit in ((times, "ms, forward and backward"), (sizes, "MiB held at most")):
        header = [f"tokens of a sentence ({unit})", *LAYERS]
        publish(f"{describe()}, {threads}; {side} self-attention\n\n{table(header, rows)}")
    assert len(times) == len(sizes) == len(LENGTHS)


def cost(config: TransformerConfig, packed: Packed, *, causal: bool) -> tuple[float, int]:
    """Return the fastest time in seconds, and the most bytes that tensors hold at one time."""
    torch.manual_seed(1)
    layer = SelfAttention(config)
    sentences = Sentences.of(packed, as_packed=False)
    x = torch.randn(TOKENS, config.d_model, requires_grad=True)  # (n, D)

    def work() -> None:
        attended: Tensor = layer(x, sentences, causal=causal)
        attended.sum().backward()  # type: ignore[no-untyped-call]

    with LiveBytes() as live:
        work()
    fastest = math.inf
    for _ in range(ROUNDS):
        began = time.perf_counter()
        work()
        fastest = min(fastest, time.perf_counter() - began)
    return fastest, live.most
