"""`nmt data` as a shell sees it."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from command_line import Nmt
from prepare_job import Job
from svg_picture import texts
from toy_training import write_text


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    numbers = [f"number {n} is {'odd' if n % 2 else 'even'}" for n in range(50)]
    pairs = [(f"en {line}", f"de  {line}") for line in numbers]
    train, valid, test = (
        write_text(tmp_path, name, chosen)
        for name, chosen in (("train", pairs + pairs[:1]), ("valid", pairs[:3]), ("t", pairs[:2]))
    )
    job = Job.of(tmp_path / "data", train=(train,), valid=valid, test=(test,), vocab_size=300)
    return job.but(keep_text=True).prepare().path


def test_data_shows_splits_rejects_vocabulary_and_lengths(nmt: Nmt, folder: Path) -> None:
    done = nmt("data", folder, "--examples", "1")
    assert done.status == 0
    lines = done.stdout.splitlines()
    fields = [line.split("\t") for line in lines]
    splits = {(row[0], row[2]): row[1] for row in fields if len(row) == 7}
    assert splits[("train", "en")] == splits[("train", "de")] == "50"
    assert (splits[("valid", "en")], splits[("test-t", "de")]) == ("3", "2")
    assert ["train", "lines", "kept", "weight", "tag", "duplicate"] in fields
    assert [f"{folder.parent}/train", "51", "50", "1", "", "1"] in fields
    assert ["en+de", "300", "learnt", "pad 0, unk 1, bos 2, eos 3"] in fields

    # Every pair stands in one bin of its side's histogram.
    start = lines.index("de tokens\tpairs\t")
    bins = fields[start + 1 : lines.index("", start)]
    assert len(bins) <= 16
    assert int(bins[-1][1]) > 0
    assert sum(int(row[1]) for row in bins) == 50
    assert max(len(row[2]) for row in bins) == 40

    # The first pair: its text, then its pieces, which spell the text. It was kept as written.
    assert "0\ten\ten number 0 is even" in lines
    pieces = lines[lines.index("0\tde\tde number 0 is even") + 1].split("\t")[2]
    assert pieces.replace(" ", "").replace("▁", " ").strip() == "de number 0 is even"
    assert "0\tde text\tde  number 0 is even\n" in nmt("data", folder, "--show", "0").stdout


def test_pairs_are_shown_with_everything_that_is_known_of_them(nmt: Nmt, tmp_path: Path) -> None:
    lines = [f"en {n}\tde {n}\n" for n in range(30)]
    (tmp_path / "x.tsv").write_text("".join([*lines[:5], lines[0], *lines[5:]]))
    valid = write_text(tmp_path, "valid", [("one", "eins")])
    train = f"{tmp_path}/x.tsv:1,2"
    job = Job.of(tmp_path / "data", train=(train,), valid=valid, vocab_size=300)
    folder = job.prepare()
    done = nmt("data", folder.path, "--show", "5,0-1")
    assert done.status == 0
    fields = [line.split("\t") for line in done.stdout.splitlines()]
    assert [row[0] for row in fields] == [*"5" * 8, *"0" * 8, *"1" * 8]
    shown = {name: value for _, name, value in fields[:8]}
    pieces = folder.src_vocabulary.tokens(folder.train.src(5).tolist())
    assert shown == {
        "corpus": train,
        "row": "7",  # the sixth was a duplicate
        "en text": "en 5",
        "en tokens": " ".join(pieces),
        "en ids": " ".join(map(str, folder.train.src(5).tolist())),
        "de text": "de 5",
        "de tokens": " ".join(folder.tgt_vocabulary.tokens(folder.train.tgt(5).tolist())),
        "de ids": " ".join(map(str, folder.train.tgt(5).tolist())),
    }


def test_verifying_tells_whether_all_is_well_or_what_is_damaged(nmt: Nmt, folder: Path) -> None:
    done = nmt("data", folder, "--verify")
    assert done.status == 0
    files = len(list(folder.iterdir())) - 1  # all but dataset.json, which holds the checksums
    assert f"all {files} files" in done.stderr
    path = folder / "valid.bin"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert nmt("data", folder).status == 0
    line = nmt("data", folder, "--verify").refusal(1)
    assert f"{path}: altered" in line


def test_data_shows_what_was_dropped_and_what_updates_would_hold(
    nmt: Nmt, folder: Path, tmp_path: Path
) -> None:
    picture = tmp_path / "lengths.svg"
    done = nmt("data", folder, "--rejects", "--batch-tokens", "200", "--svg", picture)
    assert done.status == 0
    assert "  duplicate: 1 (1.96 %): " in done.stdout
    assert "    train.en line 51: en number 0 is even\n" in done.stdout
    assert done.stdout.count("\tde\tde number") == 3  # examples
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    (row,) = [
        lines[at + 1] for at, row in enumerate(lines) if row[:2] == ["tokens", "pairs an update"]
    ]
    assert row[0] == "200"
    # 50 pairs of 6 to 9 tokens with their ends, at most 200 tokens an update.
    assert 2 <= int(row[2]) <= 4
    root = ElementTree.fromstring(picture.read_text())
    assert {"en", "de"} <= set(texts(root))
    assert str(picture) in done.stderr
