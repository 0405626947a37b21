"""Models of OpenNMT-py 3: a checkpoint, whose weights may be in a safetensors file beside it.

A checkpoint holds settings, weights and the lists of subwords, but not what has segmented the text.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nmt.config.model_config import TransformerConfig
from nmt.data.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from nmt.errors import DataError, UsageError
from nmt.interchange.importers.huggingface_files import Config, Weights, read_pickle
from nmt.interchange.importers.model_import import (
    EMBEDDINGS,
    ForeignModel,
    check_can_be_ours,
    write_imported,
)
from nmt.interchange.importers.segmenters import map_sides
from nmt.models.model_file import ModelCard
from nmt.models.tensor_file import SafetensorsFile

_SPECIAL = {PAD_ID: "<blank>", UNK_ID: "<unk>", EOS_ID: "</s>"}
_STEP = re.compile(r".*_step_(\d+)\.pt")
_MAX_SRC_TOKENS = 1_000
"""A checkpoint has no record of the longest source."""

# What our Transformer cannot be, by the usual values. A setting that is not there has the first.
_ONLY: dict[str, tuple[object, ...]] = {
    "encoder_type": ("transformer",),
    "decoder_type": ("transformer",),
    "model_task": ("seq2seq",),
    "self_attn_type": ("scaled-dot-flash", "scaled-dot"),
    "position_encoding": (True,),
    "position_encoding_type": ("SinusoidalInterleaved",),
    "max_relative_positions": (0,),
    "layer_norm": ("standard",),
    "num_kv": (0,),
    "multiquery": (False,),
    "parallel_residual": (False,),
    "num_experts": (0,),
    "copy_attn": (False,),
    "generator_function": ("softmax",),
    "lora_layers": ([],),
    "lora_embedding": (False,),
}
_WIDTHS = ("enc_hid_size", "dec_hid_size", "src_word_vec_size", "tgt_word_vec_size")

# Names there, and those that Hugging Face gives to the same.
_RENAMED = {
    r"embeddings\.make_embedding\.emb_luts\.0\.": "embed_tokens.",
    r"(transformer|transformer_layers)\.(\d+)\.": r"layers.\2.",
    r"context_attn\.": "encoder_attn.",
    r"linear_(q|k|v)(uery|eys|alues)\.": r"\1_proj.",
    r"final_linear\.": "out_proj.",
    r"feed_forward\.layer_norm\.": "final_layer_norm.",
    r"feed_forward\.w_([12])\.": r"fc\1.",
    r"(layers\.\d+)\.layer_norm(_1)?\.": r"\1.self_attn_layer_norm.",
    r"(layers\.\d+)\.layer_norm_2\.": r"\1.encoder_attn_layer_norm.",
}
_FORMULA = re.compile(r".*\.pe\.pe")


def import_opennmt_py(
    path: Path,
    out: Path,
    *,
    src_lang: str | None,
    tgt_lang: str | None,
    segmenters: Sequence[Path] = (),
    moses: Container[str] = (),
) -> ModelCard:
    """Write a checkpoint as a model file, and return its card.

    path: the checkpoint, or the folder that holds it.
    segmenters, moses: see `map_sides`.
    DataError if a file is missing or damaged. UsageError if our Transformer cannot be this model,
    or a language is missing.
    """
    if not (src_lang and tgt_lang):
        raise UsageError(f"{path}: OpenNMT-py does not name its languages; give --src and --tgt")
    checkpoint = _checkpoint_of(path) if path.is_dir() else path
    content = read_pickle(checkpoint)
    try:
        settings, vocab = vars(content["opt"]), content["vocab"]
        texts = [dict(enumerate(map(str, vocab[side]))) for side in ("src", "tgt")]
    except (KeyError, TypeError, AttributeError):
        raise DataError(f"{checkpoint}: holds no model of OpenNMT-py 3") from None
    special = _special_ids(checkpoint, texts, str(vocab.get("decoder_start_token", "<s>")))
    weights = _weights_of(checkpoint, content)
    texts = [
        weights.with_all_rows(checkpoint, of_side, table)
        for of_side, table in zip(texts, EMBEDDINGS, strict=False)
    ]
    src, tgt = map_sides(
        [checkpoint, checkpoint],
        texts,
        special,
        segmenters,
        langs=(src_lang, tgt_lang),
        moses=moses,
        is_joint=bool(settings.get("share_embeddings")),
    )
    config = _config_of(checkpoint, settings, weights, special, has_barred=bool(tgt.barred))
    return write_imported(
        out,
        checkpoint,
        ForeignModel(config, src, tgt, None),
        lambda name: weights.of(name, None),
        weights.unread,
        langs=(src_lang, tgt_lang),
        max_src_tokens=_MAX_SRC_TOKENS,
    )


def _checkpoint_of(folder: Path) -> Path:
    """Return the newest checkpoint of a folder."""
    found = [path for path in folder.glob("*.pt") if _STEP.fullmatch(path.name)]
    if not found:
        raise DataError(f"{folder}: has no checkpoint such as model_step_1000.pt; name the file")
    return max(found, key=lambda path: int(_STEP.sub(r"\1", path.name)))


def _special_ids(path: Path, texts: Sequence[Mapping[int, str]], start: str) -> dict[int, int]:
    """Return the foreign id of each of our special pieces, which is the same on both sides."""
    names = {**_SPECIAL, BOS_ID: start}
    sides = []
    for side in texts:
        ids = {text: id_ for id_, text in reversed([*side.items()])}
        missing = [name for name in names.values() if name not in ids]
        if missing:
            raise UsageError(f"{path}: has no {missing[0]} in a vocabulary")
        sides.append({id_: ids[name] for id_, name in names.items()})
    if sides[0] != sides[1]:
        raise UsageError(f"{path}: its vocabularies have other ids for special tokens")
    return sides[0]


def _config_of(
    path: Path,
    settings: Mapping[str, Any],
    weights: Weights,
    special: Mapping[int, int],
    *,
    has_barred: bool,
) -> TransformerConfig:
    """Return the configuration of our Transformer; UsageError if it cannot be this model."""
    check_can_be_ours(path, settings, _ONLY)
    if len({settings.get(name) for name in _WIDTHS}) > 1:
        raise UsageError(f"{path}: {', '.join(_WIDTHS)} differ")
    tie = "none"
    if settings.get("share_decoder_embeddings"):
        tie = "all" if settings.get("share_embeddings") else "decoder"
    base = TransformerConfig(
        pre_norm=True,
        norm_epsilon=float(settings.get("norm_eps", 1e-6)),
        source_end=False,
        output_bias=has_barred or bool(weights.of("output_bias", None).any()),
        tie_embeddings=tie,
    )
    values = {
        "activation_function": settings.get("pos_ffn_activation_fn", "relu"),
        "decoder_start_token_id": special[BOS_ID],
        "eos_token_id": special[EOS_ID],
        "d_model": settings.get("enc_hid_size"),
        "encoder_layers": settings.get("enc_layers"),
        "decoder_layers": settings.get("dec_layers"),
        "dropout": next(iter(settings.get("dropout") or [0.1])),
    }
    for side in ("encoder", "decoder"):
        values[f"{side}_ffn_dim"] = settings.get("transformer_ff")
        values[f"{side}_attention_heads"] = settings.get("heads")
    return Config(path, values).transformer(weights, base)


def _weights_of(path: Path, content: Mapping[str, Any]) -> Weights:
    """Return the weights by the names that Hugging Face gives to the same.

    Linear layers have no biases, unless settings say so; ours have some, which are zeros then.
    """
    tensors = dict[str, Tensor]()
    beside = sorted(path.parent.glob(f"{path.stem}*.safetensors"))
    if content.get("model"):
        generator = content.get("generator") or {}
        tensors = {**content["model"], **{f"generator.{k}": v for k, v in generator.items()}}
    elif beside:
        for file in map(SafetensorsFile, beside):
            tensors |= {name: file.read(name) for name in file.names}
    else:
        raise DataError(f"{path}: has no weights, and no {path.stem}.safetensors is beside it")
    named = dict[str, Tensor]()
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor) or _FORMULA.fullmatch(name):
            continue
        if name.startswith("generator."):
            is_bias = name.endswith("bias")
            named["final_logits_bias" if is_bias else "lm_head.weight"] = (
                tensor[None] if is_bias else tensor
            )
            continue
        for pattern, new in _RENAMED.items():
            name = re.sub(pattern, new, name)
        named[f"model.{name}"] = tensor
    for name in list(named):
        bias = name.removesuffix("weight") + "bias"
        if re.search(r"(_proj|fc[12])\.weight", name) and bias not in named:
            named[bias] = torch.zeros(len(named[name]))
    return Weights(path, named, named.__getitem__)
