"""Products with packed weights by instruction set: which kernel is chosen, and how fast it is.

A weight of the base model, (2048, 512), by one thread; 4 rows are a step for one line, 256 for a
batch. oneDNN and torch are limited to an instruction set, MKL is not. Sets that the machine does
not have are left out.
"""

from __future__ import annotations

import json
import sys

import pytest
from benchmarks.harness import publish, run, table
from benchmarks.machine import INSTRUCTION_SETS, describe, limited_to

pytestmark = pytest.mark.benchmark

WORK = """
import json, time
import torch
from nmt.models.kernels.packed_weights import KERNELS, choose

torch.set_num_threads(1)
weight, report = torch.randn(2048, 512), []
for precision in KERNELS:
    kernel = choose([(2048, 512)], precision).kernel
    product, rates = KERNELS[precision][kernel](weight), []
    for rows in (4, 256):
        x, seconds = torch.randn(rows, 512), []
        with torch.inference_mode():
            for _ in range(30):
                began = time.thread_time()
                product(x, None)
                seconds.append(time.thread_time() - began)
        rates.append(2e-9 * rows * weight.numel() / min(seconds))
    report.append((precision, kernel, rates))
print(json.dumps(report))
"""


def test_products_by_instruction_set() -> None:
    rows, left_out = [], []
    for name in INSTRUCTION_SETS:
        environment = limited_to(name)
        if environment is None:
            left_out.append(name)
            continue
        report = json.loads(run([sys.executable, "-W", "ignore", "-c", WORK], environment).stdout)
        _, _, (few, many) = report[0]  # in fp32
        for precision, kernel, (step, batch) in report:
            rows.append(
                {
                    "instruction set": name,
                    "precision": precision,
                    "kernel": kernel,
                    "4 rows, GFLOP/s": f"{step:,.0f} ({step / few:.2f}x)",
                    "256 rows, GFLOP/s": f"{batch:,.0f} ({batch / many:.2f}x)",
                }
            )
    note = f"\n\nNot on this CPU: {', '.join(left_out)}." if left_out else ""
    publish(f"{describe()}\n\n{table(rows)}{note}")
