"""Rows of TSV: which columns are read, and what becomes of rows that lack one."""

import io
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from command_line import Stderr
from prepare_job import Job, job_of, pairs, pairs_in
from text_formats import UTF8, rows_of

from nmt.data.corpus import Encoding
from nmt.errors import DataError
from nmt.prepare.prepare import dry_run


def rows(
    folder: Path,
    text: str | bytes,
    columns: str = "",
    *,
    encoding: Encoding = UTF8,
    name: str = "x.tsv",
    langs: tuple[str, str] = ("en", "de"),
) -> list[tuple[str, str]]:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return rows_of(f"{path}{columns}", langs, encoding=encoding)


def table(lines: Iterable[Sequence[str]]) -> str:
    return "".join("\t".join(cells) + "\n" for cells in lines)


PAIRS = pairs(12)


@pytest.mark.parametrize(
    ("text", "columns", "found"),
    [
        ("a\tx\nb\ty\n", ":1,2", [("a", "x"), ("b", "y")]),
        ("a\tx\r\nb\ty", ":1,2", [("a", "x"), ("b", "y")]),
        ("a\tx\n\t\nb\t\n\ty\n", ":1,2", [("a", "x"), ("", ""), ("b", ""), ("", "y")]),
        ("a\tx\nb\ty\n", ":2,1", [("x", "a"), ("y", "b")]),
        ("url\ta\tx\n", ":2,3", [("a", "x")]),
        ("de\ten\nx\ta\n", "", [("a", "x")]),
        ("\ufeffde\ten\nx\ta\n", "", [("a", "x")]),
        ("score\tsrc\tmt\n1\ta\tx\n", ":src,mt", [("a", "x")]),
        ("de\ten\nx\ta\n", ":1,2", [("de", "en"), ("x", "a")]),
        ("en\tde\t\na\tx\t\n", "", [("a", "x")]),
        ("EN\tde\tDe\na\tx\ty\n", ":en,De", [("a", "y")]),
        ("Words\n\nsource\tvelu\na\tx\n", ":Source,Velu", [("a", "x")]),
        ("English\tDE\na\tx\n", ":1,2", [("a", "x")]),
        ("id\tSource\tmt\n1\ta\tx\n", ":2,3", [("Source", "mt"), ("a", "x")]),
        ('"a\t"x"\n', ":1,2", [('"a', '"x"')]),
        ("a\tx\n" * 9 + "a\t\\N\n", ":1,2", [("a", "x")] * 9 + [("a\t\\N", "")]),  # the null of SQL
        ("", "", []),
        ("en\tde\n", "", []),
    ],
)
def test_columns_are_those_named_or_numbered_or_the_languages(
    tmp_path: Path, text: str, columns: str, found: list[tuple[str, str]]
) -> None:
    assert rows(tmp_path, text, columns) == found


@pytest.mark.parametrize(
    ("header", "langs"),
    [
        (("DE", "en-US"), ("en", "de")),
        (("german", "ENGLISH (US)"), ("eng", "deu")),
        (("target", "source"), ("en", "de")),
        (("de", "zh-TW"), ("zh_Hant", "de")),
        (("pt-PT", "pt-BR"), ("pt_BR", "pt_PT")),
    ],
)
def test_a_header_names_languages_by_code_country_or_english_name(
    tmp_path: Path, header: tuple[str, str], langs: tuple[str, str]
) -> None:
    swapped = [header, *((tgt, src) for src, tgt in PAIRS)]
    assert rows(tmp_path, table(swapped), langs=langs) == PAIRS
    titled = [("Topic", *header), *(("daily life", tgt, src) for src, tgt in PAIRS)]
    assert rows(tmp_path, table(titled), langs=langs) == PAIRS


@pytest.mark.parametrize(
    ("columns", "text", "message"),
    [
        ("", "Source\tTarget text\na\tx\n", r" en and de; .*Source \| Target text; .*:1,2"),
        ("", "fr\tde\na\tx\n", r" en and de; .* fr \| de"),
        ("", "zh\tde\na\tx\n", r" en and de; .* zh \| de"),
        ("", "a b\tx y\n" * 3, r" en and de; .* a b \| x y; .*\.tsv:1,2"),
        ("", "17\ta b\tx y\n18\ta\tx\n", r" en and de; .* 17 \| a b \| x y;"),
        ("", "en-US\ten-GB\tde\na\tb\tx\n", "en column .*en-US, en-GB; .*:en-US,de"),
        ("", "en\tde\ta b\tx y\nen\tde\tb b\ty y\n", r" en and de; .* en \| de \| a b.*:3,4"),
        ("", "en_GB\tde_AT\ta b\tx y\nen\tde_DE\tb b\ty y\n", r" en and de; .*:3,4"),
        ("", "en\tde_mt\tde_reference\na\tx\ty\n", "de column .*de_mt, de_reference; "),
        ("", "en\tde\ra\tx\rb\ty\r", r" \\r only"),
        (":en,de", "a\tb\n", r"x\.tsv: .* column 'en'; .*a \| b"),
        (":en,de", "en\ten\tde\n", r"one column 'en'; .*en \| en"),
        (":en,de", "", "one column 'en'"),
    ],
)
def test_columns_that_lack_or_would_be_a_guess_are_refused_with_what_to_type(
    tmp_path: Path, columns: str, text: str, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        rows(tmp_path, text, columns)


def test_rows_with_more_cells_than_the_header_are_missing(tmp_path: Path) -> None:
    # R writes row names, and no name for their column.
    text = "en\tde\n" + "".join(f"{n}\t{src}\t{tgt}\n" for n, (src, tgt) in enumerate(PAIRS))
    with pytest.raises(DataError, match="more cells"):
        rows(tmp_path, text)
    text = table([("en", "de"), *PAIRS, *PAIRS[:3], ("a", "tab", "x"), ("b", "y", "", "")])
    found = [*PAIRS[:3], ("a\ttab\tx", ""), ("b", "y")]
    assert rows(tmp_path, text)[12:] == found
    assert rows(tmp_path, text.partition("\n")[2], ":1,2")[12:] == found


KEPT = pairs(40)[:4] + pairs(40)[5:]


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """40 rows with scores 0.00, 0.01 ...; the fifth is short."""
    lines = [f"{src}\t{tgt}\t{at / 100:.2f}\n" for at, (src, tgt) in enumerate(pairs(40))]
    lines[4] = "only this\n"
    (tmp_path / "crawl.tsv").write_text("en\tde\tscore\n" + "".join(lines))
    return job_of(tmp_path, f"{tmp_path}/crawl.tsv")


def test_rows_that_lack_a_side_are_rejected_by_their_numbers(job: Job, stderr: Stderr) -> None:
    folder = job.prepare()
    assert pairs_in(folder) == KEPT
    (corpus,) = folder.info.train.corpora
    assert (corpus.lines, corpus.kept, corpus.rejected) == (40, 39, {"missing": 1})
    assert corpus.columns == ("en", "de")
    assert "crawl.tsv column en row 5: only this" in (job.out / "rejects.txt").read_text()
    assert re.search("1 of 40 rows .* row 5: ", stderr())
    (sampled,) = dry_run(job.options, job.cleaning, pairs=1000)
    assert sampled.counts == {"missing": 1}


def test_stdin_is_read_as_a_table(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stderr: Stderr
) -> None:
    raw = (tmp_path / "crawl.tsv").read_bytes()
    for train, out in (("-", "a"), ("-:en,de", "b")):
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(raw)))
        text = {"train": (train,), "weight": ("-=2",), "tag": ("-=<web>",)}
        folder = job.but(out=tmp_path / "new" / out, **text).prepare()
        assert [tgt for _, tgt in pairs_in(folder)] == [tgt for _, tgt in KEPT]
        (corpus,) = folder.info.train.corpora
        assert (corpus.prefix, corpus.weight, corpus.tag) == (train, 2.0, "<web>")
    assert "from stdin to" in stderr()
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["a", "b"]
