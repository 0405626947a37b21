"""CSV: what separates its cells, and what is wrong with its rows."""

import time
from pathlib import Path

import pytest
from prepare_job import job_of, pairs, pairs_in
from text_formats import rows_of

from nmt.errors import DataError
from nmt.tables.cells import quoted_rows


def rows(folder: Path, text: str, columns: str = "") -> list[tuple[str, str]]:
    (folder / "x.csv").write_bytes(text.encode())
    return rows_of(f"{folder}/x.csv{columns}")


@pytest.mark.parametrize(
    ("text", "columns", "found"),
    [
        ("a b.,x y.\nc,z\n", ":1,2", [("a b.", "x y."), ("c", "z")]),
        ('"a, b","x ""y"""\r\nc,z\r\n', ":1,2", [("a, b", 'x "y"'), ("c", "z")]),
        ('"a\n\nb",x\n', ":1,2", [("a b", "x")]),
        (",English,German\n0,a,x\n", "", [("a", "x")]),  # the index of a data frame
        ('\ufeffde;en\n"x; y";a\n', "", [("a", "x; y")]),
        ("sep=;\nde;en\nx, y;a, b\n", "", [("a, b", "x, y")]),
        ("sep=;\r\na, b;x, y\r\n", ":1,2", [("a, b", "x, y")]),
        ("de\ten\nx, y\ta, b\n", "", [("a, b", "x, y")]),
        ('"en", "de"\n"a, b", "x"\na, x\n', "", [("a, b", "x"), ("a", " x")]),
        ('en,de\n"a" ,"x"  \n', "", [("a", "x")]),
        ("en,de\na,\n", "", [("a", "")]),
        ("url,src,tgt\nu,a,x\n", ":src,tgt", [("a", "x")]),
        ("u,a,x\n", ":2,3", [("a", "x")]),
        ('\ufeff"a, b",x\n', ":1,2", [("a, b", "x")]),
        ("", "", []),
        # Of each 16 rows, Excel writes the cells up to the last column in which one has something.
        ("en;de\n" + "a;x;;\n" * 2, "", [("a", "x")] * 2),
        ("en;de;notes\n" + "a;x;n\n" + "a;x\n" * 2, "", [("a", "x")] * 3),
        ("en;de;notes, others\n" + "a;x\n" * 3, "", [("a", "x")] * 3),
        # A title, and perhaps blank rows, stand above the header.
        ("Words\n\nEnglish,Velu\na,x\n", ":english,VELU", [("a", "x")]),
        ("My words;\n;\nEN;de\na;x\n", ":en,DE", [("a", "x")]),
        (" English ,VELU\na,x\n", ":English,Velu", [("a", "x")]),
        ("SRC,Target\na,x\n", ":1,2", [("a", "x")]),
        ("text_en,DE_text\na,x\n", ":1,2", [("a", "x")]),
        ("sourceString,targetString\na,x\n", ":1,2", [("a", "x")]),
        ("Open source,target_x y\na,x\n", ":1,2", [("Open source", "target_x y"), ("a", "x")]),
        ("n;German;English\n1;x;a\n", ":3,2", [("a", "x")]),
        # A language that we do not know.
        ("english,Lekwungen X\na,x\n", ":1,2", [("a", "x")]),
        ("english,It is x.\na,x\n", ":1,2", [("english", "It is x."), ("a", "x")]),
        ("en,lu i.\na,x\n", ":1,2", [("en", "lu i."), ("a", "x")]),
        ("en,am\na,x\n", ":1,2", [("a", "x")]),
    ],
)
def test_the_separator_is_what_makes_rows_equal(
    tmp_path: Path, text: str, columns: str, found: list[tuple[str, str]]
) -> None:
    assert rows(tmp_path, text, columns) == found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a, b;x, y\n", "',' and ';' .*sep=, or sep=;"),
        ("a\nb\n", "nothing .*'a'"),
        ("u,a,x\n", r" en and de; .* u \| a \| x; .*x\.csv:1,2"),
        ('en,de\na,x\n"b" c,y\n', r"x\.csv line 3: a quote"),
        ('sep=,\nen,de\n"a\nb",x\n"b,y\n', r"x\.csv line 5: a quote"),
        ("en,de\n" + "a, b,x\n" * 2 + "a,x\n", "nothing may separate"),
        ("en,de\n" + "who are you?,?? ????? ??\n" * 3 + "a,x\n" * 7, r"column de: 3 of 10 "),
        ("en,de\n" + "za?ó?? ja??,What?\n" * 3 + "a,x\n" * 7, r"column en: 3 of 10 "),
    ],
)
def test_what_first_rows_do_not_show_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        rows(tmp_path, text)


def test_the_columns_of_text_are_proposed(tmp_path: Path) -> None:
    others = [f"7_{n},train,https://a.b/c/{n},{p[0]},x,{p[1]}\n" for n, p in enumerate(pairs(9))]
    with pytest.raises(DataError, match=r"x\.csv:4,6$"):
        rows(tmp_path, "".join(["id,split,url,a,note,b\n", *others]))


@pytest.mark.parametrize(
    ("first", "is_doubtful"), [("Lekwungen,Klallam", True), ("Go.,Los", False), ("a b c,x", False)]
)
def test_a_first_row_that_may_be_a_header_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], first: str, is_doubtful: bool
) -> None:
    sentences = "they all live in a small old house by the sea,sie wohnen alle in einem alten Haus"
    assert len(rows(tmp_path, f"{first}\n{sentences}\n", ":1,2")) == 2
    assert (f"x.csv:{first}" in capsys.readouterr().err) == is_doubtful


def test_a_row_with_an_unquoted_comma_is_rejected_and_counted(tmp_path: Path) -> None:
    lines = [f"{src},{tgt}\n" for src, tgt in pairs(40)]
    lines[7] = "so, it is,ti si os\n"
    path = tmp_path / "Sheet.CSV"
    path.write_text("EN,DE\n" + "".join(lines))
    folder = job_of(tmp_path, str(path)).prepare()
    assert pairs_in(folder) == pairs(40)[:7] + pairs(40)[8:]
    assert folder.info.train.corpora[0].rejected == {"missing": 1}


def test_questions_and_addresses_are_no_lost_letters(tmp_path: Path) -> None:
    asked = [("Who are you??", "http://a.b/?q=x"), ("¿Qué?", "Quoi ? www.a.b/c?d"), ("a", "Was?!")]
    assert rows(tmp_path, "".join(f"{a},{b}\n" for a, b in asked), ":1,2") == asked


def test_a_cell_of_many_long_lines_takes_time_in_proportion_to_it() -> None:
    lines = [b'"', *[b"x" * 20_000] * 900, b'",b']
    begun = time.thread_time()
    (row,) = quoted_rows(iter(lines), b",", "a.csv")
    assert [len(cell) for cell in row] == [900 * 20_001 + 1, 1]
    assert time.thread_time() - begun < 2  # seconds; joining them one by one takes ten times that
