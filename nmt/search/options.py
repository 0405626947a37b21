"""What search looks for."""

from __future__ import annotations

import math
from dataclasses import dataclass

from nmt.errors import UsageError, did_you_mean

LENGTH_PENALTY_FORMS = ("wu", "power")


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """What search looks for."""

    beam_size: int = 4
    n_best: int = 1
    length_penalty: float = 0.6  # alpha
    length_penalty_form: str = "wu"
    max_extra_tokens: int = 50  # a translation has at most this many tokens more than its source
    barred_ids: tuple[int, ...] = ()  # tokens that are never produced

    def __post_init__(self) -> None:
        if not 1 <= self.n_best <= self.beam_size:
            raise UsageError(
                f"n-best is {self.n_best}; it must lie between 1 and the beam size {self.beam_size}"
            )
        if not 0 <= self.length_penalty < math.inf:
            raise UsageError(
                f"length penalty is {self.length_penalty}; it must be a number from 0 up"
            )
        if self.max_extra_tokens < 0:
            raise UsageError(f"max-extra-tokens is {self.max_extra_tokens}; it must be 0 or more")
        if self.length_penalty_form not in LENGTH_PENALTY_FORMS:
            form = self.length_penalty_form
            raise UsageError(
                f"unknown length penalty form {form!r}{did_you_mean(form, LENGTH_PENALTY_FORMS)}"
            )

    def penalty(self, length: int) -> float:
        """Return what a log-probability is divided by at `length` tokens, eos counted.

        `wu` is ((5 + length) / 6)^alpha (Wu et al. 2016, equation 14); `power` is length^alpha.
        """
        base = (5 + length) / 6 if self.length_penalty_form == "wu" else float(length)
        return float(base**self.length_penalty)
