"""Segmentation: paragraphs into sentences, and over-long sources into segments.

Sentences are split by rules and by the abbreviation lists of Moses. A sentence ends at one of
. ! ? … or their equivalents in other scripts, with closing signs after it, before white space
(except after 。) and what may begin a sentence. It does not end at a dot after an abbreviation,
initials (`J. Smith`), a number that begins it (`1. Introduction`) or an ordinal (`3. Mai`), or
between a letter and a digit (`p. 5`), at an ellipsis before a digit, before its first letter or
digit, or after 「…。」 before a particle.

If the rules are unsure, they do not split: two sentences in one source do less harm than half a
sentence. So the shad of Tibetan and Dzongkha ends no sentence: it also ends clauses.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from nmt.data.composition import compose
from nmt.data.languages import primary_language
from nmt.data.moses import abbreviations
from nmt.data.vocabulary import Vocabulary
from nmt.data.words import (
    INVISIBLE,
    MARKS,
    STOP_SIGNS,
    STOPS,
    WIDE_STOPS,
    is_in_word,
    is_stop,
    is_wide,
)
from nmt.lexical.token_offsets import WORD_START
from nmt.markup.breaks import LINE_END
from nmt.markup.kept_pieces import SIGN_CHARACTERS
from nmt.search.engine import Source
from nmt.translate.segment import Segment

CLOSING = "\"'”’“‘»›«‹)]}）］｝」』】》〉" + INVISIBLE
WIDE_CLOSING = "\"'”’»›)]}）］｝」』】》〉" + INVISIBLE  # “ opens a quotation after 。
_LONE_CLOSING = "”’»›)]}" + INVISIBLE  # closes even after a space, as in French
# The modifier letters of Hawaiian and Ukrainian are followed by the letter that may be a capital.
_OPENING = "\"'“”„‟‘’‚‛`«»‹›([{（［｛「『【《〈¿¡*•–—―-ʻʼ$£€¥₹" + INVISIBLE


def _any(characters: str) -> str:
    return f"[{re.escape(characters)}]"


_WIDE = WIDE_STOPS + "\u1361"  # the Ethiopic word separator is a stop only if it is doubled

# Possessive quantifiers, and a match at every stop: linear time for any text.
_END = re.compile(
    rf"(?P<stops>{_any(STOP_SIGNS)}++)"
    rf"(?P<closing>(?<={_any(_WIDE)}){_any(WIDE_CLOSING)}*+(?>(?:“(?=\s|$))?)"
    rf"|{_any(CLOSING)}*+(?:\s{_any(_LONE_CLOSING)}++(?=\s|$))?"
    rf"(?>(?:\s?[{SIGN_CHARACTERS}]++(?=\s|$))?))"  # an emoji after a sentence belongs to it
    r"(?P<space>\s*+)"
)
_BEGINNING = re.compile(rf"(?>(?:{_any(_OPENING)}\s?)*)([\w{MARKS}]?)")
_LONE_QUOTE = re.compile(r'"(\s++)')
_HIRAGANA = re.compile("[\u3041-\u309f]")

_LONGEST_ABBREVIATION = 40  # characters
_HEBREW = "\u05d0-\u05ea"  # its abbreviations have a quotation mark before the last letter
# May precede an abbreviation without a space: (z.B., 9./10. Mai, Prof.-Dr.
_BEFORE_WORD = re.compile(rf"(?<![{_HEBREW}])[\"“”]|[\s„‟`«»‹›(\[{{（［｛¿¡*•]|(?<=\.)[/–-]")
_FIRST_NUMBER = re.compile(r"\W*(?:\d+(?:\.\d+)*|[IVXLC]+)")
_INITIALS = re.compile(rf"(?<![\w.{MARKS}])(?<![{_HEBREW}][\"“”״'‘’׳])(?:[^\W\d_]\.)*[^\W\d_]$")
# Exceptions from the lists: a capital after these begins a sentence, ...
_AND_SO_ON = re.compile("etc|usf|usw|ਸੀ")  # the Punjabi one means "was", and C
# ... and these join only digits: "Art. 5", but "von dieser Art. Das".
_BEFORE_DIGIT = re.compile("(?i)abb|abs|approx|art|bd|cap|eq|fig|kap|max|nr|pp|sept|vol")


def split_sentences(text: str, lang: str) -> list[tuple[str, str]]:
    """Split a paragraph into its sentences, each with the white space before the next one.

    Joined in turn, they give the paragraph. White space before the first sentence belongs to it.
    Only a paragraph of just white space has a blank sentence.

    lang: its abbreviations are used; English ones if Moses has no list for it.
    """
    sentences = []
    start = 0
    for end in _END.finditer(text):
        if end.end() < len(text) and _is_end(text, start, end, lang):
            stop, following = end.span("space")
            lone = _LONE_QUOTE.match(text, following)
            if lone and text.count('"', start, stop) % 2:  # it closes a quotation of this sentence
                stop, following = lone.span(1)
            sentences.append((text[start:stop], text[stop:following]))
            start = following
    if start < len(text):
        last = text[start:].rstrip() or text[start:]
        sentences.append((last, text[start + len(last) :]))
    return sentences


def _is_end(text: str, start: int, end: re.Match[str], lang: str) -> bool:
    """Tell whether the sentence from `start` ends at a match of `_END`."""
    stops, closing, space = end.groups()
    if not is_stop(text, *end.span("stops")):
        return False
    beginning = _BEGINNING.match(text, end.end())
    first = beginning[1] if beginning else ""
    if not is_in_word(first):
        return False
    if stops[-1] in _WIDE or (not space and _is_narrow(text, end, first)):
        if closing and _HIRAGANA.match(text, end.end()):
            return False
    # A letter without case is its own title case. So are Georgian ones, which have capitals.
    elif not space or first.title() != first:
        return False
    elif stops == ".":
        before = text[max(start, end.start() - _LONGEST_ABBREVIATION) : end.start()]
        if _is_abbreviated(before, lang, before_digit=first.isdecimal()):
            return False
    elif stops.startswith(("..", "…")) and first.isdecimal():
        return False
    return any(map(str.isalnum, text[start : end.start()]))


def _is_narrow(text: str, end: re.Match[str], first: str) -> bool:
    """Tell whether a stop is a narrow ? or ! in Chinese or Japanese, as in 真的吗?他走了."""
    stops, closing, _ = end.groups()
    before = text[end.start() - 1 : end.start()]
    return stops[-1] in "?!" and is_wide(first) and is_wide(before) and "“" not in closing


def _is_abbreviated(before: str, lang: str, *, before_digit: bool) -> bool:
    """Tell whether a dot belongs to the word or number before it."""
    word = _BEFORE_WORD.split(compose(before))[-1]
    if _AND_SO_ON.fullmatch(word):
        return False
    if _BEFORE_DIGIT.fullmatch(word):
        return before_digit
    forms = {word, word[:1].lower() + word[1:]}  # the lists have words as inside a sentence
    if forms & abbreviations(lang, before_digit=before_digit):
        return True
    initials = _INITIALS.search(word)
    if initials and initials[0] < "\u1100":  # Hangul are syllables
        return before_digit or not initials[0].islower()
    return _FIRST_NUMBER.fullmatch(before) is not None


_CLAUSE_ENDS = ";:,—؛،"
_WIDE_CLAUSE_ENDS = "，、；：" + "\u0f0d\u0f0e\u104a\u1363\u1364"  # Tibetan, Burmese, Ethiopic
_NEVER_FIRST = STOPS + WIDE_STOPS + _CLAUSE_ENDS + _WIDE_CLAUSE_ENDS + WIDE_CLOSING
_INSIDE_CHARACTER = re.compile("<0x[89AB].>")  # continuation bytes of UTF-8

# Hundreds of tokens without a space are hardly text, and models do not end their translations.
# Each segment would run to its length limit, which is far lower for short segments.
_IN_WORD_TOKENS = 64

_TORN_WORD = 3  # see `_harm`

_WITHOUT_SPACES = {"ja", "zh", "yue"}
_WORDS_WITHOUT_SPACES = _WITHOUT_SPACES | {"th", "lo", "km", "my"}


def split_ids(
    vocabulary: Vocabulary,
    ids: list[int],
    max_tokens: int,
    languages: tuple[str, str] = ("", ""),
    separator: str = "",
) -> list[Segment]:
    """Split a sentence's ids into segments of at most `max_tokens`; an empty one has none.

    Each cut is in the second half of the longest possible segment: after the last sentence there,
    else after the last clause, else before the last word, else at the limit, but not inside a
    character that is written as bytes. Words longer than the limit get shorter segments, unless the
    language is written without spaces.

    `separator` is the white space between this sentence and the next. The languages, of source and
    target, decide what separates the translations.
    """
    has_spaces = primary_language(languages[0]) not in _WORDS_WITHOUT_SPACES
    segments = []
    start = 0
    while len(ids) - start > max_tokens:
        tokens = vocabulary.tokens(ids[start : start + max_tokens + 1])
        cut = _cut_position(tokens, max_tokens)
        if is_in_word := has_spaces and _is_in_word(tokens, cut):
            most = min(max_tokens, _IN_WORD_TOKENS)
            cut = _cut_position(tokens[: most + 1], most)
        space = translated_separator(" " if tokens[cut].startswith(WORD_START) else "", languages)
        source = Source(tuple(ids[start : start + cut]), is_in_word=is_in_word)
        segments.append(Segment(source, space, is_cut=True))
        start += cut
    if start < len(ids):
        space = translated_separator(separator, languages)
        segments.append(Segment(Source(tuple(ids[start:])), space, is_cut=start > 0))
    return segments


def _cut_position(tokens: Sequence[str], max_tokens: int) -> int:
    """Return where the next segment begins, 1 to max_tokens, given max_tokens + 1 tokens."""
    candidates = range(max_tokens, max(1, max_tokens // 2) - 1, -1)
    return min(candidates, key=lambda position: _harm(tokens, position))


def _is_in_word(tokens: Sequence[str], cut: int) -> bool:
    """Tell whether all tokens are of one word, so that the best cut is inside it."""
    is_torn = _harm(tokens, cut) >= _TORN_WORD
    return is_torn and not any(token.startswith(WORD_START) for token in tokens[1:])


def _harm(tokens: Sequence[str], cut: int) -> int:
    """Return a cut's harm: 0 between sentences, 1 clauses, 2 words; 3 in a word, 4 a character."""
    # Two tokens before, for example a stop and a closing quote.
    before, after = "".join(tokens[max(0, cut - 2) : cut]), tokens[cut]
    starts_word = after.startswith(WORD_START)
    first = after.removeprefix(WORD_START)[:1]
    mark = before.rstrip(CLOSING if starts_word else WIDE_CLOSING)[-1:]
    if mark and (starts_word or _may_touch(mark, first)):
        if mark in STOPS + WIDE_STOPS:
            # A small letter after a stop suggests an abbreviation, unless the vocabulary has no
            # capitals.
            return 0 if first.title() == first else 1
        if mark in _CLAUSE_ENDS + _WIDE_CLAUSE_ENDS:
            return 1
    if starts_word:
        return 2
    return _TORN_WORD + 1 if _INSIDE_CHARACTER.fullmatch(after) else _TORN_WORD


def _may_touch(mark: str, first: str) -> bool:
    """Tell whether `first` may begin a sentence or clause without a space after `mark`."""
    if mark in WIDE_STOPS + _WIDE_CLAUSE_ENDS:
        return first not in _NEVER_FIRST
    # Unicode normalisation turns ， into a comma, so the letter after it decides.
    return first.isalpha() and first.lower() == first.upper()


def join_segments(texts: Sequence[str], separators: Sequence[str]) -> str:
    """Join the translations of a source's segments; each line without spaces at its edges."""
    joined = "".join(text + end for text, end in zip(texts, separators, strict=True))
    return LINE_END.join(map(str.strip, joined.split(LINE_END)))


def translated_separator(separator: str, languages: tuple[str, str]) -> str:
    """Return the separator of two translations, given that of their sources.

    A space is dropped if the target language is written without spaces, as Chinese and Japanese
    are, and added if the source language is. Thai, Lao, Khmer and Burmese separate sentences by
    spaces, but not words.
    """
    src_lang, tgt_lang = map(primary_language, languages)
    if tgt_lang in _WITHOUT_SPACES:
        return "" if separator == " " else separator
    return " " if not separator and src_lang in _WORDS_WITHOUT_SPACES else separator
