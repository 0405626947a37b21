#!/usr/bin/env bash
# sentencex 1.0.32 and pysbd 0.3.4, splitters of text into sentences.
#
# Expected: a right-to-left mark (U+200F) after a full stop belongs to the sentence that it closes.
# Typists of Arabic, Sindhi and Urdu put it there, so that the stop is shown on the left.
#
# Seen: both cut between the stop and the mark. So the first sentence is shown with its stop on the
# wrong side if it stands by itself among Latin text, and the second one begins with an invisible
# character and a space. Of "شكرًا.<U+200F> مرحبًا.", the second part is "<U+200F> مرحبًا.", and
# stripping white space does not remove that: U+200F is none.
#
# What it means for a translator: the second sentence is not the text that a model or a translation
# memory knows, and comparing the parts of a text by equality fails.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet sentencex==1.0.32 pysbd==0.3.4

"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import pysbd
from sentencex import segment

text = "شكرًا.\u200f مرحبًا."
for name, parts in {
    "sentencex": list(segment("ar", text)),
    "pysbd": pysbd.Segmenter(language="ar", clean=False).segment(text),
}.items():
    print(f"{name}: {[ascii(part) for part in parts]}")
    assert [part.strip()[:1] for part in parts] == ["ش", "\u200f"], "the behaviour has changed"
    assert "".join(parts) == text
PYTHON
