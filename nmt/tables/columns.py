"""Which columns of a table hold the source and the target.

They are those that the user names, or those that the header names like the languages. Anything else
is refused with what to type: a wrong guess would train on URLs or titles.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from nmt import console
from nmt.console import printable
from nmt.data.languages import names_language
from nmt.errors import DataError, UsageError
from nmt.tables.formats import FileRequest
from nmt.tables.row_choice import RowChoice

_SIDES = (("source", "src"), ("target", "tgt", "trg"))
_TEXT = ("text", "sentence")
"""Names of the column with the text, in a table of one language."""
_NUMBER = re.compile(r"[0-9]{1,9}")
_TRANSLATION = re.compile(r"translations?\.")
"""Before the languages in the data sets of Hugging Face: a column with a field for each."""
STRING = "string"  # the type of columns that hold text
_SHOWN_CELLS, _SHOWN_LETTERS = 8, 30
_TITLE_ROWS = 10  # the first ones, of which one is the header if columns are named


@dataclass(frozen=True)
class Columns:
    names: tuple[str, ...]  # of source and target, in the header; or their numbers from 1
    places: tuple[int, int]  # of source and target, from 0
    skipped: int  # rows up to the header, which counts too; 0 without one
    cells: int  # of the header, or of the first row
    choice: RowChoice | None = None
    choice_places: tuple[int, ...] = ()  # of the columns that choose rows


def find_columns(request: FileRequest, rows: Sequence[Sequence[bytes]], codec: str) -> Columns:
    """Find the columns of a table.

    rows: the first ones, the header among them if there is one; codec: of their cells.
    DataError if a column is not there, or it is not clear which ones are meant.
    """
    if any(_NUMBER.fullmatch(column) and int(column) == 0 for column in request.columns):
        raise UsageError(f"{request.file}: columns are counted from 1, not from 0")
    texts = [[cell.decode(codec, "replace") for cell in row] for row in rows]
    skipped = _rows_to_header(request, texts)
    header = texts[skipped - 1] if skipped else []
    first = header or (texts[0] if texts else [])

    def samples(name: str) -> Sequence[str]:
        place = header.index(name)
        return [row[place] for row in texts[skipped:] if place < len(row)]

    choice = RowChoice.find(header, samples, request)
    if request.columns:
        names = request.columns
        src, tgt = (_place(request.file, column, first) for column in names)
    elif texts:
        src, tgt = _found_places(request, texts, choice)
        names = (header[src], header[tgt]) if header else (str(src + 1), str(tgt + 1))
    else:
        names, src, tgt = ("1", "2"), 0, 1
    if choice is None:
        return Columns(names, (src, tgt), skipped, len(first))
    choice = choice.for_columns(*("".join(header[place : place + 1]) for place in (src, tgt)))
    places = tuple(map(header.index, choice.columns))
    return Columns(names, (src, tgt), skipped, len(first), choice, places)


def _rows_to_header(request: FileRequest, rows: Sequence[Sequence[str]]) -> int:
    """Return how many rows there are up to the header; 0 if there is none."""
    if not rows:
        return 0
    if not request.columns:
        return int(not request.is_one_side or bool(_of_text(rows[0], request.langs[0])))
    named = {column.casefold() for column in request.columns if not _NUMBER.fullmatch(column)}
    if named:
        heads = enumerate(rows[:_TITLE_ROWS], start=1)
        return next((n for n, row in heads if named <= {*map(str.casefold, row)}), 1)
    cells = ["".join(rows[0][int(column) - 1 :][:1]) for column in request.columns]
    for cell, lang, names in zip(cells, request.langs, _SIDES, strict=True):
        if cell.strip().casefold() not in names and not names_language(cell, lang):
            return 0
    shown = printable(" | ".join(cells))
    console.notice(f"{request.file}: its first row is a header, {shown}; it is no pair")
    return 1


def _found_places(
    request: FileRequest, rows: Sequence[Sequence[str]], choice: RowChoice | None
) -> tuple[int, int]:
    """Return the places of the columns that the first row names (DataError)."""
    text, langs = request.file, request.langs
    if request.is_one_side:
        places = _of_text(rows[0], langs[0]) or [*range(len(rows[0]))]
        if len(places) != 1:
            raise _lacks_column(text, "text", rows[0])
        return places[0], places[0]
    others = choice.language_columns if choice else ()
    named = language_columns(text, ["" if name in others else name for name in rows[0]], langs)
    # Some files have the codes of the languages in each row.
    if named is None or all(_repeats_itself(rows, place) for place in named):
        shown = printable(" | ".join(cell[:_SHOWN_LETTERS] for cell in rows[0][:_SHOWN_CELLS]))
        raise DataError(
            f"{text}: no header names {langs[0]} and {langs[1]}; the first row is {shown}; name "
            f"two columns, as in {text}:1,2, or by a header"
        )
    return named


def _place(text: str, column: str, header: Sequence[str]) -> int:
    if _NUMBER.fullmatch(column):
        return int(column) - 1
    places = _named(column, header)
    if len(places) != 1:
        many = "has several columns" if places else "has no column"
        raise DataError(
            f"{text}: {many} {column!r}; its first row is {', '.join(header[:8])!r}; name columns "
            "by a header or by numbers, such as :1,2"
        )
    return places[0]


def _named(column: str, names: Sequence[str]) -> list[int]:
    """Return the places of exactly this name, or else of the same one in another case."""
    exact = [place for place, name in enumerate(names) if name == column]
    folded = column.casefold()
    return exact or [place for place, name in enumerate(names) if name.casefold() == folded]


def _of_text(names: Sequence[str], lang: str) -> list[int]:
    """Return the places of the columns that may hold the text of a table with one language."""
    named = [place for place, name in enumerate(names) if name.strip().casefold() in _TEXT]
    return named or _of_language(names, lang)


def _repeats_itself(rows: Sequence[Sequence[str]], place: int) -> bool:
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


def nested_columns(
    request: FileRequest, types: Mapping[str, str], samples: Callable[[str], Sequence[object]]
) -> tuple[tuple[str, str], RowChoice | None]:
    """Return the columns that the user names, or else those named like the languages (DataError).

    Those of `translation` are looked at first. With them comes what chooses rows, if there is
    something.

    types: of the columns, and of the fields inside of columns. samples: returns the first cells of
    a column.
    """
    text, names, langs = request.file, list(types), request.langs
    choice = RowChoice.find(names, samples, request)
    places = [place for column in request.columns for place in _one_place(text, column, names)]
    if request.is_one_side and not places:
        strings = [place for place, name in enumerate(names) if types[name] == STRING]
        places = 2 * (_of_text(names, langs[0]) or strings)
    elif not places:
        others = choice.language_columns if choice else ()
        plain = ["" if name in others else name for name in names]
        inside = [_TRANSLATION.sub("", name) * bool(_TRANSLATION.match(name)) for name in names]
        found = language_columns(text, inside, langs) or language_columns(text, plain, langs)
        if found is None:
            lacking = next(lang for lang in langs if not _of_language(plain, lang))
            raise _lacks_column(text, lacking, names)
        places = [*found]
    if len(places) != 2:
        raise _lacks_column(text, "text", names)
    src, tgt = (names[place] for place in places)
    return (src, tgt), choice and choice.for_columns(src, tgt)


def are_by_language(columns: tuple[str, ...]) -> bool:
    """Return whether columns are of a table that need not have all languages in each row."""
    return all(map(_TRANSLATION.match, columns))


def _one_place(text: str, column: str, names: Sequence[str]) -> list[int]:
    places = _named(column, names)
    if len(places) != 1:
        raise _lacks_column(text, column, names)
    return places


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
