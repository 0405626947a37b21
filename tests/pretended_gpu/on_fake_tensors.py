"""What an update and a step of search launch and copy, at full size; and the counter itself.

`test_pretended_gpu.py` runs these tests on the pretended GPU.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from pretended_gpu.counting import GPU, counting
from pretended_gpu.search_step import count_steps
from pretended_gpu.update import VOCABULARY, count_update, made_up_update
from torch import nn
from torch._subclasses.fake_tensor import DataDependentOutputException

from nmt.config.fields import Value
from nmt.config.presets import preset_values
from nmt.config.recipes import resolve_recipe
from nmt.models.flops import training_flops

FP32: dict[str, Value] = {"precision": "fp32"}


# --- an update, uncompiled


@pytest.mark.parametrize(
    ("preset", "settings", "longest", "kernels"),
    [
        ("transformer_base", {}, 190, 998),
        ("transformer_base", FP32, 190, 2_532),
        ("transformer_relative", {}, 190, 5_286),
        ("conv_seq2seq", {}, 190, 2_900),
        ("rnn_attention", {}, 20, 5_112),  # every position launches its own
    ],
)
def test_an_update_launches_so_many_kernels_and_never_waits(
    preset: str, settings: dict[str, Value], longest: int, kernels: int
) -> None:
    """If it launches fewer, lower the number here. More have to be worth it."""
    counts = count_update(preset, settings, longest)
    assert counts.total().kernels == pytest.approx(kernels, rel=0.03)
    # Each of nine tensors of the batch has a copy, and the host gets one of what became of the
    # update. The recurrent model also sends the sizes of its steps.
    assert sum(counts.copies.values()) <= (11 if preset == "rnn_attention" else 10)
    assert not counts.waits
    if preset == "transformer_base" and not settings:  # without padding
        config = resolve_recipe(preset, "transformer", [("", preset_values(preset))]).model
        lengths = made_up_update(longest).lengths
        expected = training_flops("transformer", config, VOCABULARY, lengths)
        assert counts.total().flops == pytest.approx(expected, rel=0.01)


# --- a step of search

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


# --- the counter


def test_a_product_and_what_follows_it_are_counted() -> None:
    with counting() as counts:
        x, weight = (torch.ones(shape, device=GPU).bfloat16() for shape in ((64, 32), (32, 16)))
        counts.clear()
        (x @ weight).relu_().view(16, 64).t()[3:]
        torch.empty_like(x)
        total = counts.total()
    assert (total.operations, total.kernels) == (2, 2)
    assert total.flops == 2 * 64 * 32 * 16
    product, rectified = 64 * 32 + 32 * 16 + 64 * 16, 2 * 64 * 16
    assert total.bytes == 2 * (product + rectified)


def test_a_backward_pass_is_counted_by_phase() -> None:
    with counting() as counts:
        layer = nn.Linear(32, 16, bias=False, device=GPU)
        loss = layer(torch.ones(64, 32, device=GPU)).sum()
        counts.clear()
        with counts.phase("backward", torch.autograd, "backward"):
            loss.backward()
        total = counts.total("backward")
    assert total.flops == 2 * 64 * 32 * 16  # for the weight; the input needs none
    assert counts.total("rest").kernels == 0
    assert {line for _, _, line in counts.work} == {"torch"}


def test_pinned_copies_go_on_and_others_are_waits() -> None:
    with counting() as counts:
        on_host, on_gpu = torch.ones(3), torch.ones(3, device=GPU)
        counts.clear()
        on_host.pin_memory().to(GPU, non_blocking=True)
        torch.empty(3, pin_memory=True).copy_(on_gpu, non_blocking=True)
        assert (sum(counts.copies.values()), sum(counts.waits.values())) == (2, 0)
        assert counts.total().kernels == 0
        on_host.to(GPU, non_blocking=True)
        on_host.pin_memory().to(GPU)
        on_gpu.cpu()
        torch.cuda.Event().synchronize()  # type: ignore[no-untyped-call]
        assert (sum(counts.copies.values()), sum(counts.waits.values())) == (2, 4)


def test_fake_tensors_have_no_values() -> None:
    with counting() as counts, pytest.raises(DataDependentOutputException):
        torch.ones(3, device=GPU)[0].item()
    assert sum(counts.waits.values()) == 1
    with counting():
        assert torch.ones(3, device=GPU).cpu().numpy().tolist() == [0.0, 0.0, 0.0]
    with counting(lambda tensor: np.full(tensor.shape, 7.0)):
        assert torch.ones(2, device=GPU).cpu().numpy().tolist() == [7.0, 7.0]
