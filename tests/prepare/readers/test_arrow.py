"""Parquet and Arrow: which columns are read, and what becomes of null and of damaged files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from prepare_job import Job, pairs, pairs_in, write

from nmt.data.corpus import Encoding
from nmt.errors import DataError, UsageError
from nmt.prepare.readers.arrow import ArrowFiles
from nmt.prepare.readers.find import find_reader

UTF8 = Encoding.find("utf-8")


def save(path: Path, columns: dict[str, list[Any]]) -> Path:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = arrow.table(columns)
    if path.suffix == ".parquet":
        parquet.write_table(table, path)
    else:
        with arrow.ipc.new_file(str(path), table.schema) as file:
            file.write_table(table)
    return path


def rows(name: str) -> list[tuple[str, str]]:
    found = find_reader(name, ("en", "de"), UTF8)
    assert isinstance(found, ArrowFiles)
    return [(row.src.decode(), row.tgt.decode()) for row in found.rows(int)]


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_columns_are_those_named_or_the_languages(tmp_path: Path, suffix: str) -> None:
    flat = save(tmp_path / f"flat{suffix}", {"de": ["x\ny"], "en": ["a"], "mt": ["z"]})
    assert rows(str(flat)) == [("a", "x y")]  # a line feed would shift all lines
    assert rows(f"{flat}:en,mt") == [("a", "z")]
    inside = {"translation": [{"de": "x", "en": "a"}, None]}
    nested = save(tmp_path / f"nested{suffix}", inside)
    assert rows(str(nested)) == rows(f"{nested}:translation.en,translation.de")
    assert rows(str(nested)) == [("a", "x"), ("", "")]


def test_null_is_a_missing_side_and_scores_may_be_null(tmp_path: Path) -> None:
    (src, tgt), scores = zip(*pairs(40), strict=True), [0.5] * 40
    columns = {"en": list(src), "de": list(tgt), "laser": scores}
    columns["de"][4] = columns["laser"][5] = None
    columns["laser"][6] = 0.1
    save(tmp_path / "hub.parquet", columns)
    valid = write(tmp_path, "valid", [("something else", "etwas anderes")])
    job = Job.of(
        tmp_path / "data",
        train=(f"{tmp_path}/hub.parquet",),
        valid=valid,
        vocab_size=330,
        min_score=(f"{tmp_path}/hub.parquet:laser:0.2",),
    )
    folder = job.prepare()
    assert pairs_in(folder) == pairs(40)[:4] + pairs(40)[7:]
    assert folder.info.train.corpora[0].rejected == {"missing": 1, "score": 2}


def test_files_that_lack_a_column_or_are_damaged_are_refused(tmp_path: Path) -> None:
    path = save(tmp_path / "hub.parquet", {"en": ["a"] * 99, "fr": ["y"] * 99, "n": [1] * 99})
    with pytest.raises(DataError, match=r"no column 'de'; it has en, fr, n; name columns as in"):
        rows(str(path))
    with pytest.raises(DataError, match="the column n is of type int64, not a string"):
        rows(f"{path}:en,n")
    raw = path.read_bytes()
    path.write_bytes(raw[: len(raw) // 2])
    with pytest.raises(DataError, match=r"hub\.parquet: cut short or damaged"):
        rows(f"{path}:en,fr")
    (tmp_path / "bad.arrow").write_bytes(b"no arrow")
    with pytest.raises(DataError, match=r"bad\.arrow: cut short or damaged"):
        rows(f"{tmp_path}/bad.arrow")
    (tmp_path / "folder").mkdir()
    with pytest.raises(DataError, match=r"must have files of one of \.parquet, \.arrow"):
        rows(f"{tmp_path}/folder")


def test_without_pyarrow_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hub.parquet").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match=r"needs pyarrow; run `pip install nmt\[arrow\]`"):
        rows(f"{tmp_path}/hub.parquet")
