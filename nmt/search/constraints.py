"""Constraints: what a translation must or must not contain, as beam search and sampling call them.

A `Constraint` writes into the query of a step. Search calls those that `constraints_of` returns,
which are only those that are asked for. The length limit is no constraint, since it is always on.

For example, what they write for the hypotheses 0, `a b a`, and 1, `a c d`, of two sentences
(`top_k` says what becomes of it). The ids of a, b, c, eos and d are 0 to 4:

    the prefix a b a d of      forced     4 FREE                     d must follow hypothesis 0
      the first sentence
    --min-tokens 4             barred     (0, 3) (1, 3)              no eos after three tokens
    --no-repeat-ngram 2        barred     (0, 1)                     a b is there already
    --repetition-penalty 1.2   penalised  (0, 0) (0, 1) (0, 0)       each token so far; one that is
                                          (1, 0) (1, 2) (1, 4)       there twice counts once

A forced token wins over the others: it follows even if it is barred. So the prefix is as given.

Legend: G sentences of a group, B of them still active, W hypotheses of each, N = B * W, t tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from nmt.search.engine import Ids, Source
from nmt.search.options import SearchOptions
from nmt.search.phrase_banks import PhraseBanks
from nmt.search.top_k import FREE, Integers, Pairs, StepQuery

Constraint = Callable[[StepQuery, Integers, Integers], None]
"""Restricts the next tokens of N hypotheses in their query. It also gets the active sentences (B,)
as places in their group, and the tokens (B, W, t) of the hypotheses."""


def constraints_of(
    sources: Sequence[Source], options: SearchOptions, phrases: PhraseBanks | None
) -> list[Constraint]:
    """Return the constraints on the translations of a group, in the order that they are called."""
    constraints: list[Constraint] = []
    if any(source.prefix for source in sources):
        constraints.append(partial(_force_prefix, _padded([source.prefix for source in sources])))
    if phrases is not None:
        constraints.append(phrases.restrict)
    if options.min_tokens:
        constraints.append(partial(_bar_end, options.min_tokens))
    if options.no_repeat_ngram:
        constraints.append(partial(_bar_repetition, options.no_repeat_ngram))
    if options.repetition_penalty > 1:
        constraints.append(partial(_penalise_repetition, options.repetition_penalty))
    return constraints


def _padded(prefixes: Sequence[Ids]) -> Integers:
    """Return prefixes as rows (G, P), filled up with `FREE`."""
    rows = np.full((len(prefixes), max(map(len, prefixes))), FREE)
    for row, prefix in zip(rows, prefixes, strict=True):
        row[: len(prefix)] = prefix
    return rows


def _force_prefix(prefixes: Integers, query: StepQuery, sentences: Integers, ids: Integers) -> None:
    width, length = ids.shape[1:]
    if length < prefixes.shape[1]:
        forced = prefixes[sentences, length].repeat(width)  # (N,)
        query.forced = np.where(forced == FREE, query.forced, forced)


def _bar_end(min_tokens: int, query: StepQuery, _: Integers, ids: Integers) -> None:
    if ids.shape[2] < min_tokens:
        query.bar_end(np.arange(len(query.forced)))


def _bar_repetition(size: int, query: StepQuery, _: Integers, ids: Integers) -> None:
    query.barred.append(repeating_tokens(ids.reshape(len(query.forced), -1), size))


def _penalise_repetition(penalty: float, query: StepQuery, _: Integers, ids: Integers) -> None:
    query.repetition_penalty = penalty
    rows = np.arange(len(query.forced)).repeat(ids.shape[2])
    query.penalised.append(np.stack((rows, ids.reshape(-1)), axis=1))  # all tokens so far


def repeating_tokens(ids: Integers, size: int) -> Pairs:
    """Return the tokens that would make the last `size` tokens an n-gram that is already there.

    For example, after 7 8 9 7, the pair 7 8 would be there twice if 8 followed.

    ids: (N, t) the hypotheses so far.
    """
    if ids.shape[1] < size:
        return np.zeros((0, 2), np.int64)
    ngrams = sliding_window_view(ids, size, axis=1)  # (N, t - size + 1, size)
    begun = ids[:, None, ids.shape[1] - size + 1 :]  # (N, 1, size - 1)
    rows, places = np.nonzero((ngrams[:, :, :-1] == begun).all(axis=2))
    return np.stack((rows, ngrams[rows, places, -1]), axis=1)  # (K, 2)
