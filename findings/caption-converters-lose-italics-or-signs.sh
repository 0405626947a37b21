#!/usr/bin/env bash
# pycaption 2.3.14, ttconv 1.2.3 and webvtt-py 0.6.0: from SubRip to WebVTT.
#
# Expected: `<i>` of SubRip stays `<i>`, which WebVTT has as well, and a `<` or `&` of the text
# becomes `&lt;` or `&amp;`, because WebVTT has HTML's escapes and SubRip has not.
#
# Seen: no converter does both. pycaption escapes the tags, too, so viewers read "<i>" on the screen.
# ttconv and webvtt-py escape nothing, so a player takes "< 6 & 7 >" for a tag and does not show it.
# webvtt-py itself reads back "5  2".
#
# What it means for translation: text that such a file shows is not the text that was said. Translate
# the SubRip file, and convert the translation afterwards.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet pycaption==2.3.14 ttconv==1.2.3 webvtt-py==0.6.0
cd "$folder"

cat > in.srt <<'SRT'
1
00:00:01,000 --> 00:00:02,000
<i>Hello</i> there.

2
00:00:03,000 --> 00:00:04,000
5 < 6 & 7 > 2

SRT
venv/bin/tt convert -i in.srt -o ttconv.vtt > log 2>&1
venv/bin/python - <<'PYTHON'
from pathlib import Path

import pycaption
import webvtt

captions = pycaption.SRTReader().read(Path("in.srt").read_text())
Path("pycaption.vtt").write_text(pycaption.WebVTTWriter().write(captions))
webvtt.from_srt("in.srt").save("webvtt-py.vtt")

for name, italics, signs in (
    ("pycaption", "&lt;i>Hello&lt;/i> there.", "5 &lt; 6 &amp; 7 > 2"),
    ("ttconv", "<i>Hello</i> there.", "5 < 6 & 7 > 2"),
    ("webvtt-py", "<i>Hello</i> there.", "5 < 6 & 7 > 2"),
):
    lines = Path(f"{name}.vtt").read_text().splitlines()
    print(f"{name}:", *(line for line in lines if "Hello" in line or "6" in line), sep="\n  ")
    assert italics in lines and signs in lines, "changed"

shown = webvtt.read("webvtt-py.vtt").captions[1].text
print("read back:", shown)
assert shown == "5  2", "changed"
PYTHON
