"""Forced-decoding scores: how likely a model finds given translations.

If search found the same tokens, the scores equal those of search, up to rounding. Text is encoded
as in training. If search produced other subwords for the same text, the scores differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from nmt.search.engine import NOT_A_NUMBER, OUT_OF_MEMORY, Ids
from nmt.search.torch_engine import FORCED_TOKENS, TorchEngine
from nmt.translate.output import BLANK, Tally, Translation, failed
from nmt.translate.translator import POOL_LINES, Translator


@dataclass
class Likelihood:
    """The likelihood of a text, summed over its translations, and counts to report."""

    lines: int = 0
    tokens: int = 0  # with eos of each translation; none for blank lines
    log_prob: float = 0.0  # natural logarithm
    failed: Tally = field(default_factory=Tally)

    @property
    def nll(self) -> float:
        """Negative log-likelihood, nats a token; NaN without tokens."""
        return -self.log_prob / self.tokens if self.tokens else math.nan

    @property
    def perplexity(self) -> float:
        """exp(nll), per subword, as in validation."""
        return math.exp(min(self.nll, 700.0))

    def add(self, translation: Translation) -> None:
        self.lines += 1
        if translation.error:
            self.failed.add(self.lines, translation.error)
            return
        self.tokens += len(translation.tokens) + translation.segments  # eos of each segment
        self.log_prob += translation.log_prob


def score_pairs(
    translator: Translator,
    pairs: Iterable[tuple[str, str]],
    likelihood: Likelihood,
    *,
    on_progress: Callable[[int], object] | None = None,
) -> Iterator[Translation]:
    """Score pairs of source and translation as they come, `POOL_LINES` at a time.

    translator: of the torch engine. Of its options, only the length penalty counts.
    on_progress: called with the number of pairs just done.
    Yields each pair's translation with its scores, in order. If a pair cannot be scored, `error`
    says why, and the score is -inf. If both sides are blank, the score is 0.
    """
    engine, language_pair = translator.engine, translator.language_pair
    assert isinstance(engine, TorchEngine)
    vocabularies = language_pair.src_vocabulary, language_pair.tgt_vocabulary
    most_tokens = max(FORCED_TOKENS, language_pair.max_src_tokens)
    waiting = iter(pairs)
    while pool := list(islice(waiting, POOL_LINES)):
        sides = zip(vocabularies, zip(*pool, strict=True), strict=True)
        rows = (map(tuple, vocabulary.encode(texts)) for vocabulary, texts in sides)
        ids = list(zip(*rows, strict=True))
        longest = [max(map(len, pair)) for pair in ids]
        scored = [
            number
            for number, pair in enumerate(pool)
            if longest[number] <= most_tokens and any(map(str.strip, pair))
        ]
        of_tokens = engine.log_probs([ids[number] for number in scored], on_progress)
        log_probs = dict(zip(scored, of_tokens, strict=True))
        for number, (_, text) in enumerate(pool):
            if number in log_probs:
                translation = _translation(translator, text, ids[number][1], log_probs[number])
            elif longest[number] > most_tokens:
                translation = failed(f"more than {most_tokens:,} tokens", text)
            else:
                translation = BLANK
            likelihood.add(translation)
            yield translation


def _translation(
    translator: Translator, text: str, ids: Ids, log_probs: list[float] | None
) -> Translation:
    if log_probs is None:
        return failed(OUT_OF_MEMORY, text)
    vocabulary = translator.language_pair.tgt_vocabulary
    first = len(vocabulary.first)  # language tokens are not part of the translation
    ids, log_probs = ids[first:], log_probs[first:]
    log_prob = sum(log_probs)
    if not math.isfinite(log_prob):
        return failed(NOT_A_NUMBER, text)
    score = log_prob / translator.engine.options.penalty(len(log_probs))
    tokens = tuple(vocabulary.tokens(ids))
    return Translation(text, score, log_prob, tokens, tuple(log_probs[:-1]), 1)
