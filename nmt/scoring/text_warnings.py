"""Warnings about problems that make scores incomparable, with file, count, first line and remedy.

The text is scored anyway, because each of them can be intended.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from nmt.console import counted
from nmt.data.composition import compose, is_composed
from nmt.data.words import MARKS, unit_pattern
from nmt.scoring.inputs import Text
from nmt.scoring.shifted_lines import find_shift

_FULL_STOPS = 100  # lines that end in " .": sacreBLEU's own threshold
_COPY = 1.0  # a good system can have most lines right, of short or generated text
_MOST = 0.5  # names and numbers stay as they are, but not half of all lines

_WMT14_FILTERED, _WMT14_FULL = 2737, 3003
_WMT14 = (
    f"newstest2014 En-De has {_WMT14_FULL:,} lines, and sacreBLEU's wmt14 has only "
    f"{_WMT14_FILTERED:,} of them; papers score all of them (sacreBLEU's wmt14/full)"
)


# Signs that text is not as people read it: what they are, how they look, and a remedy.
_SUBWORDS = (
    ("subword marks", re.compile(r"@@(?= |$)"), "join the subwords: sed -E 's/@@( |$)//g'"),
    ("subword marks", re.compile("\u2581"), "decode them by their SentencePiece model"),
)
_TOKENISED = (
    ("entities", re.compile(r"&(?:[a-z]+|#\d+|#x[0-9a-f]+);"), "make them characters again"),
    ("split hyphens", re.compile(r"@[-–/]@"), "undo the tokenisation"),
)

_BLANK = "find out what became of them"
_PARTIAL = "they are not a reference here, but the command sacrebleu counts them as one"

# Letters and marks of scripts without spaces between words: Chinese, Japanese, Thai, Lao, Tibetan,
# Burmese, Khmer.
_UNSPACED = re.compile(
    "[\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
    "\u0e01-\u0e4e\u0e81-\u0ecd\u0f40-\u0fbc\u1000-\u103f\u1780-\u17d3]"
)
_LETTER = re.compile(rf"[^\W\d_]|[{MARKS}]")

_KINDS = {"'": "'’‘‚‛ʼ´`׳＇", '"': '"“”„‟«»״「」『』〝〞〟＂'}
_KIND = {sign: plain for plain, signs in _KINDS.items() for sign in signs}
_QUOTE = re.compile(f"[{''.join(_KIND)}]")
_WORD_LETTERS = 7  # if text in these scripts was split into words, fewer stand together


def wmt14_hint(*counts: int) -> str:
    """Explain numbers of lines that are those of newstest2014, full and filtered."""
    return f"; {_WMT14}" if set(counts) == {_WMT14_FILTERED, _WMT14_FULL} else ""


def text_warnings(
    hypotheses: Sequence[Text],
    references: Sequence[Text],
    source: Text | None = None,
    *,
    tokenised: bool = False,
    spaced: Sequence[str] = (),
) -> Iterator[str]:
    """Yield a warning for each problem in texts of N lines each, of several systems and humans.

    tokenised: whether the text is meant to be tokens.
    spaced: names of metrics to which words are what stands between spaces.
    """
    for text in (*hypotheses, *references):
        if not any(map(str.strip, text.lines)):
            yield f"{text.name}: none of its {len(text.lines):,} lines has text"
        for mark in _SUBWORDS if tokenised else (*_SUBWORDS, *_TOKENISED):
            yield from _marked(text, *mark)
        if not tokenised:
            yield from _full_stops(text)
        if spaced:
            yield from _unspaced(text, spaced)
    for hypothesis in hypotheses:
        yield from _blank(hypothesis, beside=references, remedy=_BLANK)
        for reference in references:
            yield from _equal(hypothesis, reference, _COPY, "is it a translation of its own?")
            yield from equal_only_in_nfc(hypothesis, reference)
            yield from other_quotes(hypothesis, reference)
            yield from _shifted(hypothesis, reference)
    for reference in references:
        others = [other for other in references if other is not reference]
        yield from _blank(reference, beside=hypotheses, unless=others, remedy=_BLANK)
        yield from _blank(reference, beside=others, remedy=_PARTIAL)
    if source is not None:
        for text in (*hypotheses, *references):
            yield from _equal(text, source, _MOST, "has it been translated?")
    if len(references[0].lines) == _WMT14_FILTERED:
        yield f"{references[0].name} has {_WMT14_FILTERED:,} lines; {_WMT14}"


def _marked(text: Text, what: str, pattern: re.Pattern[str], remedy: str) -> Iterator[str]:
    matches = list(map(pattern.search, text.lines))
    if first := next(filter(None, matches), None):
        yield _described(text, f"hold {what} ({first[0]})", _numbers(matches), remedy)


def _numbers(are_such: Iterable[object]) -> list[int]:
    """Return the numbers, from 1, of the lines that are such."""
    return [number for number, is_such in enumerate(are_such, start=1) if is_such]


def _full_stops(text: Text) -> Iterator[str]:
    numbers = _numbers(line.endswith(" .") for line in text.lines)
    if len(numbers) >= _FULL_STOPS:
        remedy = (
            "BLEU is defined on detokenised text: undo the tokenisation, or pass --tokenize none"
        )
        yield _described(text, "end in ' .' and look tokenised", numbers, remedy)


def unspaced_lines(lines: Sequence[str]) -> list[int]:
    """Return the numbers of the lines without spaces between words, if most lines are such."""
    numbers = _numbers(map(_is_unspaced, lines))
    return numbers if len(numbers) >= _MOST * _with_text(lines) else []


def _unspaced(text: Text, metrics: Sequence[str]) -> Iterator[str]:
    if numbers := unspaced_lines(text.lines):
        problem = f"have no spaces, at which {' and '.join(metrics)} would split them into words"
        remedy = "pass --tokenize char, or --lang without --tokenize"
        remedy = remedy if "BLEU" in metrics else "take another metric"
        yield _described(text, problem, numbers, remedy)


def _is_unspaced(line: str) -> bool:
    letters = 0 if line.isascii() else len(_UNSPACED.findall(line))
    return letters >= _WORD_LETTERS * len(line.split()) and 2 * letters > len(_LETTER.findall(line))


def _blank(
    text: Text, *, beside: Sequence[Text], unless: Sequence[Text] = (), remedy: str
) -> Iterator[str]:
    numbers = _numbers(
        not line.strip() and _has_text(beside, number) and not _has_text(unless, number)
        for number, line in enumerate(text.lines, start=1)
    )
    if numbers:
        names = " or ".join(other.name for other in beside)
        yield _described(text, f"are blank where {names} has text", numbers, remedy)


def _has_text(texts: Sequence[Text], number: int) -> bool:
    """Whether one of several texts has words in a line, counted from 1."""
    return any(text.lines[number - 1].strip() for text in texts)


def equal_only_in_nfc(hypothesis: Text, reference: Text) -> Iterator[str]:
    """Yield a warning if words of a line match those of the other only once both are in NFC.

    NFC composes most letters and marks, but takes others apart, such as U+0958 of Hindi.
    """
    numbers = _numbers(
        not (is_composed(one) and is_composed(other)) and _more_match_in_nfc(one, other)
        for one, other in zip(hypothesis.lines, reference.lines, strict=True)
    )
    if numbers:
        texts = [hypothesis, reference]
        texts.sort(key=lambda text: is_composed(text.lines[numbers[0] - 1]))
        problem = f"have words that equal those of {texts[1].name} only in Unicode's form NFC"
        yield _described(texts[0], problem, numbers, "compose both: uconv -x nfc")


def _more_match_in_nfc(one: str, other: str) -> bool:
    words = [Counter(unit_pattern().findall(line)) for line in (one, other)]
    composed = [Counter(unit_pattern().findall(compose(line))) for line in (one, other)]
    return (composed[0] & composed[1]).total() > (words[0] & words[1]).total()


def other_quotes(hypothesis: Text, reference: Text) -> Iterator[str]:
    """Yield a warning if most quotes or apostrophes match those of the other only by their kind.

    Both have some of a kind in few lines, and mixed ones are common, so it takes most lines.
    """
    both, numbers, example = 0, list[int](), ""
    lines = zip(hypothesis.lines, reference.lines, strict=True)
    for number, line_and_its in enumerate(lines, start=1):
        own, its = (Counter(_QUOTE.findall(line)) for line in line_and_its)
        is_other = {_KIND[sign]: sign for sign in reversed(own - its)}
        pairs = [(is_other[_KIND[sign]], sign) for sign in its - own if _KIND[sign] in is_other]
        both += bool(pairs or own & its)
        if pairs:
            numbers.append(number)
            example = example or " for ".join(pairs[0])
    if numbers and len(numbers) > _MOST * both:
        problem = f"have quotes or apostrophes of another kind than {reference.name} ({example})"
        yield _described(hypothesis, problem, numbers, "write them alike in both")


def _shifted(text: Text, other: Text) -> Iterator[str]:
    if found := find_shift(text.lines, other.lines):
        first, shift = found
        when = f"{counted(abs(shift), 'line', 'lines')} {'later' if shift > 0 else 'earlier'}"
        yield (
            f"{text.name}: judging by their words, its lines come {when} than those of "
            f"{other.name} from line {first:,} on; find the line that is missing or too much"
        )


def _equal(text: Text, other: Text, share: float, question: str) -> Iterator[str]:
    pairs = zip(text.lines, other.lines, strict=True)
    numbers = _numbers(line.strip() == its.strip() != "" for line, its in pairs)
    # Blank lines are equal in good translations, too.
    if numbers and len(numbers) >= share * _with_text(text.lines):
        yield _described(text, f"equal those of {other.name}", numbers, question)


def _with_text(lines: Sequence[str]) -> int:
    return sum(map(bool, map(str.strip, lines)))


def _described(text: Text, problem: str, numbers: Sequence[int], remedy: str) -> str:
    """Describe a problem of some lines, counted from 1."""
    return (
        f"{text.name}: {len(numbers):,} of {len(text.lines):,} lines {problem}, "
        f"line {numbers[0]:,} first; {remedy}"
    )
