"""What runs on a CPU runs on a GPU, with the same results to rounding."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from toy_training import metrics, prepare_toy, train, weights

from nmt.config import TransformerConfig
from nmt.data.batches import collate
from nmt.data.folder import DataFolder
from nmt.models.registry import build_model
from nmt.search.beam import SearchOptions
from nmt.search.translator import Translator

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="this machine has no GPU that torch can use"
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare_toy(tmp_path_factory.mktemp("gpu"))


def test_states_are_those_of_the_cpu(data: Path) -> None:
    folder = DataFolder.open(data)
    batch = collate(*folder.train.rows(np.arange(40)))
    size = len(folder.src_vocabulary)
    model = build_model("transformer", TransformerConfig(d_model=64, num_heads=4), size, size)
    model.eval()
    with torch.no_grad():
        expected = model(batch)
        found = model.to("cuda")(batch.to(torch.device("cuda")))
    torch.testing.assert_close(found.cpu(), expected, atol=1e-4, rtol=1e-4)


def test_translations_are_those_of_the_cpu(model_file: Path) -> None:
    lines = ["the old cat sees a bird.", "", "a dog hears the river and the small house."]
    options = SearchOptions(beam_size=4, n_best=2)
    found, expected = (
        Translator.load(model_file, options, device=torch.device(name)).translate(lines)
        for name in ("cuda", "cpu")
    )
    assert [t.text for line in found for t in line] == [t.text for line in expected for t in line]


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_training_learns(data: Path, tmp_path: Path, precision: str) -> None:
    run = train(data, tmp_path / "run", device="cuda", precision=precision, max_updates=40)
    nll = [record["nll"] for record in metrics(run, "train")]
    assert nll[-1] < nll[0] - 0.5


def test_one_update_is_that_of_the_cpu(data: Path, tmp_path: Path) -> None:
    found, expected = (
        weights(
            train(data, tmp_path / name, device=name, dropout=0.0, max_updates=3)
            / "last.safetensors"
        )
        for name in ("cuda", "cpu")
    )
    for name, weight in expected.items():
        torch.testing.assert_close(found[name], weight, atol=2e-4, rtol=1e-3)
