"""The paper's Table 1, measured: what a layer costs at growing lengths of sentences.

Self-attention to all of a sentence, with relative positions, and to a neighbourhood; LSTMs; and
convolutions with gated linear units over 3 tokens. All are 512 wide like the base model, and run
forward and backward over 4,096 tokens, from 64 sentences of 64 tokens to one of 4,096. So a column
does not grow if the cost depends only on the number of tokens. The decoder's LSTM has input feeding
but no attention. It goes step by step, and the encoder's LSTM knows all inputs beforehand.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial

import pytest
import torch
from benchmarks.harness import publish, publish_picture, rounds, table
from benchmarks.machine import describe
from pairs import batch_of
from torch import Tensor

from nmt.data.batches import Packed
from nmt.model_config import ConvolutionalConfig, RecurrentConfig, TransformerConfig
from nmt.models.attention import SelfAttention
from nmt.models.convolutional import GatedConvolution, Neighbours
from nmt.models.kernels.packed_attention import Sentences
from nmt.models.kernels.padded_layout import PaddedLayout
from nmt.models.presets import PRESETS
from nmt.models.recurrent import BidirectionalLSTM, InputFeedingDecoder, Reading, StepLayout
from nmt.plot import Panel, Series, draw_curves
from nmt.training.memory import LiveBytes

pytestmark = pytest.mark.benchmark

ROUNDS = rounds()
TOKENS = 4096
LENGTHS = [2**power for power in range(6, 13)]
BASE = TransformerConfig()
WIDTH = BASE.d_model
KERNEL = ConvolutionalConfig().kernel_width
WIDE = TransformerConfig(**PRESETS["transformer_local"].changes).attention_window  # type: ignore[arg-type]

Layer = Callable[[Tensor], Tensor]
"""From states (n, D) to states of the same tokens."""


def attention(config: TransformerConfig, packed: Packed, causal: bool) -> Layer:
    layer = SelfAttention(config)
    sentences = Sentences.of(packed, config.num_heads, as_packed=False)
    return partial(layer, sentences=sentences, causal=causal)


def convolution(packed: Packed, causal: bool) -> Layer:
    layer = GatedConvolution(WIDTH, KERNEL, dropout=0.0)
    neighbours = Neighbours.of(packed, KERNEL, torch.empty(0), causal=causal)
    return lambda x: layer(neighbours.of_each(x))


def recurrence(packed: Packed, causal: bool) -> Layer:
    if not causal:
        layer = BidirectionalLSTM(WIDTH, WIDTH)
        reading = Reading.of(PaddedLayout.of(packed))
        return lambda x: layer(x, [reading])
    config = RecurrentConfig(num_decoder_layers=1, d_model=WIDTH, d_hidden=WIDTH, dropout=0.0)
    decoder = InputFeedingDecoder(config)
    steps = StepLayout.of(packed.in_one_group())
    beginning = decoder.beginning(steps.rows[0])
    return lambda x: decoder(x[steps.tokens], steps.rows, beginning, attend=lambda query: query)[0]


LAYERS: dict[str, Callable[[Packed, bool], Layer]] = {
    "self-attention": partial(attention, BASE),
    f"relative, k = {BASE.max_relative_distance}": partial(
        attention, TransformerConfig(positions="relative")
    ),
    **{
        f"r = {r}": partial(attention, TransformerConfig(attention_window=r))
        for r in (WIDE // 4, WIDE)
    },
    "LSTM": recurrence,
    "convolution": convolution,
}


def test_layer_cost() -> None:
    publish(f"{describe()}, {torch.get_num_threads()} threads")
    panels = []
    for side, causal in (("encoder", False), ("decoder", True)):
        costs = {n: {name: cost(name, n, causal=causal) for name in LAYERS} for n in LENGTHS}
        for at, unit, scale in ((0, "ms", 1e3), (1, "MiB held at most", 2**-20)):
            rows = (
                {f"{side}, tokens of a sentence ({unit})": f"{n:,}"}
                | {name: f"{scale * found[at]:,.0f}" for name, found in of.items()}
                for n, of in costs.items()
            )
            publish(table(rows))
        series = [Series(name, [(n, 1e3 * costs[n][name][0]) for n in LENGTHS]) for name in LAYERS]
        panels.append(Panel(side.capitalize(), series, "ms", log_scale=True, legend_values=False))
    title = f"A layer over {TOKENS:,} tokens, forward and backward"
    publish_picture("layer-cost", draw_curves(panels, title, x_label="tokens of a sentence"))
    assert all(series.points for panel in panels for series in panel.series)


def cost(name: str, length: int, *, causal: bool) -> tuple[float, int]:
    """Return the fastest time in seconds, and the most bytes that tensors hold at one time."""
    torch.manual_seed(1)
    sentences = [[5] * (length - 1)] * (TOKENS // length)
    layer = LAYERS[name](batch_of(sentences, [[6]] * len(sentences)).src, causal)
    x = torch.randn(TOKENS, WIDTH, requires_grad=True)  # (n, D)

    def work() -> None:
        layer(x).sum().backward()  # type: ignore[no-untyped-call]

    with LiveBytes() as live:
        work()
    fastest = math.inf
    for _ in range(ROUNDS):
        began = time.perf_counter()
        work()
        fastest = min(fastest, time.perf_counter() - began)
    return fastest, live.most
