"""A model file gives back what was written, and damaged files are refused."""

from __future__ import annotations

import dataclasses
import os
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from nmt.data.batches import pack_sources
from nmt.data.moses import Moses
from nmt.data.vocabulary import Vocabulary, learn_vocabulary
from nmt.errors import DataError, NMTError
from nmt.model_config import TransformerConfig
from nmt.models.base import TranslationModel
from nmt.models.model_file import (
    FORMAT_VERSION,
    KIND,
    ModelCard,
    ModelReader,
    find_model,
    load_model,
    write_model,
)
from nmt.models.tensor_file import TensorFile, write_tensors
from nmt.models.transformer import Transformer

Content = tuple[dict[str, Tensor], dict[str, object]]


def weights_of(model: TranslationModel) -> dict[str, Tensor]:
    return dict(model.named_parameters())


@torch.no_grad()
def first_logits(model: TranslationModel) -> Tensor:
    state = model.eval().begin(pack_sources([[5, 6, 7], [300]]))
    return model.project(model.step([state], torch.tensor([2, 2])))


@pytest.fixture
def content(model_file: Path) -> Content:
    """Return the tensors and the header of a good model file."""
    file = TensorFile(model_file, kind=KIND, version=FORMAT_VERSION)
    return {name: file.read(name) for name in file.names}, dict(file.header)


# -------------------------------------------------------------------------- round trip


@pytest.mark.parametrize("tie_embeddings", ["all", "decoder", "none"])
def test_a_loaded_model_is_the_one_that_was_written(
    card: ModelCard, tmp_path: Path, tie_embeddings: str
) -> None:
    card = replace(card, config=replace(card.config, tie_embeddings=tie_embeddings))
    torch.manual_seed(2)
    model = card.build()
    write_model(tmp_path / "m", card, weights_of(model))
    loaded, read = load_model(tmp_path / "m")
    for field in dataclasses.fields(ModelCard):
        if "vocabulary" not in field.name:
            assert getattr(read, field.name) == getattr(card, field.name)
    assert read.src_vocabulary.model == card.src_vocabulary.model
    assert read.tgt_vocabulary is read.src_vocabulary
    assert weights_of(loaded).keys() == weights_of(model).keys()
    for name, weight in weights_of(loaded).items():
        assert weight.dtype == torch.float32
        assert weight.requires_grad
        assert torch.equal(weight, weights_of(model)[name])
    assert torch.equal(first_logits(loaded), first_logits(model))


def test_the_rules_of_moses_travel_with_the_vocabulary(card: ModelCard, tmp_path: Path) -> None:
    src, tgt = (
        Vocabulary(card.src_vocabulary.model, Moses(lang, normalize=True, tokenize=False))
        for lang in ("en", "de")
    )
    with_rules = replace(card, src_vocabulary=src, tgt_vocabulary=tgt)
    write_model(tmp_path / "m", with_rules, weights_of(card.build()))
    read = ModelReader(tmp_path / "m").card
    assert (read.src_vocabulary.moses, read.tgt_vocabulary.moses) == (src.moses, tgt.moses)
    assert read.tgt_vocabulary.model == card.src_vocabulary.model
    assert with_rules.differences(read) == []
    assert card.differences(read) == ["another src vocabulary", "another tgt vocabulary"]


@pytest.mark.parametrize("moses", [{"normalize": 1, "tokenize": True}, {"normalize": True}])
def test_unknown_rules_of_moses_are_damage(
    content: Content, tmp_path: Path, moses: dict[str, object]
) -> None:
    tensors, header = content
    header["moses"] = moses
    write_tensors(tmp_path / "m", tensors, header, kind=KIND, version=FORMAT_VERSION)
    with pytest.raises(DataError, match=r"damaged: its header is not a model's, such as 'moses'"):
        ModelReader(tmp_path / "m")


def test_separate_vocabularies_are_both_kept(
    card: ModelCard, vocabulary: Vocabulary, tmp_path: Path
) -> None:
    other = learn_vocabulary(["der Hund sieht die Katze", "ein Baum"], vocab_size=290)
    card = replace(
        card, tgt_vocabulary=other, config=replace(card.config, tie_embeddings="decoder")
    )
    write_model(tmp_path / "m", card, weights_of(card.build()))
    model, read = load_model(tmp_path / "m")
    assert (read.src_vocabulary.model, read.tgt_vocabulary.model) == (vocabulary.model, other.model)
    assert isinstance(model, Transformer)
    assert model.src_embedding.weight.shape == (330, 16)
    assert model.output_projection.shape == (290, 16)


def test_tied_weights_are_stored_once_and_tied_after_loading(model_file: Path) -> None:
    matrices = [name for name, w in load_file(model_file).items() if w.shape == (330, 16)]
    assert len(matrices) == 1
    model, _ = load_model(model_file)
    assert isinstance(model, Transformer)
    assert model.src_embedding is model.tgt_embedding
    assert model.output_projection is model.tgt_embedding.weight


def test_a_loaded_model_can_be_trained(model_file: Path) -> None:
    model, _ = load_model(model_file)
    state = model.train().begin(pack_sources([[5, 6]]))
    torch.autograd.backward(model.step([state], torch.tensor([2])).sum())
    assert all(p.grad is not None for p in model.parameters() if p.dim() > 1)


# ------------------------------------------------------------- which file of a folder


def test_a_run_folder_means_its_best_model_else_its_last(tmp_path: Path) -> None:
    with pytest.raises(NMTError, match=f"{tmp_path}: no model in this folder"):
        find_model(tmp_path)
    for name in ("last.safetensors", "best.safetensors"):
        (tmp_path / name).touch()
        assert find_model(tmp_path) == tmp_path / name
    assert find_model(tmp_path / "last.safetensors") == tmp_path / "last.safetensors"


def test_differences_that_prevent_averaging_are_listed(card: ModelCard) -> None:
    assert card.differences(replace(card, update=9, valid={}, data="other")) == []
    config = replace(card.config, d_model=64)
    other = learn_vocabulary(["ein Baum und ein Haus"], vocab_size=275)
    assert card.differences(replace(card, config=config, tgt_lang="fr", tgt_vocabulary=other)) == [
        "tgt_lang de and fr",
        "d_model 16 and 64",
        "another tgt vocabulary",
    ]


# ------------------------------------------------------------------------------ damage


def test_damage_anywhere_is_noticed(model_file: Path, tmp_path: Path) -> None:
    good, path = model_file.read_bytes(), tmp_path / "bad.safetensors"
    positions = random.Random(1).sample(range(len(good)), 150)
    for position in [0, 8, 20, len(good) - 1, *positions]:
        bad = bytearray(good)
        bad[position] ^= 0x10
        path.write_bytes(bad)
        with pytest.raises(DataError, match=r"bad\.safetensors: "):
            ModelReader(path)
    for length in (0, 7, 1_000, len(good) - 1):
        path.write_bytes(good[:length])
        with pytest.raises(DataError, match=r"bad\.safetensors: "):
            load_model(path)


NAME = "weights/encoder.0.attention.output"  # (16, 16)


@pytest.mark.parametrize(
    "change",
    [
        {NAME: torch.zeros(16, 17)},
        {NAME: torch.zeros(256)},
        {NAME: torch.zeros(16, 16, dtype=torch.int32)},
        {NAME: torch.zeros(16, 16, dtype=torch.float16)},
        {NAME: None},
        {"weights/encoder.1.attention.output": torch.zeros(16, 16)},
        {"vocabulary/src": None},
        {"vocabulary/src": torch.zeros(100, dtype=torch.uint8)},
        {"vocabulary/src": torch.empty(0, dtype=torch.uint8)},
        {"vocabulary/src": torch.zeros(100, dtype=torch.bfloat16)},
    ],
)
def test_tensors_that_do_not_fit_the_configuration_are_refused(
    content: Content,
    tmp_path: Path,
    change: dict[str, Tensor | None],
) -> None:
    tensors, header = content
    changed = {name: t for name, t in (tensors | change).items() if t is not None}
    write_tensors(tmp_path / "bad.file", changed, header, kind=KIND, version=FORMAT_VERSION)
    with pytest.raises(DataError, match=r"bad\.file: damaged: "):
        load_model(tmp_path / "bad.file")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"architecture": "transfomer"}, "unknown architecture.*did you mean 'transformer'"),
        ({"architecture": ["transformer"]}, "not a model's, such as 'architecture'"),
        ({"architecture": None}, "not a model's, such as 'architecture'"),
        ({"config": [1, 2]}, "not a model's, such as 'config'"),
        ({"config": {"d_model": -4}}, "d_model = -4: must be 2 or more and below 1000000"),
        ({"config": {"d_modle": 4}}, "unknown key 'd_modle'; did you mean 'd_model'"),
        ({"config": {}}, "its weights do not fit its configuration"),
        ({"max_src_tokens": "20"}, "not a model's, such as 'max_src_tokens'"),
        ({"max_src_tokens": 0}, "not a model's, such as 'max_src_tokens'"),
        ({"valid": 3}, "not a model's, such as 'valid'"),
        ({"surplus": 1}, "not a model's, such as 'surplus'"),
    ],
)
def test_a_header_that_makes_no_sense_is_refused(
    content: Content,
    tmp_path: Path,
    change: dict[str, object],
    message: str,
) -> None:
    # The checksum is right: such a file is not damaged but made by somebody else.
    tensors, header = content
    header |= change
    write_tensors(tmp_path / "bad.file", tensors, header, kind=KIND, version=FORMAT_VERSION)
    with pytest.raises(DataError, match=rf"bad\.file: .*{message}"):
        load_model(tmp_path / "bad.file")


def test_a_header_without_one_of_its_keys_is_refused(content: Content, tmp_path: Path) -> None:
    tensors, header = content
    for key in list(header):
        less = {name: value for name, value in header.items() if name != key}
        write_tensors(tmp_path / "bad.file", tensors, less, kind=KIND, version=FORMAT_VERSION)
        with pytest.raises(DataError, match=rf"bad\.file: .*not a model's, such as '{key}'"):
            load_model(tmp_path / "bad.file")


class _Payload:
    """What a hostile pickle does: unpickling it makes a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.path),)


def test_a_pickle_is_refused_and_its_code_does_not_run(tmp_path: Path) -> None:
    torch.save({"model": _Payload(tmp_path / "broken-in")}, tmp_path / "evil.safetensors")
    with pytest.raises(DataError, match="not a file that nmt wrote"):
        load_model(tmp_path / "evil.safetensors")
    assert not (tmp_path / "broken-in").exists()


def test_a_configuration_too_large_for_memory_is_refused_unbuilt(
    content: Content, tmp_path: Path
) -> None:
    tensors, header = content
    giant = TransformerConfig(num_encoder_layers=1, d_model=900_000, d_ff=900_000, num_heads=1)
    header["config"] = dataclasses.asdict(giant)
    write_tensors(tmp_path / "giant", tensors, header, kind=KIND, version=FORMAT_VERSION)
    with pytest.raises(DataError, match="its weights do not fit its configuration"):
        load_model(tmp_path / "giant")


def test_loading_a_model_imports_no_compiler(model_file: Path) -> None:
    # It takes longer than torch itself.
    script = (
        "import sys; from pathlib import Path; from nmt.translate.translator import Translator; "
        f"Translator.load(Path({str(model_file)!r})).translate(['the cat']); "
        "print('torch._dynamo' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
