"""Directives of format strings, by language: where they are, and whether a translation has them.

A program fills its values into a format string in the order of the original text, unless its
directives, such as `%2$d` or `{name}`, say which value each takes. A translation that takes others
makes it crash, or print rubbish. `nmt` copies directives, so it compares what they look like, which
is stricter than what `msgfmt --check-format` does.

Source: https://www.gnu.org/software/gettext/manual/html_node/Translators-for-other-Languages.html.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import count

from nmt.markup.kept_pieces import piece_pattern

_ANY = (
    r"%(?:%|\|[^|%\s]*+\||(?P<number>\d{1,9}(?:%|[$:][-+ #0',.\d]*+[hlLqjzt]*[A-Za-z]))"
    r"|(?>(?:<\w{1,50}>|[-+ #'_=,(*.:<>\[\]\d$^])*)[hlLqjztwI]*[+#]*"
    r"(?:T\S|[A-Za-z@]|\{[^{}]*\})|[^\sA-Za-z%]*)"
)
_C = rf"%(?P<name>m)(?!\w)|%[-+ #0'\d*.$]*+<\w{{1,20}}>|{_ANY}"  # %m takes no value
_KDE = "%(?P<number>[1-9][0-9]{0,8})"
_BRACES = r"\{\{|\}\}|\{(?P<name>\w[^{}*]*+(?:\{\w*+\}[^{}*]*+)?)\}|\{[^{}]*+\}|[{}]"
_PATTERNS = {
    **dict.fromkeys(("c", "objc"), _C),
    **dict.fromkeys(("c++", "csharp", "perl-brace", "python-brace", "rust"), _BRACES),
    "java": r"''|'[^']*+'?|\{(?P<name>[^{}']*+)\}|[{}]",
    "json": r"(?P<name>\$(?:t\([^()]*+\)|\w+\$|\d(?![\d.,]*\d))|\{'[^{}']*+'\}"
    r"|@(?:\.\w+)?:(?:\w[\w.]*+|\([\w.]+\)))",  # of i18next, browser extensions and Vue
    "latex": r"(?P<name>\$\$?[^$]++\$\$?|\\\(.*?\\\)|\\\[.*?\\\]|~?\\[A-Za-z]++\*?"
    r"(?>(?:\[[^][]*\])*)(?>(?:\{(?>(?:[^{}]|\{[^{}]*\})*)\})*)|\\[^A-Za-z\s]|~)",
    "rst": r"(?P<name>``.+?``(?!`)|:[\w:+.-]+:`[^`]++`|`[^`<>]++`__?(?!\w)|\[[#*\w]++\]_(?!\w)"
    r"|(?<![\w|])\|[^\s|](?:[^|\n]{0,50}[^\s|])?\|_{0,2}(?![\w|]))",
    "kde": _KDE,
    "kde-kuit": rf"{_KDE}|&(?!#?\w++;)|<(?![^<>]*+>)",
    "perl": rf"%[-+ #0*.\d$]*+v[-+ #0*.\d]*+[A-Za-z]|{_ANY}",
    "python": r"%(?:\((?P<name>(?>(?:[^()]|\([^()]*+\))*))\))?[-+ #0]*+[*\d]*+(?:\.[*\d]*+)?[hlL]?"
    r"[%csridouxXeEfgG]|%",
    "qt": "%L?(?P<number>[0-9]{1,2})",
    "qt-plural": "%L?n",
    "sh": r"\$(?P<brace>\{)?(?P<name>[A-Za-z_]\w*+)(?(brace)\})|\$",
    **dict.fromkeys(("smalltalk", "ycp"), f"%%|{_KDE}|%"),
}
"""By the flag in a catalogue, without `-format`. A group is what says which value one takes."""
_PAIRS = {
    "latex": re.compile(
        r"\$\$?[^$]++\$\$?|(?P<before>\\(?:emph|text(?:bf|it|md|normal|rm|sc|sf|sl|up)|underline"
        r"|footnote|caption|mbox|enquote|title|chapter|(?:sub)*section|paragraph)\*?\{)"
        r"(?P<text>(?>(?:[^{}]|\{[^{}]*\})*))(?P<after>\})"
    ),
    "rst": re.compile(
        r"``.+?``(?!`)|(?P<before>(?P<star>(?<![\w*\\`])\*(?=[^\s*]))|(?::[\w:+.-]+:)?`)"
        r"(?P<text>[^*`<>]*[^*`<>\s])(?P<after>(?(star)\*(?![\w*])|\s*<[^`<>]+>`_{0,2}))"
    ),
}
"""What stands around text, by language of markup."""
_WHOLE = ("json", *_PAIRS)  # whose directives cannot be text
_GET_NUMBERS = frozenset(("c", "javascript", "objc", "perl", "php"))
"""Languages of which a directive that is counted can get a number, as in `%2$s`."""
_SIMPLE = re.compile(r"%[-+ #0']*\d*(?:\.\d+)?[hlLqjzt]*[A-Za-z@]", re.ASCII)
_UNREAD = ("lisp", "scheme")
"""Languages with loops and branches: what has a directive, which begins with `~`, never fits."""
_NO_VALUES = ("%%", "''")
_KEPT = re.compile(r"<var nmt-kept>(.*?)</var>", re.DOTALL)
_PAIRED = re.compile(r"<a nmt-(\d+)>(.*?)</a>", re.DOTALL)
_OPEN = re.compile(r"<(?![^<>]*>)")


@cache
def _pattern(language: str) -> re.Pattern[str]:
    return re.compile(_PATTERNS.get(language, _ANY), re.ASCII)


def _find(text: str, language: str) -> Iterator[re.Match[str]]:
    """Yield directives, and what looks like them, that take a value."""
    for found in _pattern(language).finditer(text):
        if found[0] not in _NO_VALUES:
            yield found


def protect_directives(text: str, language: str) -> str:
    """Make elements of directives that are no pieces (`kept_pieces`) otherwise, and of pairs."""
    if not language:
        return text
    if language in _PAIRS:
        numbers = count()
        text = _PAIRS[language].sub(
            lambda one: f"<a nmt-{next(numbers)}>{one['text']}</a>" if one["text"] else one[0], text
        )
    pieces = deque(piece.span() for piece in piece_pattern().finditer(text))
    written, last = "", 0
    for directive in _find(text, language):
        start, end = directive.span()
        while pieces and pieces[0][1] < end:
            pieces.popleft()
        is_piece = bool(pieces) and pieces[0][0] <= start
        is_own = language in _WHOLE or (
            directive[0] != "%" and directive[0][0] in "%{$" and " " not in directive[0]
        )
        if is_own and not is_piece:
            written += f"{text[last:start]}<var nmt-kept>{_OPEN.sub('&lt;', directive[0])}</var>"
            last = end
    return written + text[last:]


def fit_directives(translation: str, source: str, languages: Sequence[str]) -> str | None:
    """Return a translation with its directives as all these languages need them; None: impossible.

    If their order changes, they get numbers, if there are any in the only language.

    translation: of `protect_directives(source, languages[-1])`.
    """
    translation = _KEPT.sub(lambda kept: kept[1].replace("&lt;", "<"), translation)
    if languages[-1] in _PAIRS:
        pairs = [one for one in _PAIRS[languages[-1]].finditer(source) if one["text"]]
        translation = _PAIRED.sub(
            lambda one: one[2].join(pairs[int(one[1])].group("before", "after")), translation
        )
    if all(take_the_same(source, translation, language) for language in languages):
        return translation
    language, *others = languages
    expected, present = (list(_find(text, language)) for text in (source, translation))
    texts = [directive[0] for directive in expected]
    is_moved = sorted(texts) == sorted(directive[0] for directive in present)
    if others or language not in _GET_NUMBERS or not is_moved:
        return None
    counted = [directive for directive in present if directive.lastgroup is None]
    are_simple = all(_SIMPLE.fullmatch(directive[0]) for directive in counted)
    if not are_simple or any(directive.lastgroup == "number" for directive in present):
        return None
    numbers: dict[str, deque[int]] = defaultdict(deque)
    in_order = (directive[0] for directive in expected if directive.lastgroup is None)
    for number, text in enumerate(in_order, start=1):
        numbers[text].append(number)
    written, last = "", 0
    for directive in counted:
        number = numbers[directive[0]].popleft()
        written += f"{translation[last : directive.start()]}%{number}${directive[0][1:]}"
        last = directive.end()
    return written + translation[last:]


def take_the_same(source: str, translation: str, language: str) -> bool:
    """Tell whether a translation has the directives of its source.

    They must be in the same order, unless all have numbers or names.
    """
    if language in _UNREAD:
        return "~" not in source + translation
    if not language:
        return True
    expected, present = (list(_find(text, language)) for text in (source, translation))
    texts, found = ([directive[0] for directive in both] for both in (expected, present))
    are_given = all(directive.lastgroup for directive in (*expected, *present))
    return set(texts) == set(found) if are_given else texts == found
