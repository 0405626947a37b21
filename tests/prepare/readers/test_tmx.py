"""Translation memories: which text of a unit is read, and files that are not what they should be.

Source of the elements: TMX 1.4b, https://www.gala-global.org/tmx-14b.
"""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
from prepare_job import Job, pairs, pairs_in, write
from text_formats import tmx

from nmt.errors import DataError
from nmt.prepare.readers import tmx as tmx_reader
from nmt.prepare.readers.tmx import TmxFile

HEAD = '<?xml version="1.0"?><tmx version="1.4"><header/><body>'


def rows(folder: Path, content: bytes, langs: tuple[str, str] = ("en", "de")) -> list[list[str]]:
    path = folder / "memory.tmx"
    path.write_bytes(content)
    return [[row.src.decode(), row.tgt.decode()] for row in TmxFile("m", path, langs).rows(int)]


def unit(**texts: str) -> str:
    inside = "".join(
        f'<tuv xml:lang="{lang.replace("_", "-")}"><seg>{text}</seg></tuv>'
        for lang, text in texts.items()
    )
    return f"<tu>{inside}</tu>"


@pytest.mark.parametrize(
    ("units", "langs", "found"),
    [
        (unit(en="a", de="x"), ("en", "de"), [["a", "x"]]),
        (unit(EN_GB="a", de_DE="x"), ("en", "de"), [["a", "x"]]),
        (unit(en_GB="colour", en_US="color", de="x"), ("en_US", "de"), [["color", "x"]]),
        (unit(fr="y", en="a", de="x"), ("de", "fr"), [["x", "y"]]),
        (unit(en="a &amp; b &#228;", de="<hi>x</hi> y"), ("en", "de"), [["a & b ä", "x y"]]),
        (unit(en='<bpt i="1">&lt;b></bpt>a<ept i="1">&lt;/b></ept>',
              de="x<ph>{0}<sub>n</sub></ph>"), ("en", "de"), [["a", "x"]]),
        (unit(en=" a\n   b ", de="x"), ("en", "de"), [["a b", "x"]]),
        (unit(en="a", de=""), ("en", "de"), [["a", ""]]),
        (unit(en="a", fr="y"), ("en", "de"), [["en: a, fr: y", ""]]),
        (unit(en="a", nb="x"), ("en", "no"), [["a", "x"]]),
        ('<tu><tuv xml:lang="x&#10;y"><seg>a</seg></tuv></tu>', ("en", "de"), [["x y: a", ""]]),
        ('<tu><note>n</note><tuv lang="en"><prop>p</prop><seg>a</seg></tuv>'
         '<tuv lang="de"><seg>x</seg></tuv></tu>', ("en", "de"), [["a", "x"]]),
    ],
)  # fmt: skip
def test_a_unit_has_the_text_of_its_languages_without_formatting(
    tmp_path: Path, units: str, langs: tuple[str, str], found: list[list[str]]
) -> None:
    assert rows(tmp_path, f"{HEAD}{units}</body></tmx>".encode(), langs) == found


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1"])
def test_a_file_says_its_own_encoding(tmp_path: Path, encoding: str) -> None:
    assert rows(tmp_path, tmx([("house", "Häuser")], encoding)) == [["house", "Häuser"]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (tmx(pairs(9))[:-40], r"memory\.tmx line 19: not valid XML \(.*\); export it again"),
        (b"plain text\n", r"memory\.tmx line 1: not valid XML"),
        (b"", r"memory\.tmx line 1: not valid XML \(no element found\)"),
        (b"<xliff></xliff>", r"memory\.tmx: not TMX: its first element is <xliff>"),
        (b'<!DOCTYPE tmx [<!ENTITY a "bomb">]><tmx>&a;</tmx>', "uses the entity &a;"),
        (b'<!DOCTYPE tmx [<!ENTITY a SYSTEM "file:///etc/passwd">]><tmx/>', "uses the entity &a;"),
        (b'<!DOCTYPE tmx SYSTEM "tmx14.dtd"><tmx>&a;</tmx>', "uses the entity &a;"),
        (b'<?xml version="1.0" encoding="foo"?><tmx/>', "memory.tmx: .*foo; export it in UTF-8"),
        (b'<?xml version="1.0" encoding="shift_jis"?><tmx/>', "memory.tmx: .*export it in UTF-8"),
    ],
)
def test_files_that_are_cut_or_of_another_kind_are_refused(
    tmp_path: Path, content: bytes, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        rows(tmp_path, content)


def test_units_that_lack_a_language_are_counted(tmp_path: Path) -> None:
    units = [unit(en=src, de=tgt) for src, tgt in pairs(40)]
    units[20] = unit(en="alone", fr="seul")
    (tmp_path / "memory.tmx").write_text(HEAD + "\n".join(units) + "</body></tmx>")
    valid = write(tmp_path, "valid", [("something else", "etwas anderes")])
    train = (f"{tmp_path}/memory.tmx",)
    job = Job.of(tmp_path / "data", train=train, valid=valid, vocab_size=330)
    folder = job.prepare()
    assert pairs_in(folder) == pairs(40)[:20] + pairs(40)[21:]
    assert folder.info.train.corpora[0].rejected == {"missing": 1}
    assert "(en) row 21: en: alone, fr: seul" in (job.out / "rejects.txt").read_text()


@pytest.mark.parametrize(
    ("other", "is_refused"),
    [(unit(en="a", fr="y"), False), (unit(en="alone"), True)],
    ids=["pairs of other languages", "one language"],
)
def test_a_memory_may_have_other_languages_but_no_tenth_of_single_texts(
    tmp_path: Path, other: str, is_refused: bool
) -> None:
    units = [unit(en=src, de=tgt) for src, tgt in pairs(8)] + [other] * 2
    (tmp_path / "memory.tmx").write_text(HEAD + "\n".join(units) + "</body></tmx>")
    (survey,) = TmxFile("m", tmp_path / "memory.tmx", ("en", "de")).surveys()
    if is_refused:
        with pytest.raises(DataError, match=r"2 of 10 rows lack a side, .* and its languages"):
            survey(int)
    else:
        assert survey(int).lines == 10
    (survey,) = TmxFile("m", tmp_path / "memory.tmx", ("en", "es")).surveys()
    with pytest.raises(DataError, match="10 of 10 rows lack a side"):
        survey(int)


def test_a_unit_that_never_ends_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tmx_reader, "LONGEST_LINE", 10_000)
    for texts in ({"en": "a" * 10_001}, {f"x{number}": "" for number in range(101)}):
        with pytest.raises(DataError, match=r"memory\.tmx line 1: a unit of more than"):
            rows(tmp_path, f"{HEAD}{unit(**texts)}</body></tmx>".encode())


def test_a_large_file_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "memory.tmx"
    path.write_bytes(tmx([("a" * 500, "b" * 500)] * 20_000))  # 22 MB
    tracemalloc.start()
    try:
        assert sum(1 for _ in TmxFile("m", path, ("en", "de")).rows(int)) == 20_000
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
