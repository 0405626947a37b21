"""Models of Hugging Face's `MarianMTModel`, such as OPUS-MT's.

A folder holds `config.json`, `model.safetensors`, the SentencePiece models `source.spm` and
`target.spm`, and `vocab.json`, which numbers the pieces of both.
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
    ForeignModel,
    VocabularyMapping,
    map_vocabulary,
    read_pieces,
    tags_of,
)
from nmt.interchange.huggingface_files import (
    TOKENIZER,
    Config,
    Weights,
    interleaved,
    numbered,
    read_json,
)
from nmt.model_config import TransformerConfig

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


def languages_of(folder: Path, src: str | None, tgt: str | None) -> tuple[str, str]:
    """Return the languages that the user or the folder names.

    Raises:
        UsageError: if neither does.
    """
    path = folder / TOKENIZER
    values = read_json(path) if path.exists() else {}
    langs = []
    for side, named in (("source", src), ("target", tgt)):
        lang = named or values.get(f"{side}_lang")
        if not isinstance(lang, str) or not lang:
            raise UsageError(
                f"{folder}: {TOKENIZER} names no {side} language; give --src and --tgt"
            )
        langs.append(lang)
    return langs[0], langs[1]


def read_marian_mt(
    folder: Path, hf_config: Config, weights: Weights, positions: str | None
) -> ForeignModel:
    """Read all but the weights of a `MarianMTModel`.

    Raises:
        DataError: if a file is missing or damaged.
        UsageError: if our Transformer cannot be this model.
    """
    hf_config.check(_ONLY)
    if positions is None:
        positions = "huggingface" if hf_config.values.get(EXPORTED) == "sinusoidal" else "marian"
    src, tgt = _mappings(folder, hf_config)
    is_theirs = positions == "huggingface"
    base = TransformerConfig(
        output_bias=bool(tgt.barred) or bool(weights.of(OUTPUT_BIAS, None).any()),
        positions="sinusoidal" if is_theirs else "sinusoidal_halves",
        tie_embeddings=_tie(hf_config.values),
    )
    config = hf_config.transformer(weights, base)
    order = interleaved(config.d_model) if is_theirs else None
    return ForeignModel(config, src, tgt, tags_of(src.vocabularies[0]), order)


def _is_joint(values: Mapping[str, Any]) -> bool:
    return bool(values.get("share_encoder_decoder_embeddings", True))


def _tie(values: Mapping[str, Any]) -> str:
    if not values.get("tie_word_embeddings", True):
        return "none"
    return "all" if _is_joint(values) else "decoder"


# ------------------------------------------------------------------------------- vocabulary


def _mappings(folder: Path, hf_config: Config) -> tuple[VocabularyMapping, VocabularyMapping]:
    """Return our ids of both sides; they are the same if the sides share their embeddings."""
    src, tgt = (read_pieces(folder / name) for name in (SRC_PIECES, TGT_PIECES))
    src_ids = folder / IDS
    if _is_joint(hf_config.values):
        joint = _mapping([src, tgt], src_ids, hf_config)
        return joint, joint
    tgt_ids = folder / TGT_IDS
    return _mapping([src], src_ids, hf_config), _mapping([tgt], tgt_ids, hf_config)


def _mapping(models: list[PieceModel], path: Path, hf_config: Config) -> VocabularyMapping:
    texts = numbered(path, read_json(path))
    ids = {text: id_ for id_, text in texts.items()}
    special = {PAD_ID: hf_config.number("pad_token_id"), EOS_ID: hf_config.number("eos_token_id")}
    special[BOS_ID] = hf_config.number("decoder_start_token_id")
    for id_ in (UNK_ID, PAD_ID, EOS_ID):
        if SPECIAL[id_].text not in ids:
            raise DataError(f"{path}: has no {SPECIAL[id_].text}")
        special[id_] = ids[SPECIAL[id_].text]
    return map_vocabulary(
        models,
        texts,
        special,
        controls=set(filter(TAG.fullmatch, texts.values())),
        borrowed=[BOS_ID] if texts.get(special[BOS_ID]) != SPECIAL[BOS_ID].text else [],
    )
