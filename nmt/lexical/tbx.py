"""Terms of TBX, as terminology databases write it: version 2 or 3, in the basic form.

An entry is a concept, and has a section for each language, with one or more terms. Those that the
entry prefers come first. Deprecated terms and the like are left out on both sides.

Sources: ISO 30042:2008 and :2019; TBX-Basic, https://www.tbxinfo.net.
"""

from __future__ import annotations

import re
from itertools import chain
from operator import itemgetter
from pathlib import Path
from xml.etree.ElementTree import Element, TreeBuilder

from nmt import console
from nmt.data.languages import serving_codes
from nmt.data.words import on_one_line
from nmt.errors import DataError
from nmt.lexical.word_list import ListedWord
from nmt.markup.xml_files import legal_xml, read_xml, xml_parser

_ENTRIES = {"termEntry", "conceptEntry"}  # of version 2, and of version 3
_LANGUAGES = {"langSet", "langSec"}
_TERMS = {"tig", "ntig", "termSec"}
_STATUS = {"administrativeStatus", "normativeAuthorization"}
NEVER = re.compile("deprecat|supersed|obsolete|forbid|reject|not[ _]?recommend", re.IGNORECASE)
"""What says that a term must not be used, in files of any kind."""
_SHOWN = 8  # languages of a file without those that are wanted


def read_tbx(path: Path, langs: tuple[str, str]) -> list[ListedWord]:
    """Return the terms of a TBX file that have a translation.

    langs: source and target language, of which the file may name the country.
    DataError if it is not TBX, or damaged, or no entry has both languages.
    """
    entries, translated, words, codes = 0, 0, list[ListedWord](), dict[str, None]()
    root, builder = "", TreeBuilder()

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal root
        root = root or _local(tag)
        if root not in ("martif", "tbx"):
            raise DataError(
                f"{path}: not TBX 2 or 3: its first element is <{tag}>; export it as TBX-Basic, "
                "or as a table"
            )
        builder.start(tag, attributes)

    def end(tag: str) -> None:
        nonlocal entries, translated
        element = builder.end(tag)
        if _local(tag) in _ENTRIES:
            entries += 1
            by_code = _by_language(element)
            codes.update(dict.fromkeys(by_code))
            # The terms of each variant of a language, of the one that serves best first.
            sources, targets = (
                [by_code[code] for code in serving_codes(filter(by_code.get, by_code), lang)]
                for lang in langs
            )
            target = tuple(chain.from_iterable(targets[:1]))  # of the variant that serves best
            words.extend(ListedWord(one, target) for some in sources for one in some if target)
            translated += any(sources) and bool(target)
            element.clear()  # a database may have a million

    parser = xml_parser(start, end, builder.data, "utf-8")
    read_xml(path, parser, legal_xml(path, lambda _: None), remedy="export it again")
    if not words:
        shown = ", ".join([*filter(None, codes)][:_SHOWN]) or "none"
        raise DataError(
            f"{path}: no entry has terms in {langs[0]} and {langs[1]} that are not deprecated; its "
            f"languages are {shown}; to take others: {path}:SOURCE,TARGET"
        )
    if translated < entries:
        console.notice(
            f"{path}: {translated:,} of {entries:,} entries have terms in {langs[0]} and "
            f"{langs[1]} that are not deprecated or the like"
        )
    return words


def _by_language(entry: Element) -> dict[str, list[str]]:
    """Return the terms of an entry that may be used, preferred ones first, by language."""
    found: dict[str, list[tuple[bool, str]]] = {}
    for section in filter(lambda one: _local(one.tag) in _LANGUAGES, entry.iter()):
        lang = section.get("xml:lang", section.get("lang", ""))
        terms = found.setdefault(lang.replace("_", "-"), [])
        for holder in filter(lambda one: _local(one.tag) in _TERMS, section):
            status = " ".join(
                _text(note)
                for note in holder.iter()
                if note.get("type") in _STATUS or _local(note.tag) in _STATUS
            )
            term = next((_text(one) for one in holder.iter() if _local(one.tag) == "term"), "")
            if term and not NEVER.search(status):
                terms.append(("prefer" not in status.casefold(), term))
    return {
        lang: [term for _, term in sorted(terms, key=itemgetter(0))]
        for lang, terms in found.items()
    }


def _local(tag: str) -> str:
    """Return the name of an element without the prefix of its namespace."""
    return tag.rpartition(":")[2]


def _text(element: Element) -> str:
    return on_one_line("".join(element.itertext())).strip()
