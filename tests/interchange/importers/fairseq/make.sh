#!/bin/sh
# Train two small models of fairseq 0.12.2 on made-up text, and record what fairseq does with them.
#
#   make.sh FOLDER          needs Python 3.9, a C++ compiler and a network; 20 minutes on one core
#
# `post/` is post-norm with shared embeddings, on codes of subword-nmt over Moses' tokens. `pre/` is
# pre-norm with GELU, learned positions and embeddings of its own, on two SentencePiece models.
# Each gets the checkpoint without the optimiser's state, its dictionaries and what segments text,
# 200 lines of test (source.txt), what fairseq writes for them greedily (output.txt), and the sum of
# the natural logs of each line's probabilities, with eos (scores.txt). Beam 5 is in beam5.txt.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
toy=$here/../../../../examples/toy
mkdir -p "$1" && cd "$1"

if [ ! -d env ]; then
    python3.9 -m venv env
    env/bin/pip install "pip==24.0" "setuptools<60" wheel
    env/bin/pip install "numpy==1.23.5" "Cython<3" "torch==1.12.1" "sentencepiece==0.2.0" \
        "subword-nmt==0.3.8" "sacremoses==0.1.1" "sacrebleu==2.4.3" "hydra-core==1.0.7" \
        "omegaconf==2.0.6" cffi regex tqdm bitarray
    env/bin/pip download --no-deps --no-binary fairseq --no-build-isolation fairseq==0.12.2
    tar xzf fairseq-0.12.2.tar.gz
    # Its extensions that use torch's headers do not compile any more, and nothing here needs them.
    sed -i 's/^    from torch.utils import cpp_extension/    raise ImportError/' fairseq-0.12.2/setup.py
    (cd fairseq-0.12.2 && ../env/bin/python setup.py build_ext --inplace)
fi
export PYTHONPATH=$PWD/fairseq-0.12.2 OMP_NUM_THREADS=1
python() { env/bin/python "$@"; }

python "$toy/make_text.py" --out text
python "$here/segment.py"
for model in post pre; do
    joined=--joined-dictionary
    [ $model = post ] || joined=
    python -m fairseq_cli.preprocess -s en -t de --trainpref $model.train --validpref $model.valid \
        --testpref $model.test --destdir bin-$model $joined
done

train() {
    python -m fairseq_cli.train "bin-$1" --save-dir "run-$1" --arch transformer \
        --encoder-layers 2 --decoder-layers 2 --encoder-embed-dim 64 --decoder-embed-dim 64 \
        --encoder-ffn-embed-dim 128 --decoder-ffn-embed-dim 128 --encoder-attention-heads 4 \
        --decoder-attention-heads 4 --dropout 0.1 --optimizer adam --adam-betas '(0.9,0.98)' \
        --lr 3e-3 --lr-scheduler inverse_sqrt --warmup-updates 300 --max-update 1500 \
        --criterion label_smoothed_cross_entropy --label-smoothing 0.1 --max-tokens 3000 --seed 1 \
        --cpu --disable-validation --no-epoch-checkpoints --num-workers 0 $2
}
train post --share-all-embeddings
train pre "--encoder-normalize-before --decoder-normalize-before --encoder-learned-pos \
    --decoder-learned-pos --max-source-positions 128 --max-target-positions 128 --activation-fn gelu"

for model in post pre; do
    for beam in 1 5; do
        python -m fairseq_cli.generate bin-$model --path run-$model/checkpoint_last.pt --cpu \
            --beam $beam --unkpen 1e9 --batch-size 1 > generated-$model-$beam
    done
done
python "$here/record.py"
