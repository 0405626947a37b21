"""Export to Hugging Face: a folder that transformers opens, as a `MarianMTModel` or M2M100.

It is what `huggingface` imports. Exporting and importing again gives the same tensors, bit for bit.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from nmt.config.recipes import recorded_run
from nmt.data.folder import DataFolder
from nmt.data.language_tokens import LanguageTokens
from nmt.data.manifest import SplitRecord
from nmt.data.vocabulary import BOS_ID, EOS_ID, PAD_ID, STRANGE, UNK_ID, Vocabulary
from nmt.errors import DataError, UsageError
from nmt.interchange import exports, programs
from nmt.interchange.huggingface_card import language_tag, model_card
from nmt.interchange.importers import huggingface_settings as settings
from nmt.interchange.importers.huggingface_files import (
    WEIGHTS,
    foreign_names,
    sizes_of,
    zero_biases,
)
from nmt.interchange.importers.m2m100 import PIECES
from nmt.interchange.importers.marian_mt import EXPORTED, IDS, SRC_PIECES, TGT_IDS, TGT_PIECES
from nmt.interchange.importers.model_import import interleaved, parts_of_layers, residual_dimension
from nmt.interchange.m2m100_export import m2m100_files, m2m100_weights, not_m2m100, row_ids
from nmt.models.base import BARRED
from nmt.models.model_file import ModelCard
from nmt.models.positions import sinusoids_by_halves
from nmt.models.transformer import Transformer
from nmt.system.files import atomic_folder, check_room, parse_json, read_file, resolved, write_text

_MORE_POSITIONS = 512
_README = "README.md"
_SCORES = "evaluation.json"  # of a run, by `nmt evaluate`

_SEARCH = {"num_beams": 4, "length_penalty": 0.5, "early_stopping": True}
"""The defaults of `nmt translate`. length^0.5 is about as steep as its ((5 + length) / 6)^0.6."""


def export_huggingface(
    path: Path, out: Path, *, src_name: str | None = None, tgt_name: str | None = None
) -> str:
    """Export a model that fits. The folder appears when it is complete.

    out: is new, or an earlier export, which is replaced.
    src_name: of the language of sources; None: the usual English one; tgt_name: likewise.
    UsageError if it has biases that the class of transformers lacks.
    Returns what was written, in words.
    """
    out = resolved(out)
    exports.check_replaceable(out, is_export=_is_export(out))
    model, card = exports.load_transformer(path)
    is_m2m100 = _type_of(card) == settings.M2M100
    kind = settings.ARCHITECTURES[_type_of(card)]
    bias = None if model.output_bias is None else model.output_bias[: card.src_vocabulary.known]
    if is_m2m100 and bias is not None and bias.any():
        raise UsageError(f"{path}: {kind} cannot have an output_bias that is not zero")
    weights = (m2m100_weights if is_m2m100 else _weights)(model, card)
    files = (m2m100_files if is_m2m100 else _files)(model, card)
    ids = row_ids(card) if is_m2m100 else range(card.tgt_vocabulary.known)
    barred = set(card.tgt_vocabulary.barred_ids)
    files[settings.GENERATION] |= {
        **_SEARCH,
        "max_length": _positions(card) - 1,
        "forced_eos_token_id": files[settings.CONFIG]["eos_token_id"],
        "bad_words_ids": [[row] for row, id_ in enumerate(ids) if id_ in barred],
    }
    files[settings.CONFIG][EXPORTED] = model.config.positions
    names = [PIECES] if is_m2m100 else [SRC_PIECES, TGT_PIECES]
    with atomic_folder(out) as folder:
        check_room(folder, sum(weight.nbytes for weight in weights.values()))
        _save(weights, folder / WEIGHTS)
        (folder / WEIGHTS).chmod(0o644)
        exports.write_vocabularies(folder, names, card)
        for name, values in files.items():
            write_text(folder / name, json.dumps(values, indent=2, ensure_ascii=False) + "\n")
        scores, train = _scores(path / _SCORES), _train(path / "config.toml", card)
        write_text(folder / _README, model_card(card, kind, (src_name, tgt_name), scores, train))
    return "transformers"


def _train(config: Path, card: ModelCard) -> SplitRecord | None:
    """Return what a run trained on, if it tuned no other model and its data is still there."""
    run = recorded_run(config)
    with contextlib.suppress(DataError, OSError, KeyError):
        data = DataFolder.open(Path(str(run["data_path"])))
        return data.info.train if data.fingerprint == card.data and not run["init_from"] else None
    return None


def _scores(path: Path) -> list[Mapping[str, Any]]:
    """Return the scores that `nmt evaluate` has left in a run folder, if there are some."""
    if not path.is_file():
        return []
    try:
        scores: list[Mapping[str, Any]] = parse_json(read_file(path))
    except ValueError as error:
        raise DataError(f"{path}: damaged: {error}; run `nmt evaluate` again") from None
    return scores


def _save(weights: Mapping[str, Tensor], path: Path) -> None:
    """Write weights; OSError if the system refuses, for which safetensors has its own error."""
    try:
        save_file(dict(weights), path, {"format": "pt"})
    except SafetensorError as error:
        if number := re.search(r"\(os error (\d+)\)", str(error)):
            raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from None
        raise


def fault_of(card: ModelCard) -> str | None:
    """Return why no class of transformers can be a model; None if one can."""
    is_m2m100 = _type_of(card) == settings.M2M100
    form = programs.M2M100 if is_m2m100 else programs.MARIAN_MT
    if fault := form.fault(card.config):
        return fault
    fault = not_m2m100(card) if is_m2m100 else exports.not_segmented(card.src_vocabulary)
    return fault and f"{form.name} cannot have {fault}"


def _type_of(card: ModelCard) -> str:
    """Return the type of transformers: M2M100 if the decoder reads a language."""
    return settings.M2M100 if card.languages is not None and card.languages.tgt else settings.MARIAN


def _files(model: Transformer, card: ModelCard) -> dict[str, dict[str, Any]]:
    """Return the contents of the folder's JSON files."""
    config = {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        **sizes_of(model.config),
        "max_position_embeddings": _positions(card),
        "scale_embedding": True,
        "static_position_embeddings": True,
        "share_encoder_decoder_embeddings": _is_shared(card),
        "tie_word_embeddings": model.config.tie_embeddings != "none",
        "vocab_size": card.src_vocabulary.known,
        "decoder_vocab_size": card.tgt_vocabulary.known,
        "pad_token_id": PAD_ID,
        "eos_token_id": EOS_ID,
        "decoder_start_token_id": EOS_ID if model.config.first_input == "eos" else BOS_ID,
        "is_encoder_decoder": True,
    }
    tokenizer = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": card.src_lang,
        "target_lang": card.tgt_lang,
        "unk_token": "<unk>",
        "eos_token": "</s>",
        "pad_token": "<pad>",
        "model_max_length": card.max_src_tokens + 1,
        "separate_vocabs": not _is_shared(card),
    }
    special = ("decoder_start_token_id", "eos_token_id", "pad_token_id")
    files: dict[str, dict[str, Any]] = {
        IDS: _ids(card.src_vocabulary, card.languages),
        settings.CONFIG: config,
        settings.TOKENIZER: tokenizer,
        settings.GENERATION: {key: config[key] for key in special},
    }
    if not _is_shared(card):
        files[TGT_IDS] = _ids(card.tgt_vocabulary)
    return files


def _is_shared(card: ModelCard) -> bool:
    """Whether both sides have one embedding; transformers then reads one vocab.json for both."""
    return card.config.tie_embeddings == "all"


def _is_export(folder: Path) -> bool:
    with contextlib.suppress(DataError, OSError):
        return EXPORTED in settings.read_json(folder / settings.CONFIG)
    return False


def _weights(model: Transformer, card: ModelCard) -> dict[str, Tensor]:
    """Return the weights by Hugging Face's names; tied ones once."""
    config, weights = model.config, dict[str, Tensor]()
    is_theirs = config.positions == "sinusoidal"
    order = torch.argsort(interleaved(config.d_model)) if is_theirs else None
    sizes = card.src_vocabulary.known, card.tgt_vocabulary.known
    decoder = "model.shared.weight" if _is_shared(card) else "model.decoder.embed_tokens.weight"
    tables = {decoder: (model.tgt_embedding.weight, sizes[1])}
    if not _is_shared(card):
        tables["model.encoder.embed_tokens.weight"] = model.src_embedding.weight, sizes[0]
    if config.tie_embeddings == "none":
        tables["lm_head.weight"] = model.output_projection, sizes[1]
    for name, (table, size) in tables.items():
        weights[name] = table[:size] if order is None else table[:size, order]
    bias = torch.zeros(sizes[1])
    if model.output_bias is not None:
        bias += model.output_bias.detach()[: sizes[1]]
    weights["final_logits_bias"] = bias[None]
    if config.first_input == "zeros":  # which is bos's vector there, so bos is barred by its bias
        weights[decoder] = weights[decoder].detach().clone()
        weights[decoder][BOS_ID], bias[BOS_ID] = 0.0, BARRED
    for ours, theirs, part in parts_of_layers(model, foreign_names):
        dimension = residual_dimension(ours)
        if order is not None and dimension is not None:
            part = part.index_select(dimension, order)
        weights[theirs] = part
    if not is_theirs:  # otherwise transformers takes its own formula
        for side in ("encoder", "decoder"):
            positions = sinusoids_by_halves(_positions(card), config.d_model)
            weights[f"model.{side}.embed_positions.weight"] = positions
    return {name: weight.detach().contiguous() for name, weight in zero_biases(weights).items()}


def _ids(vocabulary: Vocabulary, languages: LanguageTokens | None = None) -> dict[str, int]:
    """Return the id of each piece that `encode` can return.

    languages: tokens that begin a source, which the tokenizer only reads as `>>fra<<`.
    """
    pieces = vocabulary.pieces[: vocabulary.known]
    if languages is not None:
        tags = {piece: language_tag(code) for code, piece in languages.pieces.items()}
        pieces = [tags.get(piece, piece) for piece in pieces]
    ids = {piece.removeprefix(STRANGE): id_ for id_, piece in enumerate(pieces)}
    for text, id_ in (("<pad>", PAD_ID), ("<unk>", UNK_ID), ("<s>", BOS_ID), ("</s>", EOS_ID)):
        if ids.get(text) != id_:
            raise DataError(f"piece {id_} of the vocabulary is {pieces[id_]!r}, not {text!r}")
    return ids


def _positions(card: ModelCard) -> int:
    """Return the length of the table of positions, which also limits translations."""
    return 2 * card.max_src_tokens + _MORE_POSITIONS
