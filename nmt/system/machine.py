"""What this process may use of its machine: cores, threads, memory. And which nmt it is."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import math
import os
import re
from collections.abc import Iterator, MutableMapping
from importlib.metadata import version
from pathlib import Path

WAITING = {
    "OMP_WAIT_POLICY": "passive",
    "GOMP_SPINCOUNT": "20000",  # libgomp: some tenths of a millisecond
    "KMP_BLOCKTIME": "1",  # milliseconds, of the libraries of Intel and LLVM
}
"""Environment variables that tell OpenMP libraries how long waiting threads spin before they sleep.

Waking a thread takes 50 microseconds on a virtual machine, and training waits some thousand times
a second. So on an idle machine, threads that sleep at once cost up to a quarter of the speed.
"""

RAY = "ray"
"""Stands for a Ray cluster instead of a number of workers on this machine."""

_CODE = rb"(\w+)-(\w+) r-xp .*/.*\n(?:\w+:.*\n)*?Anonymous: +0 kB"
"""The mapping of a file in Linux's `smaps`, with code of which this process has changed nothing."""
_MADV_DONTNEED = 4  # of Linux's `madvise`

# Allowed on any machine, so that a script for a large one also runs on a small one.
_WORKERS_EVERYWHERE = 8


def let_waiting_threads_sleep(environment: MutableMapping[str, str] = os.environ) -> None:
    """Let OpenMP's threads sleep after a short wait, unless the user has chosen how they wait.

    By default, waiting threads spin: for some milliseconds in libgomp, which torch and CTranslate2
    use, and for 200 in the libraries of Intel and LLVM. If the thread that they wait for has lost
    its core to another process, all of them lose that time.

    The libraries read the environment when they are loaded, so call this before importing torch.
    """
    if not WAITING.keys() & environment.keys():
        environment.update(WAITING)


def let_go_of_code() -> None:
    """Let the system take back the pages of code of this process, before it only waits for others.

    To load libraries, it has read 60 MB that nobody needs. What is called again is read again. A
    page that was written to, such as by a debugger, would be lost, so its mapping stays.
    """
    import ctypes  # takes milliseconds, and few programs need it

    with contextlib.suppress(OSError, AttributeError):  # Linux with glibc has them
        smaps, madvise = Path("/proc/self/smaps").read_bytes(), ctypes.CDLL(None).madvise
        for mapping in re.findall(_CODE, smaps):
            start, end = (int(address, 16) for address in mapping)
            madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _MADV_DONTNEED)


def cores(system: Path = Path("/")) -> int:
    """Return the number of cores that this process may use, by its affinity and its cgroups' quota.

    system: the folder that holds proc and sys.
    """
    allowed = len(os.sched_getaffinity(0))
    # With a quota of one core and a half, a second thread can run half of the time.
    return max(1, min([allowed, *(math.ceil(quota) for quota in _quotas(system))]))


def default_threads(processes: int = 1) -> int:
    """Return the threads of each of some processes that share the cores: at most OMP_NUM_THREADS.

    torchrun sets it to 1 for each of several processes if the user has not set it. As we cannot
    tell who set a 1 there, it counts as not set.
    """
    cores_each = max(1, cores() // processes)
    limit = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()  # "4,2" where nested
    may_be_torchruns = limit == "1" and int(os.environ.get("LOCAL_WORLD_SIZE", "1")) > 1
    if may_be_torchruns or not limit.isdecimal() or int(limit) == 0:
        return cores_each
    return min(cores_each, int(limit))


def most_workers() -> int:
    """Return how many processes may work side by side."""
    return max(_WORKERS_EVERYWHERE, cores())


@functools.cache
def version_of_code() -> str:
    """Return nmt's version with a checksum of its sources, and torch's version, for people too.

    The processes of one job compare them. Builds of one torch are equal, such as +cpu and +cu128,
    because a job may have machines with GPUs and without.
    """
    from nmt import __version__

    package, checksum = Path(__file__).parents[1], hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        checksum.update(f"{path.relative_to(package).as_posix()}\0".encode() + path.read_bytes())
    of_torch = version("torch").partition("+")[0]  # without loading it, which takes seconds
    return f"nmt {__version__} ({checksum.hexdigest()[:12]}) with torch {of_torch}"


def _quotas(system: Path) -> Iterator[float]:
    """Yield the quotas, in cores, of this process's cgroups and of those above them."""
    mount = system / "sys/fs/cgroup"
    for line in _read(system / "proc/self/cgroup").splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0":  # version 2
            for folder in _upwards(path, mount, mount / "unified"):
                yield from _ratio(*_read(folder / "cpu.max").split())
        elif "cpu" in controllers.split(","):
            for folder in _upwards(path, mount / controllers, mount / "cpu"):
                quota = _read(folder / "cpu.cfs_quota_us")
                yield from _ratio(quota.strip(), _read(folder / "cpu.cfs_period_us").strip())


def _upwards(path: str, *mounts: Path) -> Iterator[Path]:
    """Yield a cgroup's folder and those above it; some do not exist inside a container."""
    for mount in mounts:
        folder = mount / path.strip("/")
        yield from (level for level in (folder, *folder.parents) if level.is_relative_to(mount))


def _ratio(quota: str = "", period: str = "") -> Iterator[float]:
    """Yield quota / period, if there is a quota: otherwise it is "max" or -1."""
    if quota.isdecimal() and period.isdecimal():
        yield int(quota) / int(period)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
