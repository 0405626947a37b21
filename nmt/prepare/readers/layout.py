"""How the rows of TSV and CSV are written: what separates their cells, and which are quoted.

The first rows show it. What they do not show is refused with what to type.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass, replace

from nmt.console import printable
from nmt.data.corpus import Encoding
from nmt.errors import DataError
from nmt.prepare.readers.cells import (
    TAB,
    Quotes,
    are_quoted,
    first_rows,
    guess_separator,
    quoted_rows,
    usual_cells,
)
from nmt.prepare.readers.columns import Columns, find_columns, names_languages
from nmt.prepare.readers.line_files import Lines
from nmt.prepare.readers.table import TableRequest

_SEPARATOR_LINE = re.compile(rb'"?sep=(.)"?')
_DICTIONARY = re.compile(rb"""(^|[\t,;])"?\{\s*('\w+'|""?\w+""?)\s*:""")
"""A cell such as {'en': ..., of Python or JSON."""
_SAMPLED = 100


@dataclass(frozen=True)
class TableLayout:
    """What is needed to read the rows of a file."""

    separator: bytes
    names_separator: bool  # whether the first line is `sep=;`, for spreadsheets
    quoted: bool  # whether cells are
    is_guessed: bool
    """Whether the first rows are not quoted, and the others may show something else."""
    columns: Columns


def find_layout(
    request: TableRequest, lines: Lines, encoding: Encoding, *, is_csv: bool
) -> TableLayout:
    """Find out how a file is written.

    is_csv: whether to look for the separator, and not to doubt that cells are quoted.
    DataError if the file does not show it, or lacks a column.
    """
    text, langs, quoting = request.file, request.langs, request.quoting
    block = lines.take(lines.ready()) if lines.ready() else b""
    start = block.removeprefix(codecs.BOM_UTF8).removesuffix(b"\n").split(b"\n") if block else []
    start = [line.removesuffix(b"\r") for line in start]
    if len(start) == 1 and start[0].count(b"\r") > 1:
        raise DataError(f"{text}: its lines end in \\r only; convert it: tr '\\r' '\\n'")
    if any(_DICTIONARY.search(line) for line in start[:2]):
        raise DataError(
            f"{text}: its cells hold dictionaries, not text; write it with to_json as .jsonl, or "
            "with a column for each language"
        )
    separator, named = TAB, None
    if is_csv:
        quoting = quoting or "csv"
        named = _SEPARATOR_LINE.fullmatch(start[0]) if start else None
        start = start[named is not None :]
        separator = named[1] if named else guess_separator(start[:_SAMPLED], text)
    quoted, is_told = quoting == "csv", bool(quoting)
    if not is_told:
        first = _unquoted(start[0].split(TAB)) if start else []
        is_named = names_languages(_decoded(first, encoding), langs)
        quoted = _is_quoted(text, block, lines, start, is_named=is_named)
    if quoted and start:
        rows = first_rows(start[:_SAMPLED], separator, text)
        rows = rows or [next(quoted_rows(iter(start), separator, text))]  # raises what is wrong
        header = _decoded(rows[0], encoding)
    else:
        rows = [line.split(separator) for line in start[:_SAMPLED]]
        header = _decoded(_unquoted(rows[0]), encoding) if rows else []
    columns = find_columns(request, rows, header)
    return TableLayout(separator, named is not None, quoted, not (quoted or is_told), columns)


def _decoded(cells: list[bytes], encoding: Encoding) -> list[str]:
    return [encoding.decode(cell, number=0) or "" for cell in cells]


def _unquoted(cells: list[bytes]) -> list[bytes]:
    """Return the names of a header, which may be in quotes although the other rows are not."""
    return [cell[1:-1] if cell[:1] == cell[-1:] == b'"' else cell for cell in cells]


def _is_quoted(
    text: str, block: bytes, lines: Lines, start: list[bytes], *, is_named: bool
) -> bool:
    """Tell whether cells of TSV are quoted; DataError if that is unclear.

    is_named: whether the first row names the languages.
    """
    quotes = Quotes(usual_cells(start[:_SAMPLED]))
    quotes.look_at(block)
    in_quotes = are_quoted(start[:_SAMPLED])
    if not quotes.plain and (in_quotes or (is_named and start[0].startswith(b'"'))):
        return True
    if in_quotes:  # and quotes inside are written in another way, such as \"
        raise unclear_quotes(text, replace(quotes, example=start[1]))
    while quotes.is_quoted() is None and not quotes.plain and lines.ready():
        quotes.look_at(lines.take(lines.ready()))
    is_quoted = quotes.is_quoted()
    if is_quoted is None:
        raise unclear_quotes(text, quotes)
    return is_quoted


def unclear_quotes(text: str, quotes: Quotes) -> DataError:
    """Return the error for TSV whose cells may be quoted or not."""
    shown = printable(quotes.example.decode(errors="replace")[:60])
    return DataError(
        f"{text}: cells such as {shown} may be quoted, as spreadsheets do, or be text with quotes; "
        f"pass --quoting {text}=csv or --quoting {text}=none"
    )
