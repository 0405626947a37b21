"""`make gpu`: tests and measures a GPU in parts, and prints one report with the goals.

    make gpu PYTHON=python3 [PART=smoke|tests|train|translate] [GPU_OUT=FOLDER]

It is for a machine that you have for half an hour, and that may be gone any minute. So the parts
run in the order of their worth. Each is a process of its own, which is killed after 2 to 8 minutes.
Nothing is installed, and the checkout is run as it is.
In GPU_OUT, report.md is written again after each result, PART.log holds all that a part has
printed, and the traces of an update are for chrome://tracing. Data and runs are in NMT_BENCH_WORK,
so that parts which you run one by one share them.

A rehearsal (`REHEARSE=1`) does the same with tiny shapes on the pretended GPU of
`tests/support/pretended_gpu`, in a minute or two.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import torch
from benchmarks.gpu_parts import ROOT, smoke, tests, train, translate, versions
from benchmarks.gpu_report import GOALS, Report
from benchmarks.gpu_scale import GPU, REHEARSAL, Context
from benchmarks.harness import process_tree, work_folder
from pretended_gpu.build import NotHere, environment

SECONDS = {"smoke": 120, "train": 480}  # of which smoke takes half, if compiling is not slow
USUAL_SECONDS = 300
"""When a part is killed."""

_FUNCTIONS = (smoke, tests, train, translate)
PARTS: dict[str, Callable[[Context], None]] = {one.__name__: one for one in _FUNCTIONS}
assert list(PARTS) == list(GOALS)


def run_limited(words: Sequence[str], log: Path, seconds: float) -> str:
    """Run a process, and all that it starts, for so long at most; return how it ended."""
    with log.open("w", encoding="utf-8") as file:
        process = subprocess.Popen(
            words,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=part_environment(),
        )
        try:
            return f"exit status {process.wait(seconds)}"
        except subprocess.TimeoutExpired:
            return "killed"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGSTOP)  # so that it starts nothing any more
            for one in process_tree(process.pid):  # torchrun's ranks are in groups of their own
                with suppress(ProcessLookupError):
                    os.kill(one, signal.SIGKILL)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # those whose parent has ended
            process.wait()


def part_environment() -> dict[str, str]:
    """Return the environment of a part: what was compiled is kept for later parts."""
    path = [
        str(ROOT),
        str(ROOT / "tests"),
        str(ROOT / "tests/support"),
        os.environ.get("PYTHONPATH", ""),
    ]
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
    parser.add_argument("--rehearse", action="store_true", help="tiny shapes on a pretended GPU")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)  # in this process
    given = parser.parse_args()
    if unknown := [part for part in given.parts if part not in PARTS]:
        parser.error(f"unknown part {unknown[0]!r}; parts are {', '.join(PARTS)}")
    if not torch.cuda.is_available():
        if not given.rehearse:
            parser.error(f"no GPU found: {'; '.join(versions())}. make gpu REHEARSE=1 needs none")
        try:
            with_gpu = environment()
        except NotHere as why:
            parser.error(f"a rehearsal needs a GPU or a pretended one, but {why}")
        os.execve(sys.executable, [sys.executable, "-m", "benchmarks.gpu", *sys.argv[1:]], with_gpu)
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
        log, began = report.folder / f"{part}.log", time.monotonic()
        print(f"{part}: see {log}", flush=True)
        words = [sys.executable, "-m", "benchmarks.gpu", part, "--out", str(report.folder)]
        words += ["--here", *["--rehearse"] * given.rehearse]
        ending = run_limited(words, log, SECONDS.get(part, USUAL_SECONDS))
        ending += f" after {time.monotonic() - began:.0f} s, see {part}.log"
        Report(report.folder).add(part, ending)  # to what the part has found
    print((report.folder / "report.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
