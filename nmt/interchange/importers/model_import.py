"""What all imports share: our ids for a foreign vocabulary, and its weights.

Foreign ids are in another order than ours, and two SentencePiece models may share one numbering.
Each of ours gets the list of all pieces, specials first. So one matrix serves both sides, and the
model file keeps its form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nmt import console
from nmt.config.model_config import TransformerConfig
from nmt.data.language_tokens import LanguageTokens
from nmt.data.pieces import SPECIAL, PieceModel
from nmt.data.vocabulary import ADDED, BOS_ID, READ_AS_UNK, TAG, UNK_ID, Vocabulary, read_parsed
from nmt.errors import DataError, UsageError, is_of_memory
from nmt.models.base import BARRED
from nmt.models.model_file import ModelCard, write_model
from nmt.models.registry import parameters_by_names, shapes_only

EMBEDDINGS = ("src_embedding.weight", "tgt_embedding.weight", "output_projection")
OUTPUT_BIAS = "output_bias"
# The weights of a layer whose columns, and the parameters whose rows, are of the residual stream.
_READS = re.compile(
    r"attention\.qkv|cross_attention\.(query|key_value)|feed_forward\.inner\.weight"
)
_ADDS = re.compile(r"output|norm\.|outer")

_SPACE = "\u2581"
_MARKED = re.compile("@@$|\uffed")
"""Marks of subwords inside a word, by subword-nmt and by pyonmttok."""
WITHOUT_PIECE = re.compile(r"<row \d+>")  # pieces of ours for foreign ids that have none


class VocabularyMapping(NamedTuple):
    """Our ids of some SentencePiece models that share foreign ids."""

    vocabularies: tuple[Vocabulary, ...]  # one for each model
    rows: NDArray[np.int64]  # (V,) the foreign id of each of ours
    barred: tuple[int, ...]
    """Ids without a row of their own, which must have no share in the softmax."""

    def produced(self) -> set[int]:
        """Return the foreign ids that search may produce."""
        barred = {*self.barred, *self.vocabularies[-1].barred_ids}
        return {row for id_, row in enumerate(self.rows.tolist()) if id_ not in barred}


class ForeignModel(NamedTuple):
    """What files hold, besides the weights."""

    config: TransformerConfig
    src: VocabularyMapping
    tgt: VocabularyMapping
    langs: tuple[str, str] = ("", "")
    """Source and target, "" if there are several."""
    max_src_tokens: int = 1_000
    """The longest source, without eos, of which most toolkits keep no record."""
    languages: LanguageTokens | None = None
    sines_first: bool = False
    """Whether its positions have all sines before the cosines, which take turns in ours."""
    unscaled: tuple[str, ...] = ()
    """The tables of `EMBEDDINGS` that the model, unlike ours, does not multiply by a root."""


def only(names: str, *values: object) -> dict[str, tuple[object, ...]]:
    """Return settings, whose names have spaces between, by the values that they may have."""
    return dict.fromkeys(names.split(), values)


def check_can_be_ours(
    path: Path, settings: Mapping[str, Any], only: Mapping[str, Sequence[object]]
) -> None:
    """Check that settings have values of a model that ours can be (UsageError).

    only: these values by name, first the one that a setting has if it is not there.
    """
    for name, usual in only.items():
        if settings.get(name, usual[0]) not in usual:
            raise UsageError(
                f"{path}: {name} is {settings[name]!r}; nmt imports only models with "
                f"{' or '.join(map(repr, usual))}"
            )


def check_alike(path: Path, sides: Sequence[Mapping[str, Any]], names: Sequence[str]) -> None:
    """Check that encoder and decoder have the same settings, by these names (UsageError)."""
    for name in names:
        src, tgt = (side.get(name) for side in sides)
        if src != tgt:
            raise UsageError(f"{path}: encoder and decoder differ in {name}, {src}, {tgt}")


def read_pieces(path: Path) -> PieceModel:
    return read_parsed(path, PieceModel.read)


def map_vocabulary(
    models: Sequence[PieceModel],
    texts: Mapping[int, str],
    special: Mapping[int, int],
    *,
    controls: Collection[str] = (),
    added: Collection[str] = (),
    marker: str = ADDED,
    borrowed: Collection[int] = (),
) -> VocabularyMapping:
    """Return our ids for foreign ones.

    models: SentencePiece models that share the foreign ids.
    texts: the piece of each foreign id that has one.
    special: the foreign id for each of our special ids.
    controls: the pieces that are never text, such as tags.
    added: the pieces that are split off from text before it is segmented.
    marker: the piece before them.
    borrowed: special ids of ours that are not pieces of the foreign model.
    """
    names = {piece.text for piece in SPECIAL.values()}
    own = {row for id_, row in special.items() if id_ not in borrowed}
    gaps = {row: f"<row {row}>" for row in range(max(texts) + 1) if row not in texts}
    pieces = dict(sorted({**texts, **gaps}.items()))
    others = [(text, row) for row, text in pieces.items() if row not in own and text not in names]
    unk = special[UNK_ID]  # the row of what has none
    ordered = [(text, row) for text, row in others if text not in added]
    if len(ordered) < len(others):
        ordered += [(marker, unk), *((text, row) for text, row in others if text in added)]
    known = {text for text, _ in ordered}
    if missing := [text for model in models for text in model.own if text not in known]:
        ordered += [(text, unk) for text in dict.fromkeys([READ_AS_UNK, *missing])]
    texts_by_id = [text for text, _ in ordered]
    controls = {marker, READ_AS_UNK, *controls, *gaps.values()}
    without_row = (len(SPECIAL) + id_ for id_, (_, row) in enumerate(ordered) if row == unk)
    return VocabularyMapping(
        tuple(Vocabulary(m.reordered(texts_by_id, controls, added).write()) for m in models),
        np.array([special[id_] for id_ in SPECIAL] + [row for _, row in ordered]),
        (*borrowed, *without_row),
    )


def tags_of(vocabulary: Vocabulary) -> LanguageTokens | None:
    """Return the languages of a vocabulary's tags, such as `>>fra<<`, if it has tags."""
    tags = list(filter(TAG.fullmatch, vocabulary.pieces))
    return LanguageTokens({tag[2:-2]: tag for tag in tags}, src="tgt", tgt="") if tags else None


def first_input(embeddings: Tensor, start: int, eos: int) -> str:
    """Return the value of `first_input` for a decoder that begins with a foreign id."""
    if start == eos:
        return "eos"
    return "bos" if embeddings[start].any() else "zeros"


def interleaved(width: int) -> Tensor:
    """Return the foreign dimension of each of ours: sines and cosines take turns in ours."""
    return torch.arange(width).view(2, -1).t().flatten()


def residual_dimension(ours: str) -> int | None:
    """Return which dimension of a weight is that of the residual stream, if one is."""
    kind = ours.split(".", 2)[-1]
    if ours in EMBEDDINGS or _READS.fullmatch(kind):
        return 1
    return 0 if kind != OUTPUT_BIAS and _ADDS.search(ours) else None


def parts_of_layers(
    model: nn.Module, foreign_names: Callable[[str], Sequence[str]]
) -> Iterator[tuple[str, str, Tensor]]:
    """Yield our names of the weights that are not in tables, their foreign names, and weights.

    foreign_names: returns those of a weight, which is stacked if there are several.
    """
    for ours, weight in model.named_parameters(remove_duplicate=False):
        if ours not in EMBEDDINGS and ours != OUTPUT_BIAS:
            names = foreign_names(ours)
            for theirs, part in zip(names, weight.detach().chunk(len(names)), strict=True):
                yield ours, theirs, part


def write_imported(
    path: Path,
    origin: Path,
    model: ForeignModel,
    read: Callable[[str], Tensor],
    unread: Collection[str],
) -> None:
    """Write the model file, and say what it holds.

    origin: what is imported, for messages.
    read: returns a foreign weight by our name for it, with foreign ids as rows, and with the
        foreign order of the residual stream.
    unread: the names of foreign weights, without those that have been read.
    DataError if a weight has another shape than the configuration says. UsageError if there are
    weights that our model does not have.
    """
    config, src, tgt = model.config, model.src, model.tgt
    order = interleaved(config.d_model)
    card = ModelCard(
        architecture="transformer",
        config=config,
        src_lang=model.langs[0],
        tgt_lang=model.langs[1],
        src_vocabulary=src.vocabularies[0],
        tgt_vocabulary=tgt.vocabularies[-1],
        max_src_tokens=model.max_src_tokens,
        data="",
        update=0,
        valid={},
        languages=model.languages,
    )
    with shapes_only():
        parameters = parameters_by_names(card.build())
    weights, size = dict[str, Tensor](), sum(parameter.nbytes for _, parameter in parameters)
    with console.progress("importing", total=size, unit="B") as bar:
        for (name, *_), parameter in parameters:
            try:
                weight = read(name).float()
                dimension = residual_dimension(name)
                if model.sines_first and dimension is not None:
                    weight = weight.index_select(dimension, order)
            except (RuntimeError, IndexError) as error:  # parts that cannot be stacked or reordered
                if is_of_memory(error):
                    raise
                raise DataError(f"{origin}: the parts of {name} do not fit its sizes") from None
            if name != OUTPUT_BIAS and not weight.isfinite().all():
                raise DataError(f"{origin}: {name} has numbers that are infinite, or none at all")
            if name in EMBEDDINGS or name == OUTPUT_BIAS:
                mapping = src if name.startswith("src_") else tgt
                if len(weight) <= mapping.rows.max():
                    raise DataError(
                        f"{origin}: has embeddings for {len(weight):,} pieces, but the vocabulary "
                        f"has more ids, such as {mapping.rows.max():,}"
                    )
                weight = weight[torch.from_numpy(mapping.rows)]
                if name in model.unscaled:
                    weight = weight / config.d_model**0.5
                if name in EMBEDDINGS and config.first_input == "zeros":
                    weight[BOS_ID] = 0.0  # what it is, for other formats
            if name == OUTPUT_BIAS:
                weight[list(tgt.barred)] = BARRED
            if weight.shape != parameter.shape:
                found, wanted = (
                    " x ".join(map(str, tensor.shape)) for tensor in (weight, parameter)
                )
                raise DataError(f"{origin}: {name} is {found}, but its sizes say {wanted}")
            weights[name] = weight.contiguous()
            bar.update(weight.nbytes)
    if others := sorted(unread):
        raise UsageError(
            f"{origin}: has {others[0]}, which is no part of a model that nmt imports; "
            "see its configuration"
        )
    write_model(path, card, weights)
    pair = " to ".join(lang or "any language" for lang in (card.src_lang, card.tgt_lang))
    count = len(card.languages.pieces) if card.languages is not None else 0
    known = f", with a choice of {count} languages" if count else ""
    console.notice(f"{path}: {origin}, {pair}{known}, {len(card.tgt_vocabulary):,} pieces")
    pieces = [*card.src_vocabulary.pieces, *card.tgt_vocabulary.pieces]
    marked = list(filter(_MARKED.search, pieces))
    if len(marked) > len(pieces) / 10:
        console.warning(
            f"{origin}: has subwords such as {marked[0].lstrip(_SPACE)}: lines must have them, and "
            "so will translations; --vocab codes.bpe makes and joins them"
        )
