"""Message catalogues of gettext (PO): empty translations are filled, and everything else stays.

A message is a unit. Of a plural, the form for one gets the translation of `msgid`, and the others
that of `msgid_plural`. The header says which form that is. If it is for other numbers, too, and
`msgid` does not say the number, it gets that of `msgid_plural`, as all others do.

Source: https://www.gnu.org/software/gettext/manual/html_node/PO-Files.html.
"""

from __future__ import annotations

import gettext
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from nmt.errors import DataError
from nmt.markup.document_units import Unit, as_html, as_text, without_mnemonic
from nmt.markup.format_strings import (
    fit_directives,
    format_of,
    have_same_directives,
    protect_directives,
)
from nmt.markup.tags import parse

_CHECK = "see what msgfmt --check says"
_LINE = re.compile(
    r"\s*(?:(?P<keyword>msgctxt|msgid|msgid_plural|msgstr(?:\[(?P<form>\d)\])?)\s*)?"
    r'"(?P<text>(?>(?:[^"\\]|\\[abfnrtv"\\])*))"\s*'
)
_PLURAL_FORMS = re.compile(r"Plural-Forms:\s*nplurals\s*=\s*(\d);\s*plural\s*=([^;\n]+)")
_NUMBERS_TRIED = 200  # in the formula for plurals
_ESCAPES = dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True)) | {'"': '"', "\\": "\\"}
_ESCAPED = str.maketrans({character: f"\\{letter}" for letter, character in _ESCAPES.items()})
_FOLLOWS = {
    "msgctxt": ("", "msgstr", "msgstr[]"),
    "msgid": ("", "msgstr", "msgstr[]", "msgctxt"),
    "msgid_plural": ("msgid",),
    "msgstr": ("msgid",),
    "msgstr[]": ("msgid_plural", "msgstr[]"),
}
"""By keyword, those that may come before it."""
_TAB = re.compile(r"[\a\b\f\t\v]")
_INDENTATION_OR_TAB = re.compile(rf"(?P<indentation>^[ \t]+)|{_TAB.pattern}", re.MULTILINE)


@dataclass
class _Statement:
    """A keyword with its text."""

    keyword: str
    form: int | None  # of a plural
    start: int  # in the catalogue
    comments: str = ""  # before it
    end: int = 0
    lines: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.lines)


def catalogue_parts(path: Path, catalogue: str) -> Iterator[str | Unit | None]:
    """Yield what stays and what is translated, and None for each translation that is there.

    Raises:
        DataError: if the catalogue is damaged, naming the line.
    """
    newline = "\r\n" if "\r\n" in catalogue else "\n"
    last, form_for_one, is_only_for_one = 0, 0, True
    singular = plural = comments = language = ""
    for statement in _statements(path, catalogue):
        comments += statement.comments
        if statement.keyword == "msgid":
            singular, plural = statement.text, ""
            language, comments = format_of(comments), ""
        elif statement.keyword == "msgid_plural":
            plural = statement.text
        elif statement.keyword.startswith("msgstr") and singular and statement.text:
            yield None
        elif statement.keyword.startswith("msgstr") and singular:
            yield catalogue[last : statement.start] + f"{statement.keyword} "
            says_number = is_only_for_one or have_same_directives(singular, plural, language)
            is_for_one = statement.form is None or (statement.form == form_for_one and says_number)
            yield _message(singular if is_for_one else plural, language, newline)
            last = statement.end
        elif statement.keyword == "msgstr":
            form_for_one, is_only_for_one = _form_for_one(path, statement.text)
    yield catalogue[last:]


def _statements(path: Path, catalogue: str) -> Iterator[_Statement]:
    statement, start, before, comments = None, 0, "", ""
    for number, line in enumerate(re.split(r"(?<=\n)", catalogue), start=1):
        found = _LINE.fullmatch(line)
        if found and found["keyword"]:
            keyword = re.sub(r"\d", "", found["keyword"])
            if before not in _FOLLOWS[keyword]:
                raise DataError(f"{path} line {number:,}: {keyword} is out of place; {_CHECK}")
            before = keyword
            if statement is not None:
                yield statement
            form = None if found["form"] is None else int(found["form"])
            statement = _Statement(found["keyword"], form, start, comments)
            comments = ""
        if found and statement is not None:
            text = re.sub(r"\\(.)", lambda escape: _ESCAPES[escape[1]], found["text"])
            statement.lines.append(text)
            statement.end = start + len(line.rstrip())
        elif line.lstrip().startswith("#"):
            comments += line.lstrip()
        elif line.strip():
            raise DataError(f"{path} line {number:,}: not PO; {_CHECK}")
        start += len(line)
    if statement is not None:
        yield statement


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


def _message(source: str, language: str, newline: str) -> str | Unit:
    """Return what is written of a message: its translation, or itself if it has no words."""
    text = protect_directives(source.strip(), language)
    line = _INDENTATION_OR_TAB.sub(
        lambda found: found["indentation"] or f"<!--{found[0]}-->", as_html(text)
    )
    if not parse(line, "html").has_words:
        return _quoted(source, newline)
    spell = partial(_spelt, source=source, language=language, newline=newline)
    return without_mnemonic(Unit(line, otherwise='""', spell=spell))


def _spelt(translation: str, *, source: str, language: str, newline: str) -> str | None:
    """Return a translation as it stands in the catalogue."""
    text = as_text(re.sub(f"<!--({_TAB.pattern})-->", r"\1", translation), source)
    fitted = fit_directives(text.strip(), source, language)
    if fitted is None:
        return None
    start, end = source[: -len(source.lstrip())], source[len(source.rstrip()) :]
    return _quoted(start + fitted + end, newline)


def _quoted(text: str, newline: str) -> str:
    """Return text in quotes, each line by itself."""
    lines = re.findall(r"[^\n]*\n|[^\n]+", text) or [""]
    quoted = [f'"{line.translate(_ESCAPED)}"' for line in lines]
    return newline.join(quoted if len(lines) == 1 else ['""', *quoted])
