"""The objective and its gradients are those of torch's own loss, in any chunks and precision."""

from dataclasses import replace

import pytest
import torch
from calls import calls_of
from pairs import batch_of
from tiny_models import SOURCES, SRC_VOCAB, TARGETS, TGT_VOCAB, TINY, architecture_of
from torch import Tensor
from torch.nn import functional as F

from nmt.data.batches import FixedShape
from nmt.models.base import BARRED
from nmt.models.registry import build_model
from nmt.training import loss as loss_module
from nmt.training.loss import losses_of
from nmt.training.loss import smoothed_cross_entropy as projected_cross_entropy

TOKENS, TYPES = 7, 11


def example(seed: int = 0, spread: float = 3.0) -> tuple[Tensor, Tensor]:
    """Logits (TOKENS, TYPES) and targets (TOKENS,)."""
    random = torch.Generator().manual_seed(seed)
    logits = spread * torch.randn(TOKENS, TYPES, generator=random)
    return logits, torch.randint(TYPES, (TOKENS,), generator=random)


def smoothed_cross_entropy(logits: Tensor, targets: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """The loss of logits: of states that the projection leaves as they are."""
    identity = torch.eye(logits.shape[1], dtype=logits.dtype)
    return projected_cross_entropy(logits, identity, targets, eps)


def gradient(logits: Tensor, targets: Tensor, eps: float) -> Tensor:
    leaf = logits.clone().requires_grad_()
    smoothed_cross_entropy(leaf, targets, eps)[0].backward()  # type: ignore[no-untyped-call]
    assert leaf.grad is not None
    return leaf.grad


@pytest.mark.parametrize("eps", [0.0, 0.1, 0.9])
@pytest.mark.parametrize("tokens", [1, 256, 600])  # 600: in three chunks
def test_loss_is_that_of_torch(monkeypatch: pytest.MonkeyPatch, eps: float, tokens: int) -> None:
    monkeypatch.setitem(loss_module._CHUNK_BYTES, "cpu", 1)
    random = torch.Generator().manual_seed(8)
    # The last three states are beyond the targets: padding.
    states = torch.randn(tokens + 3, 5, generator=random, dtype=torch.float64)
    projection = torch.randn(TYPES, 5, generator=random, dtype=torch.float64)
    targets = torch.randint(TYPES, (tokens,), generator=random)
    found = [x.float().requires_grad_() for x in (states, projection)]
    loss, nll = projected_cross_entropy(found[0], found[1], targets, eps)
    (3 * loss).backward()  # type: ignore[no-untyped-call]
    assert not nll.requires_grad
    expected = [x.requires_grad_() for x in (states, projection)]
    logits = states[:tokens] @ projection.T
    whole = F.cross_entropy(logits, targets, label_smoothing=eps, reduction="sum")
    (3 * whole).backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(loss, whole.detach().float())
    torch.testing.assert_close(nll, F.cross_entropy(logits, targets, reduction="sum").float())
    for one, other in zip(found, expected, strict=True):
        assert one.grad is not None and other.grad is not None
        torch.testing.assert_close(one.grad, other.grad.float(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("eps", [0.0, 0.1])
def test_a_bias_moves_logits_and_barred_types_have_no_share(eps: float) -> None:
    random = torch.Generator().manual_seed(8)
    states, projection, bias = (
        torch.randn(*size, generator=random) for size in ((TOKENS, 5), (TYPES, 5), (TYPES,))
    )
    barred, free = [0, 4], [type_ for type_ in range(TYPES) if type_ not in (0, 4)]
    bias[barred] = BARRED
    targets = torch.randint(len(free), (TOKENS,), generator=random)
    found = [x.clone().requires_grad_() for x in (states, projection, bias)]
    named = torch.tensor(free)[targets]
    loss, nll = projected_cross_entropy(found[0], found[1], named, eps, bias=found[2])
    (3 * loss).backward()  # type: ignore[no-untyped-call]
    # As if the barred types did not exist.
    expected = [x.clone().requires_grad_() for x in (states, projection[free], bias[free])]
    logits = expected[0] @ expected[1].T + expected[2]
    whole = F.cross_entropy(logits, targets, label_smoothing=eps, reduction="sum")
    (3 * whole).backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(loss, whole)
    torch.testing.assert_close(nll, F.cross_entropy(logits, targets, reduction="sum"))
    gradients = [x.grad for x in found if x.grad is not None]
    assert not gradients[1][barred].any() and not gradients[2][barred].any()
    torch.testing.assert_close(
        [gradients[0], gradients[1][free], gradients[2][free]], [x.grad for x in expected]
    )


@pytest.mark.parametrize("kind", TINY)
def test_a_batch_of_fixed_shape_has_the_losses_and_gradients_of_its_pairs(kind: str) -> None:
    config = replace(TINY[kind], dropout=0.0)
    padded = batch_of(SOURCES, TARGETS, FixedShape(48, 40, 12, parts=1))
    assert (len(padded.tgt_in.tokens), len(padded.src.starts)) == (40, 13)
    results = []
    for batch in (batch_of(SOURCES, TARGETS), padded):
        torch.manual_seed(1)
        model = build_model(architecture_of(config), config, SRC_VOCAB, TGT_VOCAB).train()
        loss, nll = losses_of(model, batch, 0.1)
        loss.backward()  # type: ignore[no-untyped-call]
        gradients = {name: weight.grad for name, weight in model.named_parameters()}
        results.append({"loss": loss.detach(), "nll": nll, **gradients})
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("wanted", [True, False])
def test_what_is_compiled_is_the_same(dtype: torch.dtype, wanted: bool) -> None:
    logits, targets = example(7)
    logits = logits.to(dtype)
    found, expected = (
        of_chunk(logits.clone(), targets[:, None], 0.1, wanted)
        for of_chunk in (loss_module._of_chunk_for_the_compiler, loss_module._of_chunk)
    )
    # Uncompiled, a probability is rounded before its logarithm is taken.
    rounding = len(targets) * torch.finfo(dtype).eps / 2 if wanted else 0.0
    torch.testing.assert_close(found[:2], expected[:2], rtol=1e-5, atol=rounding)
    if wanted:
        assert found[2] is not None and expected[2] is not None
        torch.testing.assert_close(found[2], expected[2])
    else:
        assert found[2] is expected[2] is None


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_low_precision_logits_lose_only_their_own_rounding(dtype: torch.dtype) -> None:
    logits, targets = example(7)
    rounded = logits.to(dtype)
    expected = smoothed_cross_entropy(rounded.float(), targets, 0.1)
    found = smoothed_cross_entropy(rounded, targets, 0.1)
    assert found[0].dtype == found[1].dtype == torch.float32
    torch.testing.assert_close(found, expected)
    # With a gradient, the probability of each target is rounded.
    found = smoothed_cross_entropy(rounded.clone().requires_grad_(), targets, 0.1)
    rounding = len(targets) * torch.finfo(dtype).eps / 2
    torch.testing.assert_close(found, expected, rtol=0.0, atol=rounding)
    of_logits = gradient(rounded, targets, 0.1)
    assert of_logits.dtype == dtype
    torch.testing.assert_close(of_logits, gradient(rounded.float(), targets, 0.1).to(dtype))


def test_without_a_gradient_none_is_computed_for_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = calls_of(monkeypatch, loss_module, "_of_chunk")
    states, projection, bias = torch.randn(9, 5), torch.randn(TYPES, 5), torch.randn(TYPES)
    for need_gradient in (torch.enable_grad, torch.no_grad, torch.inference_mode):
        with need_gradient():
            projected_cross_entropy(
                states,
                torch.nn.Parameter(projection),
                torch.zeros(9).long(),
                0.1,
                bias=torch.nn.Parameter(bias),
            )
    assert [wanted for *_, wanted in calls] == [True, False, False]


def test_extreme_logits_stay_finite() -> None:
    logits = torch.tensor([[1e4, -1e4, 0.0]])
    loss, nll = smoothed_cross_entropy(logits, torch.tensor([0]), 0.0)
    assert (loss.item(), nll.item()) == (0.0, 0.0)
    _, nll = smoothed_cross_entropy(logits, torch.tensor([1]), 0.0)
    assert nll.item() == 2e4


@pytest.mark.parametrize("wanted", [True, False])
def test_all_logits_never_exist_at_once_nor_an_unwanted_gradient(
    monkeypatch: pytest.MonkeyPatch, wanted: bool
) -> None:
    monkeypatch.setitem(loss_module._CHUNK_BYTES, "cpu", 300 * TYPES * 4)
    calls = calls_of(monkeypatch, loss_module, "_of_chunk")
    states = torch.randn(700, 5, requires_grad=wanted)
    projected_cross_entropy(states, torch.randn(TYPES, 5), torch.zeros(700).long(), 0.1)
    assert [len(logits) for logits, *_ in calls] == [256, 256, 188]
    assert [is_wanted for *_, is_wanted in calls] == [wanted] * 3
