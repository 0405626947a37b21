"""Folders from hubs, and patterns: which files an option takes, and when that is not clear."""

import gzip
import json
from pathlib import Path

import pytest
from command_line import Stderr
from prepare_job import Job, pairs, pairs_in
from text_formats import UTF8, rows_of, save, tmx

from nmt.errors import DataError, UsageError
from nmt.prepare.readers.find import find_reader
from nmt.prepare.readers.hub_files import files_of

SIDE_BY_SIDE = [
    "data/train-00000-of-00002.parquet",
    "data/train-00001-of-00002.parquet",
    "data/validation-00000-of-00001.parquet",
    "data/test-00000-of-00001.parquet",
    "README.md",
]
FOLDERS = [f"default/{split}/0000.parquet" for split in ("train", "validation", "test")]
CONFIGURATIONS = ["en-de/train-0.parquet", "en-fr/train-0.parquet", "en-fr/test-0.parquet"]
LINES = ["train.jsonl", "dev.jsonl", "devtest.jsonl", ".cache/part.jsonl"]
NO_SPLIT = ["part-0.jsonl.gz", "part-1.jsonl.gz", "retrained/old.jsonl.gz", "about.txt"]


def files(folder: Path, names: list[str], split: str, asked: str = "") -> list[str]:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"")
    chosen = files_of(f"hub/{asked}", folder / asked, split)
    return [file.relative_to(folder).as_posix() for file in chosen]


@pytest.mark.parametrize(
    ("names", "split", "asked", "chosen"),
    [
        (SIDE_BY_SIDE, "train", "", SIDE_BY_SIDE[:2]),
        (SIDE_BY_SIDE, "valid", "", SIDE_BY_SIDE[2:3]),
        (SIDE_BY_SIDE, "test", "data", SIDE_BY_SIDE[3:4]),
        (SIDE_BY_SIDE, "train", "data/train-*.parquet", SIDE_BY_SIDE[:2]),
        (SIDE_BY_SIDE, "train", "**/valid*", SIDE_BY_SIDE[2:3]),
        (FOLDERS, "valid", "", FOLDERS[1:2]),
        (FOLDERS, "train", "default/train", FOLDERS[:1]),
        (CONFIGURATIONS, "test", "", CONFIGURATIONS[2:]),
        (CONFIGURATIONS, "train", "en-fr", CONFIGURATIONS[1:2]),
        (CONFIGURATIONS, "train", "*/train-?.parquet", CONFIGURATIONS[:2]),
        (LINES, "valid", "", ["dev.jsonl"]),
        (LINES, "test", "", ["devtest.jsonl"]),
        (NO_SPLIT, "test", "", NO_SPLIT[:2]),
        (["Train.CSV", "test.csv"], "train", "", ["Train.CSV"]),
        (["b.tmx", "a.TMX", "a.html"], "train", "", ["a.TMX", "b.tmx"]),
    ],
)
def test_an_option_takes_its_split(
    tmp_path: Path, names: list[str], split: str, asked: str, chosen: list[str]
) -> None:
    assert files(tmp_path, names, split, asked) == chosen


@pytest.mark.parametrize(
    ("names", "split", "asked", "message"),
    [
        (CONFIGURATIONS, "train", "", r"en-de, en-fr: .*'.*/en-de/NAME\*\.parquet'"),
        (CONFIGURATIONS, "valid", "", "named valid: en-de/train-0"),
        (["train.jsonl", "more.jsonl"], "train", "", "one split: more"),
        (["train.jsonl", "train-test.jsonl"], "train", "", "one split"),
        (["train.jsonl", "eval.jsonl"], "valid", "", "named valid"),
        (["train.jsonl", "train.csv"], "train", "", "several kinds"),
        (SIDE_BY_SIDE, "train", "data/*.parquet", "one split"),
    ],
)
def test_what_is_not_clear_is_refused_with_a_pattern_to_type(
    tmp_path: Path, names: list[str], split: str, asked: str, message: str
) -> None:
    with pytest.raises(UsageError, match=f"hub/.*{message}"):
        files(tmp_path, names, split, asked)


@pytest.mark.parametrize("asked", ["", "none*.jsonl", "*.txt"])
def test_a_folder_or_pattern_without_tables_is_refused(tmp_path: Path, asked: str) -> None:
    with pytest.raises(DataError, match=r"hub/.*\.ods or \.tmx "):
        files(tmp_path, ["about.txt"], "train", asked)


def test_each_option_reads_its_files_of_a_folder(tmp_path: Path, stderr: Stderr) -> None:
    texts = {"train-0": pairs(40)[:20], "train-1": pairs(40)[20:], "dev": pairs(43)[40:]}
    (tmp_path / "hub").mkdir()
    for name, text in texts.items():
        lines = "".join(json.dumps({"en": src, "de": tgt}) + "\n" for src, tgt in text)
        (tmp_path / "hub" / f"{name}.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    hub = f"{tmp_path}/hub"
    job = Job.of(tmp_path / "out", train=(hub,), valid=hub, test=(f"{hub}/dev*",), vocab_size=330)
    folder = job.prepare()
    assert pairs_in(folder) == pairs(40)
    told = stderr()
    assert (
        "2 of 3 files: train-0.jsonl.gz, train-1.jsonl.gz" in told and "1 of 3 files: dev" in told
    )
    for stem in ("valid", "test-dev_"):
        assert (folder.path / f"{stem}.en").read_text().count("\n") == 3


@pytest.mark.parametrize(
    ("name", "columns", "sides"),
    [
        ("x.tsv", ("", ""), ("a\nb\n", "x\ny\n")),  # without a header
        ("x.tsv", (":1", ":1"), ("text\na\nb\n", "sentence\nx\ny\n")),
        ("x.tsv", ("", ":German"), ("id\teng\n1\ta\n2\tb\n", "GERMAN\tid\nx\t1\ny\t2\n")),
        ("x.csv", ("", ""), ('a\n"b"\n', '"x"\ny\n')),
        ("x.jsonl", (":T", ""), ('{"t":"a"}\n{"t":"b"}\n', '{"i":1,"u":"x"}\n{"i":2,"u":"y"}\n')),
    ],
)
def test_two_tables_have_a_column_of_text_each(
    tmp_path: Path, name: str, columns: tuple[str, str], sides: tuple[str, str]
) -> None:
    for side, text in enumerate(sides):
        (tmp_path / f"{side}{name}").write_text(text)
    both = ",".join(f"{tmp_path}/{side}{name}{column}" for side, column in enumerate(columns))
    assert rows_of(both) == [("a", "x"), ("b", "y")]


@pytest.mark.parametrize("asked", ["", "/*.tmx"])
def test_translation_memories_are_read_one_after_another(tmp_path: Path, asked: str) -> None:
    for number in range(3):
        (tmp_path / f"{number}.tmx").write_bytes(tmx(pairs(9)[3 * number : 3 * number + 3]))
    assert rows_of(f"{tmp_path}{asked}") == pairs(9)
    with pytest.raises(DataError, match=rf"{tmp_path.name}.* 9 of 9 .*languages"):
        rows_of(f"{tmp_path}{asked}", ("en", "fr"))
    with pytest.raises(UsageError, match=r"\.tmx:1,2: only TSV"):
        rows_of(f"{tmp_path}/*.tmx:1,2")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ("a.jsonl,b.jsonl", r"a\.jsonl,b\.jsonl: .* row 1,"),
        ("a.jsonl,a.parquet:id", "column id .*int64"),
        ("a.jsonl:n,b.jsonl", r"a\.jsonl: .*column 'n'; .*text"),
        ("a.jsonl,none.jsonl", r"none\.jsonl: no"),
        ("two.tsv,a.jsonl", r"two\.tsv: .*column 'text'; .*a \| b"),
    ],
)
@pytest.mark.usefixtures("here")
def test_two_tables_must_be_in_step(files: str, message: str) -> None:
    Path("a.jsonl").write_text('{"text": "a"}\n')
    Path("b.jsonl").write_text('{"text": "x"}\n{"text": "y"}\n')
    Path("two.tsv").write_text("a\tb\n")
    save(Path("a.parquet"), {"id": [1], "text": ["x"]})
    with pytest.raises(DataError, match=message):
        list(find_reader(files, ("en", "de"), UTF8).rows(int))  # type: ignore[union-attr]
