"""The cleaning rules applied to the pairs of a block: a function for each row of `RULES`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from nmt.data.composition import compose
from nmt.data.shards import Lengths
from nmt.prepare.block import KEPT, Counts, Mask, Overlaps, Pairs, Rows, Verdicts
from nmt.prepare.characters import CONTROL, letters_by_script
from nmt.prepare.cleaning_options import RATIO_FREE_CHARACTERS, RULES, CleaningOptions
from nmt.prepare.duplicates import LEAST_LENGTH, NEAR_COPY, HeldOutLines, OverlapKeys, pair_keys
from nmt.prepare.language_id import LanguageIdentifier

CODES = {rule: code for code, rule in enumerate(RULES, start=1)}
_ONLY_TAGS = re.compile(r"\s*+(?>(?:</?[A-Za-z][^<>]*+>\s*+)+)")
RULE_OF = {code: rule for rule, code in CODES.items()}

TokenCounts = Lengths | Counts


class Filters(NamedTuple):
    """The rules with everything that they need to judge pairs."""

    cleaning: CleaningOptions
    held_out: tuple[OverlapKeys, OverlapKeys]
    """Source and target lines of valid and test, which train must not repeat."""
    identifier: LanguageIdentifier | None = None  # of --langid
    drawn: tuple[Rows, ...] = ()
    """Line numbers drawn for valid, for each training text; empty if nothing was drawn."""
    drawn_pairs: frozenset[frozenset[str]] = frozenset()
    """The keys of the drawn pairs, by which the rule `valid` drops a pair elsewhere in train."""
    held_out_pairs: frozenset[frozenset[str]] = frozenset()
    """The keys of whole pairs of valid and test that the rule `overlap` drops whatever their
    length."""
    drawn_lines: Mapping[str, HeldOutLines] = {}
    """The drawn lines by language, whose near copies the rule `valid` drops."""
    held_out_lines: Mapping[str, HeldOutLines] = {}
    """All lines of valid and test by language, with which what is left of train is compared."""
    held_out_count: int = 0  # how many pairs valid and test have
    documents: bool = False  # whether lines that are blank on both sides end documents

    def judge_text(self, pairs: Pairs) -> Verdicts:
        """Judge the pairs of a block by the rules that need no tokens: (pairs,)."""
        applied = filter(self.cleaning.applies, TEXT_FILTERS)
        masks = ((rule, TEXT_FILTERS[rule](pairs, self)) for rule in applied)
        return _verdicts(pairs.block.lines, masks)

    def nearest(self, pairs: Pairs, rows: Rows) -> Overlaps:
        """Return the largest overlap that some pairs have with each pair of valid and test.

        Either side counts: (held_out_count,).
        """
        nearest = np.zeros(self.held_out_count, np.int16)
        for side, lang in zip(pairs.sides, pairs.block.langs, strict=True):
            if (lines := self.held_out_lines.get(lang)) is not None:
                _, of_lines = lines.compare(side, rows, least=LEAST_LENGTH)
                np.maximum.at(nearest, lines.pairs, of_lines)
        return nearest


def _valid(pairs: Pairs, by: Filters) -> Mask:
    if not by.drawn:
        return pairs.none
    is_drawn = np.isin(pairs.numbers, by.drawn[pairs.block.corpus])
    is_drawn |= _are_among(by.drawn_pairs, pairs)
    for side, lang in zip(pairs.sides, pairs.block.langs, strict=True):
        if (lines := by.drawn_lines.get(lang)) is not None:
            rows = np.flatnonzero(~is_drawn)
            is_drawn[rows] = lines.compare(side, rows)[0] >= NEAR_COPY
    return is_drawn


def _markup(pairs: Pairs, _: Filters) -> Mask:
    is_markup = pairs.none
    for side in pairs.sides:
        for row in side.rows_of(np.flatnonzero(side.codes == ord("<"))).tolist():
            is_markup[row] |= _ONLY_TAGS.fullmatch(side.lines[row]) is not None
    return is_markup


def _identical(pairs: Pairs, _: Filters) -> Mask:
    """Return which pairs have sides of the same NFC, without white space at the edges."""
    src, tgt = pairs.sides
    may_be: Mask = src.visible == tgt.visible
    may_be |= src.beyond_ascii & tgt.beyond_ascii  # what NFC composes may be shorter
    for row in np.flatnonzero(may_be).tolist():
        may_be[row] = _are_equal(src.lines[row].strip(), tgt.lines[row].strip())
    return may_be


def _are_equal(one: str, other: str) -> bool:
    return one == other or (
        not (one.isascii() or other.isascii()) and compose(one) == compose(other)
    )


def _ratio(pairs: Pairs, by: Filters) -> Mask:
    is_measured = pairs.longer > RATIO_FREE_CHARACTERS
    return is_measured & (pairs.longer > by.cleaning.max_ratio * pairs.shorter)


def _symbols(pairs: Pairs, by: Filters) -> Mask:
    """Return which pairs have a side of too many signs, for lines such as `16-17世纪。`."""
    found, most = pairs.none, by.cleaning.max_symbols
    for side in pairs.sides:
        for row in np.flatnonzero(side.signs > most * side.visible).tolist():
            letters = letters_by_script(side.lines[row], "", ()).total()
            found[row] |= side.signs[row] > most * (side.signs[row] + letters)
    return found


def _language(pairs: Pairs, by: Filters) -> Mask:
    """Return which pairs have a side that is surely in another language."""
    assert by.identifier is not None  # or the rule does not apply
    (src, tgt), (src_lang, tgt_lang) = (side.lines for side in pairs.sides), pairs.block.langs
    is_foreign = by.identifier.in_other_language
    return is_foreign(src, src_lang, tgt) | is_foreign(tgt, tgt_lang, src)


def _overlap(pairs: Pairs, by: Filters) -> Mask:
    are_held_out = _are_among(by.held_out_pairs, pairs) if by.held_out_pairs else pairs.none
    src, tgt = by.held_out
    return are_held_out | src.found_in(pairs.src) | tgt.found_in(pairs.tgt)


TEXT_FILTERS: Mapping[str, Callable[[Pairs, Filters], Mask]] = {
    "valid": _valid,
    "missing": lambda pairs, _: pairs.lacking,
    "encoding": lambda pairs, _: pairs.src.is_bad | pairs.tgt.is_bad,
    "break": lambda pairs, by: np.equal(pairs.longer, 0) if by.documents else pairs.none,
    "empty": lambda pairs, _: np.equal(pairs.shorter, 0),
    "control": lambda pairs, _: pairs.src.count(CONTROL) + pairs.tgt.count(CONTROL) > 0,
    "markup": _markup,
    "identical": _identical,
    "ratio": _ratio,
    "symbols": _symbols,
    "script": lambda pairs, _: np.logical_or(*pairs.in_other_script),
    "language": _language,
    "overlap": _overlap,
}
"""Which pairs a rule drops, in the order of the rules: (pairs,)."""
TOKEN_FILTERS: Mapping[str, Callable[[TokenCounts, TokenCounts, CleaningOptions], Mask]] = {
    "empty": lambda shorter, _longer, _: np.equal(shorter, 0),
    "too_short": lambda shorter, _, cleaning: np.less(shorter, cleaning.min_length),
    "too_long": lambda _, longer, cleaning: np.greater(longer, cleaning.max_length),
}
"""Which pairs a rule drops by their tokens, given those of the shorter and of the longer side:
(pairs,) each."""


def token_verdicts(
    src: TokenCounts,
    tgt: TokenCounts,
    cleaning: CleaningOptions,
    rules: Sequence[str] = tuple(TOKEN_FILTERS),
) -> Verdicts:
    """Judge pairs by some rules, given the tokens of both sides: (pairs,) each."""
    shorter, longer = np.minimum(src, tgt), np.maximum(src, tgt)
    applied = filter(cleaning.applies, rules)
    masks = ((rule, TOKEN_FILTERS[rule](shorter, longer, cleaning)) for rule in applied)
    return _verdicts(len(src), masks)


def _are_among(known: frozenset[frozenset[str]], pairs: Pairs) -> Mask:
    """Return which pairs have one of the known keys: (pairs,)."""
    keys = pair_keys(pairs.src.lines, pairs.tgt.lines)
    return np.fromiter((key in known for key in keys), np.bool_, len(keys))


def _verdicts(pairs: int, dropped: Iterable[tuple[str, Mask]]) -> Verdicts:
    """Return the first rule that drops each pair."""
    verdicts = np.zeros(pairs, np.uint8)
    for rule, mask in dropped:
        verdicts[mask & (verdicts == KEPT)] = CODES[rule]
    return verdicts
