"""Tags come back: all of them, once, nested as before, and the text between them is unchanged.

The translator here is a stand-in that moves, drops and changes words at random, and knows from
which word each comes, or is wrong about it.
"""

import html
import re
from collections import Counter
from random import Random
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from listed import listed

from nmt.markup.file_types import FORMS
from nmt.markup.markup_tokens import elements, pair_up, tokenize
from nmt.markup.tag_writer import restore
from nmt.markup.tags import STANDING, Marked, Node, parse
from nmt.markup.text_tags import TEXT_TAG
from nmt.markup.text_units import Link


def aligned(marked: Marked, translation: str, pairs: str) -> str:
    """Put tags back, given pairs of words by their numbers, such as "01 10"."""
    src, tgt = ([one.span() for one in re.finditer(r"\S+", t)] for t in (marked.text, translation))
    links = [(*src[int(pair[0])], *tgt[int(pair[1])]) for pair in pairs.split()]
    return restore(marked, translation, links)


def translated(text: str, random: Random) -> tuple[str, list[Link]]:
    """Translate by a stand-in: words in capitals and in another order; some are lost or come twice.

    A fifth of its links are wrong.
    """
    words = list(re.finditer(r"\S+", text))
    order = sorted(words, key=lambda word: word.start() + random.uniform(-15, 15))
    found, links = "", []
    for word in order:
        for _ in range(random.choice((0, 1, 1, 1, 1, 1, 1, 2))):
            found += " " if found else ""
            start = len(found)
            found += word[0].upper()
            source = random.choice(words) if random.random() < 0.2 else word
            links.append((*source.span(), start, len(found)))
    return found, links


def nodes(marked: Marked) -> list[Node]:
    """Return all that is taken out of a line."""
    _, *found = marked.root.walk()
    return found


def is_text(found: str, text: str, marked: Marked) -> bool:
    """Tell whether a text is a translation, except for spaces around what stands for something."""
    if any(node.piece_kind == STANDING for node in nodes(marked)):
        found, text = ("".join(one.split()) for one in (found, text))
    return found == text


WORDS = listed("ein Haus é weiß &amp; a&nbsp;b x<sub/>y 猫は हिन्दी (so) nie. -")
NAMES = ("b", "i", "a", "span", "g", "x-y")
BROKEN = ("<", "<b", "< b >", "</>", "&", "&amp", "<a href='x", "<!-- ", "-->", '"', "<!", "]]>")


def well_formed(random: Random, depth: int = 0) -> list[str]:
    """Write a fragment as a list of texts and tags; each tag has a number."""
    parts: list[str] = []
    for _ in range(random.randrange(1, 5)):
        number = random.randrange(10**9)
        kind = random.random()
        if kind < 0.5 or depth > 3:
            parts += [random.choice(WORDS), random.choice((" ", " ", " ", ""))]
        elif kind < 0.6:
            parts.append(f'<br id="{number}"/>')
        elif kind < 0.65:
            parts.append(f"<!-- {number} -->")
        else:
            name = random.choice(NAMES)
            inner = well_formed(random, depth + 1) if random.random() < 0.9 else []
            parts += [f"<{name} id='{number}' title=\"a > 1\">", *inner, f"</{name}>"]
    return parts


def broken(random: Random) -> list[str]:
    """Write a fragment with tags that are lost, doubled, in disorder or not even tags."""
    parts = well_formed(random)
    for _ in range(random.randrange(1, 4)):
        place, other = random.randrange(len(parts)), random.randrange(len(parts))
        match random.randrange(4):
            case 0:
                del parts[place]
                parts = parts or ["x"]
            case 1:
                parts.insert(place, parts[other])
            case 2:
                parts[place], parts[other] = parts[other], parts[place]
            case 3:
                parts.insert(place, random.choice(BROKEN))
    return parts


def tree(fragment: str) -> Counter[tuple[str, str]]:
    """Return each tag with the one that it is in, by number."""
    root = ElementTree.fromstring(f"<root id='root'>{fragment}</root>".replace("&nbsp;", "\xa0"))
    found = ((child, parent) for parent in root.iter() for child in parent)
    return Counter((child.get("id", child.tag), parent.get("id", "")) for child, parent in found)


def pairs_in(fragment: str, form: str) -> Counter[tuple[str, str]]:
    """Return the opening and closing tags that belong together."""
    tags = elements(fragment, form)
    return Counter((tags[one].raw, tags[other].raw) for one, other in pair_up(tags, form).items())


@pytest.mark.parametrize("count", [1_000, pytest.param(5_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("form", FORMS)
def test_fragments_lose_nothing(form: str, count: int) -> None:
    random = Random(form)
    for number in range(count):
        is_broken = number % 2 == 1
        parts = broken(random) if is_broken else well_formed(random)
        line = "".join(parts)
        marked = parse(line, form)
        text, links = translated(marked.text, random)
        found = restore(marked, text, links, random.sample(links, len(links) // 2))
        tags = Counter(token.raw for token in tokenize(line, form) if token.kind != "text")
        if not is_broken:
            given = Counter(part for part in parts if part.startswith("<"))
            given["<sub/>"] += line.count("<sub/>")
            assert tags == +given, line
        again = Counter(token.raw for token in tokenize(found, form) if token.kind != "text")
        assert again == tags, (line, found)
        assert pairs_in(found, form) == pairs_in(line, form), (line, found)
        if marked.has_words:
            is_whole = TEXT_TAG.search(found) or is_text(parse(found, form).text, text, marked)
            assert is_whole, (line, found)
        else:
            assert found == line
        if not is_broken:
            assert tree(found) == tree(line), (line, found)
            without = re.sub(r"""<!--.*?-->|<(?:[^<>"']|"[^"]*"|'[^']*')*>""", "", found)
            without = html.unescape(without)
            assert is_text(without, text, marked) or not marked.has_words, (line, found)


@pytest.mark.parametrize(
    ("line", "translation", "pairs", "expected"),
    [
        # An element goes where its words go, with what is nested in it, and without full stops.
        (
            "Click <b>the red <i>button</i></b> now.",
            "Jetzt klicken Sie den roten Knopf.",
            "40 01 02 13 24 35",
            "Jetzt klicken Sie <b>den roten <i>Knopf</i></b>.",
        ),
        # Neighbours change places.
        ("<b>a</b> <i>b</i> <u>c</u>", "C B A", "20 11 02", "<u>C</u> <i>B</i> <b>A</b>"),
        # A tag by itself stays beside the word that it touches, or else before the next one.
        ("a b<br/> c", "C A B", "20 01 12", "C A B<br/>"),
        # Elements without a translation are empty; without any alignment, places are estimated.
        ("a <b>b</b> c", "A C", "00 21", "A <b></b>C"),
        # The smaller of two neighbours chooses first, and they do not overlap.
        ("<b>a b c d</b> <i>e</i>", "A B E C D", "00 11 42 23 34",
         "<b>A B</b> <i>E</i> C D"),
        # A tag does not get into an element that it was not in.
        ("<b>a b c d</b> <br/>e", "A B E C D", "00 11 42 23 34",
         "<br/><b>A B E C D</b>"),
        # A piece that stays does not replace what comes from other words.
        ("<code>a b c d</code> e", "A B E C D", "00 11 42 23 34",
         "<code>a b c d</code> E C D"),
        # Punctuation is in an element as in the source, at the end of a line also if misaligned.
        ("b <b>a</b>, c", "B A, C", "00 11 22", "B <b>A</b>, C"),
        # A full stop or comma is no translation of a word, but another sign may be.
        ("b c <b>a</b> d", "B , C D", "00 21 12 33", "B , C <b></b>D"),
        # What is broken: a tag without a partner reaches to the start or end of what it is in, and
        # overlapping pairs come apart.
        ("</b> a <b> b", "B A", "10 01", "</b><b>B A"),
        ("Two dogs</i> <a>Two</a>", "Zwei zwei Hunde", "20 01 12",
         "Zwei zwei Hunde</i><a></a>"),
        ("<p>a <b>b</i> c</b> d", "D A B C", "30 01 12 23",
         "<p>D A <b>B</i> C</b>"),
        ("<b>a <i>b</b> c</i>", "A B C", "00 11 22", "<b>A <i>B</b> C</i>"),
        ("a < b &<c", "A < B &<C", "00 11 22 33", "A &lt; B &amp;&lt;C"),
        ('<a href="x>a</a>', "A", "00", '<a href="x>A</a>'),
        # Tags within words end with them.
        ("<b>un</b>happy", "froh", "00", "<b>froh</b>"),
        # Characters are escaped as the line does.
        ("&quot;a&quot;&nbsp;&#8212;", '"A"\xa0— <>', "", "&quot;A&quot;&nbsp;&#8212; &lt;&gt;"),
        # Pieces stay, whatever they were translated to, and are put in if they are missing.
        ("Press <code>rm -r</code> or {name} 1,000 times.", "Nun rm r oder Name 1.000 Mal.",
         "00 11 22 33 44 55 66",
         "Nun <code>rm -r</code> oder {name} 1,000 Mal."),
        ("Press 5 and %s now", "Jetzt nun", "40 01", "%s Jetzt nun 5"),
        ("a <i translate='no'>big <b>dog</b></i> b", "A großer Hund B",
         "00 11 22 33", "A <i translate='no'>big <b>dog</b></i> B"),
        # Nothing to translate: the line itself.
        ("<p> {x} </p>", "Unsinn", "00", "<p> {x} </p>"),
        # A sign replaces no word, whatever is aligned to it, and a symbol does.
        ("a 👍 b", "A B", "00 11", "A 👍 B"),
        ("a 👍 b", "A ⁇ B", "00 11 22", "A 👍 B"),
        # It does not replace the full stop, and stays beside its word.
        ("a™ b", "B A", "10 01", "B A™"),
        # It parts nothing that is written together, and replaces no apostrophe.
        ("a 👍 eau", "A l'eau", "00", "A 👍 l'eau"),
        # A percent sign of a format stays one.
        ("100%% b", "100 % B", "00", "100 %% B"),
        # Tags in a word come back in its copy or around its translation.
        ("H<sub>2</sub>O is water", "Wasser ist H2O", "02 11 20", "Wasser ist H<sub>2</sub>O"),
        ("10<sup>-3</sup> x<i>y</i>z", "xyz 10-3", "", "x<i>y</i>z 10<sup>-3</sup>"),
        ("<b>कि</b>ताब है", "पुस्तक है", "00 11", "<b>पु</b>स्तक है"),
        ("un<i>believ</i>able dog", "chien incroyable", "01 10", "chien <i>incroyable</i>"),
        # A piece takes the copy that is aligned to it or in its place, and replaces nothing else.
        ("set or <code>set</code> it or <code>set</code>", "set or set it or set", "",
         "set or <code>set</code> it or <code>set</code>"),
        ("set or <code>set</code> it or <code>set</code>", "set or set it or set",
         "02 11 20 33 44 55", "<code>set</code> or set it or <code>set</code>"),
        ("see 9418/tcp now", "voir 9418/TCP or", "00 11 22", "voir 9418/TCP or"),
        # Pieces of one text may change places.
        ('a <code id="1">x y</code> b <code id="2">x y</code>', "b x y a x y", "30 41 52 03 14 25",
         'b <code id="2">x y</code> a <code id="1">x y</code>'),
    ],
)  # fmt: skip
def test_tags_go_with_their_words(line: str, translation: str, pairs: str, expected: str) -> None:
    assert aligned(parse(line, "html"), translation, pairs) == expected


@pytest.mark.parametrize("line", ["-", "<td>&times;</td>", "<b>:</b> |", "$", "{name} - <br>"])
def test_a_line_without_letters_or_digits_is_not_changed(line: str) -> None:
    assert restore(parse(line, "html"), "Erfundene Worte.", []) == line


@pytest.mark.parametrize(
    ("line", "translation", "expected"),
    [
        ("see here, {name}.", "siehe hier", "siehe hier {name}"),
        ("on his head {name} now", "auf dem Kopf.", "auf dem Kopf {name}."),
        ("see ({name})", "siehe", "siehe {name}"),
        ("look 7", "schaut zu, 8", "schaut zu, 7"),
    ],
)
def test_a_piece_of_nothing_touches_no_word(line: str, translation: str, expected: str) -> None:
    words = re.finditer(r"\w+", translation)
    source = re.search(r"\w+", line.replace("{name}", "      "))
    assert source is not None
    links = [(*source.span(), *word.span()) for word in words]
    assert restore(parse(line, "html"), translation, links) == expected


@pytest.mark.parametrize(
    ("line", "translation", "expected"),
    [
        # Inside an element, it leaves other words alone, and spaces stay outside.
        ("see <b>{x}</b> now", "SEE NOW", "SEE <b>{x}</b> NOW"),
        ("see now <a>{x}</a>", "SEE NOW", "SEE NOW <a>{x}</a>"),
        ("see <a>{x}</a> <b>now</b>", "SEE NOW", "SEE <a>{x}</a> <b>NOW</b>"),
        # As in the source, it touches a word.
        ("see<sup>1</sup> now<sup>2</sup>", "SEE NOW", "SEE<sup>1</sup> NOW<sup>2</sup>"),
        ("see<sup>1</sup>, now", "SEE, NOW", "SEE<sup>1</sup>, NOW"),
    ],
)
def test_a_new_piece_has_spaces_of_its_source(line: str, translation: str, expected: str) -> None:
    marked = parse(line, "html")
    links = [
        (at, at + 3, translation.find(word), translation.find(word) + 3)
        for word in ("SEE", "NOW")
        if (at := marked.text.upper().find(word)) >= 0
    ]
    # All the rest of the source looks weakly at the last word.
    weaker = [
        (at, at + 1, len(translation) - 1, len(translation)) for at in range(len(marked.text))
    ]
    assert restore(marked, translation, links, weaker) == expected


@pytest.mark.parametrize("form", FORMS)
def test_signs_that_a_model_does_not_know_are_taken_out_and_come_back(form: str) -> None:
    line = "<b>😀 a</b> {x} 👍🏽👍 ™b <i>12 €, c</i> → d ✓"
    marked = parse(line, form)
    assert marked.take_signs_out(lambda sign: sign in ("€", "✓"))
    assert marked.text.split() == ["a", "{x}", "b", "12", "€,", "c", "d", "✓"]
    assert [marked.text[start:end] for start, end in marked.protected] == ["{x}", "12", "€", "✓"]
    words = [word.span() for word in re.finditer(r"\S+", marked.text)]
    translation = " ".join(marked.text.split()).upper()
    others = [word.span() for word in re.finditer(r"\S+", translation)]
    links = [(*one, *other) for one, other in zip(words, others, strict=True)]
    assert restore(marked, translation, links).lower() == line
    assert not parse("😀", form).take_signs_out(lambda _: False)
    assert not parse("a 😀", form).take_signs_out(lambda _: True)


@pytest.mark.parametrize(
    ("line", "translation", "links", "expected"),
    [
        # Nothing that is written together is replaced or parted, and spaces stay.
        ("a {x} eau", "A d'eau", [(0, 1, 0, 1), (2, 5, 2, 3), (6, 9, 4, 7)], "A {x} d'eau"),
        ("a b {x}, c", "A l'eau C", [(0, 1, 0, 1), (2, 3, 2, 3), (9, 10, 8, 9)], "A l'eau {x} C"),
        ("a ½ b", "A aujourd'hui", [(0, 1, 0, 1), (2, 3, 2, 9), (4, 5, 10, 13)],
         "A ½ aujourd'hui"),
        ("a {x} ball", "A Mit-Ball", [(0, 1, 0, 1), (2, 5, 2, 5), (6, 10, 6, 10)], "A {x}-Ball"),
        ("look {name} how", "schaut zu& wie", [(0, 4, 0, 6), (5, 11, 9, 10), (12, 15, 11, 14)],
         "schaut zu {name} wie"),
    ],
)  # fmt: skip
def test_pieces_do_not_touch_words_or_replace_parts_of_them(
    line: str, translation: str, links: list[Link], expected: str
) -> None:
    assert restore(parse(line, "html"), translation, links) == expected


@pytest.mark.parametrize(
    ("line", "form", "expected"),
    [
        ('man named <x id="1"/> sits', "xml", 'Mann namens <x id="1"/> sitzt'),
        ("man named sits <ph id='1'>n</ph>", "xml", "Mann namens sitzt <ph id='1'>n</ph>"),
        ("man<x/> named sits", "xml", "Mann<x/> namens sitzt"),
        ("man &x; named sits", "xml", "Mann &x; namens sitzt"),
        ("man <i><br> </i> named sits", "html", "Mann <i><br> </i> namens sitzt"),
        ("man <b><x/></b> named sits", "xml", "Mann <b><x/></b> namens sitzt"),
    ],
)
def test_a_stand_in_is_spaced_like_the_source(line: str, form: str, expected: str) -> None:
    marked = parse(line, form)
    words = re.finditer(r"\w+", marked.text), re.finditer(r"\w+", "Mann namens sitzt")
    links = [(*one.span(), *other.span()) for one, other in zip(*words, strict=True)]
    assert restore(marked, "Mann namens sitzt", links) == expected


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("<li translate=no>a<ul><li>b</ul><li>c", ["<li translate=no>a<ul><li>b</ul>"]),
        ("<p translate='no'>a <b>b</b> <div>c</div>", ["<p translate='no'>a <b>b</b> "]),
        ("<tr><td translate=no>a<td>b<tr translate=no><td>c<td>d</table>", [
            "<td translate=no>a", "<tr translate=no><td>c<td>d</table>",
        ]),
        ("<i>a <b class='x notranslate'>b <li>c</i>", ["<b class='x notranslate'>b <li>c"]),
        ("<code translate=yes>a</code>", []),
    ],
)  # fmt: skip
def test_an_element_of_html_may_end_without_a_closing_tag(line: str, kept: list[str]) -> None:
    assert [token.raw for token in elements(line, "html") if token.kind == "kept"] == kept


PIECES = r"""
{␣name␣} {0,␣number} {d,␣date,␣short} {{␣a␣b␣}} [%␣a.b␣%] {%␣if␣a␣%} [gallery␣id="1"␣a=b]
{name} ${a.b} #{a} %{a} {{{a}}} {a[0]} {a:>10} {:.2f} {/b} {icon/} {$user.name|escape} {$a->name}
%name% %user.first_name% %%first_name%% *|NAME|* *|IF:MEMBER|* %% $name $(Name) [[name]]
__FIRST_NAME__ ##name## ###NAME### [/gallery]
%s %1$s %(name)s %<name>s %<title>-5.2f %-5.2f %ld %llu %zu %1 %L1 %1% %n %title %entity-type @count
@entity-type %[1]d %,d %1$tY
https://a.b/c a@b.c 5 -5 1,000.5 12:30 :name :user_id \t
€ ½ § ≥ → ✓ ™ ──┐ 😀 👍🏽 👩🏽‍🚀 🇫🇷 1️⃣ ✈️ ★★☆
"""
NO_PIECES = """
100%␣of␣dogs 100␣%ige 50%off %50 %5,5␣of 20%dogs a␣@␣b [a]␣dog␣[a␣dog] __a__ #␣a at␣%dth
US$␣dogs a-5b B2B at␣12:30 a:bc so␣:D :␣dogs http: m²
"""


@pytest.mark.parametrize("piece", [*listed(PIECES), "\ue00a"])
def test_pieces_of_text_are_kept(piece: str) -> None:
    (node,) = nodes(parse(f"a {piece} b", "html"))
    assert node.piece_kind in ("placeholder", "address", "number", "symbol", "sign")
    assert node.opening == piece


@pytest.mark.parametrize("text", listed(NO_PIECES))
def test_text_like_pieces_is_translated(text: str) -> None:
    assert not [one for one in nodes(parse(text, "html")) if not re.match(r"\d", one.opening)]


@pytest.mark.parametrize("tag", ["<b>", "</b>", "<br>", "<li>", '<span class="s">'])
def test_a_tag_after_a_percent_sign_is_a_tag(tag: str) -> None:
    kinds = [token.kind for token in elements(f"<b>50%{tag}e</b>", "html") if token.raw == tag]
    assert kinds[:1] in (["open"], ["empty"], ["close"])


def test_what_nothing_comes_from_takes_what_is_weakly_linked_to_it() -> None:
    # A and B both come from a; B looks a little at b. Neighbours keep what is theirs.
    links, weaker = [(0, 1, 0, 1), (0, 1, 2, 3)], [(2, 3, 2, 3)]
    assert restore(parse("a <b>b</b>", "xml"), "A B", links, weaker) == "A <b>B</b>"
    assert restore(parse("a <x/>b", "xml"), "B A", links, [(2, 3, 0, 1)]) == "<x/>B A"
    assert restore(parse("<i>a</i> <b>b</b>", "xml"), "A B", links, weaker) == "<i>A B</i><b></b>"
    # A piece does not replace a word that is the only translation of another.
    piece = parse("a {x} b", "xml")
    links = [(0, 1, 0, 1), (2, 5, 2, 3)]
    assert restore(piece, "A B", links) == "A {x}"
    assert restore(piece, "A B", links, [(6, 7, 2, 3)]) == "A {x} B"
    links = [(0, 1, 0, 1), (0, 1, 2, 3)]
    assert (
        restore(parse("a 7 b", "xml"), "A B", [(0, 1, 0, 1), (2, 3, 2, 3)], [(4, 5, 2, 3)]) == "A 7"
    )
    assert restore(parse("a <code>b</code>", "xml"), "A B", links, weaker) == "A B <code>b</code>"


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("<ph id='1'>&lt;br/></ph>a <it>b</it>", "a b"),  # <it> of XLIFF has attributes
        ("<x:g>a <![CDATA[< b & c]]></x:g>", "a < b & c"),
        ("&foo; &eacute;&copy;", " é©"),
        ("<?php a > b ?> c", " c"),
        ("<% if a > b %>c", "c"),
    ],
)
def test_xml_has_codes_sections_and_entities_of_its_own(line: str, text: str) -> None:
    marked = parse(line, "xml")
    assert marked.text == text
    assert parse(restore(marked, text, []), "xml").text.strip() == text.strip()


def test_the_end_of_a_native_code_never_comes_before_its_beginning() -> None:
    line = '<bx id="1"/>a b<ex rid="1"/> <bpt id="2">x</bpt>c<ept id="2">y</ept> d'
    found = aligned(parse(line, "xml"), "D C B A", "30 21 12 03")
    assert found == 'D <bpt id="2">x</bpt>C<ept id="2">y</ept> <bx id="1"/>B A<ex rid="1"/>'


def test_what_is_nearly_a_number_is_read_once() -> None:
    line = "1.1" * 100_000 + "x"  # if each digit began a number, this would take minutes
    assert not parse(line, "html").root.children
    found = parse("in 3.5 v1.5 2-3x 7", "html").root.children
    assert [node.piece_kind for node in found] == ["number"] * 2


KINDS_OF_PARTS = r"""
<b> </b> <i> </i> <br> <x/> <code>
</code> <script> </script> <a␣translate=no> </a> &#10;
&lt;b&gt; &lt;/b&gt; &lt;br/&gt; <0> </0> <1/> {1> <1}
[b] [/b] ** ` \n &amp;lt; {n,␣plural,␣one␣{ }} '
😀 👍🏽 ™ € :name →→ ½
<?x?> <![CDATA[ ]]> <ph␣id='1'> </ph> &quot; &foo;
"""
FRAGMENTS = st.lists(
    st.one_of(
        st.text(alphabet="ab <>/&;\"'=!-[]?é {}%s1\t", max_size=8),
        st.sampled_from((*WORDS, *BROKEN)),
        *(st.sampled_from(listed(kind)) for kind in KINDS_OF_PARTS.strip().split("\n")),
    ),
    max_size=12,
).map("".join)


@settings(max_examples=500, deadline=None)
@given(FRAGMENTS, st.sampled_from(FORMS), st.integers(0, 1000))
def test_any_text_keeps_its_tags(line: str, form: str, seed: int) -> None:
    assert "".join(token.raw for token in tokenize(line, form)) == line
    marked = parse(line, form)
    text, links = translated(marked.text, Random(seed))
    found = restore(marked, text, links)
    assert "\n" not in found
    for tag, count in Counter(
        token.raw for token in elements(line, form) if token.kind != "text"
    ).items():
        assert found.count(tag) >= count
    assert all(node.opening in found and node.closing in found for node in nodes(marked))
    has_pieces = any(node.piece_kind not in ("", STANDING) for node in nodes(marked))
    is_plain = not has_pieces and "<script" not in line and "&" not in marked.text
    if is_plain and marked.has_words and not TEXT_TAG.search(line):
        assert is_text(parse(found, form).text, text, marked)
