"""The interface of search engines: token ids in, hypotheses out.

`Engine` sorts, deduplicates and batches by memory; a subclass searches, with torch or CTranslate2.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Self

from nmt.errors import UsageError
from nmt.models.device import memory_errors
from nmt.search.options import SearchOptions
from nmt.search.phrases import Phrase

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from nmt.models.base import AttentionWeights

Ids = tuple[int, ...]

Pair = tuple[Ids, Ids]  # source and target without eos


@dataclass(frozen=True)
class Source:
    """A token sequence that is translated by itself, and what its translation must be like."""

    ids: Ids  # without eos; at least one
    prefix: Ids = ()  # the translation must begin with it
    is_in_word: bool = False  # whether it is cut out of a very long word
    phrases: tuple[Phrase, ...] = ()  # the translation must contain them


class Hypothesis(NamedTuple):
    ids: Ids  # without eos
    log_prob: float  # natural logarithm, with eos
    score: float  # log_prob divided by the length penalty
    token_log_probs: tuple[float, ...] = ()  # eos last; empty if the engine has none
    before: Ids = ()  # tokens of the lines before it in its window, which it does not include


SearchResult = list[Hypothesis] | str
"""The translations of a source, best first, or the reason why there are none."""

Searched = tuple[int, list[Hypothesis]]
"""The number of a source, and its translations, best first."""

OnProgress = Callable[[int], object] | None
"""Called with the number of sources, or of pairs, just done."""

OnStep = Callable[[], object] | None
"""Called now and then. If it raises, the search ends."""

_USUAL_WIDTH = 4  # hypotheses per source that `batch_tokens` assumes

NOT_A_NUMBER = "the model's output is not a number"
NOTHING_FOUND = f"{NOT_A_NUMBER}, or the options leave no token to choose"
OUT_OF_MEMORY = "not enough memory for this line by itself"


class Engine(ABC):
    """Finds translations with fixed search options."""

    kernel: str | None = None  # for matrix products on a CPU, if there is a choice
    threads: int = 1  # of torch, while it is at work
    looks_first: bool = True
    """Whether a first look finds most translations; see `nmt.search.retry`."""

    def __init__(self, options: SearchOptions, batch_tokens: int) -> None:
        """Set the options and the batch size.

        Memory grows with the number of hypotheses, so with more than 4 per source fewer tokens are
        searched at once: with 64 hypotheses, a sixteenth.

        batch_tokens: source tokens searched at a time, with padding. Halved when memory runs out.
        UsageError if `batch_tokens` is not a whole number from 1.
        """
        if type(batch_tokens) is not int or batch_tokens < 1:
            raise UsageError(f"batch tokens are {batch_tokens!r}; they must be 1 or more")
        self.options = options
        self.batch_tokens = batch_tokens

    def with_options(self, options: SearchOptions) -> Self:
        """Return an engine of the same model with other options for search."""
        other = copy(self)
        other.options = options
        return other

    def search(
        self, sources: Sequence[Source], *, on_progress: OnProgress = None, on_step: OnStep = None
    ) -> list[SearchResult]:
        """Return the result of each source. Equal sources are searched once.

        on_progress, on_step: see there.
        """
        tell = on_progress or (lambda _: None)
        results: dict[int, SearchResult] = {}
        firsts: dict[Source, int] = {}
        first_of = [firsts.setdefault(source, index) for index, source in enumerate(sources)]
        copies = Counter(first_of)
        # Longest first: memory runs out early or never, and the last batches are quick.
        order = sorted(copies, key=lambda number: (-source_cost(sources[number]), number))
        budget = self.batch_tokens
        while waiting := [number for number in order if number not in results]:
            try:
                with memory_errors():
                    tokens_at_once = self._tokens_at_once(budget)
                    for number, hypotheses in self.find(sources, waiting, tokens_at_once, on_step):
                        results[number] = hypotheses or NOTHING_FOUND
                        tell(copies[number])
            except MemoryError:
                longest = next(number for number in order if number not in results)
                if 2 * source_cost(sources[longest]) <= self._tokens_at_once(budget):
                    budget //= 2
                else:  # it was the only one
                    results[longest], budget = OUT_OF_MEMORY, self.batch_tokens
                    tell(copies[longest])
        self.batch_tokens = budget  # it would not fit the next time either
        return [results[number] for number in first_of]

    def at_work(self) -> AbstractContextManager[object]:
        """Be ready to work for as long as the context lasts; UsageError if a fork never can."""
        return nullcontext()

    def longest(self, source: Source) -> int:
        """Return the length limit that search has for a source's translation, without eos."""
        return self.options.longest(len(source.ids), source.is_in_word)

    def _tokens_at_once(self, budget: int) -> int:
        """Return how many source tokens to search at once, given the hypotheses of each."""
        return budget * _USUAL_WIDTH // max(_USUAL_WIDTH, self.options.width)

    @abstractmethod
    def find(
        self, sources: Sequence[Source], order: Sequence[int], budget: int, on_step: OnStep
    ) -> Iterator[Searched]:
        """Search for translations of some sources.

        sources: all of them.
        order: the numbers of those to translate, longest first.
        budget: source tokens to search at a time. A single source may exceed it.
        on_step: see there.
        Yields a source's number and its hypotheses, best first. None if the model's output is NaN.
        MemoryError if the budget does not fit into memory.
        """

    def attention(self, pairs: Sequence[Pair]) -> list[NDArray[np.float32] | None]:
        """Return the attention (T, S) of target tokens to source tokens, without eos.

        Models attend to the source's eos when they need no particular word, so rows do not sum to
        1. None if a pair does not fit into memory, and always from CTranslate2.
        """
        return [None] * len(pairs)

    def attention_weights(self, source: Ids, target: Ids) -> AttentionWeights:
        """Return all attention weights of a pair of source and target ids without eos."""
        raise NotImplementedError


def source_cost(source: Source) -> int:
    """Return how many tokens of a budget a source uses."""
    return len(source.ids) + 1  # with eos
