"""What the models of Hugging Face share: `config.json`, and weights by our names for them."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from nmt.config.model_config import TransformerConfig
from nmt.config.recipes import model_config_from
from nmt.data.vocabulary import BOS_ID, EOS_ID
from nmt.errors import DataError, UsageError, is_of_memory
from nmt.interchange.importers.huggingface_settings import read_json
from nmt.interchange.importers.model_import import EMBEDDINGS, OUTPUT_BIAS, first_input
from nmt.interchange.importers.segmenters import Dictionary
from nmt.models.tensor_file import SafetensorsFile
from nmt.system.files import UnchangedFile

WEIGHTS, PICKLED = "model.safetensors", "pytorch_model.bin"
_INDEX = ".index.json"  # after the name of weights that are in several files
_ACTIVATIONS = {
    "relu": "relu",
    "swish": "swish",
    "silu": "swish",
    "gelu": "gelu",
    "gated-silu": "swiglu",
}

_LAYER = {
    "attention.qkv": "self_attn.q_proj self_attn.k_proj self_attn.v_proj",
    "attention.output": "self_attn.out_proj",
    # One table is both, in models with relative positions.
    "attention.relative.keys": "self_attn.relative_positions_embeddings",
    "attention.relative.values": "self_attn.relative_positions_embeddings",
    "after_attention.norm": "self_attn_layer_norm",
    "cross_attention.query": "encoder_attn.q_proj",
    "cross_attention.key_value": "encoder_attn.k_proj encoder_attn.v_proj",
    "cross_attention.output": "encoder_attn.out_proj",
    "after_cross_attention.norm": "encoder_attn_layer_norm",
    "feed_forward.inner": "fc1",
    "feed_forward.outer": "fc2",
    "after_feed_forward.norm": "final_layer_norm",
}
"""Our weights of a layer, and theirs, which are stacked. Their biases are likewise."""

_TABLES = {
    "src_embedding.weight": "model.encoder.embed_tokens.weight model.shared.weight",
    "tgt_embedding.weight": "model.decoder.embed_tokens.weight model.shared.weight",
    "output_projection": "lm_head.weight model.decoder.embed_tokens.weight model.shared.weight",
    OUTPUT_BIAS: "final_logits_bias",
    # Only in models with learned positions.
    "src_positions.weight": "model.encoder.embed_positions.weight",
    "tgt_positions.weight": "model.decoder.embed_positions.weight",
}
"""Names of our other parameters, of which files have one or several."""

SIZES = "d_model activation_function dropout layers ffn_dim attention_heads".split()
"""Names of settings. Encoder and decoder have their own of the last three."""

_POSITIONS = re.compile(r"model\.(encoder|decoder)\.embed_positions\.weights?")

_PADDING = 127  # so many rows may have no piece: the number of rows is often rounded up


class Config(NamedTuple):
    """config.json."""

    path: Path
    values: Mapping[str, Any]

    def number(self, name: str) -> int:
        """Return a whole number that must be there; DataError if it is not."""
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

    def transformer(self, weights: Weights, base: TransformerConfig) -> TransformerConfig:
        """Return our configuration; base: what is not in config.json (UsageError)."""
        activation = self.values.get("activation_function")
        if not isinstance(activation, str) or activation not in _ACTIVATIONS:
            raise UsageError(
                f"{self.path}: activation_function is {activation!r}; nmt imports "
                f"{', '.join(_ACTIVATIONS)}"
            )
        if base.tie_embeddings != "none":
            weights.check_tied(EMBEDDINGS if base.tie_embeddings == "all" else EMBEDDINGS[1:])
        embeddings = weights.of("tgt_embedding.weight")
        eos, start = (self.number(name) for name in ("eos_token_id", "decoder_start_token_id"))
        last = len(embeddings) - 1
        if max(eos, start) > last:
            raise DataError(f"{self.path}: has special ids above the last one, {last}")
        tables = {"vocab_size": embeddings}
        if base.tie_embeddings != "all":
            tables["vocab_size"] = weights.of("src_embedding.weight")
            tables["decoder_vocab_size"] = embeddings
        for name, table in tables.items():
            if self.values.get(name) not in (None, len(table)):
                raise DataError(
                    f"{self.path}: {name} is {self.values[name]!r}, but the weights have "
                    f"{len(table):,} embeddings; fetch both files again"
                )
        dropout = self.values.get("dropout", 0.1)
        config = replace(
            base,
            num_encoder_layers=self.number("encoder_layers"),
            num_decoder_layers=self.number("decoder_layers"),
            d_model=self.number("d_model"),
            d_ff=self.of_both("ffn_dim"),
            num_heads=self.of_both("attention_heads"),
            feed_forward=_ACTIVATIONS[activation],
            attention_bias=weights.has_attention_biases(),
            first_input=first_input(embeddings, start, eos),
            dropout=dropout if isinstance(dropout, float) else 0.1,
        )
        model_config_from("transformer", asdict(config), str(self.path))  # checks all values
        return config


def of_sides(
    path: Path, sides: Sequence[Mapping[str, Any]], names: Sequence[str], special: Mapping[int, int]
) -> Config:
    """Return settings of another toolkit by the names that Hugging Face gives to the same.

    path: for messages.
    sides: the settings of encoder and decoder.
    names: those that they have for `SIZES`.
    special: the foreign ids of our special pieces.
    """
    start, end = special[BOS_ID], special[EOS_ID]
    values: dict[str, Any] = {"decoder_start_token_id": start, "eos_token_id": end}
    for ours, theirs in zip(SIZES, names, strict=True):
        src, tgt = (side.get(theirs) for side in sides)
        values |= {ours: src, f"encoder_{ours}": src, f"decoder_{ours}": tgt}
    return Config(path, values)


def sizes_of(config: TransformerConfig) -> dict[str, Any]:
    """Return the sizes of a model as values of config.json."""
    sides = {"attention_heads": config.num_heads, "ffn_dim": config.d_ff}
    return {
        "activation_function": config.feed_forward,
        "d_model": config.d_model,
        "dropout": config.dropout,
        "encoder_layers": config.num_encoder_layers,
        "decoder_layers": config.num_decoder_layers,
        **{f"{side}_{key}": n for side in ("encoder", "decoder") for key, n in sides.items()},
    }


def foreign_names(ours: str) -> list[str]:
    """Return the names of a layer's weight, or of a last norm, in Hugging Face's file."""
    if ours.startswith(("encoder_norm", "decoder_norm")):
        side, _, kind = ours.partition("_norm")
        return [f"model.{side}.layer_norm{kind}"]
    side, layer, kind = ours.split(".", 2)
    names = _LAYER[re.sub(r"[._](weight|bias)$", "", kind)].split()
    suffix = "bias" if kind.endswith("bias") else "weight"
    return [f"model.{side}.layers.{layer}.{name}.{suffix}" for name in names]


@dataclass
class Weights:
    """The weights of a model, by our names for them."""

    path: Path
    names: Collection[str]
    """Their own names, by which they are read."""
    read: Callable[[str], Tensor]
    tables: Mapping[str, str] = field(default_factory=lambda: _TABLES)
    """The names of parameters outside of layers."""
    names_of: Callable[[str], list[str]] = foreign_names
    """Returns the names of a layer's weight, or of a last norm."""
    lacking: str = "it is cut short, or smaller than its settings say"
    """What to say if a weight is not there."""
    unread: set[str] = field(init=False)
    """The names of weights that were not read yet."""

    def __post_init__(self) -> None:
        self.unread = {name for name in self.names if not _POSITIONS.fullmatch(name)}

    def of(self, ours: str) -> Tensor:
        """Return a weight, with foreign ids as rows; DataError if there is none."""
        if ours in self.tables:
            names = self.tables[ours].split()
            theirs = [next(filter(self.names.__contains__, names), names[0])]
        else:
            theirs = self.names_of(ours)
        if ours == OUTPUT_BIAS and theirs[0] not in self.names:
            return torch.zeros(len(self.of("tgt_embedding.weight")))
        parts = [self._get(name) for name in theirs]
        weight = torch.cat(parts) if len(parts) > 1 else parts[0]  # a copy only if need be
        return weight.flatten() if ours == OUTPUT_BIAS else weight

    def has_attention_biases(self) -> bool:
        """Whether any bias of attention is not zero."""
        names = [name for name in self.names if re.search(r"_attn\.\w_proj|out_proj", name)]
        return any(self._get(name).any() for name in names if name.endswith(".bias"))

    def with_all_rows(self, path: Path, texts: Mapping[int, str], ours: str) -> dict[int, str]:
        """Return the pieces of a table, with one for its last row, which has its share in softmax.

        path: of the pieces, for messages; texts: the pieces by id; ours: our name of the table.
        DataError if there are fewer rows than pieces, or more than padding explains.
        """
        rows = self.check_rows(path, max(texts, default=-1) + 1, ours, padding=_PADDING)
        return {rows - 1: f"<row {rows - 1}>", **texts}

    def check_rows(self, path: Path, size: int, ours: str, *, padding: int = 0) -> int:
        """Check that a table has as many rows as there are pieces (DataError); return how many.

        padding: how many more it may have.
        """
        rows = len(self.of(ours))
        if not 0 <= rows - size <= padding:
            raise DataError(
                f"{path}: has {size:,} pieces, but {self.path} has embeddings for {rows:,}"
            )
        return rows

    def check_sides(self, sides: Sequence[Dictionary]) -> None:
        """Check that the tables of source and target fit their dictionaries (DataError)."""
        for side, table in zip(sides, EMBEDDINGS, strict=False):
            self.check_rows(side.path, len(side.texts), table)

    def positions(self) -> list[Tensor]:
        """Return the tables of positions that there are."""
        return [self.read(name).float() for name in filter(_POSITIONS.fullmatch, self.names)]

    def check_tied(self, tables: Collection[str]) -> None:
        """Check that our tables which are one are copies of one in the folder (DataError)."""
        names = {name for ours in tables for name in self.tables[ours].split()}
        first, *others = sorted(names.intersection(self.names))
        for name in others:
            if not torch.equal(self._get(name), self._get(first)):
                raise DataError(
                    f"{self.path}: {name} differs from {first}, but its settings tie them"
                )

    def _get(self, name: str) -> Tensor:
        self.unread.discard(name)
        if name not in self.names:
            raise DataError(f"{self.path}: lacks {name}; {self.lacking}")
        weight = self.read(name)
        if not weight.is_floating_point():
            raise UsageError(f"{self.path}: {name} is in {weight.dtype}, which nmt does not import")
        if weight.dim() not in (1, 2):
            raise DataError(f"{self.path}: damaged: {name} has {weight.dim()} dimensions")
        return weight


def zero_biases(weights: dict[str, Tensor], layers: str = "_proj") -> dict[str, Tensor]:
    """Return weights with zeros for the biases that layers, by a pattern of names, may lack."""
    of_layers = re.compile(rf"({layers})\.weight$")
    zeros = {
        of_layers.sub(r"\1.bias", name): torch.zeros(len(weight))
        for name, weight in weights.items()
        if of_layers.search(name)
    }
    return zeros | weights


def renamed(tensors: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Tensor]:
    """Return tensors of another toolkit by the names that Hugging Face gives to the same.

    names: patterns of theirs, and what replaces them. What has the name "" then is left out.
    """
    found = dict[str, Tensor]()
    for theirs, tensor in tensors.items():
        name = str(theirs)
        for pattern, new in names.items():
            name = re.sub(pattern, new, name)
        if name and isinstance(tensor, Tensor):
            is_whole = name.startswith(("lm_head", "final_logits"))
            found[name if is_whole else f"model.{name}"] = tensor if tensor.dim() else tensor[None]
    return found


def open_weights(folder: Path) -> Weights:
    """Open the weights of a folder; pickles are read without executing anything in them.

    DataError if there are none, UsageError if they are of Eole.
    """
    for name, open_one in ((WEIGHTS, _open_safetensors), (PICKLED, _open_pickle)):
        path, index = folder / name, folder / f"{name}{_INDEX}"
        if path.exists():
            return open_one(path)
        if index.exists():
            return _of_shards(index, open_one)
    if (folder / "model.00.safetensors").exists():
        raise UsageError(f"{folder}: looks like a model of Eole; run nmt import eole first")
    raise DataError(f"{folder / WEIGHTS}: no such file")


def _of_shards(index: Path, open_one: Callable[[Path], Weights]) -> Weights:
    """Open the files that an index lists by weight."""
    places = read_json(index).get("weight_map")
    if not isinstance(places, dict) or not all(
        isinstance(file, str) and Path(file).name == file and file.isprintable()
        for file in places.values()
    ):
        raise DataError(f"{index}: damaged: its weight_map names no files of the folder")
    shards = {file: open_one(index.parent / file) for file in sorted(set(places.values()))}
    for name, file in places.items():
        if name not in shards[file].names:
            raise DataError(f"{index.parent / file}: lacks {name}, which {index.name} names")
    return Weights(index, places, lambda name: shards[places[name]].read(name))


def _open_safetensors(path: Path) -> Weights:
    file = SafetensorsFile(path)
    return Weights(path, file.names, file.read)


def _open_pickle(path: Path) -> Weights:
    """Read a file of torch as a whole; DataError if it is damaged, or holds more than tensors."""
    weights = read_pickle(path)
    tensors = weights.values() if isinstance(weights, dict) else (None,)
    if not all(isinstance(tensor, Tensor) for tensor in tensors):
        raise DataError(f"{path}: damaged, or holds more than tensors")
    return Weights(path, weights, weights.__getitem__)


def read_pickle(path: Path) -> Any:
    """Read a file of torch: tensors, plain values and Namespaces, and nothing is executed.

    DataError if it is missing, damaged, or holds more than that.
    """
    unchanged = UnchangedFile(path)
    try:
        with torch.serialization.safe_globals([argparse.Namespace]):
            content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # of a damaged file, or one that wants to execute something
        if is_of_memory(error):
            raise
        raise DataError(f"{path}: damaged, or holds more than tensors") from None
    unchanged.check()
    return content
