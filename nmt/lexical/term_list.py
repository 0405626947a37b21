"""Files of terms.

A file is a table or TBX (`nmt.lexical.tbx`). A table has the source and the target of a term in two
columns. Without a header it has only these, so that no comment or language code is taken for a
form of the target. Glossaries of OmegaT say in their first line what they are: their third column
is a comment. See `nmt.lexical.word_list` for how terms are found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain, islice, zip_longest
from pathlib import Path
from textwrap import shorten

from nmt import console
from nmt.console import counted, printable
from nmt.data.corpus import Encoding, read_chunks, split_lines
from nmt.data.languages import is_language, names_language, primary_language
from nmt.data.words import has_letters
from nmt.errors import DataError
from nmt.lexical.tbx import NEVER, read_tbx
from nmt.lexical.word_list import ListedWord, WordList, has_capital
from nmt.markup.file_types import decoded, first_bytes
from nmt.tables import formats
from nmt.tables.cells import TAB, Quotes, quoted_rows
from nmt.tables.columns import Columns, find_columns, language_columns
from nmt.tables.formats import FileRequest
from nmt.tables.tsv import csv_separator
from nmt.tables.xlsx import read_sheet

_UTF_8 = Encoding.find("utf-8")
_XML = re.compile(r"\s*<(?:[?!]|martif\b|tbx\b)")
_OMEGAT = re.compile(r"\ufeff?#.*(?:Glossary in tab-separated format|-\*- coding:)")
_SIDES = {"term": "source", "word": "source", "translation": "target", "translated": "target"}
"""What headers of glossaries call the sides, if they do not name the languages."""
_TERM = re.compile(r"(.+?)[\s_]+(?:term|word)s?|(?:term|word)s?[\s_]+(.+)", re.IGNORECASE)
_FORM = re.compile(r"forms?[\s_]?\d*", re.IGNORECASE)
_STATUS = re.compile(r"(?i)(?<![a-z])(?:is[ _]?)?(?:status|forbidden|deprecated)(?![a-z])")
_YES = {"yes", "y", "true", "1", "x"}
_SAMPLED = 100  # rows that show what the columns are
_BETWEEN = re.compile(r"\s*[;；؛|]\s*")
_BRACKET = re.compile(
    r"(?<=\S)(?:\s+(?:\([^()]*\)|\[[^][]*\]|\{[^{}]*\})|\s*（[^（）]*）)+(?=\s*(?:[;；؛|]|$))"
)
"""At the end of a term: a gender, a field or an explanation."""
_CAPITALS, _FEWEST = 0.9, 10
"""A list with so many capitals was written by a program that begins cells with them."""
_JOINT = re.compile(r"[/,、，،]")  # may stand between alternatives, or be part of a term


def read_terms(path: Path, langs: tuple[str, str]) -> WordList:
    """Read a file of terms, plain or compressed, which may name columns, as in terms.csv:en,de.

    langs: source and target language, which a header or the file may name.
    DataError if it has no terms, is damaged, or does not show which columns are meant. UsageError
    if it is of another kind, or not two columns are named.
    """
    name, columns = formats.file_and_columns(str(path))
    sheet, columns = formats.sheet_and_columns(str(path), formats.suffix_of(name), columns)
    start = first_bytes(Path(name))
    if _XML.match(decoded(start)):
        words = read_tbx(Path(name), (columns[0], columns[1]) if columns else langs)
    else:
        if not columns and _OMEGAT.match(decoded(start)):
            columns = ("1", "2")
        request = FileRequest(str(path), name, Path(name), columns, langs, _UTF_8, sheet=sheet)
        words = list(_words_of(request, _rows(request, start)))
    if not any(has_letters(word.source) and has_letters(word.targets[0]) for word in words):
        raise DataError(f"{path}: has no terms; write SOURCE<TAB>TARGET on its lines")
    capitals = sum(has_capital(word.source[:1]) for word in words)
    if capitals >= max(_CAPITALS * len(words), _FEWEST) and primary_language(langs[0]) != "de":
        console.notice(
            f"{name}: {capitals:,} of {len(words):,} terms begin with a capital, and so are only "
            "found as written; in lower case, they are found in any case"
        )
    return WordList(words)


def _rows(request: FileRequest, start: bytes) -> list[list[bytes]]:
    """Return the cells of all rows. Comments are blank rows, so that the others keep their numbers.

    start: the first bytes of the file.
    """
    name, suffix = request.file, formats.suffix_of(request.file)
    if suffix in formats.SPREADSHEETS:
        return read_sheet(request)
    formats.refuse_spreadsheet(name, start)
    lines, separator, is_quoted = [*_lines(request.path)], TAB, True
    if suffix == formats.CSV.suffix:
        first_lines = [line for line in lines if line.strip()][:_SAMPLED]
        separator, names_separator = csv_separator(first_lines, request)
        if names_separator:
            lines[lines.index(first_lines[0])] = b""
    else:
        lines = [b"" if line.startswith(b"#") else line for line in lines]
        if any(lines) and not any(TAB in line for line in lines):
            raise DataError(
                f"{name}: has no tab; write terms as SOURCE<TAB>TARGET, or give .csv, .xlsx or TBX"
            )
        quotes = Quotes()
        quotes.look_at(b"\n".join(lines))
        is_quoted = quotes.is_quoted() is not False
    if not is_quoted:
        return [line.split(separator) for line in lines]
    remedy = "write it twice, and the whole cell in quotes"
    return [*quoted_rows(iter(lines), separator, name, remedy=remedy)]


def _lines(path: Path) -> Iterator[bytes]:
    for number, line in enumerate(split_lines(read_chunks(path, _UTF_8, any_bytes=True)), start=1):
        text = _UTF_8.decode(line, number=number)
        if text is None or line.count(0) * 4 > len(line):  # UTF-16 without a mark is half NUL
            raise DataError(
                f"{path}: line {number:,} is not valid UTF-8; convert it, for example with "
                "iconv -f windows-1252 -t utf-8"
            )
        yield text.encode()


def _words_of(request: FileRequest, rows: Sequence[Sequence[bytes]]) -> Iterator[ListedWord]:
    """Yield the terms of a table, and tell what is left out and what is not read as it stands."""
    file = request.file
    numbers = [number for number, row in enumerate(rows, 1) if any(map(bytes.strip, row))]
    table = [[cell.decode().strip() for cell in rows[number - 1]] for number in numbers]
    if not table:
        return
    columns, header, forms, statuses = _find_columns(request, table)
    (src, tgt), choice = columns.places, columns.choice
    has_any_forms = bool(forms) and forms[-1] == len(header) - 1  # a row may have more of them
    lacking, of_others, odd, changed = list[int](), 0, list[str](), list[str]()
    barred = list[str]()
    for number, row in islice(zip(numbers, table, strict=True), columns.skipped, None):
        cells = row + [""] * (max(src, tgt, *columns.choice_places) + 1 - len(row))
        more = cells[len(header) :] if header else []
        if choice and choice.reason_against([cells[n] for n in columns.choice_places]):
            of_others += 1
        elif not (cells[src] and cells[tgt]) or (any(more) and not has_any_forms):
            lacking.append(number)
        elif any(_bars(header[n], cells[n]) for n in statuses if n < len(cells)):
            barred.append(f"{cells[src]} = {cells[tgt]}")
        else:
            others = [cells[n] for n in forms if n < len(cells)] + more * has_any_forms
            texts = [cells[src], cells[tgt], *filter(None, others)]
            sources, *targets = map(_alternatives, texts)
            changed += [text for text in texts if _alternatives(text) != [text]][:1]
            joint = [bool(_JOINT.search("".join(side))) for side in (sources, *targets[:1])]
            odd += [texts[joint.index(True)]] if joint[0] != joint[1] else []
            for source in sources:
                yield ListedWord(source, tuple(dict.fromkeys(chain.from_iterable(targets))))
    if changed:
        console.notice(
            f"{file}: {counted(len(changed), 'term is', 'terms are')} read as alternatives, or "
            f"without brackets at the end, such as {printable(changed[0])}"
        )
    if of_others:
        console.notice(f"{file}: left out {counted(of_others, 'row', 'rows')} of other languages")
    if barred:
        console.notice(
            f"{file}: left out {counted(len(barred), 'row', 'rows')} that must not be used by "
            f"{', '.join(header[n] for n in statuses)}, such as {printable(barred[0])}"
        )
    if lacking:
        console.warning(
            f"{file}: left out {counted(len(lacking), 'row', 'rows')} without a source or target, "
            f"or with too many cells; the first is row {lacking[0]:,}"
        )
    if odd:
        console.warning(
            f"{file}: {counted(len(odd), 'term has', 'terms have')} a comma or slash on one side, "
            f"such as {printable(odd[0])}; put semicolons between alternatives"
        )


def _find_columns(
    request: FileRequest, table: list[list[str]]
) -> tuple[Columns, list[str], list[int], list[int]]:
    """Return the columns of source and target, the header, and those of other forms and statuses.

    DataError if there are more than two columns, and neither a header nor the user says which.
    """
    file, named = request.file, bool(request.columns)
    sides, sample = list(map(_side, table[0])), table[:_SAMPLED]
    width = max(place for row in table for place, cell in enumerate(row, 1) if cell)
    if not named and language_columns(file, sides, request.langs):
        sample[0] = sides
    elif not named and width > 2:
        cells = enumerate(zip_longest(*sample, fillvalue=""), start=1)
        filled = [str(number) for number, column in cells if any(map(has_letters, column))]
        longest = next(row for row in table if len(row) > 2)
        shown = printable(" | ".join(longest)[:60])
        raise DataError(
            f"{file}: has {width} columns, such as {shown}, but no header for them; name two, as "
            f"in {file}:{','.join(filled[:2])}, or put a row above: source, target, form, form"
        )
    elif not named:
        request = request._replace(columns=("1", "2"))
    rows = [[cell.encode() for cell in row] for row in sample]
    columns = find_columns(request, rows, _UTF_8.name)
    header = table[columns.skipped - 1] if columns.skipped else []
    forms = [n for n, name in enumerate(header) if _FORM.fullmatch(name) and not named]
    statuses = [n for n, name in enumerate(header) if _is_status(name, request.langs)]
    used = {*columns.places, *columns.choice_places, *forms, *statuses}
    if others := [name for n, name in enumerate(header) if name and n not in used]:
        src, tgt = (header[place] for place in columns.places)
        left_out = shorten(printable(", ".join(others)), 80, placeholder="...")
        console.notice(f"{file}: terms are in {src} and {tgt}; left out: {left_out}")
    return columns, header, forms, statuses


def _is_status(name: str, langs: tuple[str, str]) -> bool:
    """Return whether a column says if terms may be used: of all languages, or of one of these."""
    other = _STATUS.sub("", name).strip(" _-:()[]")
    is_of_others = is_language(other) and not any(names_language(other, lang) for lang in langs)
    return bool(_STATUS.search(name)) and not is_of_others


def _bars(name: str, cell: str) -> bool:
    """Return whether such a column says that a term must not be used."""
    asks = not re.search("status", name, re.IGNORECASE)  # as `Forbidden` does
    return bool(NEVER.search(cell)) or (asks and cell.casefold() in _YES)


def _side(name: str) -> str:
    """Return the name of a column as tables of text have it: `English` for `English term`."""
    match = _TERM.fullmatch(name)
    name = (match[1] or match[2]).strip("()[]") if match else name
    return _SIDES.get(name.casefold(), name)


def _alternatives(cell: str) -> list[str]:
    """Return the terms that stand in a cell: `Leuchte; Lampe` are two, `Tante (f.)` is `Tante`."""
    return [part for part in _BETWEEN.split(_BRACKET.sub("", cell)) if part] or [cell]
