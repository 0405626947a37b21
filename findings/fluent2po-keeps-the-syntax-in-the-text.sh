#!/usr/bin/env bash
# Translate Toolkit 3.20.4: fluent2po, for translation by a program that knows PO only.
#
# Expected: each text of a Fluent file is a message of its own, as json2po does it with
# nested values: the value, each attribute, and each variant of a selector.
#
# Seen: a Fluent message is one msgid with all of its syntax. The name of an attribute stands in the
# text as a line ".title = Close", and a selector as "{ $count ->" with its keys "[one]" and
# "*[other]". There is no flag of a format, so msgfmt has nothing to check.
#
# What it means: whoever translates msgid as text, by hand or by machine, may translate the names of
# attributes and the keys of plurals.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet translate-toolkit==3.20.4 fluent.syntax==0.19.0
cd "$folder"

cat > app.ftl <<'FLUENT'
hello = A man
    .title = Close
unread =
    { $count ->
        [one] One dog runs.
       *[other] { $count } dogs run.
    }
FLUENT
venv/bin/fluent2po --progress=none app.ftl app.po

venv/bin/python - <<'PYTHON'
from translate.storage import pypo

units = [unit for unit in pypo.pofile.parsefile("app.po").units if not unit.isheader()]
for unit in units:
    print(repr(str(unit.source)), unit.typecomments)
assert [str(unit.source) for unit in units] == [
    "A man\n.title = Close",
    "{ $count ->\n    [one] One dog runs.\n   *[other] { $count } dogs run.\n}",
], "changed"
assert not any(unit.typecomments for unit in units), "changed: it has flags"
PYTHON
