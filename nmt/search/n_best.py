"""N-best lists in the Moses form: several translations of each line, `LINE ||| TEXT ||| SCORE`.

Lines are counted from 0 and ascend; those of one are neighbours, and each has at least one. Search
writes such lists; other models put them into an order of their own. What Moses and Marian write
between text and score, `||| LM= -4.2 F1= 0.5`, is passed over, but for Marian's alignments.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby

from nmt.errors import DataError
from nmt.search.translation import Translation

_BETWEEN = " ||| "
_NUMBER = r"-?[\d.]+(?:e[-+]?\d+)?"
_FEATURES = re.compile(rf"(?: \|\|\|(?: [^\s|]+=(?: {_NUMBER})+)+ ?)+$")


@dataclass(frozen=True)
class Entry:
    """A translation of a line."""

    line: int  # from 0
    text: str
    score: float  # -inf: the line could not be translated

    def __str__(self) -> str:
        """Return it as it is written."""
        return _BETWEEN.join((str(self.line), self.text, f"{self.score:.6f}"))


def read_n_best(lines: Iterable[str], name: str) -> Iterator[Entry]:
    """Yield what a list holds.

    Args:
        lines: of the list, without their ends.
        name: what to call it in errors.

    Raises:
        DataError: naming the line that is not of the form, or out of order.
    """
    last = 0
    for number, content in enumerate(lines, start=1):
        entry = _parse(content)
        if entry is None:
            raise DataError(
                f"{name}: line {number:,} is not LINE ||| TEXT ||| SCORE, as `nmt translate "
                "--n-best N` writes it"
            )
        if entry.line < last:
            raise DataError(
                f"{name}: line {number:,} is a translation of line {entry.line} of the source, "
                f"and stands behind those of {last}; bring the list into the source's order"
            )
        last = entry.line
        yield entry


def _parse(content: str) -> Entry | None:
    line, first, rest = content.partition(_BETWEEN)
    text, second, score = rest.rpartition(_BETWEEN)  # the text itself may hold bars
    text = _FEATURES.sub("", text)
    try:
        entry = Entry(int(line), text, float(score))
    except ValueError:
        return None
    is_sound = first and second and entry.line >= 0 and entry.score < math.inf
    return entry if is_sound else None


def with_sources(
    entries: Iterable[Entry], sources: Iterable[str], name: str
) -> Iterator[tuple[Entry, str]]:
    """Yield each entry with the line that it translates.

    Args:
        entries: in ascending order of lines.
        sources: all lines, without their ends.
        name: what to call them in errors.

    Raises:
        DataError: if there is no such line, or a line that has no entry: what is made of the list
            would be shifted behind it.
    """
    waiting = iter(sources)
    number, source = -1, ""
    for entry in entries:
        if entry.line > number:
            number += 1
            following = next(waiting, None)
            if following is None:
                raise DataError(
                    f"{name} has {number:,} lines, and the list a translation of line "
                    f"{entry.line}, counted from 0; give the source that was translated"
                )
            if entry.line > number:
                raise _missing(number, name)
            source = following
        yield entry, source
    if next(waiting, None) is not None:
        raise _missing(number + 1, name)


def _missing(line: int, name: str) -> DataError:
    return DataError(
        f"the list has no translation of line {line} of {name}, counted from 0; is it complete?"
    )


def rerank(
    entries: Iterable[tuple[Entry, str]],
    score: Callable[[Iterable[tuple[str, str]]], Iterator[Translation]],
    weight: float,
) -> Iterator[Entry]:
    """Put each line's translations into the order of their scores and those of other models.

    Args:
        entries: each with its source.
        score: tells the other models' scores of pairs of source and translation.
        weight: w of those; the list's own weigh 1 - w.

    Yields:
        The same translations with the sums as scores, a line's best first, equal ones as they
        were. What had no score, or has none, comes last.
    """
    taken: deque[Entry] = deque()

    def pairs() -> Iterator[tuple[str, str]]:
        for entry, source in entries:
            taken.append(entry)
            yield source, entry.text

    scored = (_rescored(taken.popleft(), found.score, weight) for found in score(pairs()))
    for _, of_line in groupby(scored, key=lambda entry: entry.line):
        yield from sorted(of_line, key=lambda entry: -entry.score)


def _rescored(entry: Entry, score: float, weight: float) -> Entry:
    if -math.inf in (entry.score, score):
        return replace(entry, score=-math.inf)
    return replace(entry, score=(1 - weight) * entry.score + weight * score)
