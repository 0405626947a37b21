"""The same pairs in every format that a table may have, and what is read of a table."""

import csv
import gzip
import json
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

import pytest

from nmt.data.corpus import Encoding
from nmt.prepare.readers.find import find_reader
from nmt.prepare.readers.reading import surveys_of
from nmt.tables.table import Table

UTF8 = Encoding.find("utf-8")

Pairs = Sequence[tuple[str, str]]


def rows_of(
    name: str,
    langs: tuple[str, str] = ("en", "de"),
    *,
    encoding: Encoding = UTF8,
    quoting: str = "",
    surveyed: bool = True,
) -> list[tuple[str, str]]:
    """Read a table as --train names it, perhaps only after its survey has nothing against it."""
    table = find_reader(name, langs, encoding, quoting=quoting)
    assert isinstance(table, Table)
    if surveyed:
        for survey in surveys_of(table):
            survey(int)
    codec = table.encoding.line_codec
    return [(row.src.decode(codec), row.tgt.decode(codec)) for row in table.rows(int)]


def write_tsv(folder: Path, pairs: Pairs) -> str:
    lines = ["score\ten\tde\n", *(f"0.5\t{src}\t{tgt}\n" for src, tgt in pairs)]
    (folder / "crawl.tsv").write_text("".join(lines), encoding="utf-8", newline="")
    return f"{folder}/crawl.tsv:en,de"


def write_csv(folder: Path, pairs: Pairs) -> str:
    """Write what spreadsheets write where the comma is the decimal point."""
    with (folder / "sheet.csv").open("w", encoding="utf-8-sig", newline="") as file:
        rows = csv.writer(file, delimiter=";")
        rows.writerows([("German", "English"), *((tgt, src) for src, tgt in pairs)])
    return f"{folder}/sheet.csv"


def write_jsonl(folder: Path, pairs: Pairs) -> str:
    """Write what the library `datasets` writes, compressed."""
    lines = [json.dumps({"translation": {"en": src, "de": tgt}}) for src, tgt in pairs]
    (folder / "HUB.JSONL.GZ").write_bytes(gzip.compress("\n".join(lines).encode()))
    return f"{folder}/HUB.JSONL.GZ"


def write_two_files(folder: Path, pairs: Pairs) -> str:
    src, tgt = ("".join(f"{pair[side]}\n" for pair in pairs).encode() for side in (0, 1))
    (folder / "english.txt").write_bytes(src)
    (folder / "german.v2.txt.gz").write_bytes(gzip.compress(tgt))
    return f"{folder}/english.txt,{folder}/german.v2.txt.gz"


def write_zip(folder: Path, pairs: Pairs) -> str:
    with zipfile.ZipFile(folder / "opus.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for at, lang in enumerate(("de", "en")):
            side = "".join(f"{pair[1 - at]}\n" for pair in pairs)
            archive.writestr(f"News.de-en.{lang}", side.encode())
        archive.writestr("README", "about it")
    return f"{folder}/opus.zip"


def tmx(pairs: Pairs, encoding: str = "utf-8") -> bytes:
    units = "".join(
        f'<tu><tuv xml:lang="en-US"><seg>{escape(src)}</seg></tuv>\n'
        f'<tuv xml:lang="de"><seg>{escape(tgt)}</seg></tuv></tu>\n'
        for src, tgt in pairs
    )
    head = f'<?xml version="1.0" encoding="{encoding}"?>\n<tmx version="1.4"><header/><body>'
    return f"{head}{units}</body></tmx>".encode(encoding)


def write_tmx(folder: Path, pairs: Pairs) -> str:
    (folder / "memory.tmx").write_bytes(tmx(pairs))
    return f"{folder}/memory.tmx"


def _columns(pairs: Pairs) -> dict[str, list[object]]:
    return {
        "score": [0.5] * len(pairs),
        "translation": [{"de": tgt, "en": src} for src, tgt in pairs],
    }


def write_parquet(folder: Path, pairs: Pairs) -> str:
    """Write a folder of two shards, as hubs have them."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    (folder / "hub").mkdir()
    half = len(pairs) // 2
    for name, part in (("part-0", pairs[:half]), ("part-1", pairs[half:])):
        parquet.write_table(arrow.table(_columns(part)), folder / "hub" / f"{name}.parquet")
    return f"{folder}/hub"


FORMATS: dict[str, Callable[[Path, Pairs], str]] = {
    "tsv": write_tsv,
    "csv": write_csv,
    "jsonl": write_jsonl,
    "files": write_two_files,
    "zip": write_zip,
    "tmx": write_tmx,
    "parquet": write_parquet,
}
"""Each writes a file in a folder, and returns its name for `--train`."""
