#!/usr/bin/env bash
# pycaption 2.3.14: from WebVTT to other formats of captions.
#
# Expected: `un<i>believ</i>able` stays one word. SubRip has `<i>` as well, so it stays, too, as it
# does from SubRip to SubRip.
#
# Seen: the text between tags becomes a piece of its own, and a space follows the piece that a tag
# closes. SubRip, SAMI and DFXP all get "un believ able" or a form of it, and "there ." for
# `<i>there</i>.`; SubRip loses the tags besides. The library's own get_text has the words whole.
#
# What it means for parallel text: captions that came through this conversion have spaces inside
# words and before full stops, on one side only.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet pycaption==2.3.14
cd "$folder"

venv/bin/python - <<'PYTHON'
import re

import pycaption

text = """WEBVTT

00:00:01.000 --> 00:00:02.000
un<i>believ</i>able, <i>there</i>.
"""
captions = pycaption.WebVTTReader().read(text)
[caption] = captions.get_captions(captions.get_languages()[0])
print("get_text:", caption.get_text())
assert caption.get_text() == "unbelievable, there.", "changed"

for writer, expected in (
    (pycaption.SRTWriter, "un believ able, there ."),
    (pycaption.SAMIWriter, "un <i>believ</i> able, <i>there</i> ."),
    (pycaption.DFXPWriter, "un<span>believ</span> able, <span>there</span> ."),
):
    [line] = (line for line in writer().write(captions).splitlines() if "believ" in line)
    found = re.sub(r"<span [^>]*>", "<span>", re.sub(" +", " ", line.strip()))
    print(f"{writer.__name__}: {found}")
    assert found == expected, "changed"
PYTHON
