"""`nmt data` as a shell sees it."""

from pathlib import Path

import pytest
from command_line import Nmt
from prepare_job import Job
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


def test_data_shows_splits_rejects_and_vocabulary(nmt: Nmt, folder: Path) -> None:
    fields = [line.split("\t") for line in nmt("data", folder).succeeded().stdout.splitlines()]
    splits = {(row[0], row[2]): row[1] for row in fields if len(row) == 7}
    assert splits[("train", "en")] == splits[("train", "de")] == "50"
    assert (splits[("valid", "en")], splits[("t", "de")]) == ("3", "2")
    assert ["train", "lines", "kept", "weight", "tag", "duplicate"] in fields
    assert [f"{folder.parent}/train", "51", "50", "1", "", "1"] in fields
    assert ["en+de", "300", "learnt", "pad 0, unk 1, bos 2, eos 3"] in fields

    # The text is shown as it was written, and the pieces spell it.
    shown = nmt("data", folder, "--show", "0").stdout
    assert "0\tde text\tde  number 0 is even\n" in shown
    pieces = next(line for line in shown.splitlines() if "\tde tokens\t" in line).split("\t")[2]
    assert pieces.replace(" ", "").replace("▁", " ").strip() == "de number 0 is even"


def test_pairs_are_shown_with_everything_that_is_known_of_them(nmt: Nmt, tmp_path: Path) -> None:
    lines = [f"en {n}\tde {n}\n" for n in range(30)]
    (tmp_path / "x.tsv").write_text("".join([*lines[:5], lines[0], *lines[5:]]))
    valid = write_text(tmp_path, "valid", [("one", "eins")])
    train = f"{tmp_path}/x.tsv:1,2"
    job = Job.of(tmp_path / "data", train=(train,), valid=valid, vocab_size=300)
    folder = job.prepare()
    done = nmt("data", folder.path, "--show", "5,0-1").succeeded()
    fields = [line.split("\t") for line in done.stdout.splitlines()]
    assert [row[0] for row in fields] == [*"5" * 8, *"0" * 8, *"1" * 8]
    assert {name: value for _, name, value in fields[:8]} == {
        "corpus": train,
        "row": "7",  # the sixth was a duplicate
        "en text": "en 5",
        "en tokens": " ".join(folder.src_vocabulary.tokens(folder.train.src(5).tolist())),
        "en ids": " ".join(map(str, folder.train.src(5).tolist())),
        "de text": "de 5",
        "de tokens": " ".join(folder.tgt_vocabulary.tokens(folder.train.tgt(5).tolist())),
        "de ids": " ".join(map(str, folder.train.tgt(5).tolist())),
    }


def test_verifying_tells_whether_all_is_well_or_what_is_damaged(nmt: Nmt, folder: Path) -> None:
    done = nmt("data", folder, "--verify").succeeded()
    files = len(list(folder.iterdir())) - 1  # all but dataset.json, which holds the checksums
    assert f"all {files} files" in done.stderr
    path = folder / "valid.bin"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert nmt("data", folder).status == 0
    assert f"{path}: altered" in nmt("data", folder, "--verify").refusal(1)
