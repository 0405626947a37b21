"""Units of documents: lines with markup that are translated, and how translations are written."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

_ENTITY = re.compile(r"&(?:#\d+|#[xX][0-9a-fA-F]+|[A-Za-z]\w*);")


@dataclass(frozen=True)
class Unit:
    """A part of a document that is translated."""

    line: str  # its markup
    before: str = ""  # what is written around a translation
    after: str = ""
    otherwise: str = ""  # what is written if there is none
    spell: Callable[[str], str] = str  # makes what is written of a translation's markup

    def write(self, translation: str | None) -> str:
        """Return what stands in the document, given the translation of the line, or None."""
        if translation is None:
            return self.otherwise
        return self.before + self.spell(translation) + self.after


def as_html(text: str) -> str:
    """Return text that may have tags, but need not escape anything, as HTML."""
    return text if _ENTITY.search(text) else text.replace("&", "&amp;")


def as_text(translation: str, source: str) -> str:
    """Return the translation of `as_html(source)` in the form of the source."""
    if _ENTITY.search(source):
        return translation
    return translation.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
