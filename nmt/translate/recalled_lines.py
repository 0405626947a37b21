"""Translation memories: a line that stands in one word for word gets the translation there.

A memory is TMX, a table, or the targets of PO or XLIFF. It is a layer around the road: what it has
is not searched for. Of several translations of a source, the first counts. What nobody stands by is
left out: fuzzy entries of PO, targets that XLIFF says are to be looked at, and those that only
repeat their source. So are plurals, whose forms share a source.

Tags never change: a line with tags needs a source with the same markup, and a target with the same
tags.
"""

from __future__ import annotations

import html
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from nmt import console
from nmt.data.corpus import Encoding
from nmt.data.words import on_one_line
from nmt.errors import DataError, UsageError
from nmt.markup.breaks import MarkedLines
from nmt.markup.file_types import file_type
from nmt.markup.markup_tokens import tokenize
from nmt.tables.formats import file_and_columns
from nmt.translate.output import Translation

Memory = dict[tuple[str, str], str]
"""Translations by the form of their markup, empty for plain text, and by their source."""


def read_memory(memory: Path, langs: tuple[str, str]) -> Memory:
    """Read a memory, which may name columns, as in old.csv:en,de.

    DataError if it is damaged, or has nothing. UsageError if it is of another kind.
    """
    found = Memory()
    several = 0
    for form, source, target in _entries(memory, langs):
        key = form, _key(source)
        target = target.strip() if form else on_one_line(target).strip()
        if key[1] and target:
            several += found.setdefault(key, target) != target
    if not found:
        raise DataError(f"{memory}: has no translations from {langs[0]} to {langs[1]}")
    if several:
        console.notice(
            f"{memory}: {console.counted(several, 'source has', 'sources have')} other "
            "translations, too; the first one counts"
        )
    return found


def recall_lines(
    memory: Memory, lines: Sequence[str | MarkedLines], prefixes: Sequence[str], form: str | None
) -> dict[int, Translation]:
    """Return the translations of those lines, or units of a document, that a memory has.

    prefixes: of each line, which then gets none; or none. form: of the tags in lines, if they have
    some.
    """
    return {
        number: Translation(text, 0.0, 0.0, (), (), 1, remembered=True)
        for number, line in enumerate(lines)
        if not any(prefixes[number : number + 1])
        and (text := _recall(memory, line, form)) is not None
    }


def _recall(memory: Memory, line: str | MarkedLines, form: str | None) -> str | None:
    markup = line.markup if isinstance(line, MarkedLines) else line
    # A unit with a sign for a shortcut needs an entry with the same, or one without.
    written = line.written if isinstance(line, MarkedLines) else ""
    text = memory.get((form or "", _key(written))) or memory.get((form or "", _key(markup)))
    if form is not None:
        if tags := _tags(markup, form):
            text = text or memory.get(("", _key(markup)))
        elif text is None and (plain := memory.get(("", _key(html.unescape(markup))))):
            text = html.escape(plain, quote=False)
        if text is None or _tags(text, form) != tags:
            return None
    return text if text is None or isinstance(line, MarkedLines) else on_one_line(text)


def _entries(memory: Path, langs: tuple[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield the form of the markup, the source and the target of each entry."""
    from nmt.markup.document_texts import translated_units  # compiles the patterns of documents
    from nmt.prepare.readers.find import find_reader
    from nmt.tables.table import Table

    path, encoding = Path(file_and_columns(str(memory))[0]), Encoding.find("utf-8")
    kind = file_type(path)
    if kind is not None and kind.name in ("PO", "XLIFF"):
        yield from translated_units(path, kind, encoding)
        return
    table = find_reader(str(memory), langs, encoding)
    if not isinstance(table, Table):
        raise UsageError(f"--memory {memory}: give TMX, PO, XLIFF or a table, such as .tsv")
    for row in table.checked_rows(lambda _: None):
        if not (row.is_missing or row.left_out):
            codec = table.encoding.line_codec
            yield "", row.src.decode(codec, "replace"), row.tgt.decode(codec, "replace")


def _key(source: str) -> str:
    return unicodedata.normalize("NFC", " ".join(source.split()))


def _tags(markup: str, form: str) -> Counter[str]:
    return Counter(token.raw for token in tokenize(markup, form) if token.kind != "text")
