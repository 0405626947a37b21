"""Models of Hugging Face: `MarianMTModel`, such as OPUS-MT's, or M2M100, which `m2m100` reads.

A folder of MarianMT holds `config.json`, `model.safetensors`, the SentencePiece models `source.spm`
and `target.spm`, and `vocab.json`, which numbers the pieces of both. Neither transformers nor its
tokenizers are needed, and no code from the folder is executed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nmt.data.pieces import SPECIAL, PieceModel
from nmt.data.vocabulary import BOS_ID, EOS_ID, PAD_ID, TAG, UNK_ID
from nmt.errors import DataError, UsageError
from nmt.interchange.foreign import (
    OUTPUT_BIAS,
    Numbering,
    number,
    read_pieces,
    tags_of,
    write_imported,
)
from nmt.interchange.huggingface_files import (
    CONFIG,
    TOKENIZER,
    Config,
    ForeignModel,
    Weights,
    interleaved,
    numbered,
    open_weights,
    read_json,
)
from nmt.interchange.m2m100 import read_m2m100
from nmt.model_config import TransformerConfig
from nmt.models.model_file import ModelCard

SRC_PIECES, TGT_PIECES = "source.spm", "target.spm"
IDS, TGT_IDS = "vocab.json", "target_vocab.json"

EXPORTED = "exported_by_nmt"
"""In config.json: the name of our position encoding."""

# What we need to find in config.json. Other values of these are another model.
_ONLY: dict[str, object] = {
    "static_position_embeddings": True,
    "scale_embedding": True,
    "normalize_before": False,
    "normalize_embedding": False,
    "add_final_layer_norm": False,
    "add_bias_logits": False,
}


def import_huggingface(
    folder: Path, out: Path, *, src_lang: str | None, tgt_lang: str | None, positions: str | None
) -> ModelCard:
    """Write a folder's model as a model file, and return its card.

    Args:
        folder: with the files of a `MarianMTModel`, or of M2M100 or NLLB.
        out: the model file.
        src_lang: of the model; None: as the folder says.
        tgt_lang: likewise.
        positions: the formula of sinusoids of a `MarianMTModel`, `marian` or `huggingface`; None:
            Hugging Face's if `nmt export` has written the folder with it. Else Marian's, because
            Marian has trained the models of OPUS-MT.

    Raises:
        DataError: if a file is missing or damaged.
        UsageError: if our Transformer cannot be this model, or a language is not known.
    """
    given = Config.read(folder / CONFIG)
    model_type = given.values.get("model_type", "marian")
    with open_weights(folder) as weights:
        match model_type:
            case "marian":
                found = _read_marian_mt(folder, given, weights, positions)
                src_lang, tgt_lang = _languages(folder, src_lang, tgt_lang)
            case "m2m_100":
                if positions is not None:
                    raise UsageError("--positions is for MarianMT; leave it out")
                found = read_m2m100(folder, given, weights)
            case _:
                raise UsageError(
                    f"{given.path}: model_type is {model_type!r}; nmt imports 'marian' and "
                    "'m2m_100'"
                )
        card = ModelCard(
            architecture="transformer",
            config=found.config,
            src_lang=src_lang or "",
            tgt_lang=tgt_lang or "",
            src_vocabulary=found.src.vocabularies[0],
            tgt_vocabulary=found.tgt.vocabularies[-1],
            max_src_tokens=_max_src_tokens(folder, given),
            data="",
            update=0,
            valid={},
            languages=found.languages,
        )
        if found.languages is not None:
            for side, lang in (("src", src_lang), ("tgt", tgt_lang)):
                if model_type != "marian" and lang is not None:
                    found.languages.check(side, lang, f"--{side}", is_given=True)
        write_imported(
            out, folder, card, lambda name: weights.of(name, found.order), found.src, found.tgt
        )
    return card


def _languages(folder: Path, src: str | None, tgt: str | None) -> tuple[str, str]:
    """Return the languages that the user or the folder names."""
    path = folder / TOKENIZER
    values = read_json(path) if path.exists() else {}
    found = []
    for side, given in (("source", src), ("target", tgt)):
        lang = given or values.get(f"{side}_lang")
        if not isinstance(lang, str) or not lang:
            raise UsageError(
                f"{folder}: {TOKENIZER} names no {side} language; give --src and --tgt"
            )
        found.append(lang)
    return found[0], found[1]


def _max_src_tokens(folder: Path, given: Config) -> int:
    """Return the longest source without eos, by the tokenizer or else by the positions."""
    path, limit = folder / TOKENIZER, given.number("max_position_embeddings")
    length = read_json(path).get("model_max_length") if path.exists() else None
    return max(1, (min(length, limit) if type(length) is int else limit) - 1)


def _read_marian_mt(
    folder: Path, given: Config, weights: Weights, positions: str | None
) -> ForeignModel:
    """Read all but the weights of a `MarianMTModel`."""
    given.check(_ONLY)
    if positions is None:
        positions = "huggingface" if given.values.get(EXPORTED) == "sinusoidal" else "marian"
    src, tgt = _numberings(folder, given)
    is_theirs = positions == "huggingface"
    base = TransformerConfig(
        output_bias=bool(tgt.barred) or bool(weights.of(OUTPUT_BIAS, None).any()),
        positions="sinusoidal" if is_theirs else "sinusoidal_halves",
        tie_embeddings=_tie(given.values),
    )
    config = given.transformer(weights, base)
    order = interleaved(config.d_model) if is_theirs else None
    return ForeignModel(config, src, tgt, tags_of(src.vocabularies[0]), order)


def _is_joint(values: Mapping[str, Any]) -> bool:
    return bool(values.get("share_encoder_decoder_embeddings", True))


def _tie(values: Mapping[str, Any]) -> str:
    if not values.get("tie_word_embeddings", True):
        return "none"
    return "all" if _is_joint(values) else "decoder"


# ------------------------------------------------------------------------------- vocabulary


def _numberings(folder: Path, given: Config) -> tuple[Numbering, Numbering]:
    """Return our ids of both sides; they are the same if the sides share their embeddings."""
    src, tgt = (read_pieces(folder / name) for name in (SRC_PIECES, TGT_PIECES))
    src_ids = folder / IDS
    if _is_joint(given.values):
        joint = _number([src, tgt], src_ids, given)
        return joint, joint
    tgt_ids = folder / TGT_IDS
    return _number([src], src_ids, given), _number([tgt], tgt_ids, given)


def _number(models: list[PieceModel], path: Path, given: Config) -> Numbering:
    texts = numbered(path, read_json(path))
    ids = {text: id_ for id_, text in texts.items()}
    special = {PAD_ID: given.number("pad_token_id"), EOS_ID: given.number("eos_token_id")}
    special[BOS_ID] = given.number("decoder_start_token_id")
    for id_ in (UNK_ID, PAD_ID, EOS_ID):
        if SPECIAL[id_].text not in ids:
            raise DataError(f"{path}: has no {SPECIAL[id_].text}")
        special[id_] = ids[SPECIAL[id_].text]
    return number(
        models,
        texts,
        special,
        controls=set(filter(TAG.fullmatch, texts.values())),
        borrowed=[BOS_ID] if texts.get(special[BOS_ID]) != SPECIAL[BOS_ID].text else [],
    )
