"""Search over tables: models of seven tokens that can be written down."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import cast

import numpy as np
import pytest
from reference import Ids, NextLogits, TableModel, TableState

from nmt.models.base import TranslationModel
from nmt.search.beam_search import Group, decode
from nmt.search.engine import Hypothesis, Source
from nmt.search.options import SearchOptions

PAD, UNK, BOS, EOS = range(4)
A, B, C = 4, 5, 6
VOCAB = 7
SPECIAL = (PAD, UNK, BOS)
TABLES = cast(TranslationModel, TableModel())


def decoded(
    tables: Sequence[NextLogits], sources: Sequence[Source], options: SearchOptions
) -> list[list[Hypothesis]]:
    """Search for translations of sources, each by its own table."""
    group = Group(range(len(tables)), sources, TableState(tables), cost_per_sentence=1)
    return in_order(decode(TABLES, iter([group]), options))


def search(
    tables: Sequence[NextLogits], limits: Sequence[int], options: SearchOptions
) -> list[list[Hypothesis]]:
    return decoded(tables, sources(limits), replace(options, max_extra_tokens=0))


def sources(limits: Sequence[int]) -> list[Source]:
    """Sources as long as their translations may be; tables do not look at them."""
    return [Source((A,) * limit) for limit in limits]


def in_order(found: Iterable[tuple[int, list[Hypothesis]]]) -> list[list[Hypothesis]]:
    """Sort what search has found by the sentences' numbers."""
    by_number = dict(found)
    return [by_number[number] for number in sorted(by_number)]


def ids_of(hypotheses: Sequence[Hypothesis]) -> list[Ids]:
    return [hypothesis.ids for hypothesis in hypotheses]


def random_table(seed: int) -> NextLogits:
    """Logits over `VOCAB` tokens that look at the whole prefix."""

    @cache
    def next_logits(prefix: Ids) -> Sequence[float]:
        logits: list[float] = np.random.default_rng((seed, *prefix)).normal(0, 2, VOCAB).tolist()
        return logits

    return next_logits


def written(rows: dict[Ids, dict[int, float]]) -> NextLogits:
    """A table from prefix to the probabilities of what may follow."""

    def next_logits(prefix: Ids) -> Sequence[float]:
        # Search also extends what has no probability, where nothing else is left: it never counts.
        probs = rows.get(prefix, {EOS: 1.0})
        assert math.fsum(probs.values()) == pytest.approx(1.0)
        return [math.log(probs[t]) if t in probs else -math.inf for t in range(VOCAB)]

    return next_logits
