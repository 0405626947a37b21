"""The smoke test of `make gpu`: does anything work on this GPU? It takes about a minute."""

from __future__ import annotations

import os
import platform
import subprocess
import sysconfig
from importlib import metadata
from pathlib import Path

import torch
from benchmarks.gpu_parts import run_tests
from benchmarks.gpu_scale import Context
from torch.distributed import is_nccl_available


def smoke(context: Context) -> None:
    """Name what is there, and run a few of the tests that need a GPU."""
    context.report.add("versions", "; ".join(versions()))
    run_tests(context, "smoke tests", context.scale.smoke_tests)


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
