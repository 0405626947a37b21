"""Which words of a pair of lines translate each other, by a lexicon that is learnt from pairs.

The lexicon is IBM Model 1 in both directions (`nmt.lexical.ibm_model1`), on lemmas in lower case,
so that all forms of a word count together. It is small: it holds only what is likely in both
directions. In scripts without spaces, a "word" is a whole clause, which hardly ever repeats, so
nothing is found.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from nmt.data.shards import TokenRows
from nmt.lexical.ibm_model1 import Lexicon, learn_from_rows
from nmt.lexical.lemmas import WORD, lemma

_LEAST_PROBABILITY = 0.1
"""In either direction; Model 1 spreads less than that over words that merely come together."""
_LEAST_COUNT = 2  # of a word that is learnt
_FREQUENT = 100
"""So many of the most frequent words are left out: mostly they are grammar, and no terms. This also
makes learning some four times as fast."""


Span = tuple[int, int]  # where a word begins and ends in its line


class WordLexicon(NamedTuple):
    """Words with the translations that are likely in both directions."""

    src_keys: Mapping[str, str]  # the lemma, in lower case, of each known word
    tgt_lemmas: Mapping[str, str]  # the lemma of each known word
    scores: Mapping[str, Mapping[str, float]]
    """The product of both probabilities, by source and target in lower case."""

    @classmethod
    def read(cls, content: str) -> WordLexicon:
        return cls(**json.loads(content))

    def write(self) -> str:
        return json.dumps(self._asdict())

    @property
    def entries(self) -> int:
        """How many pairs of lemmas it holds."""
        return sum(map(len, self.scores.values()))

    def links(self, src: str, tgt: str) -> list[tuple[Span, Span, str]]:
        """Return which words of two lines translate each other, in the order of the source.

        Each is the other's best translation in the line, and occurs once in it. The source has a
        letter. Returns the word of the source, that of the target, and the lemma of the latter.
        """
        src_places = _occurrences(src, self.src_keys.get)
        tgt_places = _occurrences(tgt, self._tgt_key)
        best: dict[str, tuple[float, str]] = {}  # of each target: its score and source
        chosen: dict[str, str] = {}
        for src_key in src_places:
            known = self.scores.get(src_key, {})
            candidates = ((known[tgt_key], tgt_key) for tgt_key in tgt_places if tgt_key in known)
            score, tgt_key = max(candidates, default=(0.0, ""))
            if score > best.get(tgt_key, (0.0, ""))[0]:
                best[tgt_key] = score, src_key
                chosen[src_key] = tgt_key
        return [
            (
                src_places[src_key][0],
                tgt_places[tgt_key][0],
                self.tgt_lemmas[tgt[slice(*tgt_places[tgt_key][0])]],
            )
            for src_key, tgt_key in chosen.items()
            if best[tgt_key][1] == src_key
            and len(src_places[src_key]) == len(tgt_places[tgt_key]) == 1
            and any(map(str.isalpha, src_key))
        ]

    def _tgt_key(self, word: str) -> str | None:
        known = self.tgt_lemmas.get(word)
        return None if known is None else known.lower()


def learn_words(
    pairs: Sequence[tuple[str, str]],
    langs: tuple[str, str],
    *,
    on_progress: Callable[[int], object] | None = None,
) -> WordLexicon:
    """Learn from pairs of lines.

    on_progress: called with 1 after each of two times `LEXICON_STEPS` steps.
    UsageError if simplemma is missing.
    """
    (src, src_keys, src_lemmas), (tgt, tgt_keys, tgt_lemmas) = (
        _lemma_rows([pair[side] for pair in pairs], langs[side]) for side in (0, 1)
    )
    scores: dict[str, dict[str, float]] = {}
    if len(src.ids) and len(tgt.ids):
        sizes = len(src_keys), len(tgt_keys)
        forth = learn_from_rows(src, tgt, *sizes, on_progress=on_progress)
        back = learn_from_rows(tgt, src, *sizes[::-1], on_progress=on_progress)
        backward = {(src_id, tgt_id): prob for tgt_id, src_id, prob in _likely(back)}
        for src_id, tgt_id, prob in _likely(forth):
            if (src_id, tgt_id) in backward:
                of_source = scores.setdefault(src_keys[src_id], {})
                of_source[tgt_keys[tgt_id]] = prob * backward[src_id, tgt_id]
    lowered = {word: base.lower() for word, base in src_lemmas.items()}
    return WordLexicon(lowered, tgt_lemmas, scores)


def _lemma_rows(lines: Sequence[str], lang: str) -> tuple[TokenRows, list[str], dict[str, str]]:
    """Read the words of one side of the pairs.

    Returns the indices of each line's lemmas, the lemmas in lower case with the most frequent
    first, and the lemma of each word that is learnt.
    """
    words = [WORD.findall(line) for line in lines]
    different = sorted({word for line in words for word in line})
    lemmas = {word: lemma(word, lang) for word in different}
    counts = Counter(lemmas[word].lower() for line in words for word in line)
    known = (key for key, count in counts.items() if count >= _LEAST_COUNT)
    keys = sorted(known, key=lambda key: (-counts[key], key))[_FREQUENT:]
    numbers = {key: number for number, key in enumerate(keys)}
    key_of = {word: numbers.get(base.lower()) for word, base in lemmas.items()}
    rows = [[key for word in line if (key := key_of[word]) is not None] for line in words]
    learnt = {word: base for word, base in lemmas.items() if key_of[word] is not None}
    return TokenRows.from_lists(rows, token_bytes=4), keys, learnt


def _likely(lexicon: Lexicon) -> Iterable[tuple[int, int, float]]:
    """Yield source, target and probability of what is likely."""
    chosen = np.flatnonzero(lexicon.probs >= _LEAST_PROBABILITY)
    return zip(*(column[chosen].tolist() for column in lexicon[:3]), strict=True)


def _occurrences(line: str, key_of: Callable[[str], str | None]) -> dict[str, list[Span]]:
    """Return where each known word of a line stands, by its key."""
    places: dict[str, list[Span]] = {}
    for match in WORD.finditer(line):
        if (key := key_of(match[0])) is not None:
            places.setdefault(key, []).append(match.span())
    return places
