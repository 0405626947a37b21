"""Every preset, made small, learns. That a model file keeps it is in `test_model_file.py`."""

from dataclasses import fields, replace

import pytest
import torch
from pairs import batch_of

from nmt.config.model_config import ModelConfig
from nmt.config.presets import PRESETS, preset_for, preset_values
from nmt.config.recipes import Layer, Recipe, resolve_recipe
from nmt.models.layers import seed_dropout
from nmt.models.model_file import ModelCard
from nmt.training.flat_weights import FlatWeights
from nmt.training.loss import losses_of
from nmt.training.optimizer import Optimizer

BATCH = batch_of([[5, 6, 7, 8], [9], [10, 11]], [[12, 13], [14, 15, 16], [17]])


def small(config: ModelConfig) -> ModelConfig:
    """Return the configuration with small sizes, otherwise unchanged."""
    changes = {}
    for spec in fields(config):
        size = getattr(config, spec.name)
        if spec.name.endswith("_layers"):
            changes[spec.name] = min(2, size)
        elif isinstance(size, int) and size > 64:
            changes[spec.name] = 32  # which 1, 2, 4 ... 32 heads can share
    return replace(config, **changes)


@pytest.fixture(params=PRESETS)
def recipe(request: pytest.FixtureRequest) -> Recipe:
    """Each preset, made small, with a learning rate at which one update shows."""
    preset = request.param
    sped_up = {"learning_rate": 1e-3, "warmup_updates": 1}
    layers: list[Layer] = [("preset", preset_values(preset)), ("test", sped_up)]
    found = resolve_recipe(preset, PRESETS[preset].architecture, layers)
    return replace(found, model=small(found.model))


@pytest.mark.parametrize(
    ("pairs", "gpu", "name"),
    [
        (29_000, False, "transformer_portable_few"),
        (29_000, True, "transformer_portable_few"),
        (300_000, True, "transformer_small"),
        (4_500_000, False, "transformer_small"),
        (4_500_000, True, "transformer_base"),
    ],
)
def test_a_preset_is_suggested_by_pairs_and_device(pairs: int, gpu: bool, name: str) -> None:
    assert preset_for(pairs, gpu=gpu)[0] == name


def test_one_update_lowers_the_loss_of_its_batch(recipe: Recipe, card: ModelCard) -> None:
    torch.manual_seed(1)
    model = replace(card, architecture=recipe.architecture, config=recipe.model).build()
    optimizer = Optimizer(FlatWeights(model, torch.float32), recipe.training, recipe.model.d_model)
    losses = []
    for is_training in (False, True, False):
        seed_dropout(1)
        loss, _ = losses_of(model.train(is_training), BATCH, recipe.training.label_smoothing)
        losses.append(loss.item())
        if is_training:
            torch.autograd.backward(loss)
            optimizer.step(1, dropped=torch.tensor(0.0))
    assert losses[2] < losses[0]


@pytest.mark.parametrize("name", PRESETS)
def test_a_summary_stands_by_itself(name: str) -> None:
    assert not PRESETS[name].summary.startswith(("the same", "as "))
