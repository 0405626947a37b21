#!/bin/sh
# Convert two small models to CTranslate2 4.8.5, and record what it does with them.
#
#   make.sh FAIRSEQ          needs a network; a minute
#
# FAIRSEQ is the folder of ../fairseq/make.sh, whose environment is taken. `post/` is fairseq's model of
# this name: post-norm, shared embeddings, codes over Moses' tokens. `apart/` is that of OpenNMT-py:
# pre-norm, GELU, nothing shared, two SentencePiece models, no eos after sources. Each gets 200 lines
# of test (source.txt), what CTranslate2 writes for them greedily (output.txt), and the sum of the
# natural logs of each line's probabilities, with eos (scores.txt).
set -eu

here=$(cd "$(dirname "$0")" && pwd)
cd "$1"
env/bin/pip install "ctranslate2==4.8.5" "numpy==1.23.5"
PYTHONPATH=$PWD/fairseq-0.12.2:$here/../fairseq OMP_NUM_THREADS=1 env/bin/python "$here/convert.py"
