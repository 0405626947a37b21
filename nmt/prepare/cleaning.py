"""Cleaning: the rules that reject training pairs, a whole block at a time.

Rejected pairs would teach the model nothing, or the wrong thing. Rules never change the text. Most
of them can be switched off. If several rules fit a pair, the first in the order of `RULES` counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nmt.data.manifest import Settings
from nmt.data.shards import Lengths
from nmt.prepare.characters import CONTROL, FOREIGN, SIGN
from nmt.prepare.duplicates import OverlapKeys
from nmt.prepare.options import RATIO_FREE_CHARACTERS, RULES
from nmt.prepare.text import Block, Mask, Rows, TextSide

Verdicts = npt.NDArray[np.uint8]
"""One code for each pair: `KEPT`, or the code of the rule that rejected it."""

KEPT = 0
CODES = {rule: code for code, rule in enumerate(RULES, start=1)}
RULE_OF = {code: rule for rule, code in CODES.items()}


@dataclass(frozen=True, kw_only=True)
class Cleaner:
    """The cleaning rules with the bounds that the user chose."""

    max_ratio: float
    max_symbols: float
    min_length: int
    max_length: int
    off: frozenset[str]
    held_out: tuple[OverlapKeys, OverlapKeys]
    """Source and target lines of valid and test, which train must not repeat."""
    drawn: tuple[Rows, ...] = ()
    """Line numbers drawn for valid, for each training text; empty if nothing was drawn."""

    @classmethod
    def of(
        cls,
        settings: Settings,
        *,
        held_out: tuple[OverlapKeys, OverlapKeys],
        drawn: tuple[Rows, ...] = (),
    ) -> Cleaner:
        return cls(
            max_ratio=settings.max_ratio,
            max_symbols=settings.max_symbols,
            min_length=settings.min_length,
            max_length=settings.max_length,
            off=frozenset(settings.keep),
            held_out=held_out,
            drawn=drawn,
        )

    def applies(self, rule: str) -> bool:
        return rule not in self.off

    def judge_block(self, block: Block, src: TextSide, tgt: TextSide) -> Verdicts:
        """Judge the pairs of a block by their line numbers and their text: (pairs,)."""
        verdicts = self.judge_text(src, tgt)
        if self.drawn:
            numbers = block.numbers or range(block.number, block.number + block.lines)
            verdicts[np.isin(list(numbers), self.drawn[block.corpus])] = CODES["valid"]
        return verdicts

    def judge_text(self, src: TextSide, tgt: TextSide) -> Verdicts:
        """Judge the pairs of a block by the rules that need no tokens: (pairs,)."""
        verdicts = np.zeros(len(src.lines), np.uint8)
        for rule, rejected in self._text_rules(src, tgt):
            verdicts[rejected & (verdicts == KEPT)] = CODES[rule]
        return verdicts

    def judge_lengths(self, src_tokens: Lengths, tgt_tokens: Lengths) -> Verdicts:
        """Judge pairs by their number of tokens, not counting the end token: (pairs,)."""
        shorter, longer = np.minimum(src_tokens, tgt_tokens), np.maximum(src_tokens, tgt_tokens)
        verdicts = np.zeros(len(shorter), np.uint8)
        if self.applies("too_long"):
            verdicts[longer > self.max_length] = CODES["too_long"]
        if self.applies("too_short"):
            verdicts[shorter < self.min_length] = CODES["too_short"]
        verdicts[shorter == 0] = CODES["empty"]
        return verdicts

    def _text_rules(self, src: TextSide, tgt: TextSide) -> Iterator[tuple[str, Mask]]:
        """Yield each rule, in order, with the pairs that it rejects."""
        yield "encoding", src.is_bad | tgt.is_bad
        visible = [side.visible for side in (src, tgt)]
        shorter, longer = np.minimum(*visible), np.maximum(*visible)
        yield "empty", shorter == 0
        if self.applies("control"):
            yield "control", (src.count(CONTROL) + tgt.count(CONTROL)) > 0
        if self.applies("identical"):
            yield "identical", _are_equal(src.lines, tgt.lines)
        if self.applies("ratio"):
            measured = longer > RATIO_FREE_CHARACTERS
            yield "ratio", measured & (longer > self.max_ratio * shorter)
        signs = [side.count(SIGN) for side in (src, tgt)]
        if self.applies("symbols"):
            over = [s > self.max_symbols * v for s, v in zip(signs, visible, strict=True)]
            yield "symbols", over[0] | over[1]
        if self.applies("script"):
            letters = [v - s for v, s in zip(visible, signs, strict=True)]
            foreign = [side.count(FOREIGN) for side in (src, tgt)]
            over = [2 * f > n for f, n in zip(foreign, letters, strict=True)]
            yield "script", over[0] | over[1]
        if self.applies("overlap"):
            found = [k.found_in(side) for k, side in zip(self.held_out, (src, tgt), strict=True)]
            yield "overlap", found[0] | found[1]


def _are_equal(src: list[str], tgt: list[str]) -> Mask:
    """Whether both sides are equal, except for white space at the edges: (pairs,)."""
    equal = (s == t or s.strip() == t.strip() for s, t in zip(src, tgt, strict=True))
    return np.fromiter(equal, np.bool_, len(src))
