"""Models of fairseq 0.9 to 0.12: a checkpoint, and the dictionaries of its training beside it.

A checkpoint holds the settings and the weights, and dictionaries the subwords. Neither names what
has segmented the text, so the user does: codes of subword-nmt, or a SentencePiece model. Without
them, lines are the model's subwords, parted by spaces.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from nmt.config.model_config import TransformerConfig
from nmt.data.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from nmt.errors import DataError, UsageError
from nmt.interchange.importers import model_import
from nmt.interchange.importers.huggingface_files import Weights, of_sides, read_pickle, renamed
from nmt.interchange.importers.segmenters import Dictionary, ImportOptions, with_sides
from nmt.interchange.programs import FIRST_POSITION
from nmt.system.files import read_file

_SPECIAL = {BOS_ID: 0, PAD_ID: 1, EOS_ID: 2, UNK_ID: 3}
"""Its ids of our special pieces. The subwords of a dictionary follow."""
_NAMES = ("checkpoint_best.pt", "checkpoint_last.pt", "model.pt")
_OVERWRITE = "#fairseq:overwrite"

# Not transformer_unidirectional and transformer_monotonic, whose encoders do not see what follows.
_ARCHITECTURE = re.compile(r"transformer(?!.*(unidirectional|monotonic)).*")
# What our Transformer cannot be, by the usual values. A setting that is not there has one of them.
_ONLY = (
    model_import.only("no_token_positional_embeddings no_decoder_final_norm", False)
    | model_import.only("layernorm_embedding adaptive_input encoder_unidirectional", False)
    | model_import.only("cross_self_attention no_cross_attention", False)
    | model_import.only("adaptive_softmax_cutoff simul_type", None, "")
    | model_import.only("encoder_layers_to_keep decoder_layers_to_keep", None, "")
    | model_import.only("quant_noise_pq", 0)
)
_SIZES = "embed_dim activation_fn dropout layers ffn_embed_dim attention_heads".split()
_SAME = ("embed_dim", "ffn_embed_dim", "attention_heads", "normalize_before", "learned_pos")
"""What encoder and decoder of our Transformer share."""
# Names there, and those that Hugging Face gives to the same.
_RENAMED = {
    # Copies that torch from 1.12 on keeps of weights as they were before training.
    r"encoder\.layers\.\d+\.(in_proj|out_proj|fc1|fc2)_(weight|bias)$": "",
    # No numbers at all, since sinusoids are a formula.
    r"(encoder|decoder)\.(version|embed_positions\._float_tensor)$": "",
    r"decoder\.output_projection\.": "lm_head.",
}


def import_fairseq(path: Path, out: Path, options: ImportOptions) -> None:
    """Write a checkpoint as a model file.

    path: the checkpoint, or the folder that holds it.
    DataError if a file is missing or damaged. UsageError if our Transformer cannot be this model,
    or a language is missing.
    """
    checkpoint = _checkpoint_of(path) if path.is_dir() else path
    content = read_pickle(checkpoint)
    if not (isinstance(content, dict) and isinstance(content.get("model"), dict)):
        raise DataError(f"{checkpoint}: holds no model of fairseq")
    settings = _settings_of(checkpoint, content)
    langs = (settings.get(f"{side}_lang") for side in ("source", "target"))
    options = options.with_langs(checkpoint, *langs)
    named = renamed(content["model"], _RENAMED)
    for name in filter(re.compile(r".*\.embed_positions\.weight").fullmatch, list(named)):
        named[name] = named[name][FIRST_POSITION:]  # the first rows are not used
    weights = Weights(checkpoint, named, named.__getitem__)
    paths = [_dictionary_of(checkpoint, lang, settings) for lang in options.langs]
    sides = [Dictionary(path, _subwords(path), _SPECIAL) for path in paths]
    for side, table in zip(sides, model_import.EMBEDDINGS, strict=False):
        weights.check_rows(side.path, max(side.texts) + 1, table)
    config = _config_of(checkpoint, settings, weights)
    model = with_sides(config, sides, options, is_joint=bool(settings.get("share_all_embeddings")))
    unscaled = model_import.EMBEDDINGS[:2] if settings.get("no_scale_embedding") else ()
    model = model._replace(max_src_tokens=_max_src_tokens(settings), unscaled=unscaled)
    model_import.write_imported(out, checkpoint, model, weights.of, weights.unread)


def _checkpoint_of(folder: Path) -> Path:
    """Return the best checkpoint of a folder, or else the last, or the only one."""
    for name in _NAMES:
        if (folder / name).exists():
            return folder / name
    found = sorted(folder.glob("*.pt"))
    if len(found) != 1:
        names = ", ".join(path.name for path in found[:3]) or "no .pt file"
        raise DataError(f"{folder}: has {names}; name the checkpoint")
    return found[0]


def _settings_of(path: Path, content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of model and task, which releases before 0.10 have in one Namespace."""
    cfg = content.get("cfg")
    parts = [cfg.get("task"), cfg.get("model")] if isinstance(cfg, dict) else [content.get("args")]
    settings = dict[str, Any]()
    for part in parts:
        of_part = vars(part) if isinstance(part, argparse.Namespace) else part
        if not isinstance(of_part, dict):
            raise DataError(f"{path}: holds no settings of fairseq")
        settings = {**of_part, **settings}
    # The task's own name stands before that of the model, of the same key.
    names = settings.get("task" if len(parts) == 1 else "_name"), settings.get("arch")
    if names[0] != "translation" or not _ARCHITECTURE.fullmatch(str(names[1])):
        raise UsageError(
            f"{path}: is a {names[1]} for the task {names[0]}; nmt imports transformers for the "
            "task translation"
        )
    return settings


def _config_of(path: Path, settings: Mapping[str, Any], weights: Weights) -> TransformerConfig:
    """Return the configuration of our Transformer; UsageError if it cannot be this model."""
    model_import.check_can_be_ours(path, settings, _ONLY)
    sides = [
        {"activation_fn": "relu", **settings}
        | {name: settings.get(f"{side}_{name}") for name in (*_SAME, "layers")}
        for side in ("encoder", "decoder")
    ]
    model_import.check_alike(path, sides, _SAME)
    is_shared = settings.get("share_decoder_input_output_embed")
    tie = "all" if settings.get("share_all_embeddings") else "decoder" if is_shared else "none"
    base = TransformerConfig(
        pre_norm=bool(settings.get("encoder_normalize_before")),
        positions="sinusoidal_halves",
        first_position=FIRST_POSITION,
        # An embedding that is not scaled is another matrix than the projection.
        tie_embeddings="none" if settings.get("no_scale_embedding") else tie,
    )
    if settings.get("encoder_learned_pos"):
        counts = [len(weights.of(f"{side}_positions.weight")) for side in ("src", "tgt")]
        name = "learned positions"
        model_import.check_alike(path, [{name: count} for count in counts], [name])
        base = replace(base, positions="learned", first_position=0, max_positions=counts[0])
    special = {**_SPECIAL, BOS_ID: _SPECIAL[EOS_ID]}
    return of_sides(path, sides, _SIZES, special).transformer(weights, base)


def _max_src_tokens(settings: Mapping[str, Any]) -> int:
    """Return the longest source without eos."""
    longest = settings.get("max_source_positions")
    return longest - 1 if isinstance(longest, int) and longest > 1 else 1_023


def _dictionary_of(checkpoint: Path, lang: str, settings: Mapping[str, Any]) -> Path:
    path = checkpoint.with_name(f"dict.{lang}.txt")
    if not path.exists():
        raise DataError(
            f"{path}: no such file; copy it from the folder that fairseq-preprocess wrote, which "
            f"was {settings.get('data')}"
        )
    return path


def _subwords(path: Path) -> dict[int, str]:
    """Return the subwords of a dictionary by id."""
    try:
        lines = read_file(path).decode().removesuffix("\n").split("\n")
    except UnicodeDecodeError:
        raise DataError(f"{path}: damaged: not valid UTF-8") from None
    ids = dict[str, int]()
    for id_, line in enumerate(lines, start=len(_SPECIAL)):
        subword, space, count = line.rstrip().removesuffix(_OVERWRITE).rstrip().rpartition(" ")
        if not (space and count.isdecimal()):
            raise DataError(f"{path}: damaged: {line!r:.80} is not a subword and its count")
        if subword in ids and not line.rstrip().endswith(_OVERWRITE):
            raise DataError(f"{path}: damaged: has {subword!r} twice")
        ids[subword] = id_
    return {id_: subword for subword, id_ in ids.items()}
