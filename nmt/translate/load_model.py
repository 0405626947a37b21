"""Load model files for translation, with torch."""

from __future__ import annotations

import functools

import torch

from nmt import console
from nmt.errors import MissingKernel, UsageError, did_you_mean
from nmt.models.device import PRECISIONS, choose_device, default_precision, dtype_of
from nmt.models.ensemble import Ensemble, check_members
from nmt.models.model_file import load_model
from nmt.models.packed_weights import choose_kernel, is_usable, pack
from nmt.search.torch_engine import TorchEngine
from nmt.translate.language_pair import LanguagePair
from nmt.translate.options import TranslationConfig


def load(
    config: TranslationConfig,
    *,
    device: torch.device | str = "cpu",
    batch_tokens: int | None = None,
    kernel: str | None = None,
    threads: int = 1,
) -> tuple[TorchEngine, LanguagePair]:
    """Load a model or an ensemble. torch keeps its threads and other settings of the process.

    device: cpu, cuda, cuda:1 or auto.
    batch_tokens: see `Engine`; if None, a default for the device.
    kernel: one of `KERNELS`, for CPUs; the fastest if None.
    threads: of torch, for a call.
    DataError if a file is missing, damaged or of another version. MissingKernel if this machine
    does not have the kernel. UsageError if the device is not there, does not support the precision,
    or the models cannot be joined.
    """
    device = _device(device)
    precision = default_precision(device) if config.precision == "auto" else config.precision
    known = PRECISIONS["cuda" if device.type == "cuda" else "cpu"]
    if precision not in known:
        raise UsageError(
            f"unknown precision {precision!r} on {device.type}{did_you_mean(precision, known)}"
        )
    if kernel is not None and not (device.type == "cpu" and is_usable(kernel, precision)):
        raise MissingKernel(f"{device.type} has no kernel {kernel!r} for {precision} here")
    models, cards = zip(*map(load_model, config.models), strict=True)
    check_members(config.models, cards)
    for model in models:
        model.eval()
    if device.type == "cuda":
        for model in models:
            model.to(device=device, dtype=dtype_of(precision))
    else:
        if kernel is None:
            kernel, speedup = choose_kernel(models, precision)
            if precision != "fp32" and speedup <= 1:
                _warn_of_slowness(precision, 1 / speedup)
        for model in models:
            pack(model, precision, kernel)
    language_pair = LanguagePair.from_card(cards[0], config.src_lang, config.tgt_lang)
    language_pair = language_pair._replace(
        max_src_tokens=min(card.max_src_tokens for card in cards),
        whole_src_tokens=min(card.whole_src_tokens or card.max_src_tokens for card in cards),
    )
    engine = TorchEngine(
        models[0] if len(models) == 1 else Ensemble(models),
        config.search.into(language_pair.tgt_vocabulary),
        device=device,
        batch_tokens=batch_tokens,
        alignment_head=cards[0].alignment_head,
        kernel=kernel,
        threads=threads,
    )
    return engine, language_pair


def _device(name: torch.device | str) -> torch.device:
    """Return a device that is there, or raise UsageError."""
    if name == "auto":
        return choose_device("auto")
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError):
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda"):
        raise UsageError(f"device {str(name)!r}: unknown; give cpu, cuda, cuda:1 or auto")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise UsageError(f"device {str(name)!r}: this machine has no such GPU; give cpu or auto")
    return device


@functools.cache  # once
def _warn_of_slowness(precision: str, ratio: float) -> None:
    console.warning(
        f"{precision} is {'no faster than' if ratio < 1.05 else f'{ratio:.1f} times as slow as'} "
        "fp32 on this machine; use --precision fp32, which is also more exact"
    )
