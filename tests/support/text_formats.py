"""The same pairs in every format that a table may have, and what is read of a table."""

import csv
import gzip
import io
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
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
    rows = [row for row in table.rows(int) if not row.left_out]
    return [(row.src.decode(codec), row.tgt.decode(codec)) for row in rows]


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


def pack(
    path: Path, content: Mapping[str, str | bytes], method: int = zipfile.ZIP_DEFLATED
) -> None:
    """Write an archive of members with these names and contents."""
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, member in content.items():
            archive.writestr(name, member)


def members(stem: str, pairs: Pairs) -> dict[str, str]:
    """The members of an archive that are the sides of pairs, by name."""
    return {
        f"{stem}.{lang}": "".join(f"{pair[side]}\n" for pair in pairs)
        for side, lang in enumerate(("en", "de"))
    }


def write_zip(folder: Path, pairs: Pairs) -> str:
    pack(folder / "opus.zip", members("News.de-en", pairs) | {"README": "about it"})
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


def write_sides(folder: Path, pairs: Pairs) -> str:
    """Write a file for each language, as FLORES+ has them."""
    for side, name in enumerate(("eng_Latn", "deu_Latn")):
        lines = [json.dumps({"id": 7, "iso": name, "text": pair[side]}) for pair in pairs]
        (folder / f"{name}.jsonl").write_text("\n".join(lines))
    return f"{folder}/eng_Latn.jsonl,{folder}/deu_Latn.jsonl"


def save(path: Path, columns: dict[str, Any]) -> Path:
    """Write a file of Parquet."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table(columns), path)
    return path


def write_parquet(folder: Path, pairs: Pairs) -> str:
    """Write a folder of two shards, as hubs have them."""
    (folder / "hub").mkdir()
    half = len(pairs) // 2
    for name, part in (("part-0", pairs[:half]), ("part-1", pairs[half:])):
        texts = [{"de": tgt, "en": src} for src, tgt in part]
        save(folder / "hub" / f"{name}.parquet", {"score": [0.5] * len(part), "translation": texts})
    return f"{folder}/hub"


_SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_LINKS = "http://schemas.openxmlformats.org/%s/2006/relationships"
_OFFICE = _LINKS % "officeDocument"


def xlsx(sheets: Mapping[str, Sequence[Sequence[object]]]) -> bytes:
    """A spreadsheet of sheets by their names, without anything that Excel could do without."""
    numbers, content = range(1, len(sheets) + 1), io.BytesIO()
    named = zip(numbers, sheets, strict=True)
    listed = "".join(f'<sheet name="{escape(n)}" sheetId="{i}" r:id="r{i}"/>' for i, n in named)
    links = "".join(
        f'<Relationship Id="r{i}" Type="{_OFFICE}/worksheet" Target="worksheets/{i}.xml"/>'
        for i in numbers
    )
    book = f'<Relationship Id="r" Type="{_OFFICE}/officeDocument" Target="xl/workbook.xml"/>'
    root = f'<Relationships xmlns="{_LINKS % "package"}">'
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("_rels/.rels", f"{root}{book}</Relationships>")
        archive.writestr("xl/_rels/workbook.xml.rels", f"{root}{links}</Relationships>")
        book = (
            f'<workbook xmlns="{_SHEET}" xmlns:r="{_OFFICE}"><sheets>{listed}</sheets></workbook>'
        )
        archive.writestr("xl/workbook.xml", book)
        for number, rows in zip(numbers, sheets.values(), strict=True):
            lines = "".join(map(_sheet_row, range(1, len(rows) + 1), rows))
            text = f'<worksheet xmlns="{_SHEET}"><sheetData>{lines}</sheetData></worksheet>'
            archive.writestr(f"xl/worksheets/{number}.xml", text)
    return content.getvalue()


def _sheet_row(number: int, cells: Sequence[object]) -> str:
    written = ""
    for column, cell in zip("ABCDEFG", cells, strict=False):
        if isinstance(cell, str):
            text = f'<is><t xml:space="preserve">{escape(cell)}</t></is>'
            written += f'<c r="{column}{number}" t="inlineStr">{text}</c>'
        elif cell is not None:
            written += f'<c r="{column}{number}"><v>{cell}</v></c>'
    return f'<row r="{number}">{written}</row>'


_ODS = "urn:oasis:names:tc:opendocument:xmlns:%s:1.0"


def ods(sheets: Mapping[str, str]) -> bytes:
    """A spreadsheet of OpenDocument, of the XML of the rows of each sheet."""
    spaces = " ".join(f'xmlns:{name}="{_ODS % name}"' for name in ("office", "table", "text"))
    tables = "".join(
        f'<table:table table:name="{name}">{rows}</table:table>' for name, rows in sheets.items()
    )
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        archive.writestr("META-INF/manifest.xml", f'<manifest xmlns="{_ODS % "manifest"}"/>')
        archive.writestr(
            "content.xml",
            f"<office:document-content {spaces}><office:body><office:spreadsheet>{tables}"
            "</office:spreadsheet></office:body></office:document-content>",
        )
    return content.getvalue()


def ods_row(*cells: str, repeated: tuple[int, int] = (1, 1)) -> str:
    """A row of cells of text, each of them and the row repeated so often."""
    columns, rows = (
        f' table:number-{kind}-repeated="{count}"'
        for kind, count in zip(("columns", "rows"), repeated, strict=True)
    )
    shown = (
        f'<table:table-cell office:value-type="string"{columns}><text:p>{cell}</text:p>'
        "</table:table-cell>"
        if cell
        else f"<table:table-cell{columns}/>"
        for cell in cells
    )
    return f"<table:table-row{rows}>{''.join(shown)}</table:table-row>"


def write_ods(folder: Path, pairs: Pairs) -> str:
    pytest.importorskip("python_calamine")
    rows = ods_row("German", "n", "English") + "".join(
        ods_row(escape(tgt), "", escape(src)) for src, tgt in pairs
    )
    rest = ods_row("", repeated=(1000, 1_000_000))  # as LibreOffice fills the sheet
    (folder / "sheet.ods").write_bytes(ods({"A": rows + rest, "B": ""}))
    return f"{folder}/sheet.ods:A"


def write_xlsx(folder: Path, pairs: Pairs) -> str:
    pytest.importorskip("python_calamine")
    rows = [("Deutsch", "n", "ENGLISH"), *((tgt, 7, src) for src, tgt in pairs)]
    (folder / "sheet.xlsx").write_bytes(xlsx({"Sheet & 1": rows, "Other": []}))
    return f"{folder}/sheet.xlsx:English,Deutsch"


FORMATS: dict[str, Callable[[Path, Pairs], str]] = {
    "tsv": write_tsv,
    "csv": write_csv,
    "jsonl": write_jsonl,
    "files": write_two_files,
    "zip": write_zip,
    "tmx": write_tmx,
    "parquet": write_parquet,
    "xlsx": write_xlsx,
    "ods": write_ods,
    "sides": write_sides,
}
"""Each writes a file in a folder, and returns its name for `--train`."""
