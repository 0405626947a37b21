"""Rows of TSV: which columns are read, and what becomes of rows that lack one."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from types import SimpleNamespace

import pytest
from prepare_job import Job, pairs, pairs_in, write

from nmt.data.corpus import Encoding
from nmt.errors import DataError, UsageError
from nmt.prepare.prepare import dry_run
from nmt.prepare.readers.find import find_reader
from nmt.prepare.readers.tsv import TsvFile

UTF8 = Encoding.find("utf-8")


def rows(
    folder: Path, text: str | bytes, columns: str = "", *, encoding: Encoding = UTF8, name: str = ""
) -> list[tuple[str, str]]:
    path = folder / (name or "x.tsv")
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    found = find_reader(f"{path}{columns}", ("en", "de"), encoding)
    assert isinstance(found, TsvFile)
    codec = encoding.line_codec
    return [(row.src.decode(codec), row.tgt.decode(codec)) for row in found.rows(int)]


@pytest.mark.parametrize(
    ("text", "columns", "found"),
    [
        ("a\tx\nb\ty\n", "", [("a", "x"), ("b", "y")]),
        ("a\tx\r\nb\ty", "", [("a", "x"), ("b", "y")]),
        ("a\tx\nb\ty\n", ":2,1", [("x", "a"), ("y", "b")]),
        ("url\ta\tx\n", ":2,3", [("a", "x")]),
        ("de\ten\nx\ta\n", "", [("a", "x")]),
        ("\ufeffde\ten\nx\ta\n", "", [("a", "x")]),
        ("score\tsrc\tmt\n1\ta\tx\n", ":src,mt", [("a", "x")]),
        ("de\ten\nx\ta\n", ":1,2", [("de", "en"), ("x", "a")]),
        ('"a\t"x"\n', "", [('"a', '"x"')]),
        ("", "", []),
        ("en\tde\n", "", []),
    ],
)
def test_columns_are_those_named_or_numbered_or_the_languages(
    tmp_path: Path, text: str, columns: str, found: list[tuple[str, str]]
) -> None:
    assert rows(tmp_path, text, columns) == found


def test_files_may_be_compressed_or_in_another_encoding(tmp_path: Path) -> None:
    text = "en\tde\nhouse\tHäuser\n"
    assert rows(tmp_path, gzip.compress(text.encode()), name="x.tsv.gz") == [("house", "Häuser")]
    for name in ("windows-1252", "utf-16"):
        found = rows(tmp_path, text.encode(name), encoding=Encoding.find(name))
        assert found == [("house", "Häuser")]


@pytest.mark.parametrize(
    ("text", "columns", "message"),
    [
        ("a\tb\n", ":en,de", r"x\.tsv: has no column 'en'; its first row is 'a, b'; name columns"),
        ("en\ten\tde\n", ":en,de", "has several columns 'en'"),
        ("", ":en,de", "has no column 'en'"),
    ],
)
def test_a_header_that_lacks_a_column_is_refused(
    tmp_path: Path, text: str, columns: str, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        rows(tmp_path, text, columns)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """40 rows with scores 0.00, 0.01 ...; the fifth is short, and the sixth's is no number."""
    lines = [f"{src}\t{tgt}\t{at / 100:.2f}\n" for at, (src, tgt) in enumerate(pairs(40))]
    lines[4] = "only this\n"
    lines[5] = lines[5].replace("0.05", "high")
    (tmp_path / "crawl.tsv").write_text("en\tde\tscore\n" + "".join(lines))
    valid = write(tmp_path, "valid", [("something else", "etwas anderes")])
    train = (f"{tmp_path}/crawl.tsv",)
    return Job.of(tmp_path / "data", train=train, valid=valid, vocab_size=330)


def test_rows_that_lack_a_side_are_rejected_by_their_numbers(
    job: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = job.prepare()
    kept = pairs(40)
    del kept[4]
    assert pairs_in(folder) == kept
    (corpus,) = folder.info.train.corpora
    assert (corpus.lines, corpus.kept, corpus.rejected) == (40, 39, {"missing": 1})
    assert corpus.columns == ("en", "de")
    told = (job.out / "rejects.txt").read_text()
    assert "crawl.tsv column en row 5: only this" in told
    assert "1 of 40 rows lack a side or have more cells than the first row, such as row 5: " in (
        capsys.readouterr().err
    )
    (sampled,) = dry_run(job.options, job.cleaning, pairs=1000)
    assert sampled.counts == {"missing": 1}


def test_a_tenth_of_short_rows_means_other_columns(job: Job, tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"41 of 41 rows lack a side or .*, such as row 1: .*; check"
    ):
        job.but(train=(f"{tmp_path}/crawl.tsv:1,7",)).prepare()
    assert not (tmp_path / "data").exists()


def test_a_row_without_a_score_has_both_sides(job: Job, tmp_path: Path) -> None:
    path = tmp_path / "crawl.tsv"
    path.write_text(path.read_text().replace("\t0.10\n", "\n"))
    folder = job.but(min_score=(f"{path}:score:0.05",)).prepare()
    rejected = folder.info.train.corpora[0].rejected
    assert rejected["missing"] == 1  # the short one
    assert rejected["score"] == 4 + 1 + 1  # 0.00 to 0.03, no number, none


def test_a_mark_of_byte_order_is_no_part_of_the_first_score(job: Job, tmp_path: Path) -> None:
    lines = "".join(f"0.5\t{src}\t{tgt}\n" for src, tgt in pairs(40))
    (tmp_path / "numbered.tsv").write_text("\ufeff" + lines)
    train, least = f"{tmp_path}/numbered.tsv:2,3", f"{tmp_path}/numbered.tsv:1:0.3"
    folder = job.but(train=(train,), min_score=(least,)).prepare()
    assert pairs_in(folder) == pairs(40)


def test_column_0_is_refused(job: Job, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"crawl\.tsv: columns are counted from 1"):
        job.but(train=(f"{tmp_path}/crawl.tsv:0,1",)).prepare()


def test_a_short_row_of_valid_is_refused(job: Job, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"crawl\.tsv row 5 lacks a side; every row of valid"):
        job.but(valid=f"{tmp_path}/crawl.tsv").prepare()


def test_pairs_below_the_least_score_are_dropped(job: Job, tmp_path: Path) -> None:
    scored = job.but(min_score=(f"{tmp_path}/crawl.tsv:score:0.3",))
    folder = scored.prepare()
    assert pairs_in(folder) == pairs(40)[30:]
    (corpus,) = folder.info.train.corpora
    assert corpus.rejected == {"missing": 1, "score": 29}
    assert corpus.min_scores == {"score": 0.3}
    assert scored.prepare().path == folder.path
    (sampled,) = dry_run(scored.options, scored.cleaning, pairs=20)
    assert sum(sampled.counts.values()) + sampled.kept == 20
    numbered = scored.but(
        out=tmp_path / "numbered",
        min_score=(f"{tmp_path}/crawl.tsv:3:0.3", f"{tmp_path}/crawl.tsv:score:0.35"),
    )
    assert pairs_in(numbered.prepare()) == pairs(40)[35:]
    with pytest.raises(Exception, match=r"the --min-score of .* was score:0.3 and is none"):
        scored.but(min_score=()).prepare()


def test_stdin_is_read_as_a_table(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = (tmp_path / "crawl.tsv").read_bytes()
    for train, out in (("-", "a"), ("-:en,de", "b")):
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(raw)))
        piped = job.but(
            out=tmp_path / "new" / out, train=(train,), min_score=("-:score:0.3",),
            weight=("-=2",), tag=("-=<web>",),
        )  # fmt: skip
        folder = piped.prepare()
        assert [tgt for _, tgt in pairs_in(folder)] == [tgt for _, tgt in pairs(40)[30:]]
        (corpus,) = folder.info.train.corpora
        assert (corpus.prefix, corpus.weight, corpus.tag) == (train, 2.0, "<web>")
    assert "copied 0.0 MB from stdin to" in capsys.readouterr().err
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["a", "b"]
