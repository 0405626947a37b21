"""What is found for a line."""

from __future__ import annotations

from dataclasses import dataclass

from nmt.search.alignment import Alignment


@dataclass(frozen=True)
class Translation:
    """A line's translation; the first is the best, with the others in it."""

    text: str
    score: float  # log-probability over length penalty; summed where a line was cut in pieces
    log_prob: float  # natural logarithm, eos counted; 0 for a blank line
    tokens: tuple[str, ...]  # subwords
    token_log_probs: tuple[float, ...]  # of the tokens, without eos's; CTranslate2 has none
    pieces: int  # into how many its source was cut; 0 for a blank line
    is_cut: bool = False  # because it, or a sentence, was longer than the model knows
    error: str = ""  # why there is none, with an empty text
    alignment: Alignment | None = None  # where it is asked for, and there is memory for it
    others: tuple[Translation, ...] = ()  # the second-best and on, where more are asked for

    @property
    def n_best(self) -> tuple[Translation, ...]:
        """This one and the others, best first."""
        return (self, *self.others)


BLANK = Translation("", 0.0, 0.0, (), (), 0)
