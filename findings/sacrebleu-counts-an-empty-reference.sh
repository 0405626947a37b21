#!/usr/bin/env bash
# sacrebleu 2.6.0: BLEU with a second reference that lacks a line.
#
# Expected: a gap is no reference, whichever way it is written. The docstring of the library's
# `_cache_references` says that a segment "can be '' or `None` to allow the use of variable number
# of references".
#
# Seen: only None is left out. An empty string is a reference of no tokens. It is the one that is
# nearest in length to a short output, so the brevity penalty goes: 22.31 becomes 100.00. The
# signature says nrefs:2 and not nrefs:var. The command cannot write None, so it always does that.
#
# What it means for an evaluation: a blank line in a further reference file raises BLEU by any
# amount, while chrF and TER hardly move.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet sacrebleu==2.6.0
cd "$folder"

echo "a b c d" > output
echo "a b c d e f g h i j" > first
echo > second
command=$(venv/bin/sacrebleu first second -i output -m bleu -b -w 2)
echo "command: $command"
[[ $command == 100.00 ]]

venv/bin/python - <<'PYTHON'
from sacrebleu import BLEU

for gap, score, number in ((None, "22.31", "1"), ("", "100.00", "2")):
    metric = BLEU()
    found = f"{metric.corpus_score(['a b c d'], [['a b c d e f g h i j'], [gap]]).score:.2f}"
    print(f"library, {gap!r}: {found}, {metric.get_signature()}")
    assert found == score and f"nrefs:{number}|" in str(metric.get_signature()), "changed"

metric = BLEU()
texts = ["a b c d", "a b c d"], [["a b c d e", "a b c d"], ["a b c d", None]]
metric.corpus_score(*texts)
assert "nrefs:var|" in str(metric.get_signature()), "changed"
PYTHON
