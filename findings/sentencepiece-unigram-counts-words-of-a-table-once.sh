#!/usr/bin/env bash
# SentencePiece 0.2.3: `--input_format=tsv`, a table of words and how often each occurs in a text.
#
# Expected: a table teaches the same pieces as the text that it was counted from, since trainers
# split text into words and count those first.
#
# Seen: BPE learns the same pieces. A unigram model does not: its first candidates are substrings
# that stand at least twice in the input, and a row of the table stands there once, whatever its
# count. So the words that make up a third of the text are pieces if the text is given, and are
# spelt by fragments if the table is.
#
# What it means: count words before you learn BPE, but give lines to the unigram trainer.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet sentencepiece==0.2.3

"$folder/venv/bin/python" - <<'PYTHON'
import io
import random
from collections import Counter

import sentencepiece

draw = random.Random(1)
words = ["".join(draw.choices("abcdefgh", k=draw.randint(3, 9))) for _ in range(300)]
shares = [1 / rank for rank in range(1, 301)]
lines = [" ".join(draw.choices(words, shares, k=10)) for _ in range(3000)]
counts = Counter(" ".join(lines).split())
table = [f"{word}\t{count}" for word, count in counts.items()]


def learn(model_type, text, **options):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text), model_writer=model, model_type=model_type, vocab_size=200,
        minloglevel=9, num_threads=1, **options,
    )
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    return {processor.id_to_piece(number) for number in range(200)}


for model_type in ("bpe", "unigram"):
    of_text, of_table = learn(model_type, lines), learn(model_type, table, input_format="tsv")
    frequent = ["\u2581" + word for word, _ in counts.most_common(7)]
    found = [sum(word in pieces for word in frequent) for pieces in (of_text, of_table)]
    print(model_type, "pieces in common:", len(of_text & of_table), "frequent words:", found)
    if model_type == "bpe":
        assert of_text == of_table, "changed"
    else:
        assert len(of_text & of_table) < 50, "changed"
        assert found[0] == 7, "changed"
        assert found[1] < 3, "changed"
PYTHON
