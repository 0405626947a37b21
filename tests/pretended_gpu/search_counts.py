"""A step of search at full size stays below a number of kernels, and reads only its result.

`test_pretended_gpu.py` runs these tests on the pretended GPU.
"""

from __future__ import annotations

import json

import pytest
from pretended_gpu.search_step import count_steps

CEILINGS = {
    "transformer_base": (120, 124),
    "transformer_relative": (147, 151),
    "conv_seq2seq": (240, 244),
    "rnn_attention": (70, 76),
    "transformer_base+transformer_base": (224, 232),
}
"""Kernels of a step in which hypotheses change their rows, and of one after a sentence left."""


@pytest.mark.parametrize("presets", CEILINGS)
def test_a_step_has_few_kernels_one_transfer_for_each_member_and_one_wait(presets: str) -> None:
    members = presets.split("+")
    steps = count_steps(members)
    for name, ceiling in zip(("moved", "left"), CEILINGS[presets], strict=True):
        step = steps[name]
        assert step["kernels"] <= ceiling, json.dumps(step["lines"], indent=1)
        assert sum(step["copies"].values()) == len(members), step["copies"]
        (wait,) = step["waits"].items()
        assert wait[0].startswith("copy to the host, search/top_k.py") and wait[1] == 1, wait
