"""How well texts agree with each other: sentence chrF or BLEU of each with each as reference.

The scores are sacreBLEU's (`CHRF().sentence_score`, `BLEU(effective_order=True).sentence_score`).
All pairs are computed at once from the n-grams of the texts, instead of N^2 calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_CHRF_ORDER, _CHRF_BETA, _BLEU_ORDER = 6, 2, 4


def agreement(texts: Sequence[str], metric: str) -> Floats:
    """Return the chrF or BLEU (N, N), in percent, of each text against each as its reference."""
    different = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    scores = {"chrf": _chrf, "bleu": _bleu}[metric](list(different))
    rows = [different[text] for text in texts]
    return scores[np.ix_(rows, rows)]


def _chrf(texts: Sequence[str]) -> Floats:
    precisions, recalls, orders = (np.zeros((len(texts), len(texts))) for _ in range(3))
    for totals, matches in _matches(["".join(text.split()) for text in texts], _CHRF_ORDER):
        counts = (totals[:, None] > 0) & (totals > 0)  # orders that both texts are long enough for
        precisions += np.divide(matches, totals[:, None], out=np.zeros_like(matches), where=counts)
        recalls += np.divide(matches, totals, out=np.zeros_like(matches), where=counts)
        orders += counts
    precisions /= np.maximum(orders, 1)
    recalls /= np.maximum(orders, 1)
    weighted = _CHRF_BETA**2 * precisions + recalls
    product = (1 + _CHRF_BETA**2) * precisions * recalls
    scores: Floats = np.divide(product, weighted, out=np.zeros_like(weighted), where=weighted > 0)
    return 100 * scores


def _bleu(texts: Sequence[str]) -> Floats:
    from sacrebleu import BLEU  # takes a moment

    tokenized = [BLEU()._preprocess_segment(text).split() for text in texts]
    logs, doublings, correct = (np.zeros((len(texts), len(texts))) for _ in range(3))
    orders = np.zeros((len(texts), 1))
    lengths = np.array([float(len(tokens)) for tokens in tokenized])
    for totals, matches in _matches(tokenized, _BLEU_ORDER):
        counts = totals[:, None] > 0
        doublings += counts & (matches == 0)  # smoothing: 1/2, 1/4 and so on instead of 0 matches
        smoothed = np.where(matches == 0, 0.5**doublings, matches)
        logs += np.where(counts, np.log(smoothed / np.maximum(totals[:, None], 1)), 0)
        orders += counts
        correct += matches
    with np.errstate(divide="ignore", invalid="ignore"):
        brevity = np.exp(np.minimum(0, 1 - lengths / lengths[:, None]))
    return np.where(correct > 0, 100 * brevity * np.exp(logs / np.maximum(orders, 1)), 0.0)


def _matches(texts: Sequence[Sequence[str]], max_order: int) -> Iterator[tuple[Floats, Floats]]:
    """Yield for each order how many n-grams each text has (N,), and each pair in common (N, N)."""
    ids: dict[str, int] = {}
    numbers = [ids.setdefault(symbol, len(ids)) for text in texts for symbol in text]
    symbols = np.array(numbers, np.int64)
    owners = np.arange(len(texts)).repeat([len(text) for text in texts])  # (T,) of each symbol
    starts = np.arange(len(symbols))  # of the n-grams
    ngrams = symbols
    for order in range(1, max_order + 1):
        if order > 1:  # add the next symbol of the same text
            ends = starts + order - 1
            inside = ends < len(symbols)
            inside[inside] = owners[ends[inside]] == owners[starts[inside]]
            starts, ends = starts[inside], ends[inside]
            ngrams = ngrams[inside] * len(ids) + symbols[ends]
        # Numbered anew, so that numbers stay small.
        different, ngrams = np.unique(ngrams, return_inverse=True)
        places = owners[starts] * len(different) + ngrams
        flat = np.bincount(places, minlength=len(texts) * len(different))
        counts = flat.reshape(len(texts), -1)  # (N, n-grams)
        yield counts.sum(axis=1).astype(np.float64), _in_common(counts)


def _in_common(counts: Integers) -> Floats:
    """Return the sums (N, N) of the smaller counts: for 2 and 3 of an n-gram, 2."""
    common = np.zeros((len(counts), len(counts)))
    for times in range(1, int(counts.max(initial=0)) + 1):
        counts = counts[:, counts.max(axis=0) >= times]
        has = (counts >= times).astype(np.float32)  # products are exact up to 2^24
        common += has @ has.T
    return common
