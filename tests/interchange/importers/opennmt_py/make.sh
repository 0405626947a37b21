#!/bin/sh
# Train two small models of OpenNMT-py 3.5.1 on made-up text, and record what it does with them.
#
#   make.sh FOLDER FAIRSEQ      needs Python 3.10 and a network; 20 minutes on one core
#
# FAIRSEQ is the folder of ../fairseq/make.sh, whose segmented text is taken. `shared/` shares its
# embeddings, on codes of subword-nmt over Moses' tokens. `apart/` shares nothing, has biases and
# GELU, and two SentencePiece models. Each gets the files that ../fairseq/make.sh describes.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
text=$(cd "$2" && pwd)
mkdir -p "$1" && cd "$1"

if [ ! -d env ]; then
    python3.10 -m venv env
    env/bin/pip install torch==2.2.2 numpy==1.26.4 sentencepiece==0.2.0 sacremoses==0.1.1 \
        pyonmttok==1.38.1 configargparse==1.7.1 pyyaml rapidfuzz flask waitress tensorboard \
        sacrebleu six "setuptools<70"
    env/bin/pip install --no-deps OpenNMT-py==3.5.1
    # It imports these for transforms that nothing here uses.
    mkdir -p stub/spacy stub/fasttext stub/ahocorasick
    touch stub/spacy/__init__.py stub/fasttext/__init__.py stub/ahocorasick/__init__.py
fi
export PYTHONPATH=$PWD/stub:$text OMP_NUM_THREADS=1

for model in shared:post:true apart:pre:false; do
    name=${model%%:*} share=${model##*:}
    kind=${model#*:} kind=${kind%:*}
    sed "s|NAME|$name|; s|SHARE|$share|; s|TEXT|$text/$kind|" "$here/recipe.yaml" > "$name.yaml"
    [ "$name" = shared ] ||
        printf 'add_qkvbias: true\nadd_ffnbias: true\npos_ffn_activation_fn: gelu\n' >> "$name.yaml"
    env/bin/onmt_build_vocab -config "$name.yaml" -n_sample -1
    env/bin/onmt_train -config "$name.yaml"
    # Its limit of length would cut words in half, and its scores are divided by length.
    env/bin/onmt_translate -model "run-$name/model_step_1200.pt" -src "$text/$kind.test.en" \
        -output "$name.output" -random_sampling_topk 1 -beam_size 1 -max_length_ratio 0 \
        -max_length 250 -length_penalty none -with_score -batch_size 1 \
        -batch_type sents -ban_unk_token
done
cp "$text/spm.de.model" . && ln -sfn "$text/text" text
env/bin/python "$here/record.py" "$text"
