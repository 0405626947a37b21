"""Folders of CTranslate2: what its converters made of a model of another toolkit, rounded or not.

`model.bin` holds settings and weights, `config.json` the special tokens, and one list of pieces or
two their ids. What segments text lies beside them, or the user names it. A package of Argos
Translate has such a folder inside. An export of nmt has its vocabularies in its card.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from nmt import console
from nmt.config.model_config import TransformerConfig
from nmt.config.recipes import model_config_from
from nmt.data.language_tokens import LanguageTokens
from nmt.data.pieces import SPECIAL
from nmt.data.vocabulary import BOS_ID, EOS_ID, TAG
from nmt.errors import DataError, UsageError, is_of_memory
from nmt.interchange.importers.huggingface_settings import CONFIG, read_json
from nmt.interchange.importers.m2m100 import language_tokens
from nmt.interchange.importers.model_import import (
    EMBEDDINGS,
    OUTPUT_BIAS,
    ForeignModel,
    VocabularyMapping,
    check_can_be_ours,
    interleaved,
    tags_of,
    write_imported,
)
from nmt.interchange.importers.segmenters import Dictionary, ImportOptions, with_sides
from nmt.models.base import BARRED
from nmt.models.model_file import CARD, read_card
from nmt.models.positions import sinusoidal_positions, sinusoids_by_halves
from nmt.system.files import parse_json, read_file

_MODEL, _ARGOS, _CODES = "model.bin", "metadata.json", "bpe.model"
_VERSIONS = range(2, 7)
"""Of model.bin since December 2018. From 6 on, some settings are in config.json."""
_SPECIFICATION = "TransformerSpec"  # of an encoder with a decoder
_HEADS = {"TransformerBase": 8, "TransformerBig": 16}
"""How many heads the same with other names had, which no setting said."""
_TYPES = dict(enumerate(("float32", "int8", "int16", "int32", "float16", "bfloat16")))
_OLD_TYPES = {4: "float32", 2: "int16", 1: "int8"}
"""Before version 4, by the bytes of a number."""
_ROUNDED = {"int8": "0.4 %", "int16": "0.05 %", "float16": "0.05 %", "bfloat16": "0.4 %"}
"""By type, how much rounding may change a number; with integers, of the largest in its row."""
_SCALE = "weight_scale"  # what a weight was multiplied by, row by row or as a whole

_SEGMENTERS = ("source.spm target.spm", "sentencepiece.model", "sentencepiece.bpe.model", _CODES)
"""What may lie beside a model, or beside its folder in a package of Argos."""
_ARGOS_MOSES = ("normalize", "tokenize", "escape")
"""What Argos does to text before its codes."""

_SETTINGS: dict[str, tuple[object, ...]] = {
    "activation": ("RELU", "SWISH", "GELU"),
    "rotary_base": (10_000.0,),
    "rotary_interleave": (1,),
    **dict.fromkeys(("multi_query_attention", "alibi", "with_source_bos"), (0,)),
}
"""Those that our Transformer can only have by some values, the usual one first."""
_OTHERS = (
    "num_heads pre_norm start_from_zero_embedding scale_embeddings multiply_by_sqrt_depth "
    "rotary_dim embeddings_merge alignment_layer alignment_heads alibi_use_positive_positions "
    "scale_alibi unk_token bos_token eos_token with_source_eos with_target_bos"
).split()
"""Other settings that are known. Those of merging and ALiBi mean nothing in our Transformer."""
_ACTIVATIONS = ("RELU", "GELUTanh", "SWISH", "GELU", "GELUSigmoid", "Tanh", "Sigmoid")

_LAYER = {
    "attention.qkv": "self_attention/linear_0",
    "attention.output": "self_attention/linear_1",
    "attention.relative.keys": "self_attention/relative_position_keys",
    "attention.relative.values": "self_attention/relative_position_values",
    "after_attention.norm": "self_attention/layer_norm",
    "cross_attention.query": "attention/linear_0",
    "cross_attention.key_value": "attention/linear_1",
    "cross_attention.output": "attention/linear_2",
    "after_cross_attention.norm": "attention/layer_norm",
    "feed_forward.inner": "ffn/linear_0",
    "feed_forward.outer": "ffn/linear_1",
    "after_feed_forward.norm": "ffn/layer_norm",
}
"""Our parts of a layer, and theirs."""
_OUTPUT = "decoder/projection/weight"
_TABLES = {
    EMBEDDINGS[0]: "encoder/embeddings_0/weight",
    EMBEDDINGS[1]: "decoder/embeddings/weight",
    EMBEDDINGS[2]: _OUTPUT,
    OUTPUT_BIAS: "decoder/projection/bias",
}
POSITIONS = {
    "src_positions.weight": "encoder/position_encodings/encodings",
    "tgt_positions.weight": "decoder/position_encodings/encodings",
}
_MATRICES = ("/weight", "/encodings", "_keys", "_values")
_OF_LAYER = re.compile(r"(encoder|decoder)/layer_\d+/")
_COMPARED, _NEAR = 512, 5e-3  # positions, and how near a table in bf16 is to its formula
_MAX_POSITIONS = 1_001  # of a model without a table of them


class _Variables(dict[str, Tensor]):
    """Weights in fp32, by name."""

    path: Path

    def __missing__(self, name: str) -> Tensor:
        raise DataError(f"{self.path}: lacks {name}")


class _Side(NamedTuple):
    """The ids of a side, with the special ones in our order first."""

    path: Path
    rows: list[int]  # of each of these ids in the model; -1: it has none
    texts: dict[int, str]


def import_ctranslate2(path: Path, out: Path, options: ImportOptions) -> None:
    """Write a model of CTranslate2 as a model file.

    path: its folder, or that of a package of Argos Translate, unpacked.
    options: without segmenters, those that lie beside the model are taken.
    DataError if a file is missing or damaged. UsageError if our Transformer cannot be this model,
    or a language is missing.
    """
    if not path.is_dir():
        raise UsageError(f"{path}: not a folder; name that of {_MODEL}, or of an unpacked package")
    folder = path / "model" if (path / "model" / _MODEL).exists() else path
    version, rounded, settings, weights = _read_model(folder / _MODEL)
    tokens = _tokens_of(folder, version, settings)
    if (folder / CARD).exists():
        card = read_card(folder / CARD)
        if options.segmenters or options.moses:
            raise UsageError(
                f"{folder}: has its vocabularies in {CARD}; leave out --vocab and Moses' steps"
            )
        both = card.src_vocabulary, card.tgt_vocabulary
        sides = [_Side(folder / CARD, list(range(len(one))), {}) for one in both]
        config, tables, sines_first, _ = _config_of(weights, settings, sides, tokens)
        src, tgt = (VocabularyMapping((one,), np.arange(len(one)), ()) for one in both)
        langs = options.langs[0] or card.src_lang, options.langs[1] or card.tgt_lang
        foreign = ForeignModel(config, src, tgt, langs, card.max_src_tokens, card.languages)
    else:
        sizes = {"source": len(weights[_TABLES[EMBEDDINGS[0]]]), "target": len(weights[_OUTPUT])}
        sides = [_side_of(folder, side, size, tokens) for side, size in sizes.items()]
        config, tables, sines_first, positions = _config_of(weights, settings, sides, tokens)
        foreign = _foreign(folder, sides, config, options)._replace(max_src_tokens=positions - 1)
    if rounded in _ROUNDED:
        console.warning(
            f"{weights.path}: its weights were rounded to {rounded}, by up to {_ROUNDED[rounded]}; "
            "the model file has them as they are now"
        )
    unread = set(weights)

    def read(ours: str) -> Tensor:
        if ours in tables:
            return tables[ours]
        name = foreign_name(ours)
        unread.discard(name)
        if name.endswith("/bias") and name not in weights:
            return torch.zeros(len(weights[f"{name.removesuffix('bias')}weight"]))
        if config.feed_forward != "swiglu" or "ffn/linear_0" not in name:
            return weights[name]
        gated = name.replace("linear_0", "linear_0_noact")
        unread.discard(gated)
        return torch.cat((weights[name], weights[gated]))

    write_imported(out, weights.path, foreign._replace(sines_first=sines_first), read, unread)


def _read_model(path: Path) -> tuple[int, str, dict[str, Any], _Variables]:
    """Return the version of `model.bin`, the type of its output projection, settings and weights.

    It is a version, the name and revision of a specification, and the name, shape, type and content
    of each variable. Names of variables that are equal to others, such as tied embeddings, end it.
    Variables without dimensions are settings, and so are vectors in int8, which are texts.
    """
    content, place = read_file(path), 0

    def take(form: str) -> tuple[Any, ...]:
        nonlocal place
        values = struct.unpack_from(form, content, place)
        place += struct.calcsize(form)
        return values

    def take_name() -> str:
        (length,) = take("<H")
        name: str = take(f"<{length}s")[0].rstrip(b"\0").decode()
        return name.replace("encoder/embeddings/", "encoder/embeddings_0/")  # as it is now

    try:
        (version,) = take("<I")
        if version not in _VERSIONS:
            raise UsageError(
                f"{path}: is no {_MODEL} of CTranslate2, or of version {version}; nmt imports "
                f"versions {_VERSIONS[0]} to {_VERSIONS[-1]}"
            )
        specification = take_name()
        known = {"specification": (_SPECIFICATION, *_HEADS)}
        check_can_be_ours(path, {"specification": specification}, known)
        stored = dict[str, Tensor]()
        _, count = take("<2I")
        for _ in range(count):
            name, (dimensions,) = take_name(), take("<B")
            shape, (kind, size) = take(f"<{dimensions}I"), take("<BI")
            size *= kind if version < 4 else 1
            type_ = getattr(torch, (_OLD_TYPES if version < 4 else _TYPES)[kind])
            (raw,) = take(f"<{size}s")
            stored[name] = torch.frombuffer(bytearray(raw), dtype=type_).view(shape)
        count = take("<I")[0] if version > 2 else 0
        aliases = {take_name(): take_name() for _ in range(count)}
        if place != len(content):
            raise ValueError("something follows")
        rounded = stored[aliases.get(_OUTPUT, _OUTPUT)].dtype
        for name in [name for name in stored if name.endswith(_SCALE)]:
            of_rows = stored.pop(name).float().view(-1, 1)
            stored[name.removesuffix("_scale")] = stored[name.removesuffix("_scale")] / of_rows
        settings, weights = dict[str, Any](), _Variables()
        weights.path = path
        for name, values in stored.items():
            if not values.dim():
                settings[name] = values.item()
            elif values.is_floating_point():
                weights[name] = values.float()
            else:
                settings[name] = bytes(values.numpy()).decode()
        weights.update({alias: weights[name] for alias, name in aliases.items()})
        if any(one.dim() != 2 for name, one in weights.items() if name.endswith(_MATRICES)):
            raise ValueError("a matrix of other dimensions")
        if specification in _HEADS:
            settings["num_heads"] = _HEADS[specification]
    except (struct.error, ValueError, LookupError, RuntimeError) as error:
        if is_of_memory(error):
            raise
        raise DataError(f"{path}: damaged, or not a model.bin of CTranslate2") from None
    return version, str(rounded).removeprefix("torch."), _settings_of(path, settings), weights


def _tokens_of(folder: Path, version: int, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the values of `config.json`, which before version 6 are among the settings."""
    path = folder / CONFIG
    if version < 6:
        values = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"} | settings
        first = "bos_token" if settings.get("with_target_bos", 1) else "eos_token"
        values["decoder_start_token"] = values[first]
        values["add_source_eos"] = settings.get("with_source_eos")
    elif path.exists():
        values = read_json(path)
    else:
        raise DataError(f"{path}: no such file; copy the whole folder")
    for name in ("unk_token", "bos_token", "eos_token", "decoder_start_token"):
        if not isinstance(values.get(name), str):
            raise UsageError(f"{path}: {name} is {values.get(name)!r}; nmt needs to know it")
    check_can_be_ours(path, values, {"add_source_bos": (False,), "quantization_type": (None, 0)})
    return values


def _side_of(folder: Path, side: str, size: int, tokens: dict[str, Any]) -> _Side:
    """Return the ids of a side, which are places in its list of pieces."""
    names = [f"{one}_vocabulary{end}" for one in ("shared", side) for end in (".json", ".txt")]
    path = next((folder / name for name in names if (folder / name).exists()), folder / names[0])
    pieces = _pieces_in(path)
    if tokens["unk_token"] not in pieces and len(pieces) < size:
        pieces.append(tokens["unk_token"])
    if len(pieces) != size:
        raise DataError(
            f"{path}: has {len(pieces):,} pieces, but {_MODEL} has embeddings for {size:,}"
        )
    ids = {piece: id_ for id_, piece in reversed([*enumerate(pieces)])}  # the first of equal ones
    eos, start = tokens["eos_token"], tokens["decoder_start_token"]
    if eos not in ids:
        raise UsageError(f"{path}: has no {eos}")
    pad = "<blank>" if "<blank>" in ids else "<pad>"
    special = (pad, tokens["unk_token"], tokens["bos_token"] if start == eos else start, eos)
    first = [ids.get(piece, -1) for piece in special]
    rows = first + [id_ for id_ in range(size) if id_ not in first]
    of_ours = {piece.text for piece in SPECIAL.values()} - {*special}  # which no text may spell
    texts = {
        our: pieces[row]
        for our, row in enumerate(rows)
        if row >= 0 and ids[pieces[row]] == row and pieces[row] not in of_ours
    }
    last = len(rows) - 1  # which has its share in the softmax
    return _Side(path, rows, {last: f"<row {last}>", **texts})


def _pieces_in(path: Path) -> list[str]:
    """Return the pieces of a list; DataError if there is none, or it is damaged."""
    try:
        content = read_file(path)
        if path.suffix != ".json":
            return content.decode().replace("\r\n", "\n").removesuffix("\n").split("\n")
        pieces = parse_json(content)
        if not isinstance(pieces, list):
            raise TypeError
        return list(map(str, pieces))
    except FileNotFoundError:
        raise DataError(f"{path}: no such file, nor a list for each side") from None
    except (ValueError, TypeError):
        raise DataError(f"{path}: damaged: not a list of pieces") from None


def _foreign(
    folder: Path, sides: Sequence[_Side], config: TransformerConfig, options: ImportOptions
) -> ForeignModel:
    """Return all but the weights, with what lies beside a model or a package of Argos says."""
    package, places, named = folder.parent / _ARGOS, [folder], dict[str, Any]()
    langs, segmenters, moses = options.langs, options.segmenters, options.moses
    if package.exists():
        places, named = [folder, folder.parent], read_json(package)
        check_can_be_ours(package, named, {"target_prefix": ("",)})
        langs = langs[0] or str(named.get("from_code")), langs[1] or str(named.get("to_code"))
    if not segmenters:
        beside = [[place / n for n in names.split()] for place in places for names in _SEGMENTERS]
        segmenters = next((paths for paths in beside if all(p.exists() for p in paths)), ())
        if named and segmenters and segmenters[0].name == _CODES:
            moses = moses or _ARGOS_MOSES
    pieces, is_joint = sides[0].texts.values(), config.tie_embeddings == "all"
    codes = language_tokens(pieces) if is_joint and config.first_input == "eos" else {}
    options = ImportOptions(langs, segmenters, moses)
    if not codes:
        options = options.with_langs(folder)
    special = {id_: id_ for id_ in SPECIAL}
    dictionaries = [Dictionary(side.path, side.texts, special) for side in sides]
    controls = {*filter(TAG.fullmatch, pieces), *codes.values()}
    model = with_sides(config, dictionaries, options, is_joint=is_joint, controls=controls)
    languages = tags_of(model.src.vocabularies[0])
    if codes:
        languages = LanguageTokens(codes, src="src", tgt="tgt")
        for side, lang in zip(("src", "tgt"), langs, strict=True):
            if lang:
                languages.check(side, lang, f"--{side}", is_given=True)
    return model._replace(languages=languages)


def _config_of(
    weights: _Variables, settings: dict[str, Any], sides: Sequence[_Side], tokens: dict[str, Any]
) -> tuple[TransformerConfig, dict[str, Tensor], bool, int]:
    """Return the configuration of our Transformer; UsageError if it cannot be this model.

    Returns also our tables, which have the ids of the sides as rows, whether its positions have all
    sines first, and how many it has.
    """
    layer = "encoder/layer_0"
    d_ff, width = weights[f"{layer}/ffn/linear_0/weight"].shape
    positions, sines_first = _positions_of(weights, settings)
    found = [weights.pop(name) for name in POSITIONS.values() if name in weights]
    most = positions.get("max_positions")  # only of learned ones
    tables = {ours: table[:most] for ours, table in zip(POSITIONS, found, strict=False)}
    weights.setdefault(_TABLES[OUTPUT_BIAS], torch.zeros(len(weights[_OUTPUT])))
    for ours, theirs in _TABLES.items():
        table, rows = weights[theirs], sides[ours != EMBEDDINGS[0]].rows
        if len(table) <= max(rows):
            raise DataError(f"{weights.path}: {theirs} has only {len(table):,} rows")
        empty = table.new_full((1, *table.shape[1:]), BARRED if ours == OUTPUT_BIAS else 0.0)
        tables[ours] = torch.cat((table, empty))[rows]  # the last one is that of -1
        del weights[theirs]
    scale = settings.get("scale_embeddings", settings.get("multiply_by_sqrt_depth", 1))
    factor = scale if isinstance(scale, float) else width**0.5 if scale else 1.0
    if not math.isclose(factor, width**0.5, rel_tol=1e-6):
        for name in EMBEDDINGS[:2]:
            tables[name] *= factor / width**0.5  # by whose divisor our Transformer multiplies
    src, tgt, output = (tables[name] for name in EMBEDDINGS)
    starts_with_eos = tokens["decoder_start_token"] == tokens["eos_token"]
    if settings.get("start_from_zero_embedding"):
        first_input = "zeros"
    elif starts_with_eos or torch.equal(tgt[BOS_ID], tgt[EOS_ID]):  # as in our exports
        first_input = "eos"
    elif sides[1].rows[BOS_ID] < 0:
        raise UsageError(f"{sides[1].path}: has no {tokens['decoder_start_token']}")
    else:
        first_input = "bos" if tgt[BOS_ID].any() else "zeros"
    if first_input != "bos":
        tgt[BOS_ID] = output[BOS_ID]  # the decoder does not read it
    tie = "none"
    if torch.equal(tgt, output):
        tie = "all" if torch.equal(src, output) else "decoder"
    for name in [name for name in weights if name.endswith("/bias")]:
        if not weights[name].any():
            del weights[name]  # our Transformer need not have it
    activation = settings.get("activation", _ACTIVATIONS[0]).lower()
    is_gated = activation == "swish" and f"{layer}/ffn/linear_0_noact/weight" in weights
    layers = {match[0] for match in map(_OF_LAYER.match, weights) if match}
    config = TransformerConfig(
        num_encoder_layers=sum(name.startswith("encoder") for name in layers),
        num_decoder_layers=sum(name.startswith("decoder") for name in layers),
        d_model=width,
        d_ff=d_ff,
        num_heads=settings.get("num_heads", 0),
        pre_norm=bool(settings.get("pre_norm", True)),
        norm="layer" if f"{layer}/ffn/layer_norm/beta" in weights else "rms",
        norm_epsilon=tokens.get("layer_norm_epsilon") or 0.0,
        feed_forward="swiglu" if is_gated else activation,
        attention_bias=any(re.search("attention/linear_./bias", name) for name in weights),
        output_bias=bool(tables[OUTPUT_BIAS].any()),
        first_input=first_input,
        # The converter of transformers leaves it to the tokenizer to end sources with eos, and its
        # decoders start with eos.
        source_end=starts_with_eos or bool(tokens.get("add_source_eos")),
        tie_embeddings=tie,
        dropout=0.1,
        **positions,
    )
    model_config_from("transformer", asdict(config), str(weights.path))  # checks all values
    return config, tables, sines_first, min(map(len, found), default=_MAX_POSITIONS)


def _settings_of(path: Path, stored: dict[str, Any]) -> dict[str, Any]:
    """Return settings, which both sides and all layers share, by the last part of their names."""
    settings = dict[str, Any]()
    for name, value in stored.items():
        key = name.rpartition("/")[2]
        if key == "activation" and value in range(len(_ACTIVATIONS)):
            value = _ACTIVATIONS[value]
        if key not in (*_SETTINGS, *_OTHERS):
            raise UsageError(f"{path}: {name} is {value!r}, which nmt does not import")
        check_can_be_ours(path, {name: value}, {name: _SETTINGS.get(key, (value,))})
        check_can_be_ours(path, {name: value}, {name: (settings.setdefault(key, value),)})
    return settings


def _positions_of(weights: _Variables, settings: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Return our values for the positions, and whether all sines come before the cosines.

    CTranslate2 has a table of most positions. We have the formula that it comes from, or else a
    learned vector for each of its rows.
    """
    tables = [weights[name] for name in POSITIONS.values() if name in weights]
    keys = weights.get(f"encoder/layer_0/{_LAYER['attention.relative.keys']}")
    if "rotary_dim" in settings:
        return {"positions": "rotary"}, False
    if keys is not None:
        return {"positions": "relative", "max_relative_distance": len(keys) // 2}, False
    if not tables:  # as of OpenNMT-tf
        return {"positions": "sinusoidal_halves", "first_position": 1}, False
    form, *others = map(_formula_of, tables)
    if others != [form]:
        raise UsageError(f"{weights.path}: encoder and decoder differ in their positions")
    return form


def _formula_of(table: Tensor) -> tuple[dict[str, Any], bool]:
    """Return our values for a table of positions, and whether its sines lie apart from cosines."""
    rows, width = table[:_COMPARED].shape
    if width % 2 == 0:
        halves, paper = sinusoids_by_halves(rows + 2, width), sinusoidal_positions(rows, width)
        formulas = {("sinusoidal_halves", n, False): halves[n : n + rows] for n in range(3)}
        formulas["sinusoidal", 0, False] = paper
        formulas["sinusoidal", 0, True] = paper[:, interleaved(width).argsort()]
        for (positions, first, is_apart), formula in formulas.items():
            if torch.allclose(table[:rows], formula, rtol=0, atol=_NEAR):
                return {"positions": positions, "first_position": first}, is_apart
    repeated = int((table == table[-1]).all(dim=1).flip(0).cumprod(0).sum())  # as our exports do
    return {"positions": "learned", "max_positions": len(table) - repeated + 1}, False


def foreign_name(ours: str) -> str:
    """Return the name of a weight in CTranslate2's file, but for those of positions."""
    if ours in _TABLES:
        return _TABLES[ours]
    if ours.startswith(("encoder_norm", "decoder_norm")):
        place = ours.partition(".")[0].replace("_norm", "/layer_norm")
    else:
        side, layer, kind = ours.split(".", 2)
        place = f"{side}/layer_{layer}/{_LAYER[re.sub(r'[._](weight|bias)$', '', kind)]}"
    if "relative" in ours:
        return place
    names = ("gamma", "beta") if "norm" in ours else ("weight", "bias")
    return f"{place}/{names[ours.endswith('bias')]}"
