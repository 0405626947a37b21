"""How options name a text: a prefix, two files, or one file with columns."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from nmt.data.compressed import SUFFIXES
from nmt.errors import did_you_mean

STDIN = "-"  # stands for TSV on stdin instead of a file's name
PARQUET = ".parquet"  # the suffix of the files that a folder may be made of
TABLES = (".tsv", ".csv", ".jsonl", PARQUET)
"""Suffixes of files that have columns, in any case."""
QUOTINGS = ("csv", "none")

_TABLE = re.compile(r"-|.*\.((tsv|csv|jsonl)(\.\w+)?|parquet)", re.IGNORECASE)


def file_and_columns(prefix: str) -> tuple[str, tuple[str, ...]]:
    """Split the name of a text, such as crawl.tsv:en,de, into that of its file and its columns."""
    name, colon, columns = prefix.rpartition(":")
    if not colon or "/" in columns or not ("," in columns or _TABLE.fullmatch(name)):
        return prefix, ()
    return name, tuple(columns.split(","))


def two_files(name: str) -> tuple[str, str] | None:
    """Split SOURCE,TARGET, the names of two files; None if a text is named otherwise."""
    src, comma, tgt = name.partition(",")
    return (src, tgt) if comma and src and tgt and "," not in tgt else None


def suffix_of(name: str) -> str:
    """Return the suffix of a file name in lower case, without that of compression."""
    path = Path(name.lower())
    return Path(path.stem).suffix if path.suffix in SUFFIXES else path.suffix


def name_and_value(text: str) -> tuple[str, str]:
    """Split TEXT=VALUE at the last equals sign, since a prefix may hold others.

    A file is named without its columns.
    """
    prefix, _, value = text.rpartition("=")
    return file_and_columns(prefix)[0], value


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
