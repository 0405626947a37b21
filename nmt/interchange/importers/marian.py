"""Models of Marian: `model.npz` or `model.bin`, and the SentencePiece models of its training.

`model.npz.decoder.yml`, which Marian writes beside a model, names them. A model holds its options
in the array `special:model.yml`. Packages of OPUS-MT segment text outside of Marian: `decoder.yml`
names a list of pieces, and `source.spm` and `target.spm` lie beside it.
"""

from __future__ import annotations

import contextlib
import re
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from torch import Tensor

from nmt import console
from nmt.config.model_config import TransformerConfig
from nmt.config.recipes import model_config_from
from nmt.data.compressed import check_unpacked
from nmt.data.pieces import SPECIAL, Kind, PieceModel
from nmt.data.vocabulary import BOS_ID, EOS_ID, PAD_ID, TAG, UNK_ID, read_parsed
from nmt.errors import DataError, UsageError
from nmt.interchange.importers.huggingface_files import Config, Weights
from nmt.interchange.importers.model_import import (
    EMBEDDINGS,
    OUTPUT_BIAS,
    ForeignModel,
    VocabularyMapping,
    check_can_be_ours,
    map_vocabulary,
    only,
    read_pieces,
    tags_of,
    write_imported,
)
from nmt.interchange.importers.segmenters import ImportOptions
from nmt.interchange.importers.yaml_settings import settings_in
from nmt.interchange.marian_binary import SUFFIX, BinaryArrays
from nmt.interchange.programs import MARIAN_EPSILON
from nmt.system.files import open_file, read_file

OPTIONS = "special:model.yml"
LISTING = ".decoder.yml"
OUTPUT_BIAS_NAME = "decoder_ff_logit_out_b"
INPUT_FACTOR = "_QuantMultA"
"""Ends the names of the factors that inputs of a product are multiplied by, if they are rounded."""
_PIECES = ".spm"
_ENTRY = re.compile(r"(?:\? )?(?P<piece>.{0,1000}): (?P<id>\d{1,9})")
_VECTOR = re.compile(r".*_(b\w?|(scale|bias)(_pre)?)")
_LACKING = "it is no complete model of Marian"
_NOT_UTF_8 = re.compile("[\ud800-\udfff]")  # as surrogateescape has it

# What our Transformer needs. Other values are another model.
_ONLY = (
    only("type", "transformer")
    | only("transformer-decoder-autoreg", "self-attention", "rnn")
    | only("transformer-tied-layers input-types", [])
    | only("transformer-ffn-depth", 2)
    | only("transformer-decoder-ffn-depth", 0, 2)
    | only("transformer-ffn-activation", "relu", "swish", "gelu")
    | only("transformer-no-projection transformer-no-bias transformer-no-affine", False)
    | only("transformer-train-position-embeddings", False)
    | only("transformer-disable-position-embeddings transformer-pool right-left ulr", False)
    | only("transformer-attention-mask", "default")
    | only("factors-dim-emb lemma-dim-emb", 0)
)
PRE_NORM = {("", "dan", ""): False, ("n", "da", "n"): True}
"""By pre-process, post-process and post-process-top."""

_LAYER = {
    "attention.qkv": "self_Wq self_Wk self_Wv",
    "attention.output": "self_Wo",
    "attention.weight": "rnn_W rnn_Wf",  # of SSRU
    "attention.bias": "rnn_bf",
    "after_attention.norm": "self_Wo_ln",
    "cross_attention.query": "context_Wq",
    "cross_attention.key_value": "context_Wk context_Wv",
    "cross_attention.output": "context_Wo",
    "after_cross_attention.norm": "context_Wo_ln",
    "feed_forward.inner": "ffn_W1",
    "feed_forward.outer": "ffn_W2",
    "after_feed_forward.norm": "ffn_ffn_ln",
}
"""Our weights of a layer, and theirs, which are stacked; Marian's matrices are transposed. Names of
biases have a b for the W, and a norm has a scale and a bias."""

_TABLES = {
    "src_embedding.weight": "encoder_Wemb Wemb",
    "tgt_embedding.weight": "decoder_Wemb Wemb",
    "output_projection": "decoder_ff_logit_out_Wt decoder_ff_logit_out_W decoder_Wemb Wemb",
    OUTPUT_BIAS: OUTPUT_BIAS_NAME,
}


def import_marian(path: Path, out: Path, options: ImportOptions) -> None:
    """Write a model of Marian as a model file.

    path: `model.npz` or `model.bin`, or the `decoder.yml` that names it, or their folder.
    options: a segmenter is a SentencePiece model or a list of pieces; if there is none, those that
        `decoder.yml` names are taken.
    DataError if a file is missing or damaged. UsageError if our Transformer cannot be this model,
    or a language is missing.
    """
    options = options.with_langs(path)
    model, pieces = _files(_listing_of(path) if path.is_dir() else path, options.segmenters)
    arrays = _open_arrays(model)
    config = _model_config(model, _options_of(model, arrays))
    weights = _weights_of(model, arrays, config)
    src, tgt = _mappings(pieces, weights)
    if (script := pieces[0].with_name("preprocess.sh")).exists():
        console.notice(
            f"{script}: is not run; if it replaces punctuation, do the same with your text"
        )
    foreign = ForeignModel(config, src, tgt, options.langs, languages=tags_of(src.vocabularies[0]))
    write_imported(out, model, foreign, weights.of, weights.unread)


def _listing_of(folder: Path) -> Path:
    """Return the `decoder.yml` of a folder."""
    found = sorted(folder.glob(f"*{LISTING[1:]}"))
    if len(found) != 1:
        names = ", ".join(path.name for path in found) or "none"
        raise DataError(f"{folder}: should have one {LISTING[1:]}, but has {names}; name the file")
    return found[0]


def _files(path: Path, vocabularies: Sequence[Path]) -> tuple[Path, list[Path]]:
    """Return the files of the model and of its two vocabularies; given: those of the user."""
    pieces = [vocabularies[0], vocabularies[-1]] if vocabularies else []
    if pieces and path.suffix != ".yml":
        return path, pieces
    listing = path if path.suffix == ".yml" else path.with_name(path.name + LISTING)
    values = _read_yaml(listing)
    folder = listing.parent if values.get("relative-paths") else Path()
    models = _listed(listing, values, "models", 1)
    model = folder / models[0] if path == listing else path
    if not pieces:
        for path in (folder / name for name in _listed(listing, values, "vocabs", 2)):
            moved = listing.parent / path.name  # beside the list, after both were moved
            pieces.append(path if path.exists() or not moved.exists() else moved)
    return model, pieces


def _listed(listing: Path, values: Mapping[str, Any], name: str, count: int) -> list[str]:
    names = values.get(name)
    if not isinstance(names, list) or len(names) != count:
        raise DataError(f"{listing}: {name} is {names!r}; nmt imports models with {count} of them")
    return [str(name) for name in names]


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        return settings_in(read_file(path).decode(), path)
    except FileNotFoundError:
        raise DataError(
            f"{path}: no such file; it would name the vocabularies, so give them with --vocab"
        ) from None
    except UnicodeDecodeError:
        raise DataError(f"{path}: damaged: not UTF-8") from None


def _options_of(path: Path, arrays: Any) -> dict[str, Any]:
    """Return the options with which a model was trained."""
    if OPTIONS not in arrays.files:
        raise DataError(f"{path}: lacks {OPTIONS}; {_LACKING}")
    # Newer files end the options with a NUL, and fill up with more.
    text = _array_of(path, arrays, OPTIONS).tobytes().partition(b"\0")[0].decode(errors="replace")
    return settings_in(text, path)


def _model_config(path: Path, options: dict[str, Any]) -> TransformerConfig:
    """Return the configuration of our Transformer; UsageError if it cannot be this model."""
    number = Config(path, options).number
    is_recurrent = options.get("transformer-decoder-autoreg") == "rnn"
    needed = dict.fromkeys(("dec-cell", "transformer-ffn-activation"))
    only = {**_ONLY, "dec-cell": ("ssru",)} if is_recurrent else _ONLY
    check_can_be_ours(path, needed | options, only)
    names = [f"transformer-{name}" for name in ("preprocess", "postprocess", "postprocess-top")]
    norms = tuple(str(options.get(name) or "") for name in names)
    if norms not in PRE_NORM:
        raise UsageError(
            f"{path}: {', '.join(names)} are {norms}; nmt imports only "
            f"{' and '.join(map(str, PRE_NORM))}"
        )
    d_ff, of_decoder = number("transformer-dim-ffn"), "transformer-decoder-dim-ffn"
    if options.get(of_decoder) and number(of_decoder) != d_ff:
        raise UsageError(f"{path}: nmt has no models whose sides differ in transformer-dim-ffn")
    ties = options.get("tied-embeddings-all"), options.get("tied-embeddings")
    config = TransformerConfig(
        num_encoder_layers=number("enc-depth"),
        num_decoder_layers=number("dec-depth"),
        d_model=number("dim-emb"),
        d_ff=d_ff,
        num_heads=number("transformer-heads"),
        pre_norm=PRE_NORM[norms],
        norm_epsilon=MARIAN_EPSILON,
        feed_forward=options["transformer-ffn-activation"],
        decoder_memory="ssru" if is_recurrent else "attention",
        attention_bias=True,
        output_bias=True,
        first_input="zeros",
        positions="sinusoidal_halves",
        # With tied-embeddings-src, both embeddings are copies of one.
        tie_embeddings="all" if ties[0] else "decoder" if ties[1] else "none",
        dropout=0.1,
    )
    model_config_from("transformer", asdict(config), str(path))  # checks all values
    return config


def _mappings(
    paths: Sequence[Path], weights: Weights
) -> tuple[VocabularyMapping, VocabularyMapping]:
    """Return our ids of both sides; they are the same if the sides share their embeddings."""
    texts = [pieces_by_id(path) for path in paths]
    for path, table, pieces in zip(paths, EMBEDDINGS, texts, strict=False):
        rows, size = len(weights.of(table)), max(pieces, default=-1) + 1
        if rows != size:
            raise DataError(
                f"{path}: has {size:,} pieces, but {weights.path} has {rows:,}; name the "
                "vocabulary that it was trained with"
            )
    is_joint = "Wemb" in weights.names
    if is_joint and read_file(paths[0]) != read_file(paths[1]):
        raise UsageError(f"{paths[0]}: differs from {paths[1]}, but the model has one vocabulary")
    models = [
        path if path.suffix == _PIECES else _segmenter(path, side)
        for path, side in zip(paths, ("source", "target"), strict=True)
    ]
    src, tgt = map(read_pieces, models)
    if is_joint:
        joint = _own_ids(paths[0], texts[0], [src, tgt])
        return joint, joint
    return _own_ids(paths[0], texts[0], [src]), _own_ids(paths[1], texts[1], [tgt])


def _segmenter(path: Path, side: str) -> Path:
    """Return the SentencePiece model of a side beside a list of pieces, as OPUS-MT has them."""
    model = path.with_name(f"{side}{_PIECES}")
    other, truecaser = model.with_suffix(".bpe"), model.with_suffix(".tcmodel")
    if not model.exists() and other.exists():
        raise UsageError(f"{other}: is of subword-nmt; nmt imports only models of SentencePiece")
    if truecaser.exists() and truecaser.stat().st_size:
        raise UsageError(f"{truecaser}: nmt has no models that change the case of words")
    return model


def pieces_by_id(path: Path) -> dict[int, str]:
    """Return the pieces of a SentencePiece model, or of a list as Marian reads it.

    A list has a piece on each line, or in YAML a piece and its id. Its lines are read one by one:
    Marian writes some of YAML's line breaks, and bytes that are not UTF-8, as they are. The latter
    become rows without a piece.
    """
    if path.suffix == _PIECES:
        is_unknown = {piece.text: piece.kind is Kind.UNKNOWN for piece in read_pieces(path).pieces}
        return dict(enumerate("<unk>" if is_unknown[text] else text for text in is_unknown))
    content = read_parsed(path, bytes).decode(errors="surrogateescape").replace("\r\n", "\n")
    if path.suffix != ".yml":
        return dict(enumerate(content.removesuffix("\n").split("\n")))
    texts = dict[int, str]()
    for line in content.removesuffix("\n").replace("\n: ", ": ").split("\n"):
        entry = _ENTRY.fullmatch(line)
        text = None if entry is None else _unquoted(entry["piece"])
        if entry is None or text is None or int(entry["id"]) in texts:
            raise DataError(f"{path}: damaged: {line!r:.80} is not a piece with its own id")
        texts[int(entry["id"])] = text
    return {id_: text for id_, text in texts.items() if not _NOT_UTF_8.search(text)}


def _unquoted(key: str) -> str | None:
    """Return what a key of YAML stands for; None if it is damaged."""
    if not (len(key) > 1 and key[0] == key[-1] and key[0] in "\"'"):
        return key
    if _NOT_UTF_8.search(key) or not ("\\" in key or "''" in key):
        return key[1:-1]
    with contextlib.suppress(yaml.YAMLError):
        return str(yaml.safe_load(key))
    return None


def _own_ids(
    path: Path, texts: Mapping[int, str], models: Sequence[PieceModel]
) -> VocabularyMapping:
    """Return our ids for Marian's, which are those of `texts`."""
    ids = {text: id_ for id_, text in texts.items()}
    end, unknown = (ids.get(SPECIAL[id_].text) for id_ in (EOS_ID, UNK_ID))
    if end is None or unknown is None:
        raise DataError(f"{path}: has no </s> or no <unk>, which Marian needs")
    special = {EOS_ID: end, **dict.fromkeys((PAD_ID, UNK_ID, BOS_ID), unknown)}
    kinds = (piece for model in models for piece in model.pieces if piece.kind is Kind.CONTROL)
    controls = {piece.text for piece in kinds}
    if path.suffix != _PIECES:
        controls |= set(filter(TAG.fullmatch, ids))
    return map_vocabulary(models, texts, special, controls=controls, borrowed=(PAD_ID, BOS_ID))


def foreign_names(ours: str, config: TransformerConfig) -> list[str]:
    """Return the names of a layer's weight, or of a last norm, in Marian's file."""
    if ours.startswith(("encoder_norm", "decoder_norm")):
        return [f"{ours.partition('_')[0]}_top_ln_{'scale' if 'weight' in ours else 'bias'}"]
    side, layer, kind = ours.split(".", 2)
    ours_of_both = kind if kind in _LAYER else re.sub(r"[._](weight|bias)$", "", kind)
    names = [f"{side}_l{int(layer) + 1}_{name}" for name in _LAYER[ours_of_both].split()]
    if "norm" not in kind:
        is_bias = ours_of_both != kind and kind.endswith("bias")
        return [name.replace("_W", "_b") for name in names] if is_bias else names
    names = [f"{name}_{'scale' if 'weight' in kind else 'bias'}" for name in names]
    if kind.startswith("after_attention") and side == "decoder" and config.decoder_memory == "ssru":
        unit = "rnn" if config.pre_norm else "rnn_ffn"
        names = [name.replace("self_Wo", unit) for name in names]
    return [f"{name}_pre" for name in names] if config.pre_norm else names


def is_vector(theirs: str) -> bool:
    """Whether an array is a vector, which Marian stores as (1, outputs)."""
    return bool(_VECTOR.fullmatch(theirs))


def _open_arrays(path: Path) -> Any:
    """Open the arrays of a model; DataError if there are none."""
    try:
        if path.suffix == SUFFIX:
            return BinaryArrays(path)
        arrays = np.load(open_file(path), allow_pickle=False)
        for member in arrays.zip.infolist():
            check_unpacked(f"{path}: {member.filename}", member.compress_size, member.file_size)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except (ValueError, OSError, zipfile.BadZipFile, EOFError, AttributeError):
        raise DataError(f"{path}: damaged, or not a model.npz of Marian") from None
    return arrays


def _array_of(path: Path, arrays: Any, name: str) -> Any:
    try:
        return arrays[name]
    except (ValueError, OSError, zipfile.BadZipFile, zlib.error, EOFError, MemoryError):
        raise DataError(f"{path}: damaged: {name} cannot be read") from None


def _weights_of(path: Path, arrays: Any, config: TransformerConfig) -> Weights:
    """Return the arrays by our names for them."""

    def read(name: str) -> Tensor:
        array = _array_of(path, arrays, name)
        if array.dtype != np.float32 or array.ndim != 2:
            raise DataError(f"{path}: {name} is not a matrix in fp32")
        weight = torch.from_numpy(array)
        if is_vector(name):
            return weight[0]
        # Tables are (V, D), and all other matrices (inputs, outputs).
        return weight if name.endswith(("Wemb", "_Wt")) else weight.t()

    names = [name for name in arrays.files if name != OPTIONS and not name.endswith(INPUT_FACTOR)]
    names_of = partial(foreign_names, config=config)
    return Weights(path, names, read, tables=_TABLES, names_of=names_of, lacking=_LACKING)
