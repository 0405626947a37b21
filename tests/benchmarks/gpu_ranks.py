"""Two ranks on two GPUs: one is killed, then all are stopped, then they train to the end.

A rehearsal has two processes on a CPU, which send by gloo instead of NCCL.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import torch
from benchmarks.gpu_parts import start_training, train_for
from benchmarks.gpu_scale import Context
from benchmarks.harness import parents
from toy_training import metrics, nmt_command, status

RANKS = 2
END_SECONDS = 60  # until all have ended after one was killed
SAVE_SECONDS = 30  # which torchrun gives them


def ranks(context: Context) -> None:
    """Train the base model on two GPUs, with a `kill -9` of one rank and a SIGTERM to torchrun."""
    scale, report = context.scale, context.report
    if not scale.is_rehearsal and torch.cuda.device_count() < RANKS:
        report.add("two ranks", f"needs {RANKS} GPUs; this machine has {torch.cuda.device_count()}")
        return
    out = context.new_folder("ranks")
    with report.attempt("two ranks"):
        process = start(context, out)
        train_for(scale.train_seconds, process, out, scale.log_every)
        speed = metrics(out, "train")[-1]["tokens_per_second"]
        report.add("two ranks", f"{speed:,.0f} tokens/s")
    with report.attempt("kill -9 of a rank"):
        os.kill(rank_processes(process.pid)[-1], signal.SIGKILL)
        returned, seconds, said = ended(process, out)
        report.add(
            "kill -9 of a rank",
            f"torchrun ended with status {returned} after {seconds:.1f} s; {said}",
            met=seconds <= END_SECONDS and said.startswith("failed"),
        )
    with report.attempt("SIGTERM to two ranks"):
        process = start(context, out)
        train_for(scale.train_seconds / 2, process, out, metrics(out, "train")[-1]["update"])
        process.send_signal(signal.SIGTERM)
        returned, seconds, said = ended(process, out)
        starts = " and ".join(f"{record['update']:,}" for record in metrics(out, "start"))
        report.add(
            "SIGTERM to two ranks",
            f"ended after {seconds:.1f} s; {said}; begun after updates {starts}",
            met=seconds <= SAVE_SECONDS and said.startswith("stopped"),
        )
    with report.attempt("two ranks to the end"):
        last = status(out)["update"] + scale.last_updates
        returned, _, said = ended(start(context, out, last), out, 5 * END_SECONDS)
        losses = [one["nll"] for one in metrics(out, "train")]
        report.add(
            "two ranks to the end",
            f"{said} after {last:,} updates, nll {losses[0]:.2f} to {losses[-1]:.2f}",
            met=returned == 0 and losses[-1] < losses[0],
        )


def start(context: Context, out: Path, max_updates: int = 10**6) -> subprocess.Popen[bytes]:
    """Start or resume the training under torchrun."""
    program, device = nmt_command(ranks=RANKS), "cuda"
    if context.scale.is_rehearsal:  # without the pretended GPU, which has no NCCL
        path = os.environ["PYTHONPATH"].split(os.pathsep)
        others = (one for one in path if Path(one).name != "site")
        program, device = ["env", f"PYTHONPATH={os.pathsep.join(others)}", *program], "cpu"
    return start_training(context, out, max_updates, program=program, device=device)


def ended(
    process: subprocess.Popen[bytes], out: Path, patience: float = 2 * END_SECONDS
) -> tuple[int, float, str]:
    """Wait for torchrun; return its exit status, the seconds it took, and the run's own status."""
    began = time.monotonic()
    returned = process.wait(patience)
    seconds = time.monotonic() - began
    found = status(out)
    return returned, seconds, f"{found['status']}: {found['reason']}"[:200]


def rank_processes(torchrun: int) -> list[int]:
    """Return the processes that torchrun has started for ranks."""
    children = sorted(child for child, parent in parents().items() if parent == torchrun)
    return [one for one in children if b"train" in Path(f"/proc/{one}/cmdline").read_bytes()]
