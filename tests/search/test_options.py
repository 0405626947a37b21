"""Options of search that make no sense are refused, and named."""

import math

import pytest

from nmt.errors import UsageError
from nmt.search.options import Sampling, SearchOptions


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (SearchOptions, {"n_best": 5, "beam_size": 4}, "the beam size 4"),
        (SearchOptions, {"length_penalty": -0.1}, "--length-penalty -0.1: "),
        (SearchOptions, {"length_penalty": math.nan}, "nan: "),
        (SearchOptions, {"length_penalty_form": "powr"}, "powr: unknown"),
        (SearchOptions, {"min_tokens": -1}, "--min-tokens -1"),
        (SearchOptions, {"min_tokens": 9, "max_tokens": 3}, "--max-tokens 3"),
        (SearchOptions, {"repetition_penalty": 0.9}, "--repetition-penalty 0.9: "),
        (Sampling, {"temperature": 1e-9}, "--temperature 1e-09"),
        (Sampling, {"temperature": math.nan}, "--temperature nan"),
        (Sampling, {"top_p": 0.0}, "--top-p 0: "),
        (Sampling, {"top_k": -1}, "--top-k -1"),
        (Sampling, {"seed": -1}, "--seed -1"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    kind: type[SearchOptions | Sampling], options: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        kind(**options)  # type: ignore[arg-type]
