"""Models of Hugging Face's `MarianMTModel`, such as OPUS-MT's.

A folder holds `config.json`, `model.safetensors`, the SentencePiece models `source.spm` and
`target.spm`, and `vocab.json`, which numbers the pieces of both. Neither transformers nor its
tokenizers are needed, and no code from the folder is executed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from nmt.config import model_config_from
from nmt.data.pieces import SPECIAL, PieceModel
from nmt.data.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from nmt.errors import DataError, UsageError
from nmt.interchange.foreign import (
    EMBEDDINGS,
    OUTPUT_BIAS,
    Numbering,
    first_input,
    number,
    read_pieces,
    write_imported,
)
from nmt.model_config import TransformerConfig
from nmt.models.model_file import ModelCard

CONFIG, WEIGHTS, PICKLED = "config.json", "model.safetensors", "pytorch_model.bin"
SRC_PIECES, TGT_PIECES = "source.spm", "target.spm"
IDS, TGT_IDS, TOKENIZER = "vocab.json", "target_vocab.json", "tokenizer_config.json"

EXPORTED = "exported_by_nmt"
"""In config.json: the name of our position encoding."""

_TAG = re.compile(r">>.+<<")

# What we need to find in config.json. Other values of these are another model.
_ONLY: dict[str, object] = {
    "model_type": "marian",
    "static_position_embeddings": True,
    "scale_embedding": True,
    "normalize_before": False,
    "normalize_embedding": False,
    "add_final_layer_norm": False,
    "add_bias_logits": False,
}
_ACTIVATIONS = {"relu": "relu", "swish": "swish", "silu": "swish", "gelu": "gelu"}

_LAYER = {
    "attention.qkv": "self_attn.q_proj.W self_attn.k_proj.W self_attn.v_proj.W",
    "attention.qkv_bias": "self_attn.q_proj.b self_attn.k_proj.b self_attn.v_proj.b",
    "attention.output": "self_attn.out_proj.W",
    "attention.output_bias": "self_attn.out_proj.b",
    "after_attention.norm.weight": "self_attn_layer_norm.W",
    "after_attention.norm.bias": "self_attn_layer_norm.b",
    "cross_attention.query": "encoder_attn.q_proj.W",
    "cross_attention.query_bias": "encoder_attn.q_proj.b",
    "cross_attention.key_value": "encoder_attn.k_proj.W encoder_attn.v_proj.W",
    "cross_attention.key_value_bias": "encoder_attn.k_proj.b encoder_attn.v_proj.b",
    "cross_attention.output": "encoder_attn.out_proj.W",
    "cross_attention.output_bias": "encoder_attn.out_proj.b",
    "after_cross_attention.norm.weight": "encoder_attn_layer_norm.W",
    "after_cross_attention.norm.bias": "encoder_attn_layer_norm.b",
    "feed_forward.inner.weight": "fc1.W",
    "feed_forward.inner.bias": "fc1.b",
    "feed_forward.outer.weight": "fc2.W",
    "feed_forward.outer.bias": "fc2.b",
    "after_feed_forward.norm.weight": "final_layer_norm.W",
    "after_feed_forward.norm.bias": "final_layer_norm.b",
}
"""Our parameters of a layer, and theirs, which are stacked; W is for weight, b for bias."""

_TABLES = {
    "src_embedding.weight": ("model.encoder.embed_tokens.weight", "model.shared.weight"),
    "tgt_embedding.weight": ("model.decoder.embed_tokens.weight", "model.shared.weight"),
    "output_projection": (
        *("lm_head.weight", "model.decoder.embed_tokens.weight", "model.shared.weight"),
    ),
    OUTPUT_BIAS: ("final_logits_bias",),
}
"""Names of our other parameters, of which files have one or several."""

# The parameters of a layer whose columns, or whose rows, are dimensions of the residual stream.
_READS = (
    *("attention.qkv", "cross_attention.query", "cross_attention.key_value"),
    "feed_forward.inner.weight",
)

_ADDS = tuple(kind for kind in _LAYER if "output" in kind or "norm" in kind or "outer" in kind)

_MOST_IDS = 1 << 24


def import_huggingface(
    folder: Path, out: Path, *, src_lang: str | None, tgt_lang: str | None, positions: str | None
) -> ModelCard:
    """Write a folder's model as a model file, and return its card.

    Args:
        folder: with the files of a `MarianMTModel`.
        out: the model file.
        src_lang: of the model; None: as the folder says.
        tgt_lang: likewise.
        positions: the formula of sinusoids, `marian` or `huggingface`; None: Hugging Face's if
            `nmt export` has written the folder with it. Else Marian's, because Marian has trained
            the models of OPUS-MT.

    Raises:
        DataError: if a file is missing or damaged.
        UsageError: if our Transformer cannot be this model, or a language is not known.
    """
    given = _Config.read(folder / CONFIG)
    src_lang, tgt_lang = _languages(folder, src_lang, tgt_lang)
    src, tgt = _numberings(folder, given)
    if positions is None:
        positions = "huggingface" if given.values.get(EXPORTED) == "sinusoidal" else "marian"
    with _open_weights(folder) as weights:
        config = _model_config(given, weights, positions, tgt)
        card = ModelCard(
            architecture="transformer",
            config=config,
            src_lang=src_lang,
            tgt_lang=tgt_lang,
            src_vocabulary=src.vocabularies[0],
            tgt_vocabulary=tgt.vocabularies[-1],
            max_src_tokens=_max_src_tokens(folder, given),
            data="",
            update=0,
            valid={},
        )
        order = interleaved(config.d_model) if positions == "huggingface" else None
        write_imported(out, folder, card, lambda name: weights.of(name, order), src, tgt)
    return card


# ----------------------------------------------------------------------------------- config


@dataclass(frozen=True)
class _Config:
    """config.json."""

    path: Path
    values: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path) -> _Config:
        return cls(path, _read_json(path))

    def number(self, name: str) -> int:
        """Return a whole number that must be there.

        Raises:
            DataError: if it is not.
        """
        value = self.values.get(name)
        if type(value) is not int or value < 0:
            raise DataError(f"{self.path}: {name} is {value!r}, not a whole number")
        return value

    def of_both(self, name: str) -> int:
        """Return a number that encoder and decoder share."""
        src, tgt = (self.number(f"{side}_{name}") for side in ("encoder", "decoder"))
        if src != tgt:
            raise UsageError(
                f"{self.path}: encoder_{name} is {src} and decoder_{name} is {tgt}; nmt has only "
                "models where both are the same"
            )
        return src


def _read_json(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(
            f"{path}: no such file; nmt imports a folder of a Hugging Face MarianMT model"
        ) from None
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise DataError(f"{path}: damaged: not a JSON object")
    return values


def _languages(folder: Path, src: str | None, tgt: str | None) -> tuple[str, str]:
    """Return the languages that the user or the folder names."""
    path = folder / TOKENIZER
    values = _read_json(path) if path.exists() else {}
    found = []
    for side, given in (("source", src), ("target", tgt)):
        lang = given or values.get(f"{side}_lang")
        if not isinstance(lang, str) or not lang:
            raise UsageError(
                f"{folder}: {TOKENIZER} names no {side} language; give --src and --tgt"
            )
        found.append(lang)
    return found[0], found[1]


def _max_src_tokens(folder: Path, given: _Config) -> int:
    """Return the longest source without eos, by the tokenizer or else by the positions."""
    path, limit = folder / TOKENIZER, given.number("max_position_embeddings")
    length = _read_json(path).get("model_max_length") if path.exists() else None
    return max(1, (min(length, limit) if type(length) is int else limit) - 1)


def _model_config(
    given: _Config, weights: _Weights, positions: str, tgt: Numbering
) -> TransformerConfig:
    """Return the configuration of our Transformer.

    Raises:
        UsageError: if it cannot be this model.
    """
    values = given.values
    for name, wanted in _ONLY.items():
        if values.get(name, wanted) != wanted:
            raise UsageError(
                f"{given.path}: {name} is {values[name]!r}; nmt imports only models with {wanted!r}"
            )
    activation = values.get("activation_function")
    if activation not in _ACTIVATIONS:
        raise UsageError(
            f"{given.path}: activation_function is {activation!r}; nmt imports "
            f"{', '.join(_ACTIVATIONS)}"
        )
    embeddings = weights.of("tgt_embedding.weight", None)
    eos, start = (given.number(name) for name in ("eos_token_id", "decoder_start_token_id"))
    dropout = values.get("dropout", 0.1)
    if max(eos, start) >= len(embeddings):
        raise DataError(f"{given.path}: has special ids above the last one, {len(embeddings) - 1}")
    found = TransformerConfig(
        num_encoder_layers=given.number("encoder_layers"),
        num_decoder_layers=given.number("decoder_layers"),
        d_model=given.number("d_model"),
        d_ff=given.of_both("ffn_dim"),
        num_heads=given.of_both("attention_heads"),
        feed_forward=_ACTIVATIONS[activation],
        attention_bias=weights.has_attention_biases(),
        output_bias=bool(tgt.barred) or bool(weights.of(OUTPUT_BIAS, None).any()),
        first_input=first_input(embeddings, start, eos),
        positions="sinusoidal" if positions == "huggingface" else "sinusoidal_halves",
        tie_embeddings=_tie(values),
        dropout=dropout if isinstance(dropout, float) else 0.1,
    )
    model_config_from("transformer", asdict(found), str(given.path))  # checks all values
    return found


def _is_joint(values: Mapping[str, Any]) -> bool:
    return bool(values.get("share_encoder_decoder_embeddings", True))


def _tie(values: Mapping[str, Any]) -> str:
    if not values.get("tie_word_embeddings", True):
        return "none"
    return "all" if _is_joint(values) else "decoder"


# ------------------------------------------------------------------------------- vocabulary


def _numberings(folder: Path, given: _Config) -> tuple[Numbering, Numbering]:
    """Return our ids of both sides; they are the same if the sides share their embeddings."""
    src, tgt = (read_pieces(folder / name) for name in (SRC_PIECES, TGT_PIECES))
    src_ids = folder / IDS
    if _is_joint(given.values):
        joint = _number([src, tgt], src_ids, given)
        return joint, joint
    tgt_ids = folder / TGT_IDS
    return _number([src], src_ids, given), _number([tgt], tgt_ids, given)


def _number(models: list[PieceModel], path: Path, given: _Config) -> Numbering:
    ids = _read_json(path)
    texts = dict[int, str]()
    for text, id_ in ids.items():
        if type(id_) is not int or not 0 <= id_ < _MOST_IDS or id_ in texts:
            raise DataError(f"{path}: damaged: {text!r} has the id {id_!r}")
        texts[id_] = text
    special = {PAD_ID: given.number("pad_token_id"), EOS_ID: given.number("eos_token_id")}
    special[BOS_ID] = given.number("decoder_start_token_id")
    for id_ in (UNK_ID, PAD_ID, EOS_ID):
        if SPECIAL[id_].text not in ids:
            raise DataError(f"{path}: has no {SPECIAL[id_].text}")
        special[id_] = ids[SPECIAL[id_].text]
    size = max(texts) + 1
    return number(
        models,
        [texts.get(id_, f"<row {id_}>") for id_ in range(size)],
        special,
        controls=set(filter(_TAG.fullmatch, texts.values())),
        borrowed=[BOS_ID] if texts.get(special[BOS_ID]) != SPECIAL[BOS_ID].text else [],
    )


# ---------------------------------------------------------------------------------- weights


def interleaved(width: int) -> Tensor:
    """Return the foreign dimension of each of ours: sines and cosines take turns in ours."""
    return torch.arange(width).view(2, -1).t().flatten()


class _Weights:
    """The weights of a folder, by our names for them."""

    def __init__(self, path: Path, names: Collection[str], read: Callable[[str], Tensor]) -> None:
        self._path = path
        self._names = frozenset(names)
        self._read = read

    def of(self, ours: str, order: Tensor | None) -> Tensor:
        """Return a weight, with foreign ids as rows; order: the foreign dimension of each of ours.

        Raises:
            DataError: if the folder lacks it.
        """
        if ours in _TABLES:
            found = [name for name in _TABLES[ours] if name in self._names][:1] or _TABLES[ours][:1]
        else:
            found = foreign_names(ours)
        parts = [self._get(name) for name in found]
        weight = torch.cat(parts) if len(parts) > 1 else parts[0]  # a copy only if need be
        if ours == OUTPUT_BIAS:
            weight = weight[0]
        dimension = residual_dimension(ours)
        if order is not None and dimension is not None:
            weight = weight.index_select(dimension, order)
        return weight

    def has_attention_biases(self) -> bool:
        """Whether any bias of attention is not zero."""
        names = [name for name in self._names if re.search(r"_attn\.\w_proj|out_proj", name)]
        return any(self._get(name).any() for name in names if name.endswith(".bias"))

    def _get(self, name: str) -> Tensor:
        if name not in self._names:
            raise DataError(
                f"{self._path}: lacks {name}; it is cut short, or of another size than config.json"
            )
        weight = self._read(name)
        if weight.dim() not in (1, 2):
            raise DataError(f"{self._path}: damaged: {name} has {weight.dim()} dimensions")
        return weight


def residual_dimension(ours: str) -> int | None:
    """Return which dimension of a weight is that of the residual stream, if one is."""
    kind = ours.split(".", 2)[-1]
    if ours in EMBEDDINGS or kind in _READS:
        return 1
    return 0 if kind in _ADDS else None


def foreign_names(ours: str) -> list[str]:
    """Return the names of a layer's weight in Hugging Face's file."""
    side, layer, kind = ours.split(".", 2)
    suffixes = {"W": "weight", "b": "bias"}
    return [
        f"model.{side}.layers.{layer}.{name[:-1]}{suffixes[name[-1]]}"
        for name in _LAYER[kind].split()
    ]


@contextmanager
def _open_weights(folder: Path) -> Iterator[_Weights]:
    """Yield the weights of a folder; a pickle is read without executing anything in it."""
    path, pickled = folder / WEIGHTS, folder / PICKLED
    if path.is_file():
        try:
            with safe_open(path, framework="pt") as file:
                yield _Weights(path, list(file.keys()), file.get_tensor)
        except SafetensorError as error:
            raise DataError(f"{path}: damaged: {error}") from None
        return
    if not pickled.is_file():
        raise DataError(f"{path}: no such file")
    try:
        weights = torch.load(pickled, map_location="cpu", weights_only=True, mmap=True)
    except Exception:  # whatever a damaged file raises, or one that wants to execute something
        weights = None
    if not isinstance(weights, dict) or not all(isinstance(w, Tensor) for w in weights.values()):
        raise DataError(f"{pickled}: damaged, or holds more than tensors")
    yield _Weights(pickled, list(weights), weights.__getitem__)
