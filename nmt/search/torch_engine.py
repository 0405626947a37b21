"""The engine of our own: models of torch, searched in batches of similar length."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch

from nmt.data.batches import pack_sources
from nmt.models.contract import Decoder
from nmt.search.alive import Group
from nmt.search.decode import decode
from nmt.search.engine import Engine, Hypothesis, Source, room
from nmt.search.options import SearchOptions
from nmt.search.shortlist import Chosen, Shortlist

_CPU_BATCH_TOKENS = 4_096
_GPU_BATCH_TOKENS = 16_384


class TorchEngine(Engine):
    """A model, or an ensemble, and what search is to look for."""

    def __init__(
        self,
        model: Decoder,
        options: SearchOptions,
        *,
        device: torch.device,
        batch_tokens: int | None = None,
        shortlist: Shortlist | None = None,
    ) -> None:
        """Put a model to use.

        Args:
            model: on `device`, in evaluation mode.
            options: of the search.
            device: where it computes.
            batch_tokens: see `Engine`; what suits the device, if none are given.
            shortlist: of the tokens that each translation may have; without one, all.
        """
        default = _GPU_BATCH_TOKENS if device.type == "cuda" else _CPU_BATCH_TOKENS
        super().__init__(options, default if batch_tokens is None else batch_tokens)
        self.model = model
        self.device = device
        self.shortlist = shortlist

    @torch.inference_mode()
    def find(
        self,
        sources: Sequence[Source],
        order: Sequence[int],
        budget: int,
        on_step: Callable[[], object] | None,
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """See `Engine`; `on_step` is called before each step of the decoder."""
        groups = self._groups(sources, order, budget)
        yield from decode(self.model, groups, self.options, room=budget, on_step=on_step)

    def _groups(
        self, sources: Sequence[Source], order: Sequence[int], budget: int
    ) -> Iterator[Group]:
        """Yield sources of similar length, encoded, each time half of the budget or one."""
        start = 0
        while start < len(order):
            longest = room(sources[order[start]])
            numbers = order[start : start + max(1, budget // 2 // longest)]
            start += len(numbers)
            group = [sources[number] for number in numbers]
            packed = pack_sources([source.ids for source in group])
            state = self.model.begin(packed.to(self.device))
            yield Group(numbers, group, state, room=longest, chosen=self._listed(group))

    def _listed(self, sources: Sequence[Source]) -> Chosen | None:
        if self.shortlist is None:
            return None
        lists = [self.shortlist.of(source) for source in sources]
        return Chosen(lists, self.model, self.options.barred_ids, self.device)
