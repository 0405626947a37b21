"""Translation memories: which text of a unit is read, and files that are not what they should be.

Source of the elements: TMX 1.4b, https://www.gala-global.org/tmx-14b.
"""

import tracemalloc
from contextlib import nullcontext
from pathlib import Path

import pytest
from prepare_job import job_of, pairs, pairs_in
from text_formats import tmx

from nmt.data import corpus
from nmt.data.corpus import Encoding
from nmt.errors import DataError
from nmt.prepare.readers import tmx as tmx_reader
from nmt.prepare.readers.reading import surveys_of
from nmt.prepare.readers.tmx import TmxFile
from nmt.tables.formats import FileRequest

HEAD = '<?xml version="1.0"?><tmx version="1.4"><header/><body>'


def reader(path: Path, langs: tuple[str, str]) -> TmxFile:
    return TmxFile(FileRequest("m", "m", path, (), langs, Encoding.find("utf-8")))


def rows(folder: Path, content: bytes, langs: tuple[str, str] = ("en", "de")) -> list[list[str]]:
    path = folder / "memory.tmx"
    path.write_bytes(content)
    return [[row.src.decode(), row.tgt.decode()] for row in reader(path, langs).rows(int)]


def unit(**texts: str) -> str:
    inside = "".join(
        f'<tuv xml:lang="{lang.replace("_", "-")}"><seg>{text}</seg></tuv>'
        for lang, text in texts.items()
    )
    return f"<tu>{inside}</tu>"


def test_a_unit_inside_of_a_unit_is_refused(tmp_path: Path) -> None:
    outer = unit(en="a", de="x").replace("</tu>", f"\n{unit(en='b', de='y')}</tu>")
    with pytest.raises(DataError, match=r"memory\.tmx line 2: a <tu> begins inside"):
        rows(tmp_path, f"{HEAD}{outer}</body></tmx>".encode())


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


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "iso-8859-1", "gb18030"]
)
def test_a_file_says_its_own_encoding(tmp_path: Path, encoding: str) -> None:
    assert rows(tmp_path, tmx([("house", "Häuser")], encoding)) == [["house", "Häuser"]]


@pytest.mark.parametrize(
    ("texts", "lang", "found"),
    [
        ({"zh_CN": "s", "zh_TW": "t"}, "zh", "s"),
        ({"zh_TW": "t", "zh_CN": "s"}, "zh", "s"),
        ({"zh_CN": "s", "zh": "z"}, "zh", "z"),
        ({"sr_Latn": "l", "sr_Cyrl": "c"}, "sr", "c"),
        ({"de_AT": "a", "de_CH": "c", "de_DE": "d"}, "de", "d"),
        ({"de_CH": "c", "de_AT": "a"}, "de", "a"),  # the same in all units, whatever their order
        ({"x_none": "n", "DE": "d"}, "deu_Latn", "d"),
    ],
)
def test_the_variant_that_was_asked_for_is_read(
    tmp_path: Path, texts: dict[str, str], lang: str, found: str
) -> None:
    content = f"{HEAD}{unit(en='a', **texts)}</body></tmx>".encode()
    assert rows(tmp_path, content, ("en", lang)) == [["a", found]]


def test_units_in_another_script_lack_a_side(tmp_path: Path) -> None:
    units = [unit(en=src, zh_CN=tgt) for src, tgt in pairs(40)]
    units[20] = unit(en="traditional", zh_TW="x", zh_HK="y")
    units[30] = unit(en="French", fr="y")
    (tmp_path / "memory.tmx").write_text(HEAD + "\n".join(units) + "</body></tmx>")
    valid = f"{tmp_path}/valid"
    for lang in ("en", "zh"):
        (tmp_path / f"valid.{lang}").write_text(f"something in {lang}\n")
    job = job_of(tmp_path, f"{tmp_path}/memory.tmx", valid=valid, tgt_lang="zh", keep=("script",))
    folder = job.prepare()
    assert folder.info.train.corpora[0].rejected == {"missing": 2}
    assert pairs_in(folder) == [pair for n, pair in enumerate(pairs(40)) if n not in (20, 30)]
    report = (job.out / "rejects.txt").read_text()
    assert "row 21: en: traditional, zh-TW: x, zh-HK: y" in report
    assert "row 31: en: French, fr: y" in report
    with pytest.raises(DataError, match=r"memory\.tmx row 21 .*side"):
        job.but(out=tmp_path / "other", train=(valid,), valid=f"{tmp_path}/memory.tmx").prepare()
    (survey,) = surveys_of(reader(tmp_path / "memory.tmx", ("en", "zh-MO")))
    with pytest.raises(DataError, match=r"40 of 40 rows .*zh-CN: "):
        survey(int)


BREAKS = [
    '<ph type="lb"/>',
    '<it pos="begin" type="LB">{}</it>',
    '<ph type="x-tab">\\t</ph>',  # GlobalSight
    ' <ph x="1">&lt;BR clear="all"&gt;</ph>',
    "<ph>&amp;lt;br /&amp;gt;</ph>",
    '<ph x="0">&lt;br0/&gt;</ph>',  # OmegaT
    "<ph>&lt;/b&gt;&lt;br/&gt;</ph>",  # adjacent tags in one code, of Okapi
    "<ph>&lt;w:tab/&gt;</ph>",
    "<ph>&lt;text:line-break/&gt;</ph>",
    "<bpt i='1'>\t</bpt><ept i='1'/>",
    "<ph>\\n</ph>",
    '<ph>&lt;mq:ch val="&amp;#10;" /&gt;</ph>',  # memoQ
    '<ph>&lt;mq:rxt displaytext="br" val="&amp;lt;br&amp;gt;" /&gt;</ph>',
    "<ut>\\line </ut>",  # Trados
    "<ut>{\\tab }</ut>",
    "<br/>",
    '<x id="1" ctype="lb"/>',  # of XLIFF
    "&#10;",
]
OTHER_CODES = [
    '<bpt i="1" type="bold">&lt;b&gt;</bpt>',
    '<ph type="x-nbsp"/>',
    '<ph type="fnote">&lt;fn&gt;<sub>a &lt;br/&gt; note</sub>&lt;/fn&gt;</ph>',
    "<ph>&lt;brand/&gt;</ph>",
    "<ph>C:\\new\\table</ph>",
    "<ut>{\\b \\pard </ut>",
    '<ph>&lt;mq:rxt displaytext="name" val="{name}" /&gt;</ph>',
    '<hi type="term"></hi>',
    "<ph/>",
]


@pytest.mark.parametrize("code", [*BREAKS, *OTHER_CODES])
def test_only_codes_of_line_breaks_and_tabs_separate_words(tmp_path: Path, code: str) -> None:
    content = f"{HEAD}{unit(en=f'one{code}two', de=f'{code}x{code}')}</body></tmx>".encode()
    assert rows(tmp_path, content) == [["one two" if code in BREAKS else "onetwo", "x"]]


@pytest.mark.parametrize("chunk_bytes", [1 << 20, 1, 7])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_an_illegal_character_damages_only_its_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str, chunk_bytes: int
) -> None:
    monkeypatch.setattr(corpus, "_CHUNK_BYTES", chunk_bytes)
    units = [
        unit(en="soft&#x1F;hyphen é", de="x\x0by 😀"),
        unit(en="&#0;&#031;&#x0000b;", de="&#228;&#x1F600;ﷲ"),
        unit(en="&#xD800;&#xFFFE;&#1114112;", de="\uffff\ufdd0"),
        unit(en="&amp;#x1F;", de="fine").replace("<seg>", "<prop>\x01</prop><seg>"),
    ]
    head = HEAD.replace("?>", f' encoding="{encoding}"?>')
    assert rows(tmp_path, f"{head}{''.join(units)}</body></tmx>".encode(encoding)) == [
        ["soft\ufffdhyphen é", "x\ufffdy 😀"],
        ["\ufffd\ufffd\ufffd", "ä😀ﷲ"],
        ["\ufffd\ufffd\ufffd", "\ufffd\ufdd0"],
        ["&#x1F;", "fine"],
    ]


def test_a_file_in_another_encoding_than_it_declares_is_refused(tmp_path: Path) -> None:
    (tmp_path / "memory.tmx").write_bytes(
        f"{HEAD}{unit(en='a', de='Häuser') * 9}</body></tmx>".encode("iso-8859-1")
    )
    (look_at,) = surveys_of(reader(tmp_path / "memory.tmx", ("en", "de")))
    with pytest.raises(DataError, match=r"memory\.tmx line 1: .*XML"):
        look_at(int)


# The first unit is OmegaT's, and the second memoQ's.
OF_TOOLS = """<?xml version="1.0" encoding="ENCODING"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4">
  <header creationtool="MemoQ" srclang="EN-US"><note>for it</note></header>
  <body>
<!-- Default translations -->
    <tu>
      <tuv lang="EN-US">
        <seg>Press<ph x="0">&lt;br0/&gt;</ph><bpt i="1">&lt;b1&gt;</bpt>Save<ept
         i="1">&lt;/b1&gt;</ept>.</seg>
      </tuv>
      <tuv lang="DE-DE" changeid="A" changedate="20240101T000000Z">
        <seg>Auf<ph x="0">&lt;br0/&gt;</ph>Speichern.</seg>
      </tuv>
    </tu>
    <tu changedate="20240101T000000Z" changeid="A">
      <prop type="x-context-pre">&lt;seg&gt;Before.&lt;/seg&gt;</prop>
      <tuv xml:lang="en">
        <prop type="x-context-post">&lt;seg&gt;After.&lt;/seg&gt;</prop>
        <seg>Press<ph>&lt;mq:ch val="&amp;#10;" /&gt;</ph><bpt i="1">{}</bpt>Save<ept
         i="1">{}</ept>.</seg>
      </tuv>
      <tuv xml:lang="de"><seg>Auf<ph>&lt;mq:ch val="&amp;#9;" /&gt;</ph>Speichern.</seg></tuv>
    </tu>
  </body>
</tmx>
"""


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_units_of_translation_tools(tmp_path: Path, encoding: str) -> None:
    content = OF_TOOLS.replace("ENCODING", encoding).encode(encoding)
    assert rows(tmp_path, content) == [["Press Save.", "Auf Speichern."]] * 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (tmx(pairs(9))[:-40], " line 19: .*XML"),
        (b"plain text\n", " line 1: .*XML"),
        (b"", " line 1: .*XML"),
        (b"<xliff></xliff>", ": .*TMX.*<xliff>"),
        (b'<!DOCTYPE tmx [<!ENTITY a "bomb">]><tmx>&a;</tmx>', ".*&a;"),
        (b'<!DOCTYPE tmx [<!ENTITY a SYSTEM "file:///etc/passwd">]><tmx/>', ".*&a;"),
        (b'<!DOCTYPE tmx SYSTEM "tmx14.dtd"><tmx>&a;</tmx>', ".*&a;"),
        (b'<?xml version="1.0" encoding="foo"?><tmx/>', ": .*'foo'"),
        (b"<tmx>\n<body\x0b></tmx>", " line 2: .*XML"),
        (b"<tmx>\n<seg>a & b</seg></tmx>", " line 2: .*XML"),
    ],
)
def test_cut_files_and_others_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=rf"memory\.tmx{message}"):
        rows(tmp_path, content)


@pytest.mark.parametrize(
    ("other", "tgt_lang", "refused"),
    [
        (unit(en="a", fr="y"), "de", ""),
        (unit(en="alone"), "de", "2 of 10 rows"),
        (unit(en="a", fr="y"), "es", "10 of 10 rows"),
    ],
    ids=["pairs of other languages", "one language", "no pair"],
)
def test_a_memory_may_have_other_languages_but_no_tenth_of_single_texts(
    tmp_path: Path, other: str, tgt_lang: str, refused: str
) -> None:
    units = [unit(en=src, de=tgt) for src, tgt in pairs(8)] + [other] * 2
    (tmp_path / "memory.tmx").write_text(HEAD + "\n".join(units) + "</body></tmx>")
    (survey,) = surveys_of(reader(tmp_path / "memory.tmx", ("en", tgt_lang)))
    with pytest.raises(DataError, match=refused) if refused else nullcontext():
        assert survey(int).lines == 10


def test_a_unit_that_never_ends_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tmx_reader, "LONGEST_LINE", 10_000)
    for texts in ({"en": "a" * 10_001}, {f"x{number}": "" for number in range(101)}):
        with pytest.raises(DataError, match=r"memory\.tmx line 1: .*unit"):
            rows(tmp_path, f"{HEAD}{unit(**texts)}</body></tmx>".encode())


def test_what_a_parser_reads_only_at_the_end_is_not_lost(tmp_path: Path) -> None:
    # expat 2.6 waits with a token that was cut until there is twice as much, or the end.
    comment = f"<!--{'x' * 3 * 2**19}-->"
    content = f"{HEAD}{unit(en='a', de='b')}{comment}{unit(en='c', de='d')}</body></tmx>"
    assert rows(tmp_path, content.encode()) == [["a", "b"], ["c", "d"]]


def test_a_large_file_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "memory.tmx"
    path.write_bytes(tmx([("a" * 500, "b" * 500)] * 10_000))  # 11 MB
    tracemalloc.start()
    try:
        assert sum(1 for _ in reader(path, ("en", "de")).rows(int)) == 10_000
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
