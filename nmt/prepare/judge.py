"""The cleaning rules applied to the pairs of a block."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from nmt.data.composition import compose
from nmt.data.manifest import FlawRecord
from nmt.data.shards import Lengths
from nmt.prepare.cleaning import RULES, Cleaning
from nmt.prepare.duplicates import OverlapKeys, pair_keys
from nmt.prepare.language_id import LanguageIdentifier
from nmt.prepare.repairs import examine
from nmt.prepare.text import Block, Counts, Mask, Rows, TextSide, decode_block

Verdicts = npt.NDArray[np.uint8]
"""One code for each pair: `KEPT`, or the code of the rule that dropped it."""

KEPT = 0
CODES = {rule: code for code, rule in enumerate(RULES, start=1)}
RULE_OF = {code: rule for rule, code in CODES.items()}


@dataclass(frozen=True)
class Pairs:
    """The text of a block, as rules judge it."""

    src: TextSide
    tgt: TextSide
    held_out: tuple[OverlapKeys, OverlapKeys]
    """Source and target lines of valid and test, which train must not repeat."""
    are_drawn: Mask  # (pairs,) for valid, or equal to one that is
    are_held_out: Mask  # (pairs,) whether the whole pair is one of valid or test
    are_missing: Mask  # (pairs,) whether a side is missing
    are_variants: Mask  # (pairs,) whether a side is only there in another script or region
    are_breaks: Mask  # (pairs,) whether both sides are blank, in documents
    score_low: Mask  # (pairs,) whether a score is below its minimum, or is not a number
    langs: tuple[str, str]
    identifier: LanguageIdentifier | None

    @cached_property
    def shorter(self) -> Counts:
        """Characters of the shorter side, without spaces: (pairs,)."""
        return np.minimum(self.src.visible, self.tgt.visible)

    @cached_property
    def longer(self) -> Counts:
        """Characters of the longer side, without spaces: (pairs,)."""
        return np.maximum(self.src.visible, self.tgt.visible)

    @property
    def in_other_language(self) -> Mask:
        """Whether a side is surely not in its language: (pairs,)."""
        assert self.identifier is not None  # or the rule does not apply
        src, tgt = (
            self.identifier.in_other_language(side.lines, lang)
            for side, lang in zip((self.src, self.tgt), self.langs, strict=True)
        )
        return src | tgt

    @property
    def are_equal(self) -> Mask:
        """Whether both sides have the same NFC, except for white space at the edges: (pairs,)."""
        lines = zip(self.src.lines, self.tgt.lines, strict=True)
        return np.fromiter((s == t or _are_equal(s.strip(), t.strip()) for s, t in lines), np.bool_)


def _are_equal(one: str, other: str) -> bool:
    return one == other or (
        not (one.isascii() or other.isascii()) and compose(one) == compose(other)
    )


@dataclass(frozen=True)
class TokenCounts:
    """The tokens of pairs, not counting the end token."""

    src: Lengths | Counts  # (pairs,)
    tgt: Lengths | Counts

    @property
    def shorter(self) -> Lengths | Counts:
        return np.minimum(self.src, self.tgt)

    @property
    def longer(self) -> Lengths | Counts:
        return np.maximum(self.src, self.tgt)


@dataclass(frozen=True, kw_only=True)
class Cleaner:
    """The rules with everything that they need."""

    cleaning: Cleaning
    held_out: tuple[OverlapKeys, OverlapKeys]
    """Source and target lines of valid and test, which train must not repeat."""
    min_scores: tuple[tuple[float, ...], ...]
    """For each training text, the least score of each column of scores."""
    identifier: LanguageIdentifier | None = None
    """Of --langid."""
    drawn: tuple[Rows, ...] = ()
    """Line numbers drawn for valid, for each training text; empty if nothing was drawn."""
    drawn_pairs: frozenset[frozenset[str]] = frozenset()
    """The keys of these pairs, by which the rule `valid` drops the same pair elsewhere in train."""
    held_out_pairs: frozenset[frozenset[str]] = frozenset()
    """The keys of whole pairs of valid and test that the rule `overlap` drops whatever their
    length."""
    documents: bool = False
    """Whether lines that are blank on both sides end documents."""

    def read(self, block: Block) -> tuple[TextSide, TextSide, tuple[FlawRecord, ...]]:
        """Return the sides of a block, repaired by --fix, and the flaws that they had."""
        (src, tgt), flaws = examine(block, decode_block(block), self.cleaning.fix)
        return src, tgt, flaws

    def judge_text(self, block: Block, src: TextSide, tgt: TextSide) -> Verdicts:
        """Judge the pairs of a block by the rules that need no tokens: (pairs,)."""
        numbers = np.array(
            block.numbers or range(block.number, block.number + block.lines), np.int64
        )
        are_drawn = are_held_out = are_breaks = score_low = np.zeros(block.lines, np.bool_)
        if self.drawn:
            are_drawn = np.isin(numbers, self.drawn[block.corpus])
            are_drawn |= _are_among(self.drawn_pairs, src, tgt)
        if self.held_out_pairs:
            are_held_out = _are_among(self.held_out_pairs, src, tgt)
        if self.documents:
            are_breaks = blank_pairs(src, tgt)
        for column, least in zip(block.scores, self.min_scores[block.corpus], strict=True):
            score_low = score_low | ~(np.array(column) >= least)  # NaN is dropped, too
        are_missing = np.isin(numbers, list(block.missing))
        are_variants = np.isin(numbers, list(block.variants))
        pairs = Pairs(
            src,
            tgt,
            self.held_out,
            are_drawn,
            are_held_out,
            are_missing,
            are_variants,
            are_breaks,
            score_low,
            block.langs,
            self.identifier,
        )
        return _verdicts(
            block.lines,
            (
                (rule.name, rule.of_text(pairs, self.cleaning))
                for rule in RULES.values()
                if rule.of_text is not None and self.cleaning.applies(rule.name)
            ),
        )

    def judge_tokens(self, src: Lengths, tgt: Lengths) -> Verdicts:
        """Judge pairs by their number of tokens, not counting the end token: (pairs,)."""
        counts = TokenCounts(src, tgt)
        return _verdicts(
            len(src),
            (
                (rule.name, rule.of_tokens(counts, self.cleaning))
                for rule in RULES.values()
                if rule.of_tokens is not None and self.cleaning.applies(rule.name)
            ),
        )


def blank_pairs(src: TextSide, tgt: TextSide) -> Mask:
    """Return which pairs are blank on both sides: (pairs,)."""
    found: Mask = (src.visible == 0) & (tgt.visible == 0)
    return found


def _are_among(known: frozenset[frozenset[str]], src: TextSide, tgt: TextSide) -> Mask:
    """Return which pairs have one of the known keys: (pairs,)."""
    keys = pair_keys(src, tgt)
    return np.fromiter((key in known for key in keys), np.bool_, len(keys))


def _verdicts(pairs: int, dropped: Iterable[tuple[str, Mask]]) -> Verdicts:
    """Return the first rule that drops each pair."""
    verdicts = np.zeros(pairs, np.uint8)
    for rule, mask in dropped:
        verdicts[mask & (verdicts == KEPT)] = CODES[rule]
    return verdicts
