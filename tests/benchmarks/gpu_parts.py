"""The parts of `make gpu` in one process: smoke, tests, training, translating."""

import os
import platform
import re
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import torch
from benchmarks import harness, training, translation
from benchmarks.gpu_report import CTRANSLATE2, LITTLE_WORK
from benchmarks.gpu_scale import Context, no_compiler
from benchmarks.harness import highest, is_installed, setting
from benchmarks.machine import best_rate, product_rates
from benchmarks.training import Contender, Job, Measurement, flops_per_token, update_tokens
from benchmarks.translation import BEAM_SIZE, card_for_peers
from torch.distributed import is_nccl_available

from nmt.data.folder import DataFolder
from nmt.models.model_file import find_model

ROOT = Path(__file__).parents[2]
PRECISION = "bf16"
TRAINING_GOALS: dict[str, Callable[[float, float], bool]] = {
    "base, nmt compiled": lambda ms, share: ms <= 26 or share >= 0.45,
    "big, nmt compiled": lambda _, share: share >= 0.55,
}
"""Each takes milliseconds an update and the share of matrix products."""


def smoke(context: Context) -> None:
    """Name what is there, and run a few of the tests that need a GPU, in about a minute."""
    context.report.add("versions", "; ".join(versions()))
    run_tests(context, "smoke tests", context.scale.smoke_tests)


def versions() -> list[str]:
    """Name all software and hardware that a GPU needs, and say what is missing."""
    nccl = torch.cuda.nccl.version() if is_nccl_available() else ()  # type: ignore[no-untyped-call]
    cudnn = torch.backends.cudnn.version()  # type: ignore[no-untyped-call]
    header = Path(sysconfig.get_path("include")) / "Python.h"
    gpus = [torch.cuda.get_device_properties(n) for n in range(torch.cuda.device_count())]
    try:
        triton = metadata.version("triton")
    except metadata.PackageNotFoundError:
        triton = "missing"
    return [
        *(
            f"{gpu.name}, {gpu.total_memory / 2**30:.0f} GiB, {gpu.major}.{gpu.minor}"
            for gpu in gpus
        ),
        f"driver {_output('nvidia-smi', '--query-gpu=driver_version', '--format=csv,noheader')}",
        f"torch {torch.__version__}",
        f"CUDA {torch.version.cuda or 'missing'}",
        f"cuDNN {cudnn or 'missing'}",
        f"NCCL {'.'.join(map(str, nccl)) or 'missing'}",
        f"Triton {triton}",
        f"compiler {_output(os.environ.get('CC') or 'cc', '--version')}",
        f"Python {platform.python_version()}{'' if header.exists() else ' without Python.h'}",
    ]


def _output(*command: str) -> str:
    """Return the first line that a command prints, or "missing"."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return "missing"
    return (done.stdout.splitlines() or ["missing"])[0]


def tests(context: Context) -> None:
    """Run the tests that need a GPU."""
    run_tests(context, "GPU tests", context.scale.tests)


def run_tests(context: Context, what: str, arguments: Sequence[str]) -> None:
    """Run pytest, and report the counts as tests pass and fail."""
    counts, failed = {"PASSED": 0, "FAILED": 0, "SKIPPED": 0}, []
    command = [sys.executable, "-m", "pytest", *arguments, "-v", "--tb=short"]
    process = subprocess.Popen(
        [*command, "-p", "no:cacheprovider"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
    )
    assert process.stdout is not None
    for line in process.stdout:
        print(line, end="", flush=True)
        if found := re.match(r"\S+::(.+) (PASSED|FAILED|ERROR|SKIPPED)", line):
            name, outcome = found.groups()
            counts["FAILED" if outcome == "ERROR" else outcome] += 1
            failed += [name] if outcome in ("FAILED", "ERROR") else []
            counted = ", ".join(f"{count} {word.lower()}" for word, count in counts.items())
            met = not failed if counts["PASSED"] or failed else None
            context.report.add(what, f"{counted} {'; '.join(failed)}".strip(), met=met)
    if process.wait() and not failed:
        context.report.add(what, f"pytest ended with status {process.returncode}", met=False)


def train(context: Context) -> None:
    """Time updates of the models, compiled and not."""
    scale, report = context.scale, context.report
    with report.attempt("products"):
        rates = product_rates("cuda", scale.product_size)
        listed = ", ".join(f"{rate / 1e12:,.2f} {name}" for name, rate in rates.items())
        report.add("products", f"{listed} TFLOP/s")
    tokens = update_tokens(DataFolder.open(context.data), scale.batch_tokens)

    def measure(what: str, job: Job, *, compiled: bool) -> None:
        with report.attempt(what):
            contender = training.nmt(job, PRECISION, context.work, compile=how(compiled))
            (speed, _, nll), peak = timed(contender, scale.warmup, scale.updates)
            ms = 1000 * tokens * job.batch_tokens / scale.batch_tokens / speed
            share = flops_per_token(job) * speed / best_rate(rates, PRECISION)
            goal = TRAINING_GOALS.get(what)
            report.add(
                what,
                f"{ms:,.1f} ms, {share:.0%} of products, {speed:,.0f} tokens/s, "
                f"{peak / 2**30:.1f} GiB, nll {nll:.4f}",
                met=goal(ms, share) if goal else None,
            )

    for compiled in (True, False):
        for size in scale.presets:
            what = f"{size}, nmt{' compiled' if compiled else ''}"
            if compiled and no_compiler():
                report.add(what, no_compiler())
            else:
                measure(what, context.job(size), compiled=compiled)
    job = replace(context.job("base"), batch_tokens=scale.batch_tokens // 10)
    measure(LITTLE_WORK, job, compiled=False)


def how(compiled: bool) -> str:
    """Return the value by which all is compiled, or the least that this machine can."""
    return "true" if compiled else "false" if no_compiler() else "loss"


def timed(contender: Contender, warmup: int, updates: int) -> tuple[Measurement, int]:
    """Return the speed of a training and its nll, and its peak of GPU memory in bytes."""
    before = torch.cuda.mem_get_info()[0]
    with highest(lambda: before - torch.cuda.mem_get_info()[0], every=0.05) as peak:
        measured = contender(warmup, updates)
    return measured, peak[0]


def translate(context: Context) -> None:
    """Time the translation of some lines by one model, beside CTranslate2."""
    scale, report = context.scale, context.report
    model = model_of(context)
    vocabulary = card_for_peers(model).tgt_vocabulary
    pieces, text, output = (context.work / name for name in ("vocab.spm", "text", "output"))
    pieces.write_bytes(vocabulary.model)
    source = context.data / f"valid.{DataFolder.open(context.data).info.langs[0]}"
    lines = source.read_text(encoding="utf-8").split("\n")[:-1]
    short = [line for line in lines if len(line.split()) <= scale.max_tokens]
    text.write_text("".join(f"{line}\n" for line in short[: scale.lines]), encoding="utf-8")
    speeds: dict[str, float] = {}

    def measure(what: str, system: translation.Contender) -> None:
        batch = system.fastest_batch(text, context.work)
        seconds = min(system.seconds(text, output, batch) for _ in range(scale.rounds))
        found = output.read_text(encoding="utf-8").split("\n")[:-1]
        tokens = sum(map(len, vocabulary.encode(found)))
        speeds[what] = len(found) / seconds
        said = f"{system.name}: {speeds[what]:,.0f} sentences/s, {tokens / seconds:,.0f} tokens/s"
        others = {name: speed / speeds[what] for name, speed in speeds.items() if name != what}
        said += "".join(f"; {name} does {ratio:.2f}x" for name, ratio in others.items())
        met = max(others.values(), default=0.0) > 1 if what == CTRANSLATE2 else None
        report.add(what, said, met=met)

    with report.attempt("nmt"):
        measure("nmt", translation.nmt(model, PRECISION, BEAM_SIZE, device="cuda"))
    with report.attempt(CTRANSLATE2):
        if not is_installed("ctranslate2") or not (scale.is_rehearsal or gpus_of_ctranslate2()):
            report.add(CTRANSLATE2, "not installed, or without GPUs")
            return
        exported = context.new_folder("export")
        harness.nmt("export", "ctranslate2", model, exported, "--quantization", "bfloat16")
        device = "cpu" if scale.is_rehearsal else "cuda"
        peer = translation.ctranslate2(exported, pieces, PRECISION, BEAM_SIZE, device=device)
        measure(CTRANSLATE2, peer)


def gpus_of_ctranslate2() -> int:
    """Return how many GPUs CTranslate2 can use, as another process finds."""
    program = "import ctranslate2; print(ctranslate2.get_cuda_device_count())"
    return int(harness.run([sys.executable, "-c", program]).stdout)


def model_of(context: Context) -> Path:
    """Return the model to translate with: NMT_BENCH_MODEL_BASE, or one that is trained now."""
    if given := setting("MODEL_BASE", ""):
        return find_model(Path(given))
    scale, job, out = context.scale, context.job("base"), context.new_folder("run")
    harness.nmt(*training.train_words(job, out, PRECISION, scale.learnt, scale.settings))
    return find_model(out)
