"""Frozen parameters: which they are, and that they do not change in a run."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from toy_training import metrics, newest_state, recipe, train, weights

from nmt.errors import UsageError
from nmt.model_config import TransformerConfig
from nmt.models.base import TranslationModel
from nmt.models.model_file import ModelReader
from nmt.models.registry import build_model
from nmt.training.first_weights import freeze
from nmt.values import Value


def build(tie_embeddings: str = "none") -> TranslationModel:
    config = TransformerConfig(
        num_encoder_layers=2,
        num_decoder_layers=1,
        d_model=8,
        d_ff=16,
        num_heads=2,
        tie_embeddings=tie_embeddings,
    )
    return build_model("transformer", config, 13, 13)


def frozen_names(model: nn.Module) -> set[str]:
    return {name for name, parameter in model.named_parameters() if not parameter.requires_grad}


@pytest.mark.parametrize(
    ("patterns", "prefixes"),
    [
        ("", ()),
        ("encoder.*", ("encoder.",)),
        ("encoder.1.*", ("encoder.1.",)),
        ("encoder.*,src_embedding.*", ("encoder.", "src_embedding.")),
        (" decoder.* , output_projection", ("decoder.", "output_projection")),
    ],
)
def test_patterns_choose_parameters_by_name(patterns: str, prefixes: tuple[str, ...]) -> None:
    model = build()
    expected = {name for name, _ in model.named_parameters() if name.startswith(prefixes)}
    assert sorted(freeze(model, patterns)) == sorted(expected)
    assert frozen_names(model) == expected


def test_a_star_stands_for_anything() -> None:
    model = build()
    freeze(model, "*.norm.*")
    assert frozen_names(model) == {n for n, _ in model.named_parameters() if ".norm." in n}


@pytest.mark.parametrize("name", ["src_embedding.*", "tgt_embedding.weight", "output_projection"])
def test_a_tied_parameter_goes_by_each_of_its_names(name: str) -> None:
    model = build(tie_embeddings="all")
    told = freeze(model, name)
    assert told == ["output_projection = tgt_embedding.weight = src_embedding.weight"]
    assert frozen_names(model) == {"output_projection"}


@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        ("decodr.*", "freeze: no parameter matches 'decodr.*'; did you mean 'decoder.*'?"),
        ("encoder.*,encoder.2.*", "matches 'encoder.2.*'; did you mean 'encoder."),
        ("src_embedding", "matches 'src_embedding'; did you mean 'src_embedding.*'?"),
        ("encoder.*,", "matches ''; known: decoder.*, decoder.0.*, encoder.*, encoder.0.*"),
        ("*", "freeze: '*' matches all parameters; leave some to train"),
    ],
)
def test_patterns_that_mean_nothing_are_refused(patterns: str, message: str) -> None:
    model = build()
    with pytest.raises(UsageError) as caught:
        freeze(model, patterns)
    assert message in str(caught.value)
    assert frozen_names(model) == set()


# --- in a run


def initial_weights(run: Path) -> dict[str, Tensor]:
    """The weights that a run has started with."""
    torch.manual_seed(recipe().training.seed)
    return dict(ModelReader(run / "last.safetensors").card.build().named_parameters())


@pytest.mark.parametrize(
    "values",
    [{}, {"precision": "bf16", "clip_norm": 1.0}, {"precision": "fp16"}, {"ema_decay": 0.9}],
    ids=["fp32", "bf16", "fp16", "average"],
)
def test_frozen_parameters_stay_bit_for_bit_while_others_move(
    data: Path, tmp_path: Path, values: dict[str, Value]
) -> None:
    run = train(data, tmp_path / "run", freeze="encoder.*", max_updates=9, **values)
    start, end = initial_weights(run), weights(run / "last.safetensors")
    same = {name for name in end if torch.equal(end[name], start[name])}
    assert same == {name for name in end if name.startswith("encoder.")}


def test_a_run_says_what_is_frozen_and_keeps_no_state_of_it(data: Path, tmp_path: Path) -> None:
    run = train(data, tmp_path / "run", freeze="src_embedding.*,encoder.*", max_updates=1)
    held = weights(run / "last.safetensors")
    frozen = sum(w.numel() for n, w in held.items() if n.startswith(("output_p", "encoder.")))
    every = sum(weight.numel() for weight in held.values())
    assert (
        f" {frozen:,} of {every:,} parameters are frozen: output_projection = "
        "tgt_embedding.weight = src_embedding.weight, encoder.0."
    ) in (run / "train.log").read_text()
    vectors = newest_state(run)[1]
    assert len(vectors["adam_mean"]) == every - frozen
    assert len(vectors["weights"]) == every


def test_the_logged_norm_is_of_what_is_trained(data: Path, tmp_path: Path) -> None:
    values: dict[str, Value] = {"max_updates": 1, "dropout": 0.0}
    whole, part = (
        metrics(train(data, tmp_path / str(i), freeze=patterns, **values), "train")[0]
        for i, patterns in enumerate(["", "decoder.*"])
    )
    assert part["loss"] == whole["loss"]
    assert 0 < part["grad_norm"] < 0.99 * whole["grad_norm"]
