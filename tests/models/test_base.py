"""Properties of every architecture, in all of its variants.

Step by step equals teacher-forced, hypotheses can be reordered, and padding changes nothing. In
float64, so that bounds are tight. The files of the architectures hold each pair of a batch against
formulas.
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from pairs import batch_of
from tiny_models import (
    BOS,
    CONVOLUTIONAL,
    SOURCES,
    TARGETS,
    TGT_VOCAB,
    TINY,
    assert_equal,
    begin,
    forced_logits,
    tiny,
)
from torch import Tensor

from nmt.config.model_config import MODEL_CONFIGS
from nmt.data.batches import Batch, FixedShape, Packed, PaddedGroup
from nmt.models.base import TranslationModel
from nmt.models.convolutional import ConvolutionalModel
from nmt.models.layers import seed_dropout
from nmt.models.registry import ARCHITECTURES


def test_every_architecture_is_tested() -> None:
    assert MODEL_CONFIGS.keys() == ARCHITECTURES.keys()
    assert {type(config) for config in TINY.values()} == set(MODEL_CONFIGS.values())


@pytest.fixture(params=TINY)
def model(request: pytest.FixtureRequest) -> TranslationModel:
    return tiny(request.param)


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("tie_embeddings", ["none", "all"])
@pytest.mark.parametrize("kind", TINY)
def test_step_by_step_is_teacher_forced(kind: str, tie_embeddings: str, width: int) -> None:
    model = tiny(kind, tie_embeddings)
    length = 40  # beyond the first capacities of a cache
    random = np.random.default_rng(1)
    targets = random.integers(4, TGT_VOCAB, (len(SOURCES) * width, length)).tolist()
    sources = [source for source in SOURCES for _ in range(width)]
    forced = torch.stack(forced_logits(model, sources, targets))  # (N, length + 1, V)
    with torch.inference_mode():
        state = begin(model, SOURCES)
        first = model.project(model.step([state], torch.full((len(SOURCES),), BOS)))
        assert_equal(first, forced[::width, 0])
        rows = torch.arange(len(SOURCES)).repeat_interleave(width)  # each goes on in `width` ways
        state.select(rows, torch.arange(len(SOURCES)))
        for position in range(length):
            tokens = torch.tensor([ids[position] for ids in targets])
            assert_equal(model.project(model.step([state], tokens)), forced[:, position + 1])


def test_states_that_began_at_different_times_step_together(model: TranslationModel) -> None:
    targets = np.random.default_rng(3).integers(4, TGT_VOCAB, (len(SOURCES), 9)).tolist()
    forced = torch.stack(forced_logits(model, SOURCES, targets))  # (B, 10, V)
    inputs = [[BOS, *ids] for ids in targets]
    with torch.inference_mode():
        early, late = (begin(model, part) for part in (SOURCES[:2], SOURCES[2:]))
        for position in range(3):
            model.step([early], torch.tensor([ids[position] for ids in inputs[:2]]))
        for position in range(6):
            tokens = [ids[position + 3] for ids in inputs[:2]]
            tokens += [ids[position] for ids in inputs[2:]]
            logits = model.project(model.step([early, late], torch.tensor(tokens)))
            assert_equal(logits[:2], forced[:2, position + 3])
            assert_equal(logits[2:], forced[2:, position])


def test_select_reorders_hypotheses_and_drops_sentences(model: TranslationModel) -> None:
    steps = np.random.default_rng(2).integers(4, TGT_VOCAB, (12, len(SOURCES) * 2)).tolist()
    sentences = [0, 1, 2]
    prefixes: list[list[int]] = [[] for _ in SOURCES]
    # After these steps: which rows go on, as (row among the active ones, ...), and which sentences.
    selections: dict[int, tuple[list[int], list[int]]] = {
        0: ([0, 0, 1, 1, 2, 2], [0, 1, 2]),  # each becomes two
        2: ([1, 0, 3, 3, 4, 5], [0, 1, 2]),  # swap; copy the second; as it is
        4: ([4, 5, 3, 2], [2, 1]),  # the first sentence leaves, and the last takes its place
        5: ([3, 2], [1]),  # the first of them leaves
        9: ([0, 0], [0]),
    }
    with torch.inference_mode():
        state = begin(model, SOURCES)
        tokens = torch.full((len(prefixes),), BOS)
        for number, step in enumerate(steps):
            logits = model.project(model.step([state], tokens))
            width = len(prefixes) // len(sentences)
            sources = [SOURCES[s] for s in sentences for _ in range(width)]
            fresh = forced_logits(model, sources, prefixes)
            assert_equal(logits, torch.stack([one[-1] for one in fresh]))
            if number in selections:
                rows, kept = selections[number]
                state.select(torch.tensor(rows), torch.tensor(kept))
                prefixes = [prefixes[row] for row in rows]
                sentences = [sentences[sentence] for sentence in kept]
            tokens = torch.tensor(step[: len(prefixes)])
            prefixes = [[*ids, int(t)] for ids, t in zip(prefixes, tokens, strict=True)]
    assert sentences == [1]


def in_groups(*bounds: int) -> Callable[[Batch], Batch]:
    """Return what lays out the same sentences in groups that end at these sentences."""

    def grouped(packed: Packed) -> Packed:
        starts = packed.starts.tolist()
        lengths = np.diff(starts)
        groups = (
            PaddedGroup(slice(a, b), slice(starts[a], starts[b]), int(lengths[a:b].max()))
            for a, b in pairwise([0, *bounds])
        )
        return replace(packed, groups=tuple(groups))

    return lambda batch: Batch(grouped(batch.src), grouped(batch.tgt_in), batch.targets)


def in_shape(src: int, tgt: int, sentences: int) -> Callable[[Batch], Batch]:
    return lambda _: batch_of(SOURCES, TARGETS, FixedShape(src, tgt, sentences, parts=1))


LAYOUTS = {
    # The second target is the longest: the first group must go on as long as the second.
    **{f"groups to {bounds}": in_groups(*bounds) for bounds in ((1, 3), (2, 3), (1, 2, 3))},
    "two empty sentences": in_shape(16, 13, 5),
    "a pair of padding, and two empty ones": in_shape(17, 16, 6),
    "two pairs of padding": in_shape(100, 80, 5),
}


@pytest.mark.parametrize("lay_out", LAYOUTS.values(), ids=LAYOUTS)
def test_groups_and_padding_change_neither_states_nor_gradients(
    model: TranslationModel, lay_out: Callable[[Batch], Batch]
) -> None:
    batch = batch_of(SOURCES, TARGETS)
    weighting = torch.randn(batch.num_tokens, model.output_projection.shape[1]).double()
    found = []
    for one in (batch, lay_out(batch)):
        model.zero_grad()
        states = model(one)[: batch.num_tokens]
        torch.sum(states * weighting).backward()  # type: ignore[no-untyped-call]
        gradients = [p.grad.clone() for p in model.parameters() if p.grad is not None]
        found.append([states, *gradients])
    for expected, own in zip(*found, strict=True):
        assert_equal(own, expected, tolerance=1e-10)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_attention_weights_are_in_fp32_for_half_precision_and_change_nothing(
    model: TranslationModel, dtype: torch.dtype
) -> None:
    batch = batch_of(SOURCES, TARGETS)
    expected, states = model.attention_weights(batch).cross, model(batch)
    assert torch.equal(model(batch), states)
    assert not any(module._forward_pre_hooks for module in model.modules())
    found = model.to(dtype).attention_weights(batch).cross
    assert found.dtype == torch.float32
    assert_equal(found.double(), expected, tolerance=0.02)
    sums = found[:, 1].sum(dim=-1)  # of the longest target
    assert_equal(sums, torch.ones_like(sums), tolerance=1e-6)


def test_dropout_acts_only_in_training(model: TranslationModel) -> None:
    batch = batch_of(SOURCES, TARGETS)
    with torch.no_grad():
        assert torch.equal(model(batch), model(batch))
        model.train()
        assert not torch.allclose(model(batch), model(batch))
        seed_dropout(3)
        first = model(batch)
        seed_dropout(3)
        assert torch.equal(model(batch), first)


def test_gradients_are_the_slopes_of_the_logits(model: TranslationModel) -> None:
    batch = batch_of(SOURCES, TARGETS)
    weighting = torch.randn(batch.num_tokens, TGT_VOCAB, dtype=torch.float64)

    def objective() -> Tensor:
        return torch.sum(model.project(model(batch)) * weighting)

    torch.autograd.backward(objective())
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        layers = 1
        if isinstance(model, ConvolutionalModel):
            # Its encoder gets the mean of what the decoder's layers send, and its source embedding
            # that and a sum (Gehring et al. 2017, section 3.4).
            layers = CONVOLUTIONAL.num_decoder_layers if name.startswith("encoder") else 1
            if name.startswith("src_embedding"):
                continue
        direction, sums = torch.randn_like(parameter), []
        with torch.no_grad():
            for step in (1e-6, -1e-6):
                parameter.add_(direction, alpha=step)
                sums.append(float(objective()))
                parameter.add_(direction, alpha=-step)
        slope = (sums[0] - sums[1]) / 2e-6
        assert slope != 0, name
        found = float(torch.sum(parameter.grad * direction))
        assert found == pytest.approx(slope / layers, rel=1e-5, abs=1e-6), name


def test_hypotheses_share_what_is_computed_of_their_source(model: TranslationModel) -> None:
    def size(part: object) -> int:
        """Bytes of the tensors in a state."""
        if isinstance(part, Tensor):
            return part.nbytes
        parts = part if isinstance(part, (list, tuple)) else getattr(part, "__dict__", {}).values()
        return sum(map(size, parts))

    with torch.inference_mode():
        state = begin(model, [[5] * 200] * 3)
        before = size(state)
        state.select(torch.arange(3).repeat_interleave(8), torch.arange(3))
    assert size(state) < 1.5 * before
