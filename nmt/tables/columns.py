"""Which columns of a table hold the source and the target.

They are those that the user names, or those that the header names like the languages. Anything else
is refused with what to type: a wrong guess would train on URLs or titles.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from nmt.console import printable
from nmt.data.languages import names_language
from nmt.errors import DataError, UsageError
from nmt.tables.formats import FileRequest

_SIDES = (("source", "src"), ("target", "tgt", "trg"))
_NUMBER = re.compile(r"[0-9]{1,9}")
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


def find_columns(
    request: FileRequest, rows: Sequence[Sequence[bytes]], header: Sequence[str]
) -> Columns:
    """Find the columns of a table.

    rows: the first ones, the header among them if there is one; header: the first row, decoded.
    DataError if a column is not there, or it is not clear which ones are meant.
    """
    text, langs, columns = request.file, request.langs, request.columns
    if any(_NUMBER.fullmatch(column) and int(column) == 0 for column in columns):
        raise UsageError(f"{text}: columns are counted from 1, not from 0")
    if columns:
        src, tgt = (_place(text, column, header) for column in columns)
        are_numbers = all(map(_NUMBER.fullmatch, columns))
        return Columns(columns, (src, tgt), not are_numbers, len(header), are_numbers)
    if not rows:
        return Columns(("1", "2"), (0, 1), False, 0, False)
    named = language_columns(text, header, langs)
    # Some files have the codes of the languages in each row.
    if named is None or all(_repeats_itself(rows, index) for index in named):
        cells = [cell.decode(errors="replace") for cell in rows[0][:_SHOWN_CELLS]]
        shown = printable(" | ".join(cell[:_SHOWN_LETTERS] for cell in cells))
        raise DataError(
            f"{text}: no header names {langs[0]} and {langs[1]}; the first row is {shown}; name "
            f"two columns, as in {text}:1,2, or by a header"
        )
    return Columns((header[named[0]], header[named[1]]), named, True, len(header), False)


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
        places_of = [[index for index, word in enumerate(words) if word in side] for side in _SIDES]
    if not all(places_of):
        return None
    for lang, places in zip(langs, places_of, strict=True):
        if len(places) > 1 or places_of[0] == places_of[1]:
            listed = ", ".join(names[index] for index in places)
            example = ",".join(names[places[0]] for places in places_of)
            raise DataError(
                f"{text}: the {lang} column may be {listed}; choose two, as in {text}:{example}"
            )
    return places_of[0][0], places_of[1][0]


def nested_columns(request: FileRequest, text: str, names: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that the user names, or else those named like the languages (DataError).

    Those of `translation` are looked at first.

    text: its name, for messages; names: of the columns, and of the fields inside of columns.
    """
    for column in request.columns:
        if column not in names:
            raise _lacks_column(text, column, names)
    if request.columns:
        return request.columns
    inside = [name for name in names if name.startswith(_TRANSLATION)]
    for group in (inside, names):
        short = [name.removeprefix(_TRANSLATION) if group is inside else name for name in group]
        if places := language_columns(text, short, request.langs):
            return group[places[0]], group[places[1]]
    lacking = next(lang for lang in request.langs if not _of_language(names, lang))
    raise _lacks_column(text, lacking, names)


def _lacks_column(text: str, column: str, names: Sequence[str]) -> DataError:
    """Return the error for a table without a column."""
    listed = printable(", ".join(names))
    return DataError(
        f"{text}: has no column {column!r}; it has {listed}; name columns as in "
        f"{text}:SOURCE,TARGET"
    )


def _of_language(names: Sequence[str], lang: str) -> list[int]:
    """Return the columns that have exactly this name, or else those that mean the language."""
    code = lang.replace("_", "-").casefold()
    exact = [
        index
        for index, name in enumerate(names)
        if name.strip().replace("_", "-").casefold() == code
    ]
    return exact or [index for index, name in enumerate(names) if names_language(name, lang)]
