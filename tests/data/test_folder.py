"""Data folders: what opening checks, and pairs over several shards."""

import hashlib
import json
import os
import shutil
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prepare_job import Job, write

from nmt.data import line_blocks
from nmt.data.folder import DataFolder
from nmt.errors import DataError

WORDS = ["red", "blue", "green", "house", "tree", "bird", "sings", "stands", "old", "new"]
LINES = [f"{WORDS[n % 10]} {WORDS[n // 10]} {n}" for n in range(100)]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder of 100 training pairs in 4 shards, 3 valid pairs and two test sets."""
    root = tmp_path_factory.mktemp("folder")
    texts = {"train": LINES, "valid": LINES[:3], "t1": LINES[3:5], "t2": LINES[5:9]}
    train, valid, *test = (
        write(root, name, [(line, line.upper()) for line in lines]) for name, lines in texts.items()
    )
    job = Job.of(root / "data", train=(train,), valid=valid, test=tuple(test), vocab_size=330)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_blocks, "BLOCK_LINES", 30)  # shards end with a block
        job.but(shard_pairs=30, keep_text=True).prepare()
    return root / "data"


@pytest.fixture
def folder(prepared: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    shutil.copytree(prepared, tmp_path / "data")
    return tmp_path / "data"


def test_a_folder_says_what_is_in_it(prepared: Path) -> None:
    opened = DataFolder.open(prepared, verify=True)
    assert (opened.info.langs, opened.joint) == (("en", "de"), True)
    assert (len(opened.train), len(opened.valid)) == (100, 3)
    assert opened.test is not None
    assert len(opened.test) == 2 + 4
    assert len(opened.src_vocabulary) == 330
    assert [
        path.read_text() for path in (opened.valid_texts[0].src, opened.valid_texts[0].tgt)
    ] == ["red red 0\nblue red 1\ngreen red 2\n", "RED RED 0\nBLUE RED 1\nGREEN RED 2\n"]
    assert [split.name for split in opened.info.tests] == ["test-t1", "test-t2"]
    assert (prepared / "test-t1.de").read_text() == "HOUSE RED 3\nTREE RED 4\n"
    dataset = (prepared / "dataset.json").read_bytes()
    assert opened.fingerprint == hashlib.sha256(dataset).hexdigest()


def test_pairs_of_all_shards_are_one_sequence_in_the_order_of_the_text(prepared: Path) -> None:
    opened = DataFolder.open(prepared)
    train, info = opened.train, opened.info.train
    assert [shard.pairs for shard in info.shards] == [30, 30, 30, 10]
    all_lengths, all_counts = train.lengths(np.arange(100)), train.length_counts()
    chosen = np.array([99, 0, 31, 30, 29, 0, 64])
    for side, (one, lines) in enumerate(
        [(train.src, LINES), (train.tgt, [line.upper() for line in LINES])]
    ):
        ids = [one(n).tolist() for n in range(100)]
        assert opened.src_vocabulary.decode(ids) == lines
        lengths = [len(row) for row in ids]
        assert all_lengths[side].tolist() == lengths
        assert all_counts[side].tolist() == np.bincount(lengths).tolist()
        assert train.rows(chosen)[side].lists() == [ids[n] for n in chosen.tolist()]
        assert train.lengths(chosen)[side].tolist() == [lengths[n] for n in chosen.tolist()]
        record = (info.src, info.tgt)[side]
        assert (record.tokens, record.longest) == (sum(lengths), max(lengths))
        assert record.mean == round(statistics.mean(lengths), 3)
        assert record.median == statistics.median_low(lengths)
        for index in (-1, 100):
            with pytest.raises(IndexError):
                one(index)


FILES = ["train-00002.bin", "valid.bin", "test-t1.bin", "vocab.model", "valid.de", "rejects.json"]
FILES += ["train-00001.text"]


@pytest.mark.parametrize("name", FILES)
def test_missing_cut_or_altered_files_are_named(folder: Path, name: str) -> None:
    path, named = folder / name, name.replace(".", r"\.")
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(DataError, match=f"{named}: altered"):
        DataFolder.open(folder, verify=True)
    path.write_bytes(whole[:-1])
    with pytest.raises(DataError, match=named):
        DataFolder.open(folder)
    path.unlink()
    with pytest.raises(DataError, match=named):
        DataFolder.open(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.pop("valid"), "unknown: valid"),
        (lambda c: c.update(format_version=99, more="fields"), "format version 99"),
        (lambda c: c["settings"].update(max_length="one"), "max_length: 'one'"),
        (lambda c: c["settings"].update(max_length=True), "max_length: True"),
        (lambda c: c["settings"].update(window="3"), "window: '3'"),
        (lambda c: c["settings"].update(temperature="hot"), "temperature: 'hot'"),
        (lambda c: c["train"].update(shards={}), "train.shards: {}"),
        (lambda c: c["train"]["shards"][1].update(pairs=31), "not the shard"),
        (lambda c: c["train"]["shards"].pop(), "100 pairs"),
        (lambda c: c["vocabulary"].update(sizes=[8]), "its vocabulary"),
        (lambda c: c["vocabulary"].update(files=[]), "two vocabularies"),
        (lambda c: c["valid"].update(text=[]), "two text files"),
        (lambda c: c["train"]["side_columns"].pop(), "needs its text"),
        (lambda c: c["rejects"].update(name="../../etc/passwd"), "outside the folder"),
        (lambda c: c["rejects"].update(name=".."), "outside the folder: .."),
        (lambda c: c["rejects"].update(name="a\0b"), "without a name"),
        (lambda c: c["rejects"].update(name="\ud800"), "without a name"),
        (lambda c: c["train"]["corpora"][0].update(langs=["en"]), "langs: must be 2 values"),
    ],
)
def test_a_dataset_json_that_does_not_fit_is_refused(
    folder: Path, change: Callable[[Any], object], message: str
) -> None:
    path = folder / "dataset.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    with pytest.raises(DataError) as caught:
        DataFolder.open(folder)
    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["", "nothing-here", "a-file"])
def test_other_places_are_no_data_folders(tmp_path: Path, name: str) -> None:
    (tmp_path / "a-file").touch()
    with pytest.raises(DataError, match=rf"{tmp_path / name} is not"):
        DataFolder.open(tmp_path / name)


@pytest.mark.parametrize("name", ["dataset.json", "train-00000.bin", "vocab.model"])
def test_a_pipe_in_place_of_a_file_is_not_waited_for(folder: Path, name: str) -> None:
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with pytest.raises(DataError, match=name):
        DataFolder.open(folder)
