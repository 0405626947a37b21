"""Which rows of a table are of the languages that you ask for, by what the rows say of themselves.

Some tables hold many pairs of languages, and name those of each row: in one column, such as `lp`
with `en-de_DE`, or in two, such as `src_lang` and `tgt_lang`. If all pairs have a side in common,
one column may name the other, such as `lang`. WMT24++ also marks bad rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from nmt.data.languages import is_code, is_language, names_language, variant_rank
from nmt.tables.formats import FileRequest

_LANG = "lang(?:uage)?(?:code|id)?"
_SOURCE = re.compile(rf"sl|(?:src|source){_LANG}|{_LANG}(?:src|source)")
_TARGET = re.compile(rf"tl|(?:tgt|trg|target){_LANG}|{_LANG}(?:tgt|trg|target)")
_PAIR = re.compile(r"lp|(?:lang(?:uage)?)?pairs?|lang(?:uage)?s|(?:translation)?direction")
_ONE = re.compile(rf"{_LANG}|locale")
"""Names of columns, without case, spaces and the like, that may name the languages of rows."""
_BETWEEN = re.compile(r"\s*(?:->|=>|[-–→|/>:,])\s*|\s+to\s+|(?<=[a-zA-Z])2(?=[a-zA-Z])")
"""What stands between the languages of a pair. An underscore does so only if nothing else does."""
_MARKS = {"isbadsource": ("true", "1"), "domain": ("canary",), "documentid": ("canary",)}
"""Columns, and what they hold in a row that its makers tell you to leave out."""
_LONGEST_PAIR = len("zho_Hant -> yue_Hant")
_MOST = 0.9  # of the first cells of a column that are languages; others may be unknown to us

Samples = Callable[[str], Sequence[object]]
"""Returns the first cells of a column, by its name."""


class RowChoice(NamedTuple):
    """Chooses rows by the cells of some columns."""

    columns: tuple[str, ...]
    languages: int  # how many of them, the first ones, name languages: none, one or two
    orders: tuple[tuple[str, ...], ...]  # the pairs, or languages, of which a row must name one

    @classmethod
    def find(cls, request: FileRequest, names: Sequence[str], samples: Samples) -> RowChoice | None:
        """Return how to choose the rows of a table; None if no column tells them apart.

        names: of the columns. Most of their samples must be languages, since a name such as `pair`
        may mean anything.
        """

        def first(pattern: re.Pattern[str], is_right: Callable[[str], object]) -> list[str]:
            for name in names:
                if pattern.fullmatch(_plain(name)) and _are_mostly(samples(name), is_right):
                    return [name]
            return []

        marks = [name for name in names if _plain(name) in _MARKS]
        src, tgt = first(_SOURCE, is_language), first(_TARGET, is_language)
        order: tuple[str, ...] = request.langs
        languages = src + tgt if src and tgt else first(_PAIR, _pairs_in)
        if not languages and (src or tgt):
            languages, order = src or tgt, order[:1] if src else order[1:]
        elif not languages and (languages := first(_ONE, is_language)):
            order = _side(samples(languages[0]), request.langs)
        if request.is_one_side or not order:
            languages = []
        columns = (*languages, *marks)
        return cls(columns, len(languages), (order,)) if columns else None

    @classmethod
    def by_cells(
        cls, order: tuple[str, ...], names: Sequence[str], samples: Samples, marks: RowChoice | None
    ) -> RowChoice | None:
        """Return how to choose rows by columns that hold codes, whatever their names.

        Two columns of codes name the languages of rows, or one of pairs: that of the text further
        left comes first, unless no pair is in this order. One code by itself may mean anything,
        such as the language that a text was written in first.

        order: the languages of the text, from left to right; names: of the columns that are no
        text; marks: the choice by other columns.
        """
        codes = [name for name in names if _are_mostly(samples(name), is_code)]
        pairs = [name for name in names if _are_mostly(samples(name), _pairs_of_codes)]
        languages = codes if len(codes) == 2 else pairs[:1]
        if not languages:
            return marks
        told = [(_told(cell),) for cell in samples(languages[0])]
        if len(languages) == 1 and not any(_fits(cell, order) for cell in told):
            order = order[::-1]
        return cls((*languages, *(marks.columns if marks else ())), len(languages), (order,))

    def for_columns(self, src: str, tgt: str) -> RowChoice:
        """Return the choice for columns whose names may tell the source from the target."""
        langs = self.orders[0]
        if re.search("src|source", src, re.IGNORECASE):
            return self
        if re.search("src|source", tgt, re.IGNORECASE):
            return self._replace(orders=(langs[::-1],))
        return self._replace(orders=(langs, langs[::-1]))

    def reason_against(self, cells: Sequence[object]) -> str:
        """Return why a row is left out, by its cells in the columns; empty if it is taken."""
        told = tuple(map(_told, cells))
        for name, cell in zip(self.columns[self.languages :], told[self.languages :], strict=True):
            if cell.casefold() in _MARKS[_plain(name)]:
                return f"{name} {cell}"
        langs = told[: self.languages]
        fits = not langs or any(_fits(langs, order) for order in self.orders)
        return "" if fits else "-".join(langs) or "no language"


def _side(cells: Sequence[object], langs: tuple[str, str]) -> tuple[str, ...]:
    """Return the language of which rows must be by a column with one; empty: all are taken.

    That is the target if the cells have neither. With both, they may tell which side of a row was
    written first.
    """
    told = list(filter(None, map(_told, cells)))
    served = tuple(lang for lang in langs if any(_serves(one, lang) for one in told))
    return () if served == langs else served or langs[1:]


def _are_mostly(cells: Sequence[object], is_right: Callable[[str], object]) -> bool:
    told = [_told(cell) for cell in cells if cell]
    return bool(told) and len(list(filter(is_right, told))) >= _MOST * len(told)


def _told(cell: object) -> str:
    if isinstance(cell, bytes):
        return cell.decode(errors="replace")
    return "" if cell is None else str(cell)


@lru_cache(4096)
def _plain(name: str) -> str:
    """Return the last part of the name of a column, which may be inside of others."""
    return re.sub(r"[\W_]", "", name.rpartition(".")[2]).casefold()


@lru_cache(4096)
def _fits(told: tuple[str, ...], langs: tuple[str, ...]) -> bool:
    """Return whether a row that names these languages, or this pair, is of the ones asked for."""
    if len(langs) == 1:
        return _serves(told[0], langs[0])
    pairs = [told] if len(told) == 2 else _pairs_in(told[0])
    return any(all(map(_serves, pair, langs)) for pair in pairs)


def _serves(found: str, asked: str) -> bool:
    if is_code(found):
        return variant_rank(found, asked) is not None
    return names_language(found, asked)


def _pairs_of_codes(cell: str) -> list[tuple[str, str]]:
    return _pairs_in(cell) if len(cell) <= _LONGEST_PAIR else []  # addresses have many parts


def _pairs_in(cell: str) -> list[tuple[str, str]]:
    """Return the pairs of languages that a cell may name: en-zh-TW is en and zh-TW."""
    parts, joint = _BETWEEN.split(cell), "-"
    if len(parts) == 1:
        parts, joint = cell.split("_"), "_"
    cuts = range(1, len(parts))
    pairs = [(joint.join(parts[:cut]), joint.join(parts[cut:])) for cut in cuts]
    return [pair for pair in pairs if all(map(is_language, pair))]
