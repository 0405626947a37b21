"""The options of search, checked."""

from __future__ import annotations

import math
from dataclasses import dataclass

from nmt.errors import UsageError, did_you_mean

LENGTH_PENALTY_FORMS = ("wu", "power")

_LARGEST_BEAM = 1_000
_EXTRA_IN_WORD = 10  # tokens
_MOST_TOKENS = 100_000  # largest `min_tokens`
_LOWEST_TEMPERATURE = 0.001  # here, only the most probable token is drawn
_HIGHEST_PENALTY = 50  # far above any use, and length^alpha is still finite


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How tokens are drawn: among the `top_k` most probable, and of those among the fewest that
    hold `top_p` of their probability (Fan et al. 2018; Holtzman et al. 2020)."""

    temperature: float = 1.0  # logits are divided by it
    top_k: int = 0  # 0: all
    top_p: float = 1.0  # 1: all
    seed: int = 1

    def __post_init__(self) -> None:
        if not _LOWEST_TEMPERATURE <= self.temperature < math.inf:
            raise UsageError(
                f"temperature is {self.temperature}; it must be at least {_LOWEST_TEMPERATURE}"
            )
        if self.top_k < 0:
            raise UsageError(f"top-k is {self.top_k}; it must be 0 (all tokens) or more")
        if not 0 < self.top_p <= 1:
            raise UsageError(f"top-p is {self.top_p}; it must be above 0 and at most 1")
        if not 0 <= self.seed < 2**63:
            raise UsageError(f"the seed is {self.seed}; it must be between 0 and 2^63 - 1")


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """The options of beam search and sampling."""

    beam_size: int = 4
    n_best: int = 1
    length_penalty: float = 0.6  # alpha
    length_penalty_form: str = "wu"
    # Lengths are those of a segment or sentence, without eos. A longer prefix is taken whole.
    max_extra_tokens: int = 50  # a translation has at most this many tokens more than its source
    max_tokens: int | None = None  # the largest length
    min_tokens: int = 0  # the smallest length
    sampling: Sampling | None = None  # draw n_best translations instead of beam search
    barred_ids: tuple[int, ...] = ()  # tokens that are never produced

    def __post_init__(self) -> None:
        if not 1 <= self.beam_size <= _LARGEST_BEAM:
            raise UsageError(
                f"beam size is {self.beam_size}; it must be between 1 and {_LARGEST_BEAM}"
            )
        if self.n_best < 1:
            raise UsageError(f"n-best is {self.n_best}; it must be 1 or more")
        if self.sampling is None and self.n_best > self.beam_size:
            raise UsageError(
                f"n-best is {self.n_best}; it must be between 1 and the beam size {self.beam_size}"
            )
        if not 0 <= self.length_penalty <= _HIGHEST_PENALTY:
            raise UsageError(
                f"length penalty is {self.length_penalty}; it must be between 0 and "
                f"{_HIGHEST_PENALTY}"
            )
        if self.max_extra_tokens < 0:
            raise UsageError(f"max-extra-tokens is {self.max_extra_tokens}; it must be 0 or more")
        most = _MOST_TOKENS if self.max_tokens is None else min(self.max_tokens, _MOST_TOKENS)
        if not 0 <= self.min_tokens <= most:
            raise UsageError(
                f"min-tokens is {self.min_tokens} and max-tokens {self.max_tokens}; min-tokens "
                f"must be between 0 and {most}"
            )
        if self.length_penalty_form not in LENGTH_PENALTY_FORMS:
            form = self.length_penalty_form
            raise UsageError(
                f"unknown length penalty form {form!r}{did_you_mean(form, LENGTH_PENALTY_FORMS)}"
            )

    @property
    def width(self) -> int:
        """Hypotheses per sentence, W."""
        return self.beam_size if self.sampling is None else self.n_best

    def penalty(self, length: int) -> float:
        """Return the length penalty of `length` tokens, with eos.

        `wu` is ((5 + length) / 6)^alpha (Wu et al. 2016, equation 14); `power` is length^alpha.
        """
        base = (5 + length) / 6 if self.length_penalty_form == "wu" else float(length)
        return float(base**self.length_penalty)

    def longest(self, source_tokens: int, *, is_in_word: bool = False) -> int:
        """Return the largest length of a source's translation, both without eos.

        A segment of a very long word is hardly text. At best it is copied, so it gets few extra
        tokens.
        """
        extra = self.max_extra_tokens
        longest = source_tokens + (min(extra, _EXTRA_IN_WORD) if is_in_word else extra)
        if self.max_tokens is not None:
            longest = min(longest, self.max_tokens)
        return max(longest, self.min_tokens)
