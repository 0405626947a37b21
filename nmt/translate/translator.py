"""Lines in, translations out: subwords, pieces of what is too long, an engine, text again.

Nothing here needs torch but to load a model that does: CTranslate2 starts without.

What a line's translation is does not depend on the lines beside it: batches only decide how fast
it comes, to rounding.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.data.vocabulary import Vocabulary
from nmt.errors import NMTError, UsageError
from nmt.search.engine import Engine, Hypothesis, SearchResult, Source
from nmt.search.options import SearchOptions
from nmt.translate.alignment import Alignment, Floats
from nmt.translate.attention_picture import draw_attention
from nmt.translate.output import BLANK, Translation
from nmt.translate.segmentation import (
    WORD_START,
    Piece,
    Sentence,
    join_pieces,
    split_ids,
    split_sentences,
    translated_separator,
)

if TYPE_CHECKING:
    import torch

    from nmt.models.base import TranslationModel
    from nmt.models.ensemble import Ensemble
    from nmt.search.shortlist import Shortlist
    from nmt.translate.aligner import Aligner

_SURROGATE = re.compile("[\ud800-\udfff]")

# Search never produces these, but a foreign vocabulary's rules for decoding might.
_LINE_BREAKERS = str.maketrans("\n\r\0", "   ")

POOL_LINES = 4_096


class Translator:
    """An engine between two vocabularies: text to text."""

    def __init__(
        self,
        engine: Engine,
        src_vocabulary: Vocabulary,
        tgt_vocabulary: Vocabulary,
        *,
        languages: tuple[str, str],
        max_src_tokens: int,
        aligner: Aligner | None = None,
        alignment: bool = False,
        split: bool = False,
        kernel: str | None = None,
    ) -> None:
        """Put an engine to use.

        Args:
            engine: its options should bar what can never be text (`Vocabulary.barred_ids`).
            src_vocabulary, tgt_vocabulary: of the engine's model.
            languages: codes of source and target, which tell how sentences end and are joined.
            max_src_tokens: a longer source is translated in pieces.
            aligner: for alignments and pictures of attention.
            alignment: whether translations are to have alignments.
            split: whether lines are paragraphs, whose sentences are translated one by one.
            kernel: by which a CPU multiplies, if that was chosen.
        """
        self.engine = engine
        self.src_vocabulary = src_vocabulary
        self.tgt_vocabulary = tgt_vocabulary
        self.languages = languages
        self.max_src_tokens = max_src_tokens
        self.aligner = aligner
        self.alignment = alignment
        self.split = split
        self.kernel = kernel

    @classmethod
    def of(
        cls,
        model: TranslationModel | Ensemble,
        src_vocabulary: Vocabulary,
        tgt_vocabulary: Vocabulary,
        options: SearchOptions | None = None,
        *,
        device: torch.device,
        languages: tuple[str, str],
        max_src_tokens: int,
        batch_tokens: int | None = None,
        shortlist: Shortlist | None = None,
        alignment: bool = False,
        split: bool = False,
        kernel: str | None = None,
    ) -> Translator:
        """Put a model that is loaded already to use.

        Args:
            model: on `device`, in evaluation mode.
            options: of the search; tokens that can never be text are barred in any case.
            device: where it computes.
            languages, max_src_tokens, split, kernel: see the constructor.
            batch_tokens: see `Engine`.
            shortlist: of the tokens that each translation may have; without one, all.
            alignment: whether translations are to have alignments; an ensemble's are the first
                model's.
        """
        from nmt.models.ensemble import Ensemble
        from nmt.translate.aligner import Aligner
        from nmt.translate.torch_engine import TorchEngine

        options = options or SearchOptions()
        barred_ids = tuple({*options.barred_ids, *tgt_vocabulary.barred_ids})
        engine = TorchEngine(
            model,
            replace(options, barred_ids=barred_ids),
            device=device,
            batch_tokens=batch_tokens,
            shortlist=shortlist,
        )
        return cls(
            engine,
            src_vocabulary,
            tgt_vocabulary,
            languages=languages,
            max_src_tokens=max_src_tokens,
            aligner=Aligner(model.members[0] if isinstance(model, Ensemble) else model, device),
            alignment=alignment,
            split=split,
            kernel=kernel,
        )

    @classmethod
    def load(
        cls,
        path: Path | str | Sequence[Path | str],
        options: SearchOptions | None = None,
        *,
        device: torch.device | str = "cpu",
        precision: str = "fp32",
        batch_tokens: int | None = None,
        shortlist: Path | str | None = None,
        alignment: bool = False,
        split: bool = False,
        kernel: str | None = None,
    ) -> Translator:
        """Load a model file, or the best model of a run folder; or several as an ensemble.

        Args:
            path: the file or folder, or some of them that have the same vocabularies.
            options: of the search.
            device: where it computes: cpu, cuda, cuda:1, or auto.
            precision: fp32 or bf16; int8 on CPUs, fp16 on GPUs.
            batch_tokens: source tokens at work at a time; what suits the device if none are given.
            shortlist: a file that `nmt export shortlist` has written: translations are made of
                the tokens on it, which is faster.
            alignment: whether translations are to have alignments; an ensemble's are the first
                model's.
            split: whether lines are paragraphs, whose sentences are translated one by one.
            kernel: by which a CPU multiplies, as another translator's `kernel` tells; the fastest
                if None.

        Raises:
            DataError: if a file is missing, damaged or of another version.
            MissingKernel: if this machine does not have it.
            UsageError: if the device has no such precision, or models do not belong together.
        """
        from nmt.search.shortlist import Shortlist
        from nmt.translate.torch_engine import load_models

        loaded = load_models(path, device=device, precision=precision, kernel=kernel)
        vocabularies = loaded.src_vocabulary, loaded.tgt_vocabulary
        listed = None if shortlist is None else Shortlist.open(Path(shortlist), *vocabularies)
        return cls.of(
            loaded.model,
            *vocabularies,
            options,
            device=loaded.device,
            languages=loaded.languages,
            max_src_tokens=loaded.max_src_tokens,
            batch_tokens=batch_tokens,
            shortlist=listed,
            alignment=alignment,
            split=split,
            kernel=loaded.kernel,
        )

    def stream(
        self, lines: Iterable[str], *, pool_lines: int = POOL_LINES
    ) -> Iterator[Translation]:
        """Translate lines as they come, so many at a time.

        Args:
            lines: any text; line ends are taken off, so that an open file will do.
            pool_lines: the more, the better lines of one length can be found to go together.

        Yields:
            A translation for each line, in order.

        Raises:
            UsageError: if a single string is given, or no line at a time.
        """
        if isinstance(lines, str) or pool_lines < 1:
            raise UsageError("give lines, not a string, and 1 of them or more at a time")
        waiting = iter(lines)
        while pool := [line.rstrip("\r\n") for line in islice(waiting, pool_lines)]:
            yield from self.translate(pool)

    def translate(
        self,
        lines: Sequence[str],
        prefixes: Sequence[str] = (),
        *,
        on_progress: Callable[[int], object] | None = None,
        on_step: Callable[[], object] | None = None,
    ) -> list[Translation]:
        """Translate lines.

        Args:
            lines: any text without line ends; blank lines are translated by blank ones.
            prefixes: what each translation begins with, or none at all. Of a line that is
                translated in pieces, the first one's.
            on_progress: called with the number of lines, or pieces of them, just done.
            on_step: called before each step of the decoder; what it raises ends the search.

        Returns:
            For each line, in order, its translation, or one with an error.

        Raises:
            UsageError: if a single string is given, or not as many prefixes as lines.
        """
        if isinstance(lines, str) or isinstance(prefixes, str):
            raise UsageError("give a list of lines, not a string")
        if prefixes and len(prefixes) != len(lines):
            raise UsageError(f"lines: {len(lines)}, prefixes: {len(prefixes)}; give one for each")
        pieces = self._pieces(lines)
        if on_progress is not None:
            on_progress(pieces.count([]))  # blank lines are done
        sources = self._sources(pieces, prefixes)
        found = self.engine.search(sources, on_progress=on_progress, on_step=on_step)
        parts = iter(self._parts(sources, found))
        return [self._joined([next(parts) for _ in line], line) for line in pieces]

    def _parts(
        self, sources: Sequence[Source], found: Sequence[SearchResult]
    ) -> Iterator[list[_Part] | str]:
        """Yield for each source its hypotheses as text, best first, or why there are none."""
        pairs = [
            (source, hypothesis)
            for source, best in zip(sources, found, strict=True)
            if not isinstance(best, str)
            for hypothesis in best
        ]
        # All at once: each call costs as much as decoding hundreds.
        texts = self.tgt_vocabulary.decode([hypothesis.ids for _, hypothesis in pairs])
        attention: Sequence[Floats | None] = [None] * len(pairs)
        if self.alignment and self.aligner is not None:
            attention = self.aligner.attention([(source.ids, one.ids) for source, one in pairs])
        parts = map(_Part, *zip(*pairs, strict=True), texts, attention) if pairs else iter(())
        for best in found:
            yield best if isinstance(best, str) else [next(parts) for _ in best]

    def draw_attention(self, line: str, prefix: str = "") -> str:
        """Return a picture, as SVG, of all attention of a line and its translation.

        Of a line that is translated in pieces, the first one's.

        Raises:
            NMTError: if there is nothing to be drawn.
        """
        if self.aligner is None:
            raise UsageError(
                "a CTranslate2 export has no attention to draw; give the model file instead"
            )
        sources = self._sources(self._pieces([line]), [prefix])
        (found,) = self.engine.search(sources[:1]) or ["the line is blank"]
        if isinstance(found, str):
            raise NMTError(f"there is no attention to be drawn: {found}")
        source, target = sources[0].ids, found[0].ids
        return draw_attention(
            self.aligner.weights(source, target),
            self.src_vocabulary.tokens(source),
            self.tgt_vocabulary.tokens(target),
        )

    def _pieces(self, lines: Sequence[str]) -> list[list[Piece]]:
        """Cut lines into what is translated by itself; blank ones into nothing.

        A line of white space alone is blank, also where a tab or U+00A0 has a piece of its own.
        """
        # Half a surrogate pair, which Python strings can hold, is no text.
        whole = [line if line.isascii() else _SURROGATE.sub("\ufffd", line) for line in lines]
        cut = [[] if not line or line.isspace() else self._sentences(line) for line in whole]
        sentences = iter(
            self.src_vocabulary.encode([sentence.text for line in cut for sentence in line])
        )
        return [
            [piece for sentence in line for piece in self._cut(next(sentences), sentence.separator)]
            for line in cut
        ]

    def _sentences(self, line: str) -> list[Sentence]:
        return split_sentences(line, self.languages[0]) if self.split else [Sentence(line, "")]

    def _cut(self, ids: list[int], separator: str) -> list[Piece]:
        """Cut a sentence into pieces, with what stands between and behind their translations."""
        src_lang, tgt_lang = self.languages
        pieces = split_ids(self.src_vocabulary, ids, self.max_src_tokens, src_lang=src_lang)
        separators = [*(piece.separator for piece in pieces[:-1]), separator]
        return [
            Piece(
                piece.ids,
                translated_separator(between, src_lang=src_lang, tgt_lang=tgt_lang),
                is_cut=len(pieces) > 1,
                is_in_word=piece.is_in_word,
            )
            for piece, between in zip(pieces, separators, strict=False)
        ]

    def _sources(self, lines: list[list[Piece]], prefixes: Sequence[str]) -> list[Source]:
        sources = []
        begun = self.tgt_vocabulary.encode(prefixes) if prefixes else [[]] * len(lines)
        for pieces, prefix in zip(lines, begun, strict=True):
            first = tuple(prefix)
            for piece in pieces:
                sources.append(Source(tuple(piece.ids), first, piece.is_in_word))
                first = ()
        return sources

    def _joined(self, parts: list[list[_Part] | str], pieces: list[Piece]) -> Translation:
        """Join the hypotheses of a line's pieces to its translations.

        Of a beam, those with the best sums of scores. Of samples, the n-th of each piece to the
        n-th of the line: the best sums would be no random draws.
        """
        if not pieces:
            return BLANK
        errors = [part for part in parts if isinstance(part, str)]
        if errors:
            return Translation("", -math.inf, -math.inf, (), (), len(pieces), error=errors[0])
        found = [part for part in parts if not isinstance(part, str)]
        if self.engine.options.sampling is None:
            joined = _best_sums(found, self.engine.options.n_best)
        else:
            joined = list(zip(*found, strict=False))  # as many as every piece has
        best, *others = (self._translation(parts, pieces) for parts in joined)
        return replace(best, others=tuple(others)) if others else best

    def _translation(self, parts: Sequence[_Part], pieces: list[Piece]) -> Translation:
        text = join_pieces([part.text for part in parts], [piece.separator for piece in pieces])
        hypotheses = [part.hypothesis for part in parts]
        ids = [i for hypothesis in hypotheses for i in hypothesis.ids]
        tokens = tuple(self.tgt_vocabulary.tokens(ids))
        return Translation(
            text.translate(_LINE_BREAKERS),
            sum(hypothesis.score for hypothesis in hypotheses),
            sum(hypothesis.log_prob for hypothesis in hypotheses),
            tokens,
            tuple(log_prob for one in hypotheses for log_prob in one.token_log_probs[:-1]),
            len(parts),
            is_cut=any(piece.is_cut for piece in pieces),
            alignment=self._alignment(parts, pieces),
        )

    def _alignment(self, parts: Sequence[_Part], pieces: list[Piece]) -> Alignment | None:
        attention = [part.attention for part in parts if part.attention is not None]
        if len(attention) < len(parts):
            return None
        src_tokens = self.src_vocabulary.tokens([i for part in parts for i in part.source.ids])
        tgt_tokens: list[str] = []
        goes_on = False
        for part, piece in zip(parts, pieces, strict=True):
            tokens = self.tgt_vocabulary.tokens(part.hypothesis.ids)
            if goes_on and tokens:  # a piece begins with a space that is not written
                tokens[0] = tokens[0].removeprefix(WORD_START)
            tgt_tokens += tokens
            goes_on = not piece.separator
        return Alignment.of(attention, src_tokens, tgt_tokens)


@dataclass(frozen=True)
class _Part:
    """A hypothesis of a piece."""

    source: Source
    hypothesis: Hypothesis
    text: str
    attention: Floats | None  # (T, S)


def _best_sums(found: Sequence[Sequence[_Part]], count: int) -> list[tuple[_Part, ...]]:
    """Choose a hypothesis of each piece: the `count` choices with the highest sums of scores.

    The best comes first. Of equal sums, the one whose first differing hypothesis ranks higher.

    Args:
        found: of each piece its hypotheses, best first.
        count: fewer are returned if there are fewer choices.
    """
    best: list[tuple[float, tuple[_Part, ...]]] = [(0.0, ())]
    for hypotheses in found:
        # Of two lists in order, the sum of ranks i and j (from 0) has (i + 1)(j + 1) - 1 sums that
        # are no lower, so that few pairs can be among the best.
        sums = [
            (total + part.hypothesis.score, (*chosen, part))
            for rank, (total, chosen) in enumerate(best, start=1)
            for part in hypotheses[: count // rank]
        ]
        best = sorted(sums, key=lambda one: -one[0])[:count]
    return [chosen for _, chosen in best]
