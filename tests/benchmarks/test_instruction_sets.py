"""Products with packed weights by instruction set: which kernel is chosen, and how fast it is.

A weight of the base model, (2048, 512), by one thread; 4 rows are a step for one line, 256 for a
batch. oneDNN and torch are limited to an instruction set, FBGEMM and MKL are not. Sets that the
machine does not have are left out.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from benchmarks.machine import INSTRUCTION_SETS, describe, limited_to
from benchmarks.report import publish, table

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
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", WORK],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        report = json.loads(done.stdout)
        fp32 = report[0][2]
        for precision, kernel, rates in report:
            cells = [
                f"{rate:,.0f} ({rate / of:.2f}x)" for rate, of in zip(rates, fp32, strict=True)
            ]
            rows.append([name, precision, kernel, *cells])
    header = ["instruction set", "precision", "kernel", "4 rows, GFLOP/s", "256 rows, GFLOP/s"]
    note = f"\n\nNot on this CPU: {', '.join(left_out)}." if left_out else ""
    publish(f"{describe()}\n\n{table(header, rows)}{note}")
