"""Units of documents: lines with markup that are translated, and how translations are written."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

_ENTITY = re.compile(r"&(?:#\d+|#[xX][0-9a-fA-F]+|[A-Za-z]\w*);")

_TAG = re.compile(r"<([A-Za-z][^\s<>/]*+)(?:\s[^<>/=\"']*+)?>")
_LONE = " nmt-lone/>"  # how such a tag ends: as one without content
_HTML = {
    *("a", "abbr", "b", "big", "br", "center", "code", "dd", "del", "div", "dt", "em", "font"),
    *("h1", "h2", "h3", "h4", "h5", "h6", "hr", "i", "img", "ins", "kbd", "li", "mark", "ol", "p"),
    *("pre", "q", "s", "samp", "small", "span", "strike", "strong", "sub", "sup", "table", "td"),
    *("th", "tr", "tt", "u", "ul", "var", "wbr"),
}
"""Elements that may stand in text without their closing tag."""


@dataclass(frozen=True)
class Unit:
    """A part of a document that is translated."""

    line: str  # its markup
    before: str = ""  # what is written around a translation
    after: str = ""
    otherwise: str = ""  # what is written if there is none
    spell: Callable[[str], str | None] = str
    """Makes what is written of a translation's markup; None if the document does not allow it."""

    def write(self, translation: str | None) -> str | None:
        """Return what stands in the document, given the translation of the line.

        None: there is none that the document allows, and `otherwise` stands there.
        """
        spelt = None if translation is None else self.spell(translation)
        return None if spelt is None else self.before + spelt + self.after


def as_html(text: str) -> str:
    """Return text that may have tags, but need not escape anything, as HTML.

    What looks like a tag but is none of HTML, such as the <file> of a usage, is one thing.
    """
    closed = set(re.findall(r"</([^\s<>]+)", text))

    def written(tag: re.Match[str]) -> str:
        is_tag = tag[1] in closed or tag[1].lower() in _HTML
        return tag[0] if is_tag else tag[0][:-1] + _LONE

    text = _TAG.sub(written, text)
    return text if _ENTITY.search(text) else text.replace("&", "&amp;")


def as_text(translation: str, source: str) -> str:
    """Return the translation of `as_html(source)` in the form of the source."""
    translation = translation.replace(_LONE, ">")
    if _ENTITY.search(source):
        return translation
    return translation.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
