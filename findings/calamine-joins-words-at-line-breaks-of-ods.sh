#!/usr/bin/env bash
# python-calamine 0.9.1: cells of OpenDocument sheets (.ods) with a line break or a tab.
#
# Expected: a break inside a paragraph of a cell comes as a line end, and a tab as a tab, as the space
# of `<text:s/>` comes as a space, and as two paragraphs come with a line end between them.
#
# Seen: both are dropped, so that the words beside them become one: `one two` is read as `onetwo`.
#
# What it means: sentence pairs that were typed into LibreOffice with Ctrl-Enter in a cell have joined
# words, without a warning. Read such a sheet as .xlsx.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet python-calamine==0.9.1

"$folder/venv/bin/python" - <<'PYTHON'
import io
import zipfile

from python_calamine import CalamineWorkbook

NAMES = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
    for name in ("office", "table", "text")
)
MANIFEST = (
    '<m:manifest xmlns:m="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0">'
    '<m:file-entry m:full-path="content.xml" m:media-type="text/xml"/></m:manifest>'
)
for inside, expected in [
    ("one<text:s/>two", "one two"),
    ("one</text:p><text:p>two", "one\ntwo"),
    ("one<text:line-break/>two", "onetwo"),
    ("one<text:tab/>two", "onetwo"),
]:
    content = (
        f"<office:document-content {NAMES}><office:body><office:spreadsheet>"
        '<table:table table:name="Sheet"><table:table-row>'
        f'<table:table-cell office:value-type="string"><text:p>{inside}</text:p>'
        "</table:table-cell></table:table-row></table:table>"
        "</office:spreadsheet></office:body></office:document-content>"
    )
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        archive.writestr("META-INF/manifest.xml", MANIFEST)
        archive.writestr("content.xml", content)
    packed.seek(0)
    rows = CalamineWorkbook.from_filelike(packed).get_sheet_by_index(0).to_python()
    print(inside, "|", rows)
    assert rows == [[expected]], "changed"
PYTHON
