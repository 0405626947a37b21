#!/usr/bin/env bash
# sentencex 1.0.32 and indic-nlp-library 0.92, splitters of text into sentences.
#
# Expected: "ਉਹ ਘਰ ਸੀ. ਉਹ ਆਇਆ." (He was at home. He came.) is two sentences of Punjabi, as the same
# words are in Hindi: "वह घर था. वह आया."
#
# Seen: both give one sentence. Their lists of Punjabi abbreviations have ਸੀ, which spells the
# English letter C, for initials such as C. V. Raman. But ਸੀ also means "was", the verb that ends
# most sentences about the past. With ਹੈ (is) in its place, both give two. So text with full stops
# instead of the danda comes out in pieces of several sentences.
#
# What it means for a translator: a list of abbreviations needs a look at frequent last words.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet sentencex==1.0.32 indic-nlp-library==0.92

"$folder/venv/bin/python" - <<'PYTHON'
from indicnlp.tokenize.sentence_tokenize import sentence_split
from sentencex import segment

texts = {
    "was": ("pa", "ਉਹ ਘਰ ਸੀ. ਉਹ ਆਇਆ.", 1),
    "is": ("pa", "ਉਹ ਘਰ ਹੈ. ਉਹ ਆਇਆ.", 2),
    "was, in Hindi": ("hi", "वह घर था. वह आया.", 2),
}
for name, (lang, text, expected) in texts.items():
    counts = len(list(segment(lang, text))), len(sentence_split(text, lang))
    print(f"{name}: {counts[0]} by sentencex, {counts[1]} by indic-nlp-library")
    assert counts == (expected, expected), "the behaviour has changed"
PYTHON
