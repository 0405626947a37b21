"""The loop of search: hypotheses go through the model step by step, in a batch that stays full.

Sentences that are done leave the batch, and when half of the room is free the next ones join: they
are at other positions than those before them, but go through the model's products together. What
becomes of hypotheses between two steps is a matter of beams (`nmt.search.beam`) or of samples
(`nmt.search.sample`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch
from torch import Tensor

from nmt.models.contract import Decoder
from nmt.search.alive import Alive, Group
from nmt.search.beam import Beams
from nmt.search.engine import Hypothesis
from nmt.search.likeliest import Likeliest, Question, likeliest
from nmt.search.options import SearchOptions
from nmt.search.sample import Samples, drawn

# On a CPU so many logits are worked on at a time: 8 MB of fp32, which the cache of most can hold.
_CACHED = 1 << 21
_FEWEST_ROWS = 64  # of which a product is about as fast as of many


def decode(
    model: Decoder,
    groups: Iterator[Group],
    options: SearchOptions,
    *,
    room: float = math.inf,
    on_step: Callable[[], object] | None = None,
) -> Iterator[tuple[int, list[Hypothesis]]]:
    """Find translations of sentences.

    Args:
        model: made the states.
        groups: the next one is asked for when half of the room is free.
        options: what to look for.
        room: of all sentences at work; a single group may take more.
        on_step: called before each step of the decoder; what it raises ends the search.

    Yields:
        A sentence's number and its `n_best` hypotheses (fewer where fewer exist), best first, in
        the order in which sentences are done. There are none where the model's output is not a
        number.
    """
    kind: type[Alive]
    if options.sampling is None:
        # Each hypothesis may supply all of the 2W best, but greedy search takes the first alone.
        count = 2 * options.beam_size if options.beam_size > 1 else 1
        kind, choose = Beams, partial(likeliest, count=count)
    else:
        kind, choose = Samples, partial(drawn, sampling=options.sampling)
    alive: list[Alive] = []
    while True:
        while sum(part.room for part in alive) <= room / 2:
            group = next(groups, None)
            if group is None:
                break
            alive.append(kind(group, options))
            del group  # with the state, which the sentences outlive
        if not alive:
            return
        if on_step is not None:
            on_step()
        tokens = torch.from_numpy(np.concatenate([part.last_tokens for part in alive]))  # (N,)
        features = model.step([part.state for part in alive], tokens)  # (N, F)
        questions = [part.question() for part in alive]
        if alive[0].chosen is None:
            logits = logits_in_blocks(model, features)
            found = choose(logits, Question.joined(questions), barred_ids=options.barred_ids)
        else:
            rows_of_parts = torch.split(features, [len(part.last_tokens) for part in alive])
            found = Likeliest.of_all(
                [
                    part.chosen.among(choose, rows, question)
                    for part, rows, question in zip(alive, rows_of_parts, questions, strict=True)
                    if part.chosen is not None
                ]
            )
        first = 0
        for part in alive:
            rows = len(part.last_tokens)
            yield from part.extend(found, slice(first, first + rows))
            first += rows
        alive = [part for part in alive if len(part.numbers)]


def logits_in_blocks(model: Decoder, features: Tensor) -> Iterator[Tensor]:
    """Yield the logits (n, V) of rows of features, in their order, some at a time on CPUs."""
    on_cpu = features.device.type == "cpu"
    rows = max(_FEWEST_ROWS, _CACHED // model.vocab_size) if on_cpu else len(features)
    return (model.project(part) for part in torch.split(features, rows))
