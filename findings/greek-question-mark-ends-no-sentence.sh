#!/usr/bin/env bash
# sentencex 1.0.32, pysbd 0.3.4, sentence-splitter 1.4 and blingfire 0.1.8, splitters of text into
# sentences. The first three have rules for Greek.
#
# Expected: a question ends a sentence, whichever of the two characters its mark is. Greek writes what
# looks like a semicolon: U+003B on most keyboards, or Unicode's own Greek question mark, U+037E.
# Both are the same by canonical equivalence.
#
# Seen: sentencex and pysbd split after U+003B, and not after U+037E. The other two split after
# neither.
#
# What it means for translation: a question and its answer go into the model as one sentence. Normalise
# Greek to NFC, which turns U+037E into U+003B, before you split it.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet sentencex==1.0.32 pysbd==0.3.4 sentence-splitter==1.4 \
  blingfire==0.1.8 numpy==2.2.6
cd "$folder"

venv/bin/python -W ignore - <<'PYTHON'
import unicodedata

import blingfire
import pysbd
import sentencex
from sentence_splitter import SentenceSplitter

SPLITTERS = {
    "sentencex": lambda text: list(sentencex.segment("el", text)),
    "pysbd": pysbd.Segmenter(language="el", clean=False).segment,
    "sentence-splitter": SentenceSplitter(language="el").split,
    "blingfire": lambda text: blingfire.text_to_sentences(text).split("\n"),
}
TEXT = "Ποιος είναι\u037e Εγώ."
assert unicodedata.normalize("NFC", TEXT) == TEXT.replace("\u037e", ";")

for name, split in SPLITTERS.items():
    counts = [len(split(TEXT.replace("\u037e", mark))) for mark in (";", "\u037e")]
    print(f"{name}: sentences with U+003B {counts[0]}, with U+037E {counts[1]}")
    assert counts == ([2, 1] if name in ("sentencex", "pysbd") else [1, 1]), "changed"
PYTHON
