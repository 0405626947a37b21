"""A table with another column, such as translations: every other byte of it stays.

It is TSV, CSV or JSON Lines, in memory. A column that is there is replaced, and a new one comes
last. An empty cell, and one that says null, stays without text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from nmt.console import printable
from nmt.errors import DataError, UsageError
from nmt.tables.cells import Quotes
from nmt.tables.formats import CSV, JSON_LINES, FileRequest, suffix_of
from nmt.tables.json_values import json_object, json_string, json_values
from nmt.tables.tsv import TsvFile

_NULL = "\\N"  # what databases write for a cell that has no text

Write = Callable[[Sequence[str]], str]
"""Makes the table of the new texts, one for each text of the column that was read."""


def open_column(request: FileRequest, content: bytes, target: str) -> tuple[list[str], Write]:
    """Return the texts of a column, and what writes the table with the target column.

    content: of the file, decompressed. Bytes that are not valid are surrogates in its texts.
    DataError if it is damaged, or lacks the column. UsageError if the target cannot be there.
    """
    whole = content.decode(request.encoding.line_codec, "surrogateescape")
    text = whole.removeprefix("\ufeff")
    if suffix_of(request.file) == JSON_LINES.suffix:
        texts, write = _of_json(request, text, target)
    else:
        quotes = Quotes()
        quotes.look_at(content)
        is_quoted = suffix_of(request.file) == CSV.suffix or quotes.is_quoted()
        table = TsvFile.find(request._replace(quoting="csv" if is_quoted else "none"))
        texts, write = _of_cells(table, text, target)
    return texts, lambda new: whole[: len(whole) - len(text)] + write(new)


def _of_json(request: FileRequest, text: str, target: str) -> tuple[list[str], Write]:
    column, texts = request.columns[0], list[str]()
    changes = list[tuple[int, int, str, bool]]()  # start, end, what comes before, if it stays null
    start = 0
    for number, line in enumerate(text.split("\n"), start=1):
        first, start = start, start + len(line) + 1
        if not line.strip():
            continue
        entry = json_object(line)
        place = f"{request.file} line {number:,}"
        if entry is None:
            raise DataError(f"{place}: not a JSON object: {printable(line[:60])!r}")
        found = [one for one in json_values(line) if None not in one.path]
        values = {".".join(filter(None, one.path)): one for one in found}
        value, there = values.get(column), values.get(target)
        is_null = value is not None and line[value.start : value.end] == "null"
        if value is None or (value.content is None and not is_null):
            shown = printable(" | ".join(values)[:200])
            raise DataError(f"{place}: has no text called {column!r}; it has {shown}")
        if there is None and target in entry:
            raise UsageError(f"{place}: {target} holds others; name another column to write")
        texts.append(value.content or "")
        if there is not None:
            end = first + (there.start if is_null else there.end)
            changes.append((first + there.start, end, "", is_null))
        else:
            colon, comma = (": ", ", ") if '": ' in line else (":", ",")
            end = first + len(line[: line.rindex("}")].rstrip())
            changes.append((end, end, comma + json_string(target, line) + colon, is_null))

    def write(new_texts: Sequence[str]) -> str:
        written, last = list[str](), 0
        for (first, end, before, is_null), new in zip(changes, new_texts, strict=True):
            value = json_string(new, text) if not is_null else "null" if before else ""
            written += [text[last:first], before, value]
            last = end
        return "".join([*written, text[last:]])

    return texts, write


def _of_cells(table: TsvFile, text: str, target: str) -> tuple[list[str], Write]:
    name, places, separator = table.request.file, table.places, table.separator.decode()
    rows = _rows(name, text, separator, is_quoted=table.quoted)
    first = table.names_separator + places.skipped
    header = rows[first - 1] if places.skipped else []
    names, src, width = list(map(_content, header[:-1])), places.places[0], places.cells
    if target in names:
        place = names.index(target)
    elif target.isdigit() and 0 < int(target) <= width + 1:
        place = int(target) - 1
    elif header and not target.isdigit():
        place = width
    else:
        raise UsageError(
            f"{name}: cannot write column {target}: it has {width}; name one, or the next"
        )
    data = [row for row in rows[first:] if len(row) > 2 or row[0] or width == 1]
    texts = ["" if src > len(row) - 2 else _content(row[src]) for row in data]
    texts = ["" if one == _NULL else one for one in texts]

    def put(row: list[str], new: str) -> None:
        """Put a cell in its place; the last of a row is its line end."""
        row[-1:-1] = [""] * (place + 2 - len(row))
        if not table.quoted:
            new = re.sub(r"[\t\r\n]+", " ", new)
        elif row[src].lstrip()[:1] == '"' or {*new} & {separator, '"', "\n", "\r"}:
            new = '"' + new.replace('"', '""') + '"'
        row[place] = new

    def write(new_texts: Sequence[str]) -> str:
        if header and place == width:
            put(header, target)
        for row, old, new in zip(data, texts, new_texts, strict=True):
            if old or place > len(row) - 2:
                put(row, new)
        return "".join(separator.join(row[:-1]) + row[-1] for row in rows)

    return texts, write


def _rows(name: str, text: str, separator: str, *, is_quoted: bool) -> list[list[str]]:
    """Return the cells of each row as they are written, and its line end."""
    end = f"({re.escape(separator)}|\r?\n|\\Z)"
    quoted = r' *"[^"]*+(?>(?:""[^"]*+)*)" *|(?!")' if is_quoted else ""
    cell = re.compile(f"({quoted}[^\n]*?){end}")
    rows, row, position = list[list[str]](), list[str](), 0
    while position < len(text) or row:
        found = cell.match(text, position)
        if found is None:
            line = text.count("\n", 0, position) + 1
            raise DataError(
                f"{name} line {line:,}: a quote opens a cell, but none closes it; mend it"
            )
        row.append(found[1])
        position = found.end()
        if found[2] != separator:
            rows.append([*row, found[2]])
            row = []
    return rows


def _content(cell: str) -> str:
    bare = cell.strip(" ")
    if len(bare) > 1 and bare[0] == bare[-1] == '"':
        return bare[1:-1].replace('""', '"')
    return cell
