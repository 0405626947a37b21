"""Which columns of a table hold the source and the target.

They are those that the user names, or those that the header names like the languages, or the only
two that a file has. Anything else is refused with what to type: a wrong guess would train on URLs
or titles.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from nmt.console import printable
from nmt.data.languages import is_code, is_language, names_language
from nmt.data.words import LETTERS
from nmt.errors import DataError, UsageError
from nmt.prepare.readers.table import TableRequest

_SIDES = (("source", "src"), ("target", "tgt", "trg"))
_WORDS = {
    *("id", "index", "idx", "no", "nr", "number", "key", "row", "line", "url", "uri", "link"),
    *("domain", "score", "source", "src", "target", "tgt", "trg", "text", "sentence", "segment"),
    *("original", "translation", "translated", "reference", "ref", "hypothesis", "hyp", "mt"),
    *("input", "output", "title", "topic", "lang", "language", "label", "doc", "document", "file"),
}
"""Of which names of columns are made."""
_WORD = re.compile(rf"{LETTERS}+")
_IDENTIFIER = re.compile(r"[A-Za-z]+(_[A-Za-z0-9]+)+")
_NUMBER = re.compile(r"[0-9]{1,9}")
_NO_TEXT = re.compile(rb"\s*([a-z][a-z0-9+.-]*://\S+|[-+]?[0-9][0-9.,:/eE+-]*)\s*", re.IGNORECASE)
"""A URL, a number or a date."""
_TRANSLATION = "translation."
"""Before the languages in the data sets of Hugging Face: a column with a field for each."""
_SHOWN_CELLS, _SHOWN_LETTERS = 8, 30


@dataclass(frozen=True)
class Columns:
    names: tuple[str, ...]  # of source and target, in the header; or their numbers from 1
    places: tuple[int, int]  # of source and target, from 0
    has_header: bool
    cells: int  # of the first row
    is_wide: bool  # whether a row may have more cells, because the user gave columns by numbers
    warning: str = ""


def find_columns(
    request: TableRequest, rows: Sequence[Sequence[bytes]], header: Sequence[str]
) -> Columns:
    """Find the columns of a table.

    rows: the first ones, the header among them if there is one; header: the first row, decoded.
    DataError if a column is not there, or it is not clear which ones are meant.
    """
    text, langs, columns = request.file, request.langs, request.columns
    if any(_NUMBER.fullmatch(column) and int(column) == 0 for column in columns):
        raise UsageError(f"{text}: columns are counted from 1, not from 0")
    if columns:
        has_header = not all(map(_NUMBER.fullmatch, columns))
        src, tgt = (_place(text, column, header) for column in columns)
        is_wide = all(map(_NUMBER.fullmatch, columns))
        as_text = not has_header and names_languages(header, langs)
        warning = (
            f"{text}: its first row names the languages, but is read as text, because all columns "
            "are given by numbers; give them by names"
        )
        told = warning if as_text else ""
        return Columns(columns, (src, tgt), has_header, len(header), is_wide, told)
    if named := language_columns(text, header, langs):
        if rows[1:] and all(len(row) > len(header) for row in rows[1:]):
            problem = f"its header has {len(header)} columns and its rows have {len(rows[1])}"
            raise DataError(f"{text}: {problem}; name all columns, or write it without row names")
        for at in named:
            if _holds_no_text(rows[1:], at):
                raise _unclear(
                    text, f"its column {header[at]!r} holds numbers or URLs", rows, header
                )
        if all(_repeats_itself(rows, at) for at in named):
            problem = "it has the languages in each row, not in a header"
            raise _unclear(text, problem, rows)
        names = tuple(header[at] for at in named)
        return Columns(names, named, True, len(header), False)
    if looks_like_header(header, langs):
        problem = f"its first row looks like a header but names no {langs[0]} and {langs[1]}"
        raise _unclear(text, problem, rows, header)
    free = [at for at in range(len(header)) if not _is_empty(rows, at)]
    if len(free) > 2:
        raise _unclear(text, f"it has {len(free)} columns and no header that names two", rows)
    src, tgt = free if len(free) == 2 else (0, 1)
    if _holds_no_text(rows, src) or _holds_no_text(rows, tgt):
        raise _unclear(text, "a column holds numbers or URLs, not text", rows)
    return Columns((str(src + 1), str(tgt + 1)), (src, tgt), False, len(header), False)


def _place(text: str, column: str, header: Sequence[str]) -> int:
    if _NUMBER.fullmatch(column):
        return int(column) - 1
    if header.count(column) != 1:
        many = "has several columns" if column in header else "has no column"
        raise DataError(
            f"{text}: {many} {column!r}; its first row is {', '.join(header[:8])!r}; name columns "
            "by a header or by numbers, such as :1,2"
        )
    return header.index(column)


def _unclear(
    text: str, problem: str, rows: Sequence[Sequence[bytes]], header: Sequence[str] = ()
) -> DataError:
    """Return an error that shows the first row, and two columns that may be meant."""
    below = rows[1:] or rows
    places = range(len(rows[0]))
    likely = [at for at in places if not (_is_empty(below, at) or _holds_no_text(below, at))]
    varied = [at for at in likely if not _repeats_itself(rows, at)]
    likely = varied if len(varied) > 1 else likely
    src, tgt = likely[:2] if len(likely) > 1 else (0, 1)
    example = f"{text}:{src + 1},{tgt + 1}"
    if header and tgt < len(header):
        example = f"{text}:{header[src]},{header[tgt]}, or {example} if that row is text"
    cells = [cell.decode(errors="replace") for cell in rows[0][:_SHOWN_CELLS]]
    shown = printable(" | ".join(cell[:_SHOWN_LETTERS] for cell in cells))
    return DataError(f"{text}: {problem}: {shown}; choose two, as in {example}")


def _is_empty(rows: Sequence[Sequence[bytes]], place: int) -> bool:
    return not any(row[place].strip() for row in rows if place < len(row))


def _holds_no_text(rows: Sequence[Sequence[bytes]], place: int) -> bool:
    """Tell whether all cells of a column that hold anything are URLs or numbers."""
    cells = [row[place] for row in rows if place < len(row) and row[place].strip()]
    return bool(cells) and all(map(_NO_TEXT.fullmatch, cells))


def _repeats_itself(rows: Sequence[Sequence[bytes]], place: int) -> bool:
    """Tell whether all rows, at least two, have the same cell."""
    return len(rows) > 1 and len({row[place] for row in rows if place < len(row)}) == 1


def language_columns(
    text: str, names: Sequence[str], langs: tuple[str, str]
) -> tuple[int, int] | None:
    """Return the places of the columns that are named like the languages.

    A name may be a code in any case, with a country or script, or the English name. Without
    such columns, those named source and target are taken.

    text: its name, for messages.
    Returns None if a language has no column. DataError if one has several.
    """
    places_of = [_of_language(names, lang) for lang in langs]
    if not any(places_of):
        words = [name.strip().casefold() for name in names]
        places_of = [[at for at, word in enumerate(words) if word in side] for side in _SIDES]
    if not all(places_of):
        return None
    for lang, places in zip(langs, places_of, strict=True):
        if len(places) > 1 or places_of[0] == places_of[1]:
            listed = ", ".join(names[at] for at in places)
            example = ",".join(names[places[0]] for places in places_of)
            raise DataError(
                f"{text}: the {lang} column may be {listed}; choose two, as in {text}:{example}"
            )
    return places_of[0][0], places_of[1][0]


def nested_columns(text: str, names: Sequence[str], langs: tuple[str, str]) -> tuple[str, str]:
    """Return the columns named like the languages, first those of `translation` (DataError)."""
    inside = [name for name in names if name.startswith(_TRANSLATION)]
    for group in (inside, names):
        short = [name.removeprefix(_TRANSLATION) if group is inside else name for name in group]
        if places := language_columns(text, short, langs):
            return group[places[0]], group[places[1]]
    lacking = next(lang for lang in langs if not _of_language(names, lang))
    raise lacks_column(text, lacking, names)


def lacks_column(text: str, column: str, names: Sequence[str]) -> DataError:
    """Return the error for a table without a column."""
    listed = printable(", ".join(names))
    return DataError(
        f"{text}: has no column {column!r}; it has {listed}; name columns as in "
        f"{text}:SOURCE,TARGET"
    )


def names_languages(names: Sequence[str], langs: tuple[str, str]) -> bool:
    """Tell whether each language has a column, or several."""
    return all(_of_language(names, lang) for lang in langs)


def _of_language(names: Sequence[str], lang: str) -> list[int]:
    """Return the columns that have exactly this name, or else those that mean the language."""
    code = lang.replace("_", "-").casefold()
    exact = [
        at for at, name in enumerate(names) if name.strip().replace("_", "-").casefold() == code
    ]
    return exact or [at for at, name in enumerate(names) if names_language(name, lang)]


def looks_like_header(cells: Sequence[str], langs: tuple[str, str]) -> bool:
    """Tell whether a row that names no pair of columns is a header all the same.

    Each cell is made of words that name columns, such as id or source text, or is a language, or
    is an identifier such as sent_en; or one is the name of a language that is asked for, such as
    German; or one is its code, and the others are codes of other languages, such as gsw.
    """
    names = [cell for cell in cells if len(cell.strip()) > 2]  # "No" and "it" are words, too
    if any(names_language(name, lang) for name in names for lang in langs):
        return True
    if any(lang in cells for lang in langs) and all(map(is_code, cells)):
        return True
    return all(map(_is_name, cells)) and any(map(str.strip, cells))


def _is_name(cell: str) -> bool:
    words = _WORD.findall(cell.casefold())
    is_short = len(cell) <= 40 and len(words) <= 4
    return not cell.strip() or (
        is_short
        and bool(words)
        and (
            is_language(cell)
            or _IDENTIFIER.fullmatch(cell.strip()) is not None
            or all(word in _WORDS or is_language(word) for word in words)
        )
    )
