"""Which columns of a table hold the source and the target.

They are those that the user names, or those that the header names like the languages. Anything else
is refused with what to type: a wrong guess would train on URLs or titles.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

from nmt import console
from nmt.console import printable
from nmt.data.language_tokens import Langs
from nmt.data.languages import is_code, is_language, names_language
from nmt.errors import DataError, UsageError
from nmt.tables.formats import FileRequest
from nmt.tables.row_choice import RowChoice

_SIDES = (("source", "src"), ("target", "tgt", "trg"))
_TEXT = ("text", "sentence")
"""Names of the column with the text, in a table of one language."""
_NUMBER = re.compile(r"[0-9]{1,9}")
_TRANSLATION = re.compile(r"translations?\.")
"""Before the languages in the data sets of Hugging Face: a column with a field for each."""
_SHOWN_CELLS, _SHOWN_LETTERS = 12, 30
_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")  # of text_en and sourceString
_WORD = r"[^\s\d.!?:;,…。！？，]{1,30}"
_WORDS = re.compile(f"{_WORD}(?: {_WORD})?")  # one or two, as in a header
_LONGEST_CODE, _TIMES_LONGER = 3, 4
_NO_TEXT = re.compile(r"\w+://.*|[!-~]*[\d/_][!-~]*")  # an address, or the name of a file or row
_TITLE_ROWS = 10  # the first ones, of which one is the header if columns are named


class Columns(NamedTuple):
    names: tuple[str, ...]  # of source and target, in the header; or their numbers from 1
    places: tuple[int, int]  # of source and target, from 0
    skipped: int  # rows up to the header, which counts too; 0 without one
    cells: int  # of the header, or of the first row
    choice: RowChoice | None
    choice_places: tuple[int, ...]  # of the columns that choose rows


def find_columns(request: FileRequest, rows: Sequence[Sequence[bytes]], codec: str) -> Columns:
    """Find the columns of a table.

    rows: the first ones, the header among them if there is one; codec: of their cells.
    DataError if a column is not there, or it is not clear which ones are meant.
    """
    numbers = [int(column) for column in request.columns if _NUMBER.fullmatch(column)]
    if 0 in numbers:
        raise UsageError(f"{request.file}: columns are counted from 1, not from 0")
    texts = [[cell.decode(codec, "replace") for cell in row] for row in rows]
    skipped = _rows_to_header(request, texts) if texts else 0
    header = texts[skipped - 1] if skipped else []
    size = len(header or (texts[0] if texts else []))
    names = header or [str(place + 1) for place in range(size)]
    place_of = {names[place]: place for place in reversed(range(size))}  # the first of a name

    def samples(name: str) -> Sequence[str]:
        return _cells(texts[skipped:], place_of[name])

    choice = RowChoice.find(request, header, samples)
    if len(numbers) == 2:
        src, tgt = numbers[0] - 1, numbers[1] - 1
    elif header or request.columns:
        way = _columns_of_text(texts)
        src, tgt = chosen_columns(request, header, range(len(header)), choice, way=way)
        # Some files have the codes of the languages in each row.
        if not request.columns and _holds_codes(texts, src) and _holds_codes(texts, tgt):
            raise _lacks(request, f"columns for {' and '.join(request.langs)}", header, way)
    else:
        src, tgt = 0, int(not request.is_one_side)
    labels = ["".join(names[place : place + 1]) or str(place + 1) for place in (src, tgt)]
    if request.columns and not request.is_one_side and not (choice and choice.languages):
        others = [name for place, name in enumerate(names) if place not in (src, tgt)]
        order = request.langs[::-1] if src > tgt else request.langs
        choice = RowChoice.by_cells(order, others, samples, choice)
    elif choice:
        choice = choice.for_columns(*labels)
    places = tuple(place_of[name] for name in choice.columns) if choice else ()
    return Columns(request.columns or tuple(labels), (src, tgt), skipped, size, choice, places)


def _rows_to_header(request: FileRequest, rows: Sequence[Sequence[str]]) -> int:
    """Return how many rows there are up to the header; 0 if there is none."""
    first, langs = rows[0], request.langs
    if not request.columns:
        return int(not request.is_one_side or len(first) > 1 or bool(_of_text(first, langs[0])))
    if not all(map(_NUMBER.fullmatch, request.columns)):
        named, heads = {*map(_folded, request.columns)}, enumerate(rows[:_TITLE_ROWS], start=1)
        return next((number for number, row in heads if named <= {*map(_folded, row)}), 1)
    places = [int(column) - 1 for column in request.columns]
    cells = ["".join(first[place : place + 1]) for place in places]
    of_text = cells[: 2 - request.is_one_side]
    name, shown = request.file, printable(" | ".join(of_text))
    if _is_header(cells, langs, (_TEXT, _TEXT) if request.is_one_side else _SIDES):
        console.notice(f"{name}: its first row is a header, {shown}, and is left out")
        return 1
    if all(map(_is_short_for, cells, (_cells(rows[1:], place) for place in places))):
        console.notice(
            f"{name}: its first row, {shown}, is read as text; if it is a header, name the columns "
            f"by it: {name}:{','.join(of_text)}"
        )
    return 0


def _is_header(cells: Sequence[str], langs: Sequence[str], sides: Sequence[Sequence[str]]) -> bool:
    """Return whether cells of the first row are names of columns, and no text.

    Both name their sides. Or one names its language, and the other one any language, also one that
    we do not know if it is a word or two beside a name that is no code.
    """
    are_named, longest = [], 0  # letters of the name of a language
    for cell, lang, side in zip(cells, langs, sides, strict=True):
        parts = [cell, *([] if " " in cell else _PART.findall(cell))]
        names = [part for part in parts if names_language(part, lang)]
        are_named.append(any(_folded(part) in side for part in parts) or bool(names))
        longest = max([longest, *map(len, names)])
    if longest > _LONGEST_CODE and all(map(_WORDS.fullmatch, cells)):
        return True
    both = zip(cells, are_named, strict=True)
    return all(is_named or (longest and is_language(cell)) for cell, is_named in both)


def _is_short_for(cell: str, others: Sequence[str]) -> bool:
    """Return whether a cell is a word or two, and the others in its column are sentences."""
    lengths = sorted(map(len, others))
    usual = lengths[len(lengths) // 10] if lengths else 0  # nine of ten are longer
    return bool(_WORDS.fullmatch(cell)) and usual > _TIMES_LONGER * len(cell)


def chosen_columns(
    request: FileRequest,
    names: Sequence[str],
    strings: Sequence[int],
    choice: RowChoice | None,
    *,
    way: str = "SOURCE,TARGET",
) -> tuple[int, int]:
    """Return which columns the user names, or else those named like the languages (DataError).

    Those of `translation` are looked at first.

    names: of the columns, and of the fields inside of columns; strings: which ones hold text;
    choice: what chooses rows, by columns that do not; way: how to name columns.
    """
    langs = request.langs
    if request.columns or request.is_one_side:
        named = [_named(column, names) for column in request.columns]
        named = named or 2 * [_of_text(names, langs[0]) or [*strings]]
        for column, places in zip(request.columns or ("text", "text"), named, strict=True):
            if len(places) != 1:
                raise _lacks(request, f"one column {column!r}", names, way)
        return named[0][0], named[1][0]
    others = choice.columns[: choice.languages] if choice else ()
    plain = ["" if name in others else name for name in names]
    inside = [_TRANSLATION.sub("", name) * bool(_TRANSLATION.match(name)) for name in names]
    text = request.file
    found = language_columns(text, inside, langs) or language_columns(text, plain, langs)
    if found is None:
        raise _lacks(request, f"columns for {langs[0]} and {langs[1]}", names, way)
    return found


def _lacks(request: FileRequest, wanted: str, names: Sequence[str], way: str) -> DataError:
    shown = printable(" | ".join(name[:_SHOWN_LETTERS] for name in names[:_SHOWN_CELLS]))
    text, example = request.file, f"two, as in {request.file}:{way}"
    if request.is_one_side:
        example = f"it, as in {text}:{way.partition(',')[0]}"
    return DataError(f"{text}: must have {wanted}; it has {shown or None}; name {example}")


def are_by_language(columns: tuple[str, ...]) -> bool:
    """Return whether columns are of a table that need not have all languages in each row."""
    return all(map(_TRANSLATION.match, columns))


def by_language(cell: dict[str, Any]) -> dict[str, Any]:
    """Return the texts of a cell by their languages, if it has a list of each; or the cell.

    If there are several texts in a language, the first one is taken.
    """
    langs, texts = cell.get("language"), cell.get("translation")
    if isinstance(langs, list) and isinstance(texts, list) and len(langs) == len(texts):
        return dict(zip(map(str, reversed(langs)), reversed(texts), strict=True))
    return cell


def _named(column: str, names: Sequence[str]) -> list[int]:
    """Return the places of exactly this name, or else of the same one in another case."""
    exact = [place for place, name in enumerate(names) if name == column]
    folded = _folded(column)
    return exact or [place for place, name in enumerate(names) if _folded(name) == folded]


def _of_text(names: Sequence[str], lang: str) -> list[int]:
    """Return the places of the columns that may hold the text of a table with one language."""
    named = [place for place, name in enumerate(names) if _folded(name) in _TEXT]
    return named or _of_language(names, lang)


def _folded(name: str) -> str:
    return name.strip().casefold()


def _cells(rows: Sequence[Sequence[str]], place: int) -> list[str]:
    return [row[place] for row in rows if place < len(row)]


def _holds_codes(rows: Sequence[Sequence[str]], place: int) -> bool:
    """Tell whether all rows, at least two, have the same cell, or a code of a language."""
    cells = set(_cells(rows, place))
    return len(rows) > 1 and (len(cells) == 1 or all(map(is_code, cells)))


def _columns_of_text(rows: Sequence[Sequence[str]]) -> str:
    """Return the numbers of the two columns that seem to hold text, such as 2,3.

    They have most letters. Addresses, names of files and what many rows repeat are no text.
    """

    def letters(place: int) -> float:
        cells = _cells(rows, place)
        if 2 * len(set(cells)) <= len(cells):
            return 0
        counts = [0 if _NO_TEXT.fullmatch(cell) else sum(map(str.isalpha, cell)) for cell in cells]
        return statistics.median(counts)

    width = max(map(len, rows), default=0)
    best = sorted(range(width), key=letters, reverse=True)[:2]
    return ",".join(str(place + 1) for place in sorted(best)) if width > 1 else "1,2"


def language_columns(text: str, names: Sequence[str], langs: Langs) -> tuple[int, int] | None:
    """Return the places of the columns that are named like the languages.

    A name may be a code in any case, with a country or script, or the English name. Without
    such columns, those named source and target are taken.

    text: its name, for messages.
    Returns None if a language has no column. DataError if one has several.
    """
    places_of = [_of_language(names, lang) for lang in langs]
    if not any(places_of):
        words = list(map(_folded, names))
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


def _of_language(names: Sequence[str], lang: str) -> list[int]:
    """Return the columns that have exactly this name, or else those that mean the language."""
    code = lang.replace("_", "-").casefold()
    exact = [index for index, name in enumerate(names) if _folded(name).replace("_", "-") == code]
    return exact or [index for index, name in enumerate(names) if names_language(name, lang)]
