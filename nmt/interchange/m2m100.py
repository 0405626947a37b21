"""Models of Hugging Face's `M2M100ForConditionalGeneration`: M2M100 and NLLB.

They translate between many languages (Fan et al. 2020, "Beyond English-Centric Multilingual
Machine Translation"; NLLB Team 2022, "No Language Left Behind"). A folder holds a SentencePiece
model, whose pieces have other ids in the model. NLLB numbers them and its languages in
`tokenizer.json`. M2M100 numbers them in `vocab.json`, and its languages follow.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nmt.data.language_tokens import LanguageTokens
from nmt.data.pieces import SPECIAL
from nmt.data.vocabulary import BOS_ID, EOS_ID, PAD_ID
from nmt.errors import DataError
from nmt.interchange.foreign import ForeignModel, map_vocabulary, read_pieces
from nmt.interchange.huggingface_files import Config, Weights, numbered, read_json
from nmt.model_config import TransformerConfig

PIECES, IDS = "sentencepiece.bpe.model", "vocab.json"
ALL_IDS, _TOKENS = "tokenizer.json", "special_tokens_map.json"

_ONLY: dict[str, object] = {"scale_embedding": True, "tie_word_embeddings": True}
FIRST_POSITION = 2  # after those that fairseq keeps for padding
_LANGUAGE = re.compile(r"__(?P<m2m100>\w+)__|(?P<nllb>[a-z]{3}_[A-Z][a-z]{3})")

# fmt: off
LANGUAGES = (
    "af", "am", "ar", "ast", "az", "ba", "be", "bg", "bn", "br", "bs", "ca", "ceb", "cs", "cy",
    "da", "de", "el", "en", "es", "et", "fa", "ff", "fi", "fr", "fy", "ga", "gd", "gl", "gu", "ha",
    "he", "hi", "hr", "ht", "hu", "hy", "id", "ig", "ilo", "is", "it", "ja", "jv", "ka", "kk", "km",
    "kn", "ko", "lb", "lg", "ln", "lo", "lt", "lv", "mg", "mk", "ml", "mn", "mr", "ms", "my", "ne",
    "nl", "no", "ns", "oc", "or", "pa", "pl", "ps", "pt", "ro", "ru", "sd", "si", "sk", "sl", "so",
    "sq", "sr", "ss", "su", "sv", "sw", "ta", "th", "tl", "tn", "tr", "uk", "ur", "uz", "vi", "wo",
    "xh", "yi", "yo", "zh", "zu",
)
# fmt: on
"""Of M2M100, by their ids. Newer folders do not list them."""


def read_m2m100(folder: Path, hf_config: Config, weights: Weights) -> ForeignModel:
    """Read all but the weights of M2M100 or NLLB.

    Raises:
        DataError: if a file is missing or damaged.
        UsageError: if our Transformer cannot be this model.
    """
    texts = _pieces_by_id(folder)
    ids = {text: id_ for id_, text in texts.items()}
    special = dict[int, int]()
    for id_, piece in SPECIAL.items():
        if piece.text not in ids:
            raise DataError(f"{folder}: has no {piece.text}")
        special[id_] = ids[piece.text]
    marks = {"bos": BOS_ID, "eos": EOS_ID, "pad": PAD_ID, "decoder_start": EOS_ID}
    hf_config.check(_ONLY | {f"{name}_token_id": special[id_] for name, id_ in marks.items()})
    last_row = len(weights.of("tgt_embedding.weight", None)) - 1
    texts.setdefault(last_row, f"<row {last_row}>")  # all rows have a share in the softmax
    model = read_pieces(folder / PIECES)
    languages = {
        match["m2m100"] or match["nllb"]: text
        for text in texts.values()
        if text not in model.own and (match := _LANGUAGE.fullmatch(text))
    }
    if not languages:
        raise DataError(f"{folder}: has no tokens of languages, such as __en__ or eng_Latn")
    unused = set(texts.values()) - model.own.keys() - {piece.text for piece in SPECIAL.values()}
    both = map_vocabulary([model], texts, special, controls=unused)
    base = TransformerConfig(
        pre_norm=True,
        positions="sinusoidal_halves",
        first_position=FIRST_POSITION,
        output_bias=bool(both.barred),
        tie_embeddings="all",
    )
    config = hf_config.transformer(weights, base)
    return ForeignModel(config, both, both, LanguageTokens(languages, src="src", tgt="tgt"))


def _pieces_by_id(folder: Path) -> dict[int, str]:
    """Return the pieces of a folder, among them those of languages."""
    path = folder / IDS
    if path.exists():
        ids = read_json(path)
        ids |= {text: id_ for id_, text in enumerate(_languages(folder), start=len(ids))}
        return numbered(path, ids)
    path = folder / ALL_IDS
    values = read_json(path)
    try:
        ids = values["model"]["vocab"] | {
            token["content"]: token["id"] for token in values["added_tokens"]
        }
    except (KeyError, TypeError):
        raise DataError(f"{path}: damaged: not a BPE tokenizer with its added tokens") from None
    return numbered(path, ids)


def _languages(folder: Path) -> list[str]:
    """Return the language tokens of M2M100 in the order of their ids."""
    path = folder / _TOKENS
    listed = read_json(path).get("additional_special_tokens") if path.exists() else None
    texts = [_text(token) for token in listed] if isinstance(listed, list) else []
    return list(filter(_LANGUAGE.fullmatch, texts)) or [f"__{lang}__" for lang in LANGUAGES]


def _text(token: Any) -> str:
    return str(token.get("content")) if isinstance(token, Mapping) else str(token)
