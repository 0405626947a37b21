"""The products of oneDNN are those of torch."""

from collections.abc import Callable, Iterator

import pytest
import torch
from calls import calls_of
from torch import Tensor
from torch.nn import functional as F

from nmt.models.kernels import linear as linear_module
from nmt.models.kernels.linear import has_onednn, linear, linear_relu, use_library

needs_onednn = pytest.mark.skipif(
    not hasattr(torch.ops.mkldnn, "_linear_pointwise"), reason="needs a torch with oneDNN"
)


@pytest.fixture(autouse=True)
def _torch_afterwards() -> Iterator[None]:
    yield
    use_library("torch")


def gradients(*values: Tensor, layer: Callable[..., Tensor] = linear) -> list[Tensor]:
    """The output of a layer and the gradients of its input, weight and bias."""
    leaves = [value.clone().requires_grad_() for value in values]
    output = layer(*leaves)
    weight = torch.linspace(-1, 1, output.numel()).view_as(output).to(output.dtype)
    torch.autograd.backward((output * weight).sum())
    return [output.detach(), *(leaf.grad for leaf in leaves if leaf.grad is not None)]


@needs_onednn
@pytest.mark.parametrize("shape", [(5,), (7, 5), (2, 3, 5)])
@pytest.mark.parametrize("with_bias", [False, True])
def test_a_linear_layer_and_its_gradients_are_torch_s(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], with_bias: bool
) -> None:
    random = torch.Generator().manual_seed(1)
    x, weight = (torch.randn(size, generator=random) for size in (shape, (4, 5)))
    bias = [torch.randn(4, generator=random)] if with_bias else []
    calls = calls_of(monkeypatch, linear_module, "onednn_product")
    expected = gradients(x, weight, *bias)
    torch.testing.assert_close(expected[0], F.linear(x, weight, *bias))
    assert not calls
    use_library("onednn")
    found = gradients(x, weight, *bias)
    shapes = [tuple(weight.shape) for _, weight, *_ in calls]
    assert shapes[:2] == [(4, 5), (5, 4)]  # forward, and the gradient of the input
    assert len(shapes) == len(found) - with_bias == 3
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


def test_other_types_are_multiplied_by_torch() -> None:
    use_library("onednn")
    x, weight = torch.randn(6, 5).bfloat16(), torch.randn(4, 5).bfloat16()
    assert torch.equal(linear(x, weight), F.linear(x, weight))


@pytest.mark.parametrize("fault", ["missing", "wrong", ""])
def test_an_operator_that_is_missing_or_wrong_does_not_count(
    monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    def operator(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        if fault == "missing":
            raise AttributeError("no such operator")
        return F.linear(x, weight, bias) + (1 if fault else 0)

    monkeypatch.setattr(linear_module, "onednn_product", operator)
    assert has_onednn() is (not fault)


def test_a_compiler_takes_a_linear_layer_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear_module._switches, "any_packed", False)  # as in training
    x, weight = torch.randn(6, 5), torch.nn.Parameter(torch.randn(4, 5))
    compiled = torch.compile(linear, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(x, weight), F.linear(x, weight))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_rectified_layer_in_one_operator_is_exactly_the_two(dtype: torch.dtype) -> None:
    random = torch.Generator().manual_seed(1)
    values = [torch.randn(shape, generator=random).to(dtype) for shape in ((7, 5), (4, 5), (4,))]

    expected = gradients(*values, layer=lambda *leaves: F.linear(*leaves).relu())
    assert 0 < int((expected[0] == 0).sum()) < expected[0].numel()

    def in_one(*leaves: Tensor) -> Tensor:
        rectified: Tensor = linear_module._LinearReLU.apply(*leaves)  # type: ignore[no-untyped-call]
        return rectified

    for layer in (linear_relu, in_one, torch.compile(in_one, fullgraph=True, backend="aot_eager")):
        for one, other in zip(gradients(*values, layer=layer), expected, strict=True):
            assert torch.equal(one, other)


# --- few numbers of rows, of each of which oneDNN keeps a primitive


def test_half_types_are_multiplied_in_few_numbers_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    weight, product = torch.ones(4, 5).bfloat16(), F.linear
    calls = calls_of(monkeypatch, F, "linear")
    counts = *range(300), 700, 2_001, 4_096
    with torch.inference_mode():
        for count in counts:
            x = torch.arange(count * 5).remainder(7).view(count, 5).bfloat16()
            assert torch.equal(linear(x, weight), product(x, weight))  # whole numbers: exact
    sizes = dict(zip(counts, (len(x) for x, *_ in calls), strict=True))
    few = {0, 16, 32, 48, 64, 96, 128, 192, 256, 384}
    assert {size for count, size in sizes.items() if count < 300} == few
    assert (sizes[700], sizes[2_001], sizes[4_096]) == (768, 2_048, 4_096)
    # No more than half as many again, or up to 16.
    assert all(count <= size <= max(1.5 * count, count + 15) for count, size in sizes.items())


@needs_onednn
@pytest.mark.parametrize("shape", [(5,), (0, 5), (2, 19, 5)])
def test_fp32_onednn_few_numbers(monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...]) -> None:
    x, weight, bias = torch.randn(shape), torch.randn(4, 5), torch.randn(4)
    calls = calls_of(monkeypatch, linear_module, "onednn_product")
    use_library("onednn")
    with torch.inference_mode():
        torch.testing.assert_close(linear(x, weight, bias), F.linear(x, weight, bias))
    assert [len(x) for x, *_ in calls] == [{(5,): 16, (0, 5): 0, (2, 19, 5): 48}[shape]]
