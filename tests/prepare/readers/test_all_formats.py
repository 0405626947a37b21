"""Every format gives the pairs, the line numbers and the data folder that two plain files give."""

import re
from dataclasses import fields
from pathlib import Path

import pytest
from prepare_job import Job, content, pairs, pairs_in, write
from text_formats import FORMATS

from nmt.data.corpus import Encoding
from nmt.errors import DataError, NMTError, UsageError
from nmt.prepare.options import PrepareOptions
from nmt.prepare.readers.find import find_reader
from nmt.prepare.readers.reading import Reader, blocks_of, surveys_of
from nmt.prepare.readers.text_names import FORMATS as ALL_FORMATS

UTF8 = Encoding.find("utf-8")
TEXT = [("Ein & <b>", "über"), ("“x”", "東京\u2028y"), *pairs(38)]


def found(prefix: str) -> Reader:
    return find_reader(prefix, ("en", "de"), UTF8)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("start", [1, 2, 6, 40, 41])
@pytest.mark.usefixtures("small_blocks")
def test_all_pairs_come_in_order_from_any_row_on(tmp_path: Path, name: str, start: int) -> None:
    text = found(FORMATS[name](tmp_path, TEXT))
    blocks = list(blocks_of(text, corpus=2, start=start))
    texts = [block.src for block in blocks], [block.tgt for block in blocks]
    sides = [b"".join(one).decode().split("\n") for one in texts]
    assert list(zip(*sides, strict=True)) == [*TEXT[start - 1 :], ("", "")]
    numbers = range(start, len(TEXT) + 1, 5)
    assert [(block.corpus, block.number) for block in blocks] == [(2, number) for number in numbers]
    surveys = [survey(int) for survey in surveys_of(text)]
    assert [survey.lines for survey in surveys] == [len(TEXT)] * len(surveys)
    assert all(survey.warnings == () for survey in surveys)


@pytest.mark.parametrize("name", FORMATS)
def test_the_data_folder_is_that_of_two_plain_files(tmp_path: Path, name: str) -> None:
    train, valid = write(tmp_path, "train", pairs(60)), write(tmp_path, "valid", pairs(3))
    plain = Job.of(tmp_path / "plain", train=(train,), valid=valid, vocab_size=330)
    job = plain.but(out=tmp_path / "other", train=(FORMATS[name](tmp_path, pairs(60)),))
    folder = job.prepare()
    assert pairs_in(folder) == pairs_in(plain.prepare())
    for file, raw in content(plain.out).items():
        if file not in ("dataset.json", "rejects.json", "rejects.txt"):
            assert (job.out / file).read_bytes() == raw
    # A finished folder is recognised, and valid and test may be of any format.
    assert job.prepare().path == folder.path
    (tmp_path / "held-out").mkdir()
    held_out = FORMATS[name](tmp_path / "held-out", pairs(3))
    checked = plain.but(out=tmp_path / "checked", valid=held_out, test=(held_out,)).prepare()
    assert (checked.path / "valid.en").read_bytes() == (plain.out / "valid.en").read_bytes()


@pytest.mark.parametrize("name", FORMATS)
def test_pointers_of_git_lfs_are_named(job: Job, tmp_path: Path, name: str) -> None:
    text = FORMATS[name](tmp_path, TEXT)
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 5\n"
    file = Path(text.partition(":")[0].partition(",")[0])
    file = next(file.iterdir()) if file.is_dir() else file
    file.write_text(pointer)
    with pytest.raises(DataError, match=f"{file}: .*LFS"):
        job.but(train=(text,)).prepare()


def test_files_of_the_tatoeba_challenge_are_named(tmp_path: Path) -> None:
    for side in ("src", "trg"):
        (tmp_path / f"train.{side}.gz").write_bytes(b"")
    with pytest.raises(DataError, match=r"train\.deu: .*train\.src\.gz,.*train\.trg\.gz$"):
        find_reader(f"{tmp_path}/train", ("deu", "eng"), UTF8)
    (tmp_path / "deu-eng.tar").write_bytes(b"tc")
    with pytest.raises(UsageError, match=r"deu-eng\.tar: .*unpack it"):
        found(f"{tmp_path}/deu-eng.tar")


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("none.tsv", DataError, "none.tsv: no"),
        ("none.tsv.gz:1,2", DataError, "none.tsv.gz: no"),
        ("none.parquet", DataError, "none.parquet: no"),
        ("x.tsv:en", UsageError, "x.tsv:en: "),
        ("x.tsv:1,2,3", UsageError, "name two columns"),
        ("x.tsv:1,0", UsageError, "counted from 1"),
        (f"x.tsv:1,{'9' * 5_000}", DataError, "one column"),
        ("none.CSV", DataError, "none.CSV: no"),
        ("none.jsonl.gz:a,b", DataError, "none.jsonl.gz: no"),
        ("corpus.txt", UsageError, "corpus.txt: not"),
        ("half.en", UsageError, "half.en: .*half$"),
        ("half.en,half.xx", DataError, "half.xx: no .*SOURCE,TARGET"),
        ("memory.tmx:1,2", UsageError, "have columns"),
        ("x.tsv,corpus.txt", UsageError, r"x\.tsv is"),  # not one of two files
    ],
)
@pytest.mark.usefixtures("here")
def test_names_that_say_little_are_refused(name: str, kind: type[NMTError], message: str) -> None:
    Path("x.tsv").write_text("a\tb\n")
    Path("memory.tmx").write_text("<tmx></tmx>")
    for name_of_one in ("corpus.txt", "half.en"):
        Path(name_of_one).write_text("a\n")
    with pytest.raises(kind, match=message):
        found(name)


def test_a_prefix_may_have_a_comma_and_the_name_of_a_folder(tmp_path: Path) -> None:
    prefix = write(tmp_path, "news,2013", pairs(3))
    (tmp_path / "news,2013").mkdir()
    assert found(prefix).files == (tmp_path / "news,2013.en", tmp_path / "news,2013.de")


@pytest.mark.parametrize("name", ["tsv", "csv", "jsonl", "zip", "tmx", "parquet"])
def test_suffixes_count_in_any_case(tmp_path: Path, name: str) -> None:
    file, colon, columns = FORMATS[name](tmp_path, TEXT).removeprefix(f"{tmp_path}/").partition(":")
    upper = tmp_path / file.upper()
    (tmp_path / file).rename(upper)
    if upper.is_dir():
        for shard in upper.iterdir():
            shard.rename(upper / shard.name.upper())
    assert sum(block.lines for block in blocks_of(found(f"{upper}{colon}{columns}"))) == len(TEXT)


def test_help_and_messages_name_every_format(tmp_path: Path) -> None:
    (help_text,) = (one.metadata["help"] for one in fields(PrepareOptions) if one.name == "train")
    (tmp_path / "a").write_text("text\n")
    with pytest.raises(UsageError) as refused:
        found(f"{tmp_path}/a")
    for form in ALL_FORMATS:
        assert re.search(rf"\{form.suffix}\b", help_text), form.name
        assert re.search(rf"\{form.suffix}\b", str(refused.value)), form.name
