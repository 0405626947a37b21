"""Translation by a function, with separators as right or as wrong as a test wants them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from nmt.data.vocabulary import Vocabulary, join_lines, learn_vocabulary, split_lines
from nmt.models.model_file import ModelCard, write_model
from nmt.search.engine import Engine, Hypothesis, Ids, OnStep, Source
from nmt.search.options import SearchOptions
from nmt.search.torch_engine import TorchEngine

Copy = Callable[[Source], Sequence[int]]


def documents_vocabulary() -> Vocabulary:
    """Letters, bytes, some words, and a separator."""
    words = "the cat sees a dog and then a bird finds the old house by the river"
    lines = [words[start:] for start in range(0, len(words), 5)]
    return learn_vocabulary(lines, vocab_size=320, controls=("<sep>",))


def telling(separator: int) -> Copy:
    """Return a function that copies a source, and adds the first token of each line before.

    So the translation of a line tells its context.
    """

    def copy(source: Source) -> Sequence[int]:
        *before, own = split_lines(source.ids, separator)
        return join_lines([*before, [*own, *(line[0] for line in before)]], separator)

    return copy


def one_sentence(vocabulary: Vocabulary, source: Source) -> Sequence[int]:
    """Copy a source up to its first full stop, as a model does that has learnt sentences only."""
    tokens = vocabulary.tokens(source.ids)
    stop = next((at for at, token in enumerate(tokens) if token.endswith(".")), len(tokens))
    return source.ids[: stop + 1]


def search(
    copy: Copy, options: SearchOptions, sources: Sequence[Source], order: Sequence[int]
) -> Iterator[tuple[int, list[Hypothesis]]]:
    """Yield what `copy` makes of the sources. Like a search, it never takes what is barred."""
    for number in order:
        ids = tuple(one for one in copy(sources[number]) if one not in options.barred_ids)
        log_probs = tuple(-1.0 - at for at in range(len(ids) + 1))
        yield number, [Hypothesis(ids, sum(log_probs), sum(log_probs), log_probs)]


class Stub(Engine):
    """Translates by a function, and notes what it is asked."""

    def __init__(self, vocabulary: Vocabulary, copy: Copy, **options: Any) -> None:
        super().__init__(SearchOptions(**options).into(vocabulary), batch_tokens=4_096)
        self.copy = copy
        self.asked: list[Ids] = []

    def find(
        self, sources: Sequence[Source], order: Sequence[int], _budget: int, _on_step: OnStep
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        self.asked += [sources[number].ids for number in order]
        return search(self.copy, self.options, sources, order)


def use_instead_of_a_model(monkeypatch: pytest.MonkeyPatch, copy: Copy) -> None:
    """Let every model translate by this function, also in processes that are forked."""

    def find(
        self: TorchEngine, sources: Sequence[Source], order: Sequence[int], *_: object
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        return search(copy, self.options, sources, order)

    monkeypatch.setattr(TorchEngine, "find", find)


def model_of_documents(path: Path, card: ModelCard) -> Path:
    """Write a random model of windows of 4 lines."""
    vocabulary = documents_vocabulary()
    of_windows = replace(
        card, src_vocabulary=vocabulary, tgt_vocabulary=vocabulary, max_src_tokens=100, window=4
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        weights: dict[str, torch.Tensor] = dict(of_windows.build().named_parameters())
    write_model(path, of_windows, weights)
    return path
