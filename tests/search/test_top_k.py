"""The top-k tokens are those that sorting everything finds."""

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
import pytest
import torch

from nmt.data.vocabulary import EOS_ID
from nmt.search.top_k import FREE, NextTokens, StepQuery, pick_tokens, top_k, top_tokens


@pytest.mark.parametrize("size", [1, 7, 128, 200, 1_009, 8_000])
@pytest.mark.parametrize("count", [1, 2, 8, 40])
@pytest.mark.parametrize("distinct", [2, 50, 10_000, 1 << 24])
def test_the_largest_are_those_of_a_stable_sort(size: int, count: int, distinct: int) -> None:
    # Few distinct values make many ties, of which the lowest index comes first.
    random = torch.Generator().manual_seed(size)
    values = torch.randint(distinct, (6, size), generator=random).float() - (distinct - 1)
    values[0, ::2] = -math.inf
    values[1, ::3], values[1, 1::3] = -0.0, 0.0
    count = min(count, size)
    expected, order = values.sort(dim=1, descending=True, stable=True)
    found, indices = top_k(values, count)
    assert torch.equal(found, expected[:, :count])
    assert torch.equal(indices, order[:, :count])


def query(rows: int, token: int = FREE, no_end: Sequence[int] = ()) -> StepQuery:
    found = StepQuery(np.full(rows, token))
    found.bar_end(np.array(no_end, np.int64))
    return found


def best(
    logits: list[torch.Tensor], query: StepQuery, *, count: int, barred_ids: Sequence[int]
) -> NextTokens:
    return pick_tokens(logits, query, pick=partial(top_tokens, count=count), barred_ids=barred_ids)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_log_probs_are_those_of_softmax_without_barred_tokens(dtype: torch.dtype) -> None:
    # In half precision, too, they are computed in fp32.
    logits = torch.randn(700, 1_000, generator=torch.Generator().manual_seed(1)).to(dtype)
    log_probs = logits.double().log_softmax(dim=1).numpy()
    possible = log_probs.copy()
    possible[:, [7, EOS_ID]] = -math.inf
    order = np.argsort(-possible, axis=1, kind="stable")[:, :5]
    for token in (EOS_ID, 7, 500):  # told even if it is barred
        own = logits.clone()  # since it is overwritten
        found = best([own[:20], own[20:]], query(700, token), count=5, barred_ids=(7, EOS_ID))
        np.testing.assert_allclose(
            found.scored_log_probs[:, 0], log_probs[:, token], rtol=0, atol=1e-5
        )
        np.testing.assert_array_equal(found.tokens, order)
        expected = np.take_along_axis(possible, order, 1)
        np.testing.assert_allclose(found.log_probs, expected, rtol=0, atol=1e-5)


def test_eos_is_barred_in_the_rows_that_may_not_end() -> None:
    logits = torch.zeros(4, 10)
    logits[:, EOS_ID] = 5.0
    found = best([logits], query(4, no_end=[1, 2]), count=1, barred_ids=())
    assert (found.tokens[:, 0] == EOS_ID).tolist() == [True, False, False, True]
    # Its probability is lent to no other token.
    assert found.log_probs[1, 0] == pytest.approx(float(logits[0].log_softmax(dim=0)[0]))


@pytest.mark.parametrize("bad", [math.nan, -math.nan, math.inf])
@pytest.mark.parametrize("token", [0, 500])
@pytest.mark.parametrize("count", [1, 5])
def test_a_row_without_numbers_is_told_by_its_first(bad: float, token: int, count: int) -> None:
    logits = torch.zeros(3, 1_000)
    logits[1, token] = bad
    found = best([logits], query(3), count=count, barred_ids=(0,))
    assert np.isnan(found.log_probs).tolist() == [[row == 1] * count for row in range(3)]
    assert ((found.tokens >= 0) & (found.tokens < 1_000)).all()
