"""Text at URLs gives the data folder that the same files give here."""

import gzip
from pathlib import Path

import pytest
from prepare_job import Job, content, pairs, pairs_in, write
from storage import Storage

from nmt.errors import DataError, UsageError
from nmt.prepare.prepare import dry_run

pytest.importorskip("fsspec", reason="needs the extra remote")


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    """`job`'s text: train compressed, and also as a table."""
    storage = Storage()
    write(tmp_path, "train", pairs(60))
    write(tmp_path, "valid", pairs(3))
    for lang in ("en", "de"):
        train = (tmp_path / f"train.{lang}").read_bytes()
        storage.write(f"bucket/train.{lang}.gz", gzip.compress(train, mtime=0))
        storage.write(f"bucket/valid.{lang}", (tmp_path / f"valid.{lang}").read_bytes())
    rows = "".join(f"{tgt}\t{src}\n" for src, tgt in pairs(60))
    storage.write("bucket/crawl.tsv", f"de\ten\n{rows}")
    return storage


def test_two_files_at_urls_are_prepared_as_here(
    job: Job, storage: Storage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = job.prepare()
    train, valid = "memory://bucket/train", "memory://bucket/valid"
    remote = job.but(out=tmp_path / "new" / "remote", train=(train,), valid=(valid,))
    remote = remote.but(test=(f"file://{tmp_path}/valid",), weight=(f"{train}=2",))
    folder = remote.prepare()
    assert "memory://bucket/train.en.gz: copied 0.0 MB" in capsys.readouterr().err
    assert pairs_in(folder) == pairs_in(here)
    (corpus,) = folder.info.train.corpora
    assert (corpus.prefix, corpus.weight) == ("memory://bucket/train", 2.0)
    assert (corpus.src.name, corpus.tgt.name) == ("train.en.gz", "train.de.gz")
    before = content(folder.path)
    assert "valid.en" in before and "test-valid.en" in before
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["remote"]

    assert content(remote.prepare().path) == before
    assert "already prepared" in capsys.readouterr().err
    storage.write("bucket/train.en.gz", gzip.compress(b"other\n" * 60))
    with pytest.raises(UsageError, match=r"remote was .*text"):
        remote.prepare()
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["remote"]


@pytest.mark.parametrize("columns", ["", ":en,de", ":2,1"])
def test_a_table_at_a_url_has_columns(job: Job, storage: Storage, columns: str) -> None:
    table = job.but(train=(f"memory://bucket/crawl.tsv{columns}",))
    assert "bucket/crawl.tsv" in storage.files
    (rejects,) = dry_run(table.options, table.cleaning, pairs=100)
    assert sum(rejects.counts.values()) + rejects.kept == 60
    assert pairs_in(table.prepare()) == pairs(60)


@pytest.mark.parametrize(
    "name", ["memory://hub/", "memory://hub/train-*", "memory://sides/en.tsv,memory://sides/de.tsv"]
)
def test_folders_patterns_and_tables_are_in_order(job: Job, storage: Storage, name: str) -> None:
    for part in range(2):
        rows = "".join(f"{src}\t{tgt}\n" for src, tgt in pairs(60)[30 * part : 30 * part + 30])
        storage.write(f"hub/train-{part}.csv", f"en\tde\n{rows}")
    for other in ("test.csv", "README.md"):
        storage.write(f"hub/{other}", "en\tde\na\tx\n")
    for lang, side in zip(("en", "de"), zip(*pairs(60), strict=True), strict=True):
        storage.write(f"sides/{lang}.tsv", "".join(f"{text}\n" for text in side))
    assert pairs_in(job.but(train=(name,)).prepare()) == pairs(60)


def test_text_that_is_not_there_is_named_by_its_url(job: Job, storage: Storage) -> None:
    assert "bucket/train.en" not in storage.files
    with pytest.raises(DataError, match=r"^memory://bucket/none\.en: "):
        job.but(train=("memory://bucket/none",)).prepare()
    with pytest.raises(DataError, match=r"^memory://bucket/none\.tsv: "):
        job.but(train=("memory://bucket/none.tsv",)).prepare()
    with pytest.raises(DataError, match=r"memory:/?/bucket/crawl\.tsv: .*'fr'"):
        job.but(train=("memory://bucket/crawl.tsv:en,fr",)).prepare()
    assert not list(job.out.parent.iterdir())
