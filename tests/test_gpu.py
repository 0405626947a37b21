"""What runs on a CPU runs on a GPU, with the same results to rounding."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gpus import GPU, HALF, needs_bf16, needs_gpu, needs_nccl, needs_triton
from pairs import batch_of
from tiny_models import SOURCES, SRC_VOCAB, TARGETS, TGT_VOCAB, TINY, architecture_of, tiny
from torch import Tensor
from torch._dynamo.utils import counters
from toy_training import ALONE, Toy, flat, metrics, nmt, recipe, settings_of, train, weights

from nmt.config.fields import Value
from nmt.config.training_config import TrainingConfig
from nmt.data import batches
from nmt.data.batches import FixedShape, Packed, collate
from nmt.data.folder import DataFolder
from nmt.data.shards import Lengths
from nmt.models.kernels import compiler, packed_attention
from nmt.models.kernels.packed_attention import (
    Sentences,
    attend_packed,
    takes_packed,
    use_sentence_kernel,
)
from nmt.models.model_file import ModelCard
from nmt.models.registry import build_model
from nmt.search.engine import Source
from nmt.search.options import Sampling, SearchOptions
from nmt.search.torch_engine import TorchEngine
from nmt.training import dry_run, run_metrics
from nmt.training.choose_recipe import TrainCommand
from nmt.training.first_weights import first_weights
from nmt.training.update import TrainStep
from nmt.translate.translator import Translator

pytestmark = needs_gpu

PRECISIONS = ["fp32", "fp16", pytest.param("bf16", marks=needs_bf16)]


@pytest.mark.parametrize("kind", TINY)
def test_every_model_has_the_gradients_of_the_cpu(kind: str) -> None:
    batch, results = batch_of(SOURCES, TARGETS), []
    config = replace(TINY[kind], dropout=0.0)
    for device in (torch.device("cpu"), GPU):
        torch.manual_seed(1)
        # In training mode, without which cuDNN's LSTM has no gradient.
        model = build_model(architecture_of(config), config, SRC_VOCAB, TGT_VOCAB)
        model.double().to(device)
        states = model(batch.to(device))
        (model.project(states).log_softmax(-1) * states[:, :1]).sum().backward()
        gradients = {name: weight.grad for name, weight in model.named_parameters()}
        results.append({"states": states.detach(), **gradients})
    expected, found = results
    for name, gradient in expected.items():
        assert gradient is not None
        torch.testing.assert_close(found[name], gradient, check_device=False)


@pytest.mark.parametrize("kind", TINY)
def test_every_model_finds_the_translations_of_the_cpu(kind: str) -> None:
    options = SearchOptions(beam_size=3, n_best=2, max_extra_tokens=4)
    sources = [Source(tuple(ids)) for ids in SOURCES]
    expected, found = (
        TorchEngine(tiny(kind).to(device), options, device=device).search(sources)
        for device in (torch.device("cpu"), GPU)
    )
    for on_cpu, on_gpu in zip(expected, found, strict=True):
        assert not isinstance(on_cpu, str)
        assert not isinstance(on_gpu, str)
        assert [one.ids for one in on_gpu] == [one.ids for one in on_cpu]
        assert [one.score for one in on_gpu] == pytest.approx([one.score for one in on_cpu])


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
def test_translations_are_the_cpus(model_file: Path, options: SearchOptions, members: int) -> None:
    options = replace(options, max_extra_tokens=10)
    lines = ["the old cat sees a bird.", "", "a dog hears the river and the small house."]
    prefixes = ["", "", "a bird"]
    found, expected = (
        Translator.load(
            [model_file] * members, options, device=name, precision="fp32", alignment=True
        ).translate(lines, prefixes)
        for name in ("cuda", "cpu")
    )
    for on_gpu, on_cpu in zip(found, expected, strict=True):
        assert [t.text for t in on_gpu.n_best] == [t.text for t in on_cpu.n_best]
        assert on_gpu.alignment == on_cpu.alignment


WITH_EMPTY_SENTENCES = FixedShape(2_000, 1_900, 300, parts=1)


def assert_packed_is_padded(xs: list[Tensor], own: Packed, others: Packed, **limits: Any) -> None:
    """Check what is attended to, and its gradients, in bf16 against fp32."""
    results = []
    for dtype, as_packed in ((torch.bfloat16, True), (torch.float32, False)):
        leaves = [x.detach().to(dtype).requires_grad_() for x in xs]
        queries = Sentences.of(own, 4, as_packed=as_packed)
        keys = queries if own is others else Sentences.of(others, 4, as_packed=as_packed)
        attended = attend_packed(leaves, queries, keys, **limits).float()
        attended.square().sum().backward()  # type: ignore[no-untyped-call]
        results.append([attended.detach(), *(leaf.grad.float() for leaf in leaves)])  # type: ignore[union-attr]
    for found, expected in zip(*results, strict=True):
        assert float((found - expected).norm() / expected.norm()) < 0.02


@pytest.fixture(
    params=["flash attention", pytest.param("the kernel for sentences", marks=needs_triton)]
)
def _packed_kernel(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Attend among packed sentences in this way, however few they are."""
    is_own = request.param != "flash attention"
    monkeypatch.setattr(packed_attention, "_SMALL", 0)
    use_sentence_kernel(is_own)
    yield
    use_sentence_kernel(False)


@needs_bf16
@pytest.mark.usefixtures("_packed_kernel")
@pytest.mark.parametrize("shape", [None, WITH_EMPTY_SENTENCES])
def test_packed_attention_equals_padded_attention(data: Path, shape: FixedShape | None) -> None:
    batch = collate(*DataFolder.open(data).train.rows(np.arange(40)), shape).to(GPU)
    torch.manual_seed(1)
    qkv = torch.randn(len(batch.tgt_in.tokens), 3, 4, 16, device=GPU)
    assert takes_packed(qkv.bfloat16(), 16, 16)
    assert not takes_packed(qkv.bfloat16(), 16, 32)  # values of another width than keys
    for causal in (True, False):
        assert_packed_is_padded([qkv], batch.tgt_in, batch.tgt_in, causal=causal)
    query = torch.randn(len(batch.tgt_in.tokens), 1, 4, 16, device=GPU)
    key_value = torch.randn(len(batch.src.tokens), 2, 4, 16, device=GPU)
    assert_packed_is_padded([query, key_value], batch.tgt_in, batch.src)


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=needs_triton)])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_training_learns(data: Path, tmp_path: Path, precision: str, compiled: bool) -> None:
    values: dict[str, Value] = {"precision": precision, "compile": compiled, "max_updates": 20}
    run = train(data, tmp_path / "run", device="cuda", **values)
    nll = [record["nll"] for record in metrics(run, "train")]
    assert nll[-1] < nll[0] - 0.5


def test_a_gpu_without_a_c_compiler_trains_and_says_what_is_missing(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: object) -> None:
        raise RuntimeError("Failed to find C compiler. Please specify via CC environment variable.")

    monkeypatch.setattr(compiler, "has_triton", lambda: True)
    monkeypatch.setattr(torch, "compile", fail)
    for precision, what in ((HALF, "the model"), ("fp32", "the loss")):
        values: dict[str, Value] = {"precision": precision, "compile": "auto", "max_updates": 2}
        run = train(data, tmp_path / precision, device="cuda", **values)
        assert f"{what} runs uncompiled" in (said := capsys.readouterr().err)
        assert said.count("gcc and g++") == 1
        assert '\ncompile = "false"\n' in (run / "config.toml").read_text()


@needs_triton
@pytest.mark.parametrize("small", [packed_attention._SMALL, 0])
def test_a_compiled_model_in_half_precision_is_compiled_once(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: int
) -> None:
    monkeypatch.setattr(packed_attention, "_SMALL", small)  # with 0, the kernel for sentences
    torch.compiler.reset()
    counters.clear()
    values: dict[str, Value] = {"precision": HALF, "compile": True, "max_updates": 20}
    run = train(data, tmp_path / "run", device="cuda", **values, d_model=64, num_heads=4)
    assert all(record["padding"] > 0.0 for record in metrics(run, "train"))
    # Each kind of layer, once; what is done to logits, at most for a whole chunk and for a rest;
    # and what is tried at the start.
    assert counters["stats"]["unique_graphs"] <= 5


MODELS: list[dict[str, Value]] = [
    {"ema_decay": 0.5, "clip_norm": 0.1},
    {"preset": "transformer_modern"},
    {"preset": "transformer_relative"},
    {"preset": "transformer_deep_shallow"},
    {"preset": "conv_seq2seq", "d_hidden": 32},
    {"preset": "rnn_attention", "d_hidden": 32},
    {"guided_alignment": 0.5},
    {"subword_dropout": 0.1, "label_smoothing": 0.0},
]
COMPILED: dict[str, Value] = {"precision": HALF, "compile": "true"}


def words(values: dict[str, Value]) -> str:
    return " ".join(map(str, values.values()))


@pytest.mark.parametrize(
    "values",
    [
        *MODELS,
        {"precision": HALF, "guided_alignment": 0.5},
        pytest.param(COMPILED, marks=needs_triton),
    ],
    ids=words,
)
def test_nothing_waits_for_the_gpu_inside_an_update(toy: Toy, values: dict[str, Value]) -> None:
    first = 3 if "compile" in values else 1  # before it, layers are compiled
    run, numbers = TrainStep.run, []

    def run_without_waiting(self: TrainStep, update: Any, number: int, *, save: bool) -> Any:
        torch.cuda.set_sync_debug_mode("error" if number >= first else "default")
        try:
            numbers.append(number)
            return run(self, update, number, save=save)
        finally:
            torch.cuda.set_sync_debug_mode("default")

    toy.patch.setattr(TrainStep, "run", run_without_waiting)
    always: dict[str, Value] = {"device": "cuda", "compile": "false", "max_updates": 5}
    toy.train(**always | values)
    assert numbers == [1, 2, 3, 4, 5]


PLAIN: dict[str, Value] = {
    "dropout": 0.0,
    "max_updates": 6,
    "log_every": 1,
    "validate_every": 3,
    "save_every": 1,
    "keep_last": 9,
}


def assert_same_course(run: Path, expected: Path) -> None:
    """Check that runs have the same losses, and that each update moved the weights alike.

    Adam moves a weight by the sign of its first gradient, so rounding may move some of them apart.
    """
    for kind in ("train", "valid"):
        losses, wanted = ([one["loss"] for one in metrics(of, kind)] for of in (run, expected))
        assert losses == pytest.approx(wanted, rel=1e-3)
    weights_by_update = (
        [flat(path) for path in sorted(of.glob("checkpoints/update-*.safetensors"))]
        for of in (run, expected)
    )
    (_, *found), (start, *wanted) = weights_by_update
    for one, other in zip(found, wanted, strict=True):
        assert (one - other).norm() < 0.05 * (other - start).norm()


@pytest.mark.parametrize("values", MODELS, ids=words)
def test_a_run_takes_the_course_of_the_cpu(toy: Toy, values: dict[str, Value]) -> None:
    runs = [toy.train(name, device=name, **PLAIN | values) for name in ("cuda", "cpu")]
    assert_same_course(*runs)


def test_padded_sentences_are_in_groups_for_a_gpu(toy: Toy) -> None:
    group_bounds, found = batches.group_bounds, list[bool]()

    def noted(src: Lengths, tgt: Lengths, *, on_gpu: bool = False) -> list[int]:
        if len(set(src.tolist())) > 1:  # not a batch of equal lengths that is only tried
            found.append(on_gpu)
        return group_bounds(src, tgt, on_gpu=on_gpu)

    toy.patch.setattr(batches, "group_bounds", noted)
    toy.train(device="cuda", max_updates=2, validate_metric="bleu")
    assert set(found) == {True}


@pytest.mark.parametrize("precision", ["fp32", HALF])
def test_a_run_that_is_resumed_goes_on_as_if_it_was_never_stopped(toy: Toy, precision: str) -> None:
    values = PLAIN | {"device": "cuda", "precision": precision, "dropout": 0.2, "compile": "false"}
    whole = toy.train("whole", **values)
    toy.stopped_after(3, **values)
    run = toy.train(**values)
    assert [record["update"] for record in metrics(run, "start")] == [0, 3]
    assert_same_course(run, whole)


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


def test_what_fits_is_found(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_metrics, "_LARGEST", 1024)  # to time larger products takes 0.8 GB
    torch.cuda.empty_cache()
    # A million tokens take several GB.
    torch.cuda.set_per_process_memory_fraction(
        (torch.cuda.memory_reserved() + 200e6) / torch.cuda.get_device_properties(GPU).total_memory
    )
    try:
        values: dict[str, Value] = {"batch_tokens": 1_000_000, "micro_batch_tokens": 0}
        run = train(data, tmp_path / "run", device="cuda", **values, max_updates=3, log_every=1)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert metrics(run, "start")[0]["micro_batch_tokens"] < 1_000_000
    assert len(metrics(run, "train")) == 3


def test_a_dry_run_expects_the_memory_that_it_measures(toy: Toy) -> None:
    toy.patch.setattr(dry_run, "TRIAL_SECONDS", 0.0)
    command = TrainCommand(toy.data, toy.folder / "run")
    found = dict(dry_run.dry_run(recipe(precision=HALF, device="cuda"), command))
    assert found["memory, expected"] == found["memory, measured"]


@needs_nccl
def test_a_group_of_one_process_sums_gradients_by_nccl(data: Path, tmp_path: Path) -> None:
    values: dict[str, Value] = {"device": "cuda", "dropout": 0.0, "max_updates": 3}
    done = nmt("train", data, "--out", tmp_path / "group", *settings_of(**values), ranks=1)
    assert done.returncode == 0, done.stderr
    found = weights(tmp_path / "group/last.safetensors")
    for name, weight in weights(
        train(data, tmp_path / "run", **values) / "last.safetensors"
    ).items():
        torch.testing.assert_close(found[name], weight, atol=2e-4, rtol=1e-3)
