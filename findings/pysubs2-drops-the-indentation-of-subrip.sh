#!/usr/bin/env bash
# pysubs2 1.8.1: hard spaces and line ends (\h and \N) in SubRip, as tools write them that come from
# SubStation Alpha.
#
# Expected: a SubRip file that is read and written again keeps them, as text or as what they mean.
#
# Seen: \N becomes a line end, and \h in a line becomes a space. Those that indent a text are gone:
# its plain text has them, and SubRip is written without.
#
# What it means: captions that are indented to stand below their speaker all begin at the left, or
# are centred, after any tool that goes through this library.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet pysubs2==1.8.1

"$folder/venv/bin/python" - <<'PYTHON'
import pysubs2

subtitles = pysubs2.SSAFile.from_string(
    "1\n00:00:01,000 --> 00:00:02,000\n\\h\\hA man\\Nsits\\hthere.\n"
)
plain = subtitles[0].plaintext
written = subtitles.to_string("srt").split("\n", 2)[2]
print(repr(plain), repr(written))
assert plain == "  A man\nsits there.", "changed"
assert written == "A man\nsits there.\n\n", "changed"
PYTHON
