"""The kernel for sentences computes equation 1 in each, in Triton's interpreter.

`tests/test_gpu.py` runs it on a GPU.
"""

import json
import os
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from pairs import batch_of
from processes import run_python
from torch import Tensor

from nmt.models.kernels import packed_attention
from nmt.models.kernels.packed_attention import Sentences, attend_packed

TESTS = Path(__file__).parents[1]


@pytest.mark.skipif(find_spec("triton") is None, reason="needs the package triton")
def test_the_kernel_attends_within_sentences() -> None:
    folders = (str(TESTS.parent), str(TESTS / "support"), os.environ.get("PYTHONPATH", ""))
    environment = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(folders)}
    errors = json.loads(run_python("-m", "sentence_kernel", env=environment).stdout)
    assert len(errors) == 4
    assert max(max(of_case) for of_case in errors.values()) < 1e-5, errors


@pytest.mark.parametrize(
    ("tokens", "longest", "width", "uses"),
    [
        (1000, 64, 128, True),
        (1000, 1024, 128, False),  # few sentences are that long
        (100, 64, 128, False),  # Python takes longer than a GPU
        (1000, 64, 8, False),  # of a head: Triton multiplies 16 or more
    ],
)
def test_large_batches_of_sentences_use_the_kernel(
    monkeypatch: pytest.MonkeyPatch, tokens: int, longest: int, width: int, uses: bool
) -> None:
    asked: list[int] = []

    def attend(xs: list[Tensor], own: Tensor, others: Tensor, *, after: int) -> Tensor:
        assert own is packed.starts and others is packed.starts
        asked.append(after)
        return xs[0].new_empty(len(xs[0]), *xs[0].shape[2:])

    monkeypatch.setattr(packed_attention._kernels, "attend_sentences", attend)
    meta = torch.device("meta")  # has shapes, and no values
    packed = replace(batch_of([[5] * (tokens - 1)], [[6]]).src.to(meta), longest=longest)
    sentences = Sentences.of(packed, 66, as_packed=True)
    qkv = torch.empty(tokens, 3, 66, width, device=meta)
    assert attend_packed([qkv], sentences, sentences, causal=True).shape == (tokens, 66, width)
    assert asked == ([0] if uses else [])
