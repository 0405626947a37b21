"""Cells of a row of text: split at a separator, and quoted or not.

A quoted cell stands in quotes, and a quote inside it is doubled (RFC 4180). It may hold separators
and line ends, so a stray quote would swallow rows. In TSV both kinds are common: crawls write cells
as they are, and spreadsheets and data frames quote some of them. `Quotes` tells which it is.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from nmt.errors import DataError

TAB = b"\t"
_QUOTE, _LINE_FEED = ord('"'), ord("\n")
_QUOTED = re.compile(rb'"[^"]*+(?>(?:""[^"]*+)*)"')
_CLOSING = re.compile(rb'[^"]*+(?>(?:""[^"]*+)*)"')  # how a line begins in which a quoted cell ends
_SPACED = re.compile(rb' +"[^"]*+(?>(?:""[^"]*+)*)" *')
"""In CSV that people type, a space stands between a comma and a quote."""
_LINE_END = re.compile(rb"[\r\n]+")
_MOST_LINES = 1000  # of a cell; a stray quote would read a whole file
_CELL_ENDS = (b"\t", b"\r", b"\n", b"")
_ODD_IN_TEXT = (TAB, b"\n", b'""')
_OUTNUMBERED = 10
"""A few cells that look quoted, in a text with so many times as many quotes that do not."""


def one_line(cell: bytes) -> bytes:
    """Return a cell with its line ends as spaces, since a pair is a line."""
    return _LINE_END.sub(b" ", cell)


def quoted_rows(
    lines: Iterator[bytes], separator: bytes, name: str, *, number: int = 1, remedy: str = ""
) -> Iterator[list[bytes]]:
    """Yield the cells of each row, without quotes.

    lines: without line feeds; number: of the first one in the file.
    remedy: if a quote does not close, what to do; empty to name the option of `nmt prepare`.
    DataError if a cell that begins with a quote is not quoted well.
    """
    for line in lines:
        start = number
        cells, rest = _split(line, separator) if _QUOTE in line else (line.split(separator), b"")
        while rest:
            parts = [rest]
            for following in islice(lines, start + _MOST_LINES - number):
                parts.append(following)
                if _CLOSING.match(following):
                    break
            else:
                break
            number += len(parts) - 1
            more, rest = _split(b"\n".join(parts), separator)
            cells = cells + more if more else []
        if rest or not cells:
            raise DataError(
                f"{name} line {start:,}: a quote opens a cell, but none closes it at its end (one "
                "inside is written twice); "
                + (remedy or f"mend it, or pass --quoting {name}=none if quotes are text")
            )
        yield cells
        number += 1


def _split(line: bytes, separator: bytes) -> tuple[list[bytes], bytes]:
    """Return the cells of a row, none if one is broken, and the one that goes on in the next line.

    line: of the file, or the rest of a row from a cell on that went on.
    """
    cells, position, size = list[bytes](), 0, len(line)
    while True:
        quoted = _QUOTED.match(line, position)
        if quoted is None and line[position : position + 1] == b'"':
            return cells, line[position:]
        if quoted is None and separator != TAB:
            quoted = _SPACED.match(line, position)
            if quoted and line[quoted.end() : quoted.end() + 1] not in (separator, b""):
                quoted = None
        if quoted:
            cells.append(one_line(quoted[0].strip(b" ")[1:-1].replace(b'""', b'"')))
            end = quoted.end()
            while separator != TAB and line[end : end + 1] == b" ":
                end += 1
        else:
            end = line.find(separator, position)
            end = size if end < 0 else end
            cells.append(line[position:end])
        if end == size:
            return cells, b""
        if line[end : end + 1] != separator:
            return [], b""
        position = end + 1


@dataclass
class Quotes:
    """Counts the cells of TSV that begin with a quote, by what they say of the file."""

    quoted: int = 0
    """Would be odd as text: they have a doubled quote inside, or a line end or tab."""
    unclear: int = 0  # are in quotes as a whole: quoted, or a sentence that someone says
    plain: int = 0
    """Quotes in cells that are not quoted. Who writes quoted cells leaves none."""
    example: bytes = b""  # the first cell that may be quoted

    def look_at(self, text: bytes) -> None:
        """Count the quotes of whole lines."""
        codes = np.frombuffer(text, np.uint8)
        places = np.flatnonzero(codes == _QUOTE)
        before = codes[places - 1]
        starts = places[(places == 0) | (before == TAB[0]) | (before == _LINE_FEED)]
        end, inside = 0, 0
        for start in starts.tolist():
            if start < end:
                continue
            cell = _QUOTED.match(text, start)
            if cell is None:  # it may go on in the lines that follow these
                inside += text.count(b'"', start)
                break
            if text[cell.end() : cell.end() + 1] not in _CELL_ENDS:
                continue
            end = cell.end()
            inside += cell[0].count(b'"')
            self.example = self.example or cell[0]
            is_odd = any(sign in cell[0][1:-1] for sign in _ODD_IN_TEXT)
            self.quoted += is_odd
            self.unclear += not is_odd
        self.plain += len(places) - inside

    def is_quoted(self) -> bool | None:
        """Return whether the file is quoted; None if that is unclear."""
        if self.quoted * _OUTNUMBERED <= self.plain:
            return None if self.unclear and not self.plain else False
        return None if self.plain else True


def guess_separator(lines: list[bytes], name: str) -> bytes:
    """Return what gives most rows of CSV the cells of the first row (DataError)."""
    if not lines:
        return b","
    rows = {separator: first_rows(lines, separator, name) for separator in (b",", b";", TAB, b"|")}
    separators = [one for one, cells in rows.items() if _are_alike(cells)]
    if not separators:
        separators = [one for one, cells in rows.items() if _are_alike(cells, padded=True)]
    if len(separators) != 1:
        candidates = " and ".join(repr(separator.decode()) for separator in separators) or "nothing"
        shown = lines[0][:60].decode(errors="replace")
        raise DataError(
            f"{name}: {candidates} may separate its cells; its first row is {shown!r}; write sep=, "
            "or sep=; on a line before it"
        )
    return separators[0]


def _are_alike(rows: list[list[bytes]], *, padded: bool = False) -> bool:
    """Tell whether most rows have as many cells as the first, which has several.

    padded: whether they may have more that are empty, or fewer. Excel decides for each 16 rows
        whether it writes the separators of empty cells at the end.
    """
    width = len(rows[0]) if rows else 0
    if padded:
        alike = sum(len(cells) > 1 and not any(cells[width:]) for cells in rows)
    else:
        alike = sum(len(cells) == width for cells in rows)
    return width > 1 and alike >= 0.9 * len(rows)


def first_rows(lines: list[bytes], separator: bytes, name: str) -> list[list[bytes]]:
    """Return the rows of the first lines, up to one that is cut or broken."""
    rows = list[list[bytes]]()
    with contextlib.suppress(DataError):
        rows.extend(quoted_rows(iter(lines), separator, name))
    return rows
