"""Files to be scored: plain, TSV and SGML, compressed or not."""

import gzip
from pathlib import Path

import pytest
from command_line import Stderr
from text_formats import xlsx

from nmt.data.corpus import Encoding
from nmt.errors import DataError, UsageError
from nmt.scoring import inputs
from nmt.translate.output import BLANK, RENDERS, Translation

UTF_8 = Encoding.find("utf-8")

SGML = """<refset setid="newstest" srclang="any" trglang="de">
<doc sysid="ref" docid="bbc/1" genre="news" origlang="en">
<p>
<seg id="1">Fish &amp; Chips: 3 &lt; 5, &amp;lt; &#39;</seg>
<seg id="2"> "Zwei"
  Zeilen </seg>
<seg id="3">A\tU.S.\u00a0army\u2028and &copy; stays: 3 < 4 & 5 > 4</seg>
</p>
</doc>
<DOC docid='bbc/2'>
<hl><SEG id=1></SEG></hl>
</DOC>
</refset>
"""


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    raw = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    return path


def read(path: Path | str) -> inputs.Text:
    return inputs.read_text(Path(path), UTF_8)


@pytest.mark.parametrize("name", ["ref.de.sgm", "ref.SGML", "ref.de.sgm.gz"])
def test_sgml_gives_its_segments(name: str, tmp_path: Path) -> None:
    text = read(written(tmp_path, name, SGML))
    odd = "A U.S. army and &copy; stays: 3 < 4 & 5 > 4"  # as sacreBLEU takes it
    assert text.lines == ["Fish & Chips: 3 < 5, &lt; &#39;", '"Zwei" Zeilen', odd, ""]
    assert text.segments == ("bbc/1:1", "bbc/1:2", "bbc/1:3", "bbc/2:1")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("<doc>\n<seg id='1'>eins\n<seg id='2'>zwei</seg>", "line 3: <seg id='2'>"),
        ("<doc>\n<seg id='1'>eins\n</doc>", "line 3: </doc>"),
        ("<doc>\n<seg id='1'>eins", "line 2: <seg id='1'>"),
        ("eins\nzwei\n", "no <seg>"),
        ("<doc docid='a'><seg id='1'>x</seg></doc>\n" * 2, "line 2: segment a:1"),
    ],
)
def test_damaged_sgml_is_refused_by_line(content: str, complaint: str, tmp_path: Path) -> None:
    path = written(tmp_path, "a.sgm", content)
    with pytest.raises(DataError, match=f"^{path}.*{complaint}"):
        read(path)


def test_segments_in_another_order_are_refused(tmp_path: Path) -> None:
    segments = ["<seg id='1'>eins</seg>", "<seg id='2'>zwei</seg>"]
    one = read(written(tmp_path, "one.sgm", "<doc docid='a'>" + "".join(segments)))
    other = read(written(tmp_path, "other.sgm", "<doc docid='a'>" + "".join(segments[::-1])))
    plain = inputs.Text("plain", ["eins", "zwei"])
    inputs.check_segments([one, plain, one])
    complaint = r"segment 1 is a:1 in .*one.sgm, but a:2 in .*other.sgm"
    with pytest.raises(DataError, match=complaint):
        inputs.check_segments([one, plain, other])
    with pytest.raises(DataError, match=complaint):
        inputs.stream_together([tmp_path / "one.sgm", tmp_path / "other.sgm"], UTF_8)


def test_tabs_and_tags_of_plain_text_are_text(tmp_path: Path) -> None:
    path = written(tmp_path, "plain.de", "\ufeff<seg id='1'>eins</seg>\teins\r\nzw\u2028ei")
    assert read(path) == inputs.Text(str(path), ["<seg id='1'>eins</seg>\teins", "zw\u2028ei"])


@pytest.mark.parametrize("name", ["test.tsv", "test.tsv.gz"])
def test_a_column_of_a_tsv_file(name: str, tmp_path: Path) -> None:
    path = written(tmp_path, name, 'one\teins\ntwo\tzwei "2"\n\t\n')
    assert read(f"{path}:2") == inputs.Text(f"{path}:2", ["eins", 'zwei "2"', ""])
    assert read(f"{path}:1").lines == ["one", "two", ""]
    with pytest.raises(DataError, match=rf"{name}: .*column.*{name}:1"):
        read(path)
    with pytest.raises(DataError, match=rf"{name}:3: row 1 "):
        read(f"{path}:3")
    with pytest.raises(UsageError, match="one column"):
        read(f"{path}:1,2")
    with pytest.raises(DataError, match="one column 'text'"):  # a header without a name is none
        read(written(tmp_path, "unnamed.csv", ",note\n0,eins\n"))
    assert read(written(tmp_path, "single.tsv", "eins\nzwei\n")).lines == ["eins", "zwei"]


ROWS = (
    '{"source": "One.", "target": "一。", "is_bad_source": false}\n'
    '{"source": "!!", "target": "二", "is_bad_source": true}\n'
    '{"source": "Three", "target": "三\\n行", "is_bad_source": false}\n'
)


def test_a_key_of_json_lines_leaves_out_what_makers_mark(tmp_path: Path, stderr: Stderr) -> None:
    path = written(tmp_path, "en-zh.jsonl", ROWS)
    assert read(f"{path}:target").lines == ["一。", "三 行"]
    assert "1 row left out" in stderr()
    path = written(tmp_path, "gap.jsonl", '{"text": "a"}\n{"text": null}\n')
    with pytest.raises(DataError, match=r"gap\.jsonl:text: row 2 "):
        read(f"{path}:text")


def test_a_header_over_a_numbered_column_is_named(tmp_path: Path, stderr: Stderr) -> None:
    rows = "".join(f"{number}\tЭто длинное предложение на русском языке.\n" for number in range(9))
    path = written(tmp_path, "test.tsv", f"id\tref\n{rows}")
    assert len(read(f"{path}:2").lines) == 10
    assert f"name the columns by it: {path}:ref\n" in stderr()
    assert len(read(f"{path}:ref").lines) == 9


def test_quoted_cells_are_read_as_they_are_said_to_be(tmp_path: Path) -> None:
    path = written(tmp_path, "said.tsv", '1\t"Ja."\n2\tNein.\n')
    with pytest.raises(DataError, match=f"--quoting {path}=none"):
        read(f"{path}:2")
    for quoting, line in (("none", '"Ja."'), ("csv", "Ja.")):
        read_as = [f"{path}={quoting}"]
        assert inputs.read_text(Path(f"{path}:2"), UTF_8, quoting=read_as).lines == [line, "Nein."]
        lines, _ = inputs.stream_together(
            [Path(f"{path}:2"), path.with_suffix(".de")], UTF_8, read_as
        )
        assert next(lines) == line


def test_a_column_of_a_sheet(tmp_path: Path, stderr: Stderr) -> None:
    pytest.importorskip("python_calamine")
    rows = [["en", "ref"], ["One.", "Один."]]
    path = tmp_path / "test.xlsx"
    path.write_bytes(xlsx({"Notes": [["text"], ["x"]], "Words": rows}))
    assert read(f"{path}:Words:ref").lines == ["Один."]
    assert read(path).lines == ["x"]
    assert f"{path}:Words:COLUMN" in stderr()


CATALOGUE = (
    r"""
msgid ""
msgstr "Language: ru\n"

#, fuzzy
msgctxt "menu"
msgid "_Open"
msgstr "_Открыть\n"
"""
    """
"<b>файл</b>"

msgid "%d file"
msgid_plural "%d files"
msgstr[0] "%d файл"
msgstr[1] ""
"""
)
XLIFF = """<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file><body>
<trans-unit id="1"><source>A &amp; <g id="1">B</g></source>
<target>Ж  &amp;
<g id="1">Б</g></target><alt-trans><target>X</target></alt-trans></trans-unit>
<trans-unit id="2" translate="no"><source>C</source></trans-unit></body></file></xliff>"""
XLIFF_2 = """<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en"
trgLang="ru"><file id="f"><unit id="1"><segment><source>A</source><target>Ж</target></segment>
<ignorable><source> </source></ignorable>
<segment state="final"><source>B <pc id="1">C</pc></source><target>Б <pc id="1">В</pc></target>
</segment></unit></file></xliff>"""
SUBTITLES = """1
00:00:01,000 --> 00:00:02,500
<i>مرحبا
{\\an8}بكم</i>

2
00:00:03,000 --> 00:00:04,000
Tom &amp; ich
"""
MESSAGES = '{"a": {"b": "Собака лает.", "c": "Кошка спит"}, "d": ""}'
PAGE = "<h1>日本</h1><p>これは<b>一つ</b>です。<br>次</p><p>42</p>"


@pytest.mark.parametrize(
    ("name", "content", "use", "lines"),
    [
        ("a.po", CATALOGUE, "hypothesis", ["_Открыть <b>файл</b>", "%d файл", ""]),
        ("a.po", CATALOGUE, "source", ["_Open", "%d file", "%d files"]),
        ("a.xlf", XLIFF, "reference", ["Ж & Б", ""]),
        ("a.xlf", XLIFF, "source", ["A & B", "C"]),
        ("b.xlf", XLIFF_2, "hypothesis", ["Ж", "Б В"]),
        ("b.xlf", XLIFF_2, "source", ["A", "B C"]),
        ("a.srt", SUBTITLES, "hypothesis", ["مرحبا بكم", "Tom & ich"]),
        ("output.txt", SUBTITLES, "hypothesis", ["مرحبا بكم", "Tom & ich"]),
        ("a.html", PAGE, "source", ["日本", "これは一つです。", "次"]),
        ("a.json", MESSAGES, "source", ["Собака лает.", "Кошка спит", ""]),
    ],
)
def test_a_document_gives_a_line_for_each_unit(
    name: str, content: str, use: str, lines: list[str], tmp_path: Path
) -> None:
    assert inputs.read_text(written(tmp_path, name, content), UTF_8, use).lines == lines


def test_units_of_other_sources_are_not_compared(tmp_path: Path) -> None:
    one = read(written(tmp_path, "one.json", MESSAGES))
    other = read(written(tmp_path, "other.json", MESSAGES.replace('"c"', '"x"')))
    with pytest.raises(DataError, match=r"segment 2 is a\.c in .*, but a\.x in "):
        inputs.check_segments([one, other])
    one = read(written(tmp_path, "one.po", CATALOGUE))
    other = read(written(tmp_path, "other.po", CATALOGUE.replace("_Open", "_Close")))
    inputs.check_segments([one, one])
    with pytest.raises(DataError, match=r"segment 1 is _Open in .*one\.po, but _Close in "):
        inputs.check_segments([one, other])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", ROWS, r"a\.json: not JSON.*call JSON Lines \.jsonl"),
        ("output.de", ROWS, r"output\.de: not JSON.*call JSON Lines \.jsonl"),
        ("a.md", "# A", r"a\.md: is Markdown"),
        ("a.srt.gz", SUBTITLES, r"a\.srt\.gz: .*decompress"),
        ("a.srt", "00:01 --> x", r"a\.srt line 1"),
    ],
)
def test_what_is_no_text_is_refused(name: str, content: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        read(written(tmp_path, name, content))


@pytest.mark.parametrize(
    ("name", "lang"),
    [
        ("test.de", "de"),
        ("film.uk.srt", "uk"),
        ("test.ja.jsonl:target", "ja"),
        ("newstest2013.en-de.de.gz", "de"),
        ("newstest2014-deen-ref.de.sgm", "de"),
        ("test.pt_BR.txt", "pt_BR"),
        ("test.zh-en.tsv:2", ""),  # a pair; which of the two is it?
        ("txt", ""),
    ],
)
def test_the_language_is_the_ending(name: str, lang: str) -> None:
    assert inputs.language_of(Path("folder.en") / name) == lang


OTHER = Translation("x", -9, -9, (), (), 1)
TRANSLATIONS = [
    Translation("Das ist 1-1 ein\tTest.", -0.5, -1.0, (), (), 1, others=(OTHER,)),
    BLANK,
    Translation("Gute Nacht!", -12.25, -1.0, (), (), 1),
    Translation("", float("-inf"), float("-inf"), (), (), 1),
]
TEXTS = [found.text for found in TRANSLATIONS]


def rendered(form: str) -> str:
    if form == "alignment":
        return "".join(f"{text} ||| 0-0 1-12\n" if text else "\n" for text in TEXTS)
    found = TRANSLATIONS[:3] if form == "jsonl" else TRANSLATIONS
    lines = [line for number, one in enumerate(found) for line in RENDERS[form](number, one)]
    return "".join(f"{line}\n" for line in lines)


@pytest.mark.parametrize("form", ["n-best", "scores", "alignment", "jsonl"])
def test_what_holds_more_than_text_is_refused(tmp_path: Path, form: str) -> None:
    path = written(tmp_path, "output.de", rendered(form))
    with pytest.raises(DataError, match=r"output\.de"):
        inputs.check_plain([read(path)])


WITH_NUMBERS = ["H-{}\t-0.2\tGut!", "   {}\tGut!", "-{}.5\tGut!", "Gut!\t{}.5"]
WITH_NUMBERS += ["好。 ||| WordScores= -0.{} -1e-05", "Gut! ||| 0-0 1-1 ||| WordScores= -{}"]
WITH_NUMBERS += ["جيد! ||| 0.{},1e-05 0.25,0.75"]


@pytest.mark.parametrize("form", WITH_NUMBERS)
def test_lines_with_numbers_are_refused(form: str) -> None:
    with pytest.raises(DataError, match=r"output\.de"):
        inputs.check_plain([inputs.Text("output.de", [form.format(number) for number in (12, 7)])])


@pytest.mark.parametrize(
    "lines",
    [
        [],
        TEXTS,
        ["0.500000\tDas ist ein Test.", "Gute Nacht!"],
        ["12 ||| 13", "a ||| b"],
        ["a ||| 1, 2", "b ||| WordScores=x"],
    ],
)
def test_plain_text_is_taken_as_it_is(lines: list[str]) -> None:
    inputs.check_plain([inputs.Text("output.de", lines)])
