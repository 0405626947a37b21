"""Paragraphs into sentences, by rules and by Moses' lists of abbreviations.

A sentence ends with one of . ! ? … or their likes in other scripts and the closing quotes and
brackets behind it, where white space follows (behind 。 and its likes it need not) and then what
may begin a sentence: a capital, a digit or a letter of a script without case, with or without
opening punctuation. It does not end

- at a single dot behind an abbreviation, initials (`J. Smith`, `U.S. Army`), a number that begins
  the sentence (`1. Introduction`) or, where Moses lists them, an ordinal (German `3. Mai`);
- at an ellipsis before a digit;
- before it has a letter or digit;
- behind 「…。」 before a particle, which goes on from what is quoted.

Where the rules cannot tell there is no cut: two sentences in one are a source like others, half a
sentence is not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from nmt.data.moses import Abbreviations, abbreviations

STOPS = ".!?…؟۔"
WIDE_STOPS = "。｡！？।॥።፧။។៕"  # no space need follow
CLOSING = "\"'”’“‘»›«‹)]}）］｝」』】》〉"
WIDE_CLOSING = "\"'”’)]}）］｝」』】》〉"  # “ opens what follows 。
_LONE_CLOSING = "”’»›)]}"  # closes also where a space stands before it, as in French
_OPENING = "\"'“”„‟‘’‚‛`«»‹›([{（［｛「『【《〈¿¡*•–—―-"


def _any(characters: str) -> str:
    return f"[{re.escape(characters)}]"


# Possessive throughout, and a match wherever there is a stop: linear time for any text.
_END = re.compile(
    rf"(?P<stops>{_any(STOPS + WIDE_STOPS)}++)"
    rf"(?P<closing>(?<={_any(WIDE_STOPS)}){_any(WIDE_CLOSING)}*+"
    rf"|{_any(CLOSING)}*+(?:\s{_any(_LONE_CLOSING)}++(?=\s|$))?)"
    r"(?P<space>\s*+)"
)
_BEGINNING = re.compile(rf"(?:{_any(_OPENING)}\s?)*+(\w?)")
_LONE_QUOTE = re.compile(r'"(\s++)')
_HIRAGANA = re.compile("[\u3041-\u309f]")

_LONGEST_ABBREVIATION = 40  # characters
# What may stand before an abbreviation without a space: (z.B., 9./10. Mai, Prof.-Dr.
_BEFORE_WORD = re.compile(r"[\s\"“”„‟`«»‹›(\[{（［｛¿¡*•]|(?<=\.)[/–-]")
_FIRST_NUMBER = re.compile(r"\W*(?:\d+(?:\.\d+)*|[IVXLC]+)")
_INITIALS = re.compile(r"(?<![\w.])(?:[^\W\d_]\.)*[^\W\d_]$")
# Whatever the lists say: a capital behind these begins a sentence, ...
_AND_SO_ON = re.compile("etc|usf|usw")
# ... and these hold back nothing but digits: "Art. 5", but "von dieser Art. Das".
_BEFORE_DIGIT = re.compile("(?i)abb|abs|approx|art|bd|cap|eq|fig|kap|max|nr|pp|sept|vol")


@dataclass(frozen=True)
class Sentence:
    """Part of a paragraph."""

    text: str
    separator: str  # the white space between this sentence and the next, or none


def split_sentences(text: str, lang: str) -> list[Sentence]:
    """Cut a paragraph into its sentences; none for an empty one.

    Texts and separators in turn are the paragraph. White space before the first sentence belongs
    to its text, and only a paragraph of white space alone has a blank one.

    lang: whose abbreviations are known; for languages that Moses has no list of, English ones.
    """
    known = abbreviations(lang)
    sentences = []
    start = 0
    for end in _END.finditer(text):
        if end.end() < len(text) and _is_end(text, start, end, known=known):
            stop, following = end.span("space")
            lone = _LONE_QUOTE.match(text, following)
            if lone and text.count('"', start, stop) % 2:  # it closes what this sentence opened
                stop, following = lone.span(1)
            sentences.append(Sentence(text[start:stop], text[stop:following]))
            start = following
    if start < len(text):
        last = text[start:].rstrip() or text[start:]
        sentences.append(Sentence(last, text[start + len(last) :]))
    return sentences


def _is_end(text: str, start: int, end: re.Match[str], *, known: Abbreviations) -> bool:
    """Whether the sentence from `start` ends at a match of `_END`."""
    stops, closing, space = end.groups()
    beginning = _BEGINNING.match(text, end.end())
    first = beginning[1] if beginning else ""
    if not first.isalnum():
        return False
    if stops[-1] in WIDE_STOPS:
        if closing and _HIRAGANA.match(text, end.end()):
            return False
    # A letter without case is its own title, also where, as in Georgian, it has a capital.
    elif not space or first.title() != first:
        return False
    elif stops == ".":
        before = text[max(start, end.start() - _LONGEST_ABBREVIATION) : end.start()]
        if _is_abbreviated(before, known, before_digit=first.isdecimal()):
            return False
    elif stops.startswith(("..", "…")) and first.isdecimal():
        return False
    return any(map(str.isalnum, text[start : end.start()]))


def _is_abbreviated(before: str, known: Abbreviations, *, before_digit: bool) -> bool:
    """Whether a dot belongs to the word or number before it."""
    word = _BEFORE_WORD.split(before)[-1]
    if _AND_SO_ON.fullmatch(word):
        return False
    if _BEFORE_DIGIT.fullmatch(word):
        return before_digit
    forms = {word, word[:1].lower() + word[1:]}  # a list has words as they stand inside sentences
    if forms & known.always or (before_digit and forms & known.before_digit):
        return True
    initials = _INITIALS.search(word)
    if initials and not initials[0].islower() and initials[0] < "\u1100":  # Hangul are syllables
        return True
    return _FIRST_NUMBER.fullmatch(before) is not None
