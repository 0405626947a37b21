"""Directives of format strings, by language: where they are, and which values they take.

It is what `msgfmt --check-format` checks: a translation that takes other values than its source
makes a program crash, or print rubbish. Each language has directives of its own, such as `%d`
or `{0}`, and rules how those with numbers, such as `%2$d`, mix with those that count. A value
has a number or a name, and a type.

Source: https://www.gnu.org/software/gettext/manual/html_node/Translators-for-other-Languages.html.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from xml.parsers import expat

_Match = re.Match[str]
_Values = dict[int | str, str]
"""Types of values by their numbers or names. The type `any` goes with all others."""

_NUMBER = r"(?:(?P<number>\d{1,9}+)\$)?"
_WIDTH_OF_C = r"(?:(?P<width>\*(?:\d{1,9}+\$)?)|\d*+)"
_PRECISION_OF_C = r"(?:\.(?:(?P<precision>\*(?:\d{1,9}+\$)?)|\d*+))?"
_INTTYPES = r"<(?P<inttype>PRI[diouxX](?:MAX|PTR|(?:LEAST|FAST)?(?:8|16|32|64)))>"
_C = (
    rf"%{_NUMBER}[-+ #0'I]*+{_WIDTH_OF_C}{_PRECISION_OF_C}"
    rf"(?:{_INTTYPES}|(?P<size>[hlLqjzZt]*+)(?P<type>[%mcCsSdiouxXeEfFgGaApn]))"
)
_BRACES, _KDE = r"\{[^{}]*+\}", "%(?P<number>[1-9][0-9]{0,8})"
_PYTHON = (
    r"%(?:\((?P<name>(?>(?:[^()]|\([^()]*+\))*))\))?[-+ #0]*+(?:(?P<width>\*)|\d*+)"
    r"(?:\.(?:(?P<precision>\*)|(?P<digits>\d*+)))?[hlL]?(?P<type>[%csridouxXeEfgG])"
)
_PYTHON_FIELD = r"(?:[A-Za-z_]\w*+|\d++)(?>(?:\.[A-Za-z_]\w*+|\[(?:[A-Za-z_]\w*+|\d++)\])*)"
_PYTHON_FORMAT = r"(?>(?>[\0-\x7f][<>=^]|[<>=^])?)[-+ ]?#?0?\d*+(?:\.\d*+)?[bcdoxXneEfFgG%]?"
_PERL = (
    r"%(?:(?P<number>[1-9]\d{0,8}+)\$)?[-+ #0]*+"
    r"(?:(?P<vector>\*(?:[1-9]\d{0,8}+\$)?(?=v))?(?P<v>v))?"
    r"(?:(?P<width>\*(?:[1-9]\d{0,8}+\$)?)|(?:[1-9]\d*+)?)"
    r"(?:\.(?:(?P<precision>\*(?:[1-9]\d{0,8}+\$)?)|\d*+))?"
    r"(?P<size>h|ll?+|L|q|V|I(?>(?:64|32)?)|)(?P<type>[%cs_pidDuUboOxXeEfFgGn])"
)


@dataclass(frozen=True)
class _Language:
    """What the directives of a language are, and how they are counted."""

    directive: str
    """Its groups `number`, `name`, `vector`, `width` and `precision` say what it takes."""
    type_of: Callable[[_Match], str | None] = lambda _: "value"
    """The type of its value; "": it takes none; None: it is damaged."""
    damage: str = "%"  # what begins a directive, and does not stand elsewhere
    apart: bool = True  # whether all directives have numbers, or all names, or all are counted
    first: int = 1
    integer: str = ""  # the type of a width that is a value
    missing: int | None = None  # how many numbers up to the highest one may be missing
    has_numbers: bool = False  # whether one that is counted gets a number, as in `%2$s`
    finish: Callable[[_Values, list[str]], Any] = lambda values, _: values
    """What is compared, of the values and the directives."""
    fit: Callable[[Any, Any], bool] = operator.eq
    """Whether a translation may take what it takes, given what its source takes."""
    reader: Callable[[str], Any] | None = None
    """Reads a text instead of `read`, if its directives are more than one after the other."""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(f"{self.directive}|(?P<damage>{self.damage})", re.ASCII)

    def read(self, text: str) -> Any:
        """Return what a text takes, to be compared; None: it is damaged."""
        if self.reader is not None:
            return self.reader(text)
        values, styles, directives = _Values(), set[str](), list[str]()
        counted = self.first
        for found in self.pattern.finditer(text):
            kind = self.type_of(found) if found["damage"] is None else None
            if kind is None:
                return None
            directives.append(found[0])
            for given, taken in self._takes(found.groupdict(), kind):
                styles.add("count" if given is None else type(given).__name__)
                key = counted if given is None else given
                counted += given is None
                if (isinstance(key, int) and key < self.first) or not _note(values, key, taken):
                    return None
        numbers = [given for given in values if isinstance(given, int)]
        gaps = max(numbers, default=0) - len(numbers)
        if (self.apart and len(styles) > 1) or (self.missing is not None and gaps > self.missing):
            return None
        return self.finish(values, directives)

    def _takes(
        self, groups: dict[str, str | None], kind: str
    ) -> Iterator[tuple[int | str | None, str]]:
        """Yield the number or name that a directive gives for each value it takes, and its type."""
        for star in ("vector", "width", "precision"):
            if spelt := groups.get(star):
                digits = spelt.strip("*$")
                yield (
                    int(digits) if digits else None,
                    "vector" if star == "vector" else self.integer,
                )
        number = groups.get("number")
        if kind:
            yield int(number) if number else groups.get("name"), kind


def _note(values: _Values, key: int | str, kind: str) -> bool:
    """Note the type of a value; False: it has another one."""
    known = values.get(key, "any")
    values[key] = kind if known == "any" else known
    return known == kind or "any" in (known, kind)


def _group(conversion: str, kinds: str) -> str:
    """Return the one of these kinds that has a conversion; "": none has."""
    return next((kind for kind in kinds.split() if conversion and conversion in kind), "")


def _types(kinds: str) -> Callable[[_Match], str]:
    """Return what gives the type of a directive, by its conversion; all others take no value."""
    return lambda found: _group(found["type"] or "", kinds)


def _of_c(found: _Match) -> str:
    """Return the type of a directive of C: its length counts, and whether it is signed."""
    if found["inttype"]:
        size = found["inttype"][4:].replace("MAX", "j")
        return f"{'i' if found['inttype'][3] in 'di' else 'u'} {size}"
    size = ""
    for letter in found["size"]:
        longer = letter * 2 if letter in "hl" and size[:1] == letter else letter
        size = {"L": "ll", "q": "ll", "Z": "z"}.get(longer, longer)
    conversion = found["type"]
    if conversion in "dinuoxX":
        return f"{'i' if conversion in 'di' else 'n' if conversion == 'n' else 'u'} {size}"
    if conversion in "csCS":
        return conversion.lower() + "wide" * (conversion.isupper() or size[:1] == "l")
    if conversion in "%m":
        return ""
    return conversion if conversion in "p@" else f"float {size * (size == 'll')}"


def _of_perl(found: _Match) -> str | None:
    conversion = found["type"]
    size = {"q": "ll", "L": "ll", "I64": "ll", "I32": ""}.get(found["size"], found["size"])
    if conversion in "DUO":
        conversion, size = conversion.lower(), "V"
    if conversion in "eEfFgG" and size in ("h", "l"):
        return None
    kinds = {"idn": "i", "uboxX": "u", "eEfFgG": "float"}
    kind = next((kind for letters, kind in kinds.items() if conversion in letters), None)
    kind = {"n": f"n {size}", "%": "", "_": "vector"}.get(
        conversion, conversion if kind is None else f"{kind} {size}"
    )
    return "vector" if found["v"] else kind


def _of_python(found: _Match) -> str:
    conversion = found["type"]
    if conversion == "%" and found["name"] is None:
        return ""
    if conversion in "sr" and found["digits"] and not found["digits"].strip("0"):
        return "any"
    return next(kind for kind in ("c", "sr", "idouxX", "eEfgG", "%") if conversion in kind)


def _kuit(text: str) -> Any:
    """Return what a text of KDE with markup takes; None: that is damaged, too."""
    escaped = re.sub(r"&(?!#\d++;|#x[0-9A-Fa-f]++;)", "&amp;", text)
    parser = expat.ParserCreate()
    try:
        parser.Parse(f"<kuit>{escaped}</kuit>", True)
    except expat.ExpatError:
        return None
    return LANGUAGES["kde"].read(text)


_JAVA_TOKEN = re.compile(r"''|(?P<quote>')|(?P<brace>[{}])")
_JAVA_ELEMENT = re.compile(
    r"(?P<number>[0-9]{1,9}+)(?:,(?:(?P<date>date|time)(?:,.*)?|number(?P<style>,.*)?"
    r"|(?P<choice>choice(?:,.*)?)))?",
    re.DOTALL,
)
_JAVA_STYLE = re.compile(r",(?:currency|percent|integer|[^0#]*[0#][^;]*+(?:;[^0#]*[0#].*)?)", re.S)
_JAVA_QUOTED = re.compile("''|'[^']*'?")


def _java(text: str) -> _Values | None:
    """Return what a MessageFormat of Java takes; None: it is damaged."""
    values = _Values()
    depth = start = 0
    is_quoted = False
    for token in _JAVA_TOKEN.finditer(text):
        if token["quote"] and not depth:
            is_quoted = not is_quoted
        elif token["brace"] and not is_quoted:
            if token[0] == "{":
                start = start if depth else token.end()
                depth += 1
            elif not depth:
                return None
            else:
                depth -= 1
                if not depth and not _note_java(values, text[start : token.start()]):
                    return None
    return None if depth else values


def _note_java(values: _Values, element: str) -> bool:
    """Note what is in braces; False: it is damaged."""
    found = _JAVA_ELEMENT.fullmatch(element)
    if found is None:
        return False
    style, choice = found["style"], found["choice"]
    if style and not _JAVA_STYLE.fullmatch(_JAVA_QUOTED.sub("", style)):
        return False
    if choice:  # is kept whole, see `messages`
        values[choice] = "choice"
    kind = "date" if found["date"] else "number" if "," in element else "any"
    return _note(values, int(found["number"]), kind)


LANGUAGES = {
    "c": _Language(_C, _of_c, missing=0, has_numbers=True, integer="i "),
    "java": _Language(_BRACES, lambda _: "", damage="(?!)", reader=_java),
    "javascript": _Language(
        rf"%{_NUMBER}[-+ 0I]*+\d*+(?:\.\d*+)?(?P<type>[%csbdoxXfj])",
        _types("c s bdoxX f j"),
        has_numbers=True,
    ),
    "kde": _Language(_KDE, damage="(?!)", missing=1),
    "kde-kuit": _Language(_KDE, damage="(?!)", reader=_kuit),
    "objc": _Language(_C.replace("%mc", "@%mc"), _of_c, missing=0, has_numbers=True, integer="i "),
    "perl": _Language(_PERL, _of_perl, apart=False, has_numbers=True, integer="i "),
    "php": _Language(
        rf"%(?:%|{_NUMBER}(?>(?:[-0 ]|'[\0-\x7f])*)\d*+(?:\.\d++)?l?(?P<type>[bduoxXefcs]))",
        _types("bduoxX ef c s"),
        apart=False,
        has_numbers=True,
    ),
    "python": _Language(_PYTHON, _of_python, integer="idouxX"),
    "python-brace": _Language(
        rf"\{{\{{|\{{(?P<name>{_PYTHON_FIELD}(?::(?:\{{{_PYTHON_FIELD}\}}|{_PYTHON_FORMAT}))?)\}}"
        rf"|\{{(?P<unnamed>(?::{_PYTHON_FORMAT})?)\}}",
        lambda found: "" if found[0] == "{{" else f"value{found['unnamed'] or ''}",
        damage=r"\{[^{}]*+\}|\{",
    ),
    "qt": _Language(
        "%L?(?P<number>[0-9]{1,2})",
        damage="(?!)",
        apart=False,
        first=0,
        finish=lambda values, directives: (values, all(len(one) == 2 for one in directives)),
        fit=lambda source, text: source[0] == text[0] and source[1] <= text[1],
    ),
    "qt-plural": _Language(
        "%L?n", damage="(?!)", apart=False, finish=lambda values, _: bool(values)
    ),
    "sh": _Language(r"\$(?P<brace>\{)?(?P<name>[A-Za-z_]\w*+)(?(brace)\})", damage=r"\$"),
}
"""By the flag in a catalogue, without `-format`."""

_OTHERS = {
    **dict.fromkeys(
        ("c++", "csharp", "perl-brace", "rust"),
        _Language(r"\{\{|\}\}|\{(?P<name>\w[^{}*]*+)\}|\{[^{}]*+\}|[{}]"),
    ),
    **dict.fromkeys(("smalltalk", "ycp"), _Language(f"%%|{_KDE}")),
    "": _Language(
        r"%(?:%|\|[^|%\s]*+\||(?P<name>\d{1,9}(?:%|[$:][-+ #0',.\d]*+[hlLqjzt]*[A-Za-z]))"
        r"|(?>(?:<\w{1,50}>|[-+ #'_=,(*.:<>\[\]\d$^])*)[hlLqjztwI]*[+#]*"
        r"(?:T\S|[A-Za-z@]|\{[^{}]*\})|[^\sA-Za-z%]*)"
    ),
}
"""Languages of which the directives themselves are compared; "" is any other."""
_UNREAD = ("lisp", "scheme")
"""Languages with loops and branches: what has a directive, which begins with `~`, never fits."""


def find_directives(text: str, language: str) -> Iterator[tuple[re.Match[str], bool]]:
    """Yield directives, and what looks like them; and whether its place says what each takes."""
    syntax = LANGUAGES.get(language) or _OTHERS.get(language, _OTHERS[""])
    for found in syntax.pattern.finditer(text):
        groups = found.groupdict()
        is_given = any(groups.get(group) is not None for group in ("number", "name", "damage"))
        yield found, not is_given and syntax.type_of(found) != ""


def has_numbers(language: str) -> bool:
    """Tell whether a directive that is counted can get a number."""
    return language in LANGUAGES and LANGUAGES[language].has_numbers


def take_the_same(source: str, translation: str, language: str) -> bool:
    """Tell whether a translation takes the values that its source takes.

    If the source is damaged, or the language unknown, all that looks like directives is compared.
    """
    if language in _UNREAD:
        return "~" not in source + translation
    syntax = LANGUAGES.get(language)
    taken = None if syntax is None else syntax.read(source)
    if syntax is None or taken is None:
        return _look(source, language) == _look(translation, language)
    by_translation = syntax.read(translation)
    return by_translation is not None and syntax.fit(taken, by_translation)


def _look(text: str, language: str) -> list[str]:
    """Return what looks like directives: in order, unless none is counted."""
    found = [(one[0], counts) for one, counts in find_directives(text, language) if one[0] != "%%"]
    directives = [directive for directive, _ in found]
    return directives if any(is_counted for _, is_counted in found) else sorted(directives)
