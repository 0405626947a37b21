"""Units of documents: lines with markup that are translated, and how translations are written."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from nmt.data.composition import compose
from nmt.data.words import LETTERS, MARKS, is_wide
from nmt.markup.breaks import MarkedLines
from nmt.markup.kept_pieces import PIECE, piece_pattern

_ENTITY = re.compile(r"&(?:#\d+|#[xX][0-9a-fA-F]+|[A-Za-z]\w*);")

_TAG = re.compile(r"<([A-Za-z][^\s<>/]*+)(?:\s[^<>/=\"']*+)?>")
_LONE = " nmt-lone/>"  # how such a tag ends: as one without content
_HTML = frozenset(
    "a abbr b big br center code dd del div dt em font h1 h2 h3 h4 h5 h6 hr i img ins kbd li "
    "mark ol p pre q s samp small span strike strong sub sup table td th tr tt u ul var wbr".split()
)
"""Elements that may stand in text without their closing tag."""
_NOT_TEXT = rf"<var\b[^<>]*>.{{0,200}}?</var>|<[^<>]*>|{PIECE}|&#?(?!amp;)\w{{1,31}};"
_AT_END = "\u3040-\u30ff\u3400-\u9fff가-힣"
"""Letters of Chinese, Japanese and Korean, in which a label ends with its shortcut."""
_MNEMONIC = re.compile(
    rf"{_NOT_TEXT}|(?<=[{_AT_END}])\((?P<apart>&amp;|_)(?P<key>[A-Z0-9])\)"
    rf"|(?<![^\W_])(?<![\\{MARKS}])(?P<before>{LETTERS}*+)"
    rf"(?P<mark>&amp;|_)(?P<after>{LETTERS}+)(?!;)"
)
_LETTER = re.compile(rf"{_NOT_TEXT}|&amp;|(?P<letter>[^\W\d_])")


class Unit(NamedTuple):
    """A part of a document that is translated."""

    marked: MarkedLines
    before: str = ""  # what is written around a translation
    after: str = ""
    otherwise: str = ""  # what is written if there is none
    spell: Callable[[str], str | None] = str
    """Makes what is written of a translation's markup; None if the document does not allow it."""

    @property
    def line(self) -> str:
        """Its markup."""
        return self.marked.markup

    def write(self, translation: str | None) -> str | None:
        """Return what stands in the document, given the translation of the line.

        None: there is none that the document allows, and `otherwise` stands there.
        """
        spelt = None if translation is None else self.spell(translation)
        return None if spelt is None else self.before + spelt + self.after


class Reading(NamedTuple):
    """What the reader of a type finds in a document."""

    parts: list[str | Unit | None]
    """What stays, and what is translated. None is a unit that has a translation already."""
    sources: Sequence[str] = ()  # of all units; none: those of what is translated
    lacks_language: bool = False


def as_html(text: str, *, brackets_are_text: bool = False) -> str:
    """Return text that may have tags, but need not escape anything, as HTML.

    What looks like a tag but is none of HTML, such as the <file> of a usage, is one thing. It is
    text if it has several words and begins with a capital, such as <Unknown user>.

    brackets_are_text: whether all that looks like a tag but is none is text.
    """
    escapes = _ENTITY.search(text) is not None
    closed = set(re.findall(r"</([^\s<>]+)", text))

    def written(tag: re.Match[str]) -> str:
        if tag[1] in closed or tag[1].lower() in _HTML:
            return tag[0]
        before = max(0, tag.start() - 1)
        piece = piece_pattern().match(tag.string, before) if tag.string[before] == "%" else None
        if piece is not None and piece.end() > tag.end():  # such as %<name>s
            return tag[0]
        is_text = brackets_are_text or (tag[1].istitle() and len(tag[0].split()) > 1)
        return f"&lt;{tag[0][1:-1]}&gt;" if is_text and not escapes else tag[0][:-1] + _LONE

    return _TAG.sub(written, text if escapes else text.replace("&", "&amp;"))


def as_text(translation: str, source: str) -> str:
    """Return the translation of `as_html(source)` in the form of the source."""
    translation = translation.replace(_LONE, ">")
    if _ENTITY.search(source):
        return translation
    return translation.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def without_mnemonic(unit: Unit) -> Unit:
    """Return a unit of a catalogue without the sign for a shortcut, as in `_Open` and `E&amp;xit`.

    A translation gets it before its first letter; in Chinese, Japanese and Korean, as `(_O)` at the
    end. A source may have it there, too.
    """
    line = unit.line
    plain = re.sub(_NOT_TEXT, "", line)
    if plain.count("&") + plain.count("_") != 1 or "\n" in plain:
        return unit
    signs = (found for found in _MNEMONIC.finditer(line) if found["mark"] or found["apart"])
    mnemonic = next(signs, None)
    if mnemonic is None or not _is_mnemonic(mnemonic, begins_large=plain.lstrip("_")[:1].isupper()):
        return unit
    sign = mnemonic["apart"] or mnemonic["mark"]
    letter = mnemonic["key"] or mnemonic["after"][0]

    def spell(translation: str) -> str | None:
        found = next((match for match in _LETTER.finditer(translation) if match["letter"]), None)
        if found is None or sign in re.sub(_NOT_TEXT, "", translation):  # as of a memory
            return unit.spell(translation)
        position, written = found.start(), sign
        if is_wide(found[0]) or re.match(f"[{_AT_END}]", found[0]):
            written = f"({sign}{letter.upper()})"
            position = len(translation.rstrip(" .…:：。"))
        return unit.spell(translation[:position] + written + translation[position:])

    start, end = mnemonic.span(0 if mnemonic["apart"] else "mark")
    marked = MarkedLines.of(line[:start] + line[end:], unit.marked.form, line)
    return unit._replace(marked=marked, spell=spell)


def _is_mnemonic(found: re.Match[str], *, begins_large: bool) -> bool:
    """Tell whether a sign is before or in a word of a label, unlike in `R&amp;D` or `a_name`."""
    if found["apart"]:
        return True
    before, after = compose(found["before"]), compose(found["after"])
    if not before:
        return begins_large or found["mark"] != "_" or after[0].isupper()
    is_short = min(len(before), len(after)) <= 2 and len(before + after) > 3  # not drag&drop
    is_word = before.istitle() or (before.islower() and is_short and found["mark"] != "_")
    return is_word and after.islower()
