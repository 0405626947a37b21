#!/usr/bin/env bash
# backports.zstd 1.8.0, which is Python 3.14's compression.zstd: a file to which nothing was written.
#
# Expected: closing it writes an empty frame, as GzipFile, BZ2File and LZMAFile do, so that a text
# without lines is a compressed file, too.
#
# Seen: the file has 0 bytes. ZstdFile itself cannot read it again ("Compressed file ended before
# the end-of-stream marker was reached"). One write of b"" is enough for a frame of 9 bytes.
#
# What it means for whoever moves from gzip or zstandard: `shutil.copyfileobj` never writes if its
# source is empty, so empty outputs are damaged files.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet backports.zstd==1.8.0

"$folder/venv/bin/python" - <<'PYTHON'
import bz2
import gzip
import io
import lzma

from backports import zstd


def written(kind, *blocks):
    content = io.BytesIO()
    with kind(content) as file:
        for block in blocks:
            file.write(block)
    return content.getvalue()


for name, kind in {
    "gzip": lambda file: gzip.GzipFile("", "wb", fileobj=file),
    "bz2": lambda file: bz2.BZ2File(file, "wb"),
    "lzma": lambda file: lzma.LZMAFile(file, "wb"),
}.items():
    print(name, len(written(kind)), "bytes")
    assert written(kind), "changed"

packed = written(lambda file: zstd.ZstdFile(file, "wb"))
print("zstd", len(packed), "bytes")
assert packed == b"", "changed"
assert len(written(lambda file: zstd.ZstdFile(file, "wb"), b"")) == 9, "changed"
try:
    zstd.ZstdFile(io.BytesIO(packed)).read()
    raise SystemExit("changed")
except EOFError as error:
    print("zstd reads it:", error)
PYTHON
