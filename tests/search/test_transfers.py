"""Between two steps of a search, a GPU waits only once: for what it has found.

torch can trace a search on a device that is not there. Tensors have shapes and devices, but no
values, so reading one fails. Only `numpy` reads: it finds zeros here.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import SRC_VOCAB, TGT_VOCAB, TRANSFORMER
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from nmt.data.batches import pack_sources
from nmt.models.registry import build_model
from nmt.search.beam_search import Group, decode
from nmt.search.engine import Source
from nmt.search.options import SearchOptions

DEVICE = torch.device("meta")  # stands in for a GPU


class Transfers(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts copies from one device to another."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.counts: Counter[tuple[str, str]] = Counter()

    def __torch_dispatch__(self, func: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func is torch.ops.aten._to_copy.default and args[0].device != result.device:
            self.counts[args[0].device.type, result.device.type] += 1
        return result


@pytest.mark.parametrize("beam_size", [1, 4])
def test_a_step_takes_one_transfer_each_way(
    monkeypatch: pytest.MonkeyPatch, beam_size: int
) -> None:
    numpy = torch.Tensor.numpy

    def read(tensor: torch.Tensor) -> Any:
        if isinstance(tensor, FakeTensor):
            assert tensor.device.type == "cpu"
            return np.zeros(tensor.shape, np.dtype(str(tensor.dtype).removeprefix("torch.")))
        return numpy(tensor)

    monkeypatch.setattr(torch.Tensor, "numpy", read)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)
    options = SearchOptions(beam_size=beam_size, max_extra_tokens=3)
    sources = [Source((5, 6, 7, 8)), Source((8, 9)), Source((9,))]
    steps: list[Counter[tuple[str, str]]] = []

    def next_step() -> None:
        steps.append(counted.counts)
        counted.counts = Counter()

    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        with DEVICE:
            model = build_model("transformer", TRANSFORMER, SRC_VOCAB, TGT_VOCAB).eval()
        groups = []
        for numbers in ([0, 1], [2]):
            group = [sources[number] for number in numbers]
            packed = pack_sources([source.ids for source in group])
            groups.append(Group(numbers, group, model.begin(packed.to(DEVICE)), cost=5))
        with Transfers() as counted:
            found = dict(decode(model, iter(groups), options, on_step=next_step))
    assert found.keys() == {0, 1, 2}
    assert len(steps) == 8  # for at most four tokens more than the longest source, with eos
    # Before the first step comes nothing, and in it, a table of positions.
    assert steps[2:] == [Counter({("cpu", "meta"): 1, ("meta", "cpu"): 1})] * 6
