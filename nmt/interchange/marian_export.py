"""Export to Marian: `model.npz`, its vocabularies, and the `decoder.yml` that names them.

It is what `marian` imports. Exporting and importing again gives the same tensors, bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from numpy.typing import NDArray
from torch import Tensor

from nmt.config.model_config import TransformerConfig
from nmt.data.vocabulary import BOS_ID
from nmt.interchange import exports
from nmt.interchange.importers import marian
from nmt.interchange.importers.model_import import parts_of_layers
from nmt.interchange.programs import MARIAN, Form
from nmt.models.model_file import ModelCard
from nmt.models.transformer import Transformer
from nmt.system.files import atomic_folder, check_room, resolved, write_text

_MODEL = "model.npz"

_TABLE_NAMES = {
    "all": ("Wemb", None, None),
    "decoder": ("encoder_Wemb", "decoder_Wemb", None),
    "none": ("encoder_Wemb", "decoder_Wemb", "decoder_ff_logit_out_Wt"),
}
"""Of the embeddings of source and target, and of the output projection."""


def export_marian(path: Path, out: Path) -> str:
    """Export a model that fits. The folder appears when it is complete.

    out: is new, or an earlier export, which is replaced.
    Returns what was written, in words.
    """
    out = resolved(out)
    exports.check_replaceable(out, is_export=(out / f"{_MODEL}{marian.LISTING}").is_file())
    model, card = exports.load_transformer(path)
    arrays: dict[str, Any] = dict(foreign_arrays(model))
    sizes = len(card.src_vocabulary), len(card.tgt_vocabulary)
    arrays[marian.OPTIONS] = as_array(options_of(model.config, sizes))
    is_joint = card.src_vocabulary.model == card.tgt_vocabulary.model
    names = ["vocab.spm"] * 2 if is_joint else ["source.spm", "target.spm"]
    with atomic_folder(out) as folder:
        check_room(folder, sum(array.nbytes for array in arrays.values()))
        np.savez(folder / _MODEL, **arrays)
        exports.write_vocabularies(folder, names, card)
        listing = {"relative-paths": True, "models": [_MODEL], "vocabs": names}
        # Without cropping, Marian ends its output at the first line of over 1,000 pieces.
        listing |= {"beam-size": 4, "normalize": 1, "max-length-crop": True}
        write_text(folder / f"{_MODEL}{marian.LISTING}", yaml.safe_dump(listing))
    return "Marian, with decoder.yml"


def fault_of(card: ModelCard, form: Form = MARIAN) -> str | None:
    """Return why Marian, or a program that shares its code, cannot be a model; None if it can."""
    if fault := form.fault(card.config):
        return fault
    sides = (card.src_vocabulary, card.tgt_vocabulary)
    fault = exports.not_segmented(sides[0])
    if not fault and card.config.tie_embeddings == "all" and sides[0].model != sides[1].model:
        fault = "two vocabularies with one embedding; train with --set tie_embeddings=decoder"
    if not fault and card.languages is not None:  # it does not read their tokens in text
        fault = f"several languages; {exports.TAKE_CTRANSLATE2}"
    return fault and f"{form.name} cannot have {fault}"


def foreign_arrays(model: Transformer) -> dict[str, NDArray[np.float32]]:
    """Return the weights by Marian's names."""
    config, arrays = model.config, dict[str, Tensor]()
    tables = model.src_embedding.weight, model.tgt_embedding.weight, model.output_projection
    for theirs, table in zip(_TABLE_NAMES[config.tie_embeddings], tables, strict=True):
        if theirs is not None:
            arrays[theirs] = table.detach().clone()
            arrays[theirs][BOS_ID] = 0.0
    size = len(model.output_projection)
    bias = torch.zeros(size) if model.output_bias is None else model.output_bias.detach()
    arrays[marian.OUTPUT_BIAS_NAME] = bias[None]
    for _, theirs, part in parts_of_layers(model, partial(marian.foreign_names, config=config)):
        arrays[theirs] = part[None] if marian.is_vector(theirs) else part.t().contiguous()
    if not config.attention_bias:  # in Marian they are always there
        for name in [name for name in arrays if name[:-1].endswith(("self_W", "context_W"))]:
            arrays[f"{name[:-2]}b{name[-1]}"] = torch.zeros(1, arrays[name].shape[1])
    return {name: weight.numpy() for name, weight in arrays.items()}


def as_array(options: Mapping[str, object]) -> NDArray[np.int8]:
    """Return options as Marian keeps them in a model."""
    return np.frombuffer(yaml.safe_dump(options).encode() + b"\0", np.int8)


def options_of(config: TransformerConfig, sizes: tuple[int, int]) -> dict[str, object]:
    """Return Marian's options of a model; sizes: of its vocabularies."""
    (norms,) = (key for key, pre_norm in marian.PRE_NORM.items() if pre_norm == config.pre_norm)
    is_recurrent = config.decoder_memory == "ssru"
    return {
        "version": "v1.12.0",
        "type": "transformer",
        "dim-vocabs": list(sizes),
        "dim-emb": config.d_model,
        "enc-depth": config.num_encoder_layers,
        "dec-depth": config.num_decoder_layers,
        "tied-embeddings-all": config.tie_embeddings == "all",
        "tied-embeddings": config.tie_embeddings == "decoder",
        "tied-embeddings-src": False,
        "transformer-heads": config.num_heads,
        "transformer-dim-ffn": config.d_ff,
        "transformer-ffn-depth": 2,
        "transformer-ffn-activation": config.feed_forward,
        "transformer-decoder-autoreg": "rnn" if is_recurrent else "self-attention",
        "dec-cell": "ssru" if is_recurrent else "gru",
        "dec-cell-base-depth": 1 if is_recurrent else 2,
        "dec-cell-high-depth": 1,
        "transformer-preprocess": norms[0],
        "transformer-postprocess": norms[1],
        "transformer-postprocess-emb": "d",
        "transformer-postprocess-top": norms[2],
        "transformer-tied-layers": [],
        "transformer-no-projection": False,
        "transformer-guided-alignment-layer": "last",
        "transformer-train-position-embeddings": False,
        "input-types": [],
        "output-omit-bias": False,
        "skip": False,
        "layer-normalization": False,
        "right-left": False,
        "factors-dim-emb": 0,
        "lemma-dim-emb": 0,
    }
