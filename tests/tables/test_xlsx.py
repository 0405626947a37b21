"""Spreadsheets: which sheet and cells are read, and what becomes of damaged ones."""

import contextlib
import sys
from pathlib import Path

import pytest
from text_formats import ods, ods_row, rows_of, xlsx

from nmt.errors import DataError, UsageError

WORDS = [("English", "German"), ("a", "x\ny"), (2024, 7.0), (None, "only"), ("b & <c>", 2.5)]
NOTES = [(), (None, "About colours"), (), (None, "English", "Velu"), (None, "red", "velu red")]


@pytest.fixture
def sheet(tmp_path: Path) -> str:
    pytest.importorskip("python_calamine")
    (tmp_path / "x.xlsx").write_bytes(xlsx({"Words": WORDS, "Notes, 2": NOTES, "None": []}))
    return f"{tmp_path}/x.xlsx"


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("", [("a", "x y"), ("2024", "7"), ("", "only"), ("b & <c>", "2.5")]),
        (":german,ENGLISH", [("x y", "a"), ("7", "2024"), ("only", ""), ("2.5", "b & <c>")]),
        (":Notes, 2:English,Velu", [("red", "velu red")]),
        (
            ":Notes, 2:3,2",
            [("", "About colours"), ("", ""), ("Velu", "English"), ("velu red", "red")],
        ),
        (":None", []),
    ],
)
def test_the_named_sheet_is_read(sheet: str, name: str, found: list[tuple[str, str]]) -> None:
    assert rows_of(f"{sheet}{name}") == found


@pytest.mark.parametrize(
    ("content", "columns", "message"),
    [
        (b"PK\x03\x04", "", r"x\.xlsx: .*as \.xlsx"),
        (xlsx({"A": WORDS})[:-30], "", r"x\.xlsx: .*as \.xlsx"),
        (xlsx({"A": WORDS, "B": WORDS}), ":C:1,2", "sheet 'C'; .*A, B"),
        (xlsx({"A": WORDS}), ":1,Velu", "column 'Velu'|column '1'"),
        (xlsx({"A": [("a", "b")]}), "", "en and de"),
    ],
)
def test_unreadable_is_named(tmp_path: Path, content: bytes, columns: str, message: str) -> None:
    pytest.importorskip("python_calamine")
    (tmp_path / "x.xlsx").write_bytes(content)
    with pytest.raises(DataError, match=message):
        rows_of(f"{tmp_path}/x.xlsx{columns}")


def test_cells_far_apart_take_no_memory(sheet: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.tables.xlsx._MOST_CELLS", 3 * 5)
    rows_of(f"{sheet}:Words")  # three columns of notes, and five rows
    monkeypatch.setattr("nmt.tables.xlsx._MOST_CELLS", 3 * 5 - 1)
    with pytest.raises(DataError, match=r"x\.xlsx: .* C5"):
        rows_of(f"{sheet}:Words")


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (ods_row("a", repeated=(15, 2)), "too many cells"),
        (ods_row("", repeated=(1, 5)) + ods_row("", repeated=(4, 1)) + ods_row("", "a"), ""),
        (ods_row("", repeated=(1, 14)) + ods_row("", "a"), "too many cells"),
        (ods_row("a", "b<text:line-break/>c"), "has <text:line-break/> in cells"),
        (ods_row("a", "b") + ods_row("", repeated=(1000, 1000)), ""),
    ],
)
def test_ods_that_would_take_memory_or_lose_spaces_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: str, problem: str
) -> None:
    pytest.importorskip("python_calamine")
    monkeypatch.setattr("nmt.tables.xlsx._MOST_CELLS", 29)
    (tmp_path / "x.ods").write_bytes(ods({"A": rows}))
    with pytest.raises(DataError, match=problem) if problem else contextlib.nullcontext():
        rows_of(f"{tmp_path}/x.ods:1,2")


def test_without_python_calamine_it_is_named(sheet: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    with pytest.raises(UsageError, match="pip install python-calamine`"):
        rows_of(sheet)
