"""A step of search at full size stays below a number of kernels, and reads only its result."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pretended_gpu.build import NotHere, environment

TESTS = Path(__file__).parents[1]

CEILINGS = {
    "transformer_base": (120, 124),
    "transformer_relative": (147, 151),
    "conv_seq2seq": (240, 244),
    "rnn_attention": (70, 76),
    "transformer_base+transformer_base": (224, 232),
}
"""Kernels of a step in which hypotheses change their rows, and of one after a sentence left."""


@pytest.fixture(scope="module")
def counted() -> dict[str, Any]:
    try:
        has_device = environment()
    except NotHere as why:
        pytest.skip(str(why))
    done = subprocess.run(
        [sys.executable, "-m", "pretended_gpu.search_step", *CEILINGS],
        env=has_device | {"OMP_NUM_THREADS": "1"},
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("presets", CEILINGS)
def test_a_step_has_few_kernels(counted: dict[str, Any], presets: str) -> None:
    steps = counted[presets]
    for name, ceiling in zip(("moved", "left"), CEILINGS[presets], strict=True):
        assert steps[name]["kernels"] <= ceiling, json.dumps(steps[name]["lines"], indent=1)


@pytest.mark.parametrize("presets", CEILINGS)
def test_a_step_takes_one_transfer_for_each_member_and_waits_once(
    counted: dict[str, Any], presets: str
) -> None:
    for step in counted[presets].values():
        assert sum(step["copies"].values()) == len(presets.split("+")), step["copies"]
        (wait,) = step["waits"].items()
        assert wait[0].startswith("copy to the host, search/top_k.py") and wait[1] == 1, wait
