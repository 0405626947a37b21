"""Products with packed weights are as exact as their precision."""

from pathlib import Path

import pytest
import torch
from pairs import batch_of
from tiny_models import TINY, tiny
from torch import Tensor
from torch.nn import functional as F

from nmt.data.batches import pack_sources
from nmt.models.base import TranslationModel
from nmt.models.kernels.linear import linear, use_packed
from nmt.models.model_file import load_model
from nmt.models.packed_weights import KERNELS, is_usable, pack

SHAPES = [(1,), (3,), (70,), (2, 5)]


def product(precision: str, kernel: str, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    if not is_usable(kernel, precision):
        pytest.skip("needs a CPU with such a kernel")
    packed = torch.nn.Parameter(weight)
    use_packed(packed, KERNELS[precision][kernel](weight))
    with torch.inference_mode():
        return linear(x, packed, bias)


def matrices(shape: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor]:
    random = torch.Generator().manual_seed(1)
    x = torch.randn(*shape, 96, generator=random) * torch.tensor(7.0)
    return x, torch.randn(40, 96, generator=random), torch.randn(40, generator=random)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize(
    ("precision", "kernel"), [(name, kernel) for name in KERNELS for kernel in KERNELS[name]]
)
def test_packed_products_are_those_of_torch(
    shape: tuple[int, ...], with_bias: bool, precision: str, kernel: str
) -> None:
    x, weight, bias = matrices(shape)
    expected = F.linear(x, weight, bias if with_bias else None)
    found = product(precision, kernel, x, weight, bias if with_bias else None)
    torch.testing.assert_close(found, expected, atol={"fp32": 1e-4, "bf16": 2.5}[precision], rtol=0)


def next_logits(model: TranslationModel) -> Tensor:
    with torch.inference_mode():
        state = model.begin(pack_sources([(5, 6, 7), (20, 21)]))
        model.step([state], torch.tensor([2, 2]))
        return model.project(model.step([state], torch.tensor([9, 10])))


@pytest.mark.parametrize("precision", KERNELS)
def test_a_packed_model_holds_its_matrices_once(model_file: Path, precision: str) -> None:
    model = load_model(model_file)[0].eval()
    shapes = [weight.shape for weight in model.parameters()]
    pack(model, precision)
    assert [weight.shape for weight in model.parameters()] == shapes
    for weight in model.parameters():
        if weight.dim() == 2 and weight is not model.output_projection:  # the embeddings, too
            assert weight.untyped_storage().nbytes() == 4
            assert (torch.ones(1, weight.shape[1]) @ weight.t()).isnan().all()
    assert model.output_projection.isfinite().all()


@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 1e-5), ("bf16", 0.15)])
@pytest.mark.parametrize("kind", TINY)
def test_every_architecture_can_be_packed(kind: str, precision: str, tolerance: float) -> None:
    model = tiny(kind, "decoder").float()
    batch = batch_of([[5, 6, 7], [20, 21]], [[9], [10, 11, 12]])
    logits, weights = next_logits(model), model.attention_weights(batch)
    pack(model, precision)
    torch.testing.assert_close(next_logits(model), logits, atol=tolerance, rtol=0.05)
    for found, expected in zip(model.attention_weights(batch), weights, strict=True):
        torch.testing.assert_close(found, expected, atol=tolerance, rtol=0)
