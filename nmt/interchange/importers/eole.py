"""Models of Eole, which goes on where OpenNMT-py has ended: a folder with settings and weights.

`config.json` has only the settings that a user has set. Those of encoder, decoder and embeddings
stand in the model's own, and win. All go on under the names that OpenNMT-py has for them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from nmt.data.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from nmt.errors import DataError, UsageError
from nmt.interchange.importers import opennmt_py
from nmt.interchange.importers.huggingface_files import renamed
from nmt.interchange.importers.huggingface_settings import CONFIG, read_json
from nmt.interchange.importers.model_import import check_alike, check_can_be_ours
from nmt.interchange.importers.segmenters import ImportOptions

_FILES = (CONFIG, "vocab.json", "model.00.safetensors")
_SPECIAL = {PAD_ID: "pad_token", UNK_ID: "unk_token", EOS_ID: "eos_token"}

# What our Transformer cannot be, by the usual values. A setting that is not there has the first.
_ONLY: dict[str, tuple[object, ...]] = {
    "architecture": ("transformer", "custom"),
    "encoder_type": ("transformer",),
    "decoder_type": ("transformer",),
    "encoder_layer_style": ("standard",),
    "final_encoder_layer_norm": (True,),
    "layer_norm": ("standard", "standardFP32", "rms"),
    "position_encoding_type": ("SinusoidalInterleaved", "SinusoidalConcat", "Rotary"),
    "generator_function": ("softmax",),
    "LM_type": ("causal",),
    # Of rope_config.
    "rotary_theta": (10_000,),
}
_SAME = "hidden_size heads transformer_ff mlp_activation_fn layer_norm norm_eps rotary_interleave"
"""What encoder and decoder of our Transformer share."""
# What is read, what the weights tell, and what means nothing where the rest is as it must be.
_KNOWN = re.compile(
    "|".join((*_ONLY, *_SAME.split()))
    + r"|layers|share_\w+|add_\w+bias|generator_bias|\w*word_vec_size|heads_kv"
    r"|eole_version|dim_per_head|position_encoding|n_positions|max_position_embeddings|input_feed"
    r"|with_cross_attn|freeze_\w+|alignment_\w+|lambda_\w+|global_attention\w*|num_experts_per_tok"
    r"|low_freq_factor|high_freq_factor|scaling_factor|original_max_\w+|rotary_theta_local"
)

_RENAMED = {
    **opennmt_py.RENAMED,
    r"src_emb\.embeddings\.": "encoder.embed_tokens.",
    r"tgt_emb\.embeddings\.": "decoder.embed_tokens.",
    r"mlp\.gate_up_proj\.": "fc1.",
    r"mlp\.down_proj\.": "fc2.",
    r"mlp\.up_proj\.": "fc3.",
    r"input_layernorm\.": "self_attn_layer_norm.",
    r"precontext_layernorm\.": "encoder_attn_layer_norm.",
    r"post_attention_layernorm\.": "final_layer_norm.",
}

_EPSILON = 1e-5
"""Of norms, if it is not set. Before version 0.2, it was 1e-6."""
_ONLY_SEGMENTED = dict.fromkeys(("src_vocab_threshold", "tgt_vocab_threshold"), (0,))


def import_eole(path: Path, out: Path, options: ImportOptions) -> None:
    """Write a folder as a model file.

    options: without segmenters, those that the folder has are taken.
    DataError if a file is missing or damaged. UsageError if our Transformer cannot be this model,
    or a language is missing.
    """
    for name in _FILES:
        if not (path / name).exists():
            raise DataError(f"{path / name}: no such file; a model of Eole has {', '.join(_FILES)}")
    listing = path / CONFIG
    config, vocab = read_json(listing), read_json(path / _FILES[1])
    try:
        model = config["model"]
        stacks = [_plain({**model, **model[part]}) for part in ("encoder", "decoder", "embeddings")]
        texts = [list(vocab[side]) for side in ("src", "tgt")]
        dropout = (config.get("training") or {}).get("dropout")
        own = vocab.get("specials") or {}
        special = {
            id_: str(own.get(name) or opennmt_py.SPECIAL[id_]) for id_, name in _SPECIAL.items()
        }
        special[BOS_ID] = str(vocab.get("decoder_start_token") or "<s>")
        if not options.segmenters:
            options = options._replace(segmenters=_segmenters_of(path, config))
    except (KeyError, TypeError, ValueError, AttributeError):
        raise DataError(f"{path}: damaged, or holds no encoder and decoder of Eole") from None
    end = special[EOS_ID]
    if len({side.index(end) for side in texts if end in side}) > 1:
        raise UsageError(
            f"{path}: {end} has two ids; Eole trains with the source's, so translations never end"
        )
    settings = {**_settings_of(listing, stacks), "dropout": dropout}
    for file in options.segmenters:
        if not file.exists():
            raise DataError(f"{file}: no such file; copy it there, or give --vocab")
    tensors = opennmt_py.read_safetensors(sorted(path.glob("model.*.safetensors")))
    if settings["share_embeddings"] and "src_emb.embeddings.weight" in tensors:
        tensors["tgt_emb.embeddings.weight"] = tensors["src_emb.embeddings.weight"]
    tensors = {name: one for name, one in tensors.items() if not _is_one(name, one)}
    sides = opennmt_py.dictionaries_of(path, texts, special)
    opennmt_py.import_parts(path, out, options, settings, sides, renamed(tensors, _RENAMED))
    opennmt_py.warn_of_steps(path, config, options.segmenters)


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings, with those of rotations among them, and without those of parts."""
    all_settings = {**settings, **(settings.get("rope_config") or {})}
    return {name: value for name, value in all_settings.items() if not isinstance(value, dict)}


def _settings_of(path: Path, sides: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the settings of a model as OpenNMT-py names them.

    sides: those of encoder, decoder and embeddings.
    UsageError if our Transformer cannot be this model.
    """
    encoder, decoder, embeddings = sides
    heads = encoder.get("heads", 8)
    for side in sides:
        check_can_be_ours(path, side, {**_ONLY, "heads_kv": (None, heads)})
        others = [name for name, value in side.items() if value and not _KNOWN.fullmatch(name)]
        if others:
            raise UsageError(
                f"{path}: {others[0]} is {side[others[0]]!r}, and nmt imports no such models"
            )
    check_alike(path, (encoder, decoder), _SAME.split())
    form = embeddings.get("position_encoding_type", "SinusoidalInterleaved")
    width = encoder.get("hidden_size", 512)
    return {
        "enc_hid_size": width,
        "dec_hid_size": width,
        "src_word_vec_size": embeddings.get("src_word_vec_size", width),
        "tgt_word_vec_size": embeddings.get("tgt_word_vec_size", width),
        "enc_layers": encoder.get("layers", 2),
        "dec_layers": decoder.get("layers", 2),
        "heads": heads,
        "transformer_ff": encoder.get("transformer_ff", 2048),
        "pos_ffn_activation_fn": encoder.get("mlp_activation_fn", "relu"),
        "layer_norm": encoder.get("layer_norm", "standard"),
        "norm_eps": encoder.get("norm_eps", _EPSILON),
        "position_encoding": form != "Rotary",
        "position_encoding_type": form,
        "max_relative_positions": -1 if form == "Rotary" else 0,
        "rotary_interleave": encoder.get("rotary_interleave", True),
        "share_embeddings": encoder.get("share_embeddings", False),
        "share_decoder_embeddings": encoder.get("share_decoder_embeddings", False),
    }


def _is_one(name: str, tensor: Tensor) -> bool:
    """Whether a tensor is a factor of a layer's output that changes nothing."""
    return name.endswith(".layer_scalar") and bool((tensor == 1).all())


def _segmenters_of(folder: Path, config: Mapping[str, Any]) -> list[Path]:
    """Return the models or codes in the folder that have segmented text, if settings name any."""
    found = []
    for step in filter(opennmt_py.SEGMENTERS.__contains__, config.get("transforms") or ()):
        options = config["transforms_configs"][step]
        check_can_be_ours(folder / CONFIG, options, _ONLY_SEGMENTED)
        names = [options.get(f"{side}_subword_model") for side in ("src", "tgt")]
        found = [folder / Path(name).name for name in names if name]
    return found
