"""Small files that would become far too much: refused by one error that names the file."""

import bz2
import gzip
import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from read_document import read_document
from text_formats import pack, rows_of

from nmt.data.compressed import MOST_TIMES_UNPACKED, UNPACKED_FREELY, zstd
from nmt.data.corpus import Encoding, read_chunks
from nmt.errors import DataError
from nmt.interchange.importers.marian import import_marian
from nmt.interchange.importers.segmenters import ImportOptions
from nmt.interchange.importers.yaml_settings import parse_yaml
from nmt.markup.xliff import MOST_OPEN_ELEMENTS
from nmt.prepare.readers.find import find_reader
from nmt.system.files import LONGEST_SETTINGS

pyarrow = pytest.importorskip("pyarrow", reason="needs the extra arrow")
pytest.importorskip("pyarrow.parquet")

UTF8 = Encoding.find("utf-8")
BLANK = b"\n" * (UNPACKED_FREELY + 1)
MODULES: dict[str, Any] = {"gz": gzip, "xz": lzma, "bz2": bz2, "zst": zstd}


@pytest.mark.parametrize("suffix", MODULES)
def test_blank_lines_of_a_compressed_file_are_refused(suffix: str, tmp_path: Path) -> None:
    module = MODULES[suffix]
    if module is None:
        pytest.skip("needs the extra zstd")
    path = tmp_path / f"text.{suffix}"
    path.write_bytes(module.compress(BLANK))
    with pytest.raises(DataError, match=rf"text\.{suffix}: .* {MOST_TIMES_UNPACKED} times"):
        list(read_chunks(path, UTF8))


@pytest.mark.parametrize("name", ["x.zip", "x.xlsx"])
def test_blank_lines_of_a_zip_are_refused(name: str, tmp_path: Path) -> None:
    pack(tmp_path / name, {"x.en": BLANK, "x.de": BLANK})
    with pytest.raises(DataError, match=rf"{name}: .* 200 times"):
        find_reader(str(tmp_path / name), ("en", "de"), UTF8)


def test_an_array_that_would_take_gigabytes_is_refused(tmp_path: Path) -> None:
    path, arrays = tmp_path / "model.npz", {"special:model.yml": np.zeros(UNPACKED_FREELY, np.int8)}
    np.savez_compressed(path, allow_pickle=False, **arrays)
    options = ImportOptions(("en", "de"), [tmp_path / "x.spm"])
    with pytest.raises(DataError, match=r"model.npz: special:model.yml.npy: .* 200 times"):
        import_marian(path, tmp_path / "out", options)


@pytest.mark.parametrize(
    "text",
    ["a: &a [1]\nb: &b [*a, *a]\nc: *b", "[" * 3_000, "a: 1\n" * (LONGEST_SETTINGS // 5 + 1)],
)
def test_yaml_that_could_take_more_than_its_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"alias|deep|MiB"):
        parse_yaml(text)
    assert parse_yaml("a: [x * y, '*a']") == {"a": ["x * y", "*a"]}
    assert parse_yaml("a: &a [1, 2]\nb: *a") == {"a": [1, 2], "b": [1, 2]}


def test_elements_of_xliff_inside_each_other_have_a_limit() -> None:
    def xliff(depth: int) -> bytes:
        inner = "".join(f'<a xmlns:n{number}="u{number}">' for number in range(depth))
        return f'<xliff version="1.2">{inner}{"</a>" * depth}</xliff>'.encode()

    read_document("x.xlf", xliff(MOST_OPEN_ELEMENTS - 1))
    with pytest.raises(DataError, match=r"x.xlf line 1: more than 1,000 elements"):
        read_document("x.xlf", xliff(MOST_OPEN_ELEMENTS))


def test_rows_that_share_text_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.data.compressed.UNPACKED_FREELY", 200_000)
    for rows in (9, 100_000):
        indices = pyarrow.array([0] * rows, pyarrow.int32())
        src = pyarrow.DictionaryArray.from_arrays(indices, pyarrow.array(["a" * 20_000]))
        table = pyarrow.table({"en": src, "de": ["b"] * rows})
        pyarrow.parquet.write_table(table, tmp_path / "x.parquet", store_schema=False)
        if rows == 9:
            assert len(rows_of(f"{tmp_path}/x.parquet", surveyed=False)) == 9
    with pytest.raises(DataError, match=rf"x.parquet: .* {MOST_TIMES_UNPACKED} times"):
        rows_of(f"{tmp_path}/x.parquet", surveyed=False)


def test_compressed_columns_have_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.data.compressed.UNPACKED_FREELY", 100_000)
    for size in (10_000, 2_000_000):
        table = pyarrow.table({"en": ["a" * size], "de": ["b"]})
        pyarrow.parquet.write_table(table, tmp_path / "x.parquet", compression="zstd")
        if size == 10_000:
            assert rows_of(f"{tmp_path}/x.parquet") == [("a" * size, "b")]
    with pytest.raises(DataError, match=rf"x.parquet: .* {MOST_TIMES_UNPACKED} times"):
        rows_of(f"{tmp_path}/x.parquet", surveyed=False)
