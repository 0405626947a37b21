"""The example backtranslate: the whole recipe, with kills on the way."""

from __future__ import annotations

import gzip
import time
from pathlib import Path

import pytest
from example_runs import TINY, make, make_with_kills, needs_make, write_corpus
from toy_training import weights

from nmt.data.folder import DataFolder


def write_text(folder: Path) -> None:
    corpora = {
        "multi30k/train": 200,
        "multi30k/val": 20,
        "multi30k/test_2016_flickr": 20,
        "tatoeba-en-de/train": 150,
        "tatoeba-en-de/valid": 20,
    }
    for seed, (name, count) in enumerate(corpora.items()):
        write_corpus(folder / name, count, seed=seed + 5)


def arguments(folder: Path, work: str) -> list[str]:
    sizes = ["PAIRS=180", "LINES=120", "UPDATES=40", "VOCAB_SIZE=345"]
    return [
        *(f"WORK={folder / work}", f"NMT_DATA={folder}", *sizes),
        f"TRAIN_OPTIONS={TINY}",
    ]


@needs_make
@pytest.mark.slow
def test_it_ends_the_same_however_often_it_is_killed(tmp_path: Path) -> None:
    write_text(tmp_path)
    started = time.monotonic()
    done = make("backtranslate", *arguments(tmp_path, "whole"))
    assert done.returncode == 0, done.stderr
    limit = (time.monotonic() - started) / 6
    table = done.stdout[done.stdout.index("BLEU    180 pairs    and 120 back-translated lines") :]
    assert [line.split()[0] for line in table.splitlines()[1:3]] == ["test_2016_flickr", "valid"]
    assert make_with_kills("backtranslate", [limit] * 5, *arguments(tmp_path, "killed")) == 5

    whole, killed = tmp_path / "whole", tmp_path / "killed"
    for name in ("parallel.en", "parallel.de", "backtranslated.en", "backtranslated.de"):
        assert (killed / name).read_bytes() == (whole / name).read_bytes(), name
    for run in ("backward", "before", "after"):
        found, wanted = (weights(work / run / "last.safetensors") for work in (killed, whole))
        assert all(found[key].equal(wanted[key]) for key in wanted), run
        for path in (whole / run).glob("*.score"):
            assert (killed / run / path.name).read_bytes() == path.read_bytes(), path.name
    assert not list(killed.rglob("*.partial"))

    # Only back-translations have the tag, and the vocabulary of all three models is one but for it.
    data = DataFolder.open(whole / "after-data")
    tagged = [
        "<BT>" in data.src_vocabulary.tokens(data.train.src(index).tolist())
        for index in range(len(data.train))
    ]
    corpora = [data.train.origin(index)[0] for index in range(len(data.train))]
    assert set(zip(corpora, tagged, strict=True)) == {(0, False), (1, True)}
    before = DataFolder.open(whole / "before-data")
    assert len(data.src_vocabulary) == len(before.src_vocabulary) + 1


@needs_make
def test_german_text_of_your_own_is_taken_without_what_are_pairs_already(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "mono.de.gz", "wt", encoding="utf-8") as file:
        file.write("eins\nzwei\ndrei\nvier\nvier\nf\u00fcnf\nsechs\n")
    text = tmp_path / "work" / "backtranslated.de"
    values = [f"WORK={text.parent}", f"MONOLINGUAL={tmp_path}/mono.de.gz", "SKIP=2", "LINES=3"]
    done = make("backtranslate", *values, str(text))
    assert done.returncode == 0, done.stderr
    assert text.read_text(encoding="utf-8") == "drei\nvier\nf\u00fcnf\n"


@needs_make
def test_text_that_is_missing_is_named(tmp_path: Path) -> None:
    done = make("backtranslate", f"WORK={tmp_path / 'work'}", f"NMT_DATA={tmp_path}")
    assert (done.returncode, "train.en.gz" in done.stderr) == (2, True)
    assert not (tmp_path / "work").exists()
