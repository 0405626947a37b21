"""The model at the start of a run: its initial weights, and which of them are trained.

- `first_weights` builds the model with random weights, or with a warm start from another model.
- `warm_start` copies every parameter with the same name and shape. Rows of embeddings and of the
  output projection belong to pieces of a vocabulary, and are copied piece by piece.
- `choose_trained` excludes parameters from training, for fine-tuning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from nmt import console
from nmt.config.recipes import Recipe
from nmt.config.training_config import TrainingConfig
from nmt.data.folder import DataFolder
from nmt.data.vocabulary import EOS_ID, Vocabulary, split_lines
from nmt.errors import UsageError, did_you_mean
from nmt.models.base import TranslationModel
from nmt.models.device import dtype_of
from nmt.models.model_file import ModelCard, find_model, load_model
from nmt.models.registry import parameters_by_names
from nmt.system.distributed import Ranks
from nmt.training.flat_weights import FlatWeights
from nmt.training.guided_alignment import GUIDED_HEAD
from nmt.training.low_rank import adapt
from nmt.translate.segmentation import split_sentences

_SAMPLED = 2_000  # sources of a data folder
_FEW = 0.2  # of them: fewer lines of several sentences are not learnt


def choose_trained(model: TranslationModel, config: TrainingConfig) -> list[str]:
    """Freeze what the recipe does not train, and add what it trains instead.

    Returns lines for the log. UsageError as from `freeze` and `adapt`.
    """
    count = sum(parameter.numel() for parameter in model.parameters())
    frozen = freeze(model, config.freeze)  # which is not combined with `lora_rank`
    matrices = adapt(model, config.lora_rank) if config.lora_rank else []
    trained = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    if config.lora_rank:
        return [
            f"all {count:,} parameters are frozen; changes of rank {config.lora_rank} of "
            f"{len(matrices)} matrices have {trained:,} parameters"
        ]
    if not frozen:
        return []
    return [f"{count - trained:,} of {count:,} parameters are frozen: {_first_few(frozen)}"]


def freeze(model: TranslationModel, patterns: str) -> list[str]:
    """Freeze the parameters whose names match a pattern.

    patterns: globs over names, separated by commas; "" freezes nothing. A tied parameter matches by
    any of its names.

    Returns the names of the frozen parameters; tied names are joined by ` = `. UsageError if a
    pattern matches no name, or nothing is left to train.
    """
    if not patterns:
        return []
    globs = [glob.strip() for glob in patterns.split(",")]
    parameters = parameters_by_names(model)
    every = [name for names, _ in parameters for name in names]
    for glob in globs:
        if not _matches(every, [glob]):
            raise UsageError(
                f"freeze: no parameter matches {glob!r}{did_you_mean(glob, _groups_of(every))}"
            )
    chosen = [(names, parameter) for names, parameter in parameters if _matches(names, globs)]
    if len(chosen) == len(parameters):
        raise UsageError(f"freeze: {patterns!r} matches all parameters; leave some to train")
    for _, parameter in chosen:
        parameter.requires_grad_(False)
    return [" = ".join(names) for names, _ in chosen]


def _matches(names: Iterable[str], globs: list[str]) -> bool:
    return any(fnmatchcase(name, glob) for name in names for glob in globs)


def _groups_of(names: list[str]) -> set[str]:
    """Return patterns that match names: `encoder.*`, `encoder.0.*` and so on."""
    prefixes = {(name, ".".join(name.split(".")[:depth])) for name in names for depth in (1, 2)}
    return {prefix if prefix == name else f"{prefix}.*" for name, prefix in prefixes}


# Modules and parameters whose rows belong to pieces, and the side of those pieces.
_SIDES = {
    "src_embedding": "src",
    "tgt_embedding": "tgt",
    "output_projection": "tgt",
    "output_bias": "tgt",
}


@torch.no_grad()
def warm_start(
    model: TranslationModel, card: ModelCard, path: Path
) -> tuple[list[str], set[nn.Parameter]]:
    """Copy the matching weights of another model, at `path`, into a model in fp32.

    Returns lines for the log that list copied and other weights, and the parameters that stay
    random, at least in part. NMTError if there is no such model, or it is damaged. UsageError if no
    weight matches.
    """
    source = find_model(path)
    other, other_card = load_model(source)
    weights = dict(other.named_parameters(remove_duplicate=False))
    parameters = parameters_by_names(model)
    pieces, missing, reshaped = list[str](), list[str](), list[str]()
    random = set[nn.Parameter]()
    used: set[Tensor] = set()
    for names, parameter in parameters:
        known = {name: weights[name] for name in names if name in weights}
        used.update(known.values())
        fitting = {name: known[name] for name in known if _fits(name, known[name], parameter)}
        if not fitting:
            (reshaped if known else missing).append(names[0])
            random.add(parameter)
        elif _side(names[0]):
            copied = _copy_rows(fitting, other_card, parameter, card)
            if copied < len(parameter):
                random.add(parameter)
                found = f"{copied:,} of {len(parameter):,} pieces found"
                pieces.append(f"{names[0]}: {found} ({copied / len(parameter):.1%})")
        else:
            parameter.copy_(weights[names[0]])
    count = len(parameters)
    taken = count - len(missing) - len(reshaped)
    if not taken:
        raise UsageError(
            f"{source}: no weight of this model fits the new one: "
            f"{'; '.join(other_card.differences(card))}; use the same model sizes, or leave out "
            "--init-from"
        )
    languages, wanted = (f"{each.src_lang}-{each.tgt_lang}" for each in (other_card, card))
    if languages != wanted and other_card.languages is None:
        console.warning(f"{source} translates {languages}, but the data is {wanted}")
    left = {
        "not in that model, stay random": missing,
        "of another shape in that model, stay random": reshaped,
        "only in that model, not used": [n for n, w in other.named_parameters() if w not in used],
    }
    lines = [
        f"initial weights from {source} (update {other_card.update:,}): {taken} of {count} weights "
        "taken",
        *pieces,
        *(f"{what}: {_first_few(names)}" for what, names in left.items() if names),
    ]
    return lines, random


def _first_few(names: Sequence[str]) -> str:
    """Return the first three names, and how many more there are."""
    more = f" and {len(names) - 3:,} more" if len(names) > 3 else ""
    return f"{', '.join(names[:3])}{more}"


def _side(name: str) -> str | None:
    return _SIDES.get(name.split(".")[0])


def _fits(name: str, weight: Tensor, parameter: Tensor) -> bool:
    ignored = 1 if _side(name) else 0  # rows are matched by their pieces
    return weight.shape[ignored:] == parameter.shape[ignored:]


def _copy_rows(
    weights: Mapping[str, Tensor], other_card: ModelCard, parameter: Tensor, card: ModelCard
) -> int:
    """Copy the rows of pieces that both models have; return their number.

    If one matrix replaces several, a piece's row comes from the first one that has it.
    """
    copied: set[int] = set()
    for name, weight in weights.items():
        other_rows = _rows_by_piece(_vocabulary(other_card, name))
        matches = {
            row: other_rows[piece]
            for piece, row in _rows_by_piece(_vocabulary(card, name)).items()
            if row not in copied and piece in other_rows
        }
        rows = weight[list(matches.values())]  # (len(matches), D)
        parameter[list(matches)] = rows.to(parameter.device)
        copied.update(matches)
    return len(copied)


def _vocabulary(card: ModelCard, name: str) -> Vocabulary:
    return card.src_vocabulary if _side(name) == "src" else card.tgt_vocabulary


def _rows_by_piece(vocabulary: Vocabulary) -> dict[str | int, int]:
    """Return the row of each piece; special pieces, whose names vary, go by their ids."""
    special = EOS_ID + 1
    pieces: list[str | int] = [*range(special), *vocabulary.pieces[special:]]
    return {piece: row for row, piece in enumerate(pieces)}


def card_of(recipe: Recipe, data: DataFolder) -> ModelCard:
    """Return the card of the model that a recipe trains on a data folder, before any update."""
    return ModelCard(
        architecture=recipe.architecture,
        config=recipe.model,
        src_lang=data.info.langs[0],
        tgt_lang=data.info.langs[1],
        src_vocabulary=data.src_vocabulary,
        tgt_vocabulary=data.tgt_vocabulary,
        max_src_tokens=data.info.max_length,
        data=data.fingerprint,
        update=0,
        valid={},
        languages=data.info.languages,
        window=data.info.window,
        alignment_head=GUIDED_HEAD if recipe.training.guided_alignment else None,
        reads_annotations=data.info.reads_annotations,
        whole_src_tokens=whole_src_tokens(data),
    )


def whole_src_tokens(data: DataFolder) -> int:
    """Return how many tokens a line of several sentences may have to be translated whole.

    A model of this data translates lines that are as long as 99 of 100 of its sources. But if few
    of those have several sentences, it leaves some out, and no such line may be whole: 1.
    """
    train, separator = data.train, data.src_vocabulary.separator
    sampled = np.linspace(0, len(train) - 1, min(len(train), _SAMPLED)).astype(np.int64)
    corpora = [data.info.train.corpora[corpus] for corpus in train.corpora(sampled)]
    several = []
    for number, corpus in zip(sampled.tolist(), corpora, strict=True):
        ids = train.src(number).tolist()
        ids_of_lines = [ids] if separator is None else split_lines(ids, separator)
        lines = data.src_vocabulary.decode(ids_of_lines)
        lang, _ = corpus.langs
        several += [len(split_sentences(line, lang)) > 1 for line in lines]
    if np.mean(several) < _FEW:
        return 1
    counts, _ = train.length_counts()
    return int(np.searchsorted(counts.cumsum(), 0.99 * len(train)))


def first_weights(
    card: ModelCard,
    config: TrainingConfig,
    ranks: Ranks,
    device: torch.device,
    *,
    warm_from: Path | None,
) -> tuple[TranslationModel, FlatWeights, list[str]]:
    """Build the model with its initial weights; all ranks get rank 0's.

    warm_from: the model to copy matching weights from; None: all weights are random.

    Returns the model, its weights, and remarks on them for the log.
    """
    torch.manual_seed(config.seed)
    model = card.build()  # on the CPU, so that a GPU never holds it twice
    remarks, random = list[str](), set[nn.Parameter]()
    with ranks.raise_on_all_ranks():
        if ranks.is_first and warm_from is not None:
            lines, random = warm_start(model, card, warm_from)
            remarks += lines
    chosen = choose_trained(model, config)
    with ranks.raise_on_all_ranks():
        for name, parameter in model.named_parameters():
            if parameter in random and not parameter.requires_grad:
                raise UsageError(
                    f"{name} is frozen, but {warm_from} does not have all of it; the rest would "
                    "stay random, so train it, without lora_rank or freeze"
                )
    for parameter in model.parameters():
        ranks.broadcast_(parameter.data)
    weights = FlatWeights(model, dtype_of(config.precision), device=device)
    return model, weights, remarks + chosen
