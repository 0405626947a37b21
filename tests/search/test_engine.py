"""What every engine does with sources: order, progress, and too little memory."""

from collections.abc import Iterator, Sequence

import pytest

from nmt.search.engine import NOTHING_FOUND, Engine, Hypothesis, OnStep, Source, source_cost
from nmt.search.options import SearchOptions

SOURCES = [Source((7,) * length) for length in (3, 9, 1, 5, 7, 2)]


class Remembering(Engine):
    """Finds the source's length, and has memory for so many tokens; -1 is what is no number."""

    def __init__(self, batch_tokens: int, memory: int) -> None:
        super().__init__(SearchOptions(), batch_tokens)
        self.memory = memory
        self.calls: list[tuple[list[int], int]] = []

    def find(
        self, sources: Sequence[Source], order: Sequence[int], budget: int, on_step: OnStep
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        self.calls.append((list(order), budget))
        at_work = 0
        for number in order:
            at_work = max(at_work, budget, source_cost(sources[number]))
            if at_work > self.memory and source_cost(sources[number]) > 4:
                raise MemoryError
            if on_step is not None:
                on_step()
            length = len(sources[number].ids)
            yield number, [] if length == 1 else [Hypothesis((length,), -1.0, -1.0)]


def lengths(found: Sequence[list[Hypothesis] | str]) -> list[int | str]:
    return [one if isinstance(one, str) else one[0].ids[0] for one in found]


def test_results_are_in_order_and_the_longest_are_looked_for_first() -> None:
    engine, done = Remembering(100, 1_000), list[int]()
    found = engine.search(SOURCES, on_progress=done.append)
    assert lengths(found) == [3, 9, NOTHING_FOUND, 5, 7, 2]
    assert engine.calls == [([1, 4, 3, 0, 5, 2], 100)]
    assert sum(done) == len(SOURCES)


def test_equal_sources_are_looked_for_once() -> None:
    engine, done = Remembering(100, 1_000), list[int]()
    found = engine.search([SOURCES[at] for at in (0, 1, 0, 3, 1)], on_progress=done.append)
    assert lengths(found) == [3, 9, 3, 5, 9]
    assert engine.calls == [([1, 3, 0], 100)]
    assert sum(done) == 5


def test_without_memory_the_budget_is_halved_and_stays_so() -> None:
    engine = Remembering(100, 30)
    assert lengths(engine.search(SOURCES))[1] == 9
    assert [budget for _, budget in engine.calls] == [100, 50, 25]
    assert engine.batch_tokens == 25
    engine.search(SOURCES)
    assert engine.calls[-1][1] == 25


def test_what_has_been_found_is_not_looked_for_again() -> None:
    engine = Remembering(16, 1_000)
    steps = 0

    def fail_at_the_third() -> None:
        nonlocal steps
        steps += 1
        if steps == 3:
            raise MemoryError

    assert lengths(engine.search(SOURCES, on_step=fail_at_the_third))[1] == 9
    assert engine.calls == [([1, 4, 3, 0, 5, 2], 16), ([3, 0, 5, 2], 8)]


def test_a_source_that_has_no_memory_by_itself_fails_alone() -> None:
    engine, done = Remembering(16, 9), list[int]()
    found = engine.search(SOURCES, on_progress=done.append)
    assert "memory" in str(lengths(found)[1])
    assert lengths(found)[3:] == [5, 7, 2]
    assert sum(done) == len(SOURCES)
    assert engine.batch_tokens == 8  # which was too much for the one that failed, and is not now


def test_what_a_step_raises_ends_the_search() -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Remembering(100, 1_000).search(SOURCES, on_step=stop)
