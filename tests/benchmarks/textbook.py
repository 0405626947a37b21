"""The yardstick of training speed: torch.nn.Transformer as a textbook would train it.

F.cross_entropy, torch.optim.Adam, padded batches of similar length, fp32. It is kept as it is, so
that results of different times can be compared. A process of its own measures its memory:

python -m benchmarks.textbook DATA DEVICE PRECISION BATCH_TOKENS WARMUP UPDATES PAIRS SIZES...

SIZES are those of `Textbook`, after the vocabulary's.

On a GPU it is the same code with `torch.set_default_device("cuda")`. In bf16 it runs under
`torch.autocast` with fp32 weights, as in a textbook.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from benchmarks.machine import CORES
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.data.folder import DataFolder

PAD, BOS, EOS = 0, 2, 3


class Textbook(nn.Module):
    """torch.nn.Transformer between shared embeddings and a projection tied to them."""

    def __init__(self, vocab_size: int, d_model: int, d_ff: int, heads: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.transformer = nn.Transformer(
            d_model, heads, layers, layers, d_ff, dropout=0.1, batch_first=True
        )
        self.dropout = nn.Dropout(0.1)
        angles = torch.arange(512)[:, None] * torch.exp(
            torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model)
        )  # (512, d_model / 2)
        self.positions = torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1)

    def embed(self, tokens: Tensor) -> Tensor:
        scale = math.sqrt(self.embedding.embedding_dim)
        embedded: Tensor = self.embedding(tokens) * scale + self.positions[: tokens.shape[1]]
        dropped: Tensor = self.dropout(embedded)
        return dropped  # (B, T, D)

    def forward(self, src: Tensor, tgt_in: Tensor) -> Tensor:
        length = tgt_in.shape[1]
        causal = torch.ones(length, length, dtype=torch.bool).triu(1)
        padding = src == PAD
        hidden = self.transformer(
            self.embed(src),
            self.embed(tgt_in),
            tgt_mask=causal,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
        )  # (B, T, D)
        return F.linear(hidden, self.embedding.weight)  # (B, T, V)


def padded(rows: Sequence[Sequence[int]]) -> Tensor:
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows])


def tokens_per_second(
    model: nn.Module,
    src: Sequence[Sequence[int]],
    tgt: Sequence[Sequence[int]],
    *,
    batch_tokens: int,
    warmup: int,
    updates: int,
    synchronize: Callable[[], None] = lambda: None,
) -> float:
    """Train and return source and target tokens a second, ends of sentence counted.

    synchronize: waits for a device that works beside this thread; the clock is read after it.
    """
    order = sorted(range(len(src)), key=lambda i: (len(tgt[i]), len(src[i])))
    batches: list[list[int]] = []
    batch: list[int] = []
    tokens = 0
    for index in order:
        if tokens + len(tgt[index]) + 1 > batch_tokens:
            batches.append(batch)
            batch, tokens = [], 0
        batch.append(index)
        tokens += len(tgt[index]) + 1
    np.random.default_rng(0).shuffle(batches)
    adam = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9)
    model.train()
    done, started = 0, 0.0
    for number, indices in enumerate(batches[: warmup + updates]):
        if number == warmup:
            synchronize()
            done, started = 0, time.perf_counter()
        sources = [[*src[i], EOS] for i in indices]
        targets = [[*tgt[i], EOS] for i in indices]
        logits = model(padded(sources), padded([[BOS, *t[:-1]] for t in targets]))
        loss = F.cross_entropy(
            logits.flatten(0, 1), padded(targets).flatten(), ignore_index=PAD, label_smoothing=0.1
        )
        adam.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        adam.step()
        done += sum(map(len, sources)) + sum(map(len, targets))
    synchronize()
    return done / (time.perf_counter() - started)


def main(data: str, device: str, precision: str, *numbers: str) -> None:
    """Train the textbook's model of a data folder's vocabulary, and print its speed."""
    batch_tokens, warmup, updates, pairs, *sizes = map(int, numbers)
    torch.set_num_threads(CORES)
    torch.set_default_device(device)
    torch.manual_seed(1)
    folder = DataFolder.open(Path(data))
    model = Textbook(len(folder.src_vocabulary), *sizes)
    chosen = range(0, len(folder.train), -(-len(folder.train) // pairs))
    with torch.autocast(device, torch.bfloat16, enabled=precision == "bf16"):
        rate = tokens_per_second(
            model,
            [folder.train.src(i).tolist() for i in chosen],
            [folder.train.tgt(i).tolist() for i in chosen],
            batch_tokens=batch_tokens,
            warmup=warmup,
            updates=updates,
            synchronize=torch.cuda.synchronize if device == "cuda" else lambda: None,
        )
    print(json.dumps({"tokens_per_second": rate}))


if __name__ == "__main__":
    main(*sys.argv[1:])
