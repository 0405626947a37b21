"""Export to Hugging Face: a folder that transformers opens, as a `MarianMTModel` or M2M100.

It is what `huggingface` imports. Exporting and importing again gives the same tensors, bit for bit.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from nmt import console
from nmt.data.vocabulary import BOS_ID, EOS_ID, PAD_ID, STRANGE, UNK_ID, Vocabulary
from nmt.errors import DataError, UsageError
from nmt.files import atomic_folder, check_room, parse_json, resolved, write_text
from nmt.interchange.foreign import ANY_SIZE, EMBEDDINGS, not_expressed
from nmt.interchange.huggingface_files import (
    CONFIG,
    TOKENIZER,
    WEIGHTS,
    foreign_names,
    interleaved,
    residual_dimension,
    sizes_of,
    zero_biases,
)
from nmt.interchange.m2m100 import PIECES
from nmt.interchange.m2m100_export import m2m100_files, m2m100_weights, not_m2m100
from nmt.interchange.marian_mt import EXPORTED, IDS, SRC_PIECES, TGT_IDS, TGT_PIECES
from nmt.model_config import TransformerConfig
from nmt.models.model_file import ModelCard, load_model
from nmt.models.positions import sinusoids_by_halves
from nmt.models.transformer import Transformer

_MARIAN_S_EPSILON = 1e-6
_MORE_POSITIONS = 512
_GENERATION, _README = "generation_config.json", "README.md"

_EXPRESSED: dict[str, tuple[object, ...] | None] = {
    **ANY_SIZE,
    "feed_forward": ("relu", "swish", "gelu"),
    "positions": ("sinusoidal", "sinusoidal_halves"),
    "norm_epsilon": (0.0, 1e-5, _MARIAN_S_EPSILON),
    "first_input": None,
}
"""See `not_expressed`."""


def export_huggingface(path: Path, out: Path) -> None:
    """Export a model. The folder appears when it is complete.

    Args:
        path: a model file or run folder.
        out: a folder that does not exist, or an earlier export, which is replaced.

    Raises:
        UsageError: if no model of transformers can be this one, naming the option in the way.
    """
    out = resolved(out)
    if out.exists():
        _check_replaceable(out)
    model, card = load_model(path)
    # In these the decoder reads a language.
    is_m2m100 = card.languages is not None and bool(card.languages.tgt)
    kind = "M2M100ForConditionalGeneration" if is_m2m100 else "MarianMTModel"
    if not isinstance(model, Transformer):
        raise UsageError(f"{path}: {kind} cannot be of architecture {card.architecture}")
    if fault := (not_m2m100 if is_m2m100 else _not_expressed)(model, card):
        raise UsageError(f"{path}: {kind} cannot have {fault}")
    if model.config.norm_epsilon == _MARIAN_S_EPSILON:
        console.warning(
            f"{out}: transformers computes norms with 1e-5 instead of Marian's 1e-6; expect "
            "log-probabilities to differ in the third decimal"
        )
    weights = (m2m100_weights if is_m2m100 else _weights)(model, card)
    files = (m2m100_files if is_m2m100 else _files)(model, card)
    files[CONFIG][EXPORTED] = model.config.positions
    names = [PIECES] if is_m2m100 else [SRC_PIECES, TGT_PIECES]
    with atomic_folder(out) as folder:
        check_room(folder, sum(weight.nbytes for weight in weights.values()))
        save_file(weights, folder / WEIGHTS, {"format": "pt"})
        (folder / WEIGHTS).chmod(0o644)
        for name, vocabulary in zip(
            names, (card.src_vocabulary, card.tgt_vocabulary), strict=False
        ):
            (folder / name).write_bytes(vocabulary.model)
        for name, values in files.items():
            content = json.dumps(values, indent=2, ensure_ascii=False)
            write_text(folder / name, f"{content}\n")
        write_text(folder / _README, _readme(card))


def _files(model: Transformer, card: ModelCard) -> dict[str, dict[str, Any]]:
    """Return the contents of the folder's JSON files."""
    files = {
        IDS: _ids(card.src_vocabulary),
        CONFIG: _config(model.config, card),
        TOKENIZER: _tokenizer(card),
        _GENERATION: _generation(model.config, card),
    }
    return files if _is_shared(card) else {TGT_IDS: _ids(card.tgt_vocabulary)} | files


def _is_shared(card: ModelCard) -> bool:
    """Whether both sides have one embedding; transformers then reads one vocab.json for both."""
    return card.config.tie_embeddings == "all"


def _check_replaceable(out: Path) -> None:
    try:
        values = parse_json((out / CONFIG).read_bytes())
    except (OSError, ValueError):
        values = None
    if not isinstance(values, dict) or EXPORTED not in values:
        raise UsageError(f"{out}: exists and is not an export; choose another folder or remove it")


def _not_expressed(model: Transformer, card: ModelCard) -> str | None:
    """Return what a `MarianMTModel` cannot express, if anything."""
    if fault := not_expressed(model.config, _EXPRESSED):
        return fault
    if card.src_vocabulary.moses is not None:
        return "the Moses preprocessing of its vocabulary"
    if card.src_vocabulary.has_added_tokens:
        return "the tokens that were added to its vocabulary"
    if model.config.first_input == "zeros" and model.tgt_embedding.weight[BOS_ID].any():
        return "first_input=zeros with a vector of bos that is not zeros"
    return None


# ---------------------------------------------------------------------------------- weights


def _weights(model: Transformer, card: ModelCard) -> dict[str, Tensor]:
    """Return the weights by Hugging Face's names; tied ones once."""
    config, weights = model.config, dict[str, Tensor]()
    order = None
    if config.positions == "sinusoidal":
        order = torch.argsort(interleaved(config.d_model))
    named = dict(model.named_parameters(remove_duplicate=False))
    sizes = card.src_vocabulary.known, card.tgt_vocabulary.known
    tables = {"model.shared.weight": (named["tgt_embedding.weight"], sizes[1])}
    if not _is_shared(card):
        tables = {
            "model.encoder.embed_tokens.weight": (named["src_embedding.weight"], sizes[0]),
            "model.decoder.embed_tokens.weight": (named["tgt_embedding.weight"], sizes[1]),
        }
    if config.tie_embeddings == "none":
        tables["lm_head.weight"] = named["output_projection"], sizes[1]
    for name, (table, size) in tables.items():
        weights[name] = _reordered(table[:size], order, 1)
    bias = torch.zeros(sizes[1]) if model.output_bias is None else model.output_bias[: sizes[1]]
    weights["final_logits_bias"] = bias[None]
    for name, weight in named.items():
        if name in EMBEDDINGS or name == "output_bias":
            continue
        dimension = residual_dimension(name)
        ordered = weight if dimension is None else _reordered(weight, order, dimension)
        _add(weights, foreign_names(name), ordered)
    if config.positions == "sinusoidal_halves":  # otherwise transformers takes its own formula
        for side in ("encoder", "decoder"):
            positions = sinusoids_by_halves(_positions(card), config.d_model)
            weights[f"model.{side}.embed_positions.weight"] = positions
    return {name: weight.detach().contiguous() for name, weight in zero_biases(weights).items()}


def _add(weights: dict[str, Tensor], names: list[str], weight: Tensor) -> None:
    """Add the parts of a weight, which are of equal size."""
    weights.update(zip(names, weight.chunk(len(names)), strict=True))


def _reordered(weight: Tensor, order: Tensor | None, dimension: int) -> Tensor:
    return weight if order is None else weight.index_select(dimension, order)


# ----------------------------------------------------------------------------------- config


def _ids(vocabulary: Vocabulary) -> dict[str, int]:
    """Return the id of each piece that `encode` can return."""
    pieces = vocabulary.tokens(range(vocabulary.known))
    ids = {piece.removeprefix(STRANGE): id_ for id_, piece in enumerate(pieces)}
    for text, id_ in (("<pad>", PAD_ID), ("<unk>", UNK_ID), ("<s>", BOS_ID), ("</s>", EOS_ID)):
        if ids.get(text) != id_:
            raise DataError(f"piece {id_} of the vocabulary is {pieces[id_]!r}, not {text!r}")
    return ids


def _config(config: TransformerConfig, card: ModelCard) -> dict[str, Any]:
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        **sizes_of(config),
        "max_position_embeddings": _positions(card),
        "scale_embedding": True,
        "static_position_embeddings": True,
        "share_encoder_decoder_embeddings": _is_shared(card),
        "tie_word_embeddings": config.tie_embeddings != "none",
        "vocab_size": card.src_vocabulary.known,
        "decoder_vocab_size": card.tgt_vocabulary.known,
        "pad_token_id": PAD_ID,
        "eos_token_id": EOS_ID,
        "decoder_start_token_id": _start(config),
        "forced_eos_token_id": EOS_ID,
        "is_encoder_decoder": True,
    }


def _positions(card: ModelCard) -> int:
    """Return the length of the table of positions, which also limits translations."""
    return 2 * card.max_src_tokens + _MORE_POSITIONS


def _start(config: TransformerConfig) -> int:
    return EOS_ID if config.first_input == "eos" else BOS_ID


def _tokenizer(card: ModelCard) -> dict[str, Any]:
    return {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": card.src_lang,
        "target_lang": card.tgt_lang,
        "unk_token": "<unk>",
        "eos_token": "</s>",
        "pad_token": "<pad>",
        "model_max_length": card.max_src_tokens + 1,
        "separate_vocabs": not _is_shared(card),
    }


def _generation(config: TransformerConfig, card: ModelCard) -> dict[str, Any]:
    barred = [id_ for id_ in card.tgt_vocabulary.barred_ids if id_ < card.tgt_vocabulary.known]
    return {
        "bad_words_ids": [[id_] for id_ in barred],
        "decoder_start_token_id": _start(config),
        "eos_token_id": EOS_ID,
        "forced_eos_token_id": EOS_ID,
        "pad_token_id": PAD_ID,
        "num_beams": 4,
        "max_length": _positions(card) - 1,
    }


def _readme(card: ModelCard) -> str:
    """Return a model card: languages, and scores where they are known."""
    codes = [lang for lang in (card.src_lang, card.tgt_lang) if lang]
    if not codes and card.languages is not None:
        codes = list(card.languages.pieces)
    languages = "\n".join(f"- {code}" for code in codes)
    direction = f" from {card.src_lang} to {card.tgt_lang}" if card.tgt_lang else ""
    data = f" on the data with the fingerprint {card.data[:12]}" if card.data else ""
    scores = "".join(
        f"- {name} {value:.4g} on the valid text\n" for name, value in card.valid.items()
    )
    return (
        f"---\nlanguage:\n{languages}\npipeline_tag: translation\n---\n\n"
        f"# Translation{direction}\n\n"
        f"A Transformer exported by `nmt`, after {card.update:,} updates{data}.\n\n{scores}"
    )
