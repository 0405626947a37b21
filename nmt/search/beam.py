"""Batched beam search over any model's decoder state; greedy search is beam size 1.

A hypothesis is scored by its log-probability over a length penalty; higher is better. At each step
the 2W best extensions of a sentence's W alive hypotheses are looked at: the ones among the first W
that close with eos are finished, and the best W that do not are alive in the next step. A sentence
is done when W hypotheses are finished, or earlier when no alive one can still come among the best
`n_best`. It then leaves the batch.

Ties: equal log-probabilities are ordered by hypothesis, then by token id, the lower first; equal
scores by which was finished first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nmt.data.vocabulary import BOS_ID, EOS_ID
from nmt.errors import NMTError, UsageError, did_you_mean
from nmt.models.contract import DecoderState

LENGTH_PENALTY_FORMS = ("wu", "power")


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """What search looks for."""

    beam_size: int = 4
    n_best: int = 1
    length_penalty: float = 0.6  # alpha
    length_penalty_form: str = "wu"
    max_extra_tokens: int = 50  # a translation has at most this many tokens more than its source
    barred_ids: tuple[int, ...] = ()  # tokens that are never produced

    def __post_init__(self) -> None:
        if not 1 <= self.n_best <= self.beam_size:
            raise UsageError(
                f"n-best is {self.n_best}; it must lie between 1 and the beam size {self.beam_size}"
            )
        if not 0 <= self.length_penalty < math.inf:
            raise UsageError(
                f"length penalty is {self.length_penalty}; it must be a number from 0 up"
            )
        if self.max_extra_tokens < 0:
            raise UsageError(f"max-extra-tokens is {self.max_extra_tokens}; it must be 0 or more")
        if self.length_penalty_form not in LENGTH_PENALTY_FORMS:
            form = self.length_penalty_form
            raise UsageError(
                f"unknown length penalty form {form!r}{did_you_mean(form, LENGTH_PENALTY_FORMS)}"
            )

    def penalty(self, length: int) -> float:
        """Return what a log-probability is divided by at `length` tokens, eos counted.

        `wu` is ((5 + length) / 6)^alpha (Wu et al. 2016, equation 14); `power` is length^alpha.
        """
        base = (5 + length) / 6 if self.length_penalty_form == "wu" else float(length)
        return float(base**self.length_penalty)


@dataclass(frozen=True)
class Hypothesis:
    """A finished translation as token ids."""

    ids: tuple[int, ...]  # without eos
    log_prob: float  # natural logarithm, eos counted
    score: float  # log_prob over the length penalty


@dataclass
class _Alive:
    """The hypotheses that search extends, for the B sentences still in the batch."""

    sentences: list[int]  # (B,) where each stands in the batch that search was given
    limits: list[int]  # (B,) most tokens of each one's translation
    ids: Tensor  # (B, W, t) int64 on the CPU
    log_probs: Tensor  # (B, W) fp32 on the CPU; -inf where there is no hypothesis


def beam_search(
    state: DecoderState,
    limits: Sequence[int],
    options: SearchOptions,
    device: torch.device,
    *,
    on_step: Callable[[], object] | None = None,
) -> list[list[Hypothesis]]:
    """Find the best translations of a batch.

    Args:
        state: fresh, of B sentences.
        limits: most target tokens of each of the B sentences, eos not counted.
        options: what to look for.
        device: where the state computes.
        on_step: called before each step of the decoder; what it raises ends the search.

    Returns:
        For each sentence its `n_best` hypotheses (fewer where fewer exist), best first.
    """
    width = options.beam_size
    finished: list[list[Hypothesis]] = [[] for _ in limits]
    alive = _Alive(
        sentences=list(range(len(limits))),
        limits=list(limits),
        ids=torch.empty(len(limits), width, 0, dtype=torch.int64),
        log_probs=torch.full((len(limits), width), -math.inf),
    )
    alive.log_probs[:, 0] = 0.0  # all hypotheses are the same at first: one of them counts
    tokens = torch.full((len(limits) * width,), BOS_ID)
    while alive.sentences:
        if on_step is not None:
            on_step()
        logits = state.step(tokens.to(device))  # (B * W, V)
        log_probs, parents, next_tokens = _best_extensions(logits, alive, options)  # (B, 2W) each
        _collect_finished(finished, alive, log_probs, parents, next_tokens, options)
        keep = _advance(alive, log_probs, parents, next_tokens)  # (B, W) columns of the extensions
        going = [row for row in range(len(keep)) if not _is_done(alive, row, finished, options)]
        if not going:
            break
        rows_kept = torch.tensor(going)  # (B',)
        rows = (rows_kept[:, None] * width + parents.gather(1, keep)[rows_kept]).flatten()
        _trim(alive, going)
        tokens = alive.ids[:, :, -1].flatten()  # (B' * W,)
        if len(rows) < len(logits) or not torch.equal(rows, torch.arange(len(rows))):
            state.select(rows.to(device), rows_kept.to(device))
    return [_ranked(hypotheses)[: options.n_best] for hypotheses in finished]


def _best_extensions(
    logits: Tensor, alive: _Alive, options: SearchOptions
) -> tuple[Tensor, Tensor, Tensor]:
    """Return log-probabilities, parents and tokens of the 2W best extensions, each (B, 2W).

    For example with W = 2 and V = 5, flat index 7 is parent 7 // 5 = 1 extended by token 2.
    """
    batch, width = alive.log_probs.shape
    vocab_size = logits.shape[-1]
    log_probs = torch.log_softmax(logits.float(), dim=-1)  # (B * W, V)
    extended = log_probs.view(batch, width, vocab_size)
    extended[:, :, list(options.barred_ids)] = -math.inf
    at_limit = [row for row, limit in enumerate(alive.limits) if alive.ids.shape[2] >= limit]
    if at_limit:  # all that is left for these is to close
        closing = extended[at_limit, :, EOS_ID]
        extended[at_limit] = -math.inf
        extended[at_limit, :, EOS_ID] = closing
    extended += alive.log_probs.to(extended.device)[:, :, None]  # (B, W, V)
    count = min(2 * width, width * vocab_size)
    log_probs, flat = _largest(extended.flatten(1), count)  # (B, 2W)
    if log_probs.isnan().any():
        raise NMTError("the model's output is not a number; its weights are damaged or diverged")
    return log_probs, flat // vocab_size, flat % vocab_size


def _largest(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return each row's `count` largest values and their indices, on the CPU, equal ones by index.

    topk leaves open in what order equal values come, and which of them where not all have room.
    """
    room = min(count + 1, values.shape[1])
    found, indices = (part.cpu() for part in values.topk(room, dim=1))  # (B, count + 1)
    indices, by_index = indices.sort(dim=1)
    found, by_value = found.gather(1, by_index).sort(dim=1, descending=True, stable=True)
    indices = indices.gather(1, by_value)
    last, next_one = found[:, count - 1], found[:, room - 1]
    if room > count:
        for row in ((last == next_one) & (last > -math.inf)).nonzero()[:, 0].tolist():
            reaching = (values[row] >= last[row].item()).nonzero()[:, 0]  # ascending
            best, order = values[row, reaching].sort(descending=True, stable=True)
            found[row, :count] = best[:count].cpu()
            indices[row, :count] = reaching[order[:count]].cpu()
    return found[:, :count], indices[:, :count]


def _collect_finished(
    finished: list[list[Hypothesis]],
    alive: _Alive,
    log_probs: Tensor,
    parents: Tensor,
    next_tokens: Tensor,
    options: SearchOptions,
) -> None:
    """Move the extensions by eos among the first W to the finished hypotheses."""
    width = options.beam_size
    closed = (next_tokens[:, :width] == EOS_ID) & (log_probs[:, :width] > -math.inf)
    length = alive.ids.shape[2] + 1
    for row, column in closed.nonzero().tolist():
        log_prob = float(log_probs[row, column])
        ids = tuple(alive.ids[row, parents[row, column]].tolist())
        finished[alive.sentences[row]].append(
            Hypothesis(ids, log_prob, log_prob / options.penalty(length))
        )


def _advance(alive: _Alive, log_probs: Tensor, parents: Tensor, next_tokens: Tensor) -> Tensor:
    """Extend the alive hypotheses by the best W extensions without eos; return their columns."""
    width = alive.log_probs.shape[1]
    closes = next_tokens == EOS_ID  # (B, 2W)
    # Columns in order, those that close behind all others. At most W can close.
    keep = closes.to(torch.int8).argsort(dim=1, stable=True)[:, :width]  # (B, W)
    alive.log_probs = log_probs.masked_fill(closes, -math.inf).gather(1, keep)
    chosen = parents.gather(1, keep)[:, :, None].expand(-1, -1, alive.ids.shape[2])  # (B, W, t)
    extensions = next_tokens.gather(1, keep)[:, :, None]  # (B, W, 1)
    alive.ids = torch.cat((alive.ids.gather(1, chosen), extensions), dim=2)  # (B, W, t + 1)
    return keep


def _is_done(
    alive: _Alive, row: int, finished: list[list[Hypothesis]], options: SearchOptions
) -> bool:
    found = finished[alive.sentences[row]]
    best_alive = float(alive.log_probs[row, 0])
    if len(found) >= options.beam_size or best_alive == -math.inf:
        return True
    if len(found) < options.n_best:
        return False
    # Log-probabilities only fall and penalties only rise, so this is the best that can come.
    bound = best_alive / options.penalty(alive.limits[row] + 1)
    return _ranked(found)[options.n_best - 1].score >= bound


def _trim(alive: _Alive, rows: list[int]) -> None:
    alive.sentences = [alive.sentences[row] for row in rows]
    alive.limits = [alive.limits[row] for row in rows]
    alive.ids = alive.ids[rows]  # (B', W, t)
    alive.log_probs = alive.log_probs[rows]  # (B', W)


def _ranked(hypotheses: list[Hypothesis]) -> list[Hypothesis]:
    return sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)
