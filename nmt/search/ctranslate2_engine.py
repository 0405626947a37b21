"""The CTranslate2 engine, for models exported by `nmt export ctranslate2`.

It differs from the torch engine in four ways. CTranslate2 renormalises over the tokens that are
not barred. A hypothesis that reaches its length limit is cut off without eos, and its score is that
of its tokens. Search goes on until a beam's width of hypotheses are finished. A batch has one
length limit for all of its sources, so wide limits are rounded up. Options that it does not support
are refused. It gives no log-probabilities of tokens.
"""

from __future__ import annotations

import contextlib
import math
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from nmt.data.vocabulary import PAD_ID, Vocabulary
from nmt.errors import DataError, UsageError, is_of_memory
from nmt.models.model_file import CARD
from nmt.search.engine import Engine, Hypothesis, OnStep, Searched, Source, source_cost
from nmt.search.options import SearchOptions

# Source tokens: with fewer or more, CTranslate2 is slower for small models.
_BATCH_TOKENS, _GREEDY_BATCH_TOKENS = 512, 1_024
_SMALLEST_BATCH = 256

_LIMIT_STEP = 16
"""If translations may have so many tokens more than their source, limits are those of sources that
have a multiple of it. With limits of their own, most batches would be of few sources."""


class CTranslate2Engine(Engine):
    def __init__(
        self,
        model: Any,
        options: SearchOptions,
        vocabularies: tuple[Vocabulary, Vocabulary],
        *,
        src_tokens: Sequence[str],
        most_tokens: int,
        workers: int,
        batch_tokens: int | None = None,
        with_scores: bool = True,
    ) -> None:
        """Take a ctranslate2.Translator that translates `workers` batches in parallel.

        src_tokens: its names for the ids of a source.
        most_tokens: of a translation, for which it has positions.
        with_scores: whether the hypotheses of greedy search need them. Otherwise they are 0.
        UsageError if it does not support an option.
        """
        if not set(options.barred_ids) <= set(vocabularies[1].barred_ids):
            raise UsageError("CTranslate2 can bar only the tokens that the export bars")
        usual = _BATCH_TOKENS if options.beam_size > 1 else _GREEDY_BATCH_TOKENS
        super().__init__(options, usual if batch_tokens is None else batch_tokens)
        tgt = vocabularies[1].pieces
        self._src_tokens, self._tgt_ids = src_tokens, {token: i for i, token in enumerate(tgt)}
        self._pad = tgt[PAD_ID]
        self._first = [tgt[i] for i in options.first_ids]
        self._model = model
        self._most_tokens, self._workers = most_tokens, workers
        # To score the only hypothesis, each step would need the softmax.
        self._has_scores = with_scores or options.beam_size > 1

    def find(
        self, sources: Sequence[Source], order: Sequence[int], budget: int, on_step: OnStep
    ) -> Iterator[Searched]:
        """See `Engine`. `on_step` is called before waiting for each batch.

        Few batches are submitted at a time, because they cannot be cancelled.
        """
        # A source that fills the budget gets all memory.
        is_tight = bool(order) and 2 * source_cost(sources[order[0]]) > budget
        most = 1 if is_tight else 2 * self._workers
        if self._workers > 1:
            # If there is little work, use smaller batches, so that all workers end together.
            work = sum(source_cost(sources[number]) for number in order)
            budget = min(budget, max(_SMALLEST_BATCH, work // (2 * self._workers)))
        batches = self._batches(sources, order, budget)
        under_way: deque[tuple[list[int], int, list[Any]]] = deque()
        try:
            while True:
                for numbers in islice(batches, most - len(under_way)):
                    limit = self.longest(sources[numbers[0]])
                    results = self._submit([sources[number] for number in numbers], limit)
                    under_way.append((numbers, limit, results))
                if not under_way:
                    return
                if on_step is not None:
                    on_step()
                numbers, limit, results = under_way.popleft()
                for number, result in zip(numbers, results, strict=True):
                    translated = _finished(result)
                    # Each access makes a copy.
                    hypotheses = translated.hypotheses
                    scores = translated.scores if self._has_scores else [0.0] * len(hypotheses)
                    yield number, self._hypotheses(hypotheses, scores, limit)
        finally:
            for _, _, results in under_way:
                for result in results:
                    with contextlib.suppress(RuntimeError):  # the first one was raised
                        result.result()

    def longest(self, source: Source) -> int:
        tokens = len(source.ids)
        if self.options.max_extra_tokens >= _LIMIT_STEP:
            tokens = -(-tokens // _LIMIT_STEP) * _LIMIT_STEP
        return min(self.options.longest(tokens, source.is_in_word), self._most_tokens)

    def _batches(
        self, sources: Sequence[Source], order: Sequence[int], budget: int
    ) -> Iterator[list[int]]:
        """Yield batches of one limit, longest first, within the budget or of a single source."""
        batch: list[int] = []
        for number in order:
            if batch:
                first = sources[batch[0]]
                is_full = (len(batch) + 1) * source_cost(first) > budget
                if is_full or self.longest(sources[number]) != self.longest(first):
                    yield batch
                    batch = []
            batch.append(number)
        if batch:
            yield batch

    def _submit(self, sources: Sequence[Source], limit: int) -> list[Any]:
        """Start to translate sources, each to at most `limit` tokens."""
        results: list[Any] = self._model.translate_batch(
            [list(map(self._src_tokens.__getitem__, source.ids)) for source in sources],
            target_prefix=[self._first] * len(sources) if self._first else None,
            beam_size=self.options.beam_size,
            num_hypotheses=self.options.beam_size,
            # With one hypothesis, it would only change the score.
            length_penalty=self.options.length_penalty if self.options.beam_size > 1 else 0.0,
            # These count the prefix.
            min_decoding_length=len(self._first) + self.options.min_tokens,
            max_decoding_length=len(self._first) + limit,
            no_repeat_ngram_size=self.options.no_repeat_ngram,
            repetition_penalty=self.options.repetition_penalty,
            max_input_length=0,
            return_scores=self._has_scores,
            asynchronous=True,
        )
        return results

    def _hypotheses(
        self, hypotheses: Sequence[Sequence[str]], scores: Sequence[float], limit: int
    ) -> list[Hypothesis]:
        """Return the best hypotheses, with tokens and scores as CTranslate2 has them.

        limit: with so many tokens, a hypothesis was cut off.
        """
        options, prefix = self.options, len(self._first)
        ranked = []
        for tokens, score in zip(hypotheses, scores, strict=True):
            # The best of numbers that are none is the first, which is pad.
            if math.isnan(score) or self._pad in tokens:
                continue
            length = len(tokens) - prefix
            length += length < limit  # cut off ones have no eos
            # CTranslate2 counts the prefix, too.
            log_prob = score * (options.penalty(length + prefix) if options.beam_size > 1 else 1.0)
            ranked.append((log_prob / options.penalty(length), log_prob, tokens))
        ranked.sort(key=lambda scored: -scored[0])
        if options.decode is None:  # no two of them need be the same text
            del ranked[options.n_best :]
        try:
            finished = [
                Hypothesis(tuple(map(self._tgt_ids.__getitem__, tokens[prefix:])), log_prob, score)
                for score, log_prob, tokens in ranked
            ]
        except KeyError as error:
            raise DataError(
                f"CTranslate2's vocabulary has {error}, and {CARD} does not; export it again"
            ) from None
        if self.options.decode is not None and finished:
            texts = self.options.decode([hypothesis.ids for hypothesis in finished])
            first = dict(zip(reversed(texts), reversed(finished), strict=True))  # of each text
            finished = [first[text] for text in dict.fromkeys(texts)]
        return finished[: self.options.n_best]


def _finished(result: Any) -> Any:
    try:
        return result.result()
    except (RuntimeError, ValueError) as error:
        if is_of_memory(error):
            raise
        raise DataError(f"CTranslate2 cannot use the export: {error}; export it again") from None


def import_ctranslate2() -> Any:
    """Return the module; UsageError if it is not installed."""
    try:
        import ctranslate2
    except ImportError:
        raise UsageError("CTranslate2 is not installed; run `pip install ctranslate2`") from None
    return ctranslate2
