"""Lines in, translations out: encoding, batching by length, search, decoding.

What a line's translation is does not depend on the lines beside it: batches only decide how fast
it comes, to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from nmt.data.batches import pack_sources
from nmt.data.vocabulary import Vocabulary
from nmt.models.contract import TranslationModel
from nmt.models.model_file import load_model
from nmt.search.beam import Hypothesis, SearchOptions, beam_search
from nmt.search.pieces import join_pieces, split_ids


@dataclass(frozen=True)
class Translation:
    """One translation of one line."""

    text: str
    score: float  # log-probability over length penalty; summed where a line was cut in pieces
    log_prob: float  # natural logarithm; 0 for a blank line
    tokens: tuple[str, ...]  # subwords
    pieces: int  # into how many its source was cut; 0 for a blank line


# Search never produces these, but a foreign vocabulary's rules for decoding might.
_LINE_BREAKERS = str.maketrans("\n\r\0", "   ")

BLANK = Translation("", 0.0, 0.0, (), 0)


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
        batch_tokens: int = 4_096,
    ) -> None:
        """Put a model to use.

        Args:
            model: on `device`, in evaluation mode.
            options: of the search; tokens that can never be text are barred in any case.
            max_src_tokens: a longer source is translated in pieces.
            batch_tokens: source tokens of a batch, padding counted.
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
        dtype: torch.dtype = torch.float32,
        batch_tokens: int = 4_096,
    ) -> Translator:
        """Load a model file, or the best model of a run folder.

        Raises:
            DataError: if the file is missing, damaged or of another version.
        """
        model, card = load_model(Path(path))
        device = device or torch.device("cpu")
        return cls(
            model.to(device=device, dtype=dtype).eval(),
            card.src_vocabulary,
            card.tgt_vocabulary,
            options or SearchOptions(),
            device=device,
            max_src_tokens=card.max_src_tokens,
            batch_tokens=batch_tokens,
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
            For each line, in order, its `n_best` translations, best first.
        """
        pieces = [
            split_ids(self.src_vocabulary, ids, self.max_src_tokens) for ids in self._encode(lines)
        ]
        sources = [piece.ids for line in pieces for piece in line]
        if on_progress is not None:
            on_progress(pieces.count([]))  # blank lines are done
        found = iter(self._search(sources, on_progress, on_step))
        return [
            self._decode([next(found) for _ in line], [piece.separator for piece in line])
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
    ) -> list[list[Hypothesis]]:
        results: list[list[Hypothesis]] = [[] for _ in sources]
        for batch in self._batches(sources):
            ids = [sources[index] for index in batch]
            memory = self.model.encode(pack_sources(ids).to(self.device))
            state = self.model.start(memory)
            limits = [len(source) + self.options.max_extra_tokens for source in ids]
            found = beam_search(state, limits, self.options, self.device, on_step=on_step)
            for index, hypotheses in zip(batch, found, strict=True):
                results[index] = hypotheses
            if on_progress is not None:
                on_progress(len(batch))
        return results

    def _batches(self, sources: list[list[int]]) -> Iterator[list[int]]:
        """Yield indices of sources of similar length, longest first, within the budget."""
        order = sorted(range(len(sources)), key=lambda index: (-len(sources[index]), index))
        start = 0
        while start < len(order):
            longest = len(sources[order[start]]) + 1
            end = start + max(1, self.batch_tokens // longest)
            yield order[start:end]
            start = end

    def _decode(self, pieces: list[list[Hypothesis]], separators: list[str]) -> list[Translation]:
        """Join the n-th best hypotheses of a line's pieces to its n-th best translation."""
        if not pieces:
            return [BLANK]
        translations = []
        for rank in range(min(map(len, pieces))):
            hypotheses = [piece[rank] for piece in pieces]
            texts = self.tgt_vocabulary.decode([hypothesis.ids for hypothesis in hypotheses])
            translations.append(
                Translation(
                    join_pieces(texts, separators).translate(_LINE_BREAKERS),
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
