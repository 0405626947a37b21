"""Trains the textbook model of a preset's size on a data folder and prints what it reached.

A process of its own, so that its memory can be measured:
python -m benchmarks.textbook_process DATA PRESET DEVICE PRECISION BATCH_TOKENS WARMUP UPDATES PAIRS

On a GPU it is the same code with `torch.set_default_device("cuda")`; in bf16 it runs under
`torch.autocast` with fp32 weights, as a textbook would have it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from benchmarks.machine import CORES
from benchmarks.textbook import Textbook, tokens_per_second

from nmt.config import resolve_recipe
from nmt.data.folder import DataFolder
from nmt.model_config import TransformerConfig
from nmt.models.presets import preset_values


def main(data: str, preset: str, device: str, precision: str, *counts: str) -> None:
    batch_tokens, warmup, updates, pairs = map(int, counts)
    torch.set_num_threads(CORES)
    torch.set_default_device(device)
    torch.manual_seed(1)
    folder = DataFolder.open(Path(data))
    config = resolve_recipe(preset, "transformer", [(preset, preset_values(preset))]).model
    assert isinstance(config, TransformerConfig)
    model = Textbook(
        len(folder.src_vocabulary),
        d_model=config.d_model,
        d_ff=config.d_ff,
        heads=config.num_heads,
        layers=config.num_encoder_layers,
    )
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
