"""What is written for a line: text, text with scores, n-best lists, or JSON.

What is found for a line.

N-best lists in the Moses form: several translations of each line, `LINE ||| TEXT ||| SCORE`.

Lines are counted from 0 and ascend; those of one are neighbours, and each has at least one. Search
writes such lists; other models put them into an order of their own. What Moses and Marian write
between text and score, `||| LM= -4.2 F1= 0.5`, is passed over, but for Marian's alignments.
"""

from __future__ import annotations

import json
import math
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby

from nmt.errors import DataError
from nmt.translate.alignment import Alignment, pharaoh


@dataclass(frozen=True)
class Translation:
    """A line's translation; the first is the best, with the others in it."""

    text: str
    score: float  # log-probability over length penalty; summed where a line was cut in pieces
    log_prob: float  # natural logarithm, eos counted; 0 for a blank line
    tokens: tuple[str, ...]  # subwords
    token_log_probs: tuple[float, ...]  # of the tokens, without eos's; CTranslate2 has none
    pieces: int  # into how many its source was cut; 0 for a blank line
    is_cut: bool = False  # because it, or a sentence, was longer than the model knows
    error: str = ""  # why there is none, with an empty text
    alignment: Alignment | None = None  # where it is asked for, and there is memory for it
    others: tuple[Translation, ...] = ()  # the second-best and on, where more are asked for

    @property
    def n_best(self) -> tuple[Translation, ...]:
        """This one and the others, best first."""
        return (self, *self.others)


BLANK = Translation("", 0.0, 0.0, (), (), 0)


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


Render = Callable[[int, Translation], list[str]]
"""Line number from 0 and its translation to the lines that are written for it."""


def render_text(_number: int, translation: Translation) -> list[str]:
    """Return the best translation."""
    return [translation.text]


def render_aligned(_number: int, translation: Translation) -> list[str]:
    """Return the best translation with its pairs of words; a blank line stays blank."""
    if translation.alignment is None:
        return [translation.text]
    return [f"{translation.text} ||| {pharaoh(translation.alignment.words)}"]


def render_scored(_number: int, translation: Translation) -> list[str]:
    """Return score and best translation, tab-separated."""
    return [f"{translation.score:.6f}\t{translation.text}"]


def render_n_best(number: int, translation: Translation) -> list[str]:
    """Return all translations, a line each, in the Moses form."""
    return [str(Entry(number, found.text, found.score)) for found in translation.n_best]


def render_json(number: int, translation: Translation) -> list[str]:
    """Return one line of JSON with all that is known; nmt/translate/README.md has its keys."""
    content = {"line": number} | _fields(translation)
    if translation.others:
        content["others"] = [_fields(other) for other in translation.others]
    if translation.error:
        content = {"line": number, "text": "", "error": translation.error}
    return [json.dumps(content, ensure_ascii=False, allow_nan=False)]


def _fields(translation: Translation) -> dict[str, object]:
    fields: dict[str, object] = {
        "text": translation.text,
        "score": round(translation.score, 6),
        "log_prob": round(translation.log_prob, 6),
        "tokens": translation.tokens,
        "token_log_probs": [round(log_prob, 6) for log_prob in translation.token_log_probs],
        "pieces": translation.pieces,
    }
    alignment = translation.alignment
    if alignment is not None:
        fields["src_tokens"] = alignment.src_tokens
        fields["alignment"] = alignment.positions
        fields["word_alignment"] = pharaoh(alignment.words)
        fields["attention"] = [
            [[round(weight, 4) for weight in row] for row in piece.tolist()]
            for piece in alignment.attention
        ]
    return fields


RENDERS: dict[str, Render] = {
    "text": render_text,
    "scores": render_scored,
    "n-best": render_n_best,
    "alignment": render_aligned,
    "jsonl": render_json,
}
"""By the names of the forms."""
