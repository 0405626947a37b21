"""Model files made ready to be asked: on a device, in a precision, several as an ensemble."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from nmt.data.vocabulary import Vocabulary
from nmt.errors import UsageError, did_you_mean
from nmt.models.contract import TranslationModel
from nmt.models.device import PRECISIONS, choose_device, dtype_of
from nmt.models.ensemble import Ensemble, check_members
from nmt.models.model_file import load_model
from nmt.models.packed_weights import pack


@dataclass(frozen=True)
class Loaded:
    """A model, or an ensemble, and what its files say of it."""

    model: TranslationModel | Ensemble  # on the device, in evaluation mode
    device: torch.device
    src_vocabulary: Vocabulary
    tgt_vocabulary: Vocabulary
    languages: tuple[str, str]  # codes of source and target
    max_src_tokens: int  # longest source that all of the models were trained on


def load_models(
    path: Path | str | Sequence[Path | str],
    *,
    device: torch.device | str = "cpu",
    precision: str = "fp32",
) -> Loaded:
    """Load a model file, or the best model of a run folder; or several as an ensemble.

    Args:
        path: the file or folder, or some of them that have the same vocabularies.
        device: where it computes: cpu, cuda, cuda:1, or auto.
        precision: fp32 or bf16; int8 on CPUs, fp16 on GPUs.

    Raises:
        DataError: if a file is missing, damaged or of another version.
        UsageError: if the device has no such precision, or models do not belong together.
    """
    device = choose_device("auto") if device == "auto" else torch.device(device)
    check_precision(precision, device)
    paths = [Path(path)] if isinstance(path, Path | str) else [Path(one) for one in path]
    if not paths:
        raise UsageError("there is no model to load")
    models, cards = zip(*map(load_model, paths), strict=True)
    check_members(paths, cards)
    for model in models:
        _make_ready(model, device, precision)
    return Loaded(
        model=models[0] if len(models) == 1 else Ensemble(models),
        device=device,
        src_vocabulary=cards[0].src_vocabulary,
        tgt_vocabulary=cards[0].tgt_vocabulary,
        languages=(cards[0].src_lang, cards[0].tgt_lang),
        max_src_tokens=min(card.max_src_tokens for card in cards),
    )


def check_precision(precision: str, device: torch.device) -> None:
    """Refuse what a device has no products of.

    Raises:
        UsageError: naming the nearest one.
    """
    known = PRECISIONS["cuda" if device.type == "cuda" else "cpu"]
    if precision not in known:
        raise UsageError(
            f"unknown precision {precision!r} on {device.type}{did_you_mean(precision, known)}"
        )


def _make_ready(model: TranslationModel, device: torch.device, precision: str) -> None:
    model.eval()
    if device.type == "cuda":
        model.to(device=device, dtype=dtype_of(precision))
    else:
        pack(model, precision)
