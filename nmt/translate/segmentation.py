"""Sources longer than a model has seen are cut into pieces, translated one by one and joined.

Paragraphs into sentences, by rules and by Moses' lists of abbreviations.

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
from collections.abc import Sequence
from dataclasses import dataclass

from nmt.data.languages import primary_language
from nmt.data.moses import Abbreviations, abbreviations
from nmt.data.vocabulary import Vocabulary

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


WORD_START = "\u2581"  # SentencePiece's mark for a space before a token
_CLAUSE_ENDS = ";:,—؛،"
_WIDE_CLAUSE_ENDS = "，、；："
_NEVER_FIRST = STOPS + WIDE_STOPS + _CLAUSE_ENDS + _WIDE_CLAUSE_ENDS + WIDE_CLOSING
_INSIDE_CHARACTER = re.compile("<0x[89AB].>")  # of UTF-8 bytes all but the first are such

# What has hundreds of tokens without a space is hardly text, and models do not find its end: each
# piece of it would run to its longest translation, which is far shorter of a short one.
_IN_WORD_TOKENS = 64

_TORN_WORD = 3  # see `_harm`

_WITHOUT_SPACES = {"ja", "zh", "yue"}
_WORDS_WITHOUT_SPACES = _WITHOUT_SPACES | {"th", "lo", "km", "my"}


@dataclass(frozen=True)
class Piece:
    """Part of a source."""

    ids: list[int]
    separator: str  # what stood between this piece and the next: a space, or nothing
    is_cut: bool = False  # whether it is less than a whole line or sentence
    is_in_word: bool = False  # whether it is from within a word that is longer than the limit


def split_ids(
    vocabulary: Vocabulary, ids: list[int], max_tokens: int, *, src_lang: str = ""
) -> list[Piece]:
    """Cut a source's ids into pieces of at most `max_tokens`; none for an empty source.

    A cut is made in the second half of what fits: behind the last sentence that ends there, else
    behind the last clause, else before the last word, else where the limit falls, but not inside a
    character that is written in bytes. A word that is longer than the limit is cut shorter, unless
    its language is written without spaces.
    """
    has_spaces = primary_language(src_lang) not in _WORDS_WITHOUT_SPACES
    pieces = []
    start = 0
    while len(ids) - start > max_tokens:
        tokens = vocabulary.tokens(ids[start : start + max_tokens + 1])
        cut = _cut_position(tokens, max_tokens)
        is_in_word = has_spaces and _is_in_word(tokens, cut)
        if is_in_word:
            most = min(max_tokens, _IN_WORD_TOKENS)
            cut = _cut_position(tokens[: most + 1], most)
        separator = " " if tokens[cut].startswith(WORD_START) else ""
        pieces.append(Piece(ids[start : start + cut], separator, is_in_word=is_in_word))
        start += cut
    if start < len(ids):
        pieces.append(Piece(ids[start:], ""))
    return pieces


def _cut_position(tokens: Sequence[str], max_tokens: int) -> int:
    """Return where the next piece begins: 1 to max_tokens; `tokens` are max_tokens + 1."""
    candidates = range(max_tokens, max(1, max_tokens // 2) - 1, -1)
    return min(candidates, key=lambda at: _harm("".join(tokens[max(0, at - 2) : at]), tokens[at]))


def _is_in_word(tokens: Sequence[str], cut: int) -> bool:
    """Tell whether the best cut tears a word that all tokens are of."""
    harm = _harm("".join(tokens[max(0, cut - 2) : cut]), tokens[cut])
    return harm >= _TORN_WORD and not any(token.startswith(WORD_START) for token in tokens[1:])


def _harm(before: str, after: str) -> int:
    """Return what a cut parts: 0 sentences, 1 clauses, 2 words, 3 a word, 4 a character.

    before: the last two tokens, which are a stop and what closes behind it, if anything does.
    """
    starts_word = after.startswith(WORD_START)
    first = after.removeprefix(WORD_START)[:1]
    mark = before.rstrip(CLOSING if starts_word else WIDE_CLOSING)[-1:]
    if mark and (starts_word or _may_touch(mark, first)):
        if mark in STOPS + WIDE_STOPS:
            # Behind an abbreviation small letters go on; but some vocabularies know no others.
            return 0 if first.title() == first else 1
        if mark in _CLAUSE_ENDS + _WIDE_CLAUSE_ENDS:
            return 1
    if starts_word:
        return 2
    return _TORN_WORD + 1 if _INSIDE_CHARACTER.fullmatch(after) else _TORN_WORD


def _may_touch(mark: str, first: str) -> bool:
    """Whether what begins with `first` may follow a sentence or clause without a space."""
    if mark in WIDE_STOPS + _WIDE_CLAUSE_ENDS:
        return first not in _NEVER_FIRST
    # Unicode normalisation has written ，as a comma, and the letter behind it must tell.
    return first.isalpha() and first.lower() == first.upper()


def join_pieces(texts: Sequence[str], separators: Sequence[str]) -> str:
    """Join the translations of a source's pieces."""
    joined = "".join(text + end for text, end in zip(texts, separators, strict=True))
    return joined.strip()


def translated_separator(separator: str, *, src_lang: str, tgt_lang: str) -> str:
    """Return what stands between two translations, given what stood between their sources.

    A space goes where the target is written without, as Chinese and Japanese are, and comes where
    the source was. Thai, Lao, Khmer and Burmese part sentences by spaces, though not words.
    """
    if primary_language(tgt_lang) in _WITHOUT_SPACES:
        return "" if separator == " " else separator
    if not separator and primary_language(src_lang) in _WORDS_WITHOUT_SPACES:
        return " "
    return separator
