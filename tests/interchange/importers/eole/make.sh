#!/bin/sh
# Train two small models of Eole 0.6.4 on made-up text, and record what it does with them.
#
#   make.sh FOLDER FAIRSEQ      needs Python 3.11 and a network; 10 minutes on one core
#
# FAIRSEQ is the folder of ../fairseq/make.sh, of which the text and what segments it are taken.
# `shared/` shares its embeddings, on codes of subword-nmt over Moses' tokens. `apart/` shares
# nothing, has rotary positions, RMSNorm and gated units, and segments its text itself, by two
# SentencePiece models. Each gets the files that ../fairseq/make.sh describes.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
text=$(cd "$2" && pwd)
mkdir -p "$1" && cd "$1"

if [ ! -d env ]; then
    python3.11 -m venv env
    env/bin/pip install torch==2.13.0 numpy==2.2.6 safetensors==0.8.0 pydantic==2.14.4 pyyaml \
        sentencepiece==0.2.1 subword-nmt==0.3.8 sacremoses==0.1.1 sacrebleu==2.4.3 \
        pyonmttok==1.38.1 six rich configargparse rapidfuzz pandas huggingface_hub==2.4.0 \
        requests tensorboard torch-optimi==0.3.3 tokenizers==0.23.3 fastapi==0.165.0 uvicorn \
        aiohttp waitress python-multipart
    env/bin/pip install --no-deps eole==0.6.4
    # It trains gains of RMSNorm from whatever is in memory.
    sed -i 's/nn.Parameter(torch.empty(hidden_size))/nn.Parameter(torch.ones(hidden_size))/' \
        env/lib/python3.11/site-packages/eole/modules/rmsnorm.py
fi
export OMP_NUM_THREADS=1

cp "$text/spm.de.model" .
for model in shared apart; do
    sed "s|TEXT|$text|g" "$here/$model.yaml" > $model.yaml
    env/bin/eole build_vocab --config $model.yaml --n_sample -1
    env/bin/eole train --config $model.yaml
    kind=post
    [ $model = shared ] || kind=pre
    # Its pieces are to be seen, so it gets text that is segmented already.
    cp -rL run-$model plain-$model
    sed -i '/"transforms": \[/,/\]/d' plain-$model/config.json
    # Its limit of length would cut words in half, and its scores are divided by length.
    env/bin/eole predict --model_path plain-$model --src "$text/$kind.test.en" --output $model.output \
        --beam_size 1 --max_length 250 --max_length_ratio 0 --length_penalty none --with_score \
        --batch_size 1 --ban_unk_token
done
env/bin/python "$here/record.py" "$text"
