"""Steps of search as CUDA graphs: one launch in place of hundreds.

A graph takes the last tokens to the best next ones. If constraints or samples have a word in them,
it takes them to features only. There is one for each size of `StaticMemory`. A size is first run as
it is, since libraries set themselves up then, and is captured when it comes again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from nmt.data.batches import Packed
from nmt.data.vocabulary import EOS_ID
from nmt.models.base import DecoderState, StaticMemory, TranslationModel
from nmt.models.device import to_device
from nmt.search.top_k import (
    BlockQuery,
    NextTokens,
    Pick,
    StepQuery,
    pick_fields,
    pick_tokens,
    to_bits,
)

_MOST_GRAPHS = 64


class _Captured(NamedTuple):
    graph: torch.cuda.CUDAGraph
    result: Tensor


class StaticSteps:
    """A `Decoder` whose steps are graphs, for one width and one set of barred ids.

    model, memory: on a GPU; the memory is the model's own.
    """

    def __init__(
        self, model: TranslationModel, memory: StaticMemory, barred_ids: tuple[int, ...]
    ) -> None:
        self.model = model
        self._memory = memory
        self._barred_ids = barred_ids

    @property
    def vocab_size(self) -> int:
        """See `Decoder`."""
        return self.model.vocab_size

    def begin(self, src: Packed) -> DecoderState:
        """See `Decoder`."""
        return self._memory.begin(src)

    def project(self, features: Tensor) -> Tensor:
        """See `Decoder`."""
        return self.model.project(features)

    def step(self, states: Sequence[DecoderState], tokens: Tensor) -> Tensor:
        """See `Decoder`."""
        rows = self._memory.prepare(states, tokens.numpy(), np.full(len(tokens), EOS_ID))
        features = self._run("features", lambda: self._memory.step()[0])
        self._memory.advance(states)
        (in_order,) = to_device([rows], features.device)
        return features.index_select(0, in_order)

    def next_tokens(
        self, states: Sequence[DecoderState], tokens: Tensor, query: StepQuery, pick: Pick
    ) -> NextTokens:
        """Extend the hypotheses of some states, and pick their next tokens.

        See `Decoder.step` and `pick_tokens`. `pick` is the same in all searches of a width, as long
        as their queries are plain.
        """
        if not query.is_plain:
            logits = self.project(self.step(states, tokens))
            return pick_tokens([logits], query, pick=pick, barred_ids=self._barred_ids)
        rows = self._memory.prepare(states, tokens.numpy(), query.scored[:, 0])
        bits = self._run("tokens", partial(self._pick, pick)).cpu().numpy()[rows]
        self._memory.advance(states)
        return NextTokens.from_bits(bits, (bits.shape[1] - 1) // 2)

    def _pick(self, pick: Pick) -> Tensor:
        features, scored = self._memory.step()
        nothing = scored[:0]
        query = BlockQuery(self._barred_ids, 1.0, scored[:, None], nothing, nothing, nothing)
        return to_bits(*pick_fields(self.project(features), query, pick))

    def _run(self, kind: str, function: Callable[[], Tensor]) -> Tensor:
        """Run a function of the memory, as a graph if it ran before in this size."""
        graphs = self._memory.graphs  # None: ran once
        key = kind, self._memory.shape
        if key not in graphs:
            if len(graphs) == _MOST_GRAPHS:
                del graphs[next(iter(graphs))]  # the oldest
            graphs[key] = None
            return function()
        captured: _Captured | None = graphs[key]
        if captured is None:
            if not any(graphs.values()):
                self._pool = torch.cuda.graph_pool_handle()  # it ends with the last of its graphs
            graph = torch.cuda.CUDAGraph()
            # Other threads may go on to use the GPU.
            how: Any = {"pool": self._pool, "capture_error_mode": "thread_local"}
            with torch.cuda.device(self._memory.device), torch.cuda.graph(graph, **how):
                result = function()
            graphs[key] = captured = _Captured(graph, result)
        captured.graph.replay()
        return captured.result
