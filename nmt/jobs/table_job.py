"""A table in a job: the texts of a column are translated, and stand in another one."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path

from nmt import console
from nmt.data.corpus import Encoding
from nmt.errors import DataError, UsageError
from nmt.jobs.counts import Counts, translate_whole
from nmt.jobs.lines import Line
from nmt.jobs.options import JobOptions
from nmt.jobs.parallel import Translators
from nmt.markup.file_types import FileType, type_of_content
from nmt.tables.formats import CSV, JSON_LINES, TSV, FileRequest, file_and_columns, suffix_of

_SURROGATE = re.compile("[\ud800-\udfff]")
_FENCE = re.compile(r"\s*(?:```\w*\n\s*)?")
_BEGINNINGS = tuple("{[<")  # of documents, as far as a cell may hold one
_SUFFIXES = tuple(one.suffix for one in (TSV, CSV, JSON_LINES))


def take_columns(job: JobOptions) -> tuple[JobOptions, tuple[str, str] | None]:
    """Split FILE:COLUMN of the input and output; no columns if they name files (UsageError)."""
    typed = [*job.inputs, *filter(None, [job.output])]
    split = {one: file_and_columns(one) for one in typed if not Path(one).exists()}
    named = {one: (file, *columns) for one, (file, columns) in split.items() if columns}
    if not named:
        return job, None
    way = "name a column of each, as in --input x.tsv:en --output y.tsv:de"
    if len(job.inputs) != 1 or len(named) < 2 or any(len(parts) != 2 for parts in named.values()):
        raise UsageError(f"{next(iter(named))}: columns go from one file to one other; {way}")
    (file, source), (output, target) = (named[one] for one in typed)
    if suffix_of(file) not in _SUFFIXES or suffix_of(file) != suffix_of(output):
        raise UsageError(f"{typed[1]}: both must be .tsv, .csv or .jsonl; {way}")
    return replace(job, inputs=(file,), output=output), (source, target)


def translate_table(
    source: Path,
    content: bytes,
    columns: tuple[str, str],
    *,
    encoding: Encoding,
    pool_lines: int,
    start: Callable[[], Translators],
) -> tuple[bytes, Counts]:
    """Translate a column of a table, `pool_lines` at a time. A line end parts paragraphs.

    content: its bytes, decompressed; columns: what is read, and what is written; start: returns
    translators, when the table has been read.
    Returns the bytes of the table with the translations, and the counts of paragraphs.
    """
    from nmt.tables.other_column import open_column  # loads NumPy, which lines do not need

    name, column = str(source), 2 * columns[:1]
    request = FileRequest(name, name, source, column, ("und", "und"), encoding, is_one_side=True)
    texts, write = open_column(request, content, columns[1])
    if documents := [kind.name for text in texts if (kind := _document_in(text))]:
        console.warning(
            f"{source}: {len(documents):,} texts look like {documents[0]}, which is translated as "
            "lines; write each to a file, and give that as --input"
        )
    paragraphs = [text.split("\n") for text in texts]
    raw = [one.removesuffix("\r") for text in paragraphs for one in text]
    valid = [_SURROGATE.sub("\ufffd", one) for one in raw]
    lines = [Line(one, is_valid=one == read) for one, read in zip(valid, raw, strict=True)]
    translations, counts, _ = translate_whole(lines, pool_lines, start, "paragraphs")
    waiting = (translation.text for translation in translations)
    new = ["\n".join(islice(waiting, len(text))) for text in paragraphs]
    try:
        return write(new).encode(encoding.line_codec, "surrogateescape"), counts
    except UnicodeEncodeError as error:
        letter = error.object[error.start]
        raise DataError(
            f"{source}: {encoding.name} has no {letter!r}, as a translation has; save it as UTF-8"
        ) from None


def _document_in(text: str) -> FileType | None:
    """Return the type of a document that stands in a cell, perhaps fenced as in Markdown."""
    bare = _FENCE.sub("", text, count=1)
    return type_of_content(bare.encode(errors="replace")) if bare[:1] in _BEGINNINGS else None
