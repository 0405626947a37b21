#!/usr/bin/env bash
# opusfilter 3.3.1, which cleans parallel text: TerminalPunctuationFilter and NonZeroNumeralsFilter,
# with the thresholds that they have by default.
#
# Expected: the first compares the two sides' marks at the ends of sentences, the second their
# digits. So a pair passes if both sides have as many of the one and the same of the other.
#
# Seen: the first also counts how many marks there are. Five full stops on both sides are too many,
# as in a line of five sentences, or one of two sentences that trail off by "...". Four pass, but
# not with Chinese, whose full stop does not count. To the second, only 0 to 9 are digits: a year in
# Devanagari, Arabic or full-width digits drops the pair.
#
# What it means for parallel text: on documents, leave the first out or lower its threshold, and the
# second with languages that have digits of their own, or you lose the long lines and the dates.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet opusfilter==3.3.1
cd "$folder"

venv/bin/python - <<'PYTHON'
from opusfilter.filters import NonZeroNumeralsFilter, TerminalPunctuationFilter

MARKS, DIGITS = TerminalPunctuationFilter(), NonZeroNumeralsFilter()
for rule, source, target, expected in (
    (MARKS, " ".join(["He came."] * 4), " ".join(["Er kam."] * 4), True),
    (MARKS, " ".join(["He came."] * 5), " ".join(["Er kam."] * 5), False),
    (MARKS, " ".join(["He came."] * 4), "他来了。" * 4, False),
    (MARKS, "Well... I see...", "Na ja... Ich verstehe...", False),
    (DIGITS, "In 1995", "Im Jahr 1995", True),
    (DIGITS, "In 1995", "१९९५ में", False),
    (DIGITS, "In 1995", "في عام ١٩٩٥", False),
    (DIGITS, "In 1995", "１９９５年", False),
):
    [score] = rule.score([(source, target)])
    kept = bool(rule.accept(score))
    print(f"{source} | {target}: {'kept' if kept else 'dropped'}")
    assert kept == expected, "changed"
PYTHON
