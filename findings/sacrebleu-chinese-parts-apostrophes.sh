#!/usr/bin/env bash
# sacrebleu 2.6.0: BLEU of Chinese, `--tokenize zh`.
#
# Expected: each Chinese character is a token, whichever plane of Unicode it is in, and the Latin
# words of a line stay whole, as with the default tokeniser, 13a.
#
# Seen: characters of Extension B (U+20000 and on), which names and Cantonese have, stay together
# as one token. Signs from U+2001 to U+2A6D become tokens of their own instead: the table of ranges
# means U+20000 to U+2A6D6, but Python reads only four digits after \u. So "don't" is one token if
# its apostrophe is typed, and three if it is typographic, and "5€" is two.
#
# What it means for an evaluation: a system that writes typographic quotes or signs beside Latin
# text has more tokens, and so another BLEU, and only there: 13a leaves its words whole.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet sacrebleu==2.6.0
cd "$folder"

venv/bin/python - <<'PYTHON'
from sacrebleu.metrics.bleu import BLEU

tokenise = BLEU(tokenize="zh").tokenizer
for text, expected in (
    ("\u4e00\u4e01", "\u4e00 \u4e01"),  # two of the common plane
    ("\U00020000\U00020001", "\U00020000\U00020001"),  # two of Extension B
    ("don't", "don't"),
    ("don\u2019t", "don \u2019 t"),
    ("5\u20ac", "5 \u20ac"),
):
    found = tokenise(text)
    print(f"{text}: {found}")
    assert found == expected, "changed"

for tokenizer, expected in (("13a", 2), ("zh", 4)):
    score = BLEU(tokenize=tokenizer).corpus_score(["Don\u2019t wait"], [["Don't wait"]])
    print(f"{tokenizer}: \"Don\u2019t wait\" has {score.sys_len} tokens")
    assert score.sys_len == expected, "changed"
PYTHON
