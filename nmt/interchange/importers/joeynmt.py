"""Models of JoeyNMT 1 and 2: a checkpoint, and `config.yaml` and vocabularies beside it.

From version 2 on, the configuration says how text is segmented, and the files for it lie beside it,
too. Before, text was segmented by other programs, which the user names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
from pathlib import Path
from typing import Any

from nmt import console
from nmt.config.model_config import TransformerConfig
from nmt.data.moses import STEPS
from nmt.data.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from nmt.errors import DataError, UsageError
from nmt.interchange.importers import model_import
from nmt.interchange.importers.huggingface_files import Weights, of_sides, read_pickle, renamed
from nmt.interchange.importers.segmenters import Dictionary, ImportOptions, with_sides
from nmt.interchange.importers.yaml_settings import read_settings
from nmt.system.files import read_file

_SPECIAL = {UNK_ID: 0, PAD_ID: 1, BOS_ID: 2, EOS_ID: 3}
"""Its ids of our special pieces, which are the same in all models."""
_SYMBOLS = {"unk_token": "<unk>", "pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>"}
"""Their names, in the order of its ids; a configuration may have others."""

# What a side has if the configuration does not say so.
_USUAL: dict[str, dict[str, Any]] = {
    "encoder": {"type": "recurrent", "num_layers": 8, "num_heads": 4},
    "decoder": {"type": "transformer", "num_layers": 4, "num_heads": 8},
}
_USUAL_SIZES = {"hidden_size": 512, "ff_size": 2048, "activation": "relu", "alpha": 1.0}
_SIZES = "hidden_size activation dropout num_layers ff_size num_heads".split()

# What our Transformer cannot be, by the usual values. A setting that is not there has the first.
_ONLY: dict[str, tuple[object, ...]] = {"type": ("transformer",), "alpha": (1.0,)}
_ONLY_TEXT: dict[str, tuple[object, ...]] = {
    "level": ("bpe", "word"),
    "tokenizer_type": ("sentencepiece", "subword-nmt"),
    "separator": ("@@",),
    "sep_token": (None,),
    "lang_tags": (None, []),
}

# Names there, and those that Hugging Face gives to the same.
_RENAMED = {
    r"src_embed\.lut\.": "encoder.embed_tokens.",
    r"trg_embed\.lut\.": "decoder.embed_tokens.",
    r"(src_src|trg_trg)_att\.": "self_attn.",
    r"src_trg_att\.": "encoder_attn.",
    r"_attn\.([qkv])_layer\.": r"_attn.\1_proj.",
    r"_attn\.output_layer\.": "_attn.out_proj.",
    r"feed_forward\.layer_norm\.": "final_layer_norm.",
    r"feed_forward\.pwff_layer\.0\.": "fc1.",
    r"feed_forward\.pwff_layer\.3\.": "fc2.",
    r"(layers\.\d+)\.(x_)?layer_norm\.": r"\1.self_attn_layer_norm.",
    r"(layers\.\d+)\.dec_layer_norm\.": r"\1.encoder_attn_layer_norm.",
    r"decoder\.output_layer\.weight": "lm_head.weight",
    r"(en|de)coder\.pe\.pe": "",  # a formula
}


def import_joeynmt(path: Path, out: Path, options: ImportOptions) -> None:
    """Write a checkpoint as a model file.

    path: the folder of a model, or a checkpoint in it.
    options: what it does not say is taken from the configuration.
    DataError if a file is missing or damaged. UsageError if our Transformer cannot be this model.
    """
    checkpoint = _checkpoint_of(path) if path.is_dir() else path
    content = read_pickle(checkpoint)
    if not (isinstance(content, dict) and isinstance(content.get("model_state"), dict)):
        raise DataError(f"{checkpoint}: holds no model of JoeyNMT")
    listing = checkpoint.with_name("config.yaml")
    texts, stacks, model = _parts_of(listing, read_settings(listing))
    named = renamed(content["model_state"], _RENAMED)
    weights = Weights(checkpoint, named, named.__getitem__)
    options = options.with_langs(listing, *(text.get("lang") for text in texts))
    steps = {*_moses_of(listing, texts), *options.moses}
    options = options._replace(
        segmenters=options.segmenters or _segmenters_of(listing, texts),
        moses=[step for step in STEPS if step in steps],
    )
    paths = [checkpoint.with_name(f"{side}_vocab.txt") for side in ("src", "trg")]
    sides = [
        Dictionary(path, _subwords(path, text), _SPECIAL)
        for path, text in zip(paths, texts, strict=True)
    ]
    weights.check_sides(sides)
    is_joint = bool(model.get("tied_embeddings"))
    scaled = [bool(stack.get("scale")) for stack in stacks]
    if is_joint:
        scaled[1] = scaled[0]
    tie = "none"
    if model.get("tied_softmax") and scaled[1]:  # else the projection is another matrix
        tie = "all" if is_joint else "decoder"
    base = TransformerConfig(
        pre_norm=_is_pre_norm(listing, stacks, weights), norm_epsilon=1e-6, tie_embeddings=tie
    )
    config = of_sides(listing, stacks, _SIZES, _SPECIAL).transformer(weights, base)
    foreign = with_sides(config, sides, options, is_joint=is_joint, takes_apart=True)
    unscaled = tuple(compress(model_import.EMBEDDINGS, (not yes for yes in scaled)))
    foreign = foreign._replace(unscaled=unscaled)
    longest = texts[0].get("max_length", texts[0].get("max_sent_length"))
    if isinstance(longest, int) and longest > 0:
        foreign = foreign._replace(max_src_tokens=longest)
    model_import.write_imported(out, checkpoint, foreign, weights.of, weights.unread)


def _checkpoint_of(folder: Path) -> Path:
    """Return the best checkpoint of a folder, or else the newest."""
    if (best := folder / "best.ckpt").exists():
        return best
    found = [path for path in folder.glob("*.ckpt") if path.stem.isdecimal()]
    if not found:
        raise DataError(f"{folder}: has no checkpoint such as best.ckpt; name the file")
    return max(found, key=lambda path: int(path.stem))


def _parts_of(
    path: Path, settings: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], Mapping[str, Any]]:
    """Return the settings of both sides' text, of encoder and decoder, and of the model.

    UsageError if ours cannot be this model.
    """
    try:
        data, model = settings["data"], settings["model"]
        symbols = _SYMBOLS | (data.get("special_symbols") or {})
        texts = []
        for side in (data["src"], data["trg"]):
            # In version 1, a side is a language, and all else is common to both.
            own = {**data, "lang": side} if isinstance(side, str) else side
            texts.append({**symbols, **own, **(own.get("tokenizer_cfg") or {})})
        stacks = [
            {**usual, **_USUAL_SIZES, **model[side].get("embeddings", {}), **model[side]}
            for side, usual in _USUAL.items()
        ]
    except (KeyError, TypeError, AttributeError):
        raise DataError(f"{path}: has no settings of JoeyNMT") from None
    for text in texts:
        model_import.check_can_be_ours(path, text, _ONLY_TEXT)
    for stack in stacks:
        model_import.check_can_be_ours(path, stack, _ONLY)
    model_import.check_alike(path, stacks, ("hidden_size", "activation"))
    return texts, stacks, model


def _subwords(path: Path, settings: Mapping[str, Any]) -> dict[int, str]:
    """Return the subwords of a vocabulary by id; special ones come first, listed or not."""
    text = read_file(path).decode(errors="replace").replace("\r\n", "\n").removesuffix("\n")
    listed = dict.fromkeys([*(str(settings[name]) for name in _SYMBOLS), *text.split("\n")])
    return {id_: text or f"<row {id_}>" for id_, text in enumerate(listed)}


def _moses_of(path: Path, texts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the steps of Moses' scripts that JoeyNMT takes by itself (UsageError)."""
    if any(text.get("normalize") for text in texts):
        console.warning(
            f"{path}: normalize is on: JoeyNMT applies NFKC, makes typographic quotes plain, and "
            "takes out spaces before punctuation; nmt does not, so do it with your text"
        )
    src, tgt = (
        ["tokenize", "escape"] * (text.get("pretokenizer") == "moses")
        + ["lowercase"] * bool(text.get("lowercase"))
        for text in texts
    )
    if src != tgt:
        raise UsageError(
            f"{path}: src and trg differ in lowercase or pretokenizer; nmt imports only models "
            "where they are alike"
        )
    return src


def _segmenters_of(path: Path, texts: Sequence[Mapping[str, Any]]) -> list[Path]:
    """Return the codes or SentencePiece models that the configuration names, in its folder.

    UsageError if it does so for one side only.
    """
    files = [str(text.get("model_file") or text.get("codes") or "") for text in texts]
    are_words = [
        text.get("level") == "word" or not file for text, file in zip(texts, files, strict=True)
    ]
    if are_words[0] != are_words[1]:
        raise UsageError(
            f"{path}: only one of src and trg is of subwords; nmt imports only models where both "
            "are"
        )
    return [] if any(are_words) else [path.with_name(Path(file).name) for file in files]


def _is_pre_norm(path: Path, stacks: Sequence[Mapping[str, Any]], weights: Weights) -> bool:
    """Return where norms stand.

    Version 1 has no such setting, and norms before sub-layers and after the last one. Without the
    setting, version 2 would train an encoder and a decoder that differ, and have no last norms.
    """
    norms = [stack.get("layer_norm") for stack in stacks]
    if norms == [None, None] and "model.encoder.layer_norm.weight" in weights.names:
        return True
    if norms[0] != norms[1] or norms[0] not in ("pre", "post"):
        raise UsageError(
            f"{path}: layer_norm of encoder and decoder is {norms[0]!r}, {norms[1]!r}; nmt imports "
            "only models where both are 'pre' or both are 'post'"
        )
    return bool(norms[0] == "pre")
