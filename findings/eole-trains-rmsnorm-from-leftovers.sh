#!/usr/bin/env bash
# Eole 0.6.4 (torch 2.13.0): the gains of RMSNorm in a model that is trained from nothing.
#
# Expected: `layer_norm: rms` starts with gains of 1, as LayerNorm does, so two runs of one seed are
# the same run.
#
# Seen: nothing sets them. They are what the memory held before, whatever the seed says: the methods
# xavier_uniform and normal look at matrices and biases only. If torch fills fresh memory with NaN,
# which its deterministic mode does to show such a fault, the loss is NaN from the first update on with
# `rms`, and a number with `standard`. Without that mode it depends on the memory. Here, it was NaN, too.
#
# What it means for a translator: train with `layer_norm: standard`, or with a release that has mended
# this. A checkpoint whose training went well is not affected.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 numpy==2.2.6 safetensors==0.8.0 pydantic==2.14.4 \
  pyyaml sentencepiece==0.2.1 subword-nmt==0.3.8 sacremoses==0.1.1 sacrebleu==2.4.3 pyonmttok==1.38.1 \
  six rich configargparse rapidfuzz pandas huggingface_hub==2.4.0 requests tensorboard \
  torch-optimi==0.3.3 tokenizers==0.23.3 fastapi==0.165.0 uvicorn aiohttp waitress python-multipart
"$folder/venv/bin/pip" install --quiet --no-deps eole==0.6.4
cd "$folder"

for line in $(seq 100); do
  echo "one two three $((line % 7)) $((line % 5))"
done > text
cat > config.yaml <<'YAML'
save_data: data
src_vocab: vocab
tgt_vocab: vocab
share_vocab: true
overwrite: true
seed: 1
n_sample: 0
report_every: 1
data:
  corpus: {path_src: text, path_tgt: text}
model:
  architecture: transformer
  layers: 1
  layer_norm: NORM
  heads: 2
  hidden_size: 16
  transformer_ff: 16
  embeddings: {word_vec_size: 16, position_encoding_type: SinusoidalInterleaved}
training:
  model_path: NORM
  train_steps: 2
  valid_steps: 100
  save_checkpoint_steps: 2
  world_size: 1
  gpu_ranks: []
  num_workers: 0
  compute_dtype: fp32
  batch_type: sents
  batch_size: 10
  optim: adam
  learning_rate: 0.001
  param_init_method: xavier_uniform
YAML
cat > eole_filled.py <<'PYTHON'
"""`eole`, with fresh memory that torch fills with NaN."""

import torch
from eole.bin.main import main

torch.use_deterministic_algorithms(True)
main()
PYTHON
for norm in standard rms; do
  sed "s/NORM/$norm/" config.yaml > $norm.yaml
  [ -e vocab ] || venv/bin/eole build_vocab --config $norm.yaml --n_sample -1 > vocab.log 2>&1
  venv/bin/python eole_filled.py train --config $norm.yaml > $norm.log 2>&1
  ppl=$(sed -n 's/.*Step *1\/.*ppl: *\([^;]*\);.*/\1/p' $norm.log)
  echo "$norm: perplexity of the first update: $ppl"
  is_nan=$([ "$ppl" = nan ] && echo rms || echo standard)
  [ -n "$ppl" ] && [ "$is_nan" = $norm ] || { echo "changed: $norm" >&2; exit 1; }
done
