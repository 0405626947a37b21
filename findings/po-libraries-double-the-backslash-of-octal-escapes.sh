#!/usr/bin/env bash
# polib 1.2.0 and Babel 2.17.0: PO files with octal escapes, which GNU's `msgcat --escape` writes,
# and with two strings on a line, which `msgfmt` joins.
#
# Expected: both read what gettext's own tools write and read, or refuse it.
#
# Seen: both take the octal escape of a letter for text with a backslash, and write it with two, so
# that gettext reads another message than before. polib refuses two strings on a line. Babel makes
# one of them that has the quotation marks and the space between them.
#
# What it means: a catalogue that goes once through one of these libraries no longer matches the
# strings of its program, and nothing says so.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet polib==1.2.0 Babel==2.17.0

"$folder/venv/bin/python" - <<'PYTHON'
import io

import polib
from babel.messages.pofile import read_po, write_po

escaped = 'msgid ""\nmsgstr ""\n\nmsgid "caf\\303\\251"\nmsgstr "x"\n'
joined = 'msgid ""\nmsgstr ""\n\nmsgid "two" " dogs"\nmsgstr "x"\n'

by_polib = polib.pofile(escaped)
stream = io.BytesIO()
write_po(stream, read_po(io.BytesIO(escaped.encode())))
for written in (str(by_polib), stream.getvalue().decode()):
    print(written.splitlines()[-2 if written.endswith('"\n') else -3])
    assert 'msgid "caf\\\\303\\\\251"' in written, "changed"

try:
    polib.pofile(joined)
except OSError as error:
    print(error)
else:
    raise AssertionError("changed")
(text,) = [message.id for message in read_po(io.BytesIO(joined.encode())) if message.id]
print(text)
assert text == 'two" " dogs', "changed"
PYTHON
