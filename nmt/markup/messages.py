"""ICU messages: which of their parts are text, and how text is written in them.

A message such as `{n, plural, one {a dog} other {# dogs}}` chooses between branches, which are text
and may have messages in them. All else is its frame. Those of the old form `choice` are kept whole,
and so is what is damaged. An apostrophe before a brace begins a
quotation that lasts until the next one, and two apostrophes are one that is text.

Syntax: https://unicode-org.github.io/icu/userguide/format_parse/messages/
"""

from __future__ import annotations

import re
from dataclasses import dataclass

NO_TEXT = "\0"  # what stands for each character of a tag, in which nothing is looked for

_HEADER = re.compile(
    r"\{\s*(?P<argument>[^\s{},'\0][^{},'\0]{0,100}?)\s*,\s*"
    r"(?:choice\s*,|(?:(?P<plural>plural|selectordinal)|select)\s*,(?:\s*offset\s*:\s*\d+)?"
    r"(?=\s*[^\s{},'\0]{1,100}\s*\{))"
)
_SELECTOR = re.compile(r"\s*[^\s{},'\0]{1,100}\s*\{")
_END = re.compile(r"\s*\}")
_QUOTED = "''|'[{}](?>(?:[^']|'')*)'?"
_QUOTED_IN_PLURAL = _QUOTED.replace("[{}]", "[{}#]")
_SYNTAX, _SYNTAX_IN_PLURAL = (
    re.compile(rf"{quoted}|[{{}}]") for quoted in (_QUOTED, _QUOTED_IN_PLURAL)
)
QUOTED = re.compile(_QUOTED_IN_PLURAL)  # an apostrophe that is text, or a quotation
_MOST_WORK = 5_000_000  # characters looked at in vain: under a second

MOST_NESTED = 20
"""Levels of messages. What is nested deeper is kept whole."""


@dataclass(frozen=True)
class Message:
    start: int
    end: int
    argument: str
    is_plural: bool  # where `#` is a number
    branches: tuple[tuple[int, int], ...] = ()  # none: it is kept whole


def find_messages(text: str) -> list[Message]:
    """Return the messages of a text that are in no other one.

    text: with `NO_TEXT` in place of each character of its tags.
    """
    messages: list[Message] = []
    at = work = 0
    while work < _MOST_WORK and (header := _HEADER.search(text, at)) is not None:
        branches, at = _branches(text, header)
        if not at:
            at = _closing_brace(text, header.start() + 1, _SYNTAX)
            work += 2 * ((at or len(text)) - header.end())
            tag = text.find(NO_TEXT, header.end())
            at = min(end for end in (at, tag, len(text)) if end > 0)
        is_plural = header["plural"] == "plural"
        branches_at = tuple(branches)
        messages.append(Message(header.start(), at, header["argument"], is_plural, branches_at))
    return messages


def _branches(text: str, header: re.Match[str]) -> tuple[list[tuple[int, int]], int]:
    """Return the branches of a message, and its end; of a damaged one, none and 0."""
    syntax = _SYNTAX_IN_PLURAL if header["plural"] else _SYNTAX
    branches = []
    at = header.end()
    while selector := _SELECTOR.match(text, at):
        at = _closing_brace(text, selector.end(), syntax)
        if not at:
            return [], 0
        branches.append((selector.end(), at - 1))
    end = _END.match(text, at)
    return (branches, end.end()) if branches and end else ([], 0)


def _closing_brace(text: str, at: int, syntax: re.Pattern[str]) -> int:
    """Return the end of what is in braces from there, with its closing brace; 0: there is none."""
    depth = 1
    for sign in syntax.finditer(text, at):
        depth += {"{": 1, "}": -1}.get(sign[0], 0)
        if not depth:
            return sign.end()
    return 0
