"""Memory of search and validation on a CPU: freed memory goes back, and products in bf16 have few
shapes, as oneDNN keeps each of them."""

from random import Random
from typing import Any

import pytest
import torch
from calls import calls_of
from tiny_models import SRC_VOCAB, TGT_VOCAB, TINY, tiny
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from nmt.data.batches import collate
from nmt.data.shards import TokenRows
from nmt.models.packed_weights import is_usable, pack
from nmt.search import torch_engine
from nmt.search.engine import Source
from nmt.search.options import SearchOptions
from nmt.search.torch_engine import TorchEngine
from nmt.training.loss import losses_of

_SIZES = {16, *(size << n for n in range(9) for size in (32, 48))}  # of rows
_PRODUCTS = {"matmul", "mm", "addmm", "bmm", "baddbmm", "linear", "_linear_pointwise"}


class Shapes(TorchDispatchMode):
    """Notes the rows of products in bf16."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.rows: set[int] = set()

    def __torch_dispatch__(
        self, func: Any, types: object, args: Any = (), kwargs: Any = None
    ) -> Any:
        name = func.overloadpacket.__name__
        matrices = [x for x in args if isinstance(x, Tensor) and x.dim() > 1]
        if name in _PRODUCTS and matrices[0].dtype == torch.bfloat16:
            assert matrices[0].dim() == 2, f"{name} of a batch of matrices"
            self.rows.add(len(matrices[0]))
        return func(*args, **(kwargs or {}))


def _sources() -> list[Source]:
    random = Random(1)
    lengths = [random.randint(1, 30) for _ in range(60)]
    return [Source(tuple(random.choices(range(4, SRC_VOCAB), k=n))) for n in lengths]


@pytest.mark.parametrize("kind", TINY)
def test_a_search_in_bf16_has_few_numbers_of_rows(kind: str) -> None:
    options = SearchOptions(max_extra_tokens=5, no_guard=True)
    engine = TorchEngine(
        tiny(kind).bfloat16(), options, device=torch.device("cpu"), batch_tokens=700
    )
    with Shapes() as shapes:
        found = engine.search(_sources())
    assert len(found) == 60
    assert 2 < len(shapes.rows) <= len(_SIZES)
    assert shapes.rows <= _SIZES


@pytest.mark.parametrize("kernel", ["onednn-bf16", "onednn"])
def test_packed_weights_are_multiplied_by_few_numbers_of_rows(kernel: str) -> None:
    if not is_usable(kernel, "bf16"):
        pytest.skip(f"this CPU has no {kernel}")
    model = tiny("transformer").float()
    pack(model, "bf16", kernel)
    engine = TorchEngine(model, SearchOptions(max_extra_tokens=5), device=torch.device("cpu"))
    with pytest.MonkeyPatch.context() as patch:
        calls = calls_of(patch, torch.ops.mkldnn, "_linear_pointwise")
        engine.search(_sources())
    rows = {len(x) for x, *_ in calls}
    assert len(rows) > 2
    assert rows <= _SIZES


@pytest.mark.parametrize("wanted", [True, False])
def test_the_loss_of_a_padded_batch_has_its_rows_and_not_those_of_its_targets(wanted: bool) -> None:
    random = Random(1)
    lengths = [random.randint(5, 40) for _ in range(50)]
    src, tgt = (
        TokenRows.from_lists([random.choices(range(4, types), k=n) for n in lengths], token_bytes=2)
        for types in (SRC_VOCAB, TGT_VOCAB)
    )
    batch = collate(src, tgt, in_multiples=True)
    model = tiny("transformer").bfloat16()
    with torch.inference_mode(not wanted), Shapes() as shapes:
        losses = losses_of(model, batch, 0.1)
    assert batch.num_tokens % 128
    assert len(batch.tgt_in.tokens) % 128 == 0
    assert len(batch.tgt_in.tokens) in shapes.rows
    assert batch.num_tokens not in shapes.rows
    plain = losses_of(model, collate(src, tgt), 0.1)
    torch.testing.assert_close(losses, plain, rtol=0.01, atol=0.1)


def test_a_cpu_returns_freed_memory_at_every_fourth_step_of_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    events: list[str] = []
    monkeypatch.setattr(torch_engine, "return_freed_memory", lambda: events.append("trim"))
    options = SearchOptions(max_extra_tokens=20, no_guard=True)
    engine = TorchEngine(tiny("transformer"), options, device=torch.device("cpu"))
    engine.search([Source((4, 5))], on_step=lambda: events.append("step"))
    assert "".join(event[0] for event in events).startswith("sssstsssstss")
