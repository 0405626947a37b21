"""What finds translations: token ids in, hypotheses out. Search by torch is one such engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from nmt.errors import UsageError
from nmt.models.device import memory_errors
from nmt.search.options import SearchOptions

Ids = tuple[int, ...]


@dataclass(frozen=True)
class Source:
    """What is to be translated."""

    ids: Ids  # without eos; at least one
    prefix: Ids = ()  # what its translation begins with
    is_in_word: bool = False  # whether it is from within a very long word


@dataclass(frozen=True)
class Hypothesis:
    """A finished translation as token ids."""

    ids: Ids  # without eos
    log_prob: float  # natural logarithm, eos counted
    score: float  # log_prob over the length penalty
    token_log_probs: tuple[float, ...] = ()  # eos's the last; none where the engine has none


Found = list[Hypothesis] | str
"""The best translations of a source, best first; or why there are none."""

_WIDTH = 4  # hypotheses of a source that a budget of source tokens is for

NO_NUMBER = "the model's output is not a number"
NO_MEMORY = "not enough memory for it alone"


class Engine(ABC):
    """Finds translations by the options that it was made with."""

    def __init__(self, options: SearchOptions, batch_tokens: int) -> None:
        """Take the options, and how many source tokens may be at work at a time.

        Padding counts; where there is no memory for so many, they are halved. They are for up to 4
        hypotheses of each source, as memory grows with their number: with 64 hypotheses, a
        sixteenth of the tokens are at work.

        Raises:
            UsageError: if they are less than 1.
        """
        if batch_tokens < 1:
            raise UsageError(f"batch tokens are {batch_tokens}; they must be 1 or more")
        self.options = options
        self.batch_tokens = batch_tokens

    def search(
        self,
        sources: Sequence[Source],
        *,
        on_progress: Callable[[int], object] | None = None,
        on_step: Callable[[], object] | None = None,
    ) -> list[Found]:
        """Translate sources; of equal ones, only the first is searched for.

        Args:
            sources: in any order.
            on_progress: called with the number of sources just done.
            on_step: called now and then; what it raises ends the search.

        Returns:
            What has been found for each source, in order.
        """
        results: dict[int, Found] = {}
        first: dict[Source, int] = {}
        for number, source in enumerate(sources):
            first.setdefault(source, number)
        copies = Counter(sources)
        # Longest first: what takes most memory is known at once, and the end is of short steps.
        order = sorted(first.values(), key=lambda number: (-room(sources[number]), number))
        budget = self.batch_tokens
        while waiting := [number for number in order if number not in results]:
            try:
                with memory_errors():
                    at_work = self._at_work(budget)
                    for number, hypotheses in self.find(sources, waiting, at_work, on_step):
                        results[number] = hypotheses or NO_NUMBER
                        if on_progress is not None:
                            on_progress(copies[sources[number]])
            except MemoryError:
                longest = next(number for number in order if number not in results)
                if 2 * room(sources[longest]) <= self._at_work(budget):
                    budget //= 2
                else:  # it was at work alone
                    results[longest], budget = NO_MEMORY, self.batch_tokens
                    if on_progress is not None:
                        on_progress(copies[sources[longest]])
        self.batch_tokens = budget  # what did not fit once will not the next time
        return [results[first[source]] for source in sources]

    def _at_work(self, budget: int) -> int:
        """Return how many source tokens of a budget have room with their hypotheses."""
        return budget * _WIDTH // max(_WIDTH, self.options.width)

    @abstractmethod
    def find(
        self,
        sources: Sequence[Source],
        order: Sequence[int],
        budget: int,
        on_step: Callable[[], object] | None,
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Search for translations of some sources.

        Args:
            sources: all of them.
            order: which to translate, longest first.
            budget: of source tokens at work at a time; a single source may have more.
            on_step: called now and then; what it raises ends the search.

        Yields:
            A source's number and its hypotheses, best first, none where they are no numbers.

        Raises:
            MemoryError: if there is not enough for the budget.
        """


def room(source: Source) -> int:
    """Return the source tokens that one takes of a budget."""
    return len(source.ids) + 1  # with eos
