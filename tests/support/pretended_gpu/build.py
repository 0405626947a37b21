"""Builds the pretended GPU (`device.cpp`), once for each torch, and puts it into processes."""

import ctypes
import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

_HERE = Path(__file__).parent
_SOURCE = _HERE / "device.cpp"
_BUILT = _HERE / "built"


class NotHere(Exception):
    """Says why this machine cannot have a pretended GPU."""


def environment() -> dict[str, str]:
    """Return the environment in which Python and its children have a pretended GPU.

    NotHere if there is no C++ compiler, or torch is no CPU build for Linux.
    """
    build()
    paths = [str(_HERE / "site"), str(_HERE.parent), os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}


def load() -> ctypes.CDLL:
    """Load the library into this process; torch must not be imported yet.

    NotHere as from `environment`.
    """
    assert "torch" not in sys.modules, "load the pretended GPU before torch"
    library = build()
    for needed in ("libc10.so", "libtorch_cpu.so"):
        ctypes.CDLL(str(_folder_of_torch() / "lib" / needed), ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)


def build() -> Path:
    """Return the library, which is built unless it is there.

    NotHere as from `environment`.
    """
    torch = _folder_of_torch()
    source = _SOURCE.read_bytes() + (torch / "version.py").read_bytes()
    library = _BUILT / f"device-{hashlib.sha256(source).hexdigest()[:16]}.so"
    if library.exists():
        return library
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        raise NotHere("needs a C++ compiler, such as g++")
    _BUILT.mkdir(exist_ok=True)
    with (_BUILT / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another process may be building it
        if not library.exists():
            _compile(compiler, torch, library)
    return library


def _folder_of_torch() -> Path:
    found = importlib.util.find_spec("torch")
    assert found is not None and found.origin is not None
    folder = Path(found.origin).parent
    if not (folder / "lib/libtorch_cpu.so").exists():
        raise NotHere("needs Linux")
    if (folder / "lib/libtorch_cuda.so").exists():
        raise NotHere("needs torch's CPU build")
    return folder


def _compile(compiler: str, torch: Path, library: Path) -> None:
    unfinished = library.with_suffix(".partial")
    includes = (torch / "include", torch / "include/torch/csrc/api/include")
    command = [compiler, "-O0", "-shared", "-fPIC", "-std=c++20", "-w", str(_SOURCE)]
    command += [f"-isystem{folder}" for folder in includes]
    command += [f"-L{torch / 'lib'}", "-ltorch_cpu", "-lc10", "-o", str(unfinished)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")
    unfinished.rename(library)
