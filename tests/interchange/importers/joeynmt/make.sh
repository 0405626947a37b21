#!/bin/sh
# Train two small models of JoeyNMT 2.3.0 on made-up text, and record what it does with them.
#
#   make.sh FOLDER      needs Python 3.10 and a network; 20 minutes on one core
#
# `post/` is post-norm with shared embeddings, on codes of subword-nmt over Moses' tokens. `pre/` is
# pre-norm with GELU, shares nothing and does not scale its embeddings, on two SentencePiece models.
# Codes and models are those of ../fairseq. Each folder gets what JoeyNMT leaves in that of a model,
# without the optimiser's state, and the files that ../fairseq/make.sh describes.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
toy=$here/../../../../examples/toy
mkdir -p "$1" && cd "$1"

if [ ! -d env ]; then
    python3.10 -m venv env
    env/bin/pip install torch==2.2.2 numpy==1.26.4 sentencepiece==0.2.0 sacremoses==0.1.1 \
        subword-nmt==0.3.8 sacrebleu==2.4.3 pyyaml importlib_metadata matplotlib seaborn plotly \
        tensorboard packaging "setuptools<70"
    env/bin/pip install --no-deps joeynmt==2.3.0
fi
export OMP_NUM_THREADS=1

env/bin/python "$toy/make_text.py" --out text
cp "$here"/../fairseq/post/codes.bpe "$here"/../fairseq/pre/spm.*.model .
env/bin/python "$here/configure.py"
for model in post pre; do
    env/bin/python -m joeynmt train "$model.yaml" --skip-test
done
env/bin/python "$here/record.py"
