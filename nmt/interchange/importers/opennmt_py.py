"""Models of OpenNMT-py 3: a checkpoint, whose weights may be in a safetensors file beside it.

A checkpoint holds settings, weights and the lists of subwords, but not what has segmented the text.
`eole.py` reads the folders of its successor, and leaves the rest to `import_parts`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nmt import console
from nmt.config.model_config import TransformerConfig
from nmt.data.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from nmt.errors import DataError, UsageError
from nmt.interchange.importers import huggingface_files as files
from nmt.interchange.importers import model_import
from nmt.interchange.importers.segmenters import Dictionary, ImportOptions, with_sides
from nmt.models.tensor_file import SafetensorsFile

SPECIAL = {PAD_ID: "<blank>", UNK_ID: "<unk>", EOS_ID: "</s>"}
_STEP = re.compile(r"(.*)_step_(\d+)\.pt")
SEGMENTERS = ("sentencepiece", "bpe")
_OF_TRAINING = ("filtertoolong", "filtertooshort", "clean", "switchout", "tokendrop", "tokenmask")
"""Transforms that translating leaves out."""

# What our Transformer cannot be, by the usual values. A setting that is not there has the first.
_ONLY = (
    model_import.only("encoder_type decoder_type", "transformer")
    | model_import.only("model_task", "seq2seq")
    | model_import.only("self_attn_type", "scaled-dot-flash", "scaled-dot")
    | model_import.only("layer_norm", "standard", "rms")
    | model_import.only("relative_positions_buckets rotary_dim num_kv num_experts", 0)
    | model_import.only("rotary_theta", 10_000)
    | model_import.only("multiquery parallel_residual copy_attn lora_embedding", False)
    | model_import.only("generator_function", "softmax")
    | model_import.only("lora_layers", [])
)
_WIDTHS = ("enc_hid_size", "dec_hid_size", "src_word_vec_size", "tgt_word_vec_size")
_SIZES = "enc_hid_size pos_ffn_activation_fn dropout layers transformer_ff heads".split()
_SINUSOIDS = {"SinusoidalInterleaved": "sinusoidal", "SinusoidalConcat": "sinusoidal_halves"}
GATED = "gated-silu"
"""Eole's name of an activation, which OpenNMT-py calls silu."""

# Names there, and those that Hugging Face gives to the same. It has no fc3, the second factor of
# gated units.
RENAMED = {
    r"embeddings\.make_embedding\.emb_luts\.0\.": "embed_tokens.",
    r"(transformer|transformer_layers)\.(\d+)\.": r"layers.\2.",
    r"context_attn\.": "encoder_attn.",
    r"linear_(q|k|v)(uery|eys|alues)\.": r"\1_proj.",
    r"final_linear\.": "out_proj.",
    r"feed_forward\.layer_norm\.": "final_layer_norm.",
    r"feed_forward\.w_([123])\.": r"fc\1.",
    r"(layers\.\d+)\.layer_norm(_1)?\.": r"\1.self_attn_layer_norm.",
    r"(layers\.\d+)\.layer_norm_2\.": r"\1.encoder_attn_layer_norm.",
    r".*\.pe\.pe$": "",  # a formula
    r"^generator\.(0\.)?weight$": "lm_head.weight",
    r"^generator\.(0\.)?bias$": "final_logits_bias",
}


def import_opennmt_py(path: Path, out: Path, options: ImportOptions) -> None:
    """Write a checkpoint as a model file.

    path: the checkpoint, or the folder that holds it.
    DataError if a file is missing or damaged. UsageError if our Transformer cannot be this model,
    or a language is missing.
    """
    checkpoint = _checkpoint_of(path) if path.is_dir() else path
    _check_version(checkpoint)
    content = files.read_pickle(checkpoint)
    try:
        settings, vocab = dict(vars(content["opt"])), content["vocab"]
        texts = [vocab["src"], vocab["tgt"]]
        start = vocab.get("decoder_start_token", "<s>")
    except (KeyError, TypeError, AttributeError):
        raise DataError(f"{checkpoint}: holds no model of OpenNMT-py 3") from None
    model_import.check_can_be_ours(checkpoint, settings, _ONLY)
    if settings.get("pos_ffn_activation_fn") == "silu":
        settings["pos_ffn_activation_fn"] = GATED
    sides = dictionaries_of(checkpoint, texts, {**SPECIAL, BOS_ID: start})
    tensors = files.renamed(_tensors_of(checkpoint, content), RENAMED)
    import_parts(checkpoint, out, options, settings, sides, tensors)
    warn_of_steps(checkpoint, settings, options.segmenters)


def warn_of_steps(path: Path, settings: Mapping[str, Any], segmenters: Sequence[Path]) -> None:
    """Name the transforms of text, of all corpora, that nmt leaves out."""
    corpora = settings.get("data")
    parts = [settings, *(corpora.values() if isinstance(corpora, dict) else ())]
    found = [part.get("transforms") for part in parts if isinstance(part, dict)]
    steps = dict.fromkeys(str(step) for part in found if isinstance(part, list) for step in part)
    done = {*_OF_TRAINING, *(SEGMENTERS if segmenters else ())}
    if others := [step for step in steps if step not in done]:
        console.warning(f"{path}: its text went through {', '.join(others)}, which nmt leaves out")


def import_parts(
    path: Path,
    out: Path,
    options: ImportOptions,
    settings: Mapping[str, Any],
    sides: Sequence[Dictionary],
    tensors: dict[str, Tensor],
) -> None:
    """Write a model as a model file.

    path: of what is imported, for messages.
    settings: as OpenNMT-py names them; our Transformer can be what they say of its parts.
    tensors: the weights, by the names that Hugging Face gives to the same.
    """
    options = options.with_langs(path)
    weights = _weights_of(path, settings, tensors)
    weights.check_sides(sides)
    config = _config_of(path, settings, weights, sides[1].special)
    model = with_sides(config, sides, options, is_joint=bool(settings.get("share_embeddings")))
    # Only embeddings to which sinusoids are added are multiplied by a root.
    unscaled = () if settings.get("position_encoding") else model_import.EMBEDDINGS[:2]
    model = model._replace(unscaled=unscaled)
    model_import.write_imported(out, path, model, weights.of, weights.unread)


def _checkpoint_of(folder: Path) -> Path:
    """Return the newest checkpoint of a folder; DataError if it has none, or those of two runs."""
    steps = [one for path in folder.iterdir() if (one := _STEP.fullmatch(path.name))]
    found = sorted((one[1], int(one[2]), one[0]) for one in steps)
    if not found:
        raise DataError(f"{folder}: has no checkpoint such as model_step_1000.pt; name the file")
    run, _, name = found[-1]
    if found[0][0] != run:
        raise DataError(f"{folder}: has checkpoints of {found[0][0]} and {run}; name the file")
    return folder / name


def _check_version(checkpoint: Path) -> None:
    """Check that a checkpoint does not hold objects of version 2 (UsageError)."""
    try:
        held = torch.serialization.get_unsafe_globals_in_checkpoint(checkpoint)
    except Exception:  # of a damaged file, which its reader names
        return
    if any(name.startswith("torchtext.") for name in held):
        raise UsageError(
            f"{checkpoint}: is of version 2, with objects of torchtext, which could execute code; "
            "convert it by tools/convertv2_v3.py of OpenNMT-py 3"
        )


def _tensors_of(path: Path, content: Mapping[str, Any]) -> dict[str, Tensor]:
    """Return the weights, which a checkpoint has in two parts, or in files beside it."""
    of_step = re.compile(rf"{re.escape(path.stem)}(\.\d+)?\.safetensors")
    beside = sorted(file for file in path.parent.iterdir() if of_step.fullmatch(file.name))
    if content.get("model"):
        generator = content.get("generator") or {}
        return {**content["model"], **{f"generator.{k}": v for k, v in generator.items()}}
    if not beside:
        raise DataError(f"{path}: has no weights, and no {path.stem}.safetensors is beside it")
    return read_safetensors(beside)


def read_safetensors(paths: Sequence[Path]) -> dict[str, Tensor]:
    """Return the weights of files, by name; DataError if two have one of the same name."""
    tensors = dict[str, Tensor]()
    for file in map(SafetensorsFile, paths):
        if twice := tensors.keys() & set(file.names):
            raise DataError(f"{file.path}: has {min(twice)}, and so has another file beside it")
        tensors |= {name: file.read(name) for name in file.names}
    return tensors


def dictionaries_of(
    path: Path, listed: Sequence[Sequence[str]], special: Mapping[int, str]
) -> list[Dictionary]:
    """Return the dictionaries of source and target (UsageError).

    listed: the subwords of each, by id.
    special: each of our special pieces. Sources have neither a start nor an end, and in version 2
        neither have their vocabularies.
    """
    sides = []
    for subwords, needed in zip(listed, ((PAD_ID, UNK_ID), special), strict=True):
        texts = dict(enumerate(map(str, subwords)))
        ids = {text: id_ for id_, text in reversed([*texts.items()])}
        if missing := [special[id_] for id_ in needed if special[id_] not in ids]:
            raise UsageError(f"{path}: has no {missing[0]} in a vocabulary")
        unk = ids[special[UNK_ID]]
        by_ours = {id_: ids.get(name, unk) for id_, name in special.items()}
        sides.append(Dictionary(path, texts, by_ours))
    return sides


def _config_of(
    path: Path, settings: Mapping[str, Any], weights: files.Weights, special: Mapping[int, int]
) -> TransformerConfig:
    """Return the configuration of our Transformer; UsageError if it cannot be this model."""
    if any(settings.get(name) != settings.get("enc_hid_size") for name in _WIDTHS):
        raise UsageError(f"{path}: {', '.join(_WIDTHS)} differ")
    positions, tie = _positions_of(path, settings), "none"
    # An embedding that is not scaled is another matrix than the projection.
    if settings.get("share_decoder_embeddings") and positions in _SINUSOIDS.values():
        tie = "all" if settings.get("share_embeddings") else "decoder"
    base = TransformerConfig(
        pre_norm=True,
        norm="rms" if settings.get("layer_norm") == "rms" else "layer",
        norm_epsilon=settings.get("norm_eps", 1e-6),
        positions=positions,
        max_relative_distance=max(1, settings.get("max_relative_positions", 0)),
        source_end=False,
        output_bias=bool(weights.of("output_bias").any()),
        tie_embeddings=tie,
    )
    dropout = settings.get("dropout")
    shared = {
        "pos_ffn_activation_fn": "relu",
        **settings,
        "dropout": dropout[0] if isinstance(dropout, list) and dropout else 0.1,
    }
    sides = [{**shared, "layers": settings.get(f"{side}_layers")} for side in ("enc", "dec")]
    return files.of_sides(path, sides, _SIZES, special).transformer(weights, base)


def _positions_of(path: Path, settings: Mapping[str, Any]) -> str:
    """Return our name of a model's positions; UsageError if we have none of its kind."""
    has_sinusoids = bool(settings.get("position_encoding"))
    form = settings.get("position_encoding_type", "SinusoidalInterleaved")
    distance = settings.get("max_relative_positions", 0)
    if has_sinusoids and distance == 0 and form in _SINUSOIDS:
        return _SINUSOIDS[form]
    if not has_sinusoids and type(distance) is int and (distance == -1 or distance > 0):
        return "rotary" if distance == -1 else "relative"
    raise UsageError(
        f"{path}: position_encoding is {has_sinusoids}, position_encoding_type is {form!r} and "
        f"max_relative_positions is {distance!r}, which nmt does not have"
    )


def _weights_of(path: Path, settings: Mapping[str, Any], named: dict[str, Tensor]) -> files.Weights:
    """Return the weights by our names for them.

    Linear layers have no biases, unless settings say so; ours have some, which are zeros then.
    """
    if "lm_head.weight" not in named and not settings.get("share_decoder_embeddings"):
        raise DataError(f"{path}: lacks generator.weight; it is cut short")
    is_gated = settings.get("pos_ffn_activation_fn") == GATED
    is_rotary = settings.get("max_relative_positions") == -1
    has_halves = is_rotary and not settings.get("rotary_interleave", True)
    for name in list(named):
        if has_halves and re.search(r"self_attn\.[qk]_proj", name):
            named[name] = _interleaved(path, named[name], settings.get("heads"))
        first = name.replace(".fc3.", ".fc1.")
        if is_gated and name != first and first in named:
            named[first] = torch.cat([named[first], named.pop(name)])
    named = files.zero_biases(named, r"_proj" if is_gated else r"_proj|fc[12]")
    return files.Weights(path, named, named.__getitem__)


def _interleaved(path: Path, weight: Tensor, heads: Any) -> Tensor:
    """Return queries or keys (D, ...) whose rotated pairs are neighbours, not halves of a head."""
    if type(heads) is not int or heads < 1 or len(weight) % (2 * heads):
        raise DataError(f"{path}: heads is {heads!r}, but queries are {len(weight)} wide")
    halves = weight.reshape(heads, 2, -1, weight[0].numel())  # (H, 2, K / 2, columns)
    return halves.transpose(1, 2).reshape(weight.shape)
