"""The products of oneDNN are those of torch, and the faster library is chosen by measurement."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from nmt.models import linear as linear_module
from nmt.models.linear import fastest_library, linear, matmul, use_library

needs_onednn = pytest.mark.skipif(
    not hasattr(torch.ops.mkldnn, "_linear_pointwise"), reason="this torch is without oneDNN"
)


@pytest.fixture(autouse=True)
def _torch_afterwards() -> Iterator[None]:
    yield
    use_library("torch")


def gradients(x: Tensor, *parameters: Tensor) -> list[Tensor]:
    leaves = [leaf.clone().requires_grad_() for leaf in (x, *parameters)]
    output = linear(*leaves)
    weight = torch.linspace(-1, 1, output.numel()).view_as(output)
    torch.autograd.backward((output * weight).sum())
    return [output.detach(), *(leaf.grad for leaf in leaves if leaf.grad is not None)]


@needs_onednn
@pytest.mark.parametrize("shape", [(5,), (7, 5), (2, 3, 5)])
@pytest.mark.parametrize("with_bias", [False, True])
def test_a_linear_layer_and_its_gradients_are_those_of_torch(
    shape: tuple[int, ...], with_bias: bool
) -> None:
    random = torch.Generator().manual_seed(1)
    x, weight = (torch.randn(size, generator=random) for size in (shape, (4, 5)))
    bias = [torch.randn(4, generator=random)] if with_bias else []
    expected = gradients(x, weight, *bias)
    torch.testing.assert_close(expected[0], F.linear(x, weight, *bias))
    use_library("onednn")
    found = gradients(x, weight, *bias)
    assert len(found) == len(expected) == 3 + with_bias
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


@needs_onednn
@pytest.mark.parametrize("transposed", [False, True])
def test_products_of_any_layout_are_those_of_torch(transposed: bool) -> None:
    use_library("onednn")
    a, b = torch.randn(6, 5), torch.randn(7, 5).T if transposed else torch.randn(5, 7)
    torch.testing.assert_close(matmul(a, b), a @ b)
    c = torch.randn(6, 7)
    torch.testing.assert_close(matmul(a.T, c), a.T @ c)


def test_types_that_the_choice_is_not_for_go_torch_s_way() -> None:
    use_library("onednn")
    x, weight = torch.randn(6, 5).bfloat16(), torch.randn(4, 5).bfloat16()
    assert torch.equal(linear(x, weight), F.linear(x, weight))


@pytest.mark.parametrize("faster", ["torch", "onednn"])
def test_the_faster_library_is_chosen(monkeypatch: pytest.MonkeyPatch, faster: str) -> None:
    timed = {"torch": 2.0, "onednn": 2.0} | {faster: 1.0}
    monkeypatch.setattr(
        linear_module, "_shortest", lambda work: timed[work.__name__.removeprefix("by_")]
    )
    assert fastest_library(64) == faster


@pytest.mark.parametrize("fault", ["missing", "wrong"])
def test_an_operator_that_is_missing_or_wrong_is_not_used(
    monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    def operator(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        if fault == "missing":
            raise AttributeError("no such operator")
        return F.linear(x, weight, bias) + 1

    monkeypatch.setattr(linear_module, "onednn_product", operator)
    monkeypatch.setattr(linear_module, "_shortest", lambda work: float("torch" in work.__name__))
    assert fastest_library(64) == "torch"


def test_a_compiler_takes_a_linear_layer_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear_module._choice, "any_packed", False)  # as where models are trained
    x, weight = torch.randn(6, 5), torch.nn.Parameter(torch.randn(4, 5))
    compiled = torch.compile(linear, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(x, weight), F.linear(x, weight))
