"""What a step of search begins on the pretended GPU, copies, and waits for, whatever its size.

`test_pretended_gpu.py` runs these tests on the pretended GPU. That results are those of a CPU is in
`test_gpu.py`.
"""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from pretended_gpu.cuda import counts
from tiny_models import TINY, architecture_of

from nmt.models.base import TranslationModel
from nmt.models.ensemble import Ensemble
from nmt.models.registry import build_model
from nmt.search.engine import Source
from nmt.search.options import Sampling, SearchOptions
from nmt.search.phrases import Phrase
from nmt.search.torch_engine import TorchEngine

GPU = torch.device("cuda")
SRC_VOCAB, TGT_VOCAB = 40, 307  # a prime: the best tokens are looked for in blocks that are filled
SOURCES = [Source(tuple(range(4, 4 + length))) for length in (9, 8, 8, 7, 5, 3, 1)]
PHRASES = [(Phrase(((70, 71),)),), (), (Phrase(((99,),)),), (), (), (), ()]
BEAM = SearchOptions(beam_size=4, n_best=2, barred_ids=(0, 1, 2), max_extra_tokens=8)
PLACED = replace(BEAM, min_tokens=4)
"""With phrases and prefixes, too."""


def build(kind: str, seed: int) -> TranslationModel:
    torch.manual_seed(seed)
    model = build_model(architecture_of(TINY[kind]), TINY[kind], SRC_VOCAB, TGT_VOCAB)
    with torch.no_grad():  # logits that differ
        model.output_projection.mul_(8)
    return model.to(GPU).eval()


def steps_of(kinds: str, options: SearchOptions, **others: int) -> list[dict[str, int]]:
    """Return what each step has begun, waited for and copied, except for the first two."""
    members = [build(kind, seed) for seed, kind in enumerate(kinds.split("+"))]
    model = members[0] if len(members) == 1 else Ensemble(members)
    engine = TorchEngine(model, options, device=GPU, **others)  # type: ignore[arg-type]
    sources, seen = SOURCES, list[dict[str, int]]()
    if options is PLACED:
        placed = zip(SOURCES, PHRASES, strict=True)
        sources = [replace(one, prefix=(5, 6), phrases=own) for one, own in placed]
    engine.search(sources, on_step=lambda: seen.append(counts()))
    steps = [
        {name: after[name] - count for name, count in before.items()}
        for before, after in pairwise(seen[2:])
    ]
    assert len(steps) > 3
    return steps


@pytest.mark.parametrize("kinds", [*TINY, "transformer+rnn_attention+conv_seq2seq"])
def test_a_step_waits_once_and_copies_once_to_each_member(kinds: str) -> None:
    for step in steps_of(kinds, BEAM):
        members = kinds.count("+") + 1
        assert (step["waits"], step["copies in"], step["copies out"]) == (1, members, 1)


@pytest.mark.parametrize(
    ("kinds", "operators"),
    [
        ("transformer", 102),
        ("conv_seq2seq", 60),
        ("rnn_attention", 71),
        ("transformer+transformer", 189),
    ],
)
def test_a_step_begins_at_most_so_many_operators(kinds: str, operators: int) -> None:
    assert max(step["operators"] for step in steps_of(kinds, replace(BEAM, n_best=1))) == operators


def test_groups_that_began_at_different_times_are_read_together() -> None:
    for step in steps_of("transformer", BEAM, batch_tokens=36)[3:5]:
        assert (step["waits"], step["copies out"]) == (1, 1)


@pytest.mark.parametrize(
    ("options", "copies", "waits"),
    [
        (replace(BEAM, beam_size=1, n_best=1), 1, 1),
        (replace(BEAM, no_repeat_ngram=2, repetition_penalty=1.3), 2, 1),
        (PLACED, 2, 1),
        (SearchOptions(n_best=3, sampling=Sampling(temperature=0.7, top_k=20)), 2, 1),
        (SearchOptions(n_best=2, sampling=Sampling()), 2, 1),
        # The second wait is for whether 512 candidates are enough.
        (SearchOptions(sampling=Sampling(top_p=0.9)), 2, 2),
    ],
    ids=["greedy", "repetition", "phrases, prefixes, lengths", "top-k", "sampling", "nucleus"],
)
def test_each_search_waits_once(options: SearchOptions, copies: int, waits: int) -> None:
    for step in steps_of("transformer", options):
        assert (step["waits"], step["copies out"]) == (waits, 1)
        assert step["copies in"] <= copies
