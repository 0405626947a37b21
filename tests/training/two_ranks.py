"""What each of two processes finds, as one JSON object in OUT.RANK; started by torchrun.

Arguments: a data folder, a model file, OUT.
"""

import json
import sys
from pathlib import Path
from unittest import mock

import torch
from pairs import batch_of
from torch import nn
from toy_training import recipe

from nmt.data.folder import DataFolder
from nmt.errors import NMTError, UsageError
from nmt.models.base import TranslationModel
from nmt.models.model_file import load_model
from nmt.system.distributed import Ranks
from nmt.training import flat_weights as gradient_sum
from nmt.training.flat_weights import FlatWeights
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
    model, _ = load_model(Path(model_file))
    folder, cpu = DataFolder.open(Path(data)), torch.device("cpu")
    plain, sampler, validator = (
        Validator(folder, ranks, cpu, recipe(micro_batch_tokens=60, **values).training)
        for values in (
            {},
            {"sample_translations": 1},
            {"validate_metric": "bleu", "sample_translations": 3},
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
