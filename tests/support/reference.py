"""Oracles, slow and obvious: what the fast code is held against.

Each is written from its definition, in loops where that is plainest, and shares no code with `nmt`.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Array = npt.NDArray[np.floating[Any]]
Ids = tuple[int, ...]

BOS, EOS = 2, 3


def attention(
    query: Array,
    key: Array,
    value: Array,
    mask: npt.NDArray[np.bool_],
    relative: Sequence[Array] = (),
) -> tuple[Array, Array]:
    """softmax(query key^T / sqrt(K)) value, one query and one key at a time, and that softmax.

    query: (..., T, K); key: (..., S, K); value: (..., S, V); mask: broadcastable to (..., T, S),
    True = may attend; relative: (2k + 1, K) and (2k + 1, V), what is added to a key and to its
    value at the distances -k to k from the query (Shaw et al. 2018, equations 3 to 5). The queries
    are at the last T of S positions.
    """
    first = key.shape[-2] - query.shape[-2]
    weights = np.zeros((*query.shape[:-1], key.shape[-2]))
    attended = np.zeros((*query.shape[:-1], value.shape[-1]))
    for *head, t in np.ndindex(query.shape[:-1]):
        seen = {}
        for s in np.flatnonzero(np.broadcast_to(mask, weights.shape)[(*head, t)]):
            own_key, own_value = key[(*head, s)], value[(*head, s)]
            if relative:
                farthest = len(relative[0]) // 2
                row = max(-farthest, min(farthest, int(s) - t - first)) + farthest
                own_key, own_value = own_key + relative[0][row], own_value + relative[1][row]
            seen[s] = math.exp(query[(*head, t)] @ own_key / math.sqrt(query.shape[-1])), own_value
        for s, (weight, own_value) in seen.items():
            weights[(*head, t, s)] = weight / sum(weight for weight, _ in seen.values())
            attended[(*head, t)] += weights[(*head, t, s)] * own_value
    return attended, weights


def sinusoidal_positions(length: int, d_model: int) -> Array:
    """PE(pos, 2i) = sin(pos / 10000^(2i / d_model)), PE(pos, 2i + 1) = cos of the same."""
    encoding = np.zeros((length, d_model))
    for position in range(length):
        for i in range(d_model // 2):
            angle = position / 10000 ** (2 * i / d_model)
            encoding[position, 2 * i] = math.sin(angle)
            encoding[position, 2 * i + 1] = math.cos(angle)
    return encoding


def sinusoids_by_halves(length: int, d_model: int) -> Array:
    """Marian's: the sines of half the wavelengths each, then their cosines."""
    half, encoding = d_model // 2, np.zeros((length, d_model))
    for position in range(length):
        for i in range(half):
            angle = position / 10000 ** (i / (half - 1) if half > 1 else 0)
            encoding[position, i] = math.sin(angle)
            encoding[position, half + i] = math.cos(angle)
    return encoding


def rotated(x: Array, position: int) -> Array:
    """Rotary positions: pair i of a vector (K,) turned by position / 10000^(2i / K)."""
    turned = np.zeros_like(x)
    for i in range(len(x) // 2):
        angle = position / 10000 ** (2 * i / len(x))
        a, b = x[2 * i], x[2 * i + 1]
        turned[2 * i] = a * math.cos(angle) - b * math.sin(angle)
        turned[2 * i + 1] = a * math.sin(angle) + b * math.cos(angle)
    return turned


def ibm_model_1(
    pairs: Sequence[tuple[Sequence[int], Sequence[int]]], iterations: int
) -> dict[tuple[int | None, int], float]:
    """t(target | source) of IBM Model 1, sources with a None in front, from all alike on."""
    probs: dict[tuple[int | None, int], float] = {}
    for _ in range(iterations):
        expected: dict[tuple[int | None, int], float] = {}
        for source, target in pairs:
            for to in target:
                row = [None, *source]
                total = sum(probs.get((word, to), 1.0) for word in row)
                for word in row:
                    share = (probs[word, to] if probs else 1.0) / total
                    expected[word, to] = expected.get((word, to), 0.0) + share
        sums: dict[int | None, float] = {}
        for (word, _to), count in expected.items():
            sums[word] = sums.get(word, 0.0) + count
        probs = {(word, to): count / sums[word] for (word, to), count in expected.items()}
    return probs


def grown_links(
    source: Sequence[int],
    target: Sequence[int],
    forward: Mapping[tuple[int, int], float],
    backward: Mapping[tuple[int, int], float],
) -> list[int]:
    """Each target token's source position, or -1: the intersection of both directions, grown.

    The probabilities are by (source, target).
    """

    def best(probs: Sequence[float], place: int, length: int) -> int:
        def distance(other: int) -> Fraction:
            return abs(Fraction(2 * other + 1, len(probs)) - Fraction(2 * place + 1, length))

        likely = [other for other, prob in enumerate(probs) if prob == max(probs) > 0]
        return min(likely, key=distance, default=-1)

    to_source = [
        best([forward.get((s, t), 0.0) for s in source], place, len(target))
        for place, t in enumerate(target)
    ]
    to_target = [
        best([backward.get((s, t), 0.0) for t in target], place, len(source))
        for place, s in enumerate(source)
    ]
    links = [s if s >= 0 and to_target[s] == t else -1 for t, s in enumerate(to_source)]
    while True:
        joining = [
            t
            for t, s in enumerate(to_source)
            if links[t] == -1 and s >= 0
            for near in (t - 1, t + 1)
            if 0 <= near < len(target) and links[near] >= 0 and abs(links[near] - s) <= 1
        ]
        if not joining:
            return links
        for t in joining:
            links[t] = to_source[t]


NextLogits = Callable[[Ids], Sequence[float]]
"""The tokens of a prefix, begin not among them, to the logits of the token that follows."""


def log_softmax(logits: Sequence[float]) -> list[float]:
    """The logarithm of exp(logit) / sum of exp(logits)."""
    total = math.fsum(math.exp(logit) for logit in logits)
    return [logit - math.log(total) for logit in logits]


def all_translations(
    next_logits: NextLogits, limit: int, barred: Sequence[int] = (), prefix: Ids = ()
) -> list[tuple[Ids, float]]:
    """Every sequence of at most `limit` tokens, and its log-probability with eos counted."""
    log_probs = log_softmax(next_logits(prefix))
    found = [(prefix, log_probs[EOS])]
    if len(prefix) < limit:
        for token in range(len(log_probs)):
            if token != EOS and token not in barred:
                for ids, rest in all_translations(next_logits, limit, barred, (*prefix, token)):
                    found.append((ids, log_probs[token] + rest))
    return found


def greedy(next_logits: NextLogits, limit: int, barred: Sequence[int] = ()) -> Ids:
    """The most probable token again and again, until it is eos or `limit` is reached."""
    ids: Ids = ()
    while len(ids) < limit:
        logits = list(next_logits(ids))
        allowed = [token for token in range(len(logits)) if token not in barred]
        best = max(allowed, key=lambda token: logits[token])  # the lowest of equal ones
        if best == EOS:
            break
        ids = (*ids, best)
    return ids


class TableState:
    """Hypotheses whose logits are looked up: each sentence has a function from prefix to logits.

    It also checks that search keeps its side of the contract.
    """

    def __init__(self, tables: Sequence[NextLogits]) -> None:
        self.tables = list(tables)
        self.prefixes: list[Ids] = [()] * len(tables)
        self.is_fresh = True
        self.rows_of_steps: list[int] = []

    def step(self, tokens: Sequence[int]) -> list[Sequence[float]]:
        if self.is_fresh:
            assert set(tokens) == {BOS}
        else:
            pairs = zip(self.prefixes, tokens, strict=True)
            self.prefixes = [(*prefix, token) for prefix, token in pairs]
        self.is_fresh = False
        self.rows_of_steps.append(len(tokens))
        width = len(self.prefixes) // len(self.tables)
        return [self.tables[row // width](prefix) for row, prefix in enumerate(self.prefixes)]

    def select(self, rows: Tensor, sentences: Tensor) -> None:
        kept, old_width = sentences.tolist(), len(self.prefixes) // len(self.tables)
        assert len(set(kept)) == len(kept) > 0
        width, rest = divmod(len(rows), len(kept))
        assert not rest
        # The rows of a sentence are neighbours, as many for each, and taken from its own.
        assert [r // old_width for r in rows.tolist()] == [s for s in kept for _ in range(width)]
        self.prefixes = [self.prefixes[row] for row in rows.tolist()]
        self.tables = [self.tables[sentence] for sentence in kept]


class TableModel:
    """Steps states that look their logits up, as `TranslationModel.step` is to."""

    def step(self, states: Sequence[TableState], tokens: Tensor) -> Tensor:
        logits: list[Sequence[float]] = []
        for state in states:
            logits += state.step(tokens[len(logits) : len(logits) + len(state.prefixes)].tolist())
        assert len(logits) == len(tokens)
        return torch.tensor(logits)

    vocab_size = 7

    def project(self, features: Tensor) -> Tensor:
        return features


def learned_merges(words: Sequence[str], count: int, *, apart: bool = False) -> list[list[str]]:
    """Byte-pair encoding of Sennrich et al. (2016), algorithm 1: the pairs in their order.

    apart: whether the end of a word is a part of its own at first, as in version 0.1 of the codes.
    """
    rows, merges = [word_parts(word, apart=apart) for word in words], list[list[str]]()
    while len(merges) < count:
        counts = Counter(pair for row in rows for pair in pairwise(row))
        _, pair = max((times, pair) for pair, times in counts.items())
        merges.append(list(pair))
        rows = [joined_everywhere(row, merges[-1]) for row in rows]
    return merges


def merged(word: str, merges: Sequence[Sequence[str]], *, apart: bool = False) -> list[str]:
    """The parts of a word, with `</w>` at its end."""
    parts = word_parts(word, apart=apart)
    for pair in merges:
        parts = joined_everywhere(parts, pair)
    return parts


def word_parts(word: str, *, apart: bool) -> list[str]:
    return [*word, "</w>"] if apart else [*word[:-1], word[-1] + "</w>"]


def joined_everywhere(parts: Sequence[str], pair: Sequence[str]) -> list[str]:
    """The parts after each occurrence of a pair has become one, from left to right."""
    joined = list[str]()
    for part in parts:
        if joined and [joined[-1], part] == list(pair):
            joined[-1] += part
        else:
            joined.append(part)
    return joined
