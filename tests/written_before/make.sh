#!/usr/bin/env bash
# Writes the files of this folder, each by a command of nmt, in ten minutes:
#
#     PYTHON=.venv/bin/python tests/written_before/make.sh FOLDER
#
# A format that changes after a release gets its files beside those of earlier ones.
set -euo pipefail
nmt() { "$PYTHON" -m nmt "$@"; }
mkdir "$1"
out=$(realpath "$1") root=$(realpath "$(dirname "$0")/../..")
PYTHON=$(realpath -s "${PYTHON:-.venv/bin/python}")
export PYTHONPATH=$root
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

"$PYTHON" - <<'PYTHON'
from itertools import product
from pathlib import Path
from random import Random

ADJECTIVES = [("big", "große"), ("old", "alte"), ("red", "rote"), ("small", "kleine")]
NOUNS = [*zip("bird cat dog man tree".split(), "Vogel Kater Hund Mann Baum".split())]
VERBS = [*zip("finds hears likes sees".split(), "findet hört mag sieht".split())]


def write(name, pairs):
    for side, lang in enumerate(("en", "de")):
        Path(f"{name}.{lang}").write_text("".join(f"{pair[side]}\n" for pair in pairs), "utf-8")


sentences = []
for words in product(ADJECTIVES, NOUNS, VERBS, ADJECTIVES, NOUNS):
    en, de = zip(*words)
    sentences.append((
        f"the {en[0]} {en[1]} {en[2]} the {en[3]} {en[4]} .",
        f"der {de[0]} {de[1]} {de[2]} den {de[3]} {de[4]} .",
    ))
Random(1).shuffle(sentences)
write("many", sentences[:900])
write("few", sentences[:60])
write("valid", [*sentences[900:906], *sentences[909:911]])
write("held", [sentences[n] for n in (1045, 1080, 1102, 1115)])  # all models get them right
write("extra", sentences[920:935])
write("dup", [*sentences[920:925], ("same", "same"), ("", "leer")])
talk = sentences[940:960]
write("talks", [line for n in range(0, 20, 5) for line in (*talk[n : n + 5], ("", ""))])
rows = [f"{en}\t{de}\thttps://example.org/{n}\n" for n, (en, de) in enumerate(sentences[960:990])]
Path("table.tsv").write_text("".join(["en\tde\turl\n", *rows]), "utf-8")
Path("terms.tsv").write_text("bird\tVogel\ncat\tKater\n", "utf-8")
PYTHON

# Without rules for Unicode, which would make each vocabulary 400 kB larger.
plain=(--normalization identity --workers 1) pair=(--src en --tgt de)
nmt prepare data "${pair[@]}" --train few --valid valid --vocab-size 300 "${plain[@]}"
nmt prepare table "${pair[@]}" --train table.tsv:en,de --train extra --train dup --weight extra=2 \
  --tag 'extra=<BT>' --fix entities --keep-text --valid held --test held \
  --vocab-size 300 "${plain[@]}"
nmt prepare all "${pair[@]}" --train many --valid valid --vocab table/vocab.model --workers 1
nmt prepare languages --pair en-de=extra --pair de-en=extra --temperature 2 --valid en-de=held \
  --valid de-en=held --vocab-size 302 "${plain[@]}"
nmt prepare documents "${pair[@]}" --train talks --valid held --documents --window 3 \
  --vocab-size 300 "${plain[@]}"
nmt prepare terms "${pair[@]}" --train extra --valid held --terms terms.tsv --separate-vocab \
  --vocab-size 290 "${plain[@]}"
nmt data table --show 0-2,30,31,44 > table.tsv.shown
nmt data languages --show 0,1,15,29 > languages.tsv.shown
nmt data documents --show 0-4,19 > documents.tsv.shown
nmt data terms --show 0,1,3,4 > terms.tsv.shown

quick=(--device cpu --precision fp32 --set threads=1 --set compile=false --set matmul=torch)
tiny=("${quick[@]}" --set num_encoder_layers=1 --set num_decoder_layers=1 --set d_model=8)
learn() {  # NAME PRESET OPTION...
  nmt train all --out "$1.run" --model "$2" "${tiny[@]}" --set batch_tokens=1000 --set dropout=0 \
    --set label_smoothing=0 --set learning_rate=0.02 --set warmup_updates=100 --max-updates 2000 \
    --set validate_every=1000 --set sample_translations=0 "${@:3}"
  cp "$1.run/best.safetensors" "$1.safetensors"
}
heads=(--set d_ff=16 --set num_heads=2)
learn first transformer_tiny "${heads[@]}"
learn model transformer_tiny --set d_model=16 --set d_ff=32 --set num_heads=2
learn ssru transformer_tiny "${heads[@]}" --set decoder_memory=ssru --set pre_norm=true \
  --set norm=rms --set feed_forward=swiglu --set positions=relative --set max_relative_distance=4
learn lstm rnn_attention --set d_hidden=8
learn convolutional conv_seq2seq --set d_hidden=8 --set kernel_width=3 --set max_positions=64
mkdir models
cp ssru.safetensors lstm.safetensors convolutional.safetensors models
nmt export ctranslate2 first.safetensors exported --quantization float32

nmt train table --out run --init-from first.safetensors --model transformer_tiny "${tiny[@]}" \
  "${heads[@]}" --max-updates 3 --set batch_tokens=400 --set micro_batch_tokens=300 \
  --set learning_rate=0.001 --set warmup_updates=10 --set log_every=1 --set validate_every=2 \
  --set save_every=2 --set keep_last=1 --set dropout=0.1 --set subword_dropout=0.05 \
  --set guided_alignment=0.05 --set ema_decay=0.9 --set clip_norm=1.0 \
  --set validate_metric=bleu,chrf --set best_metric=bleu \
  --set typos=0.02 --set label_smoothing=0.05

translate() { nmt translate "$@" --workers 1 --threads 1; }
mkdir job
cat held.en held.en > job/twice.en
translate run --input job/twice.en --output job/twice.de --beam-size 2 --length-penalty 0.8 \
  --pool-lines 2
head -n 4 job/twice.de > job/.twice.de.partial  # a job that was killed after four lines
sed -i 4,\$d job/.twice.de.journal
rm job/twice.de

for model in run exported models/ssru models/lstm models/convolutional; do
  path=$model.safetensors
  [ ! -d $model ] || path=$model
  translate "$path" --input held.en > "$out/held.$(basename $model).de"
done
translate model.safetensors --input valid.en > "$out/valid.out.de"
cp -r data model.safetensors held.en held.de "$out"
for name in table languages documents terms; do
  cp $name.tsv.shown "$out/$name.tsv"
  sed -i '/ tokens\t/d' "$out/$name.tsv"
done
for name in models exported run job table languages documents terms; do
  tar --owner 0 --group 0 --numeric-owner -cJf "$out/$name.tar.xz" $name
done
cp "$root/tests/written_before/make.sh" "$out"
