"""Format strings in catalogues: a program fills in its values in the order of the original text.

A translation takes the values that its source takes, as `msgfmt --check-format` has it, or is
refused. If it has the directives of its source, such as `%s`, in another order, they are numbered
(`%2$d`) if the program's language has numbers.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque

from nmt.markup.directives import find_directives, numbered_starts, take_the_same
from nmt.markup.kept_pieces import PIECE

_FLAGS = re.compile("^#[,=](.*)", re.MULTILINE)
_FORMAT = re.compile(r"(?<![\w-])(?:possible-)?(?!no-)([a-z][a-z+-]*)-format\b")
_KEPT = re.compile(r"<var nmt-kept>(.*?)</var>", re.DOTALL)
_OPEN = re.compile(r"<(?![^<>]*>)")


def formats_of(comments: str) -> list[str]:
    """Return the languages of an entry's format strings, by its flags; one "" if it has none."""
    return _FORMAT.findall(" ".join(_FLAGS.findall(comments))) or [""]


def protect_directives(text: str, language: str) -> str:
    """Make elements of directives that are no pieces (`kept_pieces`) otherwise."""
    if not language:
        return text
    pieces = deque(piece.span() for piece in PIECE.finditer(text))
    written, last = "", 0
    for directive in find_directives(text, language):
        while pieces and pieces[0][1] < directive.end:
            pieces.popleft()
        is_piece = bool(pieces) and pieces[0][0] <= directive.start
        if not is_piece and " " not in directive.text and directive.text not in ("%", "%%"):
            escaped = _OPEN.sub("&lt;", directive.text)
            written += f"{text[last : directive.start]}<var nmt-kept>{escaped}</var>"
            last = directive.end
    return written + text[last:]


def fit_directives(translation: str, source: str, language: str) -> str | None:
    """Return a translation with its directives as the language needs them; None: impossible.

    translation: of `protect_directives(source, language)`.
    """
    translation = _KEPT.sub(lambda kept: kept[1].replace("&lt;", "<"), translation)
    if not language:
        return translation
    ordered, present = (
        [one for one in find_directives(text, language) if one.is_counted]
        for text in (source, translation)
    )
    expected, texts = ([one.text for one in directives] for directives in (ordered, present))
    starts = numbered_starts(len(expected), language)
    if starts and expected != texts and Counter(expected) == Counter(texts):
        numbers: dict[str, deque[str]] = defaultdict(deque)
        for text, start in zip(expected, starts, strict=True):
            numbers[text].append(start)
        written, last = "", 0
        for directive in present:
            start = numbers[directive.text].popleft()
            written += f"{translation[last : directive.start]}{start}{directive.text[1:]}"
            last = directive.end
        written += translation[last:]
        if take_the_same(source, written, language):
            return written
    return translation if take_the_same(source, translation, language) else None
