"""The torch engine: runs models in batches of similar length.

It searches, and it decodes given targets (forced decoding) for their log-probabilities and
alignments. A model trained with `guided_alignment` has a head for alignments. For others, averaged
over heads, the decoder's penultimate layer agrees best with human alignments; expect errors. A
target token's source is read off the state that predicts it (Garg et al. 2019, "Jointly Learning to
Align and Translate with Transformer Models", the layer average baseline).
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray

from nmt.config.model_config import AttentionHead
from nmt.data.batches import Batch, collate, pack_sources, parts_by_length
from nmt.data.shards import TokenRows
from nmt.data.vocabulary import BOS_ID
from nmt.errors import UsageError
from nmt.models.base import AttentionWeights, Decoder, TranslationModel
from nmt.models.device import memory_errors, return_freed_memory, torch_threads
from nmt.models.ensemble import Ensemble
from nmt.search.beam_search import Group, decode, logits_in_blocks
from nmt.search.engine import Engine, Ids, OnProgress, OnStep, Pair, Searched, Source, source_cost
from nmt.search.options import SearchOptions
from nmt.search.phrase_banks import beam_size

T = TypeVar("T")


_CPU_BATCH_TOKENS, _GPU_BATCH_TOKENS = 1_024, 16_384
"""On a CPU, more take up to a tenth less time, but each worker holds their states."""
FORCED_TOKENS = 4_096  # of either side of a batch, in forced decoding
_ALIGNING_LAYER = 1  # from the top: the penultimate

_TRIM_EVERY = 4
"""Steps of search after which a CPU returns freed memory, which takes about 2 ms. Between the
tensors of the sentences in search lies as much freed memory again."""


class TorchEngine(Engine):
    def __init__(
        self,
        model: Decoder,
        options: SearchOptions,
        *,
        device: torch.device,
        batch_tokens: int | None = None,
        alignment_head: AttentionHead | None = None,
        kernel: str | None = None,
        threads: int = 1,
    ) -> None:
        """Take a model on `device`, in evaluation mode.

        All but search needs a `TranslationModel` or an `Ensemble`. The head is one that was trained
        to show alignments. The kernel is that of the model's weights on a CPU. `threads` are those
        of torch while the engine is `at_work`.
        UsageError if `threads` is not a whole number from 1.
        """
        if type(threads) is not int or threads < 1:
            raise UsageError(f"threads are {threads!r}; they must be 1 or more")
        default = _GPU_BATCH_TOKENS if device.type == "cuda" else _CPU_BATCH_TOKENS
        super().__init__(options, default if batch_tokens is None else batch_tokens)
        self.model = model
        self.device = device
        self.alignment_head = alignment_head
        self.kernel = kernel
        self.threads = threads
        # The process that has its threads, or its GPU, which a fork does not have; None: any.
        self._process = os.getpid() if device.type == "cuda" or threads > 1 else None

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        if self._process not in (None, os.getpid()):
            raise UsageError(
                "the model was loaded before this process was forked, and a fork has neither its "
                "GPU nor its threads; load it after the fork"
            )
        with torch_threads(self.threads):
            yield

    @torch.inference_mode()
    def find(
        self, sources: Sequence[Source], order: Sequence[int], budget: int, on_step: OnStep
    ) -> Iterator[Searched]:
        """See `Engine`. `on_step` is called before each step of the decoder."""
        steps = itertools.count(1)

        def before_step() -> None:
            if on_step is not None:
                on_step()
            if self.device.type == "cpu" and next(steps) % _TRIM_EVERY == 0:
                return_freed_memory()

        groups = self._groups(sources, order, budget)
        yield from decode(self.model, groups, self.options, budget=budget, on_step=before_step)

    def _groups(
        self, sources: Sequence[Source], order: Sequence[int], budget: int
    ) -> Iterator[Group]:
        """Yield encoded sources of similar length: each time half of the budget, at least one.

        Sources with phrases are in groups of their own, by the size of their beams.
        """
        by_width: dict[int, list[int]] = {}
        for number in order:
            by_width.setdefault(beam_size(sources[number].phrases, self.options), []).append(number)
        for width, of_width in by_width.items():
            start = 0
            while start < len(of_width):
                longest = source_cost(sources[of_width[start]]) * width // self.options.width
                numbers = of_width[start : start + max(1, budget // 2 // longest)]
                start += len(numbers)
                yield self._group(numbers, [sources[number] for number in numbers], longest)

    def _group(self, numbers: Sequence[int], sources: Sequence[Source], cost: int) -> Group:
        on_gpu = self.device.type == "cuda"
        packed = pack_sources([source.ids for source in sources], on_gpu=on_gpu)
        state = self.model.begin(packed.to(self.device))
        # The last of the first tokens is read by the search.
        for token in (BOS_ID, *self.options.first_ids)[:-1]:
            self.model.step([state], torch.full((len(sources),), token))  # (B,)
        return Group(numbers, sources, state, cost_per_sentence=cost)

    def log_probs(
        self, pairs: Sequence[Pair], on_progress: OnProgress = None
    ) -> list[list[float] | None]:
        """Return the log-probability of each target token and of the final eos.

        None for a pair that does not fit into memory. `on_progress` is called with the number of
        pairs just done.
        """
        return self._forced(pairs, self._log_probs, on_progress)

    def _log_probs(self, batch: Batch) -> list[list[float]]:
        model = cast(TranslationModel | Ensemble, self.model)
        features = model.forward(batch)  # (n, F)
        blocks, first = [], 0
        for logits in logits_in_blocks(model, features):
            targets = batch.targets[first : first + len(logits), None]
            first += len(logits)
            blocks.append(logits.float().log_softmax(dim=-1).gather(1, targets)[:, 0])
        lengths = batch.tgt_in.starts.diff().tolist()
        return [part.tolist() for part in torch.split(torch.cat(blocks).cpu(), lengths)]

    def attention(self, pairs: Sequence[Pair]) -> list[NDArray[np.float32] | None]:
        return self._forced(pairs, self._attention)

    def _attention(self, batch: Batch) -> list[NDArray[np.float32]]:
        head = self.alignment_head
        from_top = _ALIGNING_LAYER if head is None else head.from_top
        layer = self._first_model.cross_attention(batch, from_top)  # (B, H, T, S)
        weights = (layer.mean(dim=1) if head is None else layer[:, head.head]).cpu()  # (B, T, S)
        lengths = ((side.starts.diff() - 1).tolist() for side in (batch.src, batch.tgt_in))
        pairs = zip(weights, *lengths, strict=True)
        # Copied, so that the batch is freed.
        return [rows[:target, :source].numpy().copy() for rows, source, target in pairs]

    @torch.inference_mode()
    def attention_weights(self, source: Ids, target: Ids) -> AttentionWeights:
        src, tgt = (TokenRows.from_lists([ids], token_bytes=4) for ids in (source, target))
        return self._first_model.attention_weights(collate(src, tgt).to(self.device))

    @property
    def _first_model(self) -> TranslationModel:
        model = self.model.members[0] if isinstance(self.model, Ensemble) else self.model
        return cast(TranslationModel, model)

    @torch.inference_mode()
    def _forced(
        self,
        pairs: Sequence[Pair],
        of_batch: Callable[[Batch], Sequence[T]],
        on_progress: OnProgress = None,
    ) -> list[T | None]:
        """Return the result of each pair; None if the pair by itself does not fit into memory."""
        if not pairs:
            return []
        src, tgt = (TokenRows.from_lists(side, token_bytes=4) for side in zip(*pairs, strict=True))
        waiting = deque(parts_by_length(src.lengths, tgt.lengths, FORCED_TOKENS))
        on_gpu = self.device.type == "cuda"
        results: dict[int, T | None] = {}
        while waiting:
            part = waiting.popleft()
            part_results: Sequence[T | None]
            try:
                with memory_errors():
                    batch = collate(src.take(part), tgt.take(part), on_gpu=on_gpu)
                    part_results = of_batch(batch.to(self.device))
            except MemoryError:
                if len(part) > 1:
                    waiting.extendleft(np.array_split(part, 2))
                    continue
                part_results = [None]
            results.update(zip(part.tolist(), part_results, strict=True))
            if on_progress is not None:
                on_progress(len(part))
        return [results[number] for number in range(len(pairs))]
