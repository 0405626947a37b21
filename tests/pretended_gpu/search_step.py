"""Count the work of one step of search on a GPU, at full size, without a GPU.

64 sentences of 25 tokens are searched with 4 hypotheses each, in bf16, with a vocabulary of 32,000.
One step is counted in which hypotheses change their rows, and one in which a sentence has left,
too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from numpy.typing import NDArray
from pretended_gpu.counting import GPU, Counts, counting
from torch import Tensor
from torch.nn import functional as F

from nmt.config.presets import find_preset, preset_values
from nmt.config.recipes import resolve_recipe
from nmt.data.batches import pack_sources
from nmt.data.vocabulary import EOS_ID
from nmt.models.base import TranslationModel
from nmt.models.ensemble import Ensemble
from nmt.models.registry import build_model
from nmt.search.beam_search import Group, decode
from nmt.search.engine import Source
from nmt.search.options import SearchOptions
from nmt.search.top_k import Fields, NextTokens

VOCABULARY, SENTENCES, TOKENS, BEAM_SIZE = 32_000, 64, 25, 4
_COUNTED = 2
"""The first step that is counted, from 0. The two before make tables and widen states."""


def build(preset: str) -> TranslationModel:
    """Return a model of fake tensors in bf16."""
    spec = find_preset(preset)
    recipe = resolve_recipe(preset, spec.architecture, [("preset", preset_values(preset))])
    torch.set_default_dtype(torch.bfloat16)
    try:
        with GPU:
            return build_model(spec.architecture, recipe.model, VOCABULARY, VOCABULARY).eval()
    finally:
        torch.set_default_dtype(torch.float32)


def count_steps(presets: Sequence[str]) -> dict[str, Any]:
    """Count a step in which hypotheses change their rows, and the next, after a sentence left."""
    steps: list[dict[str, Any]] = []

    def next_step() -> None:
        steps.append(described(counts))
        counts.clear()
        if len(steps) == _COUNTED + 3:
            raise StopSearch

    read, from_numpy = NextTokens.read, torch.from_numpy

    def read_made_up(fields: Fields) -> NextTokens:
        return made_up(*read(fields).log_probs.shape, one_ends=len(steps) == _COUNTED + 1)

    def remembered(array: NDArray[Any]) -> Tensor:
        tensor = from_numpy(array)
        tensor.array = array  # type: ignore[attr-defined]
        return tensor

    sources = [Source(tuple(range(10, 10 + TOKENS)))] * SENTENCES
    options = SearchOptions(beam_size=BEAM_SIZE, barred_ids=(0, 1, 2))
    with (
        counting(values_of) as counts,
        torch.no_grad(),
        patch.object(torch, "from_numpy", remembered),
        patch.object(F, "scaled_dot_product_attention", fused_attention),
        patch.object(NextTokens, "read", read_made_up),
    ):
        members = [build(preset) for preset in presets]
        model = members[0] if len(members) == 1 else Ensemble(members)
        state = model.begin(pack_sources([source.ids for source in sources]).to(GPU))
        group = Group(range(SENTENCES), sources, state, cost_per_sentence=TOKENS + 1)
        with suppress(StopSearch):
            list(decode(model, iter([group]), options, on_step=next_step))
    return dict(zip(("moved", "left"), steps[_COUNTED + 1 :], strict=True))


class StopSearch(Exception):
    """Enough steps are counted."""


def described(counts: Counts) -> dict[str, Any]:
    """Return what was counted."""
    lines: Counter[str] = Counter()
    for (_, name, line), work in counts.work.items():
        lines[f"{line} {name}"] += work.kernels
    return {
        "kernels": counts.total().kernels,
        "lines": dict(lines.most_common()),
        "copies": dict(counts.copies),
        "waits": dict(counts.waits),
    }


def values_of(tensor: Tensor) -> NDArray[Any]:
    """Return the array that a fake tensor was made of; zeros if it was not."""
    array: NDArray[Any] | None = getattr(tensor, "array", None)
    if array is not None:
        return array
    return np.zeros(tensor.shape, np.dtype(str(tensor.dtype).removeprefix("torch.")))


def made_up(rows: int, count: int, *, one_ends: bool) -> NextTokens:
    """Return next tokens from which search goes on in other rows; one sentence may end."""
    random = np.random.default_rng(1)
    log_probs = -np.sort(5 * random.random((rows, count), np.float32) + 0.1, axis=1)
    tokens = random.integers(EOS_ID + 1, VOCABULARY, (rows, count))
    if one_ends:
        tokens[:BEAM_SIZE, 0] = EOS_ID
        log_probs[:BEAM_SIZE, 1:] -= 100
    return NextTokens(log_probs, tokens, log_probs[:, -1:])


def fused_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None
) -> Tensor:
    """Attend with the kernel that torch takes on a GPU, and check what it needs for that."""
    assert query.is_cuda and all(x.stride(-1) == 1 for x in (query, key, value))
    if attn_mask is None:
        return torch.ops.aten._scaled_dot_product_flash_attention(query, key, value)[0]  # type: ignore[no-any-return]
    assert attn_mask.dtype == query.dtype, "torch would convert it"
    assert attn_mask.stride(-1) == 1, "torch would copy it"
    assert all(stride % 8 == 0 for stride in attn_mask.stride()[:-1]), "torch would copy it"
    bias = attn_mask.expand(*query.shape[:-1], key.shape[2])
    attended = torch.ops.aten._scaled_dot_product_efficient_attention
    return attended(query, key, value, bias, False)[0]  # type: ignore[no-any-return]
