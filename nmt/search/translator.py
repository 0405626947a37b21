"""Lines in, translations out: encoding, batching by length, search, decoding.

What a line's translation is does not depend on the lines beside it: batches only decide how fast
it comes, to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from nmt.data.batches import pack_sources
from nmt.data.vocabulary import Vocabulary
from nmt.errors import UsageError, did_you_mean
from nmt.models.contract import TranslationModel
from nmt.models.device import DTYPES
from nmt.models.model_file import load_model
from nmt.models.out_of_memory import memory_errors
from nmt.models.packed_weights import PRECISIONS, pack
from nmt.search.beam import Group, Hypothesis, beam_search
from nmt.search.options import SearchOptions
from nmt.search.pieces import join_pieces, split_ids


@dataclass(frozen=True)
class Translation:
    """One translation of one line."""

    text: str
    score: float  # log-probability over length penalty; summed where a line was cut in pieces
    log_prob: float  # natural logarithm; 0 for a blank line
    tokens: tuple[str, ...]  # subwords
    pieces: int  # into how many its source was cut; 0 for a blank line
    error: str = ""  # why there is none, with an empty text


# Search never produces these, but a foreign vocabulary's rules for decoding might.
_LINE_BREAKERS = str.maketrans("\n\r\0", "   ")

BLANK = Translation("", 0.0, 0.0, (), 0)

_CPU_BATCH_TOKENS = 4_096
_GPU_BATCH_TOKENS = 16_384

_NO_NUMBER = "the model's output is not a number"
_NO_MEMORY = "not enough memory for it alone"


class Translator:
    """A model ready to translate."""

    def __init__(
        self,
        model: TranslationModel,
        src_vocabulary: Vocabulary,
        tgt_vocabulary: Vocabulary,
        options: SearchOptions,
        *,
        device: torch.device,
        max_src_tokens: int,
        batch_tokens: int = _CPU_BATCH_TOKENS,
    ) -> None:
        """Put a model to use.

        Args:
            model: on `device`, in evaluation mode.
            options: of the search; tokens that can never be text are barred in any case.
            max_src_tokens: a longer source is translated in pieces.
            batch_tokens: source tokens at work at a time, padding counted; halved where there is
                no memory for them.
        """
        self.model = model
        self.src_vocabulary = src_vocabulary
        self.tgt_vocabulary = tgt_vocabulary
        barred_ids = tuple({*options.barred_ids, *tgt_vocabulary.barred_ids})
        self.options = replace(options, barred_ids=barred_ids)
        self.device = device
        self.max_src_tokens = max_src_tokens
        self.batch_tokens = batch_tokens

    @classmethod
    def load(
        cls,
        path: Path | str,
        options: SearchOptions | None = None,
        *,
        device: torch.device | None = None,
        precision: str = "fp32",
        batch_tokens: int | None = None,
    ) -> Translator:
        """Load a model file, or the best model of a run folder.

        Args:
            path: the file or folder.
            options: of the search.
            device: the CPU if none is given.
            precision: fp32 or bf16; int8 on CPUs, fp16 on GPUs.
            batch_tokens: see the constructor; what suits the device if none are given.

        Raises:
            DataError: if the file is missing, damaged or of another version.
            UsageError: if the device has no such precision.
        """
        device = device or torch.device("cpu")
        check_precision(precision, device)
        model, card = load_model(Path(path))
        on_gpu = device.type == "cuda"
        model.eval()
        if on_gpu:
            model.to(device=device, dtype=DTYPES[precision])
        else:
            pack(model, precision)
        return cls(
            model,
            card.src_vocabulary,
            card.tgt_vocabulary,
            options or SearchOptions(),
            device=device,
            max_src_tokens=card.max_src_tokens,
            batch_tokens=batch_tokens or (_GPU_BATCH_TOKENS if on_gpu else _CPU_BATCH_TOKENS),
        )

    def translate(
        self,
        lines: Sequence[str],
        *,
        on_progress: Callable[[int], object] | None = None,
        on_step: Callable[[], object] | None = None,
    ) -> list[list[Translation]]:
        """Translate lines.

        Args:
            lines: any text without line ends; blank lines are translated by blank ones.
            on_progress: called with the number of lines, or pieces of them, just done.
            on_step: called before each step of the decoder; what it raises ends the search.

        Returns:
            For each line, in order, its `n_best` translations, best first; or one with an error.
        """
        pieces = [
            split_ids(self.src_vocabulary, ids, self.max_src_tokens) for ids in self._encode(lines)
        ]
        sources = [piece.ids for line in pieces for piece in line]
        if on_progress is not None:
            on_progress(pieces.count([]))  # blank lines are done
        found = self._search(sources, on_progress, on_step)
        hypotheses = [one for best in found if not isinstance(best, str) for one in best]
        # All at once: each call costs as much as decoding hundreds.
        texts = iter(self.tgt_vocabulary.decode([hypothesis.ids for hypothesis in hypotheses]))
        decoded = iter(
            best if isinstance(best, str) else [(one, next(texts)) for one in best]
            for best in found
        )
        return [
            self._joined([next(decoded) for _ in line], [piece.separator for piece in line])
            for line in pieces
        ]

    def _encode(self, lines: Sequence[str]) -> list[list[int]]:
        # A line of white space alone is blank, also where a tab or U+00A0 has a piece of its own.
        return self.src_vocabulary.encode(["" if line.isspace() else line for line in lines])

    @torch.inference_mode()
    def _search(
        self,
        sources: list[list[int]],
        on_progress: Callable[[int], object] | None,
        on_step: Callable[[], object] | None,
    ) -> list[list[Hypothesis] | str]:
        """Return hypotheses of each source, or why there are none."""
        results: dict[int, list[Hypothesis] | str] = {}
        # Longest first: what takes most memory is known at once, and the end is of short steps.
        order = sorted(range(len(sources)), key=lambda number: (-len(sources[number]), number))
        budget = self.batch_tokens
        while waiting := [number for number in order if number not in results]:
            groups = self._groups(sources, waiting, budget)
            try:
                with memory_errors():
                    for number, hypotheses in beam_search(
                        self.model, groups, self.options, room=budget, on_step=on_step
                    ):
                        results[number] = hypotheses or _NO_NUMBER
                        if on_progress is not None:
                            on_progress(1)
            except MemoryError:
                longest = next(number for number in order if number not in results)
                if 2 * _room(sources[longest]) <= budget:
                    budget //= 2
                else:  # it was at work alone
                    results[longest], budget = _NO_MEMORY, self.batch_tokens
        self.batch_tokens = budget  # what did not fit once will not the next time
        return [results[number] for number in range(len(sources))]

    def _groups(self, sources: list[list[int]], order: list[int], budget: int) -> Iterator[Group]:
        """Yield sources of similar length, encoded, each time half of the budget or one."""
        start = 0
        while start < len(order):
            longest = _room(sources[order[start]])
            numbers = order[start : start + max(1, budget // 2 // longest)]
            start += len(numbers)
            packed = pack_sources([sources[number] for number in numbers])
            state = self.model.start(self.model.encode(packed.to(self.device)))
            extra = self.options.max_extra_tokens
            limits = [len(sources[number]) + extra for number in numbers]
            yield Group(numbers, limits, state, room=longest)

    def _joined(
        self, pieces: list[list[tuple[Hypothesis, str]] | str], separators: list[str]
    ) -> list[Translation]:
        """Join the n-th best hypotheses of a line's pieces to its n-th best translation."""
        if not pieces:
            return [BLANK]
        errors = [piece for piece in pieces if isinstance(piece, str)]
        if errors:
            return [Translation("", -math.inf, -math.inf, (), len(pieces), errors[0])]
        found = [piece for piece in pieces if not isinstance(piece, str)]
        translations = []
        for ranked in zip(*found, strict=False):  # as many as every piece has
            hypotheses = [hypothesis for hypothesis, _ in ranked]
            text = join_pieces([text for _, text in ranked], separators)
            translations.append(
                Translation(
                    text.translate(_LINE_BREAKERS),
                    sum(hypothesis.score for hypothesis in hypotheses),
                    sum(hypothesis.log_prob for hypothesis in hypotheses),
                    tuple(
                        token
                        for hypothesis in hypotheses
                        for token in self.tgt_vocabulary.tokens(hypothesis.ids)
                    ),
                    len(pieces),
                )
            )
        return translations


def check_precision(precision: str, device: torch.device) -> None:
    """Refuse what a device has no products of.

    Raises:
        UsageError: naming the nearest one.
    """
    known = tuple(DTYPES) if device.type == "cuda" else PRECISIONS
    if precision not in known:
        raise UsageError(
            f"unknown precision {precision!r} on {device.type}{did_you_mean(precision, known)}"
        )


def _room(source: list[int]) -> int:
    return len(source) + 1  # with eos
