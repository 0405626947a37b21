"""Parquet: which columns are read, and what becomes of null and of damaged files."""

import sys
from pathlib import Path

import pytest
from prepare_job import job_of, pairs, pairs_in
from text_formats import rows_of, save

from nmt.errors import DataError, UsageError


def rows(name: str) -> list[tuple[str, str]]:
    return rows_of(name, surveyed=False)


def test_columns_are_those_named_or_the_languages(tmp_path: Path) -> None:
    flat = save(tmp_path / "flat.parquet", {"de": ["x\ny"], "en": ["a"], "mt": ["z"]})
    assert rows(str(flat)) == [("a", "x y")]  # a line feed would shift all lines
    assert rows(f"{flat}:en,mt") == [("a", "z")]
    nested = save(tmp_path / "nested.parquet", {"translation": [{"de": "x", "en": "a"}, None]})
    assert rows(str(nested)) == rows(f"{nested}:translation.en,translation.de")
    assert rows(str(nested)) == [("a", "x"), ("", "")]


def test_columns_may_be_at_any_depth_or_in_lists_by_language(tmp_path: Path) -> None:
    deep = [{"A": {"ref": "x"}}, {"A": None}]
    path = save(tmp_path / "deep.parquet", {"Src": ["a", "b"], "refs": deep})
    assert rows(f"{path}:src,refs.A.ref") == [("a", "x"), ("b", "")]
    talks = [
        {"language": ["en", "de"], "translation": ["a", "x"]},
        {"language": ["de", "fr", "en", "en"], "translation": [None, "u", "b", "c"]},
        None,
    ]
    path = save(tmp_path / "ted.parquet", {"translations": talks})
    assert rows(str(path)) == [("a", "x"), ("b", ""), ("", "")]
    path = save(tmp_path / "list.parquet", {"en": ["a"], "de": [["x", "y"]]})
    with pytest.raises(DataError, match=r"column de .*list.*row"):
        rows(str(path))


def test_columns_may_have_names_of_languages_and_json_is_refused(tmp_path: Path) -> None:
    named = save(tmp_path / "named.parquet", {"German": ["x"], "en-US": ["a"]})
    assert rows(str(named)) == [("a", "x")]
    text = save(tmp_path / "text.parquet", {"translation": ['{"en": "a", "de": "x"}']})
    with pytest.raises(DataError, match=r"en and de; .* translation;"):
        rows(str(text))


def test_null_is_a_missing_side(tmp_path: Path) -> None:
    src, tgt = zip(*pairs(40), strict=True)
    columns = {"en": list(src), "de": [*tgt[:4], None, *tgt[5:]]}
    folder = job_of(tmp_path, str(save(tmp_path / "hub.parquet", columns))).prepare()
    assert pairs_in(folder) == pairs(40)[:4] + pairs(40)[5:]
    assert folder.info.train.corpora[0].rejected == {"missing": 1}


def test_files_that_lack_a_column_or_are_damaged_are_refused(tmp_path: Path) -> None:
    path = save(tmp_path / "hub.parquet", {"en": ["a"] * 99, "fr": ["y"] * 99, "n": [1] * 99})
    with pytest.raises(DataError, match=r"en and de; .* en \| fr \| n;"):
        rows(str(path))
    with pytest.raises(DataError, match=r"column n .*int64"):
        rows(f"{path}:en,n")
    raw = path.read_bytes()
    path.write_bytes(raw[: len(raw) // 2])
    with pytest.raises(DataError, match=r"hub\.parquet: .*damaged"):
        rows(f"{path}:en,fr")
    (tmp_path / "folder").mkdir()
    with pytest.raises(DataError, match=r"folder.* \.parquet,"):
        rows(f"{tmp_path}/folder")


def test_a_column_of_a_name_that_others_have_is_refused(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(
        arrow.table([["a"], ["x"], ["y"]], ["en", "de", "de"]), tmp_path / "x.parquet"
    )
    with pytest.raises(DataError, match=r"several .*'de'"):
        rows(f"{tmp_path}/x.parquet")


def test_text_that_is_not_valid_utf8_is_dropped_and_counted(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    src, tgt = zip(*pairs(40), strict=True)
    broken = arrow.array([one.encode() for one in src[:-1]] + [b"b\xff"]).view("string")
    name = str(save(tmp_path / "hub.parquet", {"en": broken, "de": list(tgt)}))
    folder = job_of(tmp_path, name).prepare()
    assert pairs_in(folder) == pairs(40)[:-1]
    assert folder.info.train.corpora[0].rejected == {"encoding": 1}


def test_without_pyarrow_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hub.parquet").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match="pip install pyarrow`"):
        rows(f"{tmp_path}/hub.parquet")
