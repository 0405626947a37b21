"""Warm start: initial weights from another model, for other domains and related languages.

A parameter is taken where name and shape are the same. Rows of embeddings and of the output
projection belong to pieces of a vocabulary, and are taken piece by piece.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from nmt import console
from nmt.data.vocabulary import EOS_ID, Vocabulary
from nmt.errors import UsageError
from nmt.models.contract import TranslationModel
from nmt.models.model_file import ModelCard, find_model, load_model
from nmt.models.tied import first_few, parameters_by_names

# The side whose pieces the rows of a module or parameter belong to.
_SIDES = {"src_embedding": "src", "tgt_embedding": "tgt", "output_projection": "tgt"}


@dataclass
class _Report:
    """What came of each parameter, by the name that a model file uses."""

    taken: list[str] = field(default_factory=list)
    pieces: dict[str, tuple[int, int]] = field(default_factory=dict)  # found, of how many
    missing: list[str] = field(default_factory=list)
    other_shape: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)

    def lines(self, source: Path, update: int) -> list[str]:
        count = len(self.taken) + len(self.missing) + len(self.other_shape)
        lines = [
            f"initial weights from {source} (update {update:,}): {len(self.taken)} of {count} "
            "weights taken"
        ]
        for name, (found, size) in self.pieces.items():
            lines.append(f"{name}: {found:,} of {size:,} pieces found ({found / size:.1%})")
        for names, what in (
            (self.missing, "not in that model, left random"),
            (self.other_shape, "of another shape in that model, left random"),
            (self.unused, "only in that model, not used"),
        ):
            if names:
                lines.append(f"{what}: {first_few(names)}")
        return lines


@torch.no_grad()
def warm_start(model: TranslationModel, card: ModelCard, path: Path) -> list[str]:
    """Copy what fits of another model's weights into a model.

    Args:
        model: with its own initial weights in fp32, on any device.
        card: the model's.
        path: a model file, or a run folder.

    Returns:
        Lines that say what was taken and what was not.

    Raises:
        NMTError: if there is no such model, or it is damaged.
        UsageError: if nothing of it fits.
    """
    source = find_model(path)
    other, other_card = load_model(source)
    given = dict(other.named_parameters(remove_duplicate=False))
    report = _Report()
    known_there: set[Tensor] = set()
    for names, parameter in parameters_by_names(model):
        known = [name for name in names if name in given]
        known_there.update(given[name] for name in known)
        fitting = [name for name in known if _fits(name, given[name], parameter)]
        if not fitting:
            (report.other_shape if known else report.missing).append(names[0])
            continue
        if _side(names[0]):
            found = _copy_rows(fitting, given, other_card, parameter, card)
            report.pieces[names[0]] = found, len(parameter)
        else:
            parameter.copy_(given[names[0]])
        report.taken.append(names[0])
    if not report.taken:
        raise UsageError(
            f"{source}: nothing of this model fits the new one: "
            f"{'; '.join(other_card.differences(card))}; give the new model the same sizes, or "
            "leave --init-from out"
        )
    report.unused = [name for name, weight in other.named_parameters() if weight not in known_there]
    languages, wanted = (f"{one.src_lang}-{one.tgt_lang}" for one in (other_card, card))
    if languages != wanted:
        console.warning(f"{source}: translates {languages}, and the data is {wanted}")
    return report.lines(source, other_card.update)


def _side(name: str) -> str | None:
    return _SIDES.get(name.split(".")[0])


def _fits(name: str, given: Tensor, parameter: Tensor) -> bool:
    ignored = 1 if _side(name) else 0  # rows find each other by their pieces
    return given.shape[ignored:] == parameter.shape[ignored:]


def _copy_rows(
    names: Sequence[str],
    given: Mapping[str, Tensor],
    given_card: ModelCard,
    parameter: Tensor,
    card: ModelCard,
) -> int:
    """Copy the rows of the pieces that both have; return how many.

    Where one matrix takes the place of several, a piece's row is that of the first that has it.
    """
    copied: set[int] = set()
    for name in names:
        given_rows = _rows_by_piece(_vocabulary(given_card, name))
        matches = {
            row: given_rows[piece]
            for piece, row in _rows_by_piece(_vocabulary(card, name)).items()
            if row not in copied and piece in given_rows
        }
        rows = given[name][list(matches.values())]  # (len(matches), D)
        parameter[list(matches)] = rows.to(parameter.device)
        copied.update(matches)
    return len(copied)


def _vocabulary(card: ModelCard, name: str) -> Vocabulary:
    return card.src_vocabulary if _side(name) == "src" else card.tgt_vocabulary


def _rows_by_piece(vocabulary: Vocabulary) -> dict[str | int, int]:
    """Return where each piece stands; the special ones, which have any name, go by their ids."""
    special = EOS_ID + 1
    pieces = vocabulary.tokens(range(special, len(vocabulary)))
    return {id_: id_ for id_ in range(special)} | {
        piece: id_ for id_, piece in enumerate(pieces, start=special)
    }
