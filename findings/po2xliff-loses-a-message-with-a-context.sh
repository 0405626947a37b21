#!/usr/bin/env bash
# Translate Toolkit 3.20.4: po2xliff and xliff2po, for translation by a program that knows XLIFF only.
#
# Expected: a PO file comes back whole. Two messages of one text, which `msgctxt` tells apart, are
# two units of XLIFF with a note of their context, and two messages again.
#
# Seen: po2xliff writes no context, so the units look alike. xliff2po takes the second for the first
# one over again, and drops it with its translation. What is left has the context "".
#
# What it means for translation: translate PO as PO, and if it has to be XLIFF, count the messages
# before and after. Neither command says a word, and both exit with 0.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet translate-toolkit==3.20.4
cd "$folder"

cat > menu.po <<'PO'
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\n"
"Language: de\n"

msgctxt "command"
msgid "Open"
msgstr "Öffnen"

msgctxt "state"
msgid "Open"
msgstr "Offen"
PO
venv/bin/po2xliff --progress=none menu.po menu.xlf
venv/bin/xliff2po --progress=none menu.xlf back.po

grep -v '^"' back.po
contexts=$(grep -c command menu.xlf || true)
sources=$(grep -c '<source>Open</source>' menu.xlf)
messages=$(grep -c '^msgid "Open"' back.po)
second=$(grep -c Offen back.po || true)
echo "units: $sources, with a context: $contexts"
echo "messages that came back: $messages, of them the second: $second"
[[ $sources == 2 && $contexts == 0 && $messages == 1 && $second == 0 ]]
grep -q 'msgctxt ""' back.po
