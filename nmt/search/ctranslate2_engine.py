"""The engine of CTranslate2, for models that `nmt export ctranslate2` has written.

It searches as ours does, but for three things: the probability of what is never taken is lent to
other tokens, a hypothesis that comes to its longest length is cut off there and not closed (its
score is that of its tokens, without eos), and a search goes on until a beam's width of hypotheses
are finished. What its options cannot say is refused. It has no log-probabilities of tokens.
"""

from __future__ import annotations

import contextlib
import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, islice
from pathlib import Path
from typing import Any

from nmt.data.vocabulary import Vocabulary
from nmt.errors import DataError, UsageError
from nmt.models.ctranslate2_export import CARD, Export
from nmt.models.model_file import ModelReader
from nmt.search.engine import Engine, Hypothesis, Source, room
from nmt.search.options import SearchOptions
from nmt.search.translator import Translator

_BATCH_TOKENS = 2_048


class CTranslate2Engine(Engine):
    """A model of CTranslate2."""

    def __init__(
        self,
        model: Any,
        options: SearchOptions,
        vocabularies: tuple[Vocabulary, Vocabulary],
        *,
        workers: int,
        batch_tokens: int | None = None,
    ) -> None:
        """Put a model to use.

        Args:
            model: a ctranslate2.Translator.
            options: of the search.
            vocabularies: of source and target.
            workers: batches that it translates side by side.
            batch_tokens: see `Engine`; of each worker.

        Raises:
            UsageError: if it has no such options.
        """
        _check(options, vocabularies[1])
        super().__init__(options, _BATCH_TOKENS if batch_tokens is None else batch_tokens)
        src, tgt = (vocabulary.tokens(range(len(vocabulary))) for vocabulary in vocabularies)
        self._src_tokens, self._tgt_ids = src, {token: i for i, token in enumerate(tgt)}
        self._model = model
        self._workers = workers

    def find(
        self,
        sources: Sequence[Source],
        order: Sequence[int],
        budget: int,
        on_step: Callable[[], object] | None,
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """See `Engine`; `on_step` is called before each batch is waited for.

        Few batches are under way at a time: those cannot be called back.
        """
        if any(source.prefix for source in sources):
            raise UsageError(
                "ctranslate2 has no scores of translations that begin with a prefix; use the "
                "engine torch"
            )
        batches = self._batches(sources, order, budget)
        # Where one source fills the budget it is to have all memory.
        is_tight = 2 * room(sources[order[0]]) > budget
        most = 1 if is_tight else 2 * self._workers
        under_way: deque[tuple[list[int], list[Any]]] = deque()
        try:
            while True:
                for numbers in islice(batches, most - len(under_way)):
                    under_way.append((numbers, self._submit([sources[n] for n in numbers])))
                if not under_way:
                    return
                if on_step is not None:
                    on_step()
                numbers, results = under_way.popleft()
                for number, result in zip(numbers, results, strict=True):
                    yield number, self._hypotheses(sources[number], result.result())
        finally:
            for _, results in under_way:
                for result in results:
                    with contextlib.suppress(RuntimeError):  # the first one has been told of
                        result.result()

    def _batches(
        self, sources: Sequence[Source], order: Sequence[int], budget: int
    ) -> Iterator[list[int]]:
        """Yield sources of one length by themselves, for a batch has one limit for all."""
        for _, alike in groupby(order, key=lambda number: len(sources[number].ids)):
            numbers = list(alike)
            size = max(1, budget // room(sources[numbers[0]]))
            for start in range(0, len(numbers), size):
                yield numbers[start : start + size]

    def _submit(self, sources: Sequence[Source]) -> list[Any]:
        """Begin to translate sources of one length."""
        results: list[Any] = self._model.translate_batch(
            [[self._src_tokens[i] for i in source.ids] for source in sources],
            beam_size=self.options.beam_size,
            num_hypotheses=self.options.n_best,
            # Of one hypothesis it would change nothing but the score.
            length_penalty=self.options.length_penalty if self.options.beam_size > 1 else 0.0,
            min_decoding_length=self.options.min_tokens,
            max_decoding_length=self.options.longest(len(sources[0].ids)),
            max_input_length=0,
            return_scores=True,
            asynchronous=True,
        )
        return results

    def _hypotheses(self, source: Source, result: Any) -> list[Hypothesis]:
        found = []
        for tokens, score in zip(result.hypotheses, result.scores, strict=True):
            if math.isnan(score):
                continue
            ids = tuple(self._tgt_ids[token] for token in tokens)
            # What has been cut off has no eos.
            length = len(ids) + (len(ids) < self.options.longest(len(source.ids)))
            penalty = self.options.penalty(length)
            log_prob = score * (penalty if self.options.beam_size > 1 else 1.0)
            found.append(Hypothesis(ids, log_prob, log_prob / penalty))
        return found


def load(
    folder: Path,
    options: SearchOptions,
    *,
    device: str,
    workers: int,
    threads: int,
    batch_tokens: int | None = None,
    split: bool = False,
) -> Translator:
    """Load an export.

    Args:
        folder: what `nmt export ctranslate2` has written.
        options: of the search.
        device: cpu or cuda.
        workers: translations side by side; on GPUs, each has one.
        threads: of each, on CPUs.
        batch_tokens: see `Engine`; of each worker.
        split: whether lines are paragraphs, whose sentences are translated one by one.

    Raises:
        UsageError: if CTranslate2 is not installed, or has no such options or no such type here.
        DataError: if the export is damaged.
    """
    try:
        import ctranslate2
    except ImportError:
        raise UsageError("CTranslate2 is not installed: pip install 'nmt[ctranslate2]'") from None
    export, card = Export.open(folder), ModelReader(folder / CARD).card
    longest = options.longest(card.max_src_tokens)
    if longest >= export.positions:
        raise UsageError(
            f"{folder}: has places for {export.positions} tokens, and a translation might have "
            f"{longest}; lower --max-extra-tokens, --max-tokens or --min-tokens"
        )
    try:
        model = ctranslate2.Translator(
            str(folder),
            device=device,
            device_index=list(range(workers)) if device == "cuda" else 0,
            compute_type=export.quantization,
            inter_threads=1 if device == "cuda" else workers,
            intra_threads=threads,
            max_queued_batches=-1,  # no more are submitted than are to wait
        )
    except ValueError as error:
        raise UsageError(f"{folder}: {error}; export it with another --quantization") from None
    except RuntimeError as error:
        raise DataError(f"{folder}: CTranslate2 cannot load it: {error}") from None
    vocabularies = card.src_vocabulary, card.tgt_vocabulary
    engine = CTranslate2Engine(
        model, options, vocabularies, workers=workers, batch_tokens=batch_tokens
    )
    return Translator(
        engine,
        *vocabularies,
        languages=(card.src_lang, card.tgt_lang),
        max_src_tokens=card.max_src_tokens,
        split=split,
    )


def _check(options: SearchOptions, vocabulary: Vocabulary) -> None:
    """Refuse what CTranslate2 cannot express."""
    if options.sampling is not None:
        raise UsageError("--engine ctranslate2 draws no samples that can be repeated by line")
    if options.length_penalty_form != "power" and options.length_penalty and options.beam_size > 1:
        raise UsageError(
            "--engine ctranslate2 knows one length penalty alone: add --length-penalty-form power"
        )
    if options.max_tokens == 0:
        raise UsageError("--engine ctranslate2: --max-tokens must be 1 or more")
    if not set(options.barred_ids) <= set(vocabulary.barred_ids):
        raise UsageError("ctranslate2 bars no tokens but those that an export bars")
