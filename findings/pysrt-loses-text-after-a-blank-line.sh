#!/usr/bin/env bash
# pysrt 1.1.2 and srt 3.5.3, two readers of SubRip: a caption with a blank line in it, as speakers are
# parted in some captions, or one that begins with a blank line.
#
# Expected: the text belongs to the caption until the next number and times come, or an error says
# that the file is damaged.
#
# Seen: srt does that. pysrt ends the caption at the blank line, and drops what follows. The error
# that it has for this is off by default, so nothing tells you, and saving writes the shorter file.
#
# What it means for translation: compare the number of words before and after, or ask pysrt for its
# errors with error_handling=1 (a log) or 2 (an exception).
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet pysrt==1.1.2 srt==3.5.3
cd "$folder"

venv/bin/python - <<'PYTHON'
import pysrt
import srt

TEXT = """1
00:00:01,000 --> 00:00:02,000
Who is it?

It is me.

2
00:00:03,000 --> 00:00:04,000

Come in.

"""
found = [caption.text for caption in pysrt.from_string(TEXT)]
print("pysrt:", found)
assert found == ["Who is it?", ""], "changed"

found = [caption.content for caption in srt.parse(TEXT)]
print("srt:", found)
assert [text.split("\n\n") for text in found] == [["Who is it?", "It is me."], ["\nCome in."]], "changed"

try:
    pysrt.from_string(TEXT, error_handling=pysrt.ERROR_RAISE)
    raise AssertionError("changed: no error on request")
except pysrt.InvalidItem as error:
    print("pysrt, asked for errors:", type(error).__name__)
PYTHON
