"""The separator: the piece between the lines of a window, for models that read context.

A window is some neighbouring lines of a document, as one source and one target. Both have the piece
`<sep>` after each line but the last (Tiedemann and Scherrer 2017, "Neural Machine Translation with
Extended Context"; Junczys-Dowmunt 2019, "Microsoft Translator at WMT 2019"). It is a control piece,
so no text spells it, and search never produces it unless it translates a window.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

SEPARATOR = "<sep>"


def join_lines(lines: Sequence[Sequence[int]], separator: int) -> list[int]:
    """Return the ids of lines as those of a window."""
    joined = list(lines[0])
    for line in lines[1:]:
        joined += (separator, *line)
    return joined


def split_lines(ids: Sequence[int], separator: int) -> list[Sequence[int]]:
    """Return the ids of each line of a window; [] is one empty line."""
    ends = [at for at, token in enumerate(ids) if token == separator]
    return [ids[start + 1 : end] for start, end in pairwise([-1, *ends, len(ids)])]
