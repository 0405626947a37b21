"""Models of Sockeye 3: a folder with `params.best`, `config` and vocabularies.

They do not say what has segmented the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nmt.config.model_config import TransformerConfig
from nmt.data.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from nmt.errors import DataError, UsageError
from nmt.interchange.importers import huggingface_files as files
from nmt.interchange.importers import model_import
from nmt.interchange.importers.huggingface_settings import numbered
from nmt.interchange.importers.segmenters import Dictionary, ImportOptions, with_sides
from nmt.interchange.importers.yaml_settings import read_settings
from nmt.system.files import parse_json, read_file

_SPECIAL = {"<pad>": PAD_ID, "<unk>": UNK_ID, "<s>": BOS_ID, "</s>": EOS_ID}
"""Its special pieces have our ids."""

# What our Transformer cannot be, by the usual values. A setting that is not there has the first.
_ONLY = (
    model_import.only("weight_tying_type", "src_trg_softmax", "trg_softmax", "src_trg", "none")
    | model_import.only("dtype", "float32", "float16", "bfloat16")
    | model_import.only("config_length_task neural_vocab_selection", None)
    | model_import.only("lhuc", False)
)
_ONLY_OF_PARTS = (
    model_import.only("decoder_type", "transformer")
    | model_import.only("positional_embedding_type", "fixed")
    | model_import.only("block_prepended_cross_attention use_lhuc use_glu", False)
    | model_import.only("factor_configs", None)
)
_SIZES = "model_size act_type dropout_prepost num_layers feed_forward_num_hidden attention_heads"
_SAME = "model_size attention_heads act_type preprocess_sequence postprocess_sequence".split()
"""What encoder and decoder of our Transformer share."""
_PRE_NORM = {("n", "r"): True, ("", "rn"): False}
"""By what comes before a sub-layer and after it: a norm, or a residual connection."""

# Names there, and those that Hugging Face gives to the same.
_RENAMED = {
    r"embedding_source\.embedding\.": "encoder.embed_tokens.",
    r"embedding_target\.embedding\.": "decoder.embed_tokens.",
    r"pos_embedding\.": "embed_positions.",
    r"final_process\.layer_norm\.": "layer_norm.",
    r"(pre|post)_(self_attention|autoregr_layer)\.layer_norm\.": "self_attn_layer_norm.",
    r"(pre|post)_enc_attention\.layer_norm\.": "encoder_attn_layer_norm.",
    r"(pre|post)_ff\.layer_norm\.": "final_layer_norm.",
    r"\.(self_attention|autoregr_layer)\.": ".self_attn.",
    r"\.enc_attention\.": ".encoder_attn.",
    r"\.ff\.ff([12])\.": r".fc\1.",
    r"_attn\.ff_out\.": "_attn.out_proj.",
    r"_attn\.ff_q\.": "_attn.q_proj.",
    r"output_layer\.weight": "lm_head.weight",
    r"output_layer\.bias": "final_logits_bias",
}


def import_sockeye(path: Path, out: Path, options: ImportOptions) -> None:
    """Write a model as a model file.

    path: the folder of a model, or a file of parameters in it.
    DataError if a file is missing or damaged. UsageError if our Transformer cannot be this model,
    or a language is missing.
    """
    options = options.with_langs(path)
    parameters = path / "params.best" if path.is_dir() else path
    listing = parameters.with_name("config")
    settings = read_settings(listing)
    encoder, decoder = _sides_of(listing, settings)
    weights = _weights_of(parameters, files.Config(listing, encoder).number("attention_heads"))
    paths = [parameters.with_name(f"vocab.{side}.0.json") for side in ("src", "trg")]
    special = {id_: id_ for id_ in _SPECIAL.values()}
    sides = [Dictionary(path, _subwords(path), special) for path in paths]
    weights.check_sides(sides)
    tying = settings.get("weight_tying_type", "src_trg_softmax")
    base = TransformerConfig(
        pre_norm=_is_pre_norm(listing, encoder),
        norm_epsilon=1e-6,
        output_bias=True,
        tie_embeddings={"src_trg_softmax": "all", "trg_softmax": "decoder"}.get(tying, "none"),
    )
    sizes = files.of_sides(listing, (encoder, decoder), _SIZES.split(), special)
    config = sizes.transformer(weights, base)
    model = with_sides(config, sides, options, is_joint=tying.startswith("src_trg"))
    longest = files.Config(listing, encoder).number("max_seq_len_source")  # with eos
    model = model._replace(max_src_tokens=max(1, longest - 1), sines_first=True)
    model_import.write_imported(out, parameters, model, weights.of, weights.unread)


def _sides_of(path: Path, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the settings of encoder and decoder; UsageError if ours cannot be this model."""
    model_import.check_can_be_ours(path, settings, _ONLY)
    parts: list[Any] = [settings.get(f"config_{name}") for name in ("encoder", "decoder")]
    embeddings: list[Any] = [settings.get(f"config_embed_{name}") for name in ("source", "target")]
    if not all(isinstance(part, dict) for part in (*parts, *embeddings)):
        raise DataError(f"{path}: has no settings of Sockeye 3")
    for part in (*parts, *embeddings):
        model_import.check_can_be_ours(path, part, _ONLY_OF_PARTS)
    model_import.check_alike(path, parts, _SAME)
    is_swish = parts[0].get("act_type") == "swish1"
    return [{**part, "act_type": "swish"} if is_swish else part for part in parts]


def _is_pre_norm(path: Path, side: Mapping[str, Any]) -> bool:
    """Return where norms stand; UsageError if that is elsewhere in ours."""
    found = [str(side.get(f"{name}process_sequence")) for name in ("pre", "post")]
    steps = (found[0].replace("d", ""), found[1].replace("d", ""))  # d is dropout
    if steps not in _PRE_NORM:
        raise UsageError(
            f"{path}: preprocess_sequence and postprocess_sequence are {found[0]!r}, {found[1]!r}; "
            "nmt imports only 'n', 'dr' and '', 'drn'"
        )
    return _PRE_NORM[steps]


def _subwords(path: Path) -> dict[int, str]:
    """Return the subwords of a vocabulary by id."""
    try:
        texts = numbered(path, parse_json(read_file(path)))
    except (ValueError, AttributeError):
        raise DataError(f"{path}: damaged: not a JSON object") from None
    if any(texts.get(id_) != text for text, id_ in _SPECIAL.items()):
        raise DataError(f"{path}: damaged: does not begin with {', '.join(_SPECIAL)}")
    return texts


def _weights_of(path: Path, heads: int) -> files.Weights:
    """Return the weights by the names that Hugging Face gives to the same.

    heads: the number of heads, whose keys and values take turns in one matrix.
    """
    tensors = files.read_pickle(path)
    if not isinstance(tensors, dict) or "output_layer.bias" not in tensors:
        raise DataError(f"{path}: holds no model of Sockeye 3")
    named = files.renamed(tensors, _RENAMED)
    for name in [name for name in named if "_attn.ff_" in name]:
        matrix, has_queries = named.pop(name), name.endswith("in.weight")
        width = matrix.shape[-1] if matrix.dim() == 2 else 0
        if len(matrix) != (2 + has_queries) * width or not (width and heads) or width % heads:
            raise DataError(f"{path}: damaged: {name} is no matrix for {heads} heads")
        keys, values = matrix[-2 * width :].view(heads, 2, -1, width).unbind(1)  # (H, K, D)
        parts = {"k": keys.reshape(width, width), "v": values.reshape(width, width)}
        if has_queries:
            parts["q"] = matrix[:width]
        stem = name.partition("ff_")[0]
        named |= {f"{stem}{key}_proj.weight": part for key, part in parts.items()}
    named = files.zero_biases(named)
    return files.Weights(path, named, named.__getitem__)
