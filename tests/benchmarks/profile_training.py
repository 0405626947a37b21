"""Where the time of an update goes: some updates of a real training under torch.profiler.

    make profile PROFILE="DATA --model transformer_base --precision bf16 --device cuda"

runs `nmt train` with these arguments, and prints the time of each kind of operation and the slowest
operators, without those that they call. On a GPU it is the GPU's time. On a CPU it is the time of
the threads that run operators (the main one and autograd's). Profiling makes small operators seem
slower than they are.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import torch
from benchmarks.harness import table
from torch.autograd.profiler_util import EventList, FunctionEvent
from torch.profiler import (
    ProfilerActivity,
    profile,
    record_function,
    schedule,
    supported_activities,
)

from nmt.cli import application
from nmt.data.updates import Update
from nmt.training import train
from nmt.training.trainer import Trainer
from nmt.training.update import UpdateResult

KINDS = {
    "optimiser": r"optimizer|adam",
    "loss": r"crossentropy|log_softmax|logsumexp|nll_loss",
    "dropout": r"dropout|bernoulli|random_",
    "norm": r"layer_?norm",
    "attention": r"attend|scaled_dot_product|flash|fmha|softmax|bmm|masked_fill|varlen",
    "matrix products": r"::mm$|addmm|linear|gemm|cutlass|nvjet|mmbackward",
    "embedding": r"embedding",
    "fused by the compiler": r"^triton_",
    "data": r"^waiting for data$|_to_copy|memcpy htod",
}
"""Patterns for the name of an operator, or else of its callers. The first match counts."""

_OTHER = "other (elementwise, copies)"


class ProfiledTrainer(Trainer):
    """Reports every update to the profiler, and every wait for data."""

    profiler: profile

    def advance(self, update: Update, result: UpdateResult) -> None:
        super().advance(update, result)
        self.profiler.step()

    def begin_stream(self, share: tuple[int, int] | None = None, tokens: int | None = None) -> None:
        super().begin_stream(share, tokens)
        self.stream.updates = watched(self.stream.updates)


def watched(updates: Iterator[Update]) -> Iterator[Update]:
    """Report every wait to the profiler."""
    while True:
        with record_function("waiting for data"):
            update = next(updates)
        yield update


def kind_of(event: FunctionEvent) -> str:
    """Return the kind of an operator, by its name or else by its callers."""
    at: FunctionEvent | None = event
    while at is not None:
        for kind, pattern in KINDS.items():
            if re.search(pattern, at.name, re.IGNORECASE):
                return kind
        at = at.cpu_parent
    return _OTHER


def by_kind(events: Iterable[FunctionEvent], device: str) -> Counter[str]:
    """Return the microseconds of each kind of operator, without the operators that they call."""
    times: Counter[str] = Counter()
    for event in events:
        if event.name.startswith("ProfilerStep"):
            continue
        if device == "cpu":
            times[kind_of(event)] += event.self_cpu_time_total
        elif event.device_type.name == "CUDA" and not event.is_user_annotation:  # a kernel
            times[kind_of(event)] += event.self_device_time_total
    return times


def calls(events: Iterable[FunctionEvent]) -> Counter[str]:
    """Count what the host asks of a GPU: launches, copies, and waits for it."""
    kinds = {
        "launches": r"cu\w*Launch",
        "copies": r"cudaMem(cpy|set)",
        "waits": r"cuda\w+Synchronize",
    }
    counts = Counter(dict.fromkeys(kinds, 0))
    for event in events:
        for kind, pattern in kinds.items():
            counts[kind] += bool(re.match(pattern, event.name))
    return counts


def profiled(
    words: list[str], *, device: str, warmup: int, updates: int, trace: Path | None = None
) -> EventList:
    """Train under the profiler, and return the events after the warm-up.

    trace: where to write them in the form of chrome://tracing, compressed if it ends in .gz.
    """
    activities = [ProfilerActivity.CPU]
    known = supported_activities()  # type: ignore[no-untyped-call]
    if device == "cuda" and ProfilerActivity.CUDA in known:
        activities.append(ProfilerActivity.CUDA)
    plan = schedule(wait=0, warmup=warmup, active=updates, repeat=1)
    count, never = warmup + updates, 10**9
    settings = {"log_every": count, "validate_every": never, "save_every": never}
    with (
        TemporaryDirectory() as folder,
        profile(activities=activities, schedule=plan, acc_events=True) as profiler,
        mock.patch.object(ProfiledTrainer, "profiler", profiler, create=True),
        mock.patch.object(train, "Trainer", ProfiledTrainer),
    ):
        status = application(["train"])(
            [
                *("train", *words, "--out", f"{folder}/run", "--device", device),
                *("--max-updates", str(count)),
                *(f"--set={key}={value}" for key, value in settings.items()),
            ],
            standalone_mode=False,
        )
    if status:
        raise RuntimeError(f"training ended with status {status}")
    if trace is not None:
        profiler.export_chrome_trace(str(trace))
    events: EventList = profiler.events()
    return events


def top_operators(events: EventList, device: str, count: int) -> str:
    """Return a table of the slowest operators."""
    order = "self_device_time_total" if device == "cuda" else "self_cpu_time_total"
    averages = events.key_averages()  # type: ignore[no-untyped-call]
    listed: str = averages.table(sort_by=order, row_limit=count)
    return listed


def main() -> None:
    gpu = torch.cuda.is_available()
    parser = argparse.ArgumentParser(prog="profile_training", epilog="The rest: see nmt train.")
    parser.add_argument("--device", default="cuda" if gpu else "cpu", choices=("cpu", "cuda"))
    parser.add_argument("--warmup", type=int, default=2, help="updates that are not profiled")
    parser.add_argument("--updates", type=int, default=3, help="updates that are")
    parser.add_argument("--top", type=int, default=20, help="operators shown")
    own, words = parser.parse_known_args()
    events = profiled(words, device=own.device, warmup=own.warmup, updates=own.updates)
    times = by_kind(events, own.device)
    total = sum(times.values())
    rows = (
        {
            "kind": kind,
            "ms an update": f"{time / 1000 / own.updates:,.1f}",
            "share": f"{time / total:.1%}",
        }
        for kind, time in times.most_common()
    )
    print(table(rows), end="\n\n")
    print(top_operators(events, own.device, own.top))


if __name__ == "__main__":
    main()
