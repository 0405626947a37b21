"""Memory that tensors free on a CPU is kept; segments of GPU memory grow."""

import platform
import subprocess

import pytest
from warm_python import warm_python

from nmt.system.program import let_gpu_memory_grow

PROGRAM = """
import resource, sys, torch
from nmt.models.device import keep_freed_memory
if sys.argv[1] == "kept":
    keep_freed_memory()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def use():
    return float(torch.ones(16 << 20).sum())  # 64 MB, written
for _ in range(20):  # until there is enough
    use()
before = faults()
for _ in range(10):
    use()
print(faults() - before)
"""


HOLES = """
from nmt.models.device import keep_freed_memory, return_freed_memory
import torch
keep_freed_memory()
def resident():  # in pages
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1])
before = resident()
tensors = [torch.ones(size) for _ in range(100) for size in (1 << 18, 1 << 8)]  # 1 MB, 1 kB
between = tensors[1::2]
del tensors
with_holes = resident()
return_freed_memory()
print((resident() - before) / (with_holes - before))
"""
glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")


def number(program: str, *words: str) -> float:
    command = [warm_python(), "-c", program, *words]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@glibc
def test_tensors_that_come_and_go_cause_no_page_faults() -> None:
    # 64 MB are 16,384 pages of 4 kB, or 32 of 2 MB.
    assert number(PROGRAM, "kept") < 32
    assert number(PROGRAM, "left") >= 10 * 32


@glibc
def test_memory_between_what_is_in_use_is_returned() -> None:
    assert number(HOLES) < 0.5  # 0.02 to 0.2 by the version of glibc, and 1 if nothing is returned


def test_gpu_memory_grows_unless_the_user_says_otherwise() -> None:
    environment: dict[str, str] = {}
    let_gpu_memory_grow(environment)
    assert environment == {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}
    for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):
        given = {name: "max_split_size_mb:512"}
        environment = dict(given)
        let_gpu_memory_grow(environment)
        assert environment == given
