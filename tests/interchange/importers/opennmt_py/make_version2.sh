#!/bin/sh
# Train a small model of OpenNMT-py 2.3.0 on made-up text, convert it as its version 3 does, and
# record what version 2 does with it.
#
#   make_version2.sh FOLDER FAIRSEQ      needs Python 3.8 and a network; 5 minutes on one core
#
# FAIRSEQ is the folder of ../fairseq/make.sh. `version2/` has relative positions, and vocabularies
# of its own on each side, on codes of subword-nmt over Moses' tokens.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
text=$(cd "$2" && pwd)
mkdir -p "$1/vocab" && cd "$1"

if [ ! -d env2 ]; then
    python3.8 -m venv env2
    env2/bin/pip install pip==24.0
    env2/bin/pip install torch==1.12.1 numpy==1.23.5 six tqdm requests sentencepiece==0.2.0 \
        subword-nmt==0.3.8 sacremoses==0.1.1 configargparse==1.7 pyyaml tensorboard flask waitress \
        sacrebleu==2.4.3 "pyonmttok<2" "setuptools<60" "protobuf<4"
    env2/bin/pip install --no-deps torchtext==0.5.0 OpenNMT-py==2.3.0
fi
export OMP_NUM_THREADS=1

sed "s|TEXT|$text|g" "$here/version2.yaml" > version2.yaml
env2/bin/onmt_build_vocab -config version2.yaml -n_sample -1
env2/bin/onmt_train -config version2.yaml
env2/bin/onmt_translate -model run/model_step_500.pt -src "$text/post.test.en" \
    -output version2.output -random_sampling_topk 1 -beam_size 1 -max_length 250 -with_score \
    -batch_size 1 -ban_unk_token
env2/bin/python "$here/record_version2.py" "$text"
