"""Which rows of a table are of the languages that you ask for, by what the rows say of themselves.

Some tables hold many pairs of languages, and name those of each row: in one column, such as `lp`
with `en-de_DE`, or in two, such as `src_lang` and `tgt_lang`. WMT24++ also marks bad rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from nmt import console
from nmt.console import printable
from nmt.data.languages import OTHER_VARIANT, is_code, is_language, names_language, variant_rank
from nmt.tables.formats import FileRequest

_LANG = "lang(?:uage)?(?:code|id)?"
_SOURCE = re.compile(rf"sl|(?:src|source){_LANG}|{_LANG}(?:src|source)")
_TARGET = re.compile(rf"tl|(?:tgt|trg|target){_LANG}|{_LANG}(?:tgt|trg|target)")
_PAIR = re.compile(r"lp|(?:lang(?:uage)?)?pairs?|lang(?:uage)?s|(?:translation)?direction")
"""Names of columns, without case, spaces and the like, that may name the languages of rows."""
_BETWEEN = re.compile(r"\s*(?:->|=>|[-–→|/>:,])\s*|\s+to\s+|(?<=[a-zA-Z])2(?=[a-zA-Z])")
"""What stands between the languages of a pair. An underscore does so only if nothing else does."""
_MARKS = {"isbadsource": ("true", "1"), "domain": ("canary",), "documentid": ("canary",)}
"""Columns, and what they hold in a row that its makers tell you to leave out."""
_OF_SOURCE = re.compile("src|source", re.IGNORECASE)


_MOST = 0.9  # of the first cells of a column that are languages; others may be empty or unknown
_SHOWN = 4


@dataclass(frozen=True)
class RowChoice:
    """Chooses rows by the cells of some columns."""

    columns: tuple[str, ...]
    languages: int  # how many of them, the first ones, name languages: none, one or two
    pair: tuple[str, str]  # the languages that a row must name
    any_order: bool = False  # whether it may name them in the other order

    @classmethod
    def find(
        cls,
        names: Sequence[str],
        samples: Callable[[str], Sequence[object]],
        request: FileRequest,
    ) -> RowChoice | None:
        """Return how to choose the rows of a table; None if no column tells them apart.

        names: of the columns. samples: returns the first cells of a column, most of which must be
        languages, since a name such as `pair` may mean anything.
        """
        plain = {name: _plain(name) for name in names}

        def named(pattern: re.Pattern[str], is_right: Callable[[str], object]) -> list[str]:
            candidates = [name for name in names if pattern.fullmatch(plain[name])]
            found = []
            for name in candidates:
                cells = [_told(cell) for cell in samples(name) if cell]
                right = sum(bool(is_right(cell)) for cell in cells)
                if cells and right >= _MOST * len(cells):
                    found.append(name)
                elif len(set(cells)) > 1 and ("lang" in plain[name] or plain[name] == "lp"):
                    shown = printable(", ".join(sorted(set(cells))[:_SHOWN]))
                    console.warning(
                        f"{request.file}: the column {name} holds {shown}, which are no languages "
                        "that nmt knows; all rows are taken"
                    )
            return found

        src, tgt = named(_SOURCE, is_language), named(_TARGET, is_language)
        languages = [*src[:1], *tgt[:1]] if src and tgt else named(_PAIR, _pairs_in)[:1]
        if request.is_one_side:
            languages = []
        marks = [name for name in names if plain[name] in _MARKS]
        if not languages and not marks:
            return None
        return cls((*languages, *marks), len(languages), request.langs)

    @property
    def language_columns(self) -> tuple[str, ...]:
        return self.columns[: self.languages]

    def for_columns(self, src: str, tgt: str) -> RowChoice:
        """Return the choice for these columns of text."""
        any_order = all(map(names_language, map(_last, (src, tgt)), self.pair))
        is_swapped = bool(_OF_SOURCE.search(tgt)) and not _OF_SOURCE.search(src)
        pair = self.pair[::-1] if is_swapped else self.pair
        return replace(self, pair=pair, any_order=any_order)

    def reason_against(self, cells: Sequence[object]) -> str:
        """Return why a row is left out, by its cells in the columns; empty if it is taken."""
        for name, cell in zip(self.columns[self.languages :], cells[self.languages :], strict=True):
            if _told(cell).casefold() in _MARKS[_plain(name)]:
                return f"{name} {_told(cell)}"
        told = tuple(_told(cell) for cell in cells[: self.languages])
        if not told or _fits(told, self.pair) or (self.any_order and _fits(told, self.pair[::-1])):
            return ""
        return "-".join(told) or "no language"


def _told(cell: object) -> str:
    if isinstance(cell, bytes):
        return cell.decode(errors="replace")
    return "" if cell is None else str(cell)


def _last(name: str) -> str:
    """Return the last part of the name of a column that may be inside of others."""
    return name.rpartition(".")[2]


@lru_cache(4096)
def _plain(name: str) -> str:
    return re.sub(r"[\W_]", "", _last(name)).casefold()


@lru_cache(4096)
def _fits(told: tuple[str, ...], langs: tuple[str, str]) -> bool:
    """Return whether a row that names these languages, or this pair, is of the ones asked for."""
    pairs = [told] if len(told) == 2 else _pairs_in(told[0])
    return any(all(map(_serves, pair, langs)) for pair in pairs)


def _serves(found: str, asked: str) -> bool:
    if is_code(found):
        return variant_rank(found, asked) not in (OTHER_VARIANT, None)
    return names_language(found, asked)


def _pairs_in(cell: str) -> list[tuple[str, str]]:
    """Return the pairs of languages that a cell may name: en-zh-TW is en and zh-TW."""
    parts, joint = _BETWEEN.split(cell.strip()), "-"
    if len(parts) == 1:
        parts, joint = cell.strip().split("_"), "_"
    pairs = [(joint.join(parts[:at]), joint.join(parts[at:])) for at in range(1, len(parts))]
    return [pair for pair in pairs if all(map(is_language, pair))]
