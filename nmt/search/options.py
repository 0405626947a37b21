"""The options of search, checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from nmt.config.fields import check, value
from nmt.data.words import WordEdges

if TYPE_CHECKING:
    from nmt.data.vocabulary import Vocabulary

_sampling, _search, _repetition = (
    partial(value, panel=panel) for panel in ("Sampling", "Search", "Repetition")
)

_EXTRA_IN_WORD = 10  # tokens
_USUAL_EXTRA = 8  # tokens, besides half of the source's


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How tokens are drawn: among the `top_k` most probable, and of those among the fewest that
    hold `top_p` of their probability (Fan et al. 2018; Holtzman et al. 2020)."""

    temperature: float = _sampling(
        1.0,
        "Divide logits by this. Below 1, likely tokens are sampled more often.",
        minimum=0.001,  # here, only the most probable token is drawn
    )
    top_k: int = _sampling(0, "Sample from the N most probable tokens.", minimum=0, shown="0: all")
    top_p: float = _sampling(
        1.0,
        "Sample from the smallest set of tokens with at least this total probability.",
        above=0,
        maximum=1,
        shown="1.0: all",
    )
    seed: int = _sampling(
        1,
        "Seed of sampling. A line's samples depend only on the seed and its text.",
        minimum=0,
        maximum=2**63 - 1,
    )

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """The options of beam search and sampling.

    Lengths are those of a segment or sentence, without eos. A longer prefix is used whole.
    """

    beam_size: int = value(4, "Beam size. 1 is greedy search.", minimum=1, maximum=1_000)
    length_penalty: float = _search(
        0.6,
        "Length penalty alpha. 0 switches it off.",
        minimum=0,
        maximum=50,  # far above any use, and length^alpha is still finite
    )
    length_penalty_form: str | None = _search(
        None,
        "wu is ((5 + len) / 6)^alpha, power is len^alpha.",
        choices=("wu", "power"),
        shown="wu; power for a CTranslate2 export, which has no other",
    )
    max_extra_tokens: int = _search(
        50, "Limit translations to the length of the source plus this many tokens.", minimum=0
    )
    max_tokens: int | None = _search(
        None, "Limit translations to this many tokens.", minimum=0, shown="no other limit"
    )
    min_tokens: int = _search(
        0, "Do not end translations with fewer tokens.", minimum=0, maximum=100_000
    )
    no_repeat_ngram: int = _repetition(
        0,
        "Do not let a translation contain the same N tokens in a row twice.",
        minimum=0,
        maximum=1_000,
        shown="0: off",
    )
    repetition_penalty: float = _repetition(
        1.0,
        "Make tokens that a translation already has less likely: positive logits are divided by X, "
        "negative ones multiplied. 1.2 is usual. Scores include it.",
        minimum=1,
        maximum=100,
        shown="1.0: off",
    )
    no_guard: bool = _repetition(
        False,
        "Keep translations that repeat themselves, run to their length limit or are empty. "
        "Otherwise they are searched again with --no-repeat-ngram 4 --repetition-penalty 1.2, or "
        "with --min-tokens 1 if they are empty, and the better one is kept.",
    )
    no_copy: bool = _search(
        False,
        "Translate lines without letters, too, such as 2024 or ***. Otherwise they are copied. Use "
        "it if the source language is written in digits, emoji or other signs.",
    )
    n_best: int = 1  # hypotheses to return
    sampling: Sampling | None = None  # draw n_best translations instead of beam search
    barred_ids: tuple[int, ...] = ()  # tokens that are never produced
    # Ids to text. Hypotheses of the same text, cut differently into tokens, count once.
    decode: Callable[[Sequence[Sequence[int]]], Sequence[str]] | None = None
    first_ids: tuple[int, ...] = ()  # tokens that the decoder reads after bos, before the others
    find_word_edges: Callable[[], WordEdges] | None = None
    """Looks at all pieces, as only phrases need. None: each token is a word."""
    is_first_look: bool = False  # whether translations of unusual length are searched later

    def __post_init__(self) -> None:
        check(self)

    def problems(self) -> Iterator[str]:
        """Yield what is wrong with the combination of values."""
        if self.n_best < 1 or (self.sampling is None and self.n_best > max(1, self.beam_size)):
            yield f"--n-best {self.n_best}: must be from 1 to the beam size {self.beam_size}"
        if self.max_tokens is not None and self.min_tokens > self.max_tokens:
            yield f"--min-tokens {self.min_tokens}: must be at most --max-tokens {self.max_tokens}"

    def into(self, vocabulary: Vocabulary) -> SearchOptions:
        """Return the options with what search must know of the vocabulary of targets."""
        # One hypothesis has nothing to be compared with, and samples may be equal.
        decode = vocabulary.decode if self.n_best > 1 and self.sampling is None else None
        return replace(
            self,
            barred_ids=tuple(dict.fromkeys((*self.barred_ids, *vocabulary.barred_ids))),
            first_ids=vocabulary.first,
            decode=decode,
            find_word_edges=lambda: vocabulary.word_edges,
        )

    @property
    def word_edges(self) -> WordEdges | None:
        """Which tokens begin or end inside a word."""
        return None if self.find_word_edges is None else self.find_word_edges()

    @property
    def width(self) -> int:
        """Hypotheses per sentence, W."""
        return self.beam_size if self.sampling is None else self.n_best

    def penalty(self, length: int) -> float:
        """Return the length penalty of `length` tokens, with eos.

        `wu` is ((5 + length) / 6)^alpha (Wu et al. 2016, equation 14); `power` is length^alpha.
        """
        base = float(length) if self.length_penalty_form == "power" else (5 + length) / 6
        return float(base**self.length_penalty)

    def longest(self, source_tokens: int, is_in_word: bool = False) -> int:
        """Return the largest length of a source's translation, both without eos.

        A segment of a very long word is hardly text. At best it is copied, so it gets few extra
        tokens.
        """
        extra = self.max_extra_tokens
        if self.is_first_look:
            extra = min(extra, source_tokens // 2 + _USUAL_EXTRA)
        longest = source_tokens + (min(extra, _EXTRA_IN_WORD) if is_in_word else extra)
        if self.max_tokens is not None:
            longest = min(longest, self.max_tokens)
        return max(longest, self.min_tokens)
