"""Tags come back: all of them, once, nested as before, and the text between them is unchanged.

The translator here is a stand-in that moves, drops and changes words at random, and knows from
which word each comes, or is wrong about it.
"""

from __future__ import annotations

import html
import re
import time
from collections import Counter
from random import Random
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.translate.markup import FORMS, Marked, parse, tokenize
from nmt.translate.tag_layout import Link, restore


def aligned(marked: Marked, translation: str, pairs: list[tuple[int, int]]) -> str:
    """Put tags back, given pairs of words."""
    src, tgt = (
        [word.span() for word in re.finditer(r"\S+", text)] for text in (marked.text, translation)
    )
    return restore(marked, translation, [(*src[one], *tgt[other]) for one, other in pairs])


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


WORDS = (
    "ein",
    "Haus",
    "é",
    "weiß",
    "&amp;",
    "a&nbsp;b",
    "x<sub/>y",
    "猫は",
    "हिन्दी",
    "(so)",
    "nie.",
    "-",
)
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
    return Counter(
        (child.get("id", child.tag), parent.get("id", ""))
        for parent in root.iter()
        for child in parent
    )


@pytest.mark.parametrize("form", FORMS)
def test_ten_thousand_fragments_lose_nothing(form: str) -> None:
    random = Random(form)
    for number in range(5_000):
        is_broken = number % 2 == 1
        parts = broken(random) if is_broken else well_formed(random)
        line = "".join(parts)
        marked = parse(line, form)
        text, links = translated(marked.text, random)
        found = restore(marked, text, links)
        tags = Counter(token.raw for token in tokenize(line, form) if token.kind != "text")
        if not is_broken:
            given = Counter(part for part in parts if part.startswith("<"))
            given["<sub/>"] += line.count("<sub/>")
            assert tags == +given, line
        again = Counter(token.raw for token in tokenize(found, form) if token.kind != "text")
        assert again == tags, (line, found)
        if marked.text.strip():
            assert parse(found, form).text == text, (line, found)
        else:
            assert found == line
        if not is_broken:
            assert tree(found) == tree(line), (line, found)
            without = re.sub(r"""<!--.*?-->|<(?:[^<>"']|"[^"]*"|'[^']*')*>""", "", found)
            assert html.unescape(without) == text or not marked.text.strip(), (line, found)


FRAGMENTS = st.lists(
    st.one_of(
        st.text(alphabet="ab <>/&;\"'=!-[]?é {}%s1\t", max_size=8),
        st.sampled_from((*WORDS, *BROKEN, "<b>", "</b>", "<i>", "</i>", "<br>", "<x/>", "<code>")),
        st.sampled_from(("</code>", "<script>", "</script>", "<a translate=no>", "</a>", "&#10;")),
        st.sampled_from(("<?x?>", "<![CDATA[", "]]>", "<ph id='1'>", "</ph>", "&quot;", "&foo;")),
    ),
    max_size=12,
).map("".join)


@settings(max_examples=500, deadline=None)
@given(FRAGMENTS, st.sampled_from(FORMS), st.integers(0, 1000))
def test_any_text_keeps_its_tags(line: str, form: str, seed: int) -> None:
    marked = parse(line, form)
    assert "".join(token.raw for token in tokenize(line, form)) == line
    text, links = translated(marked.text, Random(seed))
    found = restore(marked, text, links)
    for tag in {token.raw for token in tokenize(line, form) if token.kind != "text"}:
        assert found.count(tag) >= line.count(tag) or "<script" in line
