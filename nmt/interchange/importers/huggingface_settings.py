"""Settings of Hugging Face's folders: which are harmless, and which are refused by their names.

A folder says more than sizes: which tokens transformers forces or bars, how a tokenizer treats
text. `nmt` translates as transformers does, or refuses the setting in the way. What it does not
know is refused, too, because it may change translations.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from nmt.data.pieces import SPECIAL
from nmt.data.vocabulary import EOS_ID, PAD_ID, UNK_ID
from nmt.errors import DataError, UsageError
from nmt.interchange.importers.model_import import WITHOUT_PIECE, only
from nmt.system.files import read_file
from nmt.tables.json_values import json_object

CONFIG, TOKENIZER = "config.json", "tokenizer_config.json"
GENERATION, _SPECIAL_TOKENS = "generation_config.json", "special_tokens_map.json"
_ADDED = "added_tokens.json"
_ADAPTER = "adapter_config.json"
_MOST_IDS = 1 << 24
_ID = re.compile("[0-9]{1,9}")
_OTHER_MODELS = (_ADAPTER, "configuration_*.py", "modeling_*.py", "tokenization_*.py")
"""Files that make another model of a folder."""

MARIAN, M2M100 = "marian", "m2m_100"
ARCHITECTURES = {MARIAN: "MarianMTModel", M2M100: "M2M100ForConditionalGeneration"}
_TOKENIZERS = {
    MARIAN: ("MarianTokenizer",),
    M2M100: ("M2M100Tokenizer", "NllbTokenizer", "NllbTokenizerFast"),
}
_DEFAULTS: dict[str, dict[str, object]] = {MARIAN: {"scale_embedding": False}, M2M100: {}}
"""Values of keys that are missing in config.json, if they are not those that we need."""

_KNOWN = frozenset(
    # What the import reads.
    "activation_function added_tokens_decoder additional_special_tokens architectures "
    "bad_words_ids bos_token_id d_model decoder_attention_heads decoder_ffn_dim "
    "decoder_layers decoder_start_token_id decoder_vocab_size dropout "
    "encoder_attention_heads encoder_ffn_dim encoder_layers eos_token_id exported_by_nmt "
    "extra_special_tokens forced_bos_token_id max_position_embeddings model_max_length "
    "model_type pad_token_id separate_vocabs share_encoder_decoder_embeddings source_lang "
    "src_lang target_lang tgt_lang tie_word_embeddings tokenizer_class vocab_size "
    # Records.
    "_commit_hash _from_model_config _name_or_path _num_labels dtype finetuning_task "
    "id2label label2id name_or_path num_labels problem_type torch_dtype "
    "transformers_version "
    # Of training.
    "activation_dropout attention_dropout classif_dropout classifier_dropout "
    "decoder_layerdrop encoder_layerdrop gradient_checkpointing init_std "
    # Of search, for which `nmt translate` has its own options.
    "early_stopping forced_eos_token_id length_penalty max_length max_new_tokens num_beams "
    "num_return_sequences renormalize_logits temperature top_k top_p "
    # What transformers returns and how it computes.
    "_attn_implementation _attn_implementation_autoset attn_implementation "
    "cache_implementation output_attentions output_hidden_states output_past output_scores "
    "return_dict return_dict_in_generate tf_legacy_loss torchscript use_bfloat16 use_cache "
    # Sizes that follow from others.
    "extra_pos_embeddings num_hidden_layers num_madeup_words unk_token_id "
    # Names of files, the form of batches, and tokens that translation does not use.
    "backend bos_token clean_up_tokenization_spaces cls_token is_local local_files_only "
    "mask_token model_input_names pad_to_multiple_of pad_token_type_id padding_side "
    "processor_class return_tensors sep_token source_spm special_tokens_map_file spm_file "
    "stride target_spm target_vocab_file tokenizer_file truncation_side truncation_strategy "
    "use_fast vocab_file".split()
)
"""Keys that the import reads, and those that change only how one searches, or nothing."""

_ONLY = (
    only("add_cross_attention do_blenderbot_90_layernorm do_sample is_decoder", False)
    | only("force_bos_token_to_be_generated legacy_behaviour remove_invalid_values", False)
    | only("split_special_tokens tie_encoder_decoder", False)
    | only("is_encoder_decoder", True)
    | only("chunk_size_feed_forward diversity_penalty encoder_no_repeat_ngram_size", 0)
    | only("min_length no_repeat_ngram_size", 0)
    | only("num_beam_groups repetition_penalty", 1)
    | only("prefix", "")
    | only("pruned_heads sp_model_kwargs", {})
    | only("eos_token", SPECIAL[EOS_ID].text)
    | only("pad_token", SPECIAL[PAD_ID].text)
    | only("unk_token", SPECIAL[UNK_ID].text)
)
"""Keys that may only have one value."""

NO_TEXT = {*(piece.text for piece in SPECIAL.values()), "<mask>"}
"""Pieces that tokenizers list among those that were added, but that no text has."""


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; DataError if the file is missing or damaged."""
    try:
        values = json_object(read_file(path))
    except FileNotFoundError:
        raise DataError(
            f"{path}: no such file; nmt imports Hugging Face folders of MarianMT, M2M100 and NLLB"
        ) from None
    if values is None:
        raise DataError(f"{path}: damaged: not a JSON object")
    return values


def read_if_there(path: Path) -> dict[str, Any]:
    """Read a JSON object; an empty one if the file is missing."""
    return read_json(path) if path.exists() else {}


def numbered(path: Path, ids: Mapping[str, Any]) -> dict[int, str]:
    """Return the piece of each id; DataError, naming the path, if they are not ids."""
    texts = dict[int, str]()
    for text, id_ in ids.items():
        if type(id_) is not int or not 0 <= id_ < _MOST_IDS or id_ in texts:
            raise DataError(f"{path}: damaged: {text!r} has the id {id_!r}")
        texts[id_] = text
    return texts


def content_of(token: Any) -> Any:
    """Return the text of a token, which files have with or without properties."""
    return token.get("content") if isinstance(token, Mapping) and "content" in token else token


def model_type_of(path: Path, values: Mapping[str, Any]) -> str:
    """Return the type of a model by its config.json, MarianMT without one (UsageError)."""
    model_type, architectures = values.get("model_type", MARIAN), values.get("architectures")
    known = model_type if isinstance(model_type, str) else ""
    if known not in ARCHITECTURES or architectures not in (None, [ARCHITECTURES[known]]):
        raise UsageError(
            f"{path}: model_type is {model_type!r:.40}, architectures {architectures!r:.60}; nmt "
            f"imports {' and '.join(ARCHITECTURES.values())}"
        )
    return known


def check_folder(folder: Path, model_type: str, only: dict[str, tuple[object, ...]]) -> None:
    """Check that no file of a folder says what would change translations.

    only: these values of config.json, which this type of model needs.
    UsageError if one does, naming the file and the key.
    """
    for path in sorted(path for pattern in _OTHER_MODELS for path in folder.glob(pattern)):
        raise UsageError(f"{path}: changes the model in a way that nmt does not know")
    allowed = {**_ONLY, **only, "tokenizer_class": _TOKENIZERS[model_type]}
    for path, values in settings_of(folder):
        defaults = _DEFAULTS[model_type] if path.name == CONFIG else {}
        for key, value in {**defaults, **values}.items():
            wanted = allowed.get(key)
            if value is None or (wanted is None and key in _KNOWN):
                continue
            if wanted is None:
                raise UsageError(
                    f"{path}: nmt does not know {key}, which is {value!r:.40}; remove it if "
                    "translations do not depend on it"
                )
            if content_of(value) not in wanted:
                raise UsageError(
                    f"{path}: {key} is {value!r:.60}; nmt imports only models with "
                    f"{' or '.join(map(repr, wanted))}"
                )


def settings_of(folder: Path) -> list[tuple[Path, dict[str, Any]]]:
    """Return the files of a folder that have settings, and what they say; DataError without any."""
    if not (folder / CONFIG).exists() and (folder / _ADAPTER).exists():
        raise DataError(f"{folder / _ADAPTER}: is no model; merge the adapter into its model first")
    paths = [folder / name for name in (CONFIG, GENERATION, TOKENIZER, _SPECIAL_TOKENS)]
    return [(path, read_json(path)) for path in paths if path.name == CONFIG or path.exists()]


def check_search(folder: Path, produced: Collection[int]) -> None:
    """Check what a folder says of tokens that search must produce, or must not.

    produced: the ids that our search may produce.
    UsageError if it says more than that.
    """
    ids = dict[str, object]()
    for path, values in settings_of(folder):
        words = values.get("bad_words_ids") or []
        for word in words if isinstance(words, list) else [words]:
            match word:
                case [int(id_)] if id_ not in produced:
                    pass
                case _:
                    raise UsageError(f"{path}: bad_words_ids bars {word!r:.40}; nmt does not")
        for key in ("bos", "decoder_start", "eos", "forced_bos", "pad"):
            value = values.get(f"{key}_token_id")
            if value is not None and ids.setdefault(key, value) != value:
                raise UsageError(f"{path}: {key}_token_id is {value!r}, elsewhere {ids[key]!r}")


def added_tokens(folder: Path, tokenizer: Collection[Mapping[str, Any]] = ()) -> dict[int, str]:
    """Return the pieces that a folder's tokenizer adds to its vocabulary, by id.

    tokenizer: those that `tokenizer.json` lists.
    DataError if its files contradict each other. UsageError if pieces are words only between
    spaces, which nmt cannot do.
    """
    ids, path = read_if_there(folder / _ADDED), folder / TOKENIZER
    listed = read_if_there(path).get("added_tokens_decoder") or {}
    if not isinstance(listed, Mapping):
        raise DataError(f"{path}: damaged: added_tokens_decoder is {listed!r:.40}")
    entries = [(token.get("id"), token) for token in tokenizer]
    entries += [(int(id_) if _ID.fullmatch(id_) else id_, token) for id_, token in listed.items()]
    for id_, token in entries:
        text = content_of(token)
        if not isinstance(token, Mapping) or not isinstance(text, str):
            raise DataError(f"{path}: damaged: added_tokens_decoder has {token!r:.40}")
        if token.get("single_word"):
            raise UsageError(f"{path}: {text} has single_word, which nmt does not know")
        if ids.setdefault(text, id_) != id_:
            raise DataError(f"{path}: {text} has another id in another file")
    return numbered(path, ids)


def with_added(
    path: Path, texts: Mapping[int, str], added: Mapping[int, str]
) -> tuple[dict[int, str], set[str]]:
    """Return a vocabulary with its added pieces, and those that are split off from text.

    path: of the vocabulary; texts: its pieces by id; added: see `added_tokens`.
    DataError if an id or a piece is there twice.
    """
    ids = {text: id_ for id_, text in texts.items()}
    for id_, text in added.items():
        if texts.get(id_, text) != text or ids.get(text, id_) != id_:
            other = f"that of {texts[id_]!r}" if id_ in texts else str(ids[text])
            raise DataError(f"{path}: the id of {text!r} is {id_} and {other}")
    split_off = {text for text in added.values() if not WITHOUT_PIECE.fullmatch(text)} - NO_TEXT
    return {**texts, **added}, split_off
