"""The smoke test of `make gpu`: does anything work on this GPU? It takes about a minute.

A tiny model is trained, saved, resumed and translated with, beside the CPU.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sysconfig
import time
from importlib import metadata
from pathlib import Path

import torch
from benchmarks.gpu_scale import Context, no_compiler
from gpus import HALF
from torch.distributed import is_nccl_available
from toy_training import metrics, prepare_toy, train

from nmt.translate.translator import Translator
from nmt.values import Value

TINY: dict[str, Value] = {
    "d_model": 64,
    "num_heads": 4,
    "dropout": 0.0,
    "micro_batch_tokens": 0,
    "log_every": 1,
    "compile": "false",
}
UPDATES = 4
LINES = ["one two three", "seven nine ten four"]


def smoke(context: Context) -> None:
    """Try each thing once. Compiling comes last, because it may take long."""
    report, folder = context.report, context.new_folder("smoke")
    report.add("versions", "; ".join(versions()))
    data = prepare_toy(folder)
    on_cpu = losses_of(train(data, folder / "cpu", **TINY, max_updates=UPDATES))
    on_gpu = TINY | {"device": "cuda", "precision": HALF}

    def compare(
        what: str, found: float, wanted: float, more: str, *, as_planned: bool = True
    ) -> None:
        met = as_planned and abs(found / wanted - 1) <= 0.01
        report.add(what, f"loss {found:.4f} and {wanted:.4f}, {more}", met=met)

    def update(what: str, **values: Value) -> None:
        began = time.monotonic()
        run = train(data, folder / what, **on_gpu | values, max_updates=1)
        compare(what, losses_of(run)[0], on_cpu[0], f"{time.monotonic() - began:.0f} s")

    with report.attempt("eager update"):
        update("eager update")
    with report.attempt("save and resume"):
        whole = train(data, folder / "whole", **on_gpu, max_updates=UPDATES)
        for updates in (UPDATES // 2, UPDATES):
            parts = train(data, folder / "parts", **on_gpu, max_updates=updates)
        starts = [record["update"] for record in metrics(parts, "start")]
        begun = f"begun after updates {' and '.join(map(str, starts))}"
        found, wanted = (losses_of(run)[-1] for run in (parts, whole))
        as_planned = starts == [0, UPDATES // 2]
        compare("save and resume", found, wanted, begun, as_planned=as_planned)
    with report.attempt("translation"):
        wanted_texts, texts = (
            [
                one.text
                for one in Translator.load(
                    folder / "cpu", device=device, precision="fp32"
                ).translate(LINES)
            ]
            for device in ("cpu", "cuda")
        )
        is_same = texts == wanted_texts
        report.add("translation", f"{texts}, {wanted_texts}"[:200], met=is_same)
    with report.attempt("compiled update"):
        if problem := no_compiler():
            report.add("compiled update", problem, met=False)
        else:
            update("compiled update", compile="true")


def losses_of(run: Path) -> list[float]:
    """Return the loss of each update of a run."""
    return [record["loss"] for record in metrics(run, "train")]


def versions() -> list[str]:
    """Name all software and hardware that a GPU needs, and say what is missing."""
    nccl = torch.cuda.nccl.version() if is_nccl_available() else ()  # type: ignore[no-untyped-call]
    cudnn = torch.backends.cudnn.version()  # type: ignore[no-untyped-call]
    header = Path(sysconfig.get_path("include")) / "Python.h"
    gpus = [torch.cuda.get_device_properties(n) for n in range(torch.cuda.device_count())]
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
        f"Triton {_version_of('triton')}",
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


def _version_of(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "missing"
