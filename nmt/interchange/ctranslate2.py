"""Export to CTranslate2, a fast engine for translation, by its public converter classes.

`ctranslate2_manifest` describes the folder of an export. Other programs can use it, too: beside the
weights, there are the SentencePiece models, and a README.md with what those programs must do.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from nmt import console
from nmt.data.vocabulary import BOS_ID, EOS_ID, STRANGE, UNK_ID, Vocabulary
from nmt.errors import DataError, UsageError, did_you_mean
from nmt.interchange.ctranslate2_manifest import CALIBRATION, FORMAT_VERSION, MANIFEST, Export
from nmt.interchange.exports import check_replaceable, load_transformer, write_vocabularies
from nmt.interchange.importers.ctranslate2_folder import POSITIONS, foreign_name
from nmt.interchange.importers.model_import import EMBEDDINGS, OUTPUT_BIAS
from nmt.interchange.programs import CTRANSLATE2
from nmt.models.base import BARRED
from nmt.models.device import QUANTIZATIONS
from nmt.models.model_file import CARD, ModelCard, model_checksum, write_model
from nmt.models.transformer import EncoderLayer, Transformer
from nmt.system.files import atomic_folder, resolved, sha256_file, write_text

_README = "README.md"

# CTranslate2 needs a table of positions: for twice the longest source plus this many.
_MORE_POSITIONS = 512
_LEAST_POSITIONS = 1024  # by default, CTranslate2's other users cut longer sources off here
_ACTIVATIONS = {"relu": "RELU", "swish": "SWISH", "gelu": "GELU", "swiglu": "SWISH"}


def fault_of(card: ModelCard) -> str | None:
    """Return why CTranslate2 cannot hold a model; None if it can."""
    return CTRANSLATE2.fault(card.config)


def export_ctranslate2(
    path: Path,
    out: Path,
    quantization: str = "float32",
    *,
    src_name: str | None = None,
    tgt_name: str | None = None,
) -> str:
    """Export a model that fits. The folder appears when it is complete.

    out: is new, or an earlier export, which is replaced.
    src_name: of the language of sources, for people; None: its code; tgt_name: likewise.
    UsageError if CTranslate2 is not installed, or does not know the type.
    Returns what was written, in words.
    """
    out = resolved(out)  # replaces the target of a symbolic link
    if out.exists():
        known = _files_of_export(out)
        check_replaceable(out, is_export=bool(known))
        if others := sorted({entry.name for entry in out.iterdir()} - {CALIBRATION, *known}):
            raise UsageError(f"{out}: has other files than an export's, such as {others[0]}")
    spec, card, positions = quantized_specification(path, quantization)
    duties = duties_of_others(card)
    with atomic_folder(out) as folder:
        spec.save(str(folder))
        write_model(folder / CARD, card, {})
        write_vocabularies(folder, _piece_names(card), card)
        title = f"{src_name or card.src_lang} to {tgt_name or card.tgt_lang}"
        write_text(folder / _README, _readme(card, title, positions, duties))
        names = sorted(entry.name for entry in folder.iterdir())
        checksums = {name: sha256_file(folder / name) for name in names}
        export = Export(model_checksum(path), quantization, positions, checksums)
        content = {"format": FORMAT_VERSION} | asdict(export)
        write_text(folder / MANIFEST, json.dumps(content, indent=2) + "\n")
    for duty in duties:
        console.warning(f"{out}: other programs than nmt must {duty}")
    return f"CTranslate2, in {quantization}"


def quantized_specification(path: Path, quantization: str) -> tuple[Any, ModelCard, int]:
    """Return CTranslate2's specification of a model, its card, and how many positions it has."""
    if quantization not in QUANTIZATIONS:
        raise UsageError(
            f"unknown quantization {quantization!r}{did_you_mean(quantization, QUANTIZATIONS)}"
        )
    model, card = load_transformer(path)
    positions = max(_LEAST_POSITIONS, 2 * card.max_src_tokens + _MORE_POSITIONS)
    spec = _specification(model, card, positions)
    spec.optimize(quantization=quantization)
    return spec, card, positions


def duties_of_others(card: ModelCard) -> list[str]:
    """Return what another program must do besides SentencePiece's segmentation and search."""
    duties = []
    if (rules := card.src_vocabulary.moses) is not None:
        done = " and ".join(rules.steps)
        duties.append(f"{done} sources as Moses' scripts do, and undo that in translations")
    if card.src_vocabulary.has_added_tokens:
        duties.append("split the added tokens off from each source before segmenting its text")
    if (languages := card.languages) is not None:
        piece = next(iter(languages.pieces.values()))
        if languages.src:
            whose = "source" if languages.src == "src" else "target"
            duties.append(
                f"begin the pieces of each source with its {whose} language, such as {piece}"
            )
        if languages.tgt:
            duties.append(f"give the target language as target_prefix, such as {piece}")
    return duties


def _piece_names(card: ModelCard) -> tuple[str, str]:
    """Return the names of the SentencePiece models of source and target."""
    is_joint = card.src_vocabulary.model == card.tgt_vocabulary.model
    return ("sentencepiece.model",) * 2 if is_joint else ("source.spm", "target.spm")


def _readme(card: ModelCard, title: str, positions: int, duties: Sequence[str]) -> str:
    """Return how other programs use an export.

    By default, CTranslate2 ends translations at 256 tokens, and cuts sources at 1,024.
    """
    src, tgt = _piece_names(card)
    listed = "".join(f"\n- Before these lines work, a program must {duty}." for duty in duties)
    return f"""# {title}, for CTranslate2

`nmt translate` reads this folder. In other programs, start from here:

```python
import ctranslate2
from sentencepiece import SentencePieceProcessor

translator = ctranslate2.Translator(".")
source = SentencePieceProcessor(model_file="{src}")
target = SentencePieceProcessor(model_file="{tgt}")
pieces = source.encode(["Hello, world!"], out_type=str)
results = translator.translate_batch(
    pieces,
    beam_size=4,
    length_penalty=0.6,
    max_input_length=0,
    max_decoding_length=max(map(len, pieces)) + 50,
)
for result in results:
    print(target.decode(result.hypotheses[0]))
```
{listed}
- Keep both limits. By default, CTranslate2 ends translations at 256 tokens without a word.
- Split text into sentences. No source in training had more than {card.max_src_tokens} pieces.
  CTranslate2 refuses lines of {positions} pieces or more.
"""


def _files_of_export(folder: Path) -> set[str]:
    """Return the names of an export's files; none if a folder is no whole one."""
    try:
        return {MANIFEST, *Export.open(folder).files}
    except (DataError, OSError):
        return set()


def _specification(model: Transformer, card: ModelCard, positions: int) -> Any:
    """Return CTranslate2's specification of a model, with its weights."""
    try:
        from ctranslate2.specs import common_spec, transformer_spec
    except ImportError:
        raise UsageError("CTranslate2 is not installed; run `pip install ctranslate2`") from None
    config = model.config
    layers = {
        "pre_norm": config.pre_norm,
        "activation": common_spec.Activation[_ACTIVATIONS[config.feed_forward]],
        "ffn_glu": config.feed_forward == "swiglu",
        "rms_norm": config.norm == "rms",
        "rotary_dim": config.head_widths[0] if config.positions == "rotary" else None,
    }
    spec = transformer_spec.TransformerSpec(
        transformer_spec.TransformerEncoderSpec(len(model.encoder), config.num_heads, **layers),
        transformer_spec.TransformerDecoderSpec(len(model.decoder), config.num_heads, **layers),
    )
    _fill(spec, model, card.tgt_vocabulary, positions)
    spec.config.layer_norm_epsilon = cast(EncoderLayer, model.encoder[0]).after_attention.norm.eps
    src, tgt = card.src_vocabulary.pieces, card.tgt_vocabulary.pieces
    spec.register_source_vocabulary(_names_of_sources(src, card.src_vocabulary.known))
    spec.register_target_vocabulary(tgt)
    spec.config.add_source_eos = model.config.source_end
    spec.config.decoder_start_token = spec.config.bos_token = tgt[BOS_ID]
    spec.config.eos_token, spec.config.unk_token = tgt[EOS_ID], tgt[UNK_ID]
    spec.validate()
    return spec


def _names_of_sources(pieces: Sequence[str], known: int) -> list[str]:
    """Return names by which CTranslate2 reads what SentencePiece makes of a text as nmt does.

    What SentencePiece leaves unknown may be a piece of the other side, and what is read as unk may
    have no name that it gives.
    """
    names = [piece.removeprefix(STRANGE) for piece in pieces[:known]]
    return names + [STRANGE + piece for piece in pieces[known:]]


def _fill(spec: Any, model: Transformer, vocabulary: Vocabulary, positions: int) -> None:
    """Copy a model's weights, and the vectors of this many positions, to a specification.

    vocabulary: of targets.
    """
    parameters = dict[str, Tensor](model.named_parameters(remove_duplicate=False))
    parameters[EMBEDDINGS[1]] = _decoder_inputs(model)
    parameters[OUTPUT_BIAS] = _bias(model, vocabulary)
    weights = {foreign_name(name): one for name, one in parameters.items() if name not in POSITIONS}
    if model.config.feed_forward == "swiglu":
        for gate in [name for name in weights if "ffn/linear_0/" in name]:
            value = gate.replace("linear_0", "linear_0_noact")
            weights[gate], weights[value] = weights[gate].chunk(2)
    for layer in {name.rpartition("/")[0] for name in weights if "/linear_" in name}:
        weights.setdefault(f"{layer}/bias", torch.zeros(len(weights[f"{layer}/weight"])))
    for side, added in ((spec.encoder, model.src_positions), (spec.decoder, model.tgt_positions)):
        side.scale_embeddings = True
        if hasattr(side, "position_encodings"):  # not in a decoder with rotary positions
            table = torch.zeros(positions, model.config.d_model)  # with rotary ones
            if added is not None:
                table = added(torch.arange(positions), positions)
            side.position_encodings.encodings = table.detach().numpy()
    for name, weight in weights.items():
        *parts, last = name.split("/")
        place = spec
        for part in parts:  # such as layer_0, the first one of a list
            listed, _, number = part.rpartition("_")
            place = getattr(place, part, None) or getattr(place, listed)[int(number)]
        setattr(place, last, weight.detach().numpy())


def _decoder_inputs(model: Transformer) -> Tensor:
    """Return the embeddings of the decoder, with the first one where bos has its row: (V, D)."""
    weight = model.tgt_embedding.weight.detach().clone()
    if model.config.first_input == "eos":
        weight[BOS_ID] = weight[EOS_ID]
    elif model.config.first_input == "zeros":
        weight[BOS_ID] = 0.0
    return weight


def _bias(model: Transformer, vocabulary: Vocabulary) -> Tensor:
    """Return the model's bias, if any, which also bars tokens that are never text."""
    bias = torch.zeros(len(vocabulary))
    if model.output_bias is not None:
        bias += model.output_bias.detach()
    bias[list(vocabulary.barred_ids)] = BARRED
    return bias
