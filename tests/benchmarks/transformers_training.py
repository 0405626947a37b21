"""Training of transformers' `MarianMTModel`, of the size of a preset, by the textbook's loop.

python -m benchmarks.transformers_training DATA DEVICE PRECISION BATCH_TOKENS WARMUP UPDATES PAIRS
    PRESET
"""

from __future__ import annotations

import sys

from benchmarks import textbook
from benchmarks.peer_weights import transformers_config
from benchmarks.training import config_of
from torch import Tensor, nn


class Peer(nn.Module):
    """A model that is called as the textbook's: sources and targets to logits (B, T, V)."""

    def __init__(self, preset: str, vocab_size: int) -> None:
        super().__init__()
        from transformers import MarianConfig, MarianMTModel

        config = config_of(preset)
        values = transformers_config(config, vocab_size) | {"dropout": config.dropout}
        self.model = MarianMTModel(MarianConfig(**values))

    def forward(self, src: Tensor, tgt_in: Tensor) -> Tensor:
        mask = (src != textbook.PAD).long()
        found = self.model(input_ids=src, attention_mask=mask, decoder_input_ids=tgt_in)
        logits: Tensor = found.logits
        return logits


def main(*arguments: str) -> None:
    """Train it, and print its speed."""
    preset = arguments[7]
    textbook.measure(
        lambda folder: Peer(preset, len(folder.src_vocabulary)),
        *arguments[:7],
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
