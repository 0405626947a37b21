"""A column beside that of a table: everything else stays, byte for byte."""

from pathlib import Path

import pytest

from nmt.data.corpus import Encoding
from nmt.errors import DataError, NMTError, UsageError
from nmt.tables.formats import FileRequest
from nmt.tables.other_column import open_column


def upper(
    path: Path, content: str, source: str, target: str, encoding: str = "utf-8"
) -> tuple[list[str], str]:
    """Return the texts of a column, and the table with them in capitals in another."""
    chosen = Encoding.find(encoding)
    raw = content.encode(encoding)
    path.write_bytes(raw)
    request = FileRequest(
        "x", path.name, path, (source, source), ("und", "und"), chosen, is_one_side=True
    )
    texts, write = open_column(request, raw, target)
    return texts, write([text.upper() for text in texts])


@pytest.mark.parametrize(
    ("content", "source", "target", "texts", "expected"),
    [
        (
            'id\ten\r\n1\ta "man\r\n\r\n2\r\n',
            "en",
            "de",
            ['a "man', ""],
            'id\ten\tde\r\n1\ta "man\tA "MAN\r\n\r\n2\t\t\r\n',
        ),
        ("en\tde\na\tx\n\ty\n\\N\tz", "en", "de", ["a", "", ""], "en\tde\na\tA\n\ty\n\\N\tz"),
        ("1\t你好 a\n2\tb", "2", "3", ["你好 a", "b"], "1\t你好 a\t你好 A\n2\tb\tB"),
        ("1\ta\n2\tb\n", "2", "2", ["a", "b"], "1\tA\n2\tB\n"),
        ("text_en\na\n", "1", "de", ["a"], "text_en\tde\na\tA\n"),
        ('en\n"a ""b""\nc"\n', "en", "d", ['a "b"\nc'], 'en\td\n"a ""b""\nc"\t"A ""B""\nC"\n'),
    ],
)  # fmt: skip
def test_cells_between_tabs(
    tmp_path: Path, content: str, source: str, target: str, texts: list[str], expected: str
) -> None:
    assert upper(tmp_path / "x.tsv", content, source, target) == (texts, expected)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('\ufeffid,en\n1,"a, b"\n2,c\n', '\ufeffid,en,de\n1,"a, b","A, B"\n2,c,C\n'),
        ('sep=;\r\nen;n\r\n"a ""b""";1\r\n', 'sep=;\r\nen;n;de\r\n"a ""b""";1;"A ""B"""\r\n'),
        ('id,en,de\n1, "a" ,x\n', 'id,en,de\n1, "a" ,"A"\n'),
        ("Titel\nid,en\n1,ä\n", "Titel\nid,en,de\n1,ä,Ä\n"),
    ],
)
def test_cells_of_csv(tmp_path: Path, content: str, expected: str) -> None:
    for encoding in ("utf-8", "latin-1") if "\ufeff" not in content else ("utf-8",):
        assert upper(tmp_path / "x.csv", content, "en", "de", encoding)[1] == expected


@pytest.mark.parametrize(
    ("source", "target", "content", "expected"),
    [
        ("a", "b", '{"a": "x", "n": 1e5 }\r\n\n', '{"a": "x", "n": 1e5, "b": "X" }\r\n\n'),
        ("a", "b", '{"a":"x","b":null}', '{"a":"x","b":"X"}'),
        ("a", "b", '{"a":"ü","b":"y"}\n{"a":null,"b":1}', '{"a":"ü","b":"Ü"}\n{"a":null,"b":1}'),
        ("a", "b", '{"a":null}', '{"a":null,"b":null}'),
        ("a.b", "a.b", '{"a": {"b": "\\u00e4", "c": [1]}}', '{"a": {"b": "\\u00c4", "c": [1]}}'),
    ],
)
def test_json_lines(tmp_path: Path, source: str, target: str, content: str, expected: str) -> None:
    assert upper(tmp_path / "x.jsonl", content, source, target)[1] == expected


@pytest.mark.parametrize(
    ("name", "content", "target", "error", "message"),
    [
        ("x.tsv", "id\tde\n1\ta\n", "de", DataError, "'en'.*id | de"),
        ("x.csv", 'id,en\n1,"a" b\n', "de", DataError, "line 2"),
        ("x.csv", 'id,en\n1,"a\n2,b\n', "de", DataError, "line 2"),
        ("x.jsonl", '{"en": "a"}\n{"x": {"y": "b"}}\n', "de", DataError, "line 2: .*'en'.*x.y"),
        ("x.jsonl", '{"en": 1}', "de", DataError, "no text called 'en'"),
        ("x.jsonl", '{"en": "a", "de": ["b"]}', "de", UsageError, "de holds"),
        ("x.jsonl", "[1]\n", "de", DataError, "line 1: not a JSON object"),
    ],
)
def test_what_cannot_be_read_or_written_is_named(
    tmp_path: Path, name: str, content: str, target: str, error: type[NMTError], message: str
) -> None:
    with pytest.raises(error, match=message):
        upper(tmp_path / name, content, "en", target)


def test_a_column_far_away_is_refused(tmp_path: Path) -> None:
    for target in ("4", "0", "de"):
        with pytest.raises(UsageError, match=f"column {target}: it has 2"):
            upper(tmp_path / "x.tsv", "1\ta\n2\tb\n", "2", target)
