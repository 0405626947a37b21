"""Beam search: the loop that extends hypotheses step by step, in a batch that stays full.

`decode` is the loop: step the model, find the best next tokens, extend the hypotheses, reorder the
model's state. Sentences that are done leave the batch, and new ones join when half of the budget
is free. The sentences of a batch may be at different positions. `Beams` extends the hypotheses of
beam search, `ConstrainedBeams` those of sentences with phrases that they must contain, and
`Samples` extends samples. Greedy search is beam size 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from nmt.models.base import Decoder
from nmt.search.beams import Beams
from nmt.search.constrained_beams import ConstrainedBeams
from nmt.search.engine import Hypothesis
from nmt.search.hypotheses import ActiveHypotheses, Group
from nmt.search.options import SearchOptions
from nmt.search.sampling import Samples, draw_tokens
from nmt.search.shortlist import PickTokens
from nmt.search.top_k import NextTokens, StepQuery, top_tokens

# On a CPU, this many logits are computed at a time: 8 MB of fp32, which fits most caches.
_LOGITS_PER_BLOCK = 1 << 21
_MIN_BLOCK_ROWS = 64  # a product of fewer rows takes nearly as long


def decode(
    model: Decoder,
    groups: Iterator[Group],
    options: SearchOptions,
    *,
    budget: float = math.inf,
    on_step: Callable[[], object] | None = None,
) -> Iterator[tuple[int, list[Hypothesis]]]:
    """Find translations of sentences.

    Args:
        model: the one that made the groups' states.
        groups: the next one is taken when half of the budget is free.
        budget: the largest sum of the active sentences' costs. A single group may exceed it.
        on_step: called before each step of the decoder. If it raises, the search ends.

    Yields:
        A sentence's number and its `n_best` hypotheses, best first, as soon as the sentence is
        done. Fewer if fewer exist, and none if the model's output is not a number.
    """
    if options.sampling is None:
        # All of the 2W best may extend one hypothesis. Greedy search needs only the first.
        count = 2 * options.beam_size if options.beam_size > 1 else 1
        pick: PickTokens = partial(top_tokens, count=count)
    else:
        pick = partial(draw_tokens, sampling=options.sampling)
    active: list[ActiveHypotheses] = []
    while True:
        while sum(group.cost for group in active) <= budget / 2:
            joining = next(groups, None)
            if joining is None:
                break
            active.append(_begun(joining, options))
            del joining  # it holds the state's memory
        if not active:
            return
        if on_step is not None:
            on_step()
        last_tokens = torch.from_numpy(np.concatenate([group.last_tokens for group in active]))
        features = model.step([group.state for group in active], last_tokens)  # (N, F)
        found = _next_tokens(model, features, active, pick, options.barred_ids)
        for group, next_tokens in zip(active, found, strict=True):
            yield from group.extend(next_tokens)  # finishes hypotheses, reorders the state
        active = [group for group in active if len(group.numbers)]


def _begun(group: Group, options: SearchOptions) -> ActiveHypotheses:
    """Return the first hypotheses of a group's sentences."""
    if options.sampling is not None:
        return Samples(group, options)
    if any(source.phrases for source in group.sources):
        return ConstrainedBeams(group, options)
    return Beams(group, options)


def _next_tokens(
    model: Decoder,
    features: Tensor,
    active: list[ActiveHypotheses],
    pick: PickTokens,
    barred_ids: Sequence[int],
) -> list[NextTokens]:
    """Pick the next tokens of each group's hypotheses, given their features (N, F)."""
    queries = [group.query() for group in active]
    rows = [len(group.last_tokens) for group in active]
    lists = [group.shortlist for group in active if group.shortlist is not None]
    if not lists:
        logits = logits_in_blocks(model, features)
        picked = pick(logits, StepQuery.joined(queries), barred_ids=barred_ids)
        return NextTokens.read([picked])[0].split(rows)
    parts = zip(lists, torch.split(features, rows), queries, strict=True)
    found = NextTokens.read([own.pick(pick, part, query) for own, part, query in parts])
    return [own.with_ids(next_tokens) for own, next_tokens in zip(lists, found, strict=True)]


def logits_in_blocks(model: Decoder, features: Tensor) -> Iterator[Tensor]:
    """Yield the logits (n, V) of rows of features in order: on a CPU, a cacheful at a time."""
    on_cpu = features.device.type == "cpu"
    per_block = max(_MIN_BLOCK_ROWS, _LOGITS_PER_BLOCK // model.vocab_size)
    blocks = torch.split(features, per_block if on_cpu else len(features))
    return (model.project(block) for block in blocks)
