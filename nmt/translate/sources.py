"""Sources: what search gets of each line, which are the ids of its segments.

A line is split into sentences if wanted. Sentences with too many tokens are cut into segments. In
each sentence, terms are found.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import repeat
from typing import NamedTuple

from nmt.data.vocabulary import Vocabulary
from nmt.search.engine import Ids, Source
from nmt.translate.segmentation import split_ids, split_sentences
from nmt.translate.term_phrases import TermPhrases
from nmt.translate.term_sources import TermSources, with_tag

Spans = Sequence[tuple[int, int]]
"""Starts and ends in a text, in order."""

_SURROGATE = re.compile("[\ud800-\udfff]")


class _Sentence(NamedTuple):
    text: str
    separator: str  # white space before the next one
    kept: Spans  # what stays as it is


class LineSources:
    """Makes the sources of lines."""

    def __init__(
        self,
        src_vocabulary: Vocabulary,
        tgt_vocabulary: Vocabulary,
        *,
        languages: tuple[str, str],
        max_tokens: int,
        split: bool = False,
        annotations: TermSources | None = None,
        phrases: TermPhrases | None = None,
    ) -> None:
        """Set how lines are cut.

        Args:
            src_vocabulary: of lines.
            tgt_vocabulary: of prefixes.
            languages: codes of source and target.
            max_tokens: longer sentences are cut into segments.
            split: whether lines are split into sentences.
            annotations: terms that the model reads, or
            phrases: those that search forces.
        """
        self._src_vocabulary = src_vocabulary
        self._tgt_vocabulary = tgt_vocabulary
        self._languages = languages
        self._max_tokens = max_tokens
        self._split = split
        self._annotations = annotations
        self._phrases = phrases

    def of(
        self, lines: Sequence[str], prefixes: Sequence[str] = (), kept: Sequence[Spans] = ()
    ) -> list[list[Source]]:
        """Return the segments of each line; blank lines have none.

        A line of only white space is blank, even if the vocabulary has tabs or U+00A0. The tag that
        a line begins with begins each of its segments.

        Args:
            lines: text.
            prefixes: what the first segment's translation begins with, of each line; or none.
            kept: what stays as it is in each line, so that terms in it do not count; or none.
        """
        whole = list(map(only_text, lines))
        tagged = [self._src_vocabulary.split_tag(line) for line in whole]
        sentences = [
            [] if not text or text.isspace() else self._sentences(line, text, spans)
            for line, (_, text), spans in zip(whole, tagged, kept or repeat(()), strict=False)
        ]
        texts = [sentence.text for line in sentences for sentence in line]
        ids = iter(self._src_vocabulary.encode_text(texts))
        segments = [
            [segment for sentence in line for segment in self._cut(tag, next(ids), sentence)]
            for (tag, _), line in zip(tagged, sentences, strict=True)
        ]
        for line, original, (_, text) in zip(segments, whole, tagged, strict=True):
            if line and text != original:  # the tag of the first segment is the line's
                line[0] = replace(line[0], added=0)
        for line, prefix in zip(segments, self._tgt_vocabulary.encode_text(prefixes), strict=False):
            if line and prefix:
                line[0] = replace(line[0], prefix=tuple(prefix))
        return segments

    def _sentences(self, line: str, text: str, kept: Spans) -> list[_Sentence]:
        """Return the sentences of a line's text, which is all of it, or what follows its tag."""
        parts = split_sentences(text, self._languages[0]) if self._split else [(text, "")]
        has_terms = self._annotations is not None or self._phrases is not None
        sentences, at = [], len(line) - len(text)
        for part, separator in parts:
            own = [(start - at, end - at) for start, end in kept] if has_terms else []
            sentences.append(_Sentence(part, separator, own))
            at += len(part) + len(separator)
        return sentences

    def _cut(self, tag: Ids, ids: list[int], sentence: _Sentence) -> list[Source]:
        """Return the segments of a sentence."""
        text, separator, kept = sentence
        split = partial(split_ids, self._src_vocabulary)
        if self._annotations is not None:
            split = partial(self._annotations.segments, text, kept)
        most = max(1, self._max_tokens - len(tag))
        segments = split(ids, most, languages=self._languages, separator=separator)
        if self._phrases is not None:
            segments = self._phrases.added_to(segments, text, kept)
        return [with_tag(one, tag) for one in segments] if tag else segments


def only_text(line: str) -> str:
    """Replace lone surrogates, which Python strings can hold, but which are not text."""
    return line if line.isascii() else _SURROGATE.sub("\ufffd", line)
