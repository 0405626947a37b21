"""Search on the pretended GPU finds what it finds on a CPU, and a step waits once.

`test_pretended_gpu.py` runs these tests in a process of their own.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from pretended_gpu.cuda import counts
from tiny_models import TINY, architecture_of

from nmt.models.base import TranslationModel
from nmt.models.ensemble import Ensemble
from nmt.models.registry import build_model
from nmt.search.engine import SearchResult, Source
from nmt.search.options import Sampling, SearchOptions
from nmt.search.phrases import Phrase
from nmt.translate.torch_engine import TorchEngine

SRC_VOCAB, TGT_VOCAB = 40, 307  # a prime: the best tokens are looked for in blocks that are filled
SOURCES = [Source(tuple(range(4, 4 + length))) for length in (9, 8, 8, 7, 5, 3, 1)]
BEAM = SearchOptions(beam_size=4, n_best=2, barred_ids=(0, 1, 2), max_extra_tokens=8)


def model_of(kind: str, device: str, seed: int = 1) -> TranslationModel:
    torch.manual_seed(seed)
    model = build_model(architecture_of(TINY[kind]), TINY[kind], SRC_VOCAB, TGT_VOCAB)
    with torch.no_grad():  # logits that differ
        model.output_projection.mul_(8)
    return model.to(device).eval()


def search(
    members: list[TranslationModel], options: SearchOptions, **others: object
) -> tuple[list[SearchResult], list[dict[str, int]]]:
    """Return what is found, and what each step has waited and copied, except for the first two."""
    seen = []
    engine = TorchEngine(
        members[0] if len(members) == 1 else Ensemble(members),
        options,
        device=members[0].output_projection.device,
        **others,  # type: ignore[arg-type]
    )
    sources = (
        [
            replace(source, prefix=(5, 6), phrases=phrases)
            for source, phrases in zip(SOURCES, PHRASES, strict=True)
        ]
        if options.min_tokens
        else SOURCES
    )
    found = engine.search(sources, on_step=lambda: seen.append(counts()))
    steps = [
        {name: after[name] - count for name, count in before.items()}
        for before, after in pairwise(seen[2:])
    ]
    return found, steps


PHRASES = [(Phrase(((70, 71),)),), (), (Phrase(((99,),)),), (), (), (), ()]


def compared(kinds: list[str], options: SearchOptions, **others: object) -> list[dict[str, int]]:
    """Search on both devices, and return the steps on the GPU."""
    of_device = (
        search([model_of(kind, device, seed) for seed, kind in enumerate(kinds)], options, **others)
        for device in ("cuda", "cpu")
    )
    (found, steps), (expected, _) = of_device
    for results, wanted in zip(found, expected, strict=True):
        assert isinstance(results, list) and isinstance(wanted, list), (results, wanted)
        assert [one.ids for one in results] == [one.ids for one in wanted]
        assert [one.score for one in results] == pytest.approx([one.score for one in wanted], 1e-4)
    assert len(steps) > 3
    return steps


@pytest.mark.parametrize("kind", TINY)
def test_a_step_of_each_architecture_waits_once(kind: str) -> None:
    for step in compared([kind], BEAM):
        assert (step["waits"], step["copies in"], step["copies out"]) == (1, 1, 1)


def test_groups_that_began_at_different_times_are_read_together() -> None:
    for step in compared(["transformer"], BEAM, batch_tokens=36)[3:5]:
        assert (step["waits"], step["copies out"]) == (1, 1)


@pytest.mark.parametrize(
    ("options", "copies"),
    [
        (replace(BEAM, beam_size=1, n_best=1), 1),
        (replace(BEAM, no_repeat_ngram=2, repetition_penalty=1.3, forbidden=((9,), (8, 7))), 2),
        (replace(BEAM, min_tokens=4), 2),
        (SearchOptions(n_best=3, sampling=Sampling(temperature=0.7, top_k=20)), 2),
        (SearchOptions(n_best=2, sampling=Sampling()), 2),
    ],
    ids=["greedy", "repetition", "phrases, prefixes, lengths", "top-k", "sampling"],
)
def test_each_search_waits_once(options: SearchOptions, copies: int) -> None:
    for step in compared(["transformer"], options):
        assert (step["waits"], step["copies out"]) == (1, 1)
        assert step["copies in"] <= copies


def test_nucleus_sampling_waits_twice() -> None:
    # The second wait is for whether its 512 candidates are enough.
    for step in compared(["transformer"], SearchOptions(sampling=Sampling(top_p=0.9))):
        assert (step["waits"], step["copies out"]) == (2, 1)


def test_ensembles_wait_once() -> None:
    for step in compared(["transformer", "rnn_attention", "conv_seq2seq"], BEAM):
        assert (step["waits"], step["copies in"], step["copies out"]) == (1, 3, 1)
