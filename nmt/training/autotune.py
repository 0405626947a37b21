"""Fill in what a recipe leaves open: threads, precision, compiling, products, BLEU's tokenizer.

The first rank decides for all, because only it may have the run folder. A run that is resumed keeps
its choices.
"""

from __future__ import annotations

import copy
import dataclasses
import os
import time
from collections.abc import Callable
from functools import partial

import torch

from nmt import console
from nmt.config.recipes import Recipe
from nmt.config.training_config import TrainingConfig
from nmt.data.folder import DataFolder
from nmt.errors import UsageError
from nmt.models.base import TranslationModel
from nmt.models.device import default_precision, is_since_ampere, torch_threads, use_tf32
from nmt.models.kernels.compiler import problem_of_compiling
from nmt.models.kernels.linear import has_onednn, linear, use_library
from nmt.models.kernels.packed_attention import use_sentence_kernel
from nmt.models.layers import forget_masks
from nmt.models.registry import build_model, count_parameters
from nmt.runs.run_folder import RunFolder
from nmt.system.distributed import Ranks
from nmt.system.machine import cores, default_threads
from nmt.system.own_process import in_a_copy
from nmt.training.loss import losses_of
from nmt.training.memory import CPU_TOKENS, even_batch
from nmt.training.validation import resolve_tokenizers

_CPU = torch.device("cpu")

_GAINS = {"onednn": 1.1, "bf16": 1.2}
"""How many times as fast each must be on a CPU as torch's products in fp32.

bf16 rounds more, so it must be worth it. Where CPUs have AMX, a trial with d_model 128 gains 1.3 to
1.6, and an update 1.6: with 1.3 here, the choice differed from start to start.
"""

_NARROWEST = 128
"""The smallest d_model of a model that may train in bf16.

A narrower one gains about 1.3 on CPUs that are made for bf16: sometimes more, sometimes less.
"""

_PRODUCT_SIZE = 512  # rows and columns
_TRIAL_WORK = 1 << 32  # tokens times parameters: a quarter of a second in fp32, about
_TRIAL_TOKENS = (256, 768)  # fewest and most

_WINS, _LOSSES = 6, 4  # rounds that decide, whichever number comes first


def choose_auto_values(
    recipe: Recipe, data: DataFolder, run: RunFolder, ranks: Ranks, device: torch.device
) -> Recipe:
    """Return the recipe with every value chosen, after setting threads and library.

    UsageError if compiling was asked for, but does not work here.
    """
    training = recipe.training
    cores_each = max(1, cores() // ranks.local_world_size)
    with ranks.raise_on_all_ranks():
        if ranks.is_first and run.exists:
            training = run.fill_in_choices(training, ranks.world_size, cores_each)
    threads = training.threads or default_threads(ranks.local_world_size)
    training, threads = ranks.gather((training, threads))[0]
    matmul, precision, compiled = training.matmul, training.precision, training.compile
    tokenizers = resolve_tokenizers(recipe.training, training.validate_tokenizer, data, ranks)
    # Otherwise each process would start as many compilers as if it were the only one.
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", str(cores_each))
    if device.type == "cuda":
        matmul = "torch" if matmul == "auto" else matmul
        precision = default_precision(device) if precision == "auto" else precision
    else:
        # Only fp32 has a choice of libraries, and inductor cannot compile oneDNN's products.
        if matmul == "auto" and (compiled == "true" or precision not in ("auto", "fp32")):
            matmul = "torch"
        if "auto" in (matmul, precision):
            measure = partial(_fastest_on_cpu, recipe, data, ranks, matmul, precision)
            is_open = precision == "auto"
            # The first one only: several would measure each other.
            matmul, precision = ranks.gather(in_a_copy(measure) if ranks.is_first else None)[0]
            if is_open:
                is_faster = "is" if precision == "bf16" else "is not known to be"
                console.notice(
                    f"no --precision given: taking {precision}, because bf16 {is_faster} faster "
                    "here"
                )
    use_library(matmul)
    torch.set_num_threads(threads)
    use_tf32(device, precision)
    if precision == "tf32" and not is_since_ampere(device):
        console.warning(
            f"this {device.type} has no TF32, so precision = tf32 computes as fp32; on a GPU since "
            "Ampere it is faster"
        )
    if compiled == "auto":
        compiled = _worth_compiling(training, device, precision)
    if compiled != "false":
        is_asked = recipe.training.compile != "auto"
        compiled = _if_it_works(compiled, device, ranks, is_asked=is_asked)
    use_sentence_kernel(device.type == "cuda" and compiled != "false")
    training = dataclasses.replace(
        recipe.training,
        threads=threads,
        matmul=matmul,
        precision=precision,
        compile=compiled,
        validate_tokenizer=tokenizers,
    )
    return dataclasses.replace(recipe, training=training)


def _fastest_on_cpu(
    recipe: Recipe, data: DataFolder, ranks: Ranks, matmul: str, precision: str
) -> tuple[str, str]:
    """Return the library of fp32 products and the precision, chosen where they are `auto`.

    torch and fp32 are the defaults: anything else must win clearly in short rounds of training.
    """
    # The run's own random numbers stay as they are. A copy of a process has none of its threads.
    with torch.random.fork_rng(devices=[]), torch_threads(1):
        trial = _trial(recipe, data, ranks)
        if matmul == "auto":
            matmul = "onednn" if _is_won_by_onednn(*trial) else "torch"
        use_library(matmul)
        if precision == "auto":
            is_won = recipe.model.d_model >= _NARROWEST and _is_won_by_bf16(*trial)
            precision = "bf16" if is_won else "fp32"
    forget_masks(_CPU)
    return matmul, precision


def _trial(
    recipe: Recipe, data: DataFolder, ranks: Ranks
) -> tuple[TranslationModel, Callable[[TranslationModel], None]]:
    """Return a model in fp32 and what trains it on typical sentences.

    Both models of the trial together take less memory than training, which has an optimiser.
    """
    train, sizes = data.info.train, (len(data.src_vocabulary), len(data.tgt_vocabulary))
    parameters = count_parameters(recipe.architecture, recipe.model, *sizes)
    fewest, most = _TRIAL_TOKENS
    tokens = min(most, max(fewest, _TRIAL_WORK // parameters))
    length = train.tgt.tokens // train.pairs + 1
    # A micro-batch in fp32 has no more than this, about.
    rows = recipe.training.micro_batch_tokens or CPU_TOKENS["fp32"]
    tokens = min(rows, -(-recipe.training.batch_tokens // ranks.world_size), tokens)
    batch = even_batch(max(tokens, length), length, min(sizes))

    def train_on_batch(model: TranslationModel) -> None:
        loss, _ = losses_of(model, batch, recipe.training.label_smoothing)
        loss.backward()  # type: ignore[no-untyped-call]

    return build_model(recipe.architecture, recipe.model, *sizes), train_on_batch


def _is_won_by_onednn(model: TranslationModel, train: Callable[[TranslationModel], None]) -> bool:
    """Return whether oneDNN's products make training in fp32 clearly faster."""

    def train_with(library: str) -> None:
        use_library(library)
        train(model)

    ways = (partial(train_with, library) for library in ("torch", "onednn"))
    return has_onednn() and is_clearly_faster(*ways, gain=_GAINS["onednn"])


def _is_won_by_bf16(model: TranslationModel, train: Callable[[TranslationModel], None]) -> bool:
    """Return whether bf16 makes training clearly faster."""
    # Without instructions for bf16, a batch may take minutes. So try a product first.
    factors = torch.ones(_PRODUCT_SIZE, _PRODUCT_SIZE)
    products = (partial(linear, factor, factor) for factor in (factors, factors.bfloat16()))
    if not is_clearly_faster(*products, gain=_GAINS["bf16"]):
        return False
    in_bf16 = copy.deepcopy(model).to(torch.bfloat16)
    return is_clearly_faster(partial(train, model), partial(train, in_bf16), gain=_GAINS["bf16"])


def is_clearly_faster(
    usual: Callable[[], object], other: Callable[[], object], *, gain: float
) -> bool:
    """Return whether `other` is `gain` times as fast as `usual` in 6 rounds before it fails in 4.

    The rounds are short and run on one thread, whose CPU time we count. Other work on the machine
    hardly changes that, so the answer is the same at every start.
    """
    wins = losses = 0
    with torch_threads(1):
        usual(), other()  # warm up
        while wins < _WINS and losses < _LOSSES:
            # The order alternates, because the second one finds its operands in the cache.
            order = (usual, other) if (wins + losses) % 2 else (other, usual)
            seconds = {way: _cpu_seconds(way) for way in order}
            is_won = seconds[usual] >= gain * seconds[other]
            wins, losses = wins + is_won, losses + (not is_won)
    return wins == _WINS


def _cpu_seconds(way: Callable[[], object]) -> float:
    started = time.thread_time()
    way()
    return time.thread_time() - started


def _worth_compiling(training: TrainingConfig, device: torch.device, precision: str) -> str:
    """Return what to compile: on GPUs the loss, and layers if they take packed sentences."""
    if device.type == "cpu":
        return "false"
    return "true" if precision in ("bf16", "fp16") and not training.lora_rank else "loss"


def _if_it_works(compiled: str, device: torch.device, ranks: Ranks, *, is_asked: bool) -> str:
    """Return what is compiled if torch.compile works on all ranks, else "false".

    We find out before the first update, so that none is spoilt and all ranks compute alike.

    UsageError if it does not work and is asked for.
    """
    answers: list[str] = ranks.gather(problem_of_compiling(device))
    problems = [f"rank {rank}: {problem}" for rank, problem in enumerate(answers) if problem]
    if not problems:
        return compiled
    problem = problems[0] if ranks.world_size > 1 else answers[0]
    if is_asked:
        raise UsageError(
            f"compile={compiled}, but torch.compile does not work here: {problem}, or give --set "
            "compile=false"
        )
    what = "the loss" if compiled == "loss" else "the model"
    console.warning(
        f"torch.compile does not work here, so {what} runs uncompiled, which is slower and takes "
        f"more memory: {problem}. With compile=false there is no warning"
    )
    return "false"
