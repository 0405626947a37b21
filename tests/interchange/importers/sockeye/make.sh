#!/bin/sh
# Train two small models of Sockeye 3.1.34 on made-up text, and record what it does with them.
#
#   make.sh FOLDER      needs Python 3.10 and a network; 20 minutes on one core
#
# `post/` is post-norm with shared embeddings, on codes of subword-nmt over Moses' tokens. `pre/` is
# pre-norm with GELU and shares nothing, on two SentencePiece models. Codes and models are those of
# ../fairseq. Each folder gets what the tests need of a model, and the files that
# ../fairseq/make.sh describes.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
toy=$here/../../../../examples/toy
mkdir -p "$1" && cd "$1"

if [ ! -d env ]; then
    python3.10 -m venv env
    env/bin/pip install torch==2.2.2 numpy==1.26.4 sentencepiece==0.2.0 sacremoses==0.1.1 \
        subword-nmt==0.3.8 sacrebleu==2.4.3 pyyaml
    env/bin/pip install --no-deps sockeye==3.1.34
fi
export OMP_NUM_THREADS=1

env/bin/python "$toy/make_text.py" --out text
cp "$here"/../fairseq/post/codes.bpe "$here"/../fairseq/pre/spm.*.model .
env/bin/python "$here/segment.py"

train() {
    model=$1
    shift
    env/bin/python -m sockeye.train -s "$model.train.en" -t "$model.train.de" \
        -vs "$model.valid.en" -vt "$model.valid.de" -o "run-$model" --use-cpu --quiet --seed 1 \
        --num-layers 2 --transformer-model-size 64 --transformer-attention-heads 4 \
        --transformer-feed-forward-num-hidden 128 --max-seq-len 99 --decode-and-evaluate 0 \
        --batch-type max-word --batch-size 2000 --optimizer-betas 0.9:0.98 \
        --initial-learning-rate 0.06 --learning-rate-scheduler-type inv-sqrt-decay \
        --learning-rate-warmup 200 --max-updates 1000 --checkpoint-interval 1000 "$@"
}
train post --shared-vocab --transformer-preprocess : --transformer-postprocess drn
train pre --weight-tying-type none --transformer-activation-type gelu

for model in post pre; do
    # Greedy search of Sockeye gives no scores, and may write <unk>.
    env/bin/python -m sockeye.translate -m "run-$model" -i "$model.test.en" --use-cpu --quiet \
        --beam-size 1 --prevent-unk --max-output-length 200 -o "$model.output"
    env/bin/python -m sockeye.score -m "run-$model" -s "$model.test.en" -t "$model.output" --use-cpu \
        --score-type logprob --length-penalty-alpha 0 --max-seq-len 250 -o "$model.scores"
done
env/bin/python "$here/record.py"
