"""What runs on a CPU runs on a GPU, with the same results to rounding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from mishaps import spoil_gradients
from torch._dynamo.utils import counters
from toy_training import (
    ALONE,
    metrics,
    newest_state,
    nmt,
    prepare_toy,
    settings_of,
    status,
    train,
    weights,
)

from nmt.config import TrainingConfig
from nmt.data.batches import FixedShape, collate
from nmt.data.folder import DataFolder
from nmt.model_config import TransformerConfig
from nmt.models.kernels.packed_attention import Sentences, attend_packed, takes_packed
from nmt.models.model_file import ModelCard
from nmt.models.registry import build_model
from nmt.search.options import Sampling, SearchOptions
from nmt.training.first_weights import first_weights
from nmt.training.update import UpdateRunner
from nmt.translate.translator import Translator
from nmt.values import Value

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="this machine has no GPU that torch can use"
)

GPU = torch.device("cuda")


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


@pytest.mark.parametrize(
    "options",
    [
        SearchOptions(beam_size=4, n_best=2),
        SearchOptions(beam_size=1),
        SearchOptions(beam_size=2, min_tokens=3, max_tokens=6, length_penalty_form="power"),
        SearchOptions(n_best=3, sampling=Sampling(temperature=0.7, top_k=20, top_p=0.9)),
        SearchOptions(sampling=Sampling()),
    ],
    ids=["beam", "greedy", "lengths", "top-k and top-p", "sampling"],
)
@pytest.mark.parametrize("members", [1, 2])
def test_translations_are_those_of_the_cpu(
    model_file: Path, options: SearchOptions, members: int
) -> None:
    lines = ["the old cat sees a bird.", "", "a dog hears the river and the small house."]
    prefixes = ["", "", "a bird"]
    found, expected = (
        Translator.load(
            [model_file] * members, options, device=torch.device(name), alignment=True
        ).translate(lines, prefixes)
        for name in ("cuda", "cpu")
    )
    for on_gpu, on_cpu in zip(found, expected, strict=True):
        assert [t.text for t in on_gpu.n_best] == [t.text for t in on_cpu.n_best]
        assert on_gpu.alignment == on_cpu.alignment


WITH_EMPTY_SENTENCES = FixedShape(2_000, 1_900, 300, parts=1)


@pytest.mark.parametrize("shape", [None, WITH_EMPTY_SENTENCES])
@pytest.mark.parametrize("window", [0, 2])
@pytest.mark.parametrize("causal", [True, False])
def test_flash_attention_equals_padded_attention(
    data: Path, causal: bool, window: int, shape: FixedShape | None
) -> None:
    packed = collate(*DataFolder.open(data).train.rows(np.arange(40)), shape).tgt_in.to(GPU)
    torch.manual_seed(1)
    qkv = torch.randn(len(packed.tokens), 3, 4, 16, device=GPU)
    assert takes_packed(qkv.bfloat16(), 16, 16)
    assert not takes_packed(qkv.bfloat16(), 16, 32)  # values of another width than keys
    toward = torch.randn(len(packed.tokens), 4, 16, device=GPU)
    results = []
    for dtype, as_packed in ((torch.bfloat16, True), (torch.float32, False)):
        leaf = qkv.to(dtype).requires_grad_()
        sentences = Sentences.of(packed, 4, as_packed=as_packed)
        attended = attend_packed([leaf], sentences, sentences, causal=causal, window=window)
        (attended.float() * toward).sum().backward()  # type: ignore[no-untyped-call]
        assert leaf.grad is not None
        results.append((attended.float(), leaf.grad.float()))
    for found, expected in zip(*results, strict=True):
        assert float((found - expected).norm() / expected.norm()) < 0.02


@pytest.mark.parametrize("shape", [None, WITH_EMPTY_SENTENCES])
def test_flash_attention_reads_the_source_of_each_target(
    data: Path, shape: FixedShape | None
) -> None:
    batch = collate(*DataFolder.open(data).train.rows(np.arange(40)), shape).to(GPU)
    torch.manual_seed(2)
    query = torch.randn(len(batch.tgt_in.tokens), 1, 4, 16, device=GPU)
    key_value = torch.randn(len(batch.src.tokens), 2, 4, 16, device=GPU)
    results = []
    for dtype, as_packed in ((torch.bfloat16, True), (torch.float32, False)):
        leaves = [x.to(dtype).requires_grad_() for x in (query, key_value)]
        own, others = (
            Sentences.of(side, 4, as_packed=as_packed) for side in (batch.tgt_in, batch.src)
        )
        attended = attend_packed(leaves, own, others).float()
        attended.square().sum().backward()  # type: ignore[no-untyped-call]
        results.append([attended.detach(), *(leaf.grad.float() for leaf in leaves)])  # type: ignore[union-attr]
    for found, expected in zip(*results, strict=True):
        assert float((found - expected).norm() / expected.norm()) < 0.02


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_attention_weights_are_those_of_the_cpu(data: Path, dtype: torch.dtype) -> None:
    folder = DataFolder.open(data)
    batch = collate(*folder.train.rows(np.arange(40)))
    size = len(folder.src_vocabulary)
    model = build_model("transformer", TransformerConfig(d_model=64, num_heads=4), size, size)
    expected = model.eval().attention_weights(batch)
    found = model.to(GPU, dtype).attention_weights(batch.to(GPU))
    for one, other in zip(vars(found).values(), vars(expected).values(), strict=True):
        torch.testing.assert_close(one.cpu(), other, atol=0.03, rtol=0)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_training_learns(data: Path, tmp_path: Path, precision: str, compiled: bool) -> None:
    values: dict[str, Value] = {"precision": precision, "compile": compiled, "max_updates": 40}
    run = train(data, tmp_path / "run", device="cuda", **values)
    nll = [record["nll"] for record in metrics(run, "train")]
    assert nll[-1] < nll[0] - 0.5


def test_a_compiled_model_in_half_precision_is_compiled_once(data: Path, tmp_path: Path) -> None:
    torch.compiler.reset()
    counters.clear()
    values: dict[str, Value] = {"precision": "bf16", "compile": True, "max_updates": 20}
    run = train(data, tmp_path / "run", device="cuda", **values, d_model=64, num_heads=4)
    assert all(record["padding"] > 0.0 for record in metrics(run, "train"))
    # Each kind of layer, once; what is done to logits, at most for a whole chunk and for a rest.
    assert counters["stats"]["unique_graphs"] <= 4


def test_the_loss_is_compiled_also_where_the_model_is_not(data: Path, tmp_path: Path) -> None:
    torch.compiler.reset()
    counters.clear()
    train(data, tmp_path / "run", device="cuda", precision="bf16", compile="false", max_updates=5)
    assert 1 <= counters["stats"]["unique_graphs"] <= 2  # for one number of tokens, and for any


def test_nothing_waits_for_the_gpu_inside_an_update(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, numbers = UpdateRunner.run, []

    def run_without_waiting(self: UpdateRunner, update: Any, number: int, *, save: bool) -> Any:
        torch.cuda.set_sync_debug_mode("error")
        try:
            numbers.append(number)
            return run(self, update, number, save=save)
        finally:
            torch.cuda.set_sync_debug_mode("default")

    monkeypatch.setattr(UpdateRunner, "run", run_without_waiting)
    train(data, tmp_path / "run", device="cuda", precision="bf16", max_updates=4)
    assert numbers == [1, 2, 3, 4]


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


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_first_weights_are_on_the_gpu_once(card: ModelCard, precision: str) -> None:
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    config = TrainingConfig(precision=precision)
    model, vectors, _ = first_weights(card, config, ALONE, GPU, warm_from=None)
    assert all(parameter.is_cuda for parameter in model.parameters())
    peak = torch.cuda.max_memory_allocated() - before
    assert peak <= sum(vectors.held_bytes().values()) + 4 * 512  # which sizes are rounded to


def test_what_fits_is_found_by_trying(data: Path, tmp_path: Path) -> None:
    torch.cuda.empty_cache()
    # Timing matrix products takes 0.8 GB, and ten million tokens would take far more than 2 GB.
    room = 2e9 / torch.cuda.get_device_properties(GPU).total_memory
    torch.cuda.set_per_process_memory_fraction(room)
    try:
        values: dict[str, Value] = {"batch_tokens": 10_000_000, "micro_batch_tokens": 0}
        run = train(data, tmp_path / "run", device="cuda", **values, max_updates=3, log_every=1)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert metrics(run, "start")[0]["micro_batch_tokens"] < 10_000_000
    assert len(metrics(run, "train")) == 3


def test_several_updates_without_a_finite_gradient_are_gone_back_from(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil_gradients(monkeypatch, range(10, 15))
    run = train(data, tmp_path / "run", device="cuda")
    assert [record["update"] for record in metrics(run) if "went_back" in record] == [8]
    assert newest_state(run)[0]["progress"]["learning_rate_factor"] == 0.5
    assert status(run)["status"] == "finished"


def test_a_group_of_one_process_sums_gradients_by_nccl(data: Path, tmp_path: Path) -> None:
    values: dict[str, Value] = {"device": "cuda", "dropout": 0.0, "max_updates": 3}
    done = nmt("train", data, "--out", tmp_path / "group", *settings_of(**values), ranks=1)
    assert done.returncode == 0, done.stderr
    found = weights(tmp_path / "group/last.safetensors")
    for name, weight in weights(
        train(data, tmp_path / "run", **values) / "last.safetensors"
    ).items():
        torch.testing.assert_close(found[name], weight, atol=2e-4, rtol=1e-3)
