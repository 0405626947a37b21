"""Message catalogues of gettext (PO): empty translations are filled, and everything else stays.

A message is a unit. Of a plural, the form for one gets the translation of `msgid`, and the others
that of `msgid_plural`. The header says which form that is. If it is for other numbers, too, and
`msgid` does not say the number, it gets that of `msgid_plural`, as all others do.

A program fills its values into a format string in the order of the original text. A translation
has the directives of its source, such as `%s`, or is refused. In another order, they are numbered
(`%2$d`) if the program's language has numbers.

Source: https://www.gnu.org/software/gettext/manual/html_node/PO-Files.html.
"""

from __future__ import annotations

import gettext
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from nmt.errors import DataError
from nmt.markup.breaks import MarkedLines
from nmt.markup.directives import fit_directives, protect_directives, take_the_same
from nmt.markup.document_units import Unit, as_html, as_text, without_mnemonic

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
    **dict.fromkeys(("domain", "msgctxt"), ("", "domain", "msgstr", "msgstr[]")),
    "msgid": ("", "domain", "msgstr", "msgstr[]", "msgctxt"),
    "msgid_plural": ("msgid",),
    "msgstr": ("msgid",),
    "msgstr[]": ("msgid_plural", "msgstr[]"),
}
"""By keyword, those that may come before it."""
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\0-\x08\v\f\x0e-\x1f\x7f]")
"""A control character, or what colours text in a terminal."""
_INDENTATION_OR_CONTROL = re.compile(rf"(?P<indentation>^[ \t]+)|{_CONTROL.pattern}", re.MULTILINE)

_OF_A_DATE = re.compile(r"%[-_0^#EO]?[A-Za-z](?![a-z])")
"""As in `%b %d, %Y`."""
_FLAGS = re.compile("^#[,=](.*)", re.MULTILINE)
_LANGUAGES = {
    "latex": re.compile(r"^#:.*\.(?:tex|ltx):", re.MULTILINE),
    "rst": re.compile(r"^#:.*(?:\.rst:|:docstring of )", re.MULTILINE),
}
"""Languages of markup of messages, by where these are from."""
_ROLE = re.compile(r"(?<!\w):[a-z][\w:+.-]*:`[^`]+`")  # of reStructuredText
_CODE = re.compile(
    r"^#\. type: \\?(?:begin\{)?(?:align|displaymath|equation|gather|lstlisting|math|minted"
    r"|tikzpicture|verbatim)\b",
    re.IGNORECASE | re.MULTILINE,
)
"""What po4a says of a message that is no text."""
_FUZZY = re.compile(r"(?<![\w-])fuzzy(?![\w-])")
_FORMAT = re.compile(r"(?<![\w-])(?:possible-)?(?!no-)([a-z][a-z+-]*)-format\b")


def catalogue_parts(path: Path, catalogue: str, encoding: str) -> Iterator[str | Unit | None]:
    """Yield what stays and what is translated, and None for each translation there (DataError)."""
    write = partial(_quoted, newline="\r\n" if "\r\n" in catalogue else "\n")
    last, form_for_one, is_only_for_one = 0, 0, True
    singular = plural = comments = ""
    languages, is_code = [""], False
    for keyword, form, text, start, end, before in _statements(path, catalogue, encoding):
        comments += before
        if keyword == "msgid":
            singular, plural = text, ""
            languages, is_code = _languages_of(text, comments), bool(_CODE.search(comments))
            comments = ""
        elif keyword == "msgid_plural":
            plural = text
        elif keyword.startswith("msgstr") and singular and text:
            yield None
        elif keyword.startswith("msgstr") and singular:
            says_number = is_only_for_one or all(
                take_the_same(singular, plural, language) for language in languages
            )
            is_for_one = form is None or (form == form_for_one and says_number)
            source = singular if is_for_one else plural
            unit = None if is_code else message_unit(source, languages, write)
            if unit is not None:
                yield catalogue[last:start]
                yield without_mnemonic(unit)._replace(otherwise=catalogue[start:end])
                last = end
        elif keyword == "msgstr":
            form_for_one, is_only_for_one = _form_for_one(path, text)
    yield catalogue[last:]


def _languages_of(source: str, comments: str) -> list[str]:
    """Return the languages of format strings and markup of a message, or an empty one."""
    languages: list[str] = _FORMAT.findall(" ".join(_FLAGS.findall(comments)))
    languages += [name for name, sign in _LANGUAGES.items() if sign.search(comments)][:1]
    if "rst" not in languages and _ROLE.search(source):
        languages.append("rst")
    return languages or [""]


def catalogue_pairs(path: Path, catalogue: str, encoding: str) -> Iterator[tuple[str, str]]:
    """Yield the source of each translation, and the translation, which may be empty (DataError)."""
    singular = plural = ""
    for keyword, form, text, *_ in _statements(path, catalogue, encoding):
        if keyword == "msgid":
            singular = plural = text
        elif keyword == "msgid_plural":
            plural = text
        elif keyword.startswith("msgstr") and singular:
            yield (plural if form else singular), text


def finished_messages(
    path: Path, catalogue: str, encoding: str
) -> Iterator[tuple[str, str, Sequence[str]]]:
    """Yield source, translation and languages of each message that is done (DataError).

    Those that are fuzzy are not done, and those with plurals have forms that share a source.
    """
    comments = of_message = singular = ""
    for keyword, _, text, _, _, before in _statements(path, catalogue, encoding):
        comments += before
        if keyword == "msgid":
            singular, of_message, comments = text, comments, ""
        elif keyword == "msgstr" and singular and text:
            is_fuzzy = any(map(_FUZZY.search, _FLAGS.findall(of_message)))
            if not is_fuzzy:
                yield singular, text, _languages_of(singular, of_message)


def _statements(
    path: Path, catalogue: str, encoding: str
) -> Iterator[tuple[str, int | None, str, int, int, str]]:
    """Yield each keyword with its form of a plural, its text, where that is, and the comments."""
    keyword, form, lines = "", None, list[str]()
    start = end = position = 0  # of the strings; of the token
    before = comments = ""

    def damaged(what: str) -> DataError:
        line = catalogue.count("\n", 0, position) + 1
        return DataError(f"{path} line {line:,}: {what}; {_CHECK}")

    while position < len(catalogue):
        token = _TOKEN.match(catalogue, position)
        if token is None or (token["text"] is not None and not keyword):
            raise damaged("not PO")
        if token["keyword"]:
            following = re.sub(r"[\s\d]", "", token["keyword"])
            if keyword not in _FOLLOWS[following] or (keyword and not lines):
                raise damaged(f"{following} is out of place")
            if keyword:
                yield keyword, form, "".join(lines), start, end, before
            keyword, form = following, None if token["form"] is None else int(token["form"])
            before, comments, lines = comments, "", []
        elif token["text"] is not None:
            try:
                text = _ESCAPE.sub(partial(_unescaped, encoding=encoding), token["text"])
                text.encode()  # some codecs decode to lone surrogates, which are not text
            except UnicodeError:
                raise damaged(f"its escapes are not valid {encoding}") from None
            if "\0" in text:
                raise damaged("has a NUL")
            start, end = start if lines else position, token.end()
            lines.append(text)
        elif token["comment"]:  # that of an obsolete entry says nothing of the next one
            comments = "" if token["comment"][:2] == "#~" else comments + token["comment"] + "\n"
        position = token.end()
    if keyword:
        if not lines or keyword in ("msgctxt", "msgid", "msgid_plural"):
            raise damaged("ends within an entry")
        yield keyword, form, "".join(lines), start, end, before


def _unescaped(escape: re.Match[str], encoding: str) -> str:
    """Return what an escape stands for, or several that are bytes of characters."""
    if escape["letter"]:
        return _ESCAPES.get(escape["letter"], "")  # of a line end: nothing
    numbers = escape["bytes"].split("\\")[1:]
    codes = [int(one[1:][-2:], 16) if one[0] == "x" else int(one, 8) & 255 for one in numbers]
    return bytes(codes).decode(encoding)


def _form_for_one(path: Path, header: str) -> tuple[int, bool]:
    """Return the plural form for one thing, or -1, and whether it is for no other number."""
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


def message_unit(source: str, languages: Sequence[str], write: Callable[[str], str]) -> Unit | None:
    """Return a message to translate; None if it has no words.

    People translate many of those otherwise, such as `%m/%d/%Y`, so they are left empty.

    languages: of format strings, see `directives`; write: makes a string of the file of a text.
    """

    def spell(translation: str) -> str | None:
        text = as_text(re.sub(f"<!--({_CONTROL.pattern})-->", r"\1", translation), source)
        fitted = fit_directives(text.strip(), source, languages)
        if fitted is None:
            return None
        start, end = source[: -len(source.lstrip())], source[len(source.rstrip()) :]
        return write(start + fitted + end)

    text = protect_directives(source.strip(), languages[-1])
    for brackets_are_text in (False, True):
        written = as_html(text, brackets_are_text=brackets_are_text)
        line = _INDENTATION_OR_CONTROL.sub(
            lambda found: found["indentation"] or f"<!--{found[0]}-->", written
        )
        marked = MarkedLines.of(_OF_A_DATE.sub("", line), "html")
        if marked.has_words:
            marked = marked if marked.markup == line else MarkedLines.of(line, "html")
            return Unit(marked, spell=spell)
    return None


def _quoted(text: str, newline: str) -> str:
    """Return text in quotes, each line by itself."""
    lines = re.findall(r"[^\n]*\n|[^\n]+", text) or [""]
    quoted = [f'"{line.translate(_ESCAPED)}"' for line in lines]
    return newline.join(quoted if len(lines) == 1 else ['""', *quoted])
