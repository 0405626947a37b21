"""Format strings in catalogues: a program fills in its values in the order of the original text.

A translation has the directives of its source, such as `%s`. If it has them in another order, they
are numbered (`%2$d`), or it is refused if the program's language has no numbers.

Source: https://www.gnu.org/software/gettext/manual/html_node/Translators-for-other-Languages.html.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque

from nmt.markup.kept_pieces import PIECE

_FLAG = re.compile(r"^#,(?:.*,)?\s*(?:possible-)?(?!no-)([a-z][a-z+-]*)-format\b", re.MULTILINE)
_PRINTF = re.compile(
    r"%(?:\d+%|\{\w+\}|(?:\d+\$|\(\w+\)|<(?!PRI)\w+>)?(?:[-+ #0I]|'(?:[^\w\s])?)*(?:\*|\d+)?"
    r"(?:\.(?:\*|\d+)?)?(?:hh?|ll?|[Lqjzt])?(?:[A-Za-z@]|<PRI\w+>))|%%?"
)
_BRACES = re.compile(r"\{[^{}]*\}")
_NUMBERS = re.compile(r"%(?:L?\d+|n\b)")
_TILDES = re.compile(r"~[\d,'@:]*(?:\n\s*|\S)")
_VARIABLES = re.compile(r"\$(?:\w+|\{\w+\})")
_DIRECTIVES = {
    **dict.fromkeys(("csharp", "java", "python-brace", "perl-brace", "rust", "c++"), _BRACES),
    **dict.fromkeys(("qt", "qt-plural", "kde", "kde-kuit", "ycp", "smalltalk"), _NUMBERS),
    **dict.fromkeys(("lisp", "scheme"), _TILDES),
    "sh": _VARIABLES,
}
"""What stands for a value, by language; in all others, as in C."""
_IS_NUMBERED = {
    *("awk", "boost", "c", "elisp", "gcc-internal", "gfc-internal", "java-printf", "javascript"),
    *("librep", "objc", "perl", "php", "ruby", "sh-printf", "tcl"),
}
"""Languages that have `%1$s`."""
_IS_NAMED = re.compile(r"%\d+[$%]|%L?\d+\Z|%[mn]\Z|%[({]|%<(?!PRI)|\{\w|\$|~\d*[%~\n]")
"""What its place means nothing to."""
_KEPT = re.compile(r"<var nmt-kept>(.*?)</var>")


def format_of(comments: str) -> str:
    """Return the language of an entry's format strings, by its flags; "" if it has none."""
    flag = _FLAG.search(comments)
    return flag[1] if flag else ""


def protect_directives(text: str, language: str) -> str:
    """Make elements of directives that are no pieces (`kept_pieces`) otherwise."""
    pieces = [piece.span() for piece in PIECE.finditer(text)]

    def protect(directive: re.Match[str]) -> str:
        start, end = directive.span()
        is_piece = any(first <= start and end <= last for first, last in pieces)
        is_plain = is_piece or " " in directive[0] or directive[0] in ("%", "%%")
        return directive[0] if is_plain else f"<var nmt-kept>{directive[0]}</var>"

    return _pattern(language).sub(protect, text) if language else text


def fit_directives(translation: str, source: str, language: str) -> str | None:
    """Return a translation with its directives as the language needs them; None: impossible.

    translation: of `protect_directives(source, language)`.
    """
    translation = _KEPT.sub(r"\1", translation)
    if not language:
        return translation
    if not have_same_directives(translation, source, language):
        return None
    ordered, present = (
        [found for found in _directives(text, language) if not _IS_NAMED.match(found)]
        for text in (source, translation)
    )
    if ordered == present:
        return translation
    if language not in _IS_NUMBERED or any("*" in found for found in ordered):
        return None
    numbers: dict[str, deque[int]] = defaultdict(deque)
    for number, directive in enumerate(ordered, start=1):
        numbers[directive].append(number)

    def numbered(directive: re.Match[str]) -> str:
        waiting = numbers[directive[0]]
        return f"%{waiting.popleft()}${directive[0][1:]}" if waiting else directive[0]

    return _pattern(language).sub(numbered, translation)


def have_same_directives(text: str, other: str, language: str) -> bool:
    """Tell whether two texts have the same directives, in any order."""
    return Counter(_directives(text, language)) == Counter(_directives(other, language))


def _directives(text: str, language: str) -> list[str]:
    """Return what stands for a value; also a lone percent sign, which would be damage."""
    return [found[0] for found in _pattern(language).finditer(text) if found[0] != "%%"]


def _pattern(language: str) -> re.Pattern[str]:
    return _DIRECTIVES.get(language, _PRINTF)
