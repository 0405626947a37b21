"""Do imported models translate as fast as native ones of their size?

All are base models with random weights and one vocabulary, configured as training makes them and as
imports do. Every translation is made as long as its source, so all do the same steps.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from benchmarks.harness import in_turn, publish, rounds, setting, spread, table
from benchmarks.machine import CORES, describe
from foreign_models import text

from nmt.data.pieces import Piece, PieceModel
from nmt.data.vocabulary import Vocabulary, learn_vocabulary
from nmt.model_config import TransformerConfig
from nmt.models.model_file import ModelCard, write_model
from nmt.search.options import SearchOptions
from nmt.translate.translator import Translator

pytestmark = pytest.mark.benchmark

ROUNDS = rounds()
LINES = setting("LINES", 200)
TOKENS = 25  # of a translation
PIECES = 32_000

MARIAN = TransformerConfig(
    attention_bias=True,
    output_bias=True,
    positions="sinusoidal_halves",
    norm_epsilon=1e-6,
    first_input="zeros",
)
CONFIGS: Mapping[str, TransformerConfig] = {
    "native": TransformerConfig(),
    "as OPUS-MT": replace(MARIAN, feed_forward="swish", norm_epsilon=0.0),
    "as Marian, SSRU": replace(MARIAN, decoder_memory="ssru"),
    "native, pre-norm": TransformerConfig(pre_norm=True),
    "as NLLB": TransformerConfig(
        pre_norm=True,
        attention_bias=True,
        positions="sinusoidal_halves",
        first_position=2,
        first_input="eos",
    ),
}


def test_imported_speed(tmp_path: Path) -> None:
    learnt = learn_vocabulary(text("source", 4_000), vocab_size=500)
    more = [Piece(f"<{number}>", -1e3) for number in range(PIECES - len(learnt))]
    vocabulary = Vocabulary(PieceModel.read(learnt.model).with_pieces(more).write())
    translators = {}
    for name, config in CONFIGS.items():
        card = ModelCard("transformer", config, "en", "de", vocabulary, vocabulary, 200, "", 0, {})
        torch.manual_seed(1)
        path = tmp_path / "model.safetensors"
        write_model(path, card, {n: w.detach() for n, w in card.build().named_parameters()})
        options = SearchOptions(min_tokens=TOKENS, max_tokens=TOKENS)
        translators[name] = Translator.load(path, options)
    lines = text("source", LINES)

    def seconds(translator: Translator) -> float:
        started = time.perf_counter()
        found = translator.translate(lines)
        assert all(len(one.tokens) == TOKENS for one in found)
        return time.perf_counter() - started

    measured = in_turn(
        {name: partial(seconds, translator) for name, translator in translators.items()},
        ROUNDS + 1,  # the first one warms up
    )
    publish(f"{describe()}; {CORES} threads; {LINES} lines, beam 4, {TOKENS} tokens each, fp32")
    publish(
        table(
            {
                "base model": name,
                f"sentences/s, median of {ROUNDS} (range)": spread(
                    [LINES / one for one in found[1:]], ".1f"
                ),
            }
            for name, found in measured.items()
        )
    )
    assert measured.keys() == CONFIGS.keys()
