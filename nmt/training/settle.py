"""Fill in what a recipe leaves open: threads, precision, compiling, and the library of products.

The first rank decides for all, because only it may have the run folder. A run that is resumed keeps
its choices.
"""

from __future__ import annotations

import dataclasses
import math
import os
import time
from collections import Counter

import torch

from nmt import console
from nmt.config import Recipe, TrainingConfig
from nmt.cpu import cores, default_threads, give_way
from nmt.data.batches import Batch
from nmt.data.folder import DataFolder
from nmt.distributed import Ranks
from nmt.models.base import TranslationModel
from nmt.models.device import default_precision, dtype_of
from nmt.models.kernels.linear import fastest_library, use_library
from nmt.models.kernels.packed_weights import multiplied
from nmt.models.layers import forget_masks
from nmt.models.registry import build_model, shapes_only
from nmt.runs.run_folder import RunFolder
from nmt.training.loss import smoothed_cross_entropy
from nmt.training.memory import CPU_TOKENS, available_bytes, even_batch, memory_needs
from nmt.training.meter import matrix_product_rate

_CPU = torch.device("cpu")

_GAIN = 1.3
"""How many times as fast bf16 must be on a CPU: it rounds more, so it must be worth it."""

_ROUNDS, _SECONDS = 3, 3.0
"""Most rounds of trying both precisions, and the time after which no other one begins."""


def settle(
    recipe: Recipe, data: DataFolder, run: RunFolder, ranks: Ranks, device: torch.device
) -> Recipe:
    """Return the recipe with every value chosen, after setting threads and library."""
    training = recipe.training
    share = max(1, cores() // ranks.local_world_size)
    with ranks.together():
        if ranks.is_first and run.exists:
            training = run.settled(training, ranks.world_size, share)
    threads = training.threads or default_threads(ranks.local_world_size)
    open_values = [threads, training.matmul, training.precision, training.compile]
    threads, matmul, precision, compiled = ranks.gather(open_values)[0]
    torch.set_num_threads(threads)
    if threads > 1 and device.type == "cpu":
        give_way()
    # Otherwise each process would start as many compilers as if it were the only one.
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", str(share))
    if matmul == "auto":  # only fp32 on a CPU has a choice, and inductor cannot compile oneDNN's
        has_choice = device.type == "cpu" and precision in ("auto", "fp32") and compiled != "true"
        matmul = ranks.gather(_matmul(recipe, data, ranks) if has_choice else "torch")[0]
    use_library(matmul)
    if precision == "auto":
        precision = ranks.gather(_precision(recipe, data, ranks, device))[0]
    if compiled == "auto":
        pays = not training.lora_rank and _pays_to_compile(device, precision)
        compiled = "true" if all(ranks.gather(pays)) else "false"
    training = dataclasses.replace(
        recipe.training, threads=threads, matmul=matmul, precision=precision, compile=compiled
    )
    return dataclasses.replace(recipe, training=training)


def _matmul(recipe: Recipe, data: DataFolder, ranks: Ranks) -> str:
    """Return the faster library for each kind of matrix product of this model."""
    with shapes_only():
        model = _model(recipe, data)
    weights = Counter((len(weight), weight.shape[1]) for weight in multiplied(model))
    return fastest_library(weights, _tokens(recipe, ranks))


def _tokens(recipe: Recipe, ranks: Ranks) -> int:
    """Return the tokens of a micro-batch in fp32 on a CPU, about."""
    config = recipe.training
    rows = config.micro_batch_tokens or CPU_TOKENS["fp32"]
    return min(rows, -(-config.batch_tokens // ranks.world_size))


def _precision(recipe: Recipe, data: DataFolder, ranks: Ranks, device: torch.device) -> str:
    """Return bf16 if it is fast on this device, else fp32."""
    if device.type == "cuda":
        return default_precision(device)
    # Where it has no instructions, a micro-batch in bf16 may take minutes. So try a product first.
    fp32, bf16 = (matrix_product_rate(device, dtype_of(name)) for name in ("fp32", "bf16"))
    if bf16 < _GAIN * fp32:
        return "fp32"
    train, sizes = data.info.train, (len(data.src_vocabulary), len(data.tgt_vocabulary))
    length = train.tgt.tokens // train.pairs + 1
    batch = even_batch(max(_tokens(recipe, ranks), length), length, min(sizes))
    # Training in fp32 needs more than the trial, which has two models but no optimiser.
    in_fp32 = dataclasses.replace(recipe.training, precision="fp32")
    needs = memory_needs(dataclasses.replace(recipe, training=in_fp32), sizes, batch)
    if sum(needs.values()) > available_bytes() / ranks.local_world_size:
        return "fp32"
    seconds = _seconds(recipe, data, batch)
    return "bf16" if seconds["fp32"] >= _GAIN * seconds["bf16"] else "fp32"


def _seconds(recipe: Recipe, data: DataFolder, batch: Batch) -> dict[str, float]:
    """Return the shortest time of forward and backward over a micro-batch, by precision."""
    seconds = dict.fromkeys(("fp32", "bf16"), math.inf)
    started = time.perf_counter()
    with torch.random.fork_rng(devices=[]):
        models = {name: _model(recipe, data).to(dtype_of(name)) for name in seconds}
        for _ in range(_ROUNDS):  # in turn; the first one also warms up
            for name, model in models.items():
                seconds[name] = min(seconds[name], _seconds_of(model, batch, recipe.training))
            if time.perf_counter() - started > _SECONDS:
                break
    forget_masks(_CPU)
    return seconds


def _seconds_of(model: TranslationModel, batch: Batch, config: TrainingConfig) -> float:
    """Return the time of forward and backward."""
    started = time.perf_counter()
    loss, _ = smoothed_cross_entropy(
        model(batch),
        model.output_projection,
        batch.targets,
        config.label_smoothing,
        bias=model.output_bias,
    )
    loss.backward()  # type: ignore[no-untyped-call]
    return time.perf_counter() - started


def _model(recipe: Recipe, data: DataFolder) -> TranslationModel:
    return build_model(
        recipe.architecture, recipe.model, len(data.src_vocabulary), len(data.tgt_vocabulary)
    )


def _pays_to_compile(device: torch.device, precision: str) -> bool:
    """Return whether compiling works, and pays: on GPUs, for packed sentences in bf16 and fp16."""
    if device.type == "cpu" or precision == "fp32":
        return False
    try:
        torch.compile(torch.nn.functional.gelu)(torch.ones(64, device=device))
    except Exception as error:  # whatever a missing compiler, header or library raises
        console.warning(
            "torch.compile does not work here, so training is slower; install what is missing, or "
            f"set compile=false: {str(error).partition(chr(10))[0]}"
        )
        return False
    return True
