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
_WIDTH, _PRECISION = r"(?:(?P<width>\*)|\d*+)", r"(?:\.(?:(?P<precision>\*)|\d*+))?"
_WIDTH_OF_C = r"(?:(?P<width>\*(?:\d{1,9}+\$)?)|\d*+)"
_PRECISION_OF_C = r"(?:\.(?:(?P<precision>\*(?:\d{1,9}+\$)?)|\d*+))?"
_INTTYPES = r"<(?P<inttype>PRI[diouxX](?:MAX|PTR|(?:LEAST|FAST)?(?:8|16|32|64)))>"
_C = (
    rf"%{_NUMBER}[-+ #0'I]*+{_WIDTH_OF_C}{_PRECISION_OF_C}"
    rf"(?:{_INTTYPES}|(?P<size>[hlLqjzZt]*+)(?P<type>[%mcCsSdiouxXeEfFgGaApn]))"
)
_BRACES, _KDE = r"\{[^{}]*+\}", "%(?P<number>[1-9][0-9]{0,8})"
_JAVA_DATE = "[HIklMSLNpzZsQBbhAaCYyjmdeRTrDFc]"
_JAVA = (
    rf"%(?:(?P<last><)|(?P<number>\d{{1,9}}+)\$)?(?:-*+(?:[1-9]\d*+)?%|n"
    r"|[#-]*+(?:[1-9]\d*+)?(?:\.\d++)?(?P<general>[bBhHsS])|-*+(?:[1-9]\d*+)?(?P<character>[cC])"
    r"|(?:[-0 +,(]*+(?:[1-9]\d*+)?d|[-#0 +(]*+(?:[1-9]\d*+)?[oxX])(?P<integer>)"
    r"|(?:[-#0 +,(]*+(?:[1-9]\d*+)?(?:\.\d++)?[eEfgG]|[-#0 +]*+(?:[1-9]\d*+)?(?:\.\d++)?[aA])"
    rf"(?P<float>)|-*+(?:[1-9]\d*+)?[tT]{_JAVA_DATE}(?P<date>))"
)
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
_BOOST = (
    r"%(?:%|(?P<bar>\|)?(?:(?P<number>[1-9]\d{0,8}+)(?:\$|(?P<any>%)(?(bar)(?!))))?"
    rf"(?(any)|[-+ #0'_=hl]*+{_WIDTH_OF_C}{_PRECISION_OF_C}[hlL]*+"
    r"(?P<type>[cCsSdiouxXeEfgGptn]|T[\0-\x7f]|(?(bar)(?=\|)|(?!)))(?(bar)\|)))"
)
_RUBY_ARGUMENT = r"<[^>]{0,200}+>|[1-9]\d{0,8}+\$"
_RUBY_ARGUMENT_OR_STAR = re.compile(rf"\*[1-9]\d{{0,8}}+\$|({_RUBY_ARGUMENT})", re.ASCII)
_RUBY_LOOSE = (
    rf"%(?P<before>(?>(?:[-+ #0]|{_RUBY_ARGUMENT})*)"
    rf"(?>(?:\*(?:[1-9]\d{{0,8}}+\$)?|[1-9]\d*+(?!\$))?)(?>(?:{_RUBY_ARGUMENT})*)"
    rf"(?>(?:\.(?:\*(?:[1-9]\d{{0,8}}+\$)?|\d*+))?)(?>(?:{_RUBY_ARGUMENT})*))"
    r"(?P<type>[%\nspcdiuoxXbBfgGeEaA]|\{[^}]{0,200}+\})"
)
_RUBY = (
    rf"%(?:<(?P<name>[^>]{{0,200}}+)>|(?P<number>[1-9]\d{{0,8}}+)\$)?[-+ #0]*+"
    rf"{_WIDTH_OF_C}{_PRECISION_OF_C}(?P<type>[%\nspcdiuoxXbBfgGeEaA])"
)
_GCC = (
    rf"%(?:[%<>'m]|{_NUMBER}(?P<flags>[qlw+#]*+)"
    r"(?:(?P<type>[cidouxpHJKDFTEACLOPQV])|(?:\.(?:\d++|(?P<precision>\*(?:\d{1,9}+\$)?)))?"
    r"(?P<string>s)))"
)


@dataclass(frozen=True)
class _Language:
    """What the directives of a language are, and how they are counted."""

    directive: str
    """Its groups `number`, `name`, `vector`, `width`, `precision` and `index` say what it takes."""
    type_of: Callable[[_Match], str | None] = lambda _: "value"
    """The type of its value; "": it takes none; None: it is damaged."""
    damage: str = "%"  # what begins a directive, and does not stand elsewhere
    apart: bool = True  # whether all directives have numbers, or all names, or all are counted
    goes_on: bool = False  # whether they are counted from the last number
    first: int = 1
    integer: str = ""  # the type of a width that is a value
    missing: int | None = None  # how many numbers up to the highest one may be missing
    numbered: str = ""  # how a directive that is counted gets its number, if it can
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
        counted, key = self.first, -1
        for found in self.pattern.finditer(text):
            value = self.type_of(found) if found["damage"] is None else None
            if value is None:
                return None
            directives.append(found[0])
            groups = found.groupdict()
            number = key if groups.get("last") else _number(groups.get("number"))
            if number is not None and number < self.first:
                return None
            if self.goes_on and number is not None:
                counted = number
            for given, kind in self._takes(groups, number, value):
                given = number if self.goes_on else given
                styles.add("count" if given is None else type(given).__name__)
                if given is None or self.goes_on:
                    given, counted = counted, counted + 1
                if isinstance(given, int):
                    key = given
                    if key < self.first:
                        return None
                if not _note(values, given, kind):
                    return None
        numbers = [given for given in values if isinstance(given, int)]
        gaps = max(numbers, default=0) - len(numbers)
        if (self.apart and len(styles) > 1) or (self.missing is not None and gaps > self.missing):
            return None
        return self.finish(values, directives)

    def _takes(
        self, groups: dict[str, str | None], number: int | None, value: str
    ) -> Iterator[tuple[int | str | None, str]]:
        """Yield the number or name that a directive gives for each value it takes, and its type."""
        for star in ("vector", "width", "precision", "index"):
            if spelt := groups.get(star):
                kind = "vector" if star == "vector" else self.integer
                yield _number(spelt.strip("*:$") or None), kind
        name = groups.get("name")
        if value:
            yield number if name is None else name, value


def _note(values: _Values, key: int | str, kind: str) -> bool:
    """Note the type of a value; False: it has another one."""
    known = values.get(key, "any")
    values[key] = kind if known == "any" else known
    return known == kind or "any" in (known, kind)


def _number(digits: str | None) -> int | None:
    return None if digits is None else int(digits or 0)


def _group(conversion: str, kinds: str) -> str:
    """Return the one of these kinds that has a conversion; "": none has."""
    return next((kind for kind in kinds.split() if conversion and conversion in kind), "")


def _types(kinds: str, any_of: str = "") -> Callable[[_Match], str | None]:
    """Return what gives the type of a directive, by its conversion; all others take no value."""

    def type_of(found: _Match) -> str:
        conversion = found["type"] or ""
        return "any" if conversion and conversion in any_of else _group(conversion, kinds)

    return type_of


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


def _of_gcc(found: _Match) -> str | None:
    """Return the type of a directive of GCC's messages, which have few flags, each once."""
    conversion, flags = found["type"] or found["string"], found["flags"] or ""
    size = flags.translate(dict.fromkeys(map(ord, "q+#")))
    if size not in ("", "l", "ll", "w") or any(flags.count(flag) > 1 for flag in "q+#"):
        return None
    precision = (found["precision"] or "").strip("*$")
    if precision and int(precision) != int(found["number"] or 0) - 1:
        return None
    if conversion and conversion in "idoux":
        return f"{'i' if conversion in 'id' else 'u'} {size}"
    return "D" if conversion == "J" else conversion or ""


def _of_python(found: _Match) -> str:
    conversion = found["type"]
    if conversion == "%" and found["name"] is None:
        return ""
    if conversion in "sr" and found["digits"] and not found["digits"].strip("0"):
        return "any"
    return next(kind for kind in ("c", "sr", "idouxX", "eEfgG", "%") if conversion in kind)


def _ruby(text: str) -> Any:
    """Return what a text of Ruby takes, where a number or name stands anywhere in a directive."""

    def put_first(found: _Match) -> str:
        if found["damage"]:
            return found[0]
        arguments = _RUBY_ARGUMENT_OR_STAR.findall(found["before"])
        rest = _RUBY_ARGUMENT_OR_STAR.sub(lambda part: "" if part[1] else part[0], found["before"])
        conversion = found["type"]
        if conversion[0] == "{":
            arguments.append(f"<{conversion[1:-1]}>")
            conversion = "s"
        return f"%{''.join(arguments)}{rest}{conversion}"

    return _RUBY_READ.read(LANGUAGES["ruby"].pattern.sub(put_first, text))


def _kuit(text: str) -> Any:
    """Return what a text of KDE with markup takes; None: that is damaged, too."""
    escaped = re.sub(r"&(?!#\d++;|#x[0-9A-Fa-f]++;)", "&amp;", text)
    parser = expat.ParserCreate()
    try:
        parser.Parse(f"<kuit>{escaped}</kuit>", True)
    except expat.ExpatError:
        return None
    return LANGUAGES["kde"].read(text)


_MOST_NESTED = 20


def _java(text: str) -> Any:
    """Return what a MessageFormat of Java takes; None: it is damaged."""
    values = _Values()
    return values if _add_java(text, values, _MOST_NESTED) else None


_JAVA_TOKEN = re.compile(r"''|(?P<quote>')|(?P<brace>[{}])")
_JAVA_ELEMENT = re.compile(
    r"(?P<number>[0-9]{1,9}+)(?:,(?:(?P<date>date|time)(?:,.*)?|number(?P<style>,.*)?"
    r"|choice(?P<choice>,.*)?))?",
    re.DOTALL,
)
_JAVA_STYLE = re.compile(r",(?:currency|percent|integer|[^0#]*[0#][^;]*+(?:;[^0#]*[0#].*)?)", re.S)
_JAVA_QUOTED = re.compile("''|'[^']*'?")
_JAVA_LIMIT = re.compile(r"[^<#|]+?(?:[<#]|\\u2264)")


def _add_java(text: str, values: _Values, levels: int) -> bool:
    """Add what a text takes to the values; False: it is damaged, or too deep."""
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
                return False
            else:
                depth -= 1
                if not depth and not _add_java_element(text[start : token.start()], values, levels):
                    return False
    return not depth


def _add_java_element(element: str, values: _Values, levels: int) -> bool:
    found = _JAVA_ELEMENT.fullmatch(element)
    if found is None or not levels:
        return False
    is_number = found["style"] is not None or found["choice"] is not None
    kind = "date" if found["date"] else "number" if is_number or "," in element else "any"
    if found["style"] and not _JAVA_STYLE.fullmatch(_JAVA_QUOTED.sub("", found["style"])):
        return False
    choices = _java_choices(found["choice"][1:]) if found["choice"] else []
    for number, choice in enumerate(choices, start=1):
        limit = _JAVA_LIMIT.match(choice)
        if limit is not None:
            if not _add_java(choice[limit.end() :], values, levels - 1):
                return False
        elif number < len(choices) or choice[:1] in ("<", "#"):
            return False
    return _note(values, int(found["number"]), kind)


def _java_choices(text: str) -> list[str]:
    """Return the choices of a ChoiceFormat without quotes, and NUL for its signs in them."""
    written, is_quoted = "", False
    for token in re.findall("''|[^']+|'", text):
        if token == "'":
            is_quoted = not is_quoted
        else:
            written += re.sub("[<#|]", "\0", token) if is_quoted else token.replace("''", "'")
    return written.split("|")


def _simple_qt(values: _Values, directives: list[str]) -> Any:
    return values, all(len(directive) == 2 for directive in directives)


def _without_location(values: _Values, directives: list[str]) -> Any:
    """Return the types of what a text of GNU Fortran takes, and whether it says a location."""
    kinds = [values[number] for number in sorted(values, key=int) if values[number] != "C"]
    return kinds, any(directive[-1] == "C" for directive in directives)


_FLOATS, _INTEGERS = "eEfgG", "diouxX"
_RUBY_READ = _Language(
    _RUBY,
    _types("c diouxXbB eEfgGaA s p"),
    integer="diouxXbB",
    finish=lambda values, _: (
        sorted(map(str, values.items()))
        if any(isinstance(key, str) for key in values)
        else [values[key] for key in sorted(values, key=int)]
    ),
)
_PRINTF = rf"%{_NUMBER}[-+ #0]*+{_WIDTH_OF_C}{_PRECISION_OF_C}"
_COUNTED = rf"%{_NUMBER}[-+ #0]*+{_WIDTH}{_PRECISION}"
LANGUAGES = {
    "awk": _Language(
        rf"{_PRINTF}(?P<type>[%csdiouxXeEfgG])",
        _types("c s di uoxX eEfgG"),
        numbered="%{}$",
        integer="di",
    ),
    "boost": _Language(
        _BOOST,
        lambda found: (
            "any"
            if found["any"] or (found["bar"] and not found["type"])
            else _types("cC diouxX eEfgG p", any_of="sS")(found)
        ),
        integer="diouxX",
    ),
    "c": _Language(_C, _of_c, missing=0, numbered="%{}$", integer="i "),
    "csharp": _Language(
        r"\{\{|\}\}|\{(?P<number>\d{1,9}+)(?:,-?\d++)?(?::[^}]{0,200}+)?\}",
        lambda found: "value" if found["number"] else "",
        damage=r"\{[^{}]*+\}|[{}]",
        first=0,
        finish=lambda values, _: max(map(int, values), default=-1),
    ),
    "gcc-internal": _Language(
        _GCC,
        _of_gcc,
        numbered="%{}$",
        finish=lambda values, directives: (values, "%m" in directives),
        integer="i ",
    ),
    "gfc-internal": _Language(
        rf"%(?:%|{_NUMBER}(?P<type>[CLcs]|l?[idu]))",
        lambda found: {"d": "i", "ld": "li"}.get(found["type"], found["type"] or ""),
        apart=False,
        goes_on=True,
        missing=0,
        numbered="%{}$",
        finish=_without_location,
    ),
    "java": _Language(_BRACES, lambda _: "", damage="(?!)", reader=_java),
    "java-printf": _Language(
        _JAVA,
        lambda found: next(
            (
                kind
                for kind in ("general", "character", "integer", "float", "date")
                if found[kind] is not None
            ),
            "",
        ),
        apart=False,
        numbered="%{}$",
    ),
    "javascript": _Language(
        rf"%{_NUMBER}[-+ 0I]*+\d*+(?:\.\d*+)?(?P<type>[%csbdoxXfj])",
        _types("c s bdoxX f j"),
        numbered="%{}$",
    ),
    "kde": _Language(_KDE, damage="(?!)", missing=1),
    "kde-kuit": _Language(_KDE, damage="(?!)", reader=_kuit),
    "lua": _Language(
        r"%(?:%|\d*+\.?\d*+(?P<type>[cdiouxXaAeEfgGsq]))", _types(f"c diouxX aA{_FLOATS} s q")
    ),
    "objc": _Language(_C.replace("%mc", "@%mc"), _of_c, missing=0, numbered="%{}$", integer="i "),
    "object-pascal": _Language(
        r"%(?:%|(?:(?P<number>\d{0,9}+):|(?P<index>\*:))?-?(?:(?P<width>\*)|\d*+)"
        r"(?:\.(?:(?P<precision>\*)|\d++))?(?P<type>[duxefgnmspDUXEFGNMSP]))",
        lambda found: "" if found["index"] else _group(found["type"], "duxDUX efgnmEFGNM sS pP"),
        apart=False,
        first=0,
        numbered="%{}:",
        integer="duxDUX",
    ),
    "perl": _Language(_PERL, _of_perl, apart=False, numbered="%{}$", integer="i "),
    "perl-brace": _Language(
        r"\{(?P<name>[A-Za-z_]\w*+)\}",
        damage="(?!)",
        fit=lambda source, text: source <= text,
        finish=lambda values, _: values.keys(),
    ),
    "php": _Language(
        rf"%(?:%|{_NUMBER}(?>(?:[-0 ]|'[\0-\x7f])*)\d*+(?:\.\d++)?l?(?P<type>[bduoxXefcs]))",
        _types("bduoxX ef c s"),
        apart=False,
        numbered="%{}$",
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
        finish=_simple_qt,
        fit=lambda source, text: source[0] == text[0] and source[1] <= text[1],
    ),
    "qt-plural": _Language(
        "%L?n", damage="(?!)", apart=False, finish=lambda values, _: bool(values)
    ),
    "ruby": _Language(
        _RUBY_LOOSE,
        lambda found: "" if re.search(r"[<{%\n]|[0-9]\$", found[0][1:]) else found["type"],
        reader=_ruby,
        numbered="%{}$",
    ),
    "sh": _Language(r"\$(?P<brace>\{)?(?P<name>[A-Za-z_]\w*+)(?(brace)\})", damage=r"\$"),
    **dict.fromkeys(
        ("smalltalk", "ycp"),
        _Language("%(?:%|(?P<number>[1-9]))", lambda found: "value" if found["number"] else ""),
    ),
    "tcl": _Language(
        rf"%(?:%|{_NUMBER}[-+ #0]*+{_WIDTH}{_PRECISION}(?:(?P<short>h)|l)?"
        r"(?P<type>[csiduoxXeEfgG]))",
        lambda found: (
            _group(found["type"] or "", f"c s id uoxX {_FLOATS}")
            + "h" * (found["short"] is not None and found["type"] in "diouxX")
        ),
        goes_on=True,
        numbered="%{}$",
        integer="id",
    ),
}
"""By the flag in a catalogue, without `-format`."""


_OTHERS = {
    **dict.fromkeys(("c++", "rust"), _Language(_BRACES, damage="(?!)")),
    "": _Language(_C, damage="%"),
}
"""Languages of which the directives themselves are compared; "" is any other."""
_UNREAD = ("lisp", "scheme")
"""Languages with loops and branches: what has a directive, which begins with `~`, never fits."""


def find_directives(text: str, language: str) -> Iterator[tuple[re.Match[str], bool]]:
    """Yield directives, and what looks like them; and whether its place says what each takes."""
    syntax = LANGUAGES.get(language) or _OTHERS.get(language, _OTHERS[""])
    for found in syntax.pattern.finditer(text):
        groups = found.groupdict()
        is_given = any(
            groups.get(group) is not None for group in ("number", "name", "last", "damage")
        )
        yield found, not is_given and syntax.type_of(found) != ""


def numbered_starts(count: int, language: str) -> list[str]:
    """Return how directives that are counted begin if they get numbers; none if they cannot."""
    syntax = LANGUAGES.get(language, _OTHERS[""])
    numbers = range(syntax.first, syntax.first + count)
    return [syntax.numbered.format(number) for number in numbers] if syntax.numbered else []


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
