"""A model file gives back what was written, and damaged files are refused."""

import dataclasses
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from processes import run_python
from safetensors.torch import load_file
from tiny_models import TINY, architecture_of, assert_equal
from torch import Tensor

from nmt.config.model_config import TransformerConfig
from nmt.data.batches import pack_sources
from nmt.data.moses import Moses
from nmt.data.vocabulary import Vocabulary, learn_vocabulary
from nmt.errors import DataError, NMTError
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
from nmt.models.registry import parameters_by_names
from nmt.models.tensor_file import TensorFile, write_tensors


def weights_of(model: TranslationModel) -> dict[str, Tensor]:
    return dict(model.named_parameters())


@torch.no_grad()
def first_logits(model: TranslationModel) -> Tensor:
    state = model.eval().begin(pack_sources([[5, 6, 7], [300]]))
    return model.project(model.step([state], torch.tensor([2, 2])))


# -------------------------------------------------------------------------- round trip


@pytest.mark.parametrize("tie_embeddings", ["all", "decoder", "none"])
@pytest.mark.parametrize("kind", TINY)
def test_a_loaded_model_is_the_one_that_was_written(
    card: ModelCard, tmp_path: Path, kind: str, tie_embeddings: str
) -> None:
    config = replace(TINY[kind], tie_embeddings=tie_embeddings)
    architecture = architecture_of(config)
    card = replace(card, architecture=architecture, config=config, whole_src_tokens=12)
    torch.manual_seed(2)
    model = card.build()
    write_model(tmp_path / "m", card, weights_of(model))
    loaded, read = load_model(tmp_path / "m")
    for field in dataclasses.fields(ModelCard):
        if "vocabulary" not in field.name:
            assert getattr(read, field.name) == getattr(card, field.name)
    assert read.src_vocabulary.model == card.src_vocabulary.model
    assert read.tgt_vocabulary is read.src_vocabulary
    for (names, found), (expected_names, expected) in zip(
        parameters_by_names(loaded), parameters_by_names(model), strict=True
    ):
        assert names == expected_names  # of a tied weight, all
        assert found.requires_grad
        assert found.dtype == torch.float32
        assert torch.equal(found, expected)
    # torch's recurrent layers sum otherwise where weights lie otherwise.
    rounding = 1e-6 if architecture == "rnn_attention" else 0.0
    assert_equal(first_logits(loaded), first_logits(model), rounding)
    shape = (330, config.d_model)
    stored = [name for name, w in load_file(tmp_path / "m").items() if w.shape == shape]
    assert len(stored) == {"all": 1, "decoder": 2, "none": 3}[tie_embeddings]


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


def test_separate_vocabularies_are_both_kept(card: ModelCard, tmp_path: Path) -> None:
    other = learn_vocabulary(["der Hund sieht die Katze", "ein Baum"], vocab_size=290)
    card = replace(
        card, tgt_vocabulary=other, config=replace(card.config, tie_embeddings="decoder")
    )
    write_model(tmp_path / "m", card, weights_of(card.build()))
    model, read = load_model(tmp_path / "m")
    assert read.src_vocabulary.model == card.src_vocabulary.model
    assert read.tgt_vocabulary.model == other.model
    assert model.get_parameter("src_embedding.weight").shape == (330, 16)
    assert model.output_projection.shape == (290, 16)


def test_a_loaded_model_stays_when_its_file_is_replaced(model_file: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(model_file, tmp_path))
    expected, _ = load_model(model_file)
    loaded, _ = load_model(path)
    with path.open("r+b") as same_file:
        same_file.write(bytes(path.stat().st_size))
    assert torch.equal(first_logits(loaded), first_logits(expected))
    os.truncate(path, 0)  # which would kill a process that maps the file
    assert torch.equal(first_logits(loaded), first_logits(expected))


# ------------------------------------------------------------- which file of a folder


def test_a_run_folder_means_its_best_model_else_its_last(tmp_path: Path) -> None:
    with pytest.raises(NMTError, match=f"{tmp_path}: "):
        find_model(tmp_path)
    (tmp_path / "config.toml").touch()
    with pytest.raises(NMTError, match="no model yet; `nmt train` writes one"):
        find_model(tmp_path)
    for name in ("last.safetensors", "best.safetensors"):
        (tmp_path / name).touch()
        assert find_model(tmp_path) == tmp_path / name
    assert find_model(tmp_path / "last.safetensors") == tmp_path / "last.safetensors"


# ------------------------------------------------------------------------------ damage


NAME = "weights/encoder.0.attention.output"  # (16, 16)
HEADER = [spec.name for spec in dataclasses.fields(ModelCard) if "vocabulary" not in spec.name]
GONE = "gone"
WEIGHTS = [torch.zeros(16, 17), torch.zeros(256), GONE]
WEIGHTS += [torch.zeros(16, 16, dtype=dtype) for dtype in (torch.int32, torch.float16)]
VALUES = [
    ("architecture", ["transformer"]),
    ("config", [1, 2]),
    ("max_src_tokens", "20"),
    ("max_src_tokens", 0),
    ("valid", 3),
    ("moses", {"normalize": 1, "tokenize": True}),
    ("moses", {"normalize": True}),
    ("languages", {"pieces": {"de": 1}, "src": "tgt", "tgt": ""}),
    ("languages", {"pieces": {"de": ">>de<<"}}),
    ("window", 0),
    ("window", "4"),
    ("alignment_head", {"from_top": 1}),
    ("alignment_head", {"from_top": 1, "head": 2}),  # of 2 heads
    ("alignment_head", {"from_top": -1, "head": 0}),
    ("alignment_head", {"from_top": 1, "head": "0"}),
    ("reads_annotations", 1),
    ("whole_src_tokens", "20"),
    ("whole_src_tokens", -1),
    ("surplus", 1),
]
GIANT = TransformerConfig(num_encoder_layers=1, d_model=900_000, d_ff=900_000, num_heads=1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        *(({NAME: weight}, "damaged: its weights .*'encoder") for weight in WEIGHTS),
        ({NAME.replace("0", "1"): torch.zeros(16, 16)}, "damaged: its weights .*'encoder"),
        ({"config": {}}, "damaged: its weights"),
        ({"config": dataclasses.asdict(GIANT)}, "damaged: its weights"),  # unbuilt
        ({"vocabulary/src": GONE}, "damaged: .*'vocabulary/src'"),
        ({"vocabulary/src": torch.zeros(100, dtype=torch.uint8)}, "damaged: vocabulary/src"),
        ({"vocabulary/src": torch.empty(0, dtype=torch.uint8)}, "damaged: vocabulary/src"),
        ({"vocabulary/src": torch.zeros(100, dtype=torch.bfloat16)}, "damaged: vocabulary/src"),
        ({"architecture": "transfomer"}, "architecture.*'transformer'"),
        ({"config": {"d_model": -4}}, "d_model = -4"),
        ({"config": {"d_modle": 4}}, "'d_modle'; .*'d_model'"),
        *(({name: GONE}, f"damaged: its header .*'{name}'") for name in [*HEADER, "moses"]),
        *(({name: value}, f"damaged: its header .*'{name}'") for name, value in VALUES),
    ],
)
def test_a_file_that_makes_no_sense_is_refused(
    model_file: Path, tmp_path: Path, change: dict[str, object], message: str
) -> None:
    # Its checksum is right: such a file is not damaged, but made by somebody else.
    good, path = TensorFile(model_file, kind=KIND, version=FORMAT_VERSION), tmp_path / "bad.file"
    content = {name: good.read(name) for name in good.names} | good.header | change
    tensors = {name: value for name, value in content.items() if isinstance(value, Tensor)}
    header = {n: v for n, v in content.items() if n not in tensors and v != GONE}
    write_tensors(path, tensors, header, kind=KIND, version=FORMAT_VERSION)
    with pytest.raises(DataError, match=rf"bad\.file: .*{message}"):
        load_model(path)


def test_loading_a_model_imports_no_compiler(model_file: Path) -> None:
    # It takes longer than torch itself.
    script = (
        "import sys; from pathlib import Path; from nmt.translate.translator import Translator; "
        f"Translator.load(Path({str(model_file)!r})).translate(['the cat']); "
        "print('torch._dynamo' in sys.modules)"
    )
    assert run_python("-c", script).stdout == "False\n"
