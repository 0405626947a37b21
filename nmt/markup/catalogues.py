"""Message catalogues of gettext (PO): empty translations are filled, and everything else stays.

A message is a unit. Of a plural, the form for one gets the translation of `msgid`, and the others
that of `msgid_plural`. The header says which form that is.

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
from nmt.markup.document_units import Unit, as_html, as_text
from nmt.markup.tags import parse

_CHECK = "see what msgfmt --check says"
_LINE = re.compile(
    r"\s*(?:(?P<keyword>msgctxt|msgid|msgid_plural|msgstr(?:\[(?P<form>\d)\])?)\s*)?"
    r'"(?P<text>(?:[^"\\]|\\[abfnrtv"\\])*+)"\s*'
)
_PLURAL_FORMS = re.compile(r"Plural-Forms:\s*nplurals\s*=\s*(\d);\s*plural\s*=([^;\n]+)")
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
    last, form_for_one = 0, 0
    singular = plural = ""
    for statement in _statements(path, catalogue):
        if statement.keyword == "msgid":
            singular, plural = statement.text, ""
        elif statement.keyword == "msgid_plural":
            plural = statement.text
        elif statement.keyword.startswith("msgstr") and singular and statement.text:
            yield None
        elif statement.keyword.startswith("msgstr") and singular:
            yield catalogue[last : statement.start] + f"{statement.keyword} "
            is_for_one = statement.form in (None, form_for_one)
            yield _message(singular if is_for_one else plural, newline)
            last = statement.end
        elif statement.keyword == "msgstr":
            form_for_one = _form_for_one(path, statement.text)
    yield catalogue[last:]


def _statements(path: Path, catalogue: str) -> Iterator[_Statement]:
    statement, start, before = None, 0, ""
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
            statement = _Statement(found["keyword"], form, start)
        if found and statement is not None:
            text = re.sub(r"\\(.)", lambda escape: _ESCAPES[escape[1]], found["text"])
            statement.lines.append(text)
            statement.end = start + len(line.rstrip())
        elif line.strip() and not line.lstrip().startswith("#"):
            raise DataError(f"{path} line {number:,}: not PO; {_CHECK}")
        start += len(line)
    if statement is not None:
        yield statement


def _form_for_one(path: Path, header: str) -> int:
    """Return the number of the plural form for one thing; -1 if there is one form for all."""
    found = _PLURAL_FORMS.search(header)
    if found is None:  # a template, or a catalogue without plurals
        return 0
    try:
        return -1 if found[1] == "1" else gettext.c2py(found[2])(1)
    except (ValueError, ArithmeticError):
        raise DataError(f"{path}: its Plural-Forms are damaged; {_CHECK}") from None


def _message(source: str, newline: str) -> str | Unit:
    """Return what is written of a message: its translation, or itself if it has no words."""
    line = _INDENTATION_OR_TAB.sub(
        lambda found: found["indentation"] or f"<!--{found[0]}-->", as_html(source.strip())
    )
    if not parse(line, "html").has_words:
        return _quoted(source, source=source, newline=newline)
    return Unit(line, otherwise='""', spell=partial(_quoted, source=source, newline=newline))


def _quoted(translation: str, *, source: str, newline: str) -> str:
    """Return a translation in quotes, each line by itself."""
    text = as_text(re.sub(f"<!--({_TAB.pattern})-->", r"\1", translation), source)
    start, end = source[: -len(source.lstrip())], source[len(source.rstrip()) :]
    lines = re.findall(r"[^\n]*\n|[^\n]+", start + text.strip() + end) or [""]
    quoted = [f'"{line.translate(_ESCAPED)}"' for line in lines]
    return newline.join(quoted if len(lines) == 1 else ['""', *quoted])
