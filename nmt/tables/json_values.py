"""Where the values of JSON stand in its text, to replace some while every other byte stays."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from nmt.system.files import parse_json

_TOKEN = re.compile(r'[{}\[\],:]|"[^"\\]*+(?>(?:\\.[^"\\]*+)*)"|[^\s{}\[\],:"]+', re.DOTALL)


class Value(NamedTuple):
    path: tuple[str | None, ...]  # its keys, from the outermost; None in a list
    start: int
    end: int
    content: str | None  # None if it is not a string


def json_object(text: str | bytes) -> dict[str, Any] | None:
    """Return the object that a text of JSON is; None if it is damaged, or something else."""
    try:
        value = parse_json(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def json_values(text: str) -> Iterator[Value]:
    """Yield the values of JSON that is valid, but no lists and objects."""
    keys, is_key = list[str | None](), False  # of what is open, the last one of each
    for token in _TOKEN.finditer(text):
        sign = token[0]
        if sign in "{[":
            keys.append("" if sign == "{" else None)
            is_key = sign == "{"
        elif sign in "}]":
            keys.pop()
        elif sign == ",":
            is_key = keys[-1] is not None
        elif is_key and sign != ":":
            keys[-1], is_key = json.loads(sign), False
        elif sign != ":":
            yield Value(tuple(keys), *token.span(), json.loads(sign) if sign[0] == '"' else None)


def json_string(text: str, like: str) -> str:
    """Write a string; like: JSON that shows whether letters beyond ASCII are escaped."""
    return json.dumps(text, ensure_ascii=like.isascii() and "\\u" in like)
