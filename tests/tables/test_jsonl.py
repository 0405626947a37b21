"""JSON Lines: which keys are read, and what becomes of objects that lack one."""

import json
from pathlib import Path
from typing import Any

import pytest
from prepare_job import job_of, pairs, pairs_in
from text_formats import rows_of

from nmt.data.corpus import Encoding
from nmt.errors import DataError


def rows(
    folder: Path, entries: list[Any], columns: str = "", *, encoding: str = "utf-8"
) -> list[tuple[str, str]]:
    path = folder / "x.jsonl"
    path.write_bytes("".join(f"{one}\n" for one in map(_line, entries)).encode(encoding))
    return rows_of(f"{path}{columns}", encoding=Encoding.find(encoding), surveyed=False)


def _line(entry: Any) -> str:
    return entry if isinstance(entry, str) else json.dumps(entry, ensure_ascii=False)


def test_blank_lines_may_end_a_file(tmp_path: Path) -> None:
    assert rows(tmp_path, [{"en": "a", "de": "x"}, "", " \r"]) == [("a", "x")]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "windows-1252", "utf-16"])
@pytest.mark.parametrize(
    ("entry", "columns"),
    [
        ({"de": "Tür", "en": "door"}, ""),
        ({"id": 7, "German": "Tür", "en-US": "door"}, ""),
        ({"translation": {"de": "Tür", "en": "door"}}, ""),
        ({"translation": {"de": "Tür", "en": "door"}}, ":translation.en,translation.de"),
        ({"src": "door", "mt": "Tor", "pe": "Tür"}, ":src,pe"),
        ({"source": "door", "target": "Tür"}, ""),
        ({"a.b": "door", "a": {"c": "Tür"}}, ":a.b,a.c"),
        ({"Src": "door", "refs": {"A": {"ref": "Tür"}, "b.c": "Tor"}}, ":src,refs.A.ref"),
        ({"a": {"b.c": "door"}, "de": "Tür"}, ":a.b.c,DE"),
        (
            {"translations": {"language": ["fr", "de", "en"], "translation": ["u", "Tür", "door"]}},
            "",
        ),
    ],
)
def test_columns_are_keys_that_are_named_or_the_languages(
    tmp_path: Path, entry: dict[str, Any], columns: str, encoding: str
) -> None:
    assert rows(tmp_path, [entry] * 2, columns, encoding=encoding) == [("door", "Tür")] * 2


def test_line_ends_become_spaces_and_a_lacking_side_is_missing(tmp_path: Path) -> None:
    entries = [{"en": "a\r\nb", "de": "x"}, {"en": None, "de": "y"}, {"en": "c"}, {"de": "z"}]
    assert rows(tmp_path, entries) == [("a b", "x"), *((_line(one), "") for one in entries[1:])]
    assert rows(tmp_path, []) == []


@pytest.mark.parametrize(
    ("entries", "columns", "message"),
    [
        ([{"en": "a", "de": "x"}, '{"en": "b"'], "", r"x\.jsonl line 2: .*JSON"),
        (['[{"en": "a"}]'], "", "line 1: .*JSON Lines"),
        (["[" * 100_000], "", "line 1: .*JSON"),
        ([{"en": "a", "de": "x"}, "", {"en": "b", "de": "y"}], "", "line 2: blank"),
        ([{"en": "a", "de": 7}], "", "line 1: de "),
        ([{"en": "a", "de": ["x", "y"]}], "", r"line 1: de .*src: \.en, tgt: \.de\[\$n\]"),
        ([{"en": ["a", "b"], "de": ["x", "y"]}], "", r"src: \.en\[\$n\], tgt: \.de\[\$n\]"),
        ([{"text": "a", "other": "x"}], "", r"for en and de; .*text \| other"),
        ([{"en": "a", "de": "x"}], ":en,xx", r"one column \'xx\'; .*en \| de"),
        ([{"en-US": "a", "en-GB": "b", "de": "x"}], "", "en column .*en-US, en-GB"),
        ([{"translation": "a"}], "", "for en and de; .*translation"),
    ],
)
def test_lines_that_cannot_be_read_are_named(
    tmp_path: Path, entries: list[Any], columns: str, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        rows(tmp_path, entries, columns)


def test_other_languages_of_a_row_are_no_reason_to_refuse_a_file(tmp_path: Path) -> None:
    talks = [
        {"language": ["en", "de"], "translation": ["a", "x"]},
        *[{"language": ["en", "fr"], "translation": ["b", "u"]}] * 3,
    ]
    lines = [json.dumps({"translations": talk}) + "\n" for talk in talks]
    (tmp_path / "ted.jsonl").write_text("".join(lines))
    assert [tgt for _, tgt in rows_of(f"{tmp_path}/ted.jsonl")] == ["x", "", "", ""]


def test_bytes_that_are_no_text_cost_their_pairs(tmp_path: Path) -> None:
    lines = [json.dumps({"en": src, "de": tgt}).encode() for src, tgt in pairs(40)]
    lines[9] = lines[9].replace(b"das", b"d\xff")
    lines[11] = lines[11].replace(b"das", b"d\\ud800")
    path = tmp_path / "hub.jsonl"
    path.write_bytes(b"\n".join(lines))
    folder = job_of(tmp_path, str(path)).prepare()
    assert pairs_in(folder) == [pairs(40)[n] for n in range(40) if n not in (9, 11)]
    assert folder.info.train.corpora[0].rejected == {"encoding": 2}
