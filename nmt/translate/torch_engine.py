"""The torch engine: loads model files and searches in batches of similar length.

`load_models` prepares one model or an ensemble on a device, in a precision.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from nmt import console
from nmt.cpu import default_threads
from nmt.data.batches import pack_sources
from nmt.data.vocabulary import Vocabulary
from nmt.errors import MissingKernel, UsageError, did_you_mean
from nmt.models.base import Decoder, TranslationModel
from nmt.models.device import PRECISIONS, choose_device, dtype_of
from nmt.models.ensemble import Ensemble, check_members
from nmt.models.kernels.packed_weights import choose_kernel, is_usable, pack
from nmt.models.model_file import load_model
from nmt.search.beam_search import decode
from nmt.search.engine import Engine, Hypothesis, Source, source_cost
from nmt.search.hypotheses import Group
from nmt.search.options import SearchOptions
from nmt.search.shortlist import BatchShortlist, Shortlist


@dataclass(frozen=True)
class LoadedModel:
    """A model or an ensemble, ready to use, with the metadata of its files."""

    model: TranslationModel | Ensemble  # on the device, in evaluation mode
    device: torch.device
    src_vocabulary: Vocabulary
    tgt_vocabulary: Vocabulary
    languages: tuple[str, str]  # language codes of source and target
    max_src_tokens: int  # longest training source, the lowest of the models'
    kernel: str | None = None  # for matrix products on a CPU; None on a GPU


def load_models(
    path: Path | str | Sequence[Path | str],
    *,
    device: torch.device | str = "cpu",
    precision: str = "fp32",
    kernel: str | None = None,
) -> LoadedModel:
    """Load a model file, or the best model of a run folder; or several as an ensemble.

    Args:
        path: the file or folder, or several with the same vocabularies.
        device: cpu, cuda, cuda:1 or auto.
        precision: fp32 or bf16; int8 on CPUs, fp16 on GPUs.
        kernel: one of `KERNELS`, for CPUs; the fastest if None.

    Raises:
        DataError: if a file is missing, damaged or of another version.
        MissingKernel: if this machine does not have the kernel.
        UsageError: if the device does not support the precision, or the models cannot be joined.
    """
    device = choose_device("auto") if device == "auto" else torch.device(device)
    check_precision(precision, device)
    if kernel is not None and not (device.type == "cpu" and is_usable(kernel, precision)):
        raise MissingKernel(f"{device.type} has no kernel {kernel!r} for {precision} here")
    paths = [Path(path)] if isinstance(path, Path | str) else [Path(one) for one in path]
    if not paths:
        raise UsageError("no model given; give at least one")
    models, cards = zip(*map(load_model, paths), strict=True)
    check_members(paths, cards)
    for model in models:
        model.eval()
    if device.type == "cuda":
        for model in models:
            model.to(device=device, dtype=dtype_of(precision))
    else:
        # torch ignores the CPU quota. If the program has set fewer threads, keep them.
        torch.set_num_threads(min(torch.get_num_threads(), default_threads()))
        if kernel is None:
            kernel = _fastest_kernel(models, precision)
        for model in models:
            pack(model, precision, kernel)
    return LoadedModel(
        model=models[0] if len(models) == 1 else Ensemble(models),
        device=device,
        src_vocabulary=cards[0].src_vocabulary,
        tgt_vocabulary=cards[0].tgt_vocabulary,
        languages=(cards[0].src_lang, cards[0].tgt_lang),
        max_src_tokens=min(card.max_src_tokens for card in cards),
        kernel=kernel,
    )


def check_precision(precision: str, device: torch.device) -> None:
    """Refuse a precision that a device does not support.

    Raises:
        UsageError: if it does not; it suggests the nearest name.
    """
    known = PRECISIONS["cuda" if device.type == "cuda" else "cpu"]
    if precision not in known:
        raise UsageError(
            f"unknown precision {precision!r} on {device.type}{did_you_mean(precision, known)}"
        )


def _fastest_kernel(models: Sequence[TranslationModel], precision: str) -> str:
    choice = choose_kernel(models, precision)
    if precision != "fp32" and choice.speedup <= 1:
        _warn_of_slowness(precision, 1 / choice.speedup)
    return choice.kernel


@functools.cache  # once
def _warn_of_slowness(precision: str, ratio: float) -> None:
    console.warning(
        f"{precision} is {'no faster than' if ratio < 1.05 else f'{ratio:.1f} times as slow as'} "
        "fp32 on this machine; use --precision fp32, which is also more exact"
    )


_CPU_BATCH_TOKENS = 4_096
_GPU_BATCH_TOKENS = 16_384


class TorchEngine(Engine):
    """Searches with a model or an ensemble."""

    def __init__(
        self,
        model: Decoder,
        options: SearchOptions,
        *,
        device: torch.device,
        batch_tokens: int | None = None,
        shortlist: Shortlist | None = None,
    ) -> None:
        """Set up the engine.

        Args:
            model: on `device`, in evaluation mode.
            options: of the search.
            device: of the model.
            batch_tokens: see `Engine`; if None, a default for the device.
            shortlist: limits the tokens of each translation; if None, all are allowed.
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
        """See `Engine`. `on_step` is called before each step of the decoder."""
        groups = self._groups(sources, order, budget)
        yield from decode(self.model, groups, self.options, budget=budget, on_step=on_step)

    def _groups(
        self, sources: Sequence[Source], order: Sequence[int], budget: int
    ) -> Iterator[Group]:
        """Yield encoded sources of similar length: each time half of the budget, at least one."""
        start = 0
        while start < len(order):
            longest = source_cost(sources[order[start]])
            numbers = order[start : start + max(1, budget // 2 // longest)]
            start += len(numbers)
            group = [sources[number] for number in numbers]
            packed = pack_sources([source.ids for source in group])
            state = self.model.begin(packed.to(self.device))
            yield Group(numbers, group, state, cost=longest, shortlist=self._batch_shortlist(group))

    def _batch_shortlist(self, sources: Sequence[Source]) -> BatchShortlist | None:
        if self.shortlist is None:
            return None
        lists = [self.shortlist.of(source) for source in sources]
        return BatchShortlist(lists, self.model, self.options.barred_ids, self.device)
