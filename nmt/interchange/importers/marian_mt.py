"""Models of Hugging Face's `MarianMTModel`, such as OPUS-MT's.

A folder holds `config.json`, `model.safetensors`, the SentencePiece models `source.spm` and
`target.spm`, and `vocab.json`, which numbers the pieces of both.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from nmt import console
from nmt.config.model_config import TransformerConfig
from nmt.data.pieces import SPECIAL, PieceModel
from nmt.data.vocabulary import BOS_ID, EOS_ID, PAD_ID, TAG, UNK_ID
from nmt.errors import DataError, UsageError
from nmt.interchange.importers import huggingface_settings as settings
from nmt.interchange.importers import model_import
from nmt.interchange.importers.huggingface_files import Config, Weights
from nmt.models.positions import sinusoidal_positions, sinusoids_by_halves

SRC_PIECES, TGT_PIECES = "source.spm", "target.spm"
IDS, TGT_IDS = "vocab.json", "target_vocab.json"

EXPORTED = "exported_by_nmt"  # in config.json: the name of our position encoding

# What we need to find in config.json. Other values of these are another model.
_ONLY = (
    model_import.only("static_position_embeddings scale_embedding", True)
    | model_import.only("normalize_before normalize_embedding", False)
    | model_import.only("add_final_layer_norm add_bias_logits", False)
    | model_import.only("forced_bos_token_id", None)
)


def languages_of(folder: Path, src: str | None, tgt: str | None) -> tuple[str, str]:
    """Return the languages that the user or the folder names; UsageError if neither does."""
    path = folder / settings.TOKENIZER
    values = settings.read_if_there(path)
    langs = []
    for side, named in (("source", src), ("target", tgt)):
        lang = named or values.get(f"{side}_lang")
        if not isinstance(lang, str) or not lang:
            raise UsageError(
                f"{folder}: {path.name} names no {side} language; nmt import takes --src and --tgt"
            )
        langs.append(lang)
    return langs[0], langs[1]


def read_marian_mt(
    folder: Path, hf_config: Config, weights: Weights, positions: str | None
) -> model_import.ForeignModel:
    """Read all but the weights of a `MarianMTModel` (DataError, UsageError)."""
    settings.check_folder(folder, "marian", _ONLY)
    formulas = _formulas_of_tables(folder, weights, hf_config.number("d_model"))
    if positions is None:
        exported = hf_config.values.get(EXPORTED)
        positions = "huggingface" if exported == "sinusoidal" else "marian"
        if exported == "sinusoidal_halves" and formulas != {"marian"}:
            console.warning(
                f"{folder}: lacks the tables of Marian's positions, so transformers computes its "
                "own; if it was trained like that, import it with --positions huggingface"
            )
    src, tgt = _mappings(folder, hf_config, weights)
    is_theirs = positions == "huggingface"
    tie = "all" if _is_joint(hf_config.values) else "decoder"
    base = TransformerConfig(
        output_bias=bool(tgt.barred) or bool(weights.of(model_import.OUTPUT_BIAS).any()),
        positions="sinusoidal" if is_theirs else "sinusoidal_halves",
        tie_embeddings=tie if hf_config.values.get("tie_word_embeddings", True) else "none",
    )
    config = hf_config.transformer(weights, base)
    languages = model_import.tags_of(src.vocabularies[0])
    return model_import.ForeignModel(config, src, tgt, languages=languages, sines_first=is_theirs)


def _is_joint(values: Mapping[str, Any]) -> bool:
    return bool(values.get("share_encoder_decoder_embeddings", True))


def _mappings(
    folder: Path, hf_config: Config, weights: Weights
) -> tuple[model_import.VocabularyMapping, model_import.VocabularyMapping]:
    """Return our ids of both sides; they are the same if the sides share their embeddings."""
    src, tgt = (model_import.read_pieces(folder / name) for name in (SRC_PIECES, TGT_PIECES))
    is_joint, added = _is_joint(hf_config.values), settings.added_tokens(folder)
    path = folder / settings.TOKENIZER
    if settings.read_if_there(path).get("separate_vocabs", not is_joint) == is_joint:
        raise UsageError(f"{path}: separate_vocabs is not what {settings.CONFIG} says")
    if is_joint:
        joint = _mapping([src, tgt], folder / IDS, added, hf_config, weights, is_target=True)
        return joint, joint
    if others := set(added.values()) - settings.NO_TEXT:
        raise UsageError(
            f"{folder}: has {min(others)} added to two vocabularies; nmt knows only one"
        )
    return (
        _mapping([src], folder / IDS, {}, hf_config, weights, is_target=False),
        _mapping([tgt], folder / TGT_IDS, {}, hf_config, weights, is_target=True),
    )


def _mapping(
    models: list[PieceModel],
    path: Path,
    added: Mapping[int, str],
    hf_config: Config,
    weights: Weights,
    *,
    is_target: bool,
) -> model_import.VocabularyMapping:
    """Return our ids for those of a vocabulary; is_target: whether translations are in it."""
    own = settings.numbered(path, settings.read_json(path))
    texts, split_off = settings.with_added(path, own, added)
    ids = {text: id_ for id_, text in texts.items()}
    for id_ in (UNK_ID, PAD_ID, EOS_ID):
        if SPECIAL[id_].text not in ids:
            raise DataError(f"{path}: has no {SPECIAL[id_].text}")
    special = {id_: ids[SPECIAL[id_].text] for id_ in (UNK_ID, PAD_ID, EOS_ID)}
    special[BOS_ID] = special[PAD_ID]  # sources have no first token
    if is_target:
        needed = {"pad_token_id": (special[PAD_ID],), "eos_token_id": (special[EOS_ID],)}
        model_import.check_can_be_ours(hf_config.path, hf_config.values, needed)
        special[BOS_ID] = hf_config.number("decoder_start_token_id")
    texts = weights.with_all_rows(path, texts, model_import.EMBEDDINGS[is_target])
    tags = set(filter(TAG.fullmatch, ids))
    return model_import.map_vocabulary(
        models,
        texts,
        special,
        controls=tags,
        added=split_off - tags,
        borrowed=[BOS_ID] if texts.get(special[BOS_ID]) != SPECIAL[BOS_ID].text else [],
    )


def _formulas_of_tables(folder: Path, weights: Weights, d_model: int) -> set[str]:
    """Return the formulas of tables of positions, marian or huggingface (UsageError)."""
    found, order = set(), model_import.interleaved(d_model).argsort()
    for table in weights.positions():
        theirs = sinusoidal_positions(len(table), d_model)[:, order]
        formulas = {"marian": sinusoids_by_halves(len(table), d_model), "huggingface": theirs}
        fitting = {
            name
            for name, formula in formulas.items()
            if table.shape == formula.shape and torch.allclose(table, formula, atol=0.01)
        }
        if not fitting:
            raise UsageError(f"{folder}: embed_positions are learnt; nmt imports only sinusoids")
        found |= fitting
    return found
