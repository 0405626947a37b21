"""The output forms of a translation: text, scores, n-best lists, alignments, JSON lines.

N-best lists have the Moses form: several translations of each line, `LINE ||| TEXT ||| SCORE`.
Lines are counted from 0, in ascending order, and each has at least one translation. `nmt translate`
writes such lists, and `nmt rescore --n-best` reorders them. Features that Moses and Marian write
between text and score, for example `||| LM= -4.2 F1= 0.5`, are ignored. So are alignments, which
Marian writes before them.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, groupby, islice, tee, zip_longest
from operator import attrgetter
from typing import NamedTuple

from nmt.console import counted
from nmt.errors import DataError
from nmt.lexical.lemmas import TermUse
from nmt.scoring.quality import Estimate
from nmt.tables.scored_lines import N_BEST, form_of
from nmt.translate.alignment import Alignment, pharaoh


@dataclass(frozen=True)
class Translation:
    """The best translation of a line; `others` are the next best."""

    text: str
    score: float  # log-probability over length penalty, summed over segments
    log_prob: float  # natural logarithm, with eos; 0 for a blank line
    tokens: tuple[str, ...]  # subwords
    token_log_probs: tuple[float, ...]  # without eos; empty from CTranslate2
    segments: int  # of its source; 0 for a blank line
    is_cut: bool = False  # whether it, or a sentence, was longer than any training source
    guarded: bool = False  # whether it, or a segment, was searched again because of a loop
    copied: bool = False  # from its source, which has no letters
    remembered: bool = False  # from a memory
    context: int = 0  # lines before it that were translated together with it
    fell_back: bool = False  # whether that failed, so that it was translated by itself
    error: str = ""  # why there is no translation; the text is empty
    alignment: Alignment | None = None  # if requested, and if memory sufficed
    terms: tuple[TermUse, ...] = ()  # of the line, if it was translated with terms
    quality: Estimate | None = None
    """Of its sentence chrF, if requested, unless it was not searched."""
    others: tuple[Translation, ...] = ()  # from the second best on, if requested

    def __str__(self) -> str:
        return self.text

    @property
    def n_best(self) -> tuple[Translation, ...]:
        """This one and the others, best first."""
        return (self, *self.others)


@dataclass
class Tally:
    """How many lines are alike in something, and the first of them."""

    lines: int = 0
    first: int = 0  # from 1; 0: none
    detail: str = ""  # what there is to say of the first

    def add(self, number: int, detail: str = "") -> None:
        """Count a line, the number of which is counted from 1."""
        if not self.lines:
            self.first, self.detail = number, detail
        self.lines += 1

    def told(
        self, name: str, verbs: tuple[str, str], what: str, after: str = "", unit: str = "line"
    ) -> str:
        """Return what to say of such lines of a text, in the singular or plural, and of the first.

        For example `news: 2 lines have a tab, the first is line 7: DETAIL; AFTER`.
        """
        number = counted(self.lines, f"{unit} {verbs[0]}", f"{unit}s {verbs[1]}")
        detail = f": {self.detail}" if self.detail else ""
        remedy = f"; {after}" if after else ""
        return f"{name}: {number} {what}, the first is {unit} {self.first:,}{detail}{remedy}"


BLANK = Translation("", 0.0, 0.0, (), (), 0)


def failed(error: str, text: str = "", segments: int = 1) -> Translation:
    """Return what stands for a line without a translation; error: why it has none."""
    return Translation(text, -math.inf, -math.inf, (), (), segments, error=error)


Render = Callable[[int, Translation], list[str]]
"""Makes the output lines of a line number, counted from 0, and its translation."""


def render_text(_number: int, translation: Translation) -> list[str]:
    return [translation.text]


def render_aligned(_number: int, translation: Translation) -> list[str]:
    """Return the best translation with its word alignment; a blank line stays blank."""
    if translation.alignment is None:
        return [translation.text]
    return [f"{translation.text} ||| {pharaoh(translation.alignment.words)}"]


def render_scored(_number: int, translation: Translation) -> list[str]:
    """Return score and best translation, tab-separated. A copied source may have tabs itself."""
    return [f"{translation.score:.6f}\t{translation.text.replace(chr(9), ' ')}"]


def render_rated(_number: int, translation: Translation) -> list[str]:
    """Return the estimated chrF and the best translation, tab-separated."""
    rating = f"{translation.quality.chrf:.1f}" if translation.quality else "-"
    return [f"{rating}\t{translation.text.replace(chr(9), ' ')}"]


def render_n_best(number: int, translation: Translation) -> list[str]:
    """Return all translations in the Moses form, one per line."""
    return [str(Entry(number, candidate.text, candidate.score)) for candidate in translation.n_best]


def render_json(number: int, translation: Translation) -> list[str]:
    """Return one line of JSON; nmt/translate/README.md explains its keys."""
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
        "segments": translation.segments,
    }
    terms = [
        {"source": term.source, "target": term.target, "placed": term.is_placed}
        for term in translation.terms
    ]
    others = {
        "guarded": translation.guarded,
        "copied": translation.copied,
        "remembered": translation.remembered,
        "terms": terms,
        "context": translation.context,
        "fell_back": translation.fell_back,
    }
    fields |= {name: value for name, value in others.items() if value}
    if translation.quality is not None:
        fields["quality"] = [round(chrf, 1) for chrf in translation.quality[:3]]
    if (alignment := translation.alignment) is not None:
        fields["src_tokens"] = alignment.src_tokens
        fields["alignment"] = alignment.positions
        fields["word_alignment"] = pharaoh(alignment.words)
        fields["attention"] = [
            [[round(weight, 4) for weight in row] for row in segment.tolist()]
            for segment in alignment.attention
        ]
    return fields


RENDERS: dict[str, Render] = {
    "text": render_text,
    "scores": render_scored,
    "n-best": render_n_best,
    "alignment": render_aligned,
    "quality": render_rated,
    "jsonl": render_json,
}
"""By name of the form."""


_FIRST_LINES = 100  # that show the form of a file
_BETWEEN = " ||| "
_NUMBER = r"[-+]?(?:[\d.]+(?:e[-+]?\d+)?|inf|nan)"
_LISTED = re.compile(r" *[-+]?[\d.]+ *\|\|\|")
_HYPOTHESIS = re.compile(r"([DH])-(\d+)\t(-?\d+(?:\.\d+)?(?:e[-+]?\d+)?|-inf)\t(.*)")
_FEATURES = re.compile(rf"(?: [^\s|]+=(?: {_NUMBER})+)+ ?")
_ALIGNMENT = re.compile(r"(?: \d+-\d+)+ ?|(?: \d[\d.e-]*(?:,\d[\d.e-]*)+)+ ?| ")  # hard, soft, none


class Entry(NamedTuple):
    """An entry of an n-best list."""

    line: int  # from 0
    text: str
    score: float  # -inf: the line could not be translated

    def __str__(self) -> str:
        return _BETWEEN.join((str(self.line), self.text, f"{self.score:.6f}"))


def read_n_best(lines: Iterable[str], name: str, *, features: bool = True) -> Iterator[Entry]:
    """Yield the entries of a list of lines; DataError if one is damaged or out of order.

    features: whether scores such as `F0= -1.2` may stand behind the text, which they do not in our
    own lists.
    """
    last = 0
    for number, content in enumerate(lines, start=1):
        if (entry := _parse(content, features=features)) is None:
            raise DataError(
                f"{name}: line {number:,} is not LINE ||| TEXT ||| SCORE, as `nmt translate "
                "--n-best N` writes it"
            )
        if entry.line < last:
            raise DataError(
                f"{name}: line {number:,} is a translation of line {entry.line} of the source, "
                f"but comes after those of {last}; sort the list by line"
            )
        last = entry.line
        yield entry


def _parse(content: str, *, features: bool) -> Entry | None:
    line, first, rest = content.partition(_BETWEEN)
    text, second, score = rest.rpartition(_BETWEEN)  # the text itself may contain bars
    fields = f" {text}".split(" |||")  # the text, which may be empty, begins with a space now
    of_text = len(fields)
    while features and of_text > 1 and _FEATURES.fullmatch(fields[of_text - 1]):
        of_text -= 1
    if 1 < of_text < len(fields) and _ALIGNMENT.fullmatch(fields[of_text - 1]):
        of_text -= 1
    text = " |||".join(fields[:of_text]).removeprefix(" ")
    try:
        entry = Entry(int(line), text, float(score))
    except ValueError:
        return None
    return entry if first and second and entry.line >= 0 and entry.score < math.inf else None


def read_translations(lines: Iterable[str], name: str) -> Iterator[Entry]:
    """Yield the translations of a text, in its order: from an n-best list, fairseq, or plain lines.

    A plain line translates the line of its number, with the score 0. DataError if the lines have
    another form, or one of them is damaged.
    """
    first = list(islice(waiting := iter(lines), _FIRST_LINES))
    form, lines = form_of(first), chain(first, waiting)
    if any(map(_HYPOTHESIS.fullmatch, first)):
        yield from _read_fairseq(lines, name)
    elif form == N_BEST or any(map(_LISTED.match, first)):  # whose damaged line is named then
        yield from read_n_best(lines, name)
    elif form:
        raise DataError(f"{name} is {form}, not plain text or a list; cut the text out of it")
    else:
        yield from (Entry(number, text, 0.0) for number, text in enumerate(lines))


def _read_fairseq(lines: Iterable[str], name: str) -> Iterator[Entry]:
    """Yield hypotheses as fairseq writes them among other lines, not in the order of the text.

    If they are detokenised, they are there twice: `D` is text, and `H` its tokens.
    """
    entries: dict[str, list[Entry]] = {"D": [], "H": []}
    for number, line in enumerate(lines, start=1):
        if line[:2] in ("D-", "H-"):
            if (hypothesis := _HYPOTHESIS.fullmatch(line)) is None:
                raise DataError(f"{name}: line {number:,} is not D-LINE<TAB>SCORE<TAB>TEXT")
            kind, of_line, score, text = hypothesis.groups()
            entries[kind].append(Entry(int(of_line), text, float(score)))
    yield from sorted(entries["D"] or entries["H"], key=attrgetter("line"))


def with_sources(
    entries: Iterable[Entry], sources: Iterable[str], name: str, *, listed: str = "the list"
) -> Iterator[tuple[Entry, str]]:
    """Yield each entry with the line that it translates, given all lines without their ends.

    name, listed: of the lines, and of the entries, for messages.
    DataError if an entry has no line, or a line no entry, so that output would be shifted.
    """
    by_line = groupby(entries, key=lambda entry: entry.line)
    for number, (source, of_line) in enumerate(zip_longest(sources, by_line)):
        if source is None:
            raise DataError(
                f"{name} has {number:,} lines, and {listed} a translation of line {number}, "
                "counted from 0; give the source that was translated"
            )
        if of_line is None or of_line[0] != number:
            raise DataError(
                f"{listed} has no translation of line {number} of {name}, counted from 0; is it "
                "complete?"
            )
        for entry in of_line[1]:
            yield entry, source


def rerank(
    entries: Iterable[tuple[Entry, str]],
    score: Callable[[Iterable[tuple[str, str]]], Iterator[Translation]],
    weight: float,
) -> Iterator[Entry]:
    """Sort each line's translations by their scores combined with those of other models.

    score: scores pairs of source and translation by the other models.
    weight: w of these scores; the list's own have weight 1 - w.
    Yields the entries with the combined scores, a line's best first. Ties keep their order. Entries
    without a score come last.
    """
    entries, others = tee(entries)
    rescored = score((source, entry.text) for entry, source in others)
    pairs = zip(entries, rescored, strict=True)
    scored = (_rescored(entry, found.score, weight) for (entry, _), found in pairs)
    for _, of_line in groupby(scored, key=lambda entry: entry.line):
        yield from sorted(of_line, key=lambda entry: -entry.score)


def _rescored(entry: Entry, score: float, weight: float) -> Entry:
    is_scored = -math.inf not in (entry.score, score)
    combined = (1 - weight) * entry.score + weight * score if is_scored else -math.inf
    return entry._replace(score=combined)
