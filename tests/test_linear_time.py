"""Reading takes time in proportion to the text, not to its square."""

import contextlib
import html
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from listed import listed
from read_document import read_document

from nmt.data.composition import compose
from nmt.data.corpus import Encoding
from nmt.data.languages import names_language, variant_rank
from nmt.data.moses import Moses
from nmt.data.words import has_letters
from nmt.errors import NMTError
from nmt.lexical.lemmas import WORD
from nmt.lexical.word_list import ListedWord, WordList, has_phrase
from nmt.markup.breaks import MarkedLines, unwrap
from nmt.markup.directives import fit_directives, protect_directives
from nmt.markup.file_types import odd_lines, type_of_content
from nmt.markup.segment_files import read_sgml, read_side
from nmt.prepare.characters import plain_classes
from nmt.prepare.fixes import broken_word, first_entity, fixed_encoding, without_entities
from nmt.prepare.readers.find import find_reader
from nmt.prepare.readers.reading import blocks_of, surveys_of
from nmt.scoring.inputs import Text, check_plain
from nmt.scoring.text_warnings import text_warnings
from nmt.system.files import parse_json, parse_toml
from nmt.translate.output import read_n_best
from nmt.translate.segmentation import split_sentences

SHORT, MIDDLE, LONG = 4_000, 20_000, 200_000  # characters
MOST = 500  # times as long; linear time would take 50 times
SUSPICIOUS = 12  # of MIDDLE: linear time would take 5 times
LEAST_SECONDS = 0.001  # less is no measurement

UNIT = "<trans-unit id='1'>\n <source>a</source>\n</trans-unit>"
REPEATED = """
< & { ␣ " ' [ ( | % 1 . 。 你 a ␉ ␊ {{ <!-- <![CDATA[ <b> <b><i> </b> <br> <p>a -␣a␊ <script>
<a␣b= <a␣b=" <!a[ <seg> <seg␣id= <x/> ␣␍␊ ␉" "␉ "," "" ."␣ A.␣ ␣|||␣ ␣|||␣a=␣1 1. -1␣ a@ a.b+ www.
:// ${ {% %( {0}␣ a- a. Ã¼ a\u0301 ก 😀\u200d <2de> >> <b>x␣ <b>x</b>␣ <code>x</code>␣ x</b>␣ <?
{a,plural, %s␣a␣ {0: %< ~1, ~:*~a~^ ~{~a $a
"""
SHAPES = [
    *(("", repeated) for repeated in [*listed(REPEATED), UNIT]),
    *(("&", one) for one in ("amp;", "#38;", "1")),
    *(("a=", one) for one in ("[", "{a=", "{a,plural,one{")),
    *(("%", one) for one in ("'", "0", "1$", "<a>")),
    ("{0", ",choice,0#{0"),
]
"""What stands at the beginning of a text, and what follows again and again."""
MENDED = [
    ("tmx", "", " "),
    ("xliff tag", "", " "),
    ("xliff body", "", UNIT),
    ("sgml", "", "<seg id="),
    ("n-best", "", " ||| a= 1"),
    ("entities", "&", "amp;"),
    ("encoding", "", "Ã¼"),
    ("tsv start", "", '"\t'),
    ("csv header", "a", " "),
    *(("markup html", "", one) for one in ("<b>", "{{", "<!--", "{a,plural,")),
    *(("markup xml", "", one) for one in ("<b>x ", "<![CDATA[")),
    ("markup xml", "A b\nc", "\xa0"),
    *(("directives of C", "%", one) for one in "'0"),
    ("directives of C", "", "%s a "),
    *(("po", "", one) for one in ('msgid "a"\nmsgstr ""\n', "#, c-format\n", '"\\x1', "#,,")),
]
"""Parsers and shapes that took the square of the time, or would if each looked for its end."""

UTF8 = Encoding.find("utf-8")
XLIFF = (
    '<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file><body>'
    '<trans-unit id="1"><source>{}</source>{}</trans-unit></body></file></xliff>'
)
TMX = (
    '<tmx version="1.4"><body><tu><prop type="x">{0}</prop><tuv xml:lang="en"><seg>{0}</seg></tuv>'
    '<tuv xml:lang="de"><seg><ph>{0}</ph>{0}</seg></tuv></tu></body></tmx>'
)
CUE = "00:00:01,000 --> 00:00:02,000\n"
TERMS = WordList(ListedWord(source, ("b",)) for source in ("a a a", "1 2", "a - a b"))


def _document(path: str, text: str) -> None:
    document = read_document(path, text.encode(errors="replace"))
    document.write(unit.line for unit in document.units)


def _directives(text: str) -> None:
    """Read format strings in all languages."""
    for language in ("c", "java", "kde-kuit", "python", "qt", "rust", "sh", "any other"):
        fit_directives(protect_directives(text, language), text, [language])


def _line_of_markup(text: str, form: str) -> None:
    for markup in (text, unwrap(text)):
        marked = MarkedLines.of(markup, form)
        marked.restore(marked.text, [], [])


def _reading(name: str, content: str) -> None:
    """Read parallel text, in the folder of the test."""
    file = name.partition(":")[0]
    for one in (file, f"{file}.en", f"{file}.de"):
        Path(one).write_text(content, errors="replace")
    reader = find_reader(name, ("en", "de"), UTF8)
    for survey in surveys_of(reader):
        survey(lambda size: size)
    for _ in blocks_of(reader):
        pass


def _scoring(text: str) -> None:
    line = Text("x", [text])
    list(text_warnings([line], [line], line, spaced=["BLEU"]))
    check_plain([line])


def _wmt_xml(text: str) -> None:
    xml = f'<dataset><doc id="{text}"><src><seg id="1">{text}</seg></src></doc></dataset>'
    Path("x.xml").write_text(xml, errors="replace")
    read_side(Path("x.xml"), "source", None)


def _moses(text: str) -> None:
    rules = Moses("en", normalize=True, tokenize=True)
    rules.undo(rules.apply(text))


PARSERS: dict[str, Callable[[str], object]] = {
    "html": lambda text: _document("x.html", f"<p>{text}"),
    "xliff": lambda text: _document("x.xlf", XLIFF.format(html.escape(text), "")),
    "xliff tag": lambda text: _document("x.xlf", XLIFF.format("a", f"<target{text}/>")),
    "xliff target": lambda text: _document(
        "x.xlf", XLIFF.format(f"a <x/>{text}", f"<target>{text}</target>")
    ),
    "xliff body": lambda text: _document(
        "x.xlf", XLIFF.format("", f"</trans-unit>{text}<trans-unit id='2'>")
    ),
    "subtitles": lambda text: _document("x.srt", f"{CUE}a\n\n2\n{CUE}{text}\n\n3\n{CUE}b."),
    "cues": lambda text: _document("x.vtt", f"WEBVTT\n\n{(CUE + text[:20]) * (len(text) // 20)}"),
    "po": lambda text: _document("x.po", text),
    "po message": lambda text: _document("x.po", f'msgid "{text}"\nmsgstr ""\n'),
    "directives": _directives,
    "directives of C": lambda text: fit_directives(protect_directives(text, "c"), text, ["c"]),
    "file type": lambda text: [type_of_content(text.encode(errors="replace"))],
    "odd lines": lambda text: odd_lines(text.encode(errors="replace")),
    "markup html": lambda text: _line_of_markup(text, "html"),
    "markup xml": lambda text: _line_of_markup(text, "xml"),
    "tmx": lambda text: _reading("x.tmx", TMX.format(html.escape(text))),
    "tmx tags": lambda text: _reading("x.tmx", TMX.format(text)),
    "tsv": lambda text: _reading("x.tsv:1,2", "a b\tc d\n" * 20 + text),
    "tsv start": lambda text: _reading("x.tsv:1,2", f"{text}\tb\n" + "a b\tc d\n" * 20),
    "csv": lambda text: _reading("x.csv:1,2", "a b,c d\n" * 20 + text),
    "csv header": lambda text: _reading("x.csv", f"{text},de\na,b"),
    "jsonl": lambda text: _reading("x.jsonl", text),
    "lines": lambda text: _reading("x", text),
    "json": parse_json,
    "toml": lambda text: parse_toml(text.encode(errors="replace")),
    "sgml": lambda text: read_sgml("x", f"<doc docid=1><seg id=1>{text}</seg></doc>"),
    "sgml tag": lambda text: read_sgml("x", f"<doc docid=1><seg id={text}>a</seg></doc>"),
    "wmt xml": _wmt_xml,
    "n-best": lambda text: list(read_n_best([f"0 ||| a{text} ||| b ||| -1"], "x")),
    "scoring": _scoring,
    "sentences": lambda text: [split_sentences(text, lang) for lang in ("en", "ja")],
    "entities": lambda text: [first_entity(text), without_entities(text)],
    "encoding": lambda text: [broken_word(text), fixed_encoding(text)],
    "language": lambda text: [variant_rank(text, "en"), names_language(text, "en")],
    "letters": has_letters,
    "words": lambda text: [compose(text), WORD.findall(text), plain_classes()],
    "terms": lambda text: [TERMS.find(text), has_phrase(text, "a b c d")],
    "moses": _moses,
}


def _seconds(parser: str, beginning: str, repeated: str, size: int) -> float:
    text = beginning + repeated * (size // len(repeated))
    start = time.process_time()
    with contextlib.suppress(NMTError, ValueError):
        PARSERS[parser](text)
    return time.process_time() - start


def _check(parser: str, beginning: str, repeated: str) -> None:
    _seconds(parser, beginning, repeated, len(repeated))  # loads what it needs
    short = min(_seconds(parser, beginning, repeated, SHORT) for _ in range(2))
    short = max(short, LEAST_SECONDS)
    if _seconds(parser, beginning, repeated, MIDDLE) > SUSPICIOUS * short:
        long = _seconds(parser, beginning, repeated, LONG)
        assert long <= MOST * short, f"{beginning}{repeated}: {short:.4f} s, {long:.2f} s"


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(("parser", "beginning", "repeated"), MENDED)
def test_what_was_quadratic_is_linear(parser: str, beginning: str, repeated: str) -> None:
    _check(parser, beginning, repeated)


@pytest.mark.slow
@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("parser", PARSERS)
def test_no_parser_is_quadratic(parser: str) -> None:
    for beginning, repeated in SHAPES:
        _check(parser, beginning, repeated)
