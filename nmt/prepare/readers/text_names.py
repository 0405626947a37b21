"""How options name a text: a prefix, two files, or one file with columns."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from nmt.errors import did_you_mean
from nmt.tables.formats import TABLES, Format, file_and_columns, name_and_value, suffix_of

TMX = Format("TMX", ".tmx", "nmt.prepare.readers.tmx:TmxFile", has_columns=False)
ZIP = Format("ZIP", ".zip", "nmt.prepare.readers.line_files:ZipFiles.find", has_columns=False)
FORMATS = (*TABLES, TMX, ZIP)
"""Of texts that are one file with both sides, beside test sets of WMT."""

Copies = Mapping[str, Path]
"""Where the copies of texts are, by their names: of stdin, of URLs and of tables in archives."""


def format_of(name: str) -> Format | None:
    """Return the format of a file with both sides by its name; None if it is named otherwise."""
    return next((one for one in FORMATS if one.suffix == suffix_of(name)), None)


def has_rows(name: str) -> bool:
    """Return whether a file is a table or a translation memory, of which a folder may have many."""
    return format_of(name) not in (None, ZIP)


def two_files(name: str) -> tuple[str, str] | None:
    """Split SOURCE,TARGET, the names of two files; None if a text is named otherwise."""
    src, comma, tgt = name.partition(",")
    return (src, tgt) if comma and src and tgt and "," not in tgt else None


def number_of(text: str) -> float:
    """Return the number that a text holds, NaN if it holds none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def problems_of_values(
    option: str, values: Sequence[str], prefixes: Sequence[str]
) -> Iterator[str]:
    """Yield which of the TEXT=VALUE of an option name no text, or one that has a value."""
    seen = set()
    prefixes = [file_and_columns(prefix)[0] for prefix in prefixes]
    for text in values:
        prefix, _ = name_and_value(text)
        if "=" not in text:
            yield f"{option} {text}: must be TEXT=VALUE"
        elif prefix in seen:
            yield f"{option} {text}: {prefix} has one already; give only one"
        elif prefix not in prefixes:
            yield f"{option} {text}: no text has this name{did_you_mean(prefix, prefixes)}"
        seen.add(prefix)
