"""The model as a run begins: its card, its initial weights, and what of them is trained."""

from __future__ import annotations

from pathlib import Path

import torch

from nmt.config import Recipe, TrainingConfig
from nmt.data.folder import DataFolder
from nmt.errors import NMTError
from nmt.models.contract import TranslationModel
from nmt.models.device import dtype_of
from nmt.models.model_file import ModelCard, model_checksum
from nmt.models.tied import first_few
from nmt.training.distributed import Ranks
from nmt.training.flat_weights import FlatWeights
from nmt.training.freezing import freeze
from nmt.training.optimizer import Optimizer
from nmt.training.run_folder import InitialModel
from nmt.training.warm_start import warm_start


def card_of(recipe: Recipe, data: DataFolder) -> ModelCard:
    """Describe the model that a recipe makes of a data folder, before its first update."""
    return ModelCard(
        architecture=recipe.architecture,
        config=recipe.model,
        src_lang=data.src_lang,
        tgt_lang=data.tgt_lang,
        src_vocabulary=data.src_vocabulary,
        tgt_vocabulary=data.tgt_vocabulary,
        max_src_tokens=data.info.settings.max_length,
        data=data.fingerprint,
        update=0,
        valid={},
    )


def first_weights(
    card: ModelCard,
    config: TrainingConfig,
    ranks: Ranks,
    device: torch.device,
    *,
    warm_from: Path | None,
) -> tuple[TranslationModel, FlatWeights, list[str]]:
    """Build a model; all ranks get rank 0's weights.

    Args:
        card: what to build.
        config: the seed, the precision, and what is frozen.
        ranks: the processes of the run.
        device: where to compute.
        warm_from: the model that weights are taken from where they fit; None: random ones.

    Returns:
        The model, its weights, and remarks on them for the log.
    """
    torch.manual_seed(config.seed)
    model = card.build().to(device)
    remarks: list[str] = []
    with ranks.together():
        if ranks.is_first and warm_from is not None:
            remarks += warm_start(model, card, warm_from)
    frozen = freeze(model, config.freeze)
    weights = FlatWeights(model, dtype_of(config.precision))
    if frozen:
        trained, count = len(weights.trainable), len(weights.master)
        remarks.append(
            f"{count - trained:,} of {count:,} parameters are frozen: {first_few(frozen)}"
        )
    ranks.broadcast_(weights.master)
    weights.refresh()
    return model, weights, remarks


def begin_again(
    optimizer: Optimizer, card: ModelCard, initial: InitialModel, ranks: Ranks, device: torch.device
) -> None:
    """Make weights and optimiser what they were before the first update.

    Raises:
        NMTError: if the model that they started from has changed or gone.
    """
    warm_from = Path(initial.path) if initial.path else None
    with ranks.together():
        if ranks.is_first and warm_from and model_checksum(warm_from) != initial.checksum:
            raise NMTError(
                f"diverged before a state was saved, and {warm_from} is no longer what the run "
                "started from; start in a new folder"
            )
    _, weights, _ = first_weights(card, optimizer.config, ranks, device, warm_from=warm_from)
    fresh = Optimizer(weights, optimizer.config, optimizer.d_model).vectors()
    for name, vector in optimizer.vectors().items():
        vector.copy_(fresh[name])
