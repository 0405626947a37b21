"""A model that has learnt which word stands for which shows it where its decoder looks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from nmt.data.batches import collate
from nmt.data.folder import DataFolder
from nmt.models.model_file import load_model
from nmt.translate.alignment import Alignment


def test_words_are_aligned_with_those_that_they_translate(data: Path, learnt: Path) -> None:
    # Targets are their sources word by word from the end: of n words, word i comes from n - 1 - i.
    model = load_model(learnt / "best.safetensors")[0].eval()
    folder = DataFolder.open(data)
    words = right = 0
    for number in range(len(folder.train)):
        src, tgt = folder.train.rows(np.array([number]))
        src_tokens, tgt_tokens = (
            folder.src_vocabulary.tokens(rows.ids.tolist()) for rows in (src, tgt)
        )
        length = sum(token.startswith("▁") for token in tgt_tokens)
        if not 2 <= length <= 5 or len(set(src_tokens)) < len(src_tokens):
            continue  # with one word there is no choice, and of equal ones either may be meant
        mean = model.cross_attention(collate(src, tgt), from_top=1)[0].mean(dim=0)  # (T, S)
        found, shifted = (
            Alignment.from_attention([attention.numpy()], src_tokens, tgt_tokens)
            for attention in (mean[:-1, :-1], torch.roll(mean, 1, dims=0)[:-1, :-1])
        )
        words += length
        right += sum(src_word == length - 1 - tgt_word for src_word, tgt_word in found.words)
        # The state after the one that predicts a word looks for the next word.
        assert shifted.positions != found.positions
    assert words > 300
    assert right / words > 0.8
