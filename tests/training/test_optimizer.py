"""Flat weights, Adam, clipping and the average, against torch and by hand."""

import copy
import dataclasses
import gc
import math
import weakref

import pytest
import torch
from pairs import batch_of
from torch import Tensor, nn

from nmt.config.model_config import TransformerConfig
from nmt.config.training_config import TrainingConfig
from nmt.data.batches import Batch
from nmt.models.base import TranslationModel
from nmt.models.registry import build_model
from nmt.training.first_weights import freeze
from nmt.training.flat_weights import FlatWeights
from nmt.training.learning_rate import learning_rate
from nmt.training.loss import losses_of
from nmt.training.optimizer import LossScaler, Optimizer

VOCABULARY = 13
GOOD, BAD = torch.tensor(0.0), torch.tensor(1.0)
NO = torch.tensor(0.0)  # not dropped
MODEL = TransformerConfig(
    num_encoder_layers=1, num_decoder_layers=1, d_model=8, d_ff=16, num_heads=2, dropout=0.0
)


def build(**values: object) -> TranslationModel:
    torch.manual_seed(0)
    config = dataclasses.replace(MODEL, **values)  # type: ignore[arg-type]
    return build_model("transformer", config, VOCABULARY, VOCABULARY)


def batch(seed: int) -> Batch:
    """Three pairs of five source and four target tokens."""
    random = torch.Generator().manual_seed(seed)
    src = torch.randint(4, VOCABULARY, (3, 5), generator=random)
    return batch_of(src.tolist(), torch.randint(4, VOCABULARY, (3, 4), generator=random).tolist())


def backward(model: TranslationModel, seed: int, factor: float = 1.0) -> None:
    loss, _ = losses_of(model, batch(seed), 0.1)
    (loss * factor).backward()  # type: ignore[no-untyped-call]


def optimizer_of(config: TrainingConfig, count: int = 4) -> Optimizer:
    """An optimizer over `count` weights 1, 2, 3..."""
    holder = nn.Linear(count, 1, bias=False)
    with torch.no_grad():
        holder.weight.copy_(torch.arange(1.0, count + 1)[None])
    weights = FlatWeights(holder, torch.float32)  # type: ignore[arg-type]
    return Optimizer(weights, config, d_model=1)


# --- the flat weights


@pytest.mark.parametrize("tie_embeddings", ["all", "decoder", "none"])
@pytest.mark.parametrize("frozen", ["", "tgt_embedding.*,encoder.*"])
def test_parameters_become_views_and_tied_ones_stand_once(tie_embeddings: str, frozen: str) -> None:
    model = build(tie_embeddings=tie_embeddings)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    computed = model(batch(0))
    freeze(model, frozen)
    weights = FlatWeights(model, torch.float32)
    assert torch.equal(model(batch(0)), computed)
    assert len(weights.master) == sum(value.numel() for value in before.values())
    named = weights.named(weights.master)
    assert named.keys() == before.keys()
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, before[name])
        assert torch.equal(named[name], before[name])
        assert parameter.data_ptr() == named[name].data_ptr()
    trained = [parameter for parameter, _ in weights.trained]
    assert {id(p) for p in trained} == {id(p) for p in model.parameters() if p.requires_grad}
    weights.master.fill_(0.5)
    assert all(bool((parameter == 0.5).all()) for parameter in model.parameters())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_replaced_weights_come_back_exactly(dtype: torch.dtype) -> None:
    model = build()
    weights = FlatWeights(model, dtype)
    master = weights.master.clone()
    computing = [p.detach().clone() for p in model.parameters()]
    with pytest.raises(KeyError), weights.replaced_by(torch.full_like(master, 3.0)):
        assert all(bool((p == 3.0).all()) for p in model.parameters())
        assert {p.dtype for p in model.parameters()} == {torch.float32}
        raise KeyError
    assert torch.equal(weights.master, master)
    for parameter, before in zip(model.parameters(), computing, strict=True):
        assert torch.equal(parameter, before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_of_micro_batches_add_up_in_fp32(dtype: torch.dtype) -> None:
    model = build()
    alone = copy.deepcopy(model).to(dtype)
    weights = FlatWeights(model, dtype)
    weights.gradient.fill_(math.nan)  # of an update before
    for update in range(2):
        expected = torch.zeros_like(weights.gradient)
        weights.begin_gradient()
        for seed in range(3):
            alone.zero_grad()
            backward(alone, 3 * update + seed)
            gradients = [p.grad.float().flatten() for p in alone.parameters() if p.grad is not None]
            expected += torch.cat(gradients)
            backward(model, 3 * update + seed)
        assert torch.equal(weights.gradient, expected)
    assert all(p.grad is None for p in model.parameters())


def test_what_no_backward_pass_reaches_has_no_gradient() -> None:
    weights = FlatWeights(build(), torch.float32)
    weights.gradient.fill_(math.nan)  # of an update before
    first, second = weights.trained[:2]
    (first[0].square().sum() / 2).backward()  # type: ignore[no-untyped-call]
    weights.clear_unreached([first, second])
    assert torch.equal(weights.gradient[first[1]], first[0].detach().flatten())
    assert not weights.gradient[second[1]].any()
    assert weights.gradient[second[1].stop :].isnan().all()


def test_a_model_is_freed_although_its_gradient_is_collected() -> None:
    model = build()
    weights = FlatWeights(model, torch.float32)
    backward(model, 0)
    held: list[weakref.ref[object]] = [weakref.ref(weights)]
    held += [weakref.ref(parameter) for parameter in model.parameters()]
    del model, weights
    gc.collect()
    assert not any(reference() is not None for reference in held)


# --- Adam


def test_the_first_step_by_hand() -> None:
    config = TrainingConfig(
        schedule="constant", learning_rate=0.1, warmup_updates=1, adam_epsilon=1.0
    )
    optimizer = optimizer_of(config, count=2)
    optimizer.weights.gradient.copy_(torch.tensor([3.0, -1.0]))
    norm = optimizer.step(1, dropped=NO)
    assert norm is not None
    assert norm.item() == pytest.approx(math.sqrt(10))
    # The corrected moments of the first step are g and g^2: w - 0.1 g / (|g| + 1).
    assert optimizer.weights.master.tolist() == pytest.approx([1 - 0.1 * 3 / 4, 2 + 0.1 * 1 / 2])
    # The paper's decays: m = 0.1 g, v = 0.02 g^2.
    vectors = optimizer.vectors()
    assert vectors["adam_mean"].tolist() == pytest.approx([0.3, -0.1])
    assert vectors["adam_mean_square"].tolist() == pytest.approx([0.18, 0.02])
    assert vectors["adam_updates"].item() == 1


@pytest.mark.parametrize("clip_norm", [0.0, 0.5, 1e3])
@pytest.mark.parametrize("frozen", ["", "encoder.0.*,tgt_embedding.*,output_projection"])
def test_updates_are_those_of_torch_with_separate_parameters(clip_norm: float, frozen: str) -> None:
    decay = 0.1 if clip_norm else 0.0
    config = TrainingConfig(
        warmup_updates=3,
        learning_rate=0.01,
        clip_norm=clip_norm,
        adam_epsilon=1e-6,
        weight_decay=decay,
    )
    model = build(tie_embeddings="none")
    alone = copy.deepcopy(model)
    kept = freeze(model, frozen)
    optimizer = Optimizer(FlatWeights(model, torch.float32), config, MODEL.d_model)
    # As if the parameters that are trained were all there is.
    trained = [parameter for name, parameter in alone.named_parameters() if name not in kept]
    adam = torch.optim.AdamW(trained, betas=(0.9, 0.98), eps=1e-6, weight_decay=decay)
    for update in range(1, 9):
        backward(model, update)
        norm = optimizer.step(update, dropped=NO)
        alone.zero_grad()
        backward(alone, update)
        expected_norm = torch.nn.utils.clip_grad_norm_(trained, clip_norm or math.inf)
        adam.param_groups[0]["lr"] = learning_rate(config, MODEL.d_model, update, (1, 1))
        adam.step()
        torch.testing.assert_close(norm, expected_norm)
        if clip_norm == 0.5:
            assert expected_norm > clip_norm  # or nothing would have been clipped
    for found, expected in zip(model.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_the_moving_average_by_hand() -> None:
    config = TrainingConfig(ema_decay=0.6, learning_rate=0.1, warmup_updates=1)
    optimizer = optimizer_of(config)
    average = optimizer.weights.master.double()
    for update in range(1, 21):
        optimizer.weights.gradient.copy_(torch.full((4,), math.sin(update)))
        optimizer.step(update, dropped=NO)
        decay = min(0.6, update / (update + 10))  # 1/11, 2/12, ... until it reaches 0.6 at 15
        average = decay * average + (1 - decay) * optimizer.weights.master.double()
        torch.testing.assert_close(optimizer.eval_weights, average.float())
    assert not torch.allclose(optimizer.eval_weights, optimizer.weights.master)


def test_the_moving_average_forgets_as_the_rate_falls_to_0() -> None:
    config = TrainingConfig(
        ema_decay=0.999, schedule="until_flat", warmup_updates=1, max_updates=80
    )
    optimizer = optimizer_of(config)
    expected = optimizer.weights.master.double()
    # It falls from update 50 to 80. Half-way, a weight counts as much as after half the updates.
    for update, counted in ((49, 49), (50, 50), (65, 32.5), (77, 7.7), (80, 0)):
        optimizer.weights.gradient.copy_(torch.full((4,), math.sin(update)))
        optimizer.step(update, dropped=NO)
        decay = counted / (counted + 10)
        expected = decay * expected + (1 - decay) * optimizer.weights.master.double()
        torch.testing.assert_close(optimizer.eval_weights, expected.float())
    assert torch.equal(optimizer.eval_weights, optimizer.weights.master)


# --- the loss scale of fp16


def test_the_scale_halves_at_once_and_doubles_after_2000_good_updates() -> None:
    scaler = LossScaler(fp16=True, device=torch.device("cpu"))
    start = float(scaler.scale)
    scaler.note(BAD, NO)
    assert scaler.scale == start / 2
    for _ in range(1_999):
        scaler.note(GOOD, NO)
    assert scaler.scale == start / 2
    scaler.note(GOOD, NO)
    assert scaler.scale == start
    for _ in range(1_999):
        scaler.note(GOOD, NO)
    scaler.note(BAD, NO)  # and the counting begins anew
    for _ in range(1_999):
        scaler.note(GOOD, NO)
    assert scaler.scale == start / 2


@pytest.mark.parametrize(("fp16", "many", "many_at_the_end"), [(False, 5, 2), (True, 30, 30)])
def test_bad_updates_in_a_row_are_counted_once_they_are_too_many(
    fp16: bool, many: int, many_at_the_end: int
) -> None:
    for last, limit in ((False, many), (True, many_at_the_end)):
        scaler = LossScaler(fp16, torch.device("cpu"))
        for bad in (*[BAD] * (limit - 1), GOOD, *[BAD] * (limit - 1)):
            scaler.note(bad, NO)
            assert not scaler.has_diverged(int(scaler.bad_in_a_row), last=last)
        scaler.note(BAD, NO)
        assert scaler.bad_in_a_row == limit
        assert scaler.has_diverged(limit, last=last)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize(
    ("value", "dropped"), [(math.inf, 0), (math.nan, 0), (math.nan, 1), (1.0, 1)]
)
def test_a_bad_gradient_leaves_all_but_the_scaler_and_a_dropped_update_that_too(
    value: float, dropped: int, precision: str
) -> None:
    optimizer = optimizer_of(TrainingConfig(precision=precision, clip_norm=1.0, ema_decay=0.5))
    before = {name: vector.clone() for name, vector in optimizer.vectors().items()}
    optimizer.weights.gradient.copy_(torch.tensor([1.0, value, 1.0, 1.0]))
    optimizer.step(1, dropped=torch.tensor(float(dropped)))
    if not dropped:
        assert optimizer.loss_scaler.scale == (2.0**14 if precision == "fp16" else 1.0)
        assert optimizer.loss_scaler.state[2] == 1
    for name, vector in optimizer.vectors().items():
        assert (name == "guard" and not dropped) or torch.equal(vector, before[name]), name


def test_the_scale_is_taken_out_of_the_gradient() -> None:
    values: dict[str, float] = {"learning_rate": 0.1, "clip_norm": 1.0, "adam_epsilon": 0.1}
    gradient = torch.tensor([1.0, -2.0, 3.0, -4.0])
    plain = optimizer_of(TrainingConfig(warmup_updates=1, **values))  # type: ignore[arg-type]
    scaled = optimizer_of(
        TrainingConfig(warmup_updates=1, precision="fp16", **values)  # type: ignore[arg-type]
    )
    norms: list[Tensor] = []
    for optimizer, factor in ((plain, 1.0), (scaled, 2.0**15)):
        optimizer.weights.gradient.copy_(gradient * factor)
        norms.append(optimizer.step(1, dropped=NO))
    torch.testing.assert_close(norms[0], norms[1])
    torch.testing.assert_close(plain.weights.master, scaled.weights.master)
