"""`nmt export bergamot`: its files, what it refuses, and what Bergamot itself makes of them."""

import hashlib
import json
import struct
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from command_line import Nmt
from command_line import write as write_lines
from sentencepiece import SentencePieceProcessor

from nmt.config.model_config import AttentionHead, TransformerConfig
from nmt.data.folder import DataFolder
from nmt.data.vocabulary import EOS_ID
from nmt.interchange.marian_binary import BinaryArrays
from nmt.interchange.marian_shortlist import learn_lists
from nmt.models.base import BARRED
from nmt.models.model_file import ModelCard, load_model, write_model
from nmt.models.transformer import Transformer

SIZES: Any = {"num_encoder_layers": 1, "num_decoder_layers": 1, "d_model": 64, "d_ff": 64}
STUDENT: Any = {"positions": "sinusoidal_halves", "first_input": "zeros", "decoder_memory": "ssru"}
CONFIG = TransformerConfig(**SIZES, **STUDENT, num_heads=2, norm_epsilon=1e-6)
MODEL, LEX, PIECES = "model.ende.intgemm.alphas.bin", "lex.50.50.ende.s2t.bin", "vocab.ende.spm"
METADATA, REGISTRY = "metadata.json", "registry.json"


@pytest.fixture(scope="module")
def model(card: ModelCard, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with random weights and the vocabularies of a data folder."""
    torch.manual_seed(1)
    folder, path = DataFolder.open(data), tmp_path_factory.mktemp("bergamot") / "model.safetensors"
    src, tgt = folder.src_vocabulary, folder.tgt_vocabulary
    student = replace(card, config=CONFIG, src_vocabulary=src, tgt_vocabulary=tgt)
    student = replace(student, alignment_head=AttentionHead(0, 0))
    write_model(path, student, dict(student.build().named_parameters()))
    return path


def export(nmt: Nmt, model: Path, data: Path, *words: str | Path) -> Path:
    out = model.with_name("out")
    done = nmt("export", "bergamot", model, out, "--data", data, *words)
    assert (done.status, done.stdout) == (0, ""), done.stderr
    return out


def test_the_weights_are_the_model_s_in_int8_and_rows_are_a_multiple_of_eight(
    nmt: Nmt, model: Path, data: Path
) -> None:
    out = export(nmt, model, data)
    size = len(DataFolder.open(data).tgt_vocabulary)
    rows = SentencePieceProcessor(model_file=str(out / PIECES)).get_piece_size()
    assert size % 8 and (rows % 8, rows - size < 8) == (0, True)
    imported = model.with_name("imported.safetensors")
    languages = ("--src", "en", "--tgt", "de", "--vocab", out / PIECES)
    nmt("import", "marian", out / MODEL, imported, *languages).succeeded()
    own, theirs = (dict(load_model(path)[0].named_parameters()) for path in (model, imported))
    for name, weight in own.items():
        start = EOS_ID if len(weight) == size else 0  # pad, unk and bos get one row
        found, exact = theirs[name].detach()[start : len(weight)], weight.detach()[start:]
        # Numbers of a normal distribution lose about 1 % in 8 bits.
        assert float((found - exact).norm()) <= 0.012 * float(exact.norm()), name


def test_tokens_never_produced_and_empty_rows_are_barred(nmt: Nmt, model: Path, data: Path) -> None:
    out, vocabulary = export(nmt, model, data), DataFolder.open(data).tgt_vocabulary
    bias = BinaryArrays(out / MODEL)["decoder_ff_logit_out_b"][0]
    barred = {*vocabulary.barred_ids, *range(len(vocabulary), len(bias))}
    assert set(np.flatnonzero(bias == BARRED)) == barred
    assert EOS_ID not in barred


def test_the_factors_give_products_of_the_sample_with_the_smallest_error(
    nmt: Nmt, model: Path, data: Path, tmp_path: Path
) -> None:
    lines = ["one two three", "four", "", "five six"]
    write_lines(tmp_path / "sample", lines)
    built, card = load_model(model)
    assert isinstance(built, Transformer)
    parameters: dict[str, torch.Tensor] = dict(built.named_parameters())
    with torch.no_grad():  # large inputs without an effect
        built.src_embedding.weight[:, 0] *= 10
        parameters["encoder.0.attention.qkv"][:, 0] = 0.0
    write_model(tmp_path / "model", card, parameters)
    out = export(nmt, tmp_path / "model", data, "--sample", tmp_path / "sample")
    inputs = []
    for ids in card.src_vocabulary.encode([line for line in lines if line]):
        tokens = torch.tensor([*ids, EOS_ID])
        positions = built.src_positions(torch.arange(len(tokens)), len(tokens))  # type: ignore[misc]
        inputs.append((built.src_embedding.weight[tokens] * 8 + positions).detach())
    x = torch.cat(inputs)
    arrays = BinaryArrays(out / MODEL)
    weights = parameters["encoder.0.attention.qkv"].detach().chunk(3)
    for part, weight in zip("qkv", weights, strict=True):
        name = f"encoder_l1_self_W{part}"

        def of_inputs(factor: float, weight: torch.Tensor = weight) -> float:
            rounded = (x * factor).round().clamp(-127, 127) / factor
            return float((rounded @ weight.T - x @ weight.T).square().sum())

        def of_weight(found: torch.Tensor, weight: torch.Tensor = weight) -> float:
            return float((x @ found.T - x @ weight.T).square().sum())

        (factor,) = arrays[f"{name}_QuantMultA"]
        usual = 127 / float(x.abs().max())  # with which nothing is cut off
        assert factor > 2 * usual
        assert of_inputs(factor) <= min(map(of_inputs, (usual, factor * 1.052, factor / 1.052)))
        step = float(weight.abs().max()) / 127
        found = torch.from_numpy(arrays[name].copy()).T
        assert of_weight(found) <= 1.0001 * of_weight((weight / step).round() * step)
    multiplied = {f"{name}_QuantMultA" for name in arrays.files if name[-3:-1] == "_W"}
    multiplied |= {"decoder_l1_rnn_W_QuantMultA", "Wemb_QuantMultA", "none_QuantMultA"}
    assert {name for name in arrays.files if name.endswith("_QuantMultA")} == multiplied


def lists_of(content: bytes) -> tuple[list[int], list[tuple[int, ...]]]:
    """Return the counts and lists of a shortlist in Marian's binary form."""
    magic, checksum, *counts = struct.unpack_from("<6Q", content)
    assert magic == 0xF11A48D5013417F5
    ends = struct.unpack_from(f"<{counts[2]}Q", content, 48)
    tokens = struct.unpack_from(f"<{counts[3]}I", content, 48 + 8 * counts[2])
    assert len(content) == 48 + 8 * len(ends) + 4 * len(tokens)
    mixed = 0
    for number in struct.unpack_from(f"<{len(content) // 8 - 2}Q", content, 16):
        mixed ^= (number + 0x9E3779B9 + (mixed * 64) + mixed // 4) % 2**64
        mixed %= 2**64
    assert mixed == checksum
    assert all(end < len(tokens) for end in ends[:-1])  # what Marian checks
    lists = [tokens[start:end] for start, end in pairwise(ends)]
    assert all(list(row) == sorted(set(row)) for row in lists)
    return counts[:2], lists


def test_the_shortlist_is_marian_s_with_the_most_frequent_tokens_on_every_list(
    nmt: Nmt, model: Path, data: Path
) -> None:
    counts, lists = lists_of((export(nmt, model, data) / LEX).read_bytes())
    assert counts == [50, 50]
    folder = DataFolder.open(data)
    # There are fewer than 1,000. A list of 100 changes many translations of single sentences.
    assert len(lists[EOS_ID]) == len(folder.tgt_vocabulary)
    ((one,), (eins,)) = (
        vocabulary.encode([word])[0]
        for vocabulary, word in ((folder.src_vocabulary, "one"), (folder.tgt_vocabulary, "eins"))
    )
    assert eins in lists[one]


def test_lists_have_the_chosen_length(data: Path) -> None:
    folder = DataFolder.open(data)
    lists = learn_lists(folder, frequent=3, best=1, src_size=len(folder.src_vocabulary))
    assert len(lists) == len(folder.src_vocabulary)
    occurrences = np.bincount(np.concatenate([*map(folder.train.tgt, range(len(folder.train)))]))
    most = sorted(range(len(occurrences)), key=lambda token: -occurrences[token])[:3]
    assert set(lists[EOS_ID].tolist()) == set(most)
    assert max(len(row) for token, row in enumerate(lists) if token != EOS_ID) == 1


def test_the_registry_has_checksums_and_metadata_options(nmt: Nmt, model: Path, data: Path) -> None:
    out = export(nmt, model, data)
    metadata, registry = (json.loads((out / name).read_text()) for name in (METADATA, REGISTRY))
    files = registry["ende"]
    names = {kind: file["name"] for kind, file in files.items()}
    assert names == {"model": MODEL, "lex": LEX, "vocab": PIECES}
    for file in files.values():
        content = (out / file["name"]).read_bytes()
        known = len(content), hashlib.sha256(content).hexdigest()
        assert (file["size"], file["expectedSha256Hash"]) == known
    assert metadata["hash"] == files["model"]["expectedSha256Hash"]
    assert (metadata["sourceLanguage"], metadata["targetLanguage"]) == ("en", "de")
    assert metadata["modelConfig"]["transformer-guided-alignment-layer"] == "last"
    arrays = BinaryArrays(out / MODEL)
    sizes = (arrays[name].size for name in arrays.files if "special" not in name)
    assert metadata["modelStatistics"]["parameters"] == sum(sizes)


def test_a_model_file_needs_its_data_or_a_sample(nmt: Nmt, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert "--data" in nmt("export", "bergamot", model, out).refusal(2)
    (tmp_path / "sample").write_text("one two\n")
    nmt("export", "bergamot", model, out, "--sample", tmp_path / "sample").succeeded()
    assert not (out / LEX).exists()
    (tmp_path / "sample").write_bytes(b"one\n\xff\n")
    done = nmt("export", "bergamot", model, out, "--sample", tmp_path / "sample")
    assert "line 2" in done.refusal(1)
