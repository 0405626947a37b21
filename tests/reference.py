"""Oracles, slow and obvious: what the fast code is held against.

Each is written from its definition, in loops where that is plainest, and shares no code with `nmt`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Array = npt.NDArray[np.floating[Any]]
Ids = tuple[int, ...]

BOS, EOS = 2, 3


# -------------------------------------------------------------------------------------- models


def attention(query: Array, key: Array, value: Array, mask: npt.NDArray[np.bool_]) -> Array:
    """softmax(query key^T / sqrt(K)) value, one query and one key at a time.

    query: (B, H, T, K); key: (B, H, S, K); value: (B, H, S, any); mask: (B, H, T, S), True = may
    attend.
    """
    attended = np.zeros((*query.shape[:3], value.shape[3]))
    for b, h, t in np.ndindex(query.shape[:3]):
        weights = {}
        for s in range(key.shape[2]):
            if mask[b, h, t, s]:
                product = sum(query[b, h, t, k] * key[b, h, s, k] for k in range(key.shape[3]))
                weights[s] = math.exp(product / math.sqrt(key.shape[3]))
        for s, weight in weights.items():
            attended[b, h, t] += weight / sum(weights.values()) * value[b, h, s]
    return attended


def relative_attention(
    query: Array,
    key: Array,
    value: Array,
    mask: npt.NDArray[np.bool_],
    for_keys: Array,
    for_values: Array,
) -> Array:
    """Equations 3 to 5 of Shaw et al. (2018): a pair has a key and a value of its own.

    query, key: (B, H, T, K); value: (B, H, T, V); mask: (B, H, T, T), True = may attend; for_keys:
    (2k + 1, K) and for_values: (2k + 1, V), what is added at the distances -k to k.
    """
    farthest = len(for_keys) // 2
    attended = np.zeros(value.shape)
    for b, h, t in np.ndindex(query.shape[:3]):
        terms = []
        for s in np.flatnonzero(mask[b, h, t]):
            row = max(-farthest, min(farthest, int(s) - t)) + farthest
            product = query[b, h, t] @ (key[b, h, s] + for_keys[row])
            terms.append(
                (math.exp(product / math.sqrt(query.shape[3])), value[b, h, s] + for_values[row])
            )
        for weight, vector in terms:
            attended[b, h, t] += weight / sum(weight for weight, _ in terms) * vector
    return attended


def additive_attention(query: Array, keys: Array, w: Array, u: Array, v: Array) -> Array:
    """softmax over s of v^T tanh(W query + U key_s), one key at a time.

    query: (H,); keys: (S, H); w, u: (A, H); v: (A,). Returns the weights (S,).
    """
    weights = [
        math.exp(sum(v[a] * math.tanh(w[a] @ query + u[a] @ key) for a in range(len(v))))
        for key in keys
    ]
    return np.array(weights) / sum(weights)


def lstm_step(
    taken: Array, kept: Array, shown: Array, candidate: Array, cells: Array
) -> tuple[Array, Array]:
    """One unit at a time: its output, and what its cell holds from then on; each (H,)."""
    output, after = np.zeros(len(cells)), np.zeros(len(cells))
    for unit in range(len(cells)):
        i, f, o = (1 / (1 + math.exp(-gate[unit])) for gate in (taken, kept, shown))
        after[unit] = f * cells[unit] + i * math.tanh(candidate[unit])
        output[unit] = o * math.tanh(after[unit])
    return output, after


def sinusoidal_positions(length: int, d_model: int) -> Array:
    """PE(pos, 2i) = sin(pos / 10000^(2i / d_model)), PE(pos, 2i + 1) = cos of the same."""
    encoding = np.zeros((length, d_model))
    for position in range(length):
        for i in range(d_model // 2):
            angle = position / 10000 ** (2 * i / d_model)
            encoding[position, 2 * i] = math.sin(angle)
            encoding[position, 2 * i + 1] = math.cos(angle)
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


def rms_norm(x: Array, gain: Array, eps: float) -> Array:
    """x / sqrt(mean of squares + eps) * gain, over a vector (D,)."""
    size = math.sqrt(sum(a * a for a in x) / len(x) + eps)
    return np.array([a / size * g for a, g in zip(x, gain, strict=True)])


def swiglu(x: Array, gate: Array, value: Array, outer: Array) -> Array:
    """(Swish(x W) * x V) W2 of a vector (D,); gate, value: (F, D), outer: (D, F)."""
    hidden: list[float] = []
    for w, v in zip(gate, value, strict=True):
        a = float(x @ w)
        hidden.append(a / (1 + math.exp(-a)) * float(x @ v))
    return np.array([sum(w * h for w, h in zip(row, hidden, strict=True)) for row in outer])


def multi_step_attention(query: Array, keys: Array, embeddings: Array) -> tuple[Array, Array]:
    """sum over j of a_j (z_j + e_j), by S * sqrt(1 / S), with a = softmax(d z), of one query d.

    query: (D,); keys, the z, and embeddings, the e: (S, D). It also returns a: (S,).
    """
    exponentials = [math.exp(sum(d * z for d, z in zip(query, key, strict=True))) for key in keys]
    weights = np.array([one / sum(exponentials) for one in exponentials])
    attended = np.zeros(len(query))
    for weight, key, embedding in zip(weights, keys, embeddings, strict=True):
        attended += weight * (key + embedding)
    return attended * len(keys) * math.sqrt(1 / len(keys)), weights


def gated_convolution(x: Array, weight: Array, bias: Array, before: int) -> Array:
    """A * sigmoid(B) where [A B] is the convolution of a sentence, with zeros around it.

    x: (T, H); weight: (2H, k, H), its k from the first neighbour to the last; bias: (2H,); before:
    how many of the k stand before the token.
    """
    both = np.zeros((len(x), len(bias)))
    for t in range(len(x)):
        both[t] = bias
        for j in range(weight.shape[1]):
            if 0 <= t - before + j < len(x):
                both[t] += weight[:, j] @ x[t - before + j]
    half = len(bias) // 2
    gated: Array = both[:, :half] / (1 + np.exp(-both[:, half:]))
    return gated


# -------------------------------------------------------------------------------------- lexicon


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


# ------------------------------------------------------------------------------------ training


def smoothed_loss(logits: Array, targets: Sequence[int], eps: float) -> tuple[float, float]:
    """Cross-entropy against (1 - eps) at the target plus eps / V everywhere, and the plain one.

    logits: (n, V). Both are summed over the n tokens, in natural logarithms.
    """
    loss = nll = 0.0
    for row, target in zip(logits.astype(np.float64), targets, strict=True):
        log_probs = row - row.max() - math.log(np.exp(row - row.max()).sum())
        wanted = np.full(len(row), eps / len(row))
        wanted[target] += 1 - eps
        loss -= float((wanted * log_probs).sum())
        nll -= float(log_probs[target])
    return loss, nll


# -------------------------------------------------------------------------------------- search

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
        assert [row // old_width for row in rows.tolist()] == [
            s for s in kept for _ in range(width)
        ]
        self.prefixes = [self.prefixes[row] for row in rows.tolist()]
        self.tables = [self.tables[sentence] for sentence in kept]


class TableModel:
    """Steps states that look their logits up, as `TranslationModel.step` is to."""

    def step(self, states: Sequence[TableState], tokens: Tensor) -> Tensor:
        logits: list[Sequence[float]] = []
        for state in states:
            count = len(state.prefixes)
            logits += state.step(tokens[len(logits) : len(logits) + count].tolist())
        assert len(logits) == len(tokens)
        return torch.tensor(logits)

    vocab_size = 7

    def project(self, features: Tensor) -> Tensor:
        return features
