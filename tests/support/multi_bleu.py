"""BLEU as Moses' multi-bleu.perl defines it, from the definition (Papineni et al. 2002, section 2).

Text is tokens with spaces between, and stays as it is: no tokenizer, no smoothing. Shares no code
with `nmt` and none with sacreBLEU.
"""

import math
from collections.abc import Sequence


def multi_bleu(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Return BLEU in percent; references: R lists of as many lines as there are hypotheses."""
    matches, totals = [0] * 4, [0] * 4
    hypothesis_length = reference_length = 0
    for number, line in enumerate(hypotheses):
        tokens = line.split()
        others = [lines[number].split() for lines in references]
        hypothesis_length += len(tokens)
        # The length nearest to the hypothesis', of two equally near ones the shorter.
        reference_length += min(map(len, others), key=lambda n: (abs(n - len(tokens)), n))
        for n in (1, 2, 3, 4):
            grams = ngrams(tokens, n)
            totals[n - 1] += len(grams)
            for gram in set(grams):
                most = max(ngrams(other, n).count(gram) for other in others)
                matches[n - 1] += min(grams.count(gram), most)
    if 0 in matches:
        return 0.0
    precision = math.prod(m / t for m, t in zip(matches, totals, strict=True)) ** (1 / 4)
    return 100 * min(1.0, math.exp(1 - reference_length / hypothesis_length)) * precision


def ngrams(tokens: Sequence[str], n: int) -> list[tuple[str, ...]]:
    return [tuple(tokens[start : start + n]) for start in range(len(tokens) - n + 1)]
