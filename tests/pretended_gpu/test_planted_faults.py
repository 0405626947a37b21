"""Faults of GPU code that are planted into a copy: the GPU tests must fail, and say why."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from pretended_gpu.build import NotHere, environment

ROOT = Path(__file__).parents[2]


class Fault(NamedTuple):
    """A change of one file of `nmt`, and how it shows."""

    file: str
    right: str  # what stands there, once
    wrong: str
    test: str  # of tests/test_gpu.py, that finds it
    error: str  # a pattern of its message


FAULTS = {
    "a hidden wait": Fault(
        "training/optimizer.py",
        "bad = (~norm.isfinite()).float()",
        "bad = torch.tensor(float(not norm.isfinite()), device=norm.device)",
        "test_nothing_waits_for_the_gpu_inside_an_update",
        "called a synchronizing CUDA operation: item",
    ),
    "read before the event": Fault(
        "training/update.py",
        "self.written.synchronize()",
        "pass",
        "test_nothing_waits_for_the_gpu_inside_an_update",
        "StopIteration",  # junk reads as a request to stop, which nobody made
    ),
    "the event before the copy": Fault(
        "training/update.py",
        "            flags = torch.empty(5, pin_memory=True).copy_(flags, non_blocking=True)\n"
        "            written = torch.cuda.Event()  # type: ignore[no-untyped-call]\n"
        "            written.record()\n",
        "            written = torch.cuda.Event()\n"
        "            written.record()\n"
        "            flags = torch.empty(5, pin_memory=True).copy_(flags, non_blocking=True)\n",
        "test_nothing_waits_for_the_gpu_inside_an_update",
        "StopIteration",
    ),
    "a tensor on the wrong device": Fault(
        "training/update.py",
        "flags = torch.zeros(4, device=self.device)",
        "flags = torch.zeros(4)",
        "test_a_run_takes_the_course_of_the_cpu",
        "Expected all tensors to be on the same device",
    ),
    "a table on the wrong device": Fault(
        "models/positions.py",
        "self._table = table = rows.to(places.device)",
        "self._table = table = rows",
        "test_states_are_those_of_the_cpu",
        "Expected all tensors to be on the same device",
    ),
    "a copy from memory that is not pinned": Fault(
        "data/batches.py",
        "tensor = tensor.pin_memory()",
        "pass",
        "test_nothing_waits_for_the_gpu_inside_an_update",
        "called a synchronizing CUDA operation: copy of memory that is not pinned",
    ),
    "pinned memory used again too early": Fault(
        "models/device.py",
        "joined = joined.pin_memory()",
        "buffers = vars(to_device)\n"
        "        new = torch.empty(4096, dtype=joined.dtype, pin_memory=True)\n"
        "        buffer = buffers.setdefault(str(joined.dtype), new)\n"
        "        joined = buffer[: len(joined)].copy_(joined)",
        "test_translations_are_those_of_the_cpu",
        "pinned memory was changed before the copy from it to the GPU was done",
    ),
    "memory that nobody filled": Fault(
        "training/update.py",
        "sums = torch.zeros(3 if self.config.guided_alignment else 2, device=self.device)",
        "sums = torch.empty(3 if self.config.guided_alignment else 2, device=self.device)",
        "test_training_learns",
        "NaN is no JSON",
    ),
    "a wrong branch for GPUs": Fault(
        "models/kernels/packed_attention.py",
        "window_size_right=0 if causal else before",
        "window_size_right=before",
        "test_flash_attention_equals_padded_attention",
        "AssertionError",
    ),
    "a kernel called with the wrong type": Fault(
        "data/batches.py",
        "starts=torch.from_numpy(starts.astype(np.int32))",
        "starts=torch.from_numpy(starts)",
        "test_flash_attention_reads_the_source_of_each_target",
        "AssertionError: torch.int64",
    ),
    "weights twice on the GPU": Fault(
        "training/flat_weights.py",
        "        self.gradient = whole.new_zeros(self.trained_count, device=device)\n",
        "        self.gradient = whole.new_zeros(self.trained_count, device=device)\n"
        "        self.spare = self.gradient.clone()\n",
        "test_the_first_weights_are_on_the_gpu_once",
        "assert",
    ),
    "an unknown error of missing memory": Fault(
        "errors.py",
        '"out of memory", "CUDA calloc"',
        '"CUDA calloc"',
        "test_what_fits_is_found_by_trying",
        "OutOfMemoryError",
    ),
    "batches made for a CPU": Fault(
        "training/trainer.py",
        'on_gpu=self.device.type == "cuda"',
        "on_gpu=False",
        "test_padded_sentences_are_in_groups_for_a_gpu",
        "assert",
    ),
    "a saver that does not wait": Fault(
        "training/saving.py",
        "torch.cuda.current_stream().synchronize()",
        "pass",
        "test_a_run_takes_the_course_of_the_cpu",
        r"1\.3058e\+36",  # what a copy holds that is under way
    ),
}
EVERY_DAY = "a hidden wait"


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_what_is_replaced_still_stands_there_once(fault: Fault) -> None:
    assert (ROOT / "nmt" / fault.file).read_text().count(fault.right) == 1


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name == EVERY_DAY else (pytest.mark.slow,)) for name in FAULTS],
)
def test_it_is_found(name: str, tmp_path: Path) -> None:
    fault = FAULTS[name]
    try:
        has_device = environment()
    except NotHere as why:
        pytest.skip(str(why))
    for part in ("nmt", "tests"):
        without = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / part, tmp_path / part, ignore=without)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    path = tmp_path / "nmt" / fault.file
    path.write_text(path.read_text().replace(fault.right, fault.wrong))
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--tb=short", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "--basetemp", str(tmp_path / "t"), "tests/test_gpu.py", "-k", fault.test],
        cwd=tmp_path,
        env=has_device | {"PYTHONPATH": f"{tmp_path}:{has_device['PYTHONPATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(fault.error, done.stdout), done.stdout
