"""Low-rank adaptation: what is trained, what is saved, and what it costs."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from command_line import Answer, Nmt
from tiny_models import TINY, forced_logits, tiny
from toy_training import assert_same_weights, recipe

from nmt.config.model_config import TransformerConfig
from nmt.errors import UsageError
from nmt.models.base import TranslationModel
from nmt.models.model_file import load_model
from nmt.training.low_rank import adapt, merged
from nmt.training.memory import even_batch, memory_needs

RANK = 3
TRANSFORMERS = [kind for kind, config in TINY.items() if isinstance(config, TransformerConfig)]


def moved(model: TranslationModel) -> None:
    """Give the changes values."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.startswith("low_rank."):
                parameter.normal_(0, 0.2)


PAIRS: list[list[int]] = [[5, 6, 7], [8, 4], [9, 9, 5, 4]]


def outputs(model: TranslationModel) -> torch.Tensor:
    with torch.no_grad():
        return torch.cat(forced_logits(model, PAIRS, PAIRS[::-1]))


@pytest.mark.parametrize("kind", TRANSFORMERS)
def test_a_model_with_changes_is_the_model_with_their_sums(kind: str) -> None:
    model, before = tiny(kind), outputs(tiny(kind))
    own = {name: weight.dim() for name, weight in model.named_parameters()}
    changed = adapt(model, RANK)
    # Vectors of relative distances are looked up, not multiplied.
    matrices = {n for n, dim in own.items() if dim == 2 and n.startswith(("encoder.", "decoder."))}
    assert set(changed) == {name for name in matrices if "relative" not in name}
    model.double()
    torch.testing.assert_close(outputs(model), before)
    moved(model)
    with_changes = outputs(model)
    assert not torch.allclose(with_changes, before, atol=1e-3)
    sums, other = merged(dict(model.named_parameters())), tiny(kind)
    assert sums.keys() == own.keys()
    with torch.no_grad():
        for name, weight in other.named_parameters():
            weight.copy_(sums[name])
    torch.testing.assert_close(outputs(other), with_changes)


def test_only_transformers_have_changes() -> None:
    with pytest.raises(UsageError, match="lora_rank"):
        adapt(tiny("rnn_attention"), RANK)


def tune(nmt: Nmt, data: Path, out: Path, model: Path, *more: str) -> Answer:
    sets = f"lora_rank={RANK} learning_rate=0.01 warmup_updates=1 schedule=constant"
    sets += " matmul=torch"  # or a busy machine may choose another in each run
    words = ["--precision=fp32", "--batch-tokens=300", *(f"--set={one}" for one in sets.split())]
    return nmt("train", data, "--out", out, "--init-from", model, *words, *more)


def test_a_run_changes_matrices_by_the_rank_and_nothing_else(
    nmt: Nmt, data: Path, learnt: Path, tmp_path: Path
) -> None:
    done = tune(nmt, data, tmp_path / "run", learnt, "--max-updates", "8").succeeded()
    assert f"rank {RANK} " in done.stderr
    before, after = (dict(load_model(p)[0].named_parameters()) for p in (learnt, tmp_path / "run"))
    assert before.keys() == after.keys()
    changed = 0
    for name, weight in after.items():
        difference = (weight - before[name]).detach()
        if not name.startswith(("encoder.", "decoder.")) or weight.dim() < 2:
            assert not difference.any(), name
            continue
        values = torch.linalg.svdvals(difference)
        assert values[0] > 1e-4 and values[RANK] < 1e-5 * values[0] + 1e-6, name
        changed += 1
    assert changed > 10


def test_a_resumed_run_is_the_same(nmt: Nmt, data: Path, learnt: Path, tmp_path: Path) -> None:
    for name, parts in (("whole", ["4"]), ("parts", ["2", "4"])):
        for updates in parts:
            tune(nmt, data, tmp_path / name, learnt, "--max-updates", updates).succeeded()
    assert_same_weights(tmp_path / "parts", tmp_path / "whole")


def test_gradient_and_optimiser_are_small() -> None:
    config = TransformerConfig(d_model=256, d_ff=512, num_heads=4)
    whole = recipe(precision="fp32")
    whole = replace(whole, model=config)
    small = replace(whole, training=replace(whole.training, lora_rank=4))
    needs = [memory_needs(one, (500, 500), even_batch(64, 16, 500)) for one in (whole, small)]
    assert needs[1]["gradient"] < 0.1 * needs[0]["gradient"]
    assert needs[1]["weights"] < 1.1 * needs[0]["weights"]
    assert sum(needs[1].values()) < 0.5 * sum(needs[0].values())


def test_what_is_new_is_not_frozen(nmt: Nmt, data: Path, learnt: Path, tmp_path: Path) -> None:
    text = ("--train", data / "valid", "--valid", data / "valid", "--keep", "overlap")
    tagged = ("--vocab", learnt, "--tag", f"{data / 'valid'}=<BT>", "--workers", "1")
    nmt("prepare", tmp_path / "data", "--src", "en", "--tgt", "de", *text, *tagged).succeeded()
    words = ("train", tmp_path / "data", "--out", tmp_path / "run", "--init-from", learnt)
    for value in ("lora_rank=2", "freeze=*embedding*"):
        done = nmt(*words, "--set", value, "--precision", "fp32")
        assert done.status == 2
        assert "random" in done.stderr.splitlines()[-1]
