"""The parts of `make gpu` in one process: tests, training, a profile, resuming, translating."""

from __future__ import annotations

import itertools
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from benchmarks import harness, training, translation
from benchmarks.gpu_report import CTRANSLATE2, GOALS, LITTLE_WORK
from benchmarks.gpu_scale import Context, no_compiler
from benchmarks.harness import highest, is_installed, parents, setting
from benchmarks.machine import best_rate, product_rates
from benchmarks.profile_training import by_kind, calls, profiled, top_operators
from benchmarks.training import Contender, Job, flops_per_token, update_tokens
from benchmarks.translation import BEAM_SIZE, card_for_peers, fastest_batch
from pretended_gpu.update import made_up_update
from torch import Tensor
from torch.autograd.profiler_util import EventList
from toy_training import metrics, nmt_command, status

from nmt.data.batches import Packed
from nmt.data.folder import DataFolder
from nmt.models.kernels.packed_attention import (
    Sentences,
    attend_packed,
    use_sentence_kernel,
)
from nmt.models.model_file import find_model

ROOT = Path(__file__).parents[2]
STOPPED = 75  # exit status of a run that was asked to stop
END_SECONDS = 60  # until all have ended after one was killed
PATIENCE = 150  # seconds until a run must have passed an update
NOT_INSTALLED = "not installed"
Attention = Callable[[Tensor], Tensor]
"""Maps queries, keys and values (n, 3, H, K) of packed sentences to (n, H, K)."""
HEADS = 8
Goal = Callable[[float, float], bool]
"""Takes milliseconds an update and the share of matrix products."""
TRAINING_GOALS: dict[str, Goal] = {
    "base, nmt compiled": lambda ms, share: ms <= 26 or share >= 0.45,
    "big, nmt compiled": lambda _, share: share >= 0.55,
}


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
    """Time updates of both models, ours and others'."""
    scale, report = context.scale, context.report
    with report.attempt("products"):
        rates = product_rates("cuda", scale.product_size)
        listed = ", ".join(f"{rate / 1e12:,.2f} {name}" for name, rate in rates.items())
        report.add("products", f"{listed} TFLOP/s")
    data = DataFolder.open(context.data)
    tokens = update_tokens(data, scale.batch_tokens)
    for name in ("nmt compiled", "nmt", "textbook"):  # ours first, if time runs out
        for size in scale.presets:
            what = f"{size}, {name}"
            if what not in GOALS["train"]:
                continue
            with report.attempt(what):
                job = context.job(size)
                contender = contender_of(name, job, context)
                if isinstance(contender, str):
                    report.add(what, contender)
                    continue
                speed, peak = timed(contender, scale.warmup, scale.updates)
                ms = 1000 * tokens / speed
                work = flops_per_token(job.preset, data)
                share = work * speed / best_rate(rates, scale.precision)
                goal = TRAINING_GOALS.get(what)
                report.add(
                    what,
                    f"{ms:,.1f} ms, {share:.0%} of products, {speed:,.0f} tokens/s, "
                    f"{peak / 2**30:.1f} GiB",
                    met=goal and goal(ms, share),
                )
    with report.attempt(LITTLE_WORK):
        job = replace(context.job("base"), batch_tokens=scale.batch_tokens // 10)
        own = training.nmt(job, scale.precision, context.work, f"compile={least_compiled()}")
        speed, _ = timed(own, scale.warmup, scale.updates)
        report.add(LITTLE_WORK, f"{1000 * tokens / 10 / speed:,.1f} ms, mostly Python's")


def contender_of(name: str, job: Job, context: Context) -> Contender | str:
    """Return a system, or why there is none."""
    scale = context.scale
    match name:
        case "nmt compiled" if no_compiler():
            return no_compiler()
        case "nmt compiled":
            return training.nmt(job, scale.precision, context.work, "compile=true")
        case "nmt":
            return training.nmt(job, scale.precision, context.work, f"compile={least_compiled()}")
    return training.textbook(job, scale.precision)


def least_compiled() -> str:
    """Return the choice of `compile` that leaves the model as it is."""
    return "false" if no_compiler() else "loss"


def timed(contender: Contender, warmup: int, updates: int) -> tuple[float, int]:
    """Return the tokens a second of a training, and its peak of GPU memory in bytes."""
    before = torch.cuda.mem_get_info()[0]
    with highest(lambda: before - torch.cuda.mem_get_info()[0], every=0.05) as peak:
        speed = contender(warmup, updates).tokens_per_second
    return speed, peak[0]


def profile(context: Context) -> None:
    """Show where the time of an update goes, and time attention in two ways.

    The log has all operators, and a trace lies beside the report. chrome://tracing and Perfetto
    show it.
    """
    scale, report, job = context.scale, context.report, context.job("base")
    for what, compiled in (("base, nmt compiled, profile", True), ("base, nmt, profile", False)):
        if compiled and no_compiler():
            report.add(what, no_compiler())
            continue
        choice = "true" if compiled else least_compiled()
        words = [str(job.data), "--model", job.preset, "--precision", scale.precision]
        words += ["--batch-tokens", str(job.batch_tokens), f"--set=compile={choice}"]
        trace = report.folder / f"trace-{'compiled' if compiled else 'eager'}.json.gz"
        with report.attempt(what):
            events = profiled(words, device="cuda", warmup=3, updates=scale.profiled, trace=trace)
            print(top_operators(events, "cuda", 40))
            report.add(what, f"{describe_update(events, scale.profiled)}; {trace.name}")

    packed = (
        made_up_update(scale.max_tokens, scale.batch_tokens).batches[0].src.to(torch.device("cuda"))
    )
    for name, by_kernel in (("flash", False), ("kernel for sentences", True)):
        what = f"attention, {name}"
        with report.attempt(what):
            if by_kernel and no_compiler():
                report.add(what, no_compiler())
                continue
            attention = packed_attention(packed, by_kernel=by_kernel)
            ms = 1000 * seconds_of_attention(attention, len(packed.tokens))
            report.add(what, f"{ms:.2f} ms for a layer's, forward and backward")


def packed_attention(packed: Packed, *, by_kernel: bool) -> Attention:
    """Return self-attention as layers compute it."""
    sentences = Sentences.of(packed, HEADS, as_packed=True)

    def attention(qkv: Tensor) -> Tensor:
        use_sentence_kernel(by_kernel)
        return attend_packed([qkv], sentences, sentences)

    return attention


def seconds_of_attention(attention: Attention, tokens: int) -> float:
    """Return the time of a forward and a backward pass in bf16, after the first ones."""
    size = tokens, 3, HEADS, 64
    qkv = torch.randn(size, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    began, calls = 0.0, 20
    for call in range(-3, calls):
        if call == 0:
            torch.cuda.synchronize()
            began = time.perf_counter()
        result = attention(qkv)
        result.backward(torch.ones_like(result))  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    return (time.perf_counter() - began) / calls


def describe_update(events: EventList, updates: int) -> str:
    """Return what an update launches, and where its time goes on the GPU."""
    per_update = {name: count / updates for name, count in calls(events).items()}
    listed = ", ".join(f"{count:,.1f} {name}" for name, count in per_update.items())
    times = by_kind(events, "cuda")
    total = sum(times.values())
    if not total:
        return f"{listed}; the profiler saw no kernel"
    wall = sum(event.cpu_time_total for event in events if event.name.startswith("ProfilerStep"))
    shares = ", ".join(f"{kind} {us / total:.0%}" for kind, us in times.most_common())
    ms = total / 1000 / updates
    return f"{listed}; {ms:,.1f} ms of kernels in {wall / 1000 / updates:,.1f} ms: {shares}"


def resume(context: Context) -> None:
    """Train the base model, on two GPUs if there are two; kill a process, stop all, and go on."""
    scale, report, out = context.scale, context.report, context.new_folder("run")
    with report.attempt("training"):
        process = start_training(context, out)
        train_for(scale.train_seconds, process, out, scale.log_every)
        speed = metrics(out, "train")[-1]["tokens_per_second"]
        report.add("training", f"{speed:,.0f} tokens/s, {ranks()} processes")
    with report.attempt("kill -9 and resume"):
        began = time.monotonic()
        victim = process.pid if ranks() == 1 else rank_processes(process.pid)[-1]
        os.kill(victim, signal.SIGKILL)
        process.wait(2 * END_SECONDS)
        ended = time.monotonic() - began
        before = {one["update"]: one["nll"] for one in metrics(out, "train")}
        process = start_training(context, out)
        train_for(scale.train_seconds, process, out, max(before))
        after = {one["update"]: one["nll"] for one in metrics(out, "train")}
        start = metrics(out, "start")[-1]["update"]
        repeated = [update for update in before if update > start + scale.log_every]
        gap = max((abs(after[u] / before[u] - 1) for u in repeated), default=0.0)
        report.add(
            "kill -9 and resume",
            f"all had ended after {ended:.1f} s; killed after update {max(before):,} or later, "
            f"resumed from {start:,}; loss of {len(repeated)} repeated windows differs by "
            f"{gap:.2%}",
            met=gap <= 0.01 and ended <= END_SECONDS,
        )
    with report.attempt("SIGTERM"):
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        returned, seconds = process.wait(), time.monotonic() - began
        said = status(out)["status"]
        report.add(
            "SIGTERM",
            f"{said}, exit status {returned} after {seconds:.1f} s",
            met=said == "stopped" and seconds <= 20 and (ranks() > 1 or returned == STOPPED),
        )
    with report.attempt("resume to the end"):
        last = status(out)["update"] + scale.last_updates
        returned = start_training(context, out, last).wait()
        losses = [one["nll"] for one in metrics(out, "train")]
        report.add(
            "resume to the end",
            f"exit status {returned}, {status(out)['status']} after {last:,} updates, nll "
            f"{losses[0]:.2f} to {losses[-1]:.2f}",
            met=returned == 0 and losses[-1] < losses[0],
        )


def ranks() -> int:
    """Return how many processes train: one for each GPU, but two at most."""
    return min(2, torch.cuda.device_count())


def rank_processes(torchrun: int) -> list[int]:
    """Return the processes that torchrun has started for ranks."""
    children = sorted(child for child, parent in parents().items() if parent == torchrun)
    return [one for one in children if b"train" in Path(f"/proc/{one}/cmdline").read_bytes()]


def start_training(
    context: Context, out: Path, max_updates: int = 10**6
) -> subprocess.Popen[bytes]:
    """Start the training that is killed and resumed, perhaps under torchrun."""
    scale, job = context.scale, context.job("base")
    settings = {
        "log_every": scale.log_every,
        "save_every": 5 * scale.log_every,
        "save_minutes": scale.save_minutes,
        "validate_every": 20 * scale.log_every,
    }
    return subprocess.Popen(
        [
            *nmt_command("train", job.data, "--out", out, ranks=ranks() if ranks() > 1 else None),
            *("--model", job.preset, "--quiet"),
            *("--precision", scale.precision, "--device", "cuda"),
            *("--batch-tokens", str(job.batch_tokens), "--max-updates", str(max_updates)),
            *(f"--set={key}={value}" for key, value in settings.items()),
            *(f"--set={setting}" for setting in scale.settings),
        ],
        env=harness.environment(),
    )


def train_for(seconds: float, process: subprocess.Popen[bytes], out: Path, update: int) -> None:
    """Wait until a run has trained for some seconds, and past an update."""
    stop = time.monotonic() + PATIENCE + seconds
    began = None
    while time.monotonic() < stop:
        time.sleep(0.1)
        if process.poll() is not None:
            raise RuntimeError(f"training ended with status {process.returncode}, see the log")
        done = metrics(out, "train") if (out / "metrics.jsonl").exists() else []
        if done and done[-1]["update"] > update:
            began = began or time.monotonic()
            if time.monotonic() - began > seconds:
                return
    raise TimeoutError(f"no update {update} after {PATIENCE} s")


def translate(context: Context) -> None:
    """Time the translation of some lines by one model in several systems."""
    scale, report = context.scale, context.report
    model = model_of(context)
    vocabulary = card_for_peers(model).tgt_vocabulary
    pieces = context.work / "vocab.spm"
    pieces.write_bytes(vocabulary.model)
    text = context.work / "text"
    info = DataFolder.open(context.data).info
    lines = (context.data / f"valid.{info.langs[0]}").read_text(encoding="utf-8").split("\n")[:-1]
    short = [line for line in lines if len(line.split()) <= scale.max_tokens]
    text.write_text("".join(f"{line}\n" for line in short[: scale.lines]), encoding="utf-8")
    outputs = (context.work / f"output-{number}" for number in itertools.count())
    search: dict[str, Any] = {
        "precision": scale.precision,
        "beam_size": BEAM_SIZE,
        "device": "cuda",
    }
    speeds: dict[str, float] = {}

    def measure(what: str, system: translation.Contender) -> None:
        batch = fastest_batch(system, text, outputs)
        output = next(outputs)
        seconds = [system.time_loop(text, output, batch) for _ in range(scale.rounds)]
        found = output.read_text(encoding="utf-8").split("\n")[:-1]
        tokens = sum(map(len, vocabulary.encode(found)))
        speeds[what] = len(found) / min(seconds)
        ratio = speeds.get("nmt", 0.0) / speeds[what]
        report.add(
            what,
            f"{system.name}: {speeds[what]:,.0f} sentences/s, {tokens / min(seconds):,.0f} "
            f"tokens/s; nmt does {ratio:.2f}x",
            met=ratio > 1 if what == CTRANSLATE2 else None,
        )

    with report.attempt("nmt"):
        measure("nmt", translation.nmt(model, **search))
    with report.attempt(CTRANSLATE2):
        if not is_installed("ctranslate2") or not (scale.is_rehearsal or gpus_of_ctranslate2()):
            report.add(CTRANSLATE2, f"{NOT_INSTALLED}, or without GPUs")
        else:
            exported = context.new_folder("export")
            harness.nmt("export", "ctranslate2", model, exported, "--quantization", "bfloat16")
            on_device = search | ({"device": "cpu"} if scale.is_rehearsal else {})
            peer = translation.ctranslate2(exported, pieces, **on_device)
            measure(CTRANSLATE2, replace(peer, batches=peer.batches[-2:]))


def gpus_of_ctranslate2() -> int:
    """Return how many GPUs CTranslate2 can use, as another process finds."""
    program = "import ctranslate2; print(ctranslate2.get_cuda_device_count())"
    return int(harness.run([sys.executable, "-c", program]).stdout)


def model_of(context: Context) -> Path:
    """Return the model to translate with: given, or of `resume`, or one that is trained now."""
    if given := setting("MODEL_BASE", ""):
        return find_model(Path(given))
    for out in sorted(context.work.glob("run-*")):
        if status(out)["status"] in ("finished", "stopped"):
            return find_model(out)
    out = context.new_folder("run")
    process = start_training(context, out)
    train_for(context.scale.train_seconds, process, out, context.scale.log_every)
    process.send_signal(signal.SIGTERM)
    assert process.wait() == STOPPED
    return find_model(out)
