"""Documents stay as they are, except for their text."""

import gzip
from pathlib import Path
from xml.etree import ElementTree

import pytest
from read_document import read_document

from nmt.data.corpus import Encoding
from nmt.errors import DataError
from nmt.markup.breaks import MarkedLines
from nmt.markup.documents import READERS, Document
from nmt.markup.file_types import TYPES

HTML = """<!DOCTYPE html>
<html lang="en"><head><title>A &amp; b</title>
<style>p { color: red }</style><script>if (a < b) { alert("<p>no</p>") }</script></head>
<body class='x' >
<!-- note --><h1> Two  dogs
   play </h1>
<p>A <b>girl</b> sits.<br>A man<p>Run <code>x y</code>
<div translate="no">Do not <i>touch</i></div>
<ul><li>one<li><!-- two --><em>two</em></ul><pre>three
  four
</pre><p>12:30 {x}</p><img alt="five"></body></html>
"""

XLIFF = """<?xml version="1.0" encoding="UTF-8"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file><body>
  <trans-unit id="1">
    <source>A <g id="1">girl</g> &amp;
      a boy</source>
    <note>a note</note>
  </trans-unit>
  <trans-unit id="2"><source> two</source><target state="new" /></trans-unit>
  <trans-unit id="3"><source>three</source><target>drei</target></trans-unit>
  <trans-unit id="4" translate="no"><source>four</source></trans-unit>
  <group translate="no"><trans-unit id="5"><source>five</source></trans-unit>
  <trans-unit id="6" translate="yes"><source>six</source></trans-unit></group>
  <trans-unit id="7"><source>se<x id="1"/>ven</source><target>se<x id="1"/>ven</target>
    <alt-trans><source>alt</source><target>ALT</target></alt-trans></trans-unit>
  <trans-unit id="8"><source>eight</source>
    <seg-source><mrk mtype="seg" mid="1">eight</mrk></seg-source></trans-unit>
  <trans-unit id="9"><source>12</source></trans-unit><trans-unit id="10"><source/></trans-unit>
</body></file></xliff>
"""

XLIFF_2 = """<x:xliff version="2.0" xmlns:x="urn:oasis:names:tc:xliff:document:2.0"><x:file id="f">
<x:unit id="u"><x:segment><x:source>A <x:pc id="1">girl</x:pc></x:source></x:segment>
<x:ignorable><x:source> </x:source></x:ignorable>
<x:segment><x:source>two</x:source><x:target></x:target></x:segment></x:unit>
</x:file></x:xliff>
"""


def segment(number: int, text: str) -> str:
    return f'<mrk mtype="seg" mid="{number}">{text}</mrk>'


def test_each_type_that_is_supported_has_a_reader() -> None:
    assert set(READERS) == {one.name for one in TYPES if one.markup}


def test_a_compressed_document_is_refused_in_any_encoding() -> None:
    packed = gzip.compress(HTML.encode())
    (kind,) = (one for one in TYPES if one.name == "HTML")
    with pytest.raises(DataError, match=r"a\.html"):
        Document.read(Path("a.html"), kind, packed, Encoding.find("latin-1"))


@pytest.mark.parametrize(
    ("name", "content"), [("a.html", HTML), ("a.xlf", XLIFF), ("a.XLIFF", XLIFF_2)]
)
def test_without_translations_a_document_is_unchanged(name: str, content: str) -> None:
    document = read_document(name, content)
    written = document.write(None for _ in document.units).content.decode()
    for added in ("<target>12</target>", f"<target>{segment(1, '')}</target>"):
        written = written.replace(added, "")
    assert written == content


def test_the_running_text_of_html_is_translated() -> None:
    document = read_document("a.html", HTML)
    lines = [unit.line for unit in document.units]
    texts = ["A &amp; b", "Two  dogs play", "A <b>girl</b> sits.", "A man", "Run <code>x y</code>"]
    assert lines == [*texts, "one", "<!-- two --><em>two</em>", "three", "four"]
    expected = HTML.replace("dogs\n   play", "dogs play")
    for number, line in enumerate(lines):
        expected = expected.replace(line, f"[{number}]", 1)
    written = document.write(f"[{number}]" for number in range(len(lines)))
    assert written.content.decode() == expected


def test_an_icu_message_in_html_is_one_unit_with_all_its_tags() -> None:
    message = "{n, select, a {<p>one</p>} other {<hr><i>{b}</i> two}} {m, plural, other {<p>3</p>}}"
    page = f"<p>zero</p><div>See {message} now</div><p>three {{x}}</p>"
    document = read_document("a.html", page)
    lines = [unit.line for unit in document.units]
    assert lines == ["zero", f"See {message} now", "three {x}"]
    assert document.write(lines).content.decode() == page


def test_lines_of_pre_and_between_br_are_units_without_their_list_marks() -> None:
    page = (
        "<pre>\nOne\n\n  - two\n\t1. <b>three\n12\nfour</b></pre><p>five<br>\n* six\nseven<br></p>"
    )
    document = read_document("a.html", page)
    lines = [unit.line for unit in document.units]
    assert lines == ["One", "two", "<b>three", "four</b>", "five", "six seven"]
    lines[-1] = "six\nseven"
    assert document.write(lines).content.decode() == page


def test_wrapped_lines_of_pre_are_one_unit() -> None:
    wrapped = "Open the old house by the river with its\n  <b>red</b> door"
    page = f"<pre>\n  {wrapped}\n  -e   Close\n</pre>"
    document = read_document("a.html", page)
    lines = [unit.line for unit in document.units]
    assert lines == [wrapped, "-e", "Close"]
    assert all(len(MarkedLines.of(line, "html").lines) == 1 for line in lines)
    assert document.write(lines).content.decode() == page
    assert document.write([None] * 3).content.decode() == page


@pytest.mark.parametrize(
    ("unit", "source", "are_kept"), [("", "preserve", True), ("preserve", "", True)]
)
def test_a_new_target_keeps_spaces_like_its_source(unit: str, source: str, are_kept: bool) -> None:
    says = [f' xml:space="{value}"' if value else "" for value in (unit, source)]
    content = f"<source{says[1]}>One\n two</source>"
    document = read_document("a.xlf", f"<xliff><trans-unit{says[0]}>{content}</trans-unit></xliff>")
    assert [unit.line for unit in document.units] == ["One\n two"]
    space = says[1] if are_kept else ""
    assert f"{content}<target{space}>1</target>" in document.write(["1"]).content.decode()


def test_the_targets_of_xliff_are_filled_and_its_sources_untouched() -> None:
    document = read_document("a.xlf", XLIFF)
    first, *others = (unit.line for unit in document.units)
    assert first == 'A <g id="1">girl</g> &amp;\n      a boy'
    assert others == ["two", "six", 'se<x id="1"/>ven', "eight"]
    assert document.translated == 1
    expected = (
        XLIFF.replace("a boy</source>", "a boy</source>\n    <target>[0]</target>")
        .replace('<target state="new" />', '<target state="new"> [1]</target>')
        .replace("<source>six</source>", "<source>six</source><target>[2]</target>")
        .replace('<target>se<x id="1"/>ven</target>', "<target>[3]</target>")
        .replace("</seg-source>", f"</seg-source><target>{segment(1, '[4]')}</target>")
        .replace("<source>12</source>", "<source>12</source><target>12</target>")
    )
    assert document.write(f"[{number}]" for number in range(5)).content.decode() == expected


def unit_of(content: str) -> str:
    return f'<xliff xmlns="urn:x" version="1.2"><trans-unit>{content}</trans-unit></xliff>'


def segments(one: str, two: str, three: str) -> str:
    return f"{segment(1, one)} <g id='1'>{segment(2, two)}</g> {segment(3, three)}"


SEGMENTED = f"<source>one. two. 3</source><seg-source>{segments('one.', 'two.', '3')}</seg-source>"


@pytest.mark.parametrize(
    ("target", "expected", "kept"),
    [
        ("", segments("[0]", "[1]", "3"), 0),
        (segments("", "", ""), segments("[0]", "[1]", "3"), 0),
        (f"{segment(2, 'b')} <mrk mtype='seg' mid='1'/>", segments("[0]", "b", "3"), 1),
        ("one. two. 3", segments("[0]", "[1]", "3"), 0),
        ("eins. zwei. drei", "eins. zwei. drei", 1),
        (f"eins. {segment(2, '')}", f"eins. {segment(2, '')}", 1),
        (segment(1, "a") + segment(2, "b") + segment(3, "c"), None, 3),
        (  # the source lacks two of them
            f"{segment(7, 'x')} {segment(2, 'b')} {segment(8, 'y')} <mrk mtype='seg' mid='9'/>",
            None,
            1,
        ),
    ],
)
def test_segments_of_xliff_1_are_units(target: str, expected: str | None, kept: int) -> None:
    document = read_document("a.xlf", unit_of(f"{SEGMENTED}<target>{target}</target>"))
    expected = target if expected is None else expected
    texts = [f"[{number}]" for number in range(len(document.units))]
    written = document.write(texts).content.decode()
    assert written == unit_of(f"{SEGMENTED}<target>{expected}</target>")
    assert document.translated == kept


@pytest.mark.parametrize(
    ("unit", "target"),
    [
        ('<trans-unit approved="yes">', "<target>"),
        ("<trans-unit>", '<target state="final">'),
        ('<segment state="reviewed">', "<target>"),
    ],
)
def test_a_target_that_somebody_approves_of_may_equal_its_source(unit: str, target: str) -> None:
    closing = f"</{unit[1:].split()[0].rstrip('>')}>"
    content = f"<xliff>{unit}<source>OK</source>{target}OK</target>{closing}</xliff>"
    document = read_document("a.xlf", content)
    assert (document.units, document.translated) == ([], 1)
    assert len(read_document("a.xlf", content.replace(">OK</target>", "></target>")).units) == 1


@pytest.mark.parametrize("target", ["<![CDATA[]]>", "<!-- later -->", ' <x id="1"/> '])
def test_a_target_without_text_is_filled(target: str) -> None:
    document = read_document("a.xlf", unit_of(f"<source>one</source><target>{target}</target>"))
    filled = unit_of("<source>one</source><target>[0]</target>")
    assert document.write(["[0]"]).content.decode() == filled


@pytest.mark.parametrize(
    ("attribute", "target", "is_filled"),
    [
        ('locked="true"', "", False),
        ('locked="no"', "", True),
        ('confirmed="1"', "one", False),
        ('confirmed="2"', "", True),
        ('status="Proofread"', "one", False),
    ],
)
def test_what_is_locked_or_confirmed_stays(attribute: str, target: str, is_filled: bool) -> None:
    content = f"""<xliff version="1.2" xmlns:m="urn:m"><trans-unit m:{attribute} translate="yes">
<source>one</source><target>{target}</target></trans-unit></xliff>"""
    document = read_document("a.mxliff", content)
    assert [unit.line for unit in document.units] == ["one"] * is_filled
    assert document.write(["[0]"] * is_filled).content.decode() == (
        content.replace(f"<target>{target}<", "<target>[0]<") if is_filled else content
    )


def test_segments_that_trados_has_locked_or_confirmed_stay() -> None:
    source = "".join(map(segment, range(4), ("one", "two", "three", "four")))
    target = "".join(map(segment, range(4), ("", "two", "", "four")))
    content = f"""<xliff version="1.2" xmlns:sdl="urn:sdl"><trans-unit id="1">
<source>one two three four</source><seg-source>{source}</seg-source><target>{target}</target>
<sdl:seg-defs><sdl:seg id="0" locked="true"/><sdl:seg id="1" conf="Translated"/>
<sdl:seg id="2" conf="Translated"><sdl:value/></sdl:seg><sdl:seg id="3" conf="Draft"/>
</sdl:seg-defs></trans-unit></xliff>"""
    document = read_document("a.sdlxliff", content)
    assert [unit.line for unit in document.units] == ["three", "four"]
    assert document.translated == 2
    filled = "".join(map(segment, range(4), ("", "two", "[2]", "[3]")))
    assert document.write(["[2]", "[3]"]).content.decode() == content.replace(target, filled)


def test_xliff_2_has_segments_and_may_have_a_prefix() -> None:
    written = read_document("a.xlf", XLIFF_2).write(("[0]", "[1]")).content.decode()
    assert written == XLIFF_2.replace(
        "girl</x:pc></x:source>", "girl</x:pc></x:source><x:target>[0]</x:target>"
    ).replace("<x:target></x:target>", "<x:target>[1]</x:target>")


def test_xliff_2_needs_the_language_of_its_targets() -> None:
    assert read_document("a.xlf", XLIFF_2).lacks_language
    assert not read_document("a.xlf", XLIFF_2.replace('"2.0"', '"2.0" trgLang="de"')).lacks_language
    assert not read_document("a.xlf", XLIFF).lacks_language


def test_a_target_has_the_prefix_of_its_source_or_its_own() -> None:
    names = 'xmlns:resource="urn:oasis:names:tc:xliff:document:2.0" xmlns:y="{0}"'
    names = names.format("urn:oasis:names:tc:xliff:document:2.0")
    head = f'<resource:xliff {names} version="2.0"><resource:file><resource:unit>'
    units = (
        "<resource:segment><resource:source>a dog</resource:source></resource:segment>",
        "<resource:segment><resource:source>a cat</resource:source><y:target/></resource:segment>",
    )
    content = f"{head}{''.join(units)}</resource:unit></resource:file></resource:xliff>"
    written = read_document("a.xlf", content).write(("[0]", "[1]")).content.decode()
    ElementTree.fromstring(written)
    assert "</resource:source><resource:target>[0]</resource:target>" in written
    assert "</resource:source><y:target>[1]</y:target>" in written


@pytest.mark.parametrize(
    ("content", "encoding"),  # the latter is what browsers read it as
    [
        ('<meta charset="iso-8859-1"><p>é</p>', "windows-1252"),
        ('\ufeff<meta charset="iso-8859-1"><p>é</p>', "utf-16-le"),
        ("\ufeff<p>é</p>", "utf-32-le"),
        ('<?xml version="1.0" encoding="ISO-8859-1"?><p>é</p>', "windows-1252"),
        ("<meta charset=utf-16><p>é</p>", "utf-8"),
        ("<!DOCTYPE html><p>é</p>", "utf-16-le"),
        ("<!-- <meta charset=latin-1> --><meta charset=utf-8><p>é</p>", "utf-8"),
    ],
)
def test_a_document_keeps_its_encoding(content: str, encoding: str) -> None:
    document = read_document("a.htm", content.encode(encoding))
    (unit,) = document.units
    assert unit.line == "é"
    expected = content.replace("é", "É—").encode(encoding, "xmlcharrefreplace")
    assert document.write(["É—"]).content == expected


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.xlf", XLIFF.replace("</xliff>", ""), "a.xlf line 19: "),
        ("a.xlf", "<html></html>", "a.xlf: not XLIFF"),
        (
            "a.xlf",
            '<!DOCTYPE xliff [<!ENTITY e SYSTEM "/etc/passwd">]><xliff>&e;</xliff>',
            "entity &e;",
        ),
        ("a.html", "a cat<p>a dog</p>".encode("utf-16-le"), "a.html: not utf-8"),
        ("a.html", b"<meta charset=utf-8><p>\xff</p>", "a.html: not valid utf-8, "),
        ("a.html", "<meta charset=klingon>", "'klingon'"),
    ],
)
def test_damaged_documents_are_refused(name: str, content: str | bytes, message: str) -> None:
    with pytest.raises(DataError) as caught:
        read_document(name, content)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("source", "translation", "lost"),
    [
        ("Click !link now", "Klicke jetzt auf !link", []),
        ("Click !link now", "Klicke jetzt! Link", ["!link"]),
        ("Set user_name and a_b", "Setze Benutzername", ["user_name"]),
        ("&amp;1 of %1, %10", "&amp;1 von %1, 10 %", ["%10"]),
    ],
)
def test_lost_placeholders_are_counted(source: str, translation: str, lost: list[str]) -> None:
    document = read_document("a.xlf", unit_of(f"<source>{source}</source>"))
    assert document.write([translation]).changed == lost
    assert document.write([None]).changed == []


@pytest.mark.parametrize(
    ("sources", "key"),
    [
        (["a.b_c", "label:d.e", "A dog"], "a.b_c"),
        (["A dog", "a_b", "A.B"], "a_b"),
        (["Wait...", "e.g. a_b", "a.b c"], ""),
    ],
)
def test_sources_that_are_keys_are_told(sources: list[str], key: str) -> None:
    units = "".join(
        f"<trans-unit id='{number}'><source>{source}</source><target>x{number}</target>"
        "</trans-unit>"
        for number, source in enumerate(sources)
    )
    assert read_document("a.xlf", f"<xliff version='1.2'>{units}</xliff>").key == key
    entries = "".join(f'msgid "{source}"\nmsgstr ""\n\n' for source in sources)
    assert read_document("a.po", f'msgid ""\nmsgstr ""\n\n{entries}').key == key


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ('<html lang="en">', '<html lang="zh-TW">'),
        ("<HTML class=a lang=EN-us xml:lang='en'>", "<HTML class=a lang=zh-TW xml:lang='zh-TW'>"),
        ('<html lang="fr">', '<html lang="fr">'),
        ('<html data-lang="en">', '<html data-lang="en">'),
        ("<html><p lang=en>", "<html><p lang=en>"),
    ],
)
def test_a_page_in_the_source_language_is_one_in_the_target(tag: str, expected: str) -> None:
    document = read_document("a.html", f"<!DOCTYPE html>{tag}<p>A dog")
    for languages in (("en_GB", "zh_TW"), ("eng_Latn", "zho_TW")):
        written = document.write(["犬"], languages).content.decode()
        assert written == f"<!DOCTYPE html>{expected}<p>犬"


@pytest.mark.parametrize(("ends", "is_right"), [("first", True), ("second", False)])
def test_protection_ends_in_its_segment(ends: str, is_right: bool) -> None:
    mark = '<em startRef="m"/>'
    document = (
        '<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en" '
        'trgLang="de"><file id="f"><unit id="u"><segment><source>The <sm id="m" translate="no"/>cat'
        f"{mark * (ends == 'first')} sees.</source></segment><segment><source>The dog"
        f"{mark * (ends == 'second')}.</source></segment></unit></file></xliff>"
    )
    if is_right:
        assert len(read_document("a.xlf", document).units) == 2
        return
    with pytest.raises(DataError, match="another segment"):
        read_document("a.xlf", document)
