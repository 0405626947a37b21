"""Message catalogues of gettext (PO): empty translations are filled, and everything else stays.

A message is a unit. Of a plural, the form for one gets the translation of `msgid`, and the others
that of `msgid_plural`. The header says which form that is. If it is for other numbers, too, and
`msgid` does not say the number, it gets that of `msgid_plural`, as all others do.

Source: https://www.gnu.org/software/gettext/manual/html_node/PO-Files.html.
"""

from __future__ import annotations

import gettext
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from nmt.errors import DataError
from nmt.markup.directives import take_the_same
from nmt.markup.document_units import Unit, as_html, as_text, without_mnemonic
from nmt.markup.format_strings import fit_directives, formats_of, protect_directives
from nmt.markup.tags import parse

_CHECK = "see what msgfmt --check says"
_TOKEN = re.compile(
    r"\s+|(?P<comment>#[^\n]*)|(?P<keyword>domain|msgctxt|msgid_plural|msgid"
    r"|msgstr(?:\s*\[\s*(?P<form>\d{1,9})\s*\])?)(?![\w$])"
    r'|"(?P<text>(?>(?:[^"\\\n]|\\(?:[abfnrtv"\\\n]|[0-7]{1,3}|x[0-9A-Fa-f]))*))"'
)
_PLURAL_FORMS = re.compile(r"Plural-Forms:\s*nplurals\s*=\s*(\d+);\s*plural\s*=([^;\n]+)")
_NUMBERS_TRIED = 200  # in the formula for plurals
_ESCAPES = dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True)) | {'"': '"', "\\": "\\"}
_ESCAPED = str.maketrans(
    {chr(code): f"\\{code:03o}" for code in (*range(32), 127)}
    | {character: f"\\{letter}" for letter, character in _ESCAPES.items()}
)
_ESCAPE = re.compile(r"(?P<bytes>(?:\\(?:[0-7]{1,3}|x[0-9A-Fa-f]+))+)|\\(?P<letter>[^x0-7])")
_FOLLOWS = {
    "domain": ("", "domain", "msgstr", "msgstr[]"),
    "msgctxt": ("", "domain", "msgstr", "msgstr[]"),
    "msgid": ("", "domain", "msgstr", "msgstr[]", "msgctxt"),
    "msgid_plural": ("msgid",),
    "msgstr": ("msgid",),
    "msgstr[]": ("msgid_plural", "msgstr[]"),
}
"""By keyword, those that may come before it."""
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\0-\t\v\f\x0e-\x1f\x7f]")
"""A control character, or what colours text in a terminal."""
_INDENTATION_OR_CONTROL = re.compile(rf"(?P<indentation>^[ \t]+)|{_CONTROL.pattern}", re.MULTILINE)

_OF_A_DATE = re.compile(r"%[-_0^#EO]?[A-Za-z](?![a-z])")
"""As in `%b %d, %Y`."""


@dataclass
class _Statement:
    """A keyword with its text."""

    keyword: str
    form: int | None  # of a plural
    comments: str  # before it
    start: int = 0  # of its strings in the catalogue
    end: int = 0
    lines: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.lines)


def catalogue_parts(path: Path, catalogue: str, encoding: str) -> Iterator[str | Unit | None]:
    """Yield what stays and what is translated, and None for each translation that is there.

    Raises:
        DataError: if the catalogue is damaged, naming the line.
    """
    newline = "\r\n" if "\r\n" in catalogue else "\n"
    last, form_for_one, is_only_for_one = 0, 0, True
    singular = plural = comments = ""
    languages = [""]
    for statement in _statements(path, catalogue, encoding):
        comments += statement.comments
        if statement.keyword == "msgid":
            singular, plural = statement.text, ""
            languages, comments = formats_of(comments), ""
        elif statement.keyword == "msgid_plural":
            plural = statement.text
        elif statement.keyword.startswith("msgstr") and singular and statement.text:
            yield None
        elif statement.keyword.startswith("msgstr") and singular:
            says_number = is_only_for_one or _fit_all(singular, plural, languages)
            is_for_one = statement.form is None or (statement.form == form_for_one and says_number)
            unit = _message(singular if is_for_one else plural, languages, newline)
            if unit is not None:
                yield catalogue[last : statement.start]
                yield replace(unit, otherwise=catalogue[statement.start : statement.end])
                last = statement.end
        elif statement.keyword == "msgstr":
            form_for_one, is_only_for_one = _form_for_one(path, statement.text)
    yield catalogue[last:]


def _statements(path: Path, catalogue: str, encoding: str) -> Iterator[_Statement]:
    statement, before, comments, at = None, "", "", 0

    def damaged(what: str) -> DataError:
        line = catalogue.count("\n", 0, at) + 1
        return DataError(f"{path} line {line:,}: {what}; {_CHECK}")

    while at < len(catalogue):
        token = _TOKEN.match(catalogue, at)
        if token is None or (token["text"] is not None and statement is None):
            raise damaged("not PO")
        if token["keyword"]:
            keyword = re.sub(r"[\s\d]", "", token["keyword"])
            if before not in _FOLLOWS[keyword] or (statement and not statement.lines):
                raise damaged(f"{keyword} is out of place")
            before = keyword
            if statement is not None:
                yield statement
            form = None if token["form"] is None else int(token["form"])
            statement = _Statement(keyword, form, comments)
            comments = ""
        elif token["text"] is not None and statement is not None:
            try:
                text = _ESCAPE.sub(partial(_unescaped, encoding=encoding), token["text"])
            except UnicodeError:
                raise damaged(f"its escapes are not valid {encoding}") from None
            if "\0" in text:
                raise damaged("has a NUL")
            statement.start = statement.start if statement.lines else at
            statement.lines.append(text)
            statement.end = token.end()
        elif token["comment"]:  # that of an obsolete entry says nothing of the next one
            comments = "" if token["comment"][:2] == "#~" else comments + token["comment"] + "\n"
        at = token.end()
    if statement is not None:
        if not statement.lines or before in ("msgctxt", "msgid", "msgid_plural"):
            raise damaged("ends within an entry")
        yield statement


def _unescaped(escape: re.Match[str], encoding: str) -> str:
    """Return what an escape stands for, or several that are bytes of characters."""
    if escape["letter"]:
        return _ESCAPES.get(escape["letter"], "")  # of a line end: nothing
    numbers = escape["bytes"].split("\\")[1:]
    codes = [int(one[1:][-2:], 16) if one[0] == "x" else int(one, 8) & 255 for one in numbers]
    return bytes(codes).decode(encoding)


def _form_for_one(path: Path, header: str) -> tuple[int, bool]:
    """Return the number of the plural form for one thing, and whether it is for no other number.

    The form is -1 if there is one form for all.
    """
    found = _PLURAL_FORMS.search(header)
    if found is None:  # a template, or a catalogue without plurals
        return 0, True
    if found[1] == "1":
        return -1, False
    try:
        form_of = gettext.c2py(found[2])
        form = form_of(1)
        return form, all(form_of(number) != form for number in (0, *range(2, _NUMBERS_TRIED)))
    except (ValueError, ArithmeticError):
        raise DataError(f"{path}: its Plural-Forms are damaged; {_CHECK}") from None


def _fit_all(source: str, translation: str, languages: Sequence[str]) -> bool:
    return all(take_the_same(source, translation, language) for language in languages)


def _message(source: str, languages: Sequence[str], newline: str) -> Unit | None:
    """Return a message to translate; None if it has no words.

    People translate many of those otherwise, such as `%m/%d/%Y`, so they are left empty.
    """
    text = protect_directives(source.strip(), languages[-1])
    for brackets_are_text in (False, True):
        line = _INDENTATION_OR_CONTROL.sub(
            lambda found: found["indentation"] or f"<!--{found[0]}-->",
            as_html(text, brackets_are_text=brackets_are_text),
        )
        if parse(_OF_A_DATE.sub("", line), "html").has_words:
            spell = partial(_spelt, source=source, languages=languages, newline=newline)
            return without_mnemonic(Unit(line, spell=spell))
    return None


def _spelt(translation: str, *, source: str, languages: Sequence[str], newline: str) -> str | None:
    """Return a translation as it stands in the catalogue."""
    text = as_text(re.sub(f"<!--({_CONTROL.pattern})-->", r"\1", translation), source)
    fitted = fit_directives(text.strip(), source, languages[-1])
    if fitted is None or not _fit_all(source, fitted, languages[:-1]):
        return None
    start, end = source[: -len(source.lstrip())], source[len(source.rstrip()) :]
    return _quoted(start + fitted + end, newline)


def _quoted(text: str, newline: str) -> str:
    """Return text in quotes, each line by itself."""
    lines = re.findall(r"[^\n]*\n|[^\n]+", text) or [""]
    quoted = [f'"{line.translate(_ESCAPED)}"' for line in lines]
    return newline.join(quoted if len(lines) == 1 else ['""', *quoted])
