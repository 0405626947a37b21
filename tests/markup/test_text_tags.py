"""Tags that are written in running text are tags where they are, and text where they are not."""

import re

import pytest
from listed import listed

from nmt.markup.breaks import MarkedLines
from nmt.markup.tag_writer import restore
from nmt.markup.tags import Node, parse


def nodes_of(line: str, form: str) -> list[Node]:
    """Return what is taken out of a line or kept in it, but for numbers."""
    _, *nodes = parse(line, form).root.walk()
    return [node for node in nodes if node.piece_kind != "number"]


@pytest.mark.parametrize(
    ("opening", "closing", "form"),
    [
        ("&lt;b&gt;", "&lt;/b&gt;", "xml"),
        ("&lt;b&gt;", "&lt;/b&gt;", "html"),
        ("&lt;a href=\"x?a=1&amp;amp;b=2\" class='y'&gt;", "&lt;/a&gt;", "xml"),
        ("<0>", "</0>", "html"),
        ("[b]", "[/b]", "xml"),
        ("**", "**", "html"),
    ],
)
def test_a_pair_moves_with_its_words(opening: str, closing: str, form: str) -> None:
    marked = parse(f"a {opening}b{closing}, c", form)
    assert marked.text == "a b, c"
    links = [(0, 1, 5, 6), (2, 3, 2, 3), (5, 6, 0, 1)]
    assert restore(marked, "C B A", links) == f"C {opening}B{closing} A"
    # Inside and around an element, and beside another pair.
    line = f"<i>{opening}b <u>c</u>{closing}</i> {opening}d{closing}"
    marked = parse(line, form)
    assert marked.text == "b c d"
    assert restore(marked, "b c d", [(at, at + 1, at, at + 1) for at in (0, 2, 4)]) == line


@pytest.mark.parametrize(
    ("line", "form"),
    [
        ("a &lt;br&gt; b", "xml"),
        ("a &lt;b&gt; b", "html"),
        ('a &lt;img src="x"/&gt; b', "html"),
        ("a <3/> b", "html"),
        ("a `b c` d", "html"),
        (r"A b.\nC d.", "html"),
    ],
)
def test_what_has_no_content_stays(line: str, form: str) -> None:
    (node,) = nodes_of(line, form)
    assert node.opening in line
    marked = parse(line, form)
    translation = " ".join(marked.text.split())
    words = (re.finditer(r"\w+", text) for text in (marked.text, translation))
    links = [(*one.span(), *other.span()) for one, other in zip(*words, strict=True)]
    assert restore(marked, translation, links) == line


NO_PARTNER = r"""
a␣&lt;␣b␣&gt;␣c give␣&lt;file&gt;␣now <0>␣a a␣</0>␣b 1<2␣and␣3>2 a␣<2b>␣c {a&gt;␣b a␣&lt;1}␣b [b]␣a
[note]a[/note] see␣[1]␣and␣[/b] a␣**␣b␣**␣c 2**3**4 *** **** **␣a un**happy**ness बि**खु**शी a**
`a'␣and␣`b' ``a'' a␣`␣b use␣\n␣for␣ends docs\notes \\n un`a`b
"""


@pytest.mark.parametrize("line", listed(NO_PARTNER))
def test_what_has_no_partner_is_text(line: str) -> None:
    assert [node for node in nodes_of(line, "xml") if node.piece_kind != "placeholder"] == []


def test_pairs_never_overlap_elements_or_each_other() -> None:
    assert parse("<b>a [i]b</b> c[/i]", "html").text == "a [i]b c[/i]"
    assert parse("[b] <i>a [/b] b</i>", "html").text == "[b] a [/b] b"
    assert parse("[b]a **b[/b] c**", "html").text == "a **b c**"


def test_entities_in_escaped_html_are_read_and_written_as_they_were() -> None:
    marked = parse("&lt;b&gt;&amp;quot;a&amp;quot;&lt;/b&gt; R&amp;D&amp;nbsp;b &amp;foo;", "xml")
    assert marked.text == '"a" R&D\xa0b &foo;'
    found = restore(marked, '"A" R&D\xa0B &foo;', [(1, 2, 1, 2)])
    assert found == "&amp;quot;&lt;b&gt;A&lt;/b&gt;&amp;quot; R&amp;D&amp;nbsp;B &amp;foo;"
    assert parse("&amp;quot;a", "html").text == "&quot;a"


NEXT = {"X": "Y", "Y": "Z", "Z": "X"}


@pytest.mark.parametrize(
    ("markup", "texts"),
    [
        ("<![CDATA[<p>X <b>Y</b>.</p>]]>", ["X Y."]),
        ("X <![CDATA[Y<br>Z &amp; Y\nZ]]> X", ["X", "Y", "Z & Y Z", "X"]),
        ("<g><![CDATA[ X & Y ]]></g>", ["X & Y"]),
        ("&lt;p&gt;X &amp;amp; Y&lt;/p&gt;&lt;p&gt;Z&lt;/p&gt;", ["X & Y", "Z"]),
        ("X.&lt;br/&gt;Y", ["X.", "Y"]),
    ],
)
def test_escaped_html_is_cut_at_its_breaks(markup: str, texts: list[str]) -> None:
    marked = MarkedLines.of(markup, "xml")
    assert [line.text.strip() for line in marked.lines] == texts
    translation = re.sub("[XYZ]", lambda letter: NEXT[letter[0]], marked.text)
    words = [word.span() for word in re.finditer(r"\w", translation)]
    expected = re.sub("[XYZ]", lambda letter: NEXT[letter[0]], markup)
    assert marked.restore(translation, [(*word, *word) for word in words], []) == expected
