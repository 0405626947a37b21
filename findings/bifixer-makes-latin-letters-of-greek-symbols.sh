#!/usr/bin/env bash
# bifixer 0.8.12, which cleans the parallel text of ParaCrawl and other crawls. Its manual promises to
# mend letters that come from another alphabet.
#
# Expected: letters that got into a word of another alphabet are replaced, as a Cyrillic "о" in
# "hоuse". A Greek letter that stands by itself is a symbol, and stays.
#
# Seen: where the text is in a Latin alphabet, Greek letters that look like Latin ones are replaced
# wherever they stand: "β blockers" becomes "B blockers" in English and "ß blockers" in German, "Δt"
# becomes "At", "χ²" becomes "x²", and "α and ω" becomes "a and w". π and λ, which look like no Latin
# letter, stay.
#
# What it means for a translator: a model that learns from such text has hardly seen the symbols of
# science, and has seen other letters in their places. The option --ignore_characters leaves text as
# it is, with all other damage.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
# The tool cannot hash text with xxhash 4.
"$folder/venv/bin/pip" install --quiet bifixer==0.8.12 xxhash==3.5.0 unidecode==1.4.0 regex==2026.11.19

source='hоuse: β blockers, χ² in Δt, α and ω, π, λ'  # the "о" of the first word is Cyrillic
printf 'http://a\thttp://b\t%s\t%s\n' "$source" "$source" > "$folder/in.tsv"
"$folder/venv/bin/bifixer" --ignore_segmentation "$folder/in.tsv" "$folder/out.tsv" en de 2> "$folder/log"
cut -f 3,4 "$folder/out.tsv" | tr '\t' '\n' | tee "$folder/seen"
diff - "$folder/seen" <<'TEXT'
house: B blockers, x² in At, a and w, π, λ
house: ß blockers, x² in At, a and w, π, λ
TEXT
