"""Side columns: each pair's value stays with it, from any format of table to the folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prepare_job import Job, job_of, pairs, write

from nmt.data.corpus import Encoding
from nmt.data.folder import DataFolder
from nmt.errors import DataError, NMTError
from nmt.prepare.block import KEPT, Block, Work
from nmt.prepare.rules import CODES

URLS = [f"https://example.org/\u00e4?page={number}" for number in range(40)]
EMPTY = 7
"""The row without a URL."""


def write_tsv(folder: Path, urls: Sequence[str | None]) -> str:
    rows = [f"{src}\t{tgt}" for src, tgt in pairs(len(urls))]
    # A row may end before the column.
    cells = ["" if url is None else f"\t{url}" for url in urls]
    text = "".join(f"{row}{cell}\n" for row, cell in zip(rows, cells, strict=True))
    (folder / "crawl.tsv").write_text(f"en\tde\turl\n{text}", encoding="utf-8")
    return f"{folder}/crawl.tsv"


def write_arrow(folder: Path, urls: Sequence[str | None]) -> str:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    src, tgt = zip(*pairs(len(urls)), strict=True)
    columns = {"en": src, "de": tgt, "url": urls}
    parquet.write_table(arrow.table({k: list(v) for k, v in columns.items()}), folder / "h.parquet")
    return f"{folder}/h.parquet"


def write_tmx(folder: Path, urls: Sequence[str | None], *, as_prop: bool = False) -> str:
    units = []
    for (src, tgt), url in zip(pairs(len(urls)), urls, strict=True):
        prop = f'<prop type="url">{url}</prop><prop type="url">2nd</prop>' if as_prop else ""
        attribute = "" if as_prop else f' url="{url}"'
        attribute, prop = (attribute, prop) if url is not None else ("", "")
        units.append(
            f'<tu{attribute} id="1"><prop type="other">o</prop>'
            f'<tuv xml:lang="en">{prop}<seg>{src}</seg></tuv>'
            f'<tuv xml:lang="de"><seg>{tgt}</seg></tuv></tu>'
        )
    head = '<?xml version="1.0"?><tmx version="1.4"><header/><body>'
    (folder / "m.tmx").write_text(f"{head}{''.join(units)}</body></tmx>", encoding="utf-8")
    return f"{folder}/m.tmx"


def write_tmx_props(folder: Path, urls: Sequence[str | None]) -> str:
    return write_tmx(folder, urls, as_prop=True)


FORMATS: list[Callable[[Path, Sequence[str | None]], str]]
FORMATS = [write_tsv, write_arrow, write_tmx, write_tmx_props]


def job(folder: Path, file: str, **values: Any) -> Job:
    return job_of(folder, **{"train": (file,), "keep_column": (f"{file}:url",)} | values)


def provenance(folder: DataFolder) -> list[str]:
    pairs = map(folder.train.side_values, range(len(folder.train)))
    return [values.get("provenance", "") for values in pairs]


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("form", FORMATS)
def test_each_pair_keeps_its_own(
    tmp_path: Path, form: Callable[[Path, Sequence[str | None]], str]
) -> None:
    urls = [None if at == EMPTY else url for at, url in enumerate(URLS)]
    file = form(tmp_path, urls)
    # A text without the column, which shares a pair with the first, and another text before it.
    before = write(tmp_path, "before", [("first", "zuerst"), pairs(40)[3]])
    prepared = job(tmp_path, file, train=(before, file), shard_pairs=10)
    folder = prepared.prepare()
    assert provenance(folder) == ["", "", *("" if at == EMPTY else URLS[at] for at in range(40)
                                           if at != 3)]  # fmt: skip
    rows = [folder.train.origin(index) for index in range(2, len(folder.train))]
    assert rows == [(1, row) for row in range(1, 41) if row != 4]
    assert [corpus.kept_column for corpus in folder.info.train.corpora] == ["", "url"]
    names = [shard.name.replace(".bin", ".provenance") for shard in folder.info.train.shards[1:]]
    assert [file.name for file in folder.info.train.side_columns] == names
    assert len(names) == 4
    DataFolder.open(folder.path, verify=True)


def test_whole_numbers_are_kept_as_digits_and_line_ends_as_spaces(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    src, tgt = zip(*pairs(3), strict=True)
    columns = {"en": src, "de": tgt, "n": [5, None, -7], "s": ["a\nb", "", None], "x": [0.5] * 3}
    parquet.write_table(
        arrow.table({k: list(v) for k, v in columns.items()}), tmp_path / "h.parquet"
    )
    file = f"{tmp_path}/h.parquet"
    prepared = job(tmp_path, file, vocab_size=300)
    for column, found in (("n", ["5", "", "-7"]), ("s", ["a b", "", ""]), ("de", list(tgt))):
        kept = prepared.but(out=tmp_path / column, keep_column=(f"{file}:{column}",))
        assert provenance(kept.prepare()) == found
    with pytest.raises(DataError, match=r"column x .*double"):
        prepared.but(keep_column=(f"{file}:x",)).prepare()


@pytest.mark.parametrize(
    ("form", "column", "message"),
    [
        (write_tsv, "link", "crawl.tsv: .*'link'"),
        (write_tsv, "9", "--keep-column .*crawl.tsv: .*'9'"),
        (write_arrow, "link", "h.parquet: .*'link'"),
        (write_tmx, "tuid", "--keep-column .*m.tmx: .*'tuid'"),
    ],
)
def test_a_column_that_is_not_there_is_told(
    tmp_path: Path,
    form: Callable[[Path, Sequence[str | None]], str],
    column: str,
    message: str,
) -> None:
    file = form(tmp_path, URLS)
    with pytest.raises(NMTError, match=message):
        job(tmp_path, file, keep_column=(f"{file}:{column}",)).prepare()
    assert not (tmp_path / "data").exists()


def test_a_shard_of_another_corpus_is_refused(tmp_path: Path) -> None:
    folder = job(tmp_path, write_tsv(tmp_path, URLS)).prepare()
    (file,) = folder.info.train.side_columns
    dataset = folder.path / "dataset.json"
    text = dataset.read_text()
    dataset.write_text(text.replace(file.name, "train-00009.provenance"))
    (folder.path / file.name).rename(folder.path / "train-00009.provenance")
    with pytest.raises(DataError, match=r"dataset\.json .*damaged: provenance"):
        DataFolder.open(folder.path)
    content = json.loads(text)
    (other,) = content["valid"]["shards"]
    content["train"]["side_columns"][0].update(size=other["size"], sha256=other["sha256"])
    dataset.write_text(json.dumps(content))
    (folder.path / file.name).write_bytes((folder.path / "valid.bin").read_bytes())
    with pytest.raises(DataError, match=r"provenance of train-00000\.bin"):
        DataFolder.open(folder.path)


def test_a_side_column_loses_the_pairs_that_a_later_step_drops() -> None:
    block = Block(0, 1, 3, b"a\nb\nc\n", b"x\ny\nz\n", Encoding.find("utf-8"), langs=("en", "de"))
    work = Work.decode(block)
    work.keep("place", ["first", "second", "third"])
    work.judge(np.array([KEPT, CODES["identical"], KEPT], np.uint8))
    assert [side.text() for side in work.side_columns["place"]] == [["first", "third"], ["", ""]]
