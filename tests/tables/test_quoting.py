"""Quoted cells of TSV are recognised, text with quotes stays as it is, and doubt is refused."""

import csv
import io
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from prepare_job import job_of, pairs, pairs_in
from text_formats import rows_of

from nmt.data.corpus import Encoding
from nmt.errors import DataError, UsageError

SAID = [
    ('She said "stop" at noon.', 'Sie sagte "halt" um zwölf.'),
    ("A small dog, asleep", "Ein kleiner Hund, schlafend"),
    *pairs(12),
]


def read(
    path: Path, text: str, *, quoting: str = "", columns: str = ":1,2"
) -> list[tuple[str, str]]:
    path.write_text(text, encoding="utf-8", newline="")
    return rows_of(f"{path}{columns}", quoting=quoting)


def pandas(rows: list[tuple[str, str]], **options: Any) -> str:
    """What `to_csv(sep="\t")` writes: it uses the module csv."""
    file = io.StringIO()
    csv.writer(file, "excel-tab", lineterminator="\n", **options).writerows(rows)
    return file.getvalue()


def excel(rows: list[tuple[str, str]]) -> str:
    """What "Text (Tab delimited)" is: cells with a comma are quoted, too."""

    def cell(text: str) -> str:
        return '"' + text.replace('"', '""') + '"' if set(text) & set('",\t\n') else text

    return "".join(f"{cell(src)}\t{cell(tgt)}\r\n" for src, tgt in rows)


@pytest.mark.parametrize("write_rows", [pandas, excel, partial(pandas, quoting=csv.QUOTE_ALL)])
@pytest.mark.parametrize("header", [[], [("en", "de")]])
def test_what_quotes_cells_is_read_as_it_was_written(
    tmp_path: Path,
    write_rows: Callable[[list[tuple[str, str]]], str],
    header: list[tuple[str, str]],
) -> None:
    columns = "" if header else ":1,2"
    assert read(tmp_path / "x.tsv", write_rows([*header, *SAID]), columns=columns) == SAID


def test_what_stands_in_quotes_is_one_cell(tmp_path: Path) -> None:
    two_lines = [("First line\nsecond line", "Erste Zeile\r\nzweite Zeile")]
    found = read(tmp_path / "x.tsv", pandas(two_lines))
    assert found == [("First line second line", "Erste Zeile zweite Zeile")]
    tab = [*pairs(5), ("one\ttab", "ein Tab")]
    assert read(tmp_path / "x.tsv", pandas(tab)) == tab


def test_utf_16_of_a_spreadsheet_is_recognised(tmp_path: Path) -> None:
    path = tmp_path / "x.TSV"
    path.write_bytes(b"\xff\xfe" + excel([("en", "de"), *SAID]).encode("utf-16-le"))
    assert rows_of(str(path)) == SAID


@pytest.mark.parametrize(
    "odd",
    [
        [('"Hello," he said.', '"Hallo", sagte er.')],
        [('"Stop', "Halt")],
        [('He said "go"', 'Er sagte "geh"')],
        [('"x" and "y"', '"x" und "y"')],
        [('""Pulp Fiction""', '""Pulp Fiction""')],
        [('5" wide', '5" breit')],
        # One doubled quote among much text.
        [('"Who?""Me!"', '"Wer?""Ich!"'), *[('He said "go"', 'Er sagte "geh"')] * 6],
    ],
)
def test_text_with_quotes_stays_as_it_is(tmp_path: Path, odd: list[tuple[str, str]]) -> None:
    more = [*pairs(12), ('"Hello."', '"Hallo."'), ('The 5"', 'Die 5"')] if len(odd) == 1 else []
    rows = [*odd, *more]
    assert read(tmp_path / "x.tsv", "".join(f"{src}\t{tgt}\n" for src, tgt in rows)) == rows


@pytest.mark.parametrize(
    "text",
    [
        'a b\tx y\n"Hello."\t"Hallo."\n',  # a sentence, or a cell
        '"a, b"\tx y\n' * 12,  # what spreadsheets write, or text
        '"He said ""go"""\tx y\n"Hello," he said.\tx y\n',  # both
        "".join(f'"the \\"{n}\\""\t"das \\"{n}\\""\n' for n in range(12)),  # R's write.table
    ],
)
def test_doubt_is_refused_unless_the_option_says_it(tmp_path: Path, text: str) -> None:
    with pytest.raises(DataError, match=r"--quoting .*x\.tsv=csv .*x\.tsv=none"):
        read(tmp_path / "x.tsv", text)
    plain = [tuple(line.split("\t")) for line in text.splitlines()]
    assert read(tmp_path / "x.tsv", text, quoting="none") == plain


def test_quotes_of_later_rows_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.data.line_blocks.BLOCK_LINES", 5)
    with pytest.raises(DataError, match='"She said'):
        read(tmp_path / "x.tsv", pandas([*pairs(20), SAID[0]]))


@pytest.mark.parametrize("broken", ['"Hello" he said\tx\n', '"Hello\tx\n'])
def test_a_broken_cell_is_named_by_its_line(tmp_path: Path, broken: str) -> None:
    path = tmp_path / "x.tsv"
    with pytest.raises(DataError, match=r"x\.tsv line 15: .*quote"):
        read(path, pandas(SAID) + broken, quoting="csv")


@pytest.mark.parametrize("name", ["iso2022_jp", "shift_jis", "gb18030", "utf-7"])
def test_bytes_of_quotes_and_commas_inside_of_letters_are_none(tmp_path: Path, name: str) -> None:
    rows = [("い, に", '"a", b'), ("東京。表", "Tokyo"), ("、ア", "ソ")]
    assert b'"' in "、".encode("iso2022_jp") + "ア".encode("iso2022_jp")
    file = io.StringIO()
    csv.writer(file).writerows(rows)
    (tmp_path / "x.csv").write_bytes(file.getvalue().encode(name))
    assert rows_of(f"{tmp_path}/x.csv:1,2", ("ja", "en"), encoding=Encoding.find(name)) == rows


def test_the_option_names_a_text_and_is_part_of_the_folder(tmp_path: Path) -> None:
    text = "".join(f"{src}\t{tgt}\n" for src, tgt in pairs(40)) + '"so is it"\t"ti si os"\n'
    (tmp_path / "x.tsv").write_text(text)
    job = job_of(tmp_path, f"{tmp_path}/x.tsv:1,2")
    with pytest.raises(DataError, match="may be quoted"):
        job.prepare()
    quoted = job.but(quoting=(f"{tmp_path}/x.tsv=csv",))
    assert pairs_in(quoted.prepare())[40:] == [("so is it", "ti si os")]
    plain = job.but(quoting=(f"{tmp_path}/x.tsv=none",))
    with pytest.raises(UsageError, match=r"--quoting .*x\.tsv.* csv .*none"):
        plain.prepare()
    assert pairs_in(plain.but(out=tmp_path / "b").prepare())[40:] == [('"so is it"', '"ti si os"')]
    (valid,) = job.options.valid
    with pytest.raises(UsageError, match="--quoting"):
        job.but(train=(valid,), quoting=(f"{valid}=csv",)).prepare()
