"""Models of Hugging Face's `M2M100ForConditionalGeneration`: M2M100 and NLLB.

They translate between many languages (Fan et al. 2020, "Beyond English-Centric Multilingual
Machine Translation"; NLLB Team 2022, "No Language Left Behind"). A folder holds a SentencePiece
model, whose pieces have other ids in the model. NLLB numbers them and its languages in
`tokenizer.json`, or as fairseq does if there is none. M2M100 numbers them in `vocab.json`, and its
languages follow.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nmt.config.model_config import TransformerConfig
from nmt.data.language_tokens import LanguageTokens
from nmt.data.pieces import SPECIAL, PieceModel
from nmt.data.vocabulary import ADDED, ADDED_WITH_SPACE, BOS_ID, EOS_ID, PAD_ID
from nmt.errors import DataError
from nmt.interchange.importers import huggingface_settings as settings
from nmt.interchange.importers import model_import
from nmt.interchange.importers.huggingface_files import Config, Weights
from nmt.interchange.programs import FIRST_POSITION

PIECES, IDS = "sentencepiece.bpe.model", "vocab.json"
ALL_IDS = "tokenizer.json"

_ONLY = (
    model_import.only("scale_embedding tie_word_embeddings normalize_before", True)
    | model_import.only("add_final_layer_norm static_position_embeddings", True)
    | model_import.only("normalize_embedding add_bias_logits", False)
    | model_import.only("language_codes", "m2m100")
)
_LANGUAGE = re.compile(r"__(?!madeupword)(?P<m2m100>\w+)__|(?P<nllb>[a-z]{3}_[A-Z][a-z]{3})")

LANGUAGES = tuple(
    "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl "
    "gu ha he hi hr ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml "
    "mn mr ms my ne nl no ns oc or pa pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th "
    "tl tn tr uk ur uz vi wo xh yi yo zh zu".split()
)
"""Of M2M100, by their ids. Newer folders do not list them."""


def read_m2m100(folder: Path, hf_config: Config, weights: Weights) -> model_import.ForeignModel:
    """Read all but the weights of M2M100 or NLLB (DataError, UsageError)."""
    settings.check_folder(folder, "m2m_100", _ONLY)
    model = model_import.read_pieces(folder / PIECES)
    path, own, tokens = _pieces_by_id(folder, model)
    texts, split_off = settings.with_added(path, own, settings.added_tokens(folder, tokens))
    ids = {text: id_ for id_, text in texts.items()}
    if missing := [piece.text for piece in SPECIAL.values() if piece.text not in ids]:
        raise DataError(f"{folder}: has no {missing[0]}")
    special = {id_: ids[piece.text] for id_, piece in SPECIAL.items()}
    marks = {"bos": BOS_ID, "eos": EOS_ID, "pad": PAD_ID, "decoder_start": EOS_ID}
    needed = {f"{name}_token_id": (special[id_],) for name, id_ in marks.items()}
    model_import.check_can_be_ours(hf_config.path, hf_config.values, needed)
    texts = weights.with_all_rows(path, texts, "tgt_embedding.weight")
    languages = language_tokens(text for text in texts.values() if text not in model.own)
    if not languages:
        raise DataError(f"{folder}: has no tokens of languages, such as __en__ or eng_Latn")
    split_off -= set(languages.values())
    unused = set(texts.values()) - model.own.keys() - split_off
    marker = ADDED if path.name == IDS else ADDED_WITH_SPACE
    both = model_import.map_vocabulary(
        [model], texts, special, controls=unused, added=split_off, marker=marker
    )
    base = TransformerConfig(
        pre_norm=True,
        positions="sinusoidal_halves",
        first_position=FIRST_POSITION,
        output_bias=bool(both.barred),
        tie_embeddings="all",
    )
    config = hf_config.transformer(weights, base)
    tags = LanguageTokens(languages, src="src", tgt="tgt")
    return model_import.ForeignModel(config, both, both, languages=tags)


def language_tokens(texts: Iterable[str]) -> dict[str, str]:
    """Return the pieces that are languages, such as `__en__` or `eng_Latn`, by code."""
    found = filter(None, map(_LANGUAGE.fullmatch, texts))
    return {match["m2m100"] or match["nllb"]: match[0] for match in found}


def choose_languages(
    folder: Path, model: model_import.ForeignModel, src_lang: str | None, tgt_lang: str | None
) -> tuple[str, str]:
    """Return the languages that the user chooses, or else the folder, or "" (UsageError)."""
    assert model.languages is not None
    named: dict[str, tuple[str, str]] = {}  # by side: the language, and where it is from
    pieces = model.tgt.vocabularies[-1].pieces[: len(model.tgt.rows)]
    by_row = dict(zip(model.tgt.rows.tolist(), pieces, strict=True))
    codes = {piece: code for code, piece in model.languages.pieces.items()}
    for path, values in settings.settings_of(folder):
        if (forced := values.get("forced_bos_token_id")) is not None:
            piece = by_row.get(forced, "") if isinstance(forced, int) else ""
            code = codes.get(piece, str(forced))
            named.setdefault("tgt", (code, f"{path}: forced_bos_token_id"))
        for side in ("src", "tgt"):
            if lang := values.get(f"{side}_lang"):
                code = codes.get(str(lang), str(lang))
                named.setdefault(side, (code, f"{path}: {side}_lang"))
    chosen = []
    for side, given in (("src", src_lang), ("tgt", tgt_lang)):
        lang, origin = (given, f"--{side}") if given else named.get(side, ("", ""))
        if lang:
            model.languages.check(side, lang, origin, is_given=True)
        chosen.append(lang)
    return chosen[0], chosen[1]


def _pieces_by_id(
    folder: Path, model: PieceModel
) -> tuple[Path, dict[int, str], list[dict[str, Any]]]:
    """Return the file that numbers a folder's pieces, the pieces, and what it adds to them."""
    path, listed = folder / IDS, _languages(folder)
    is_nllb = (folder / ALL_IDS).exists() or not any(text.startswith("__") for text in listed)
    with_ids = set(settings.added_tokens(folder).values())
    if path.exists() or not is_nllb:
        ids = settings.read_json(path)
        listed = listed or [f"__{code}__" for code in LANGUAGES]
        others = (text for text in listed if text not in with_ids)
        languages = {text: len(ids) + number for number, text in enumerate(others)}
        return path, settings.numbered(path, ids | languages), []
    path = folder / ALL_IDS
    if not path.exists():  # a slow tokenizer of NLLB numbers pieces as fairseq does
        path = folder / PIECES
        texts = ["<s>", "<pad>", "</s>", "<unk>", *(piece.text for piece in model.pieces[3:])]
        texts += [text for text in [*listed, "<mask>"] if text not in with_ids]
        return path, dict(enumerate(texts)), []
    values = settings.read_json(path)
    try:
        tokens = values["added_tokens"]
        ids = values["model"]["vocab"] | {token["content"]: token["id"] for token in tokens}
    except (KeyError, TypeError):
        raise DataError(f"{path}: damaged: not a BPE tokenizer with its added tokens") from None
    return path, settings.numbered(path, ids), tokens


def _languages(folder: Path) -> list[str]:
    """Return the language tokens that a tokenizer lists, in the order of their ids."""
    for _, values in settings.settings_of(folder):
        for key in ("additional_special_tokens", "extra_special_tokens"):
            listed = values.get(key)
            tokens = listed if isinstance(listed, list) else []
            texts = map(str, map(settings.content_of, tokens))
            if languages := list(filter(_LANGUAGE.fullmatch, texts)):
                return languages
    return []
