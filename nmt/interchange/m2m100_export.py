"""Export to Hugging Face's `M2M100ForConditionalGeneration`: what came from M2M100 or NLLB.

transformers opens the folder with its `NllbTokenizer`. Importing it again gives the same tensors,
bit for bit.
"""

from __future__ import annotations

import base64
from typing import Any

from torch import Tensor

from nmt.data.composition import NFC
from nmt.data.pieces import SPECIAL, PieceModel
from nmt.data.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from nmt.interchange.exports import TAKE_CTRANSLATE2, not_segmented
from nmt.interchange.importers.huggingface_files import foreign_names, sizes_of, zero_biases
from nmt.interchange.importers.huggingface_settings import CONFIG, GENERATION, TOKENIZER
from nmt.interchange.importers.m2m100 import ALL_IDS
from nmt.interchange.importers.model_import import parts_of_layers
from nmt.models.model_file import ModelCard
from nmt.models.transformer import Transformer

_FIRST = (BOS_ID, PAD_ID, EOS_ID, UNK_ID)  # our ids of the first four pieces there


def not_m2m100(card: ModelCard) -> str | None:
    """Return what of a vocabulary an `M2M100ForConditionalGeneration` cannot have, if anything."""
    pieces = PieceModel.read(card.src_vocabulary.model)
    if not pieces.is_bpe or card.src_vocabulary.model != card.tgt_vocabulary.model:
        other = "a vocabulary other than one of byte-pair encoding for both sides"
        return f"{other}; {TAKE_CTRANSLATE2}"
    return not_segmented(card.src_vocabulary)


def m2m100_weights(model: Transformer, card: ModelCard) -> dict[str, Tensor]:
    """Return the weights by Hugging Face's names; tied ones once."""
    weights = {theirs: part for _, theirs, part in parts_of_layers(model, foreign_names)}
    weights["model.shared.weight"] = model.tgt_embedding.weight.detach()[row_ids(card)]
    return {name: weight.contiguous() for name, weight in zero_biases(weights).items()}


def m2m100_files(model: Transformer, card: ModelCard) -> dict[str, dict[str, Any]]:
    """Return the contents of the folder's JSON files."""
    assert card.languages is not None
    special = {f"{name}_token_id": id_ for id_, name in enumerate(("bos", "pad", "eos"))}
    special["decoder_start_token_id"] = special["eos_token_id"]
    config = {
        "architectures": ["M2M100ForConditionalGeneration"],
        "model_type": "m2m_100",
        **sizes_of(model.config),
        "max_position_embeddings": card.max_src_tokens + 1,
        "scale_embedding": True,
        "tie_word_embeddings": True,
        "vocab_size": len(row_ids(card)),
        "is_encoder_decoder": True,
        **special,
    }
    langs = {"src_lang": card.src_lang, "tgt_lang": card.tgt_lang}
    pieces = {  # by which the tokenizer calls them
        key: next(map(card.languages.pieces.get, card.languages.codes(lang)), None)
        for key, lang in langs.items()
    }
    tokenizer = {
        "tokenizer_class": "NllbTokenizer",
        **pieces,
        "model_max_length": card.max_src_tokens + 1,
        "extra_special_tokens": list(card.languages.pieces.values()),
    }
    generation = dict(special)
    if (lang := pieces["tgt_lang"]) is not None:  # else `generate` needs it
        pieces_of_rows = [card.src_vocabulary.pieces[id_] for id_ in row_ids(card)]
        generation["forced_bos_token_id"] = pieces_of_rows.index(lang)
    return {CONFIG: config, TOKENIZER: tokenizer, GENERATION: generation, ALL_IDS: _tokenizer(card)}


def row_ids(card: ModelCard) -> list[int]:
    """Return our id of each row there."""
    return [*_FIRST, *range(len(_FIRST), card.src_vocabulary.known)]


def _tokenizer(card: ModelCard) -> dict[str, Any]:
    """Return `tokenizer.json`: byte-pair encoding as lists of pieces and merges."""
    pieces = PieceModel.read(card.src_vocabulary.model)
    names = [card.src_vocabulary.pieces[id_] for id_ in row_ids(card)]
    ids = {name: id_ for id_, name in enumerate(names)}
    own = {name: pieces.own[name].score for name in names if name in pieces.own}
    special = [name for name in names if name not in own]
    # A piece is merged from any two pieces, those of the highest score first.
    merges = [
        (-score, index, name[:index], name[index:])
        for name, score in own.items()
        for index in range(1, len(name))
        if name[:index] in own and name[index:] in own
    ]
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    replaced = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}
    spaces = {
        "type": "Metaspace",
        "replacement": "\u2581",
        "prepend_scheme": "always",
        "split": True,
    }
    return {
        "version": "1.0",
        "added_tokens": [
            {"id": ids[name], "content": name, **flags, "special": True} for name in special
        ],
        "normalizer": {"type": "Sequence", "normalizers": [*_rules(pieces), replaced]},
        "pre_tokenizer": spaces,
        "decoder": spaces,
        "model": {
            "type": "BPE",
            "unk_token": SPECIAL[UNK_ID].text,
            "fuse_unk": True,
            "byte_fallback": False,
            "vocab": {name: ids[name] for name in (*names[: len(_FIRST)], *own)},
            "merges": [[left, right] for *_, left, right in sorted(merges)],
        },
    }


def _rules(pieces: PieceModel) -> list[dict[str, Any]]:
    """Return the rules that normalise text.

    The tokenizer applies compiled rules to five bytes at most, and by the shortest that fits. So
    Hangul and letters with two marks would not compose.
    """
    if pieces.normalization == NFC:
        return [{"type": "NFC"}, {"type": "Replace", "pattern": {"String": "\t"}, "content": " "}]
    charsmap = base64.b64encode(pieces.charsmap).decode()
    return [{"type": "Precompiled", "precompiled_charsmap": charsmap}] if charsmap else []
