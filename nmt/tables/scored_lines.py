"""Lines that hold more than text: what programs that translate write beside it."""

from __future__ import annotations

import re
from collections.abc import Sequence

N_BEST = "an n-best list"
_SCORED = "SCORE<TAB>TEXT"
_FORMS = {
    N_BEST: re.compile(r"\d+ \|\|\| (?:.* )?\|\|\| (?:-?\d\S*|-inf)"),
    _SCORED: re.compile(r"(?:-?\d+\.\d+|-inf)\t.*"),
    "TEXT<TAB>SCORE": re.compile(r".*\t(?:-?\d+\.\d+|-inf)"),
    "TEXT ||| ALIGNMENT": re.compile(r".* \|\|\|(?: \d+-\d+)* ?"),
    "TEXT ||| SOFT ALIGNMENT": re.compile(r".* \|\|\|(?: \d[\d.e-]*(?:,\d[\d.e-]*)+)+ ?"),
    "TEXT ||| WordScores=": re.compile(r".* \|\|\| WordScores=(?: -?[\d.e-]+)* ?"),
    "JSON": re.compile(r'\{"line": \d+, "text": .*\}'),
    "output of fairseq": re.compile(r"[DHPSTW]-\d+\t.*"),
    "NUMBER<TAB>TEXT": re.compile(r" *\d+\t.*"),  # also of `cat -n`
}
"""A line of each form, such as those of `nmt translate`."""
_UNRATED = "-\t"  # instead of the score of a line that `nmt translate --quality` has copied


def form_of(lines: Sequence[str]) -> str:
    """Return the form that all lines with text have; empty if they are plain text."""
    with_text = [line for line in lines if line.strip()]
    rated = [line for line in with_text if not line.startswith(_UNRATED)]
    found = (form for form, pattern in _FORMS.items() if all(map(pattern.fullmatch, rated)))
    return next(found, "") if rated else _SCORED if with_text else ""
