"""Cleaning: the rules that reject a pair of training text, and the report of what they rejected.

A rule is there because what it rejects teaches nothing or the wrong thing; each counts what it
takes and can be switched off. The first rule that fits, in the order of `RULES`, is the one that
counts. Rules read the text as it is and change nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nmt.data.manifest import Settings
from nmt.errors import did_you_mean

RULES = {
    "encoding": "a side is not valid text in its encoding",
    "empty": "a side is blank, or has no tokens",
    "control": "a side holds control characters (other than tab) or U+FFFD",
    "identical": "both sides are equal",
    "ratio": "one side has more than --max-ratio times the characters of the other",
    "duplicate": "the pair stood earlier in the text",
    "too_long": "a side has more than --max-length tokens",
}
# Without them there would be nothing to learn from: no text, or no tokens.
_ALWAYS_ON = ("encoding", "empty")

# "Nein." may well be the translation of a sentence ten times its length.
RATIO_FREE_CHARACTERS = 50

_CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\ufffd]")

EXAMPLES_PER_RULE = 20
_EXAMPLE_CHARACTERS = 300


def is_blank(line: str) -> bool:
    """Whether a line has nothing but white space."""
    return not line.strip()


def has_control(src: str, tgt: str) -> bool:
    """Whether a side holds C0 or C1 controls (other than tab) or the sign for broken text."""
    return bool(_CONTROL.search(src) or _CONTROL.search(tgt))


def is_identical(src: str, tgt: str) -> bool:
    """Whether both sides are equal, but for white space at the edges."""
    return src.strip() == tgt.strip()


def is_out_of_ratio(src: str, tgt: str, max_ratio: float) -> bool:
    """Whether one side has more than `max_ratio` times the characters of the other.

    Never where the longer side has at most `RATIO_FREE_CHARACTERS`.
    """
    shorter, longer = sorted((len(src.strip()), len(tgt.strip())))
    return longer > RATIO_FREE_CHARACTERS and longer > max_ratio * shorter


def is_too_long(src_tokens: int, tgt_tokens: int, max_length: int) -> bool:
    """Whether a side has more than `max_length` tokens, end not counted."""
    return max(src_tokens, tgt_tokens) > max_length


@dataclass(frozen=True)
class Cleaner:
    """The rules as they were asked for."""

    max_ratio: float
    max_length: int
    off: frozenset[str]

    @classmethod
    def of(cls, settings: Settings) -> Cleaner:
        return cls(settings.max_ratio, settings.max_length, frozenset(settings.keep))

    def applies(self, rule: str) -> bool:
        return rule not in self.off

    def judge_text(self, src: str | None, tgt: str | None) -> str | None:
        """Return the rule that rejects a pair by its text (None: undecodable), or None."""
        if src is None or tgt is None:
            return "encoding"
        if is_blank(src) or is_blank(tgt):
            return "empty"
        if self.applies("control") and has_control(src, tgt):
            return "control"
        if self.applies("identical") and is_identical(src, tgt):
            return "identical"
        if self.applies("ratio") and is_out_of_ratio(src, tgt, self.max_ratio):
            return "ratio"
        return None

    def judge_lengths(self, src_tokens: int, tgt_tokens: int) -> str | None:
        """Return the rule that rejects a pair by its tokens, or None."""
        if not src_tokens or not tgt_tokens:
            return "empty"
        if self.applies("too_long") and is_too_long(src_tokens, tgt_tokens, self.max_length):
            return "too_long"
        return None


class RejectReport:
    """What the rules took from one text: how many pairs each, and the first few of them."""

    def __init__(self) -> None:
        self._counts = dict.fromkeys(RULES, 0)
        self._examples: dict[str, list[dict[str, int | str]]] = {rule: [] for rule in RULES}

    def add(self, rule: str, *, line: int, src: str, tgt: str) -> None:
        """Count a rejected pair."""
        self._counts[rule] += 1
        if len(examples := self._examples[rule]) < EXAMPLES_PER_RULE:
            examples.append({"line": line, "src": _shorten(src), "tgt": _shorten(tgt)})

    @property
    def counts(self) -> dict[str, int]:
        """Rejected pairs by rule, without the rules that took none."""
        return {rule: count for rule, count in self._counts.items() if count}

    @property
    def examples(self) -> Mapping[str, Sequence[Mapping[str, int | str]]]:
        """The first pairs that each rule took: line number, source and target."""
        return {rule: examples for rule, examples in self._examples.items() if examples}


def _shorten(line: str) -> str:
    return line if len(line) <= _EXAMPLE_CHARACTERS else line[:_EXAMPLE_CHARACTERS] + "..."


def check_keep(keep: Sequence[str]) -> list[str]:
    """Return what is wrong with a list of rules to switch off."""
    problems = [
        f"--keep {rule}: there is no such rule{did_you_mean(rule, RULES)}"
        for rule in keep
        if rule not in RULES
    ]
    problems += [
        f"--keep {rule}: this rule cannot be switched off: {RULES[rule]}"
        for rule in keep
        if rule in _ALWAYS_ON
    ]
    return problems
