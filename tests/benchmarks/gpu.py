"""`make gpu`: tests and measures a GPU in five parts, and prints one report with the goals.

    make gpu PYTHON=python3 [PART=tests|train|profile|resume|translate] [GPU_OUT=FOLDER]

It is for a machine that you have for half an hour. Nothing is installed, and the checkout is run as
it is. Each part is a process of its own, which is killed after 8 minutes. In GPU_OUT, report.md is
written again after each result, and PART.log holds all that a part has printed. Data and runs are
in NMT_BENCH_WORK, so that parts which you run one by one share them.

A rehearsal (`REHEARSE=1`) does the same with tiny shapes on a CPU, in some minutes.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from benchmarks import gpu_attention, harness, training, translation
from benchmarks.corpora import made_up
from benchmarks.harness import NMT, find_python, highest, setting, table, work_folder
from benchmarks.machine import best_rate, describe, product_rates
from benchmarks.peer_weights import write_transformers
from benchmarks.profile_training import by_kind, profiled, top_operators
from benchmarks.training import Contender, Job, flops_per_token, update_tokens
from benchmarks.translation import BEAM_SIZE, fastest_batch, open_for_peers
from toy_training import metrics, status

from nmt.data.folder import DataFolder
from nmt.files import write_text
from nmt.models.device import dtype_of
from nmt.models.model_file import find_model

ROOT = Path(__file__).parents[2]
STANDINS = Path(__file__).parent / "standins"
PART_SECONDS = 480
STOPPED = 75  # exit status of a run that was asked to stop
NOT_INSTALLED = "not installed"
LEFT_OUT = "left out, because compiling for a CPU takes minutes"
CTRANSLATE2, TRANSFORMERS = "CTranslate2", "transformers"

GOALS: dict[str, dict[str, str]] = {
    "tests": {"tests/test_gpu.py": "none fails"},
    "train": {
        "products": "",
        "base, nmt compiled": "at most 26 ms, or 45 % of products",
        "base, nmt": "",
        "base, textbook": "",
        "base, transformers": "",
        "big, nmt compiled": "55 % of products",
        "big, nmt": "",
        "big, textbook": "",
        "big, transformers": "",
    },
    "profile": {
        "base, nmt compiled, profile": "",
        "base, nmt, profile": "",
        f"attention: {gpu_attention.FLASH}": "agrees with padded groups",
        f"attention: {gpu_attention.PADDED}": "",
        f"attention: {gpu_attention.FLEX}": "agrees with padded groups",
    },
    "resume": {
        "kill -9 and resume": "loss of repeated updates within 1 %",
        "SIGTERM": "saved within 20 s, exit status 75",
        "resume to the end": "finished, with a lower loss",
    },
    "translate": {
        "nmt": "",
        CTRANSLATE2: "nmt is faster",
        TRANSFORMERS: "",
    },
}
"""The rows of the report by part, and their goals."""

Goal = Callable[[float, float], bool]
"""Takes milliseconds an update and the share of matrix products."""
TRAINING_GOALS: dict[str, Goal] = {
    "base, nmt compiled": lambda ms, share: ms <= 26 or share >= 0.45,
    "big, nmt compiled": lambda _, share: share >= 0.55,
}


@dataclass(frozen=True)
class Scale:
    """How much is measured, and where."""

    device: str
    precision: str
    presets: dict[str, str]
    pairs: int
    vocab_size: int
    batch_tokens: int
    warmup: int
    updates: int
    profiled: int
    lines: int
    max_tokens: int  # of a source that is translated
    train_seconds: float  # until the kill, and again until SIGTERM
    log_every: int
    save_minutes: float
    last_updates: int  # after SIGTERM
    compiles: bool
    settings: tuple[str, ...] = ()


GPU = Scale(
    device="cuda",
    precision="bf16",
    presets={"base": "transformer_base", "big": "transformer_big"},
    pairs=150_000,
    vocab_size=32_000,
    batch_tokens=25_000,
    warmup=20,
    updates=100,
    profiled=5,
    lines=3_000,
    max_tokens=150,
    train_seconds=75,
    log_every=100,
    save_minutes=0.5,
    last_updates=500,
    compiles=True,
    settings=("warmup_updates=1000",),
)
REHEARSAL = Scale(
    device="cpu",
    precision="fp32",
    presets={"base": "transformer_tiny", "big": "transformer_tiny"},
    pairs=1_000,
    vocab_size=1_000,
    batch_tokens=300,
    warmup=1,
    updates=2,
    profiled=1,
    lines=20,
    max_tokens=8,
    train_seconds=10,
    log_every=2,
    save_minutes=0.1,
    last_updates=4,
    compiles=False,
    settings=("d_model=32", "d_ff=64"),
)


# ------------------------------------------------------------------------------ report


@dataclass(frozen=True)
class Report:
    """What was found, in a folder; complete after each result."""

    folder: Path

    @cached_property
    def _found(self) -> dict[str, dict[str, Any]]:
        path = self.folder / "results.json"
        found: dict[str, dict[str, Any]] = json.loads(path.read_text()) if path.exists() else {}
        return found

    def forget(self, part: str) -> None:
        """Forget what an earlier run of a part has found."""
        for what in [part, *GOALS[part]]:
            self._found.pop(what, None)

    def add(self, what: str, found: str, *, met: bool | None = None) -> None:
        """Add a result; `met`: whether it meets its goal, if it has one."""
        print(f"{what}: {found}", flush=True)
        self._found[what] = {"found": found, "met": met}
        write_text(self.folder / "results.json", json.dumps(self._found, indent=1))
        write_text(self.folder / "report.md", self.text())

    @contextmanager
    def attempt(self, what: str) -> Iterator[None]:
        """Report what goes wrong in the block, and go on."""
        try:
            yield
        except Exception as error:
            traceback.print_exc()
            lines = str(error).strip().splitlines() or [""]
            errors = [line for line in lines if re.match(r"[\w.]*Error\b|nmt: error", line)]
            said = (errors or lines)[-1][:200]
            self.add(what, f"failed: {type(error).__name__}: {said}", met=False)

    def text(self) -> str:
        """Return the report, with a row for each goal."""
        words = {True: "met", False: "missed", None: ""}
        rows = []
        for part, goals in GOALS.items():
            for what, goal in goals.items():
                found = self._found.get(what, {"found": "not measured", "met": None})
                met = words[found["met"]]
                row = {"part": part, "what": what, "goal": goal, "": met, "found": found["found"]}
                rows.append(row)
        parts = [f"{part}: {self._found[part]['found']}" for part in GOALS if part in self._found]
        lines = "\n".join(f"- {one}" for one in [describe(), *parts])
        return f"{lines}\n\n{table(rows)}\n"


# ------------------------------------------------------------------------------- parts


@dataclass(frozen=True)
class Context:
    """What the parts share."""

    scale: Scale
    report: Report
    work: Path

    @cached_property
    def data(self) -> Path:
        """The data folder, prepared once."""
        path, scale = Path(setting("DATA", str(self.work / "data"))), self.scale
        if not (path / "dataset.json").exists():
            made_up(path, pairs=scale.pairs, vocab_size=scale.vocab_size)
        return path

    def job(self, size: str) -> Job:
        """Return a training of the base or big model."""
        scale = self.scale
        preset = scale.presets[size]
        return Job(self.data, preset, scale.batch_tokens, scale.device, scale.pairs)

    def run_folder(self, name: str) -> Path:
        """Return a run folder that is not there."""
        numbered = (self.work / f"{name}-{number}" for number in itertools.count())
        return next(path for path in numbered if not path.exists())


def tests(context: Context) -> None:
    """Run the tests that need a GPU. Counts appear as they pass and fail."""
    what, counts, failed = "tests/test_gpu.py", {"PASSED": 0, "FAILED": 0, "SKIPPED": 0}, []
    command = [sys.executable, "-m", "pytest", "tests/test_gpu.py", "-v", "--tb=short"]
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
        rates = product_rates(scale.device)
        listed = ", ".join(f"{rate / 1e12:,.2f} {name}" for name, rate in rates.items())
        report.add("products", f"{listed} TFLOP/s")
    data = DataFolder.open(context.data)
    tokens = update_tokens(data, scale.batch_tokens)
    for name in ("nmt compiled", "nmt", "textbook", "transformers"):  # ours first, if time runs out
        for size in scale.presets:
            what = f"{size}, {name}"
            with report.attempt(what):
                job = context.job(size)
                contender = contender_of(name, job, context)
                if isinstance(contender, str):
                    report.add(what, contender)
                    continue
                speed, peak = timed(contender, scale)
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


def contender_of(name: str, job: Job, context: Context) -> Contender | str:
    """Return a system, or why there is none."""
    scale = context.scale
    match name:
        case "nmt compiled" if not scale.compiles:
            return LEFT_OUT
        case "nmt compiled":
            return training.nmt(job, scale.precision, context.work, "compile=true")
        case "nmt":
            return training.nmt(job, scale.precision, context.work, "compile=loss")
        case "textbook":
            return training.textbook(job, scale.precision)
    python = find_python("TRANSFORMERS", "transformers")
    return training.transformers(job, scale.precision, python) if python else NOT_INSTALLED


def timed(contender: Contender, scale: Scale) -> tuple[float, int]:
    """Return the tokens a second of a training, and its peak of GPU memory in bytes."""
    if scale.device == "cpu":
        found = contender(scale.warmup, scale.updates)
        return found.tokens_per_second, found.peak_bytes
    before = torch.cuda.mem_get_info()[0]
    with highest(lambda: before - torch.cuda.mem_get_info()[0], every=0.05) as peak:
        speed = contender(scale.warmup, scale.updates).tokens_per_second
    return speed, peak[0]


def profile(context: Context) -> None:
    """Show where the time of an update goes, and time attention. The log has all operators."""
    scale, job = context.scale, context.job("base")
    for what, compiled in (("base, nmt compiled, profile", True), ("base, nmt, profile", False)):
        if compiled and not scale.compiles:
            context.report.add(what, LEFT_OUT)
            continue
        words = [str(job.data), "--model", job.preset, "--precision", scale.precision]
        choice = "true" if compiled else "loss"
        words += ["--batch-tokens", str(job.batch_tokens), f"--set=compile={choice}"]
        with context.report.attempt(what):
            events = profiled(words, device=scale.device, warmup=3, updates=scale.profiled)
            times = by_kind(events, scale.device)
            kernels = sum(event.device_type.name == "CUDA" for event in events) / scale.profiled
            print(top_operators(events, scale.device, 40))
            total = sum(times.values())
            shares = ", ".join(f"{kind} {us / total:.0%}" for kind, us in times.most_common())
            ms = total / 1000 / scale.profiled
            context.report.add(what, f"{ms:,.1f} ms in {kernels:,.0f} kernels: {shares}")
    config, device = training.config_of(job.preset), torch.device(scale.device)
    sentences = gpu_attention.update_of(DataFolder.open(job.data), job.batch_tokens).to(device)
    shape = len(sentences.tokens), 3, config.num_heads, config.d_model // config.num_heads
    x = torch.randn(shape, device=device, dtype=dtype_of(scale.precision))
    for name in gpu_attention.WAYS:
        with context.report.attempt(f"attention: {name}"):
            found, agrees = gpu_attention.measure(name, sentences, x)
            context.report.add(f"attention: {name}", found, met=agrees)


def resume(context: Context) -> None:
    """Train the base model; kill it, stop it and resume it."""
    scale, report, out = context.scale, context.report, context.run_folder("run")
    with report.attempt("kill -9 and resume"):
        process = start_training(context, out)
        train_for(scale.train_seconds, process, out, scale.log_every)
        process.kill()
        process.wait()
        before = {one["update"]: one["nll"] for one in metrics(out, "train")}
        process = start_training(context, out)
        train_for(scale.train_seconds, process, out, max(before))
        after = {one["update"]: one["nll"] for one in metrics(out, "train")}
        start = metrics(out, "start")[-1]["update"]
        repeated = [update for update in before if update > start + scale.log_every]
        gap = max((abs(after[u] / before[u] - 1) for u in repeated), default=0.0)
        found = f"killed after update {max(before):,} or later, resumed from {start:,}"
        report.add(
            "kill -9 and resume",
            f"{found}; loss of {len(repeated)} repeated windows differs by {gap:.2%}",
            met=gap <= 0.01,
        )
    with report.attempt("SIGTERM"):
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        returned, seconds = process.wait(), time.monotonic() - began
        report.add(
            "SIGTERM",
            f"exit status {returned} after {seconds:.1f} s",
            met=returned == STOPPED and seconds <= 20,
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


def start_training(
    context: Context, out: Path, max_updates: int = 10**6
) -> subprocess.Popen[bytes]:
    """Start the training that is killed and resumed."""
    scale, job = context.scale, context.job("base")
    settings = {
        "log_every": scale.log_every,
        "save_every": 5 * scale.log_every,
        "save_minutes": scale.save_minutes,
        "validate_every": 20 * scale.log_every,
    }
    return subprocess.Popen(
        [
            *(*NMT, "train", str(job.data), "--out", str(out), "--model", job.preset, "--quiet"),
            *("--precision", scale.precision, "--device", scale.device),
            *("--batch-tokens", str(job.batch_tokens), "--max-updates", str(max_updates)),
            *(f"--set={key}={value}" for key, value in settings.items()),
            *(f"--set={setting}" for setting in scale.settings),
        ],
        env=harness.environment(),
    )


def train_for(seconds: float, process: subprocess.Popen[bytes], out: Path, update: int) -> None:
    """Wait until a run has trained for some seconds, and past an update."""
    stop = time.monotonic() + PART_SECONDS / 2
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
    raise TimeoutError(f"no update {update} after {PART_SECONDS / 2:.0f} s")


def translate(context: Context) -> None:
    """Time the translation of some lines by one model in several systems."""
    scale, report = context.scale, context.report
    model = model_of(context)
    transformer, vocabulary = open_for_peers(model)
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
        "device": scale.device,
    }
    speeds: dict[str, float] = {}

    def measure(what: str, system: translation.Contender) -> None:
        batch = fastest_batch(system, text, outputs)
        output = next(outputs)
        seconds = [system.time_loop(text, output, batch) for _ in range(2)]
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
        python = find_python("CTRANSLATE2", "ctranslate2", "sentencepiece")
        if python is None or (scale.device == "cuda" and not gpus_of_ctranslate2(python)):
            report.add(CTRANSLATE2, f"{NOT_INSTALLED}, or without GPUs")
        else:
            exported = context.run_folder("export")
            kind = {"bf16": "bfloat16", "fp32": "float32"}[scale.precision]
            harness.nmt("export", "ctranslate2", model, exported, "--quantization", kind)
            measure(CTRANSLATE2, translation.ctranslate2(exported, pieces, python, **search))
    with report.attempt(TRANSFORMERS):
        python = find_python("TRANSFORMERS", "transformers", "torch", "sentencepiece")
        if python is None:
            report.add(TRANSFORMERS, NOT_INSTALLED)
        else:
            folder = context.run_folder("transformers")
            folder.mkdir()
            write_transformers(transformer, folder)
            peer = translation.transformers(folder, pieces, python, **search)
            measure(TRANSFORMERS, replace(peer, batches=peer.batches[-2:]))


def gpus_of_ctranslate2(python: str) -> int:
    """Return how many GPUs a Python's CTranslate2 can use."""
    program = "import ctranslate2; print(ctranslate2.get_cuda_device_count())"
    return int(harness.run([python, "-c", program]).stdout)


def model_of(context: Context) -> Path:
    """Return the model to translate with: given, or of `resume`, or one that is trained now."""
    if given := setting("MODEL_BASE", ""):
        return find_model(Path(given))
    for out in sorted(context.work.glob("run-*")):
        if status(out)["status"] in ("finished", "stopped"):
            return find_model(out)
    out = context.run_folder("run")
    process = start_training(context, out)
    train_for(context.scale.train_seconds, process, out, context.scale.log_every)
    process.send_signal(signal.SIGTERM)
    assert process.wait() == STOPPED
    return find_model(out)


PARTS: dict[str, Callable[[Context], None]] = {
    one.__name__: one for one in (tests, train, profile, resume, translate)
}


# -------------------------------------------------------------------------------- main


def run_part(part: str, report: Report, *, rehearse: bool) -> None:
    """Run a part in a process of its own, and all that it starts, for 8 minutes at most."""
    log, began = report.folder / f"{part}.log", time.monotonic()
    print(f"{part}: see {log}", flush=True)
    words = [sys.executable, "-m", "benchmarks.gpu", part, "--out", str(report.folder), "--here"]
    with log.open("w", encoding="utf-8") as file:
        process = subprocess.Popen(
            [*words, *["--rehearse"] * rehearse],
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=part_environment(),
        )
        try:
            ending = f"exit status {process.wait(PART_SECONDS)}"
        except subprocess.TimeoutExpired:
            ending = "killed"
        finally:
            stop_group(process)
    left = Report(report.folder)  # as the part has left it
    left.add(part, f"{ending} after {time.monotonic() - began:.0f} s, see {log.name}")


def stop_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and all that it has started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def part_environment() -> dict[str, str]:
    """Return the environment of a part: what was compiled is kept for later parts."""
    path = [str(ROOT), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]
    path += [str(STANDINS)] * (importlib.util.find_spec("langcodes") is None)
    compiled = str(work_folder(ROOT / "work-gpu").resolve() / "compiled")
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, path)),
        "TORCHINDUCTOR_CACHE_DIR": os.environ.get("TORCHINDUCTOR_CACHE_DIR", compiled),
    }


def main() -> None:
    """Run the parts and print the report."""
    parser = argparse.ArgumentParser(prog="make gpu")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"one of {', '.join(PARTS)}")
    parser.add_argument("--out", type=Path, required=True, help="where the report is written")
    parser.add_argument("--rehearse", action="store_true", help="tiny shapes on a CPU")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)  # in this process
    given = parser.parse_args()
    if unknown := [part for part in given.parts if part not in PARTS]:
        parser.error(f"unknown part {unknown[0]!r}; parts are {', '.join(PARTS)}")
    if not given.rehearse and not torch.cuda.is_available():
        parser.error("torch finds no GPU; make gpu REHEARSE=1 rehearses on a CPU")
    given.out.mkdir(parents=True, exist_ok=True)
    report = Report(given.out.resolve())
    if given.here:
        scale = REHEARSAL if given.rehearse else GPU
        work = work_folder(ROOT / "work-gpu").resolve() / ("rehearsal" if given.rehearse else "gpu")
        work.mkdir(exist_ok=True)
        for part in given.parts:
            report.forget(part)
            PARTS[part](Context(scale, report, work))
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # ends the part, too
    for part in given.parts or PARTS:
        run_part(part, report, rehearse=given.rehearse)
    print((report.folder / "report.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
