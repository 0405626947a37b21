#!/usr/bin/env bash
# pymarian 1.12.42: Marian's decoder.
#
# Expected: a line that is longer than --max-length (1,000 pieces by default) is skipped or cut, and
# every other line is translated. --help says of the option's counterpart --max-length-crop: "Crop a
# sentence to max-length instead of omitting it if longer than max-length".
#
# Seen: Marian does not omit the line but ends there. Of three lines with a long one in the middle,
# the output has one, the log has no warning, and the exit status is 0. With --max-length-crop, it
# has three.
#
# What it means for a translator: a file comes back shorter, so compare the numbers of lines, or put
# max-length-crop: true into each decoder.yml.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet pymarian==1.12.42
cd "$folder"

# A model that has hardly been trained: what it writes does not matter.
for number in $(seq 200); do echo "one two three four"; done > text
marian() { venv/bin/python -m pymarian "$@" --cpu-threads 1; }
marian train --type transformer --train-sets text text --vocabs vocab.yml vocab.yml \
  --model model.npz --dim-emb 16 --transformer-dim-ffn 16 --transformer-heads 2 --enc-depth 1 \
  --dec-depth 1 --after 1u --mini-batch 8 --tempdir . --seed 1 --quiet

{ echo "one two"; for _ in $(seq 500); do printf 'one two three '; done; echo; echo "three"; } > in
decode() { marian decode --config model.npz.decoder.yml --beam-size 1 --max-length-factor 0.01 --input in "$@"; }
decode > default 2> log
decode --max-length-crop > cropped 2> /dev/null

lines() { grep -c '' "$1"; }
echo "lines given: $(lines in), by default: $(lines default), cropped: $(lines cropped)"
[[ $(lines in) == 3 && $(lines default) == 1 && $(lines cropped) == 3 ]]
if grep -qE '\[(warn|error|critical)\]' log; then exit 1; fi
