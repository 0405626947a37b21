"""Lines are cut into segments.

A line is split into sentences if wanted. Sentences with too many tokens are cut into segments. What
has no letters is copied.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from operator import itemgetter
from typing import NamedTuple

from nmt.markup.breaks import LINE_END
from nmt.search.engine import Ids, Source
from nmt.translate.copied_text import copying, has_words
from nmt.translate.language_pair import LanguagePair
from nmt.translate.options import TranslationConfig
from nmt.translate.segment import Copy, Segment, Spans
from nmt.translate.segmentation import split_ids, split_sentences, translated_separator

_SURROGATE = re.compile("[\ud800-\udfff]")
_LINE_BREAKERS = re.compile("[\n\r]")


class _Sentence(NamedTuple):
    text: str
    separator: str  # white space before the next one
    protected: Spans  # what stays as it is
    is_copied: bool = False  # unless it has a listed word


Cut = Callable[[str, Spans, list[int], int, str], list[Segment]]
"""Cuts a sentence into segments, and finds words of a list in it.

It gets the sentence, the parts of it that stay as they are (see `WordList.find`), its ids, how many
of them a segment may have, and the white space between this sentence and the next.
"""


@dataclass(frozen=True)
class SegmentLines:
    """Cuts lines into segments."""

    language_pair: LanguagePair
    config: TranslationConfig
    cut: Cut | None = None  # cuts sentences that are too long, if not only by their length

    def __call__(
        self,
        lines: Sequence[str],
        prefixes: Sequence[str] = (),
        protected: Sequence[Spans] = (),
        *,
        is_document: bool = False,
        has_breaks: bool = False,
    ) -> list[list[Segment]]:
        """Return the segments of each line; blank lines have none.

        A line of only white space is blank, even if the vocabulary has tabs or U+00A0. The tag that
        a line begins with begins each of its segments.

        prefixes: what the first segment's translation begins with, of each line; or none.
        protected: what stays as it is in each line, so that no word in it is found; or none.
        is_document: whether they are units of one, and so split into sentences if that may be.
        has_breaks: whether lines had tags, so that line ends part what is apart.
        """
        config, pair = self.config, self.language_pair
        may_split = not (config.no_split or config.context)
        most: float = (pair.whole_src_tokens or pair.max_src_tokens) if may_split else math.inf
        if config.split or (is_document and may_split):
            most = 0
        whole = list(map(only_text, lines))
        tagged = [pair.src_vocabulary.split_tag(line) for line in whole]
        begun = pair.tgt_vocabulary.encode_text(prefixes)
        parts = zip(whole, tagged, protected or repeat(()), begun or repeat(()), strict=False)
        sentences = [
            self._sentences(line, text, spans, most, has_prefix=bool(prefix), has_breaks=has_breaks)
            for line, (_, text), spans, prefix in parts
        ]
        texts = [sentence.text for line in sentences for sentence in line]
        ids = iter(pair.src_vocabulary.encode_text(texts))
        segments = [
            [segment for sentence in line for segment in self._segments(tag, next(ids), sentence)]
            for (tag, _), line in zip(tagged, sentences, strict=True)
        ]
        for line, original, (_, text) in zip(segments, whole, tagged, strict=True):
            if line and text != original:  # the tag of the first segment is the line's
                line[0] = replace(line[0], added=0)
        for line, prefix in zip(segments, begun, strict=False):
            if line and prefix:
                source = replace(line[0].source, prefix=tuple(prefix))
                line[0] = replace(line[0], source=source, copy=None)
        return segments

    def _sentences(
        self,
        line: str,
        text: str,
        protected: Spans,
        most: float,
        *,
        has_prefix: bool,
        has_breaks: bool,
    ) -> list[_Sentence]:
        """Return the sentences of a line's text, which is all of it, or what follows its tag.

        most: tokens of several sentences that stay together.
        """
        if not text or text.isspace():
            return []
        position = len(line) - len(text)
        copies, is_one_line = not self.config.search.no_copy, not (has_breaks and LINE_END in text)
        if copies and not has_prefix and is_one_line:
            copied = text.lstrip() if position else text
            protected_here = _shifted(protected, len(line) - len(copied))
            if not has_words(copied, protected_here):
                return [_Sentence(copied, "", protected_here, is_copied=True)]
        if has_prefix and most:  # it may be that of several sentences
            most = math.inf
        spans = _shifted(protected, position)
        parts = _with_whole_pieces(self._parts(text, most, has_breaks), spans)
        sentences = []
        for number, (part, separator) in enumerate(parts):
            first, end = _first(protected, position), _first(protected, position + len(part))
            protected_here = _shifted(protected[first:end], position)
            may_copy = copies and len(parts) > 1 and (number > 0 or not has_prefix)
            is_copied = may_copy and not has_words(part, protected_here)
            sentences.append(_Sentence(part, separator, protected_here, is_copied))
            position += len(part) + len(separator)
        return sentences

    def _parts(self, text: str, most: float, has_breaks: bool) -> Iterator[tuple[str, str]]:
        """Yield the parts of a text that are translated one by one, each with what follows it."""
        *lines, last = text.split(LINE_END) if has_breaks else [text]
        for line in lines:
            *sentences, (sentence, space) = self._split_text(line, most)
            yield from sentences
            yield sentence, space + LINE_END
        for sentence, space in self._split_text(last, most):
            yield sentence, _LINE_BREAKERS.sub(" ", space)

    def _split_text(self, text: str, most: float) -> list[tuple[str, str]]:
        """Return the sentences of a text, or all of it if it has one, or at most so many tokens."""
        if len(text.encode()) >= most:  # a token has a byte or more
            sentences = split_sentences(text, self.language_pair.languages[0])
            vocabulary = self.language_pair.src_vocabulary
            if len(sentences) > 1 and (not most or len(vocabulary.encode_text([text])[0]) > most):
                return sentences
        return [(text, "")]

    def _cut_by_length(
        self, _text: str, _protected: Spans, ids: list[int], most: int, separator: str
    ) -> list[Segment]:
        pair = self.language_pair
        return split_ids(pair.src_vocabulary, ids, most, pair.languages, separator)

    def _segments(self, tag: Ids, ids: list[int], sentence: _Sentence) -> list[Segment]:
        """Return the segments of a sentence."""
        text, separator, protected, is_copied = sentence
        pair, cut = self.language_pair, self.cut or self._cut_by_length
        segments = cut(text, protected, ids, max(1, pair.max_src_tokens - len(tag)), separator)
        if LINE_END in separator and not segments:  # the line stays, with nothing in it
            segments = [Segment(Source(()), separator, copy=Copy("", ()))]
        if is_copied and not any(segment.listed for segment in segments):
            space = translated_separator(separator, pair.languages)
            copy = Copy(text, tuple(ids))
            segments = [Segment(Source(copy.ids), space, copy=copy)]
        elif not self.config.search.no_copy and len(segments) > 1:
            segments = copying(segments, pair.src_vocabulary)
        return [segment.with_tag(tag) for segment in segments] if tag else segments


def _with_whole_pieces(parts: Iterable[tuple[str, str]], protected: Spans) -> list[tuple[str, str]]:
    """Join parts of a text again if what must stay as it is begins in one and ends in another."""
    joined: list[tuple[str, str]] = []
    position = 0
    for part, separator in parts:
        before_here = _first(protected, position)
        is_whole = not before_here or protected[before_here - 1][1] <= position
        before = "" if is_whole or not joined else "".join(joined.pop())
        joined.append((before + part, separator))
        position += len(part) + len(separator)
    return joined


def _first(spans: Spans, place: int) -> int:
    """Return the number of the first span that begins at a place in the text, or later."""
    return bisect_left(spans, place, key=itemgetter(0))


def _shifted(spans: Spans, start: int) -> Spans:
    """Return spans of a text, counted from a place in it."""
    return [(begin - start, end - start) for begin, end in spans]


def only_text(line: str) -> str:
    """Replace lone surrogates, which Python strings can hold, but which are not text."""
    return line if line.isascii() else _SURROGATE.sub("\ufffd", line)
