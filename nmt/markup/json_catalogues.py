"""Message catalogues in JSON: their values are translated in place, and every other byte stays.

They are those of i18next, Vue and the like, which are keys and texts, nested or not, ARB of
Flutter, and `messages.json` of browser extensions. A key that begins with `@` is a note on another
one. If each entry is an object with a `message`, that is its text, and the rest is for translators.

Other JSON is data, of which nobody knows what is text. It is told by its values: those of 535 real
catalogues are numbers, names and addresses much less often than those of settings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from nmt.data.languages import primary_language
from nmt.data.words import has_letters
from nmt.errors import DataError
from nmt.markup.catalogues import message_unit
from nmt.markup.document_units import Unit, without_mnemonic
from nmt.system.files import parse_json
from nmt.tables.json_values import Value, json_string, json_values

_MESSAGES = ("message", "defaultMessage")  # of extensions, and of FormatJS
_NAME = re.compile(
    r"[^\sA-Z\u0080-\U0010ffff]*|[!-~]*[_/.:@#\\][!-~]*|\w+[a-z][A-Z]\w*"
    r"|(?s:.*\s(?:--?\w|&&|\|\|).*)|[\^~<>=v]*\d.*"
)
"""A value that is hardly text: a name, an address, a command or a version."""
_NO_TEXT = re.compile(r"ltr|rtl|[a-z]{2}[-_][A-Z]{2}|#[0-9a-fA-F]{3,8}")
_PLURAL = re.compile(r'_(?:one|other|plural)"\s*:|"(?:one|other)"\s*:')
_MANY_PLURALS = frozenset(
    "ar be br bs cs cy dsb ga gd gv he hr hsb kw lt lv mt pl ro ru sh sk sl sr uk".split()
)
"""Languages with more plural forms than one and other, by Unicode's CLDR."""


def json_texts(path: Path, text: str) -> Iterator[tuple[str, str]]:
    """Yield the keys of each text, and the text; DataError as for `json_parts`."""
    for value in _checked_values(path, text):
        if value.content is not None:
            yield ".".join(key or "" for key in value.path), value.content


def _checked_values(path: Path, text: str) -> list[Value]:
    """Return the values of a catalogue (DataError)."""
    try:
        whole = parse_json(text)
    except ValueError as error:
        raise DataError(f"{path}: not JSON: {error}; mend it, or call JSON Lines .jsonl") from None
    entries = list(whole.values()) if isinstance(whole, dict) else whole
    values = [
        one
        for one in json_values(text)
        if not any((key or "")[:1] == "@" for key in one.path) and _is_text(one.content or "")
    ]
    if entries and isinstance(entries, list) and all(map(_has_message, entries)):
        return [one for one in values if len(one.path) == 2 and one.path[1] in _MESSAGES]
    _check_texts(path, whole, values)
    return values


def json_parts(path: Path, text: str) -> Iterator[str | Unit]:
    """Yield what stays and what is translated; DataError if it is damaged, or is no catalogue."""
    last = 0
    for value in _checked_values(path, text):
        if not value.content or _NO_TEXT.fullmatch(value.content):
            continue
        raw = text[value.start : value.end]
        unit = message_unit(value.content, ["json"], _quoting(value.content, raw, text))
        if unit is not None:
            yield text[last : value.start]
            has_sign = "&" in value.content  # `_` is none in programs of the web
            unit = without_mnemonic(unit) if has_sign else unit
            yield unit._replace(otherwise=raw)
            last = value.end
    yield text[last:]


def lacks_plurals(text: str, lang: str) -> bool:
    """Tell whether a catalogue has forms for one and other, and a language has more."""
    return primary_language(lang) in _MANY_PLURALS and _PLURAL.search(text) is not None


def _quoting(content: str, raw: str, text: str) -> Callable[[str], str]:
    return lambda new: raw if new == content else json_string(new, like=text)


def _is_text(content: str) -> bool:
    """Tell whether a string can be encoded, unlike one with half of an emoji."""
    return content.isascii() or content.encode(errors="replace").decode() == content


def _has_message(entry: Any) -> bool:
    return isinstance(entry, dict) and any(isinstance(entry.get(key), str) for key in _MESSAGES)


def _check_texts(path: Path, whole: Any, values: Sequence[Value]) -> None:
    """Raise DataError if the values do not look like those of a catalogue."""
    way = "write its texts to a .jsonl file, and name their column: --input FILE.jsonl:COLUMN"
    if isinstance(whole, list) and any(isinstance(entry, dict) for entry in whole):
        raise DataError(f"{path}: is a list of records, not a catalogue; {way}")
    contents = [one.content for one in values]
    texts = [one for one in contents if one and has_letters(one) and not _NO_TEXT.fullmatch(one)]
    names = [text for text in texts if _NAME.fullmatch(text)]
    others = contents.count(None)  # numbers and the like
    most = (0.1 if others else 0.4) * len(texts)
    if texts and (len(names) > most or others > max(1, 0.1 * len(texts))):
        shown = f", such as {names[0]!r:.60}" if names else ""
        raise DataError(
            f"{path}: looks like data, not a catalogue: of {len(texts) + others:,} values, "
            f"{len(names) + others:,} are no text{shown}; {way}"
        )
