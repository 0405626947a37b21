"""Test sets are read by segment, and other documents are not taken for lines of text."""

import gzip
from collections.abc import Sequence
from pathlib import Path

import pytest

from nmt.data.corpus import Encoding
from nmt.errors import DataError, NMTError, UsageError
from nmt.prepare.readers.find import find_reader
from nmt.prepare.readers.line_files import TextInMemory
from nmt.prepare.readers.reading import blocks_of, surveys_of

UTF8 = Encoding.find("utf-8")
LINES = [("A man & a dog.", "Ein Mann & ein Hund."), ("Yes.", "Ja.")]


def sgml(side: int, name: str = "refset", lines: Sequence[tuple[str, str]] = LINES) -> str:
    segments = "".join(
        f'<seg id="{number}"> {pair[side].replace("&", "&amp;")} </seg>\n'
        for number, pair in enumerate(lines, start=1)
    )
    return f'<{name} setid="a">\n<doc docid="d">\n<url>https://a.example</url>\n{segments}</doc></{name}>'


def iwslt(side: int) -> str:
    return f'<?xml version="1.0"?>\n<!-- a -->\n<mteval>\n{sgml(side)}\n</mteval>\n'


def wmt(*translators: str) -> str:
    def text(name: str, side: int) -> str:
        return f"<{name}><p>" + "".join(
            f'<seg id="{number}">{pair[side].replace("&", "&amp;")}</seg>'
            for number, pair in enumerate(LINES, start=1)
        )

    refs = "".join(
        f"{text(f'ref translator={who!r}', 1)}</p></ref>".replace("Ja", f"Ja {who}")
        for who in translators
    )
    return f"<dataset><doc id='d'>{text('src', 0)}</p></src>{refs}</doc></dataset>"


def read(name: str) -> list[tuple[str, str]]:
    found = find_reader(name, ("en", "de"), UTF8)
    assert isinstance(found, TextInMemory)
    surveys = [survey(int) for survey in surveys_of(found)]
    assert len({survey.lines for survey in surveys}) == 1
    (block,) = blocks_of(found)
    assert block.lines == surveys[0].lines
    src, tgt = (side.decode().split("\n")[:-1] for side in (block.src, block.tgt))
    return list(zip(src, tgt, strict=True))


@pytest.mark.parametrize(
    ("names", "contents"),
    [
        (("s.sgm", "r.SGML"), (sgml(0), sgml(1))),
        (("s.sgm.gz", "r.sgm"), (sgml(0, "srcset"), sgml(1))),
        (("a.en.xml", "a.de.xml"), (iwslt(0), iwslt(1))),
        (("a.xml", "a.de.sgm"), (iwslt(0), sgml(1))),
        (("a.xml",), (wmt("A"),)),
    ],
)
def test_a_pair_is_a_segment(tmp_path: Path, names: Sequence[str], contents: Sequence[str]) -> None:
    for name, content in zip(names, contents, strict=True):
        raw = content.encode()
        (tmp_path / name).write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    found = read(",".join(f"{tmp_path}/{name}" for name in names))
    assert [(src, tgt.replace("Ja A", "Ja")) for src, tgt in found] == LINES


def test_one_of_several_translators_is_chosen(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text(wmt("A", "B"))
    assert read(f"{tmp_path}/a.xml:B")[1] == ("Yes.", "Ja B.")
    with pytest.raises(DataError, match=r"a\.xml .*a\.xml:A"):
        read(f"{tmp_path}/a.xml")


@pytest.mark.parametrize(
    ("names", "error"),
    [
        ("s.sgm", UsageError),
        ("i.xml", UsageError),
        ("s.sgm,plain", UsageError),
        ("s.sgm,other.sgm", DataError),
        ("s.sgm,none.sgm", DataError),
        ("s.sgm,empty.sgm", DataError),
        ("s.sgm,lines.xml", DataError),
    ],
)
@pytest.mark.usefixtures("here")
def test_what_is_not_two_sides_of_a_test_set_is_refused(names: str, error: type[NMTError]) -> None:
    Path("s.sgm").write_text(sgml(0))
    Path("i.xml").write_text(iwslt(0))
    Path("plain").write_text("a\nb\n")
    Path("other.sgm").write_text(sgml(1).replace('id="2"', 'id="3"'))
    Path("empty.sgm").write_text("<refset></refset>")
    Path("lines.xml").write_text("<b>a</b>\nb\n")
    with pytest.raises(error, match=names.split(",")[-1]):
        read(names)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.srt", "1\n00:00:01,000 --> 00:00:02,000\nA man.\n"),
        ("a.po.gz", 'msgid "a"\nmsgstr "b"\n'),
        ("a.xlf", "<?xml version='1.0'?><xliff>"),
        ("a.html", "<p>a"),
        ("a.md", "# A\n"),
        ("a.yaml", "a: b\n"),
        ("a.txt", "WEBVTT\n\n00:01.000 --> 00:02.000\nA man.\n"),
        ("a.en", "<?xml version='1.0'?><xliff>"),
    ],
)
def test_documents_are_no_lines(tmp_path: Path, name: str, content: str) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(content.encode()) if name.endswith(".gz") else content.encode())
    (tmp_path / "a.de").write_text("a\n")
    given = f"{tmp_path}/a" if name == "a.en" else f"{path},{path}"
    with pytest.raises(DataError, match=name):
        find_reader(given, ("en", "de"), UTF8)


def test_lines_that_only_look_like_settings_are_text(tmp_path: Path) -> None:
    (tmp_path / "a.ts").write_text("tom: A man.\nanna: A dog.\njohn: Yes.\n")
    (tmp_path / "a.po").write_text("tom = A man.\nanna = A dog.\njohn = Yes.\n")
    found = find_reader(f"{tmp_path}/a", ("ts", "po"), UTF8)  # languages, not types
    assert [block.lines for block in blocks_of(found)] == [3]


@pytest.mark.parametrize(
    ("name", "content", "advice"),
    [
        ("a.ende", "a ||| b\nc ||| d\n", r"SOURCE \|\|\| TARGET .*awk"),
        ("a.txt", "a\tb\nc\td\n", r"rename it to \.tsv"),
        ("a.json", '{"en": "a", "de": "b"}\n', r"JSON"),
        ("a.txt", "a\nc\td\n", "PREFIX"),
        ("a.txt", "", "PREFIX"),
    ],
)
def test_one_file_of_another_name_is_refused_with_advice(
    tmp_path: Path, name: str, content: str, advice: str
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(NMTError, match=rf"{name}: .*{advice}"):
        find_reader(f"{tmp_path}/{name}", ("en", "de"), UTF8)
