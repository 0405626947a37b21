#!/usr/bin/env bash
# sentencepiece 0.2.3: the rules nfkc_cf and nmt_nfkc_cf, "case folding".
#
# Expected: the case folding of Unicode, as Python's str.casefold. Then words that differ only in
# case become the same text, as with STRASSE, Straße and straße, or İstanbul and i̇stanbul.
#
# Seen: it is the simple folding, a letter for a letter. ß and ẞ become ß, and not ss, so STRASSE
# stays another word than straße, which is written so in no other case. The Turkish İ (U+0130) has no
# simple folding at all, so of all capital letters it alone stays a capital: the text "İI" becomes
# "İi". All 26 Latin and 24 Greek capitals fold as expected.
#
# What it means for a translator: lower-cased subwords are not case-insensitive for German, and
# Turkish sentences that begin with İ keep a capital that the model has hardly seen.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet sentencepiece==0.2.3

"$folder/venv/bin/python" - 2> "$folder/log" <<'PYTHON'
import sys

from sentencepiece import SentencePieceNormalizer

for rule in ("nfkc_cf", "nmt_nfkc_cf"):
    normalizer = SentencePieceNormalizer(rule_name=rule)

    def fold(text):
        return normalizer.normalize(text).replace("\u2581", "")

    words = ["STRASSE", "Straße", "STRAẞE", "İI"]
    print(rule, {word: fold(word) for word in words})
    assert [fold(word) for word in words] == ["strasse", "straße", "straße", "İi"], "changed"
    capitals = filter(str.isupper, map(chr, range(sys.maxunicode)))
    kept = [letter for letter in capitals if fold(letter) == letter != letter.casefold()]
    print(rule, "leaves the capitals", kept)
    assert kept == ["İ"], "changed"
PYTHON
