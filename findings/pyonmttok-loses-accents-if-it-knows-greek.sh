#!/usr/bin/env bash
# pyonmttok 1.38.1, OpenNMT's tokeniser, with `case_markup`, which lower-cases words and writes their
# case as tokens beside them.
#
# Expected: text comes back whole, at least if `lang` names its language, because upper and lower
# case differ by language, and the marks are there to undo the change.
#
# Seen: it depends on the language which of the two is right. Turkish needs it: "İSTANBUL" comes back
# as "ISTANBUL" without, and whole with tr. Greek and German suffer from it: "ΆΛΦΑ" in capitals, as
# many write it, comes back whole without, and with el as "ΑΛΦΑ", by the rule that Greek capitals
# bear no accent. Of "GROẞ", de makes "GROSS", and without it is "GROß".
#
# What it means for a translator: training text in capitals is not what the file says, so a model
# learns Greek capitals without accents. Compare a sample of your text with what comes back.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet pyonmttok==1.38.1

"$folder/venv/bin/python" - <<'PYTHON'
import pyonmttok


def back(text: str, lang: str | None) -> str:
    tokenizer = pyonmttok.Tokenizer("aggressive", joiner_annotate=True, case_markup=True, lang=lang)
    return tokenizer.detokenize(tokenizer.tokenize(text)[0])


for text, lang, named, unnamed in (
    ("İSTANBUL", "tr", "İSTANBUL", "ISTANBUL"),
    ("ΆΛΦΑ άλφα", "el", "ΑΛΦΑ άλφα", "ΆΛΦΑ άλφα"),
    ("GROẞ", "de", "GROSS", "GROß"),
):
    seen = back(text, lang), back(text, None)
    print(f"{text}: {seen[0]} with lang={lang}, {seen[1]} without")
    assert seen == (named, unnamed), "changed"
PYTHON
