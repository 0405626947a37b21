#!/usr/bin/env bash
# ctranslate2 4.8.5: translate_batch with return_alternatives, which gives the most probable first
# tokens, and for each the best translation that begins with it.
#
# Expected: the score of a translation is what it is without the option: its log-probability over its
# length, if length_penalty is 1. So one threshold fits both.
#
# Seen: only the tokens after the first are divided, by how many they are, and the log-probability
# of the first is added whole. So the same translation has a lower score: here -1.63, and -0.73
# without the option. With length_penalty=0, both are equal.
#
# What it means for translation: compare alternatives with each other, not with scores from elsewhere,
# or set length_penalty=0 and divide yourself.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet ctranslate2==4.8.5 numpy==2.2.6
cd "$folder"

venv/bin/python - <<'PYTHON'
from pathlib import Path

import ctranslate2
import numpy as np
from ctranslate2.specs import TransformerSpec

# A model of one layer with random weights, which never ends a sentence: each has the largest length.
WIDTH = 8
WORDS = ["<unk>", "<s>", "</s>", *"abcdefgh"]
draw = np.random.default_rng(3)


def matrix(rows, columns, gain=1.0):
    return (gain * draw.normal(size=(rows, columns))).astype(np.float32)


def fill_linear(linear, rows, columns):
    linear.weight, linear.bias = matrix(rows, columns, 0.5), np.zeros(rows, np.float32)


def fill_norm(norm):
    norm.gamma, norm.beta = np.ones(WIDTH, np.float32), np.zeros(WIDTH, np.float32)


def fill_layer(layer):
    for attention in (layer.self_attention, getattr(layer, "attention", None)):
        if attention is None:
            continue
        parts = (3, 1) if attention is layer.self_attention else (1, 2, 1)
        for linear, part in zip(attention.linear, parts, strict=True):
            fill_linear(linear, part * WIDTH, WIDTH)
        fill_norm(attention.layer_norm)
    fill_linear(layer.ffn.linear_0, 2 * WIDTH, WIDTH)
    fill_linear(layer.ffn.linear_1, WIDTH, 2 * WIDTH)
    fill_norm(layer.ffn.layer_norm)


spec = TransformerSpec.from_config(num_layers=1, num_heads=1, pre_norm=False)
for stack, embeddings in (
    (spec.encoder, spec.encoder.embeddings[0]),
    (spec.decoder, spec.decoder.embeddings),
):
    embeddings.weight = matrix(len(WORDS), WIDTH)
    stack.position_encodings.encodings = matrix(40, WIDTH, 0.3)
    fill_layer(stack.layer[0])
fill_linear(spec.decoder.projection, len(WORDS), WIDTH)
spec.decoder.projection.bias[:3] = -30
spec.register_source_vocabulary(WORDS)
spec.register_target_vocabulary(WORDS)
spec.validate()
Path("model").mkdir()
spec.save("model")

translator = ctranslate2.Translator("model", intra_threads=1)
source, length = [list("abcd")], 6


def search(penalty, **options):
    return translator.translate_batch(
        source,
        beam_size=1,
        length_penalty=penalty,
        max_decoding_length=length,
        return_scores=True,
        **options,
    )[0]


for penalty in (0, 1):
    plain = search(penalty)
    alternatives = search(penalty, num_hypotheses=2, return_alternatives=True)
    place = alternatives.hypotheses.index(plain.hypotheses[0])
    tokens = translator.score_batch(source, plain.hypotheses)[0].log_probs[:length]
    print(f"length_penalty={penalty}: {''.join(plain.hypotheses[0])}")
    print(f"  alone {plain.scores[0]:.4f}, as an alternative {alternatives.scores[place]:.4f}")
    shared = length if penalty else 1
    assert abs(plain.scores[0] - sum(tokens) / shared) < 0.01, "changed"
    expected = tokens[0] + sum(tokens[1:]) / (length - 1 if penalty else 1)
    assert abs(alternatives.scores[place] - expected) < 0.01, "changed"
    assert (plain.scores[0] - alternatives.scores[place] > 0.1) == bool(penalty), "changed"
PYTHON
