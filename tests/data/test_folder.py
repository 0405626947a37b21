"""Data folders: what opening checks, and pairs over several shards."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prepare_job import Job

from nmt.data.folder import DataFolder, PairDataset
from nmt.data.shards import Shard, ShardBuilder, TokenRows
from nmt.errors import DataError
from nmt.prepare import text as blocks

WORDS = ["red", "blue", "green", "house", "tree", "bird", "sings", "stands", "old", "new"]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder of 100 training pairs in 4 shards, 3 valid pairs and two test sets."""
    root = tmp_path_factory.mktemp("folder")
    lines = [f"{WORDS[n % 10]} {WORDS[n // 10]} {n}" for n in range(100)]
    for name, chosen in (
        ("train", lines),
        ("valid", lines[:3]),
        ("t1", lines[3:5]),
        ("t2", lines[5:9]),
    ):
        (root / f"{name}.en").write_text("".join(f"{line}\n" for line in chosen))
        (root / f"{name}.de").write_text("".join(f"{line.upper()}\n" for line in chosen))
    test = (f"{root}/t1", f"{root}/t2")
    job = Job.of(
        root / "data",
        train=(f"{root}/train",),
        valid=f"{root}/valid",
        test=test,
        vocab_size=330,
        shard_pairs=30,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK_LINES", 30)  # shards end with a block
        job.prepare()
    return root / "data"


@pytest.fixture
def folder(prepared: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    shutil.copytree(prepared, tmp_path / "data")
    return tmp_path / "data"


def test_a_folder_says_what_is_in_it(prepared: Path) -> None:
    opened = DataFolder.open(prepared, verify=True)
    assert (opened.src_lang, opened.tgt_lang, opened.joint) == ("en", "de", True)
    assert (len(opened.train), len(opened.valid)) == (100, 3)
    assert opened.test is not None
    assert len(opened.test) == 2 + 4
    assert len(opened.src_vocabulary) == 330
    assert [path.read_text() for path in opened.valid_text] == [
        "red red 0\nblue red 1\ngreen red 2\n",
        "RED RED 0\nBLUE RED 1\nGREEN RED 2\n",
    ]
    assert list(opened.test_text) == ["test-t1", "test-t2"]
    assert opened.test_text["test-t1"][1].read_text() == "HOUSE RED 3\nTREE RED 4\n"
    dataset = (prepared / "dataset.json").read_bytes()
    assert opened.fingerprint == hashlib.sha256(dataset).hexdigest()


def test_pairs_of_all_shards_are_one_sequence_in_the_order_of_the_text(prepared: Path) -> None:
    opened = DataFolder.open(prepared)
    assert [shard.pairs for shard in opened.info.train.shards] == [30, 30, 30, 10]
    decode = opened.src_vocabulary.decode
    for n in (0, 29, 30, 59, 60, 89, 90, 99):
        line = f"{WORDS[n % 10]} {WORDS[n // 10]} {n}"
        assert decode([opened.train.src(n).tolist()]) == [line]
        assert decode([opened.train.tgt(n).tolist()]) == [line.upper()]
    src_lengths, tgt_lengths = opened.train.lengths(np.arange(100))
    assert src_lengths.tolist() == [len(opened.train.src(n)) for n in range(100)]
    assert tgt_lengths.tolist() == [len(opened.train.tgt(n)) for n in range(100)]
    assert opened.info.train.src.tokens == src_lengths.sum()
    assert opened.info.train.tgt.longest == tgt_lengths.max()
    src_counts, tgt_counts = opened.train.length_counts()
    assert src_counts.tolist() == np.bincount(src_lengths).tolist()
    assert tgt_counts.tolist() == np.bincount(tgt_lengths).tolist()


def test_pairs_are_taken_together_in_any_order(prepared: Path) -> None:
    train = DataFolder.open(prepared).train
    chosen = np.array([99, 0, 31, 30, 29, 0, 64])
    for rows, one in zip(train.rows(chosen), (train.src, train.tgt), strict=True):
        ends = np.cumsum(rows.lengths)
        found = np.split(rows.ids, ends[:-1])
        assert [ids.tolist() for ids in found] == [one(n).tolist() for n in chosen.tolist()]
    src_lengths, tgt_lengths = train.lengths(chosen)
    assert src_lengths.tolist() == [len(train.src(n)) for n in chosen.tolist()]
    assert tgt_lengths.tolist() == [len(train.tgt(n)) for n in chosen.tolist()]
    for index in (-1, 100):
        with pytest.raises(IndexError):
            train.src(index)


def test_an_empty_shard_between_others_is_skipped_over(tmp_path: Path) -> None:
    shards = []
    for number, count in enumerate([2, 0, 1]):
        builder = ShardBuilder(token_bytes=2)
        src = TokenRows.of([[10 * number + n] for n in range(count)], token_bytes=2)
        builder.extend(src, src, np.arange(count))
        builder.write(tmp_path / f"{number}.bin")
        shards.append(Shard.open(tmp_path / f"{number}.bin"))
    dataset = PairDataset(shards)
    assert [dataset.src(n).tolist() for n in range(len(dataset))] == [[0], [1], [20]]
    assert dataset.rows(np.array([2, 1, 0]))[0].ids.tolist() == [20, 1, 0]


def test_length_statistics_are_those_of_the_text(prepared: Path) -> None:
    import statistics

    opened = DataFolder.open(prepared)
    lengths = opened.train.lengths(np.arange(100))[0].tolist()
    record = opened.info.train.src
    assert record.mean == round(statistics.mean(lengths), 3)
    assert record.median == statistics.median_low(lengths)


def flip_last_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


FILES = ["train-00002.bin", "valid.bin", "test-t1.bin", "vocab.model", "valid.de", "rejects.json"]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", [Path.unlink, cut])
def test_missing_or_cut_files_are_named_at_once(
    folder: Path, name: str, damage: Callable[[Path], None]
) -> None:
    damage(folder / name)
    with pytest.raises(DataError, match=name.replace(".", r"\.")):
        DataFolder.open(folder)


@pytest.mark.parametrize("name", FILES)
def test_verifying_finds_a_single_altered_bit(folder: Path, name: str) -> None:
    flip_last_byte(folder / name)
    with pytest.raises(
        DataError, match=name.replace(".", r"\.") + ": altered: its SHA-256 differs"
    ):
        DataFolder.open(folder, verify=True)


def edit(folder: Path, change: Callable[[Any], object]) -> None:
    path = folder / "dataset.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.pop("valid"), "missing or unknown: valid"),
        (
            lambda c: c.update(format_version=99, more="fields"),
            "format version 99, but this nmt reads version 2; run `nmt prepare` again",
        ),
        (
            lambda c: c["settings"].update(max_length="one"),
            "settings.max_length: 'one' is not of type int",
        ),
        (
            lambda c: c["settings"].update(max_length=True),
            "settings.max_length: True is not of type int",
        ),
        (lambda c: c["train"].update(shards={}), "train.shards: {} is not of type list"),
        (lambda c: c["train"]["shards"][1].update(pairs=31), "not the shard that dataset.json"),
        (lambda c: c["train"]["shards"].pop(), "do not have its 100 pairs"),
        (lambda c: c["vocabulary"].update(sizes=[8]), "its vocabulary is not the one"),
        (lambda c: c["vocabulary"].update(files=[]), "one or two vocabularies"),
        (lambda c: c["valid"].update(text=[]), "two text files"),
        (lambda c: c["rejects"].update(name="../../etc/passwd"), "outside the folder"),
    ],
)
def test_a_dataset_json_that_does_not_fit_is_refused(
    folder: Path, change: Callable[[Any], object], message: str
) -> None:
    edit(folder, change)
    with pytest.raises(DataError) as caught:
        DataFolder.open(folder)
    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["", "nothing-here", "a-file"])
def test_other_places_are_no_data_folders(tmp_path: Path, name: str) -> None:
    (tmp_path / "a-file").touch()
    with pytest.raises(DataError, match=r"is not a data folder.*nmt prepare"):
        DataFolder.open(tmp_path / name)
