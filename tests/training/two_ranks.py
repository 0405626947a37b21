"""What each of two processes finds, as one JSON object in OUT.RANK; started by torchrun.

Arguments: a data folder, a model file, OUT.
"""

from __future__ import annotations

import json
import math
import sys
from contextlib import ExitStack
from pathlib import Path
from unittest import mock

import torch
from pairs import batch_of
from torch import Tensor, nn
from toy_training import recipe

from nmt.config.fields import Value
from nmt.data.folder import DataFolder
from nmt.errors import NMTError, UsageError
from nmt.models.base import TranslationModel
from nmt.models.device import dtype_of
from nmt.models.model_file import load_model
from nmt.system import distributed
from nmt.system.distributed import Ranks, Vector
from nmt.training import flat_weights as gradient_sum
from nmt.training.first_weights import freeze
from nmt.training.flat_weights import FlatWeights
from nmt.training.optimizer import Optimizer
from nmt.training.run_metrics import checksum_of_all
from nmt.training.validation import Validator


def names_of_threads() -> list[str]:
    """Return the names of this process's threads (Linux)."""
    return [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]


def step_an_optimizer() -> None:
    """Import all that torch imports late."""
    parameter = nn.Parameter(torch.ones(2))
    parameter.grad = torch.ones(2)
    torch.optim.Adam([parameter]).step()


def meet(ranks: Ranks, failing: int | None) -> list[str]:
    """Return what a rank hears when one of them fails."""
    try:
        with ranks.raise_on_all_ranks():
            if ranks.rank == failing:
                raise UsageError("no such folder")
    except NMTError as error:
        return [type(error).__name__, str(error)]
    return []


def gradient_sums(ranks: Ranks, model: TranslationModel, dtype: torch.dtype) -> list[bool]:
    """Sum gradients as training does, and plainly; tell whether it was under way early, and right.

    The second time, rank 1 has no backward pass.
    """
    found = []
    with mock.patch.object(gradient_sum, "_BUCKET_VALUES", 5_000):
        weights = FlatWeights(model.eval(), dtype)
        total = gradient_sum.GradientSum(weights, ranks)
        ids = (torch.arange(4, 4 + 12).view(2, 6) + 7 * ranks.rank).tolist()
        batch = batch_of(ids, ids)
        for working in (True, ranks.rank == 0):
            weights.gradient.zero_()
            if working:
                model(batch).float().square().mean().backward()
            plain = ranks.sum_(weights.gradient.clone())
            weights.begin_gradient()
            if working:
                total.begin(last=True)
                model(batch).float().square().mean().backward()
            early = len(total._started)
            total.finish(torch.zeros(3))
            found += [early > 0, torch.allclose(weights.gradient, plain), bool(plain.any())]
    return found


def steps(
    ranks: Ranks, model_file: Path, shared_by: Ranks | None, **values: Value
) -> dict[str, Tensor]:
    """Step an optimizer five times; return what it has then, on all ranks, and the norms.

    In the third update the gradient of one parameter is not finite, on rank 0 only.
    """
    config = recipe(clip_norm=0.5, adam_epsilon=1e-3, **values).training
    model, _ = load_model(model_file)
    freeze(model, config.freeze)
    weights = FlatWeights(model.eval(), dtype_of(config.precision), shared_by)
    assert len(weights.master) == weights.count // (2 if shared_by else 1)
    optimizer = Optimizer(weights, config, d_model=32)
    total = gradient_sum.GradientSum(weights, ranks)
    ids = (torch.arange(4, 4 + 12).view(2, 6) + 7 * ranks.rank).tolist()
    norms = []
    for update in range(1, 6):
        total.begin(last=True)
        loss = model(batch_of(ids, ids)).float().square().mean()
        with ExitStack() as hooks:
            if update == 3 and ranks.is_first:
                parameter, _ = weights.trained[-1]
                overflow = parameter.register_hook(lambda x: torch.full_like(x, math.inf))  # type: ignore[no-untyped-call]
                hooks.enter_context(overflow)
            (loss * optimizer.loss_scaler.scale).backward()
        total.finish(torch.zeros(3))
        norms.append(optimizer.step(update, dropped=torch.tensor(0.0)))
    with weights.replaced_by(optimizer.eval_weights):
        validated = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    found = {"norms": torch.stack(norms), "validated": validated.float()}
    for name, vector in optimizer.vectors().items():
        whole = torch.full(vector.shape, math.nan)
        on_the_first = whole if ranks.is_first else None
        vector.collect(on_the_first, ranks)
        before = vector.held.clone()
        vector.held.zero_()
        vector.distribute(on_the_first, ranks)
        assert torch.equal(vector.held, before), name
        found[name] = ranks.broadcast_(whole)
    checksum = checksum_of_all(optimizer.vectors()["weights"], ranks)
    assert checksum == checksum_of_all(Vector(found["weights"]), ranks)
    checksum_of_all(Vector(found["validated"]), ranks)  # the same on both
    return found


def differences(ranks: Ranks, model_file: Path) -> dict[str, list[str]]:
    """Return what an optimizer with shards has that one without has not."""
    cases: dict[str, dict[str, Value]] = {
        "fp32": {"ema_decay": 0.5},
        "bf16": {"precision": "bf16", "ema_decay": 0.5},
        "fp16": {"precision": "fp16"},
        "frozen": {"precision": "bf16", "freeze": "encoder.*,decoder.*"},
    }
    found = {}
    with (
        mock.patch.object(gradient_sum, "_BUCKET_VALUES", 5_000),
        mock.patch.object(distributed, "_SENT_AT_ONCE", 1_000),
    ):
        for name, values in cases.items():
            plain, sharded = (
                steps(ranks, model_file, shared_by, **values) for shared_by in (None, ranks)
            )
            assert plain["norms"].isfinite().tolist() == [True, True, False, True, True]
            exact = name == "fp32"
            found[name] = [
                key
                for key, tensor in plain.items()
                if not torch.allclose(
                    sharded[key], tensor, rtol=1e-5 if exact else 1e-2, atol=1e-7 if exact else 1e-5
                )
            ]
    return found


def main(data: str, model_file: str, out: str) -> None:
    """Try every operation."""
    torch.set_num_threads(1)
    ranks = Ranks.from_environment()
    ranks.join()
    step_an_optimizer()
    rank = ranks.rank
    tensor = torch.tensor([1.0, 10.0 * rank])
    found: dict[str, object] = {
        "rank": [rank, ranks.local_rank, ranks.local_world_size, ranks.world_size],
        "is_first": ranks.is_first,
        "same_tensor": ranks.sum_(tensor) is tensor,
        "sum": tensor.tolist(),
        "broadcast": ranks.broadcast_(torch.tensor([rank + 5])).tolist(),
        "any": [ranks.any(False), ranks.any(rank == 0), ranks.any(rank == 1), ranks.any(True)],
        # Of different lengths, one empty, one beyond ASCII.
        "gather": ranks.gather({"rank": rank, "texts": ["ä" * 100] * rank}),
        "together": [meet(ranks, None), meet(ranks, 0), meet(ranks, 1)],
        "gather_empty": ranks.gather([]),
    }
    for dtype in (torch.float32, torch.bfloat16):
        model, _ = load_model(Path(model_file))
        found[f"gradient_sums {dtype}"] = gradient_sums(ranks, model, dtype)
    found["shards"] = differences(ranks, Path(model_file))
    model, _ = load_model(Path(model_file))
    folder, cpu = DataFolder.open(Path(data)), torch.device("cpu")
    plain, sampler, validator = (
        Validator(folder, ranks, cpu, recipe(micro_batch_tokens=60, **values).training)
        for values in (
            {},
            {"sample_translations": 1},
            {"validate_bleu": True, "sample_translations": 3},
        )
    )
    answers = iter([False] * 1_000)  # asked once a batch whether to stop
    plain.measure(model, lambda: next(answers))
    found["batches"] = 1_000 - len(list(answers))
    result = validator.measure(model, lambda: False)
    assert result is not None
    found["metrics"] = result.metrics()
    found["samples"] = list(result.samples)
    sampled = sampler.measure(model, lambda: False)  # one line, and so no work for one rank
    assert sampled is not None
    found["sample"] = list(sampled.samples)
    # One rank alone is asked to stop: all of them leave validation.
    found["stopped"] = validator.measure(model, lambda: rank == 1) is None
    found["threads_before"] = names_of_threads()
    ranks.any(False)  # both are done
    ranks.leave()
    found["threads"] = names_of_threads()
    Path(f"{out}.{rank}").write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
