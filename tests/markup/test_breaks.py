"""Markup is cut at its breaks, and what is between lines comes back as it was."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from listed import listed

from nmt.data.words import unit_pattern
from nmt.markup.breaks import MarkedLines, cut_at_breaks, unwrap
from nmt.markup.file_types import FORMS

BREAKS_OF_XML = """
<x␣id="1"␣ctype="lb"/> <ph␣id="1"␣ctype="lb"/> <ph␣id="1">&lt;br/&gt;</ph> <lb/> <br/> &#10; ␊ ␍␊
<ph␣id="1"␣type="fmt"␣subType="xlf:lb"/> <ph␣id="0"␣disp="&lt;br␣/&gt;"/> <ph␣type="lb"␣x="1"/>
<x␣id="x"␣equiv-text="&lt;br/>"/> <ph␣id="1">&lt;mq:ch␣val="&#10;"␣/&gt;</ph>
<x␣id="1"␣equiv-text="&amp;#10;"/> <x␣id="2"␣ctype="x-html-br"/>
"""
BREAKS = {
    "xml": [*listed(BREAKS_OF_XML), "\u2028"],
    "html": ["<br>", "<BR />", "</p><p class='x'>", "<hr>", "</li>\n  <li>", "\n\n", "&#xA;"],
}
NO_BREAKS = {
    "xml": [
        '<x id="1"/>',
        '<ph id="1" ctype="image"/>',
        '<ph id="1">&lt;b&gt;</ph>',
        "<label/>",
        '<x id="1" equiv-text="a &lt;br/&gt; b"/>',
    ],
    "html": ["<b>", "<wbr>", "<!-- \n -->", "<x-br>", "&#100;"],
}


def cut(markup: str, form: str) -> list[str]:
    """Return what stays and lines with words in turn, which joined are the markup."""
    lines, between = cut_at_breaks(markup, form)
    parts = [between[0]]
    for line, after in zip(lines, between[1:], strict=True):
        parts += [line.raw, after]
    return parts


def numbered(lines: MarkedLines) -> str:
    """Return what becomes of markup if its lines are translated by their numbers."""
    return lines.restore("\n".join(f"<{n}" for n in range(len(lines.lines))), (), ())


@pytest.mark.parametrize(
    ("form", "mark"), [(form, mark) for form, marks in BREAKS.items() for mark in marks]
)
def test_breaks_end_a_line_and_come_back(form: str, mark: str) -> None:
    lines = MarkedLines.of(f"a dog. {mark} A cat{mark}{mark}12{mark} and{mark}", form)
    assert lines.text == "a dog.\nA cat\nand"
    assert numbered(lines) == f"&lt;0 {mark} &lt;1{mark}{mark}12{mark} &lt;2{mark}"


def test_bars_between_titles_are_breaks() -> None:
    markup = "<a>A dog</a> | <b>a cat&nbsp;|&nbsp;(a cow)</b>"
    assert cut(markup, "html")[1::2] == ["<a>A dog</a>", "<b>a cat", "(a cow)</b>"]
    for inside in ("a {{ b | c }} d", "[a | b] c", "a|b", "<code>a | b</code> c", "a || b"):
        assert len(cut(inside, "html")) == 3


@pytest.mark.parametrize(
    ("form", "mark"), [(form, mark) for form, marks in NO_BREAKS.items() for mark in marks]
)
def test_other_tags_do_not_end_a_line(form: str, mark: str) -> None:
    markup = f"a dog {mark}and a cat"
    assert cut(markup, form) == ["", markup, ""]


@pytest.mark.parametrize("mark", ["- ", "* ", "1. ", "2.1) ", "(3) ", "b) ", "\t•  ", "–&nbsp;"])
def test_list_marks_and_indentation_stay(mark: str) -> None:
    markup = f"  {mark}one\n\n  {mark}two. 2. three -\n"
    assert cut(markup, "xml") == [f"  {mark}", "one", f"\n\n  {mark}", "two. 2. three -", "\n"]


@pytest.mark.parametrize("line", ["-5 dogs", "1.5 dogs", "a. b", "3 dogs", "*one*", "- ", "2. "])
def test_what_only_looks_like_a_list_mark_is_translated(line: str) -> None:
    lines = cut(f"{line}\nand", "xml")[1::2]
    assert lines == ["and"] if line[-1] == " " else [line, "and"]


def test_nothing_is_cut_inside_what_stays() -> None:
    for whole in ("<code>a\nb<br>c</code>", '<i translate="no">a<br>b</i>', "<svg>\na</svg>"):
        assert cut(f"see {whole} now", "html")[1::2] == [f"see {whole} now"]
    assert len(cut("<![CDATA[a\nb]]>", "xml")) == 3


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "message",
    [
        "{n, plural, one {a <b>dog</b>} other {# dogs}}",
        "{n, select, a {\n\nx<br/>y} other {{m,plural, other {z}}}}",
        "{0,choice,0#no dogs|1#{a} dog}",
        "{n, selectordinal, one {damaged",
    ],
)
def test_what_has_an_icu_message_stays_whole(message: str, form: str) -> None:
    line = f"- See <i>{message}</i> <br/> now"
    lines = MarkedLines.of(line, form)
    assert lines.text == ""
    assert lines.restore("", [], []) == line
    assert cut(line, form)[1::2] == [line.removeprefix("- ")]


def test_each_line_has_its_own_links() -> None:
    lines = MarkedLines.of("a <b>red</b> dog<br>the <i>old</i> cat", "html")
    assert lines.text == "a red dog\nthe old cat"
    translation = "ROT hund\nkatze ALT"
    words = {"red": "ROT", "old": "ALT", "dog": "hund", "cat": "katze"}
    links = [
        (at, at + 3, to, to + len(tgt))
        for src, tgt in words.items()
        for at, to in [(lines.text.index(src), translation.index(tgt))]
    ]
    links.append((0, 1, translation.index("katze"), len(translation)))  # across the break
    assert lines.restore(translation, links, ()) == "<b>ROT</b> hund<br>katze <i>ALT</i>"


HINDI = "लाल दरवाज़े वाला पुराना घर नदी के किनारे पर खड़ा है"
LONG = "The old house by the river with the big red"


@pytest.mark.parametrize(
    ("form", "markup", "count"),
    [
        ("xml", "The door\n   is open.", 1),
        ("xml", "The door is open.\nClose it", 2),
        ("xml", 'The <g id="1">door</g>\n\t<g id="2">is</g> open.', 1),
        ("xml", f"{LONG} tree:\nOpen it", 2),
        ("xml", f"{LONG}\n- open", 2),
        ("xml", f"{HINDI}।\n{HINDI}।", 2),
        ("xml", f"{HINDI}\n{HINDI}।", 1),
        ("xml", "Как же это так вышло, что дом теперь красный\nа) дом", 2),
        ("html", f"{HINDI}\n{HINDI}।", 1),
        ("html", "The door\n   is open.", 2),
        ("html", "cd house\nmake door", 2),
        ("html", f"   {LONG} tree\n   is open", 1),
        ("html", f"{LONG} tree is\n open and the red house by it", 1),
        ("html", f"a   {LONG}\n    is open", 2),
        ("html", f"a   {LONG}\n  is open", 3),
        ("html", "-d   open the\n     old red\n     door", 2),
        ("html", "Find the door:\n  - the red one\n    is here", 2),
        ("html", "for (door = 0; door = 7; door += old_doors) {\nreturn door", 2),
        ("html", "-d  --door   open the old\n             red door", 2),
    ],
)
def test_a_line_end_within_a_sentence_does_not_cut_it(form: str, markup: str, count: int) -> None:
    lines = MarkedLines.of(markup, form)
    assert len(lines.lines) == count
    words = [word.span() for word in unit_pattern().finditer(lines.text)]
    assert lines.restore(lines.text, [(*word, *word) for word in words], ()) == markup


def test_line_ends_come_back_at_spaces_where_they_share_the_text_alike() -> None:
    lines = MarkedLines.of("One <b>long</b>\n  sentence\r\n  stands here.", "xml")
    assert lines.text == "One long sentence stands here."
    translation = "Ein wirklich langer Satz steht nun da."
    assert lines.restore(translation, (), ()).replace("<b></b>", "") == (
        "Ein wirklich\n  langer Satz\r\n  steht nun da."
    )
    assert lines.restore("Satz", (), ()).replace("<b></b>", "") == "Satz"


def test_all_lines_can_be_joined_but_not_those_in_a_tag() -> None:
    markup = 'One.\r\n  Two<a\nhref="x">\n\n- three</a>'
    assert unwrap(markup) == 'One. Two<a\nhref="x">  - three</a>'


PARTS = """
<br> ␊ <b> </b> ␣ a A␣b. -␣ 1.␣ <p> <x␣ctype="lb"/> & <code> </code> 12 <![CDATA[ ]]> <!-- --> {n} ␍
&#10; < |
"""


@given(st.lists(st.sampled_from(listed(PARTS)), max_size=12), st.sampled_from(FORMS))
def test_cut_markup_is_whole(parts: list[str], form: str) -> None:
    markup = "".join(parts)
    parts = cut(markup, form)
    assert "".join(parts) == markup
    lines = MarkedLines.of(markup, form)
    assert lines.text.count("\n") == len(lines.lines) - 1
    restored = lines.restore(lines.text, (), ())
    assert all(stays in restored for stays in lines.between)
