"""The names of the cleaning rules, what each one rejects, and the bounds that nobody sets.

Free of numpy, because the command line shows them in its help.
"""

from __future__ import annotations

from collections.abc import Sequence

from nmt.errors import did_you_mean

# "Nein." may well be the translation of a sentence ten times its length.
RATIO_FREE_CHARACTERS = 50
# "Thank you." in valid is no reason to teach nobody how to say thank you.
OVERLAP_FREE_LETTERS = 30
WIDE_LETTER = 3
"""A letter of Chinese, Japanese or Korean says about as much as so many of an alphabet."""

RULES = {
    "valid": "the pair was drawn for valid (--valid-lines)",
    "encoding": "a side is not valid text in its encoding",
    "empty": "a side is blank, or has no tokens",
    "control": "a side holds control characters (other than tab) or U+FFFD",
    "identical": "both sides are equal",
    "ratio": "one side has more than --max-ratio times the characters of the other",
    "symbols": "more than --max-symbols of a side's characters are digits, punctuation or signs",
    "script": "most letters of a side are of another script than its language's",
    "overlap": "a side is one of valid or test, but for case, punctuation and spaces, and has "
    f"{OVERLAP_FREE_LETTERS} letters or digits (Chinese, Japanese, Korean ones count "
    f"{WIDE_LETTER} times)",
    "too_short": "a side has fewer than --min-length tokens",
    "too_long": "a side has more than --max-length tokens",
    "duplicate": "the pair, or its source (--duplicates-by), stood earlier in the text",
}
"""In the order in which they judge: the first that fits is the one that counts."""

# Without them valid would be learnt from, or there would be no text or no tokens.
_ALWAYS_ON = ("valid", "encoding", "empty")

DUPLICATES_BY = ("pair", "source")


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
