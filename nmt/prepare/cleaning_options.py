"""Cleaning: the rules that drop training pairs, in their order, and their options.

A pair that is dropped would teach the model nothing, or the wrong thing. Rules never change the
text. Most of them can be switched off. If several rules fit a pair, the first one counts.

To add a rule, give it a row at its place in `RULES`, and in `nmt.prepare.filters` a function with a
row in `TEXT_FILTERS` or `TOKEN_FILTERS`. If the rule has a threshold, add that to
`CleaningOptions`. The option, its help and its check, the reports and `dataset.json` follow. This
module does not load numpy, because `nmt --help` loads it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from nmt.config.fields import check, value

# Short pairs have free ratios: "Nein." may translate a sentence ten times its length.
RATIO_FREE_CHARACTERS = 50
# Short lines may repeat: "Thank you." in valid should not remove it from train.
OVERLAP_FREE_LETTERS = 30
LANGID_SURE, LANGID_DOUBT = 0.5, 0.02
# What fastText is not sure of is mostly short, and right.
BUNDLED_LANGID = "auto"
WIDE_LETTER = 3
"""A Chinese, Japanese or Korean letter says about as much as this many letters of an alphabet."""

EXACT, NEAR = "duplicate", "near_duplicate"  # the rules of duplicates
ENTITIES, ENCODING, HUNALIGN = "entities", "encoding", "hunalign"
FLAWS = {
    ENTITIES: "HTML entities",
    ENCODING: "a broken encoding",
    HUNALIGN: "the ~~~ of hunalign between sentences",
}
"""What lines may have that --fix repairs."""


_ARE_WIDE = f"Chinese, Japanese and Korean letters count {WIDE_LETTER} times"
_ARE_SYMBOLS = (
    f"of a side's characters, without spaces, are digits, punctuation or signs ({_ARE_WIDE})"
)
RULES = {
    "valid": "the pair was drawn for valid (--valid-lines), or a side equals or nearly copies one "
    "that was: they share 85 % of the shorter one's runs of four letters or digits",
    "missing": "a row of a table lacks a side",
    "encoding": "a side is not valid text in its encoding",
    "break": "with --documents: both sides are blank, which ends a document",
    "empty": "a side is blank, or has no tokens",
    "control": "a side contains control characters (other than tab) or U+FFFD",
    "markup": "a side is nothing but tags, such as <range>",
    "identical": "both sides are equal",
    "ratio": f"without spaces, the longer side has more than {RATIO_FREE_CHARACTERS} characters, "
    "and more than --max-ratio times as many as the other",
    "symbols": f"more than --max-symbols {_ARE_SYMBOLS}",
    "script": "most letters of a side belong to a script that its language does not use "
    f"({_ARE_WIDE}, words that stand on both sides do not count)",
    "language": "with --langid: a side is in another language with a probability of "
    f"{LANGID_SURE} or more, and in its own with one below {LANGID_DOUBT}",
    "overlap": "a side repeats a line of valid or test (case, punctuation and spaces ignored) of "
    f"at least {OVERLAP_FREE_LETTERS} letters or digits ({_ARE_WIDE}); with "
    "several --pair, also a whole pair of any length",
    "too_short": "a side has fewer than --min-length tokens",
    "too_long": "a side has more than --max-length tokens",
    # The last two are found when the blocks are back in their order, see `TrainSplit`.
    EXACT: "the pair, or its source (--duplicates-by), came earlier in the text",
    NEAR: "with --duplicates near: it came earlier but for case, digits, punctuation and spaces",
}
"""Why each rule drops a pair, in the order in which they are applied: the first one counts."""
ALWAYS = ("valid", "missing", "encoding", "break", "empty")
"""Rules that cannot be switched off: train would include valid, or pairs without a token."""

_cleaning_value = partial(value, panel="Cleaning of train")


@dataclass(frozen=True, kw_only=True)
class CleaningOptions:
    min_length: int = _cleaning_value(1, "Drop pairs if a side has fewer subwords.", minimum=1)
    max_length: int = _cleaning_value(256, "Drop pairs if a side has more subwords.")
    max_ratio: float = _cleaning_value(
        9.0,
        f"Drop pairs if, without spaces, the longer side has more than {RATIO_FREE_CHARACTERS} "
        "characters, and more than X times as many as the other.",
        minimum=1,
    )
    max_symbols: float = _cleaning_value(
        0.5, f"Drop pairs if more than this share {_ARE_SYMBOLS}.", minimum=0, maximum=1
    )
    langid: str = _cleaning_value(
        "",
        "Drop pairs with a side that is in another language: by the model that comes with the "
        "extra langid (auto), or by a fastText model of yours.",
        metavar="auto|FILE",
        shown="off",
    )
    duplicates: str = _cleaning_value(
        "exact",
        "With near, also drop pairs that repeat another but for case, digits, punctuation and "
        "spaces. This takes as much memory again.",
        choices=("exact", "near"),
    )
    duplicates_by: str = _cleaning_value(
        "pair",
        "Drop repeated pairs, or pairs with a repeated source. This takes 10.7 bytes of memory a "
        "line.",
        choices=("pair", "source"),
    )
    fix: tuple[str, ...] = _cleaning_value(
        (),
        "Repair this in the training text, before the rules: entities (&#39; becomes '), or "
        "encoding (fÃ¼r becomes für), which needs the extra fix. You can repeat it. Without it, "
        "such lines are counted, and you are warned of many.",
        choices=tuple(FLAWS),
        metavar="|".join(FLAWS),
    )
    keep: tuple[str, ...] = _cleaning_value(
        (),
        "Keep the pairs that this rule would drop. You can repeat it. The rules, in order:\n\n"
        + "\n\n".join(f"- [bold]{rule}[/bold]: {reason}" for rule, reason in RULES.items()),
        choices=tuple(RULES),
        metavar="RULE",
    )

    def __post_init__(self) -> None:
        check(self)

    def problems(self) -> Iterator[str]:
        """Yield what is wrong with the combination of options."""
        for rule in self.keep:
            if rule in ALWAYS:
                yield f"--keep {rule}: this rule cannot be switched off: {RULES[rule]}"
        if EXACT in self.keep and self.duplicates == "near":
            yield "--keep duplicate: --duplicates near drops them too; remove one of them"
        if EXACT in self.keep and self.duplicates_by == "source":
            yield "--keep duplicate: --duplicates-by source drops by this rule; remove one of them"
        if "language" in self.keep and self.langid:
            yield "--keep language: --langid drops by this rule; remove one of them"
        if self.max_length < self.min_length:
            yield f"--max-length {self.max_length}: must be --min-length or more"

    def applies(self, rule: str) -> bool:
        """Whether a rule is not switched off."""
        needed = {NEAR: self.duplicates == "near", "language": bool(self.langid)}
        return needed.get(rule, True) and rule not in self.keep

    @property
    def duplicate_rules(self) -> list[str]:
        """The rules of duplicates that apply, in their order."""
        return [rule for rule in (EXACT, NEAR) if self.applies(rule)]
