"""Export to Bergamot, the translator of Firefox: int8 weights, a shortlist, vocabularies, metadata.

Bergamot also rounds the inputs of its matrix products to int8. The factors that it multiplies them
by are in the file. They and the factors of the weights are chosen on a sample of text: those with
which each product has the smallest squared error. Numbers beyond the largest that a factor allows
are cut off there, so that the many smaller ones are rounded less.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from nmt import console
from nmt.data.batches import pack_sources
from nmt.data.folder import DataFolder
from nmt.data.pieces import PieceModel
from nmt.data.vocabulary import BOS_ID, EOS_ID
from nmt.errors import UsageError
from nmt.interchange import marian_export
from nmt.interchange.exports import check_replaceable, load_transformer
from nmt.interchange.importers.marian import INPUT_FACTOR, OPTIONS, OUTPUT_BIAS_NAME, foreign_names
from nmt.interchange.importers.model_import import EMBEDDINGS
from nmt.interchange.marian_binary import TABLE, Arrays, rounded, write_arrays
from nmt.interchange.marian_export import as_array, foreign_arrays, options_of
from nmt.interchange.marian_shortlist import FIRST, content_of, learn_lists
from nmt.interchange.programs import BERGAMOT
from nmt.models.base import BARRED
from nmt.models.kernels.linear import Product, use_packed
from nmt.models.model_file import ModelCard
from nmt.models.transformer import Transformer
from nmt.system.files import atomic_folder, check_room, resolved, write_text

_METADATA, _REGISTRY = "metadata.json", "registry.json"
_ARCHITECTURES = {(256, 1536, 2): "tiny", (384, 1536, 4): "base-memory", (512, 2048, 2): "base"}
"""Mozilla's names for students, by d_model, d_ff and layers of the decoder."""
_TOKENS = 8  # what the number of target tokens must be a multiple of

_BEST, _FREQUENT = 50, 1000  # on shortlists; frequent tokens add nothing to a download

_SAMPLE_LINES, _BATCH_LINES = 500, 32
_LONGEST_SOURCE = 128  # Bergamot cuts longer sentences
_ROWS, _CALLS = 16, 64  # inputs of a product that are kept: rows of a call, and calls
_LARGEST = 127  # in int8
_SHARES = np.geomspace(1, 0.2, 33)
"""Of the largest absolute number, from which on numbers are cut off."""


def export_bergamot(
    path: Path,
    out: Path,
    *,
    data: DataFolder | None = None,
    sample: Sequence[str] | None = None,
    src_name: str | None = None,
    tgt_name: str | None = None,
) -> str:
    """Export a model that fits. The folder appears when it is complete.

    out: is new, or an earlier export, which is replaced.
    data: what the model was trained on, from which the shortlist is learnt; None: there is no
        shortlist.
    sample: source lines on which inputs are measured; None: those of valid.
    src_name: of the language of sources, which pages show; None: they know it; tgt_name: likewise.
    UsageError if the data has another vocabulary.
    Returns what was written, in words.
    """
    out = resolved(out)
    check_replaceable(out, is_export=(out / _METADATA).is_file())
    model, card = load_transformer(path)
    vocabularies = card.src_vocabulary.model, card.tgt_vocabulary.model
    if data and (data.src_vocabulary.model, data.tgt_vocabulary.model) != vocabularies:
        raise UsageError(f"{data.path}: has another vocabulary than {path}")
    if card.alignment_head is None:
        console.warning(
            f"{path}: was trained without guided_alignment, so Bergamot will misplace HTML tags"
        )
    if sample is None:
        assert data is not None
        sample = data.valid_texts[0].lines()[0]
    pieces = [PieceModel.read(vocabulary).padded(_TOKENS) for vocabulary in vocabularies]
    sizes = len(pieces[0].pieces), len(pieces[1].pieces)
    arrays = _arrays(model, card, _inputs(model, card, sample), sizes)
    options = options_of(model.config, sizes)
    pair = f"{card.src_lang}{card.tgt_lang}"
    kinds = ("vocab",) if pieces[0] == pieces[1] else ("srcvocab", "trgvocab")
    contents: dict[str, tuple[str, bytes]] = {}
    for kind, side in zip(kinds, pieces, strict=False):
        contents[kind] = f"{kind}.{pair}.spm", side.write()
    binary = write_arrays({**arrays, OPTIONS: as_array(options)})
    contents["model"] = f"model.{pair}.intgemm.alphas.bin", binary
    if data is not None:
        lists = learn_lists(data, frequent=_FREQUENT, best=_BEST, src_size=sizes[0])
        contents["lex"] = f"lex.{FIRST}.{_BEST}.{pair}.s2t.bin", content_of(lists, _BEST)
    student = model.config.d_model, model.config.d_ff, model.config.num_decoder_layers
    metadata = {
        "architecture": _ARCHITECTURES.get(student, "custom"),
        "byteSize": len(binary),
        "hash": hashlib.sha256(binary).hexdigest(),
        "modelConfig": options,
        "modelStatistics": _statistics(arrays),
        "sourceLanguage": card.src_lang,
        "targetLanguage": card.tgt_lang,
    }
    named = {"sourceName": src_name, "targetName": tgt_name}
    metadata |= {key: name for key, name in named.items() if name is not None}
    registry = {pair: {kind: _entry(*file) for kind, file in contents.items()}}
    with atomic_folder(out) as folder:
        check_room(folder, sum(len(content) for _, content in contents.values()))
        for name, content in contents.values():
            (folder / name).write_bytes(content)
        for name, values in ((_METADATA, metadata), (_REGISTRY, registry)):
            write_text(folder / name, json.dumps(values, indent=2) + "\n")
    shortlist = "no shortlist, which makes it slower" if data is None else "a shortlist"
    return f"Bergamot, with {shortlist}"


def fault_of(card: ModelCard) -> str | None:
    """Return why Bergamot cannot be a model; None if it can."""
    return marian_export.fault_of(card, BERGAMOT)


def _entry(name: str, content: bytes) -> dict[str, object]:
    """Return what a registry of models says of a file."""
    return {
        "name": name,
        "size": len(content),
        "estimatedCompressedSize": len(zlib.compress(content)),
        "expectedSha256Hash": hashlib.sha256(content).hexdigest(),
        "modelType": "dev",
    }


def _statistics(arrays: Arrays) -> dict[str, int]:
    """Return numbers of parameters and their bytes, as Mozilla's pipeline counts them."""
    numbers = {
        name: array[0] if isinstance(array, tuple) else array for name, array in arrays.items()
    }

    def total(what: str, start: str) -> int:
        of_side = (array for name, array in numbers.items() if name.startswith(start))
        return sum(getattr(array, what) for array in of_side)

    embeddings = numbers["Wemb"].nbytes if "Wemb" in numbers else 0
    found = {"parameters": total("size", ""), "embeddings_bytes": embeddings}
    for side in ("encoder", "decoder"):
        found[f"{side}_parameters"] = total("size", f"{side}_")
        found[f"{side}_bytes"] = total("nbytes", f"{side}_")
    return found


def _arrays(
    model: Transformer, card: ModelCard, inputs: Mapping[str, Tensor], sizes: tuple[int, int]
) -> Arrays:
    """Return the arrays: matrices in int8, with the factors of their inputs.

    inputs: (n, i) of each weight that is multiplied, by our names.
    sizes: of the vocabularies; their last pieces may have no row yet.
    """
    arrays: dict[str, Any] = dict(foreign_arrays(model))
    bias = np.full((1, sizes[1]), BARRED, np.float32)
    bias[:, : len(card.tgt_vocabulary)] = arrays[OUTPUT_BIAS_NAME]
    bias[:, list(card.tgt_vocabulary.barred_ids)] = BARRED
    arrays[OUTPUT_BIAS_NAME] = bias
    for name, table in list(arrays.items()):
        if TABLE in name:
            missing = sizes[0 if name.startswith("encoder") else 1] - len(table)
            table = np.pad(table, ((0, missing), (0, 0)))  # (V, D)
            if name.startswith("encoder"):  # it is not multiplied
                arrays[name] = rounded(table, _factor(torch.from_numpy(table), lambda x: x))
            else:
                of_inputs, of_table = _factors(inputs[EMBEDDINGS[2]], table.T)
                arrays[name] = rounded(table, of_table)
                arrays |= {f"{one}{INPUT_FACTOR}": of_inputs for one in (name, "none")}
    for ours, rows in inputs.items():
        if ours == EMBEDDINGS[2]:  # it is one of the tables
            continue
        for name in foreign_names(ours, model.config):
            of_inputs, of_weight = _factors(rows, arrays[name])
            arrays[name] = rounded(arrays[name], of_weight)
            arrays[f"{name}{INPUT_FACTOR}"] = of_inputs
    return arrays


def _factors(inputs: Tensor, matrix: NDArray[np.float32]) -> tuple[NDArray[np.float32], float]:
    """Return the factors of inputs (n, i) and of a matrix (i, o)."""
    weight = torch.from_numpy(np.ascontiguousarray(matrix))  # (i, o)
    of_inputs = _factor(inputs, lambda x: x @ weight)  # (n, o)
    return np.array([of_inputs], np.float32), _factor(weight, lambda x: inputs @ x)


def _factor(numbers: Tensor, product: Callable[[Tensor], Tensor]) -> float:
    """Return the factor for rounding numbers with which their product has the smallest error."""
    largest = float(numbers.abs().max()) or 1.0
    exact = product(numbers)

    def error(factor: float) -> float:
        in_int8 = (numbers * factor).round_().clamp_(-_LARGEST, _LARGEST).div_(factor)
        return float((product(in_int8) - exact).square_().sum())

    return min((float(_LARGEST / (share * largest)) for share in _SHARES), key=error)


def _inputs(model: Transformer, card: ModelCard, lines: Sequence[str]) -> dict[str, Tensor]:
    """Return inputs (n, i) of each weight, by its name."""
    kept: dict[str, list[Tensor]] = {}
    for name, weight in model.named_parameters(remove_duplicate=False):
        if weight.dim() == 2 and name not in EMBEDDINGS[:2]:
            use_packed(weight, _recording(weight, kept.setdefault(name, [])))
    step = max(1, len(lines) // _SAMPLE_LINES)
    sources = [ids[:_LONGEST_SOURCE] for ids in card.src_vocabulary.encode(lines[::step]) if ids]
    sources.sort(key=len)
    if not sources:
        raise UsageError("the sample has no text to measure inputs on; give other text")
    with console.progress("measuring inputs", total=len(sources), unit="lines") as bar:
        for start in range(0, len(sources), _BATCH_LINES):
            batch = sources[start : start + _BATCH_LINES]
            _translate(model.eval(), card, batch)
            bar.update(len(batch))
    return {name: torch.cat(rows) for name, rows in kept.items()}


def _recording(weight: Tensor, kept: list[Tensor]) -> Product:
    """Return the product with a weight, which also keeps inputs (n, i), evenly from all calls."""
    calls, step = 0, 1  # from a call that is kept to the next

    def product(x: Tensor, bias: Tensor | None) -> Tensor:
        nonlocal calls, step
        if calls % step == 0:
            rows = x.flatten(0, -2)  # (n, i)
            kept.append(rows[:: -(-len(rows) // _ROWS)].clone())
            if len(kept) == _CALLS:
                del kept[1::2]
                step *= 2
        calls += 1
        return F.linear(x, weight, bias)

    return product


@torch.inference_mode()
def _translate(model: Transformer, card: ModelCard, sources: Sequence[Sequence[int]]) -> None:
    """Translate greedily, as Bergamot does."""
    barred = list(card.tgt_vocabulary.barred_ids)
    state = model.begin(pack_sources(sources))
    tokens = torch.full((len(sources),), BOS_ID)
    for _ in range(2 * max(map(len, sources))):
        logits = model.project(model.step([state], tokens))  # (N, V)
        logits[:, barred] = BARRED
        tokens = logits.argmax(1)
        (active,) = torch.nonzero(tokens != EOS_ID, as_tuple=True)
        if not len(active):
            return
        state.select(active, active)
        tokens = tokens[active]
