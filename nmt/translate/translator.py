"""The translator: lines in, translations out.

Each line goes through the same steps: sentences if wanted, ids, segments, search, text again. A
line's translation does not depend on the other lines. Batches change only the speed and rounding.

Only loading a torch model imports torch, so that CTranslate2 exports start without it.
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
    Segment,
    Sentence,
    join_segments,
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
    """An engine with its vocabularies: text to text."""

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
        """Set up the translator.

        Args:
            engine: its options should bar tokens that are never text (`Vocabulary.barred_ids`).
            src_vocabulary, tgt_vocabulary: of the engine's model.
            languages: codes of source and target. They decide how sentences are split and joined.
            max_src_tokens: longer sources are translated in segments.
            aligner: for alignments and pictures of attention.
            alignment: whether to add alignments to translations.
            split: whether to split lines into sentences and translate these one by one.
            kernel: of the model on a CPU, if known.
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
        """Make a translator from a loaded model.

        Args:
            model: on `device`, in evaluation mode.
            options: of the search. Tokens that are never text are always barred.
            device: of the model.
            languages, max_src_tokens, split, kernel: see the constructor.
            batch_tokens: see `Engine`.
            shortlist: limits the tokens of each translation; if None, all are allowed.
            alignment: whether to add alignments. An ensemble uses its first model's.
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
            path: the file or folder, or several with the same vocabularies.
            options: of the search.
            device: cpu, cuda, cuda:1 or auto.
            precision: fp32 or bf16; int8 on CPUs, fp16 on GPUs.
            batch_tokens: see `Engine`; if None, a default for the device.
            shortlist: a file written by `nmt export shortlist`. Translations use only its tokens,
                which is faster.
            alignment: whether to add alignments. An ensemble uses its first model's.
            split: whether to split lines into sentences and translate these one by one.
            kernel: for CPUs, the `kernel` of another translator; the fastest if None.

        Raises:
            DataError: if a file is missing, damaged or of another version.
            MissingKernel: if this machine does not have the kernel.
            UsageError: if the device does not support the precision, or models cannot be joined.
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
        """Translate lines as they come, `pool_lines` at a time.

        Args:
            lines: any text, with or without line ends, for example an open file.
            pool_lines: larger pools give batches of more similar length.

        Yields:
            A translation for each line, in order.

        Raises:
            UsageError: if `lines` is a string, or `pool_lines` less than 1.
        """
        if isinstance(lines, str) or pool_lines < 1:
            raise UsageError("give a list of lines, not a string, and pool_lines of 1 or more")
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
            lines: any text without line ends. Blank lines stay blank.
            prefixes: each translation begins with its prefix. Either one for each line, or none.
                If a line is split into segments, the first one gets the prefix.
            on_progress: called with the number of lines or segments just done.
            on_step: called before each step of the decoder. If it raises, the search ends.

        Returns:
            The translation of each line, in order; with `error` set if there is none.

        Raises:
            UsageError: if `lines` or `prefixes` is a string, or their numbers differ.
        """
        if isinstance(lines, str) or isinstance(prefixes, str):
            raise UsageError("give a list of lines, not a string")
        if prefixes and len(prefixes) != len(lines):
            raise UsageError(
                f"{len(lines)} lines but {len(prefixes)} prefixes; give one for each line"
            )
        segments = self._segments(lines)
        if on_progress is not None:
            on_progress(segments.count([]))  # blank lines are done
        sources = self._sources(segments, prefixes)
        found = self.engine.search(sources, on_progress=on_progress, on_step=on_step)
        parts = iter(self._parts(sources, found))
        return [self._joined([next(parts) for _ in line], line) for line in segments]

    def _parts(
        self, sources: Sequence[Source], found: Sequence[SearchResult]
    ) -> Iterator[list[_SegmentHypothesis] | str]:
        """Yield each source's hypotheses as text, best first, or the reason why there are none."""
        pairs = [
            (source, hypothesis)
            for source, best in zip(sources, found, strict=True)
            if not isinstance(best, str)
            for hypothesis in best
        ]
        # In one call: each call costs as much as decoding hundreds.
        texts = self.tgt_vocabulary.decode([hypothesis.ids for _, hypothesis in pairs])
        attention: Sequence[Floats | None] = [None] * len(pairs)
        if self.alignment and self.aligner is not None:
            attention = self.aligner.attention([(source.ids, one.ids) for source, one in pairs])
        parts = (
            map(_SegmentHypothesis, *zip(*pairs, strict=True), texts, attention)
            if pairs
            else iter(())
        )
        for best in found:
            yield best if isinstance(best, str) else [next(parts) for _ in best]

    def draw_attention(self, line: str, prefix: str = "") -> str:
        """Draw all attention weights of a line and its translation as SVG.

        If the line is split into segments, only the first one is drawn.

        Raises:
            NMTError: if the line is blank or could not be translated.
        """
        if self.aligner is None:
            raise UsageError(
                "a CTranslate2 export has no attention to draw; give the model file instead"
            )
        sources = self._sources(self._segments([line]), [prefix])
        (found,) = self.engine.search(sources[:1]) or ["the line is blank"]
        if isinstance(found, str):
            raise NMTError(f"cannot draw attention: {found}")
        source, target = sources[0].ids, found[0].ids
        return draw_attention(
            self.aligner.weights(source, target),
            self.src_vocabulary.tokens(source),
            self.tgt_vocabulary.tokens(target),
        )

    def _segments(self, lines: Sequence[str]) -> list[list[Segment]]:
        """Split lines into segments; blank lines have none.

        A line of only white space is blank, even if the vocabulary has tabs or U+00A0.
        """
        # Python strings can hold lone surrogates, which are not text.
        whole = [line if line.isascii() else _SURROGATE.sub("\ufffd", line) for line in lines]
        cut = [[] if not line or line.isspace() else self._sentences(line) for line in whole]
        sentences = iter(
            self.src_vocabulary.encode([sentence.text for line in cut for sentence in line])
        )
        return [
            [
                segment
                for sentence in line
                for segment in self._cut(next(sentences), sentence.separator)
            ]
            for line in cut
        ]

    def _sentences(self, line: str) -> list[Sentence]:
        return split_sentences(line, self.languages[0]) if self.split else [Sentence(line, "")]

    def _cut(self, ids: list[int], separator: str) -> list[Segment]:
        """Split a sentence into segments; `separator` follows the last one's translation."""
        src_lang, tgt_lang = self.languages
        segments = split_ids(self.src_vocabulary, ids, self.max_src_tokens, src_lang=src_lang)
        separators = [*(segment.separator for segment in segments[:-1]), separator]
        return [
            Segment(
                segment.ids,
                translated_separator(between, src_lang=src_lang, tgt_lang=tgt_lang),
                is_cut=len(segments) > 1,
                is_in_word=segment.is_in_word,
            )
            for segment, between in zip(segments, separators, strict=False)
        ]

    def _sources(self, lines: list[list[Segment]], prefixes: Sequence[str]) -> list[Source]:
        sources = []
        begun = self.tgt_vocabulary.encode(prefixes) if prefixes else [[]] * len(lines)
        for segments, prefix in zip(lines, begun, strict=True):
            first = tuple(prefix)
            for segment in segments:
                sources.append(Source(tuple(segment.ids), first, segment.is_in_word))
                first = ()
        return sources

    def _joined(
        self, parts: list[list[_SegmentHypothesis] | str], segments: list[Segment]
    ) -> Translation:
        """Join the hypotheses of a line's segments to its translations.

        For beam search, these are the combinations with the best sums of scores. For sampling, the
        n-th samples of all segments make the line's n-th: the best sums would not be random.
        """
        if not segments:
            return BLANK
        errors = [part for part in parts if isinstance(part, str)]
        if errors:
            return Translation("", -math.inf, -math.inf, (), (), len(segments), error=errors[0])
        found = [part for part in parts if not isinstance(part, str)]
        if self.engine.options.sampling is None:
            joined = _best_sums(found, self.engine.options.n_best)
        else:
            joined = list(zip(*found, strict=False))  # as many as every segment has
        best, *others = (self._translation(parts, segments) for parts in joined)
        return replace(best, others=tuple(others)) if others else best

    def _translation(
        self, parts: Sequence[_SegmentHypothesis], segments: list[Segment]
    ) -> Translation:
        text = join_segments(
            [part.text for part in parts], [segment.separator for segment in segments]
        )
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
            is_cut=any(segment.is_cut for segment in segments),
            alignment=self._alignment(parts, segments),
        )

    def _alignment(
        self, parts: Sequence[_SegmentHypothesis], segments: list[Segment]
    ) -> Alignment | None:
        attention = [part.attention for part in parts if part.attention is not None]
        if len(attention) < len(parts):
            return None
        src_tokens = self.src_vocabulary.tokens([i for part in parts for i in part.source.ids])
        tgt_tokens: list[str] = []
        joins_previous = False
        for part, segment in zip(parts, segments, strict=True):
            tokens = self.tgt_vocabulary.tokens(part.hypothesis.ids)
            if joins_previous and tokens:  # the space that begins a segment is not written
                tokens[0] = tokens[0].removeprefix(WORD_START)
            tgt_tokens += tokens
            joins_previous = not segment.separator
        return Alignment.of(attention, src_tokens, tgt_tokens)


@dataclass(frozen=True)
class _SegmentHypothesis:
    """A hypothesis of a segment, with its text."""

    source: Source
    hypothesis: Hypothesis
    text: str
    attention: Floats | None  # (T, S)


def _best_sums(
    found: Sequence[Sequence[_SegmentHypothesis]], count: int
) -> list[tuple[_SegmentHypothesis, ...]]:
    """Return the `count` combinations of the segments' hypotheses with the best sums of scores.

    The best comes first. Of equal sums, the first differing hypothesis decides.

    Args:
        found: the hypotheses of each segment, best first.
        count: fewer are returned if there are fewer combinations.
    """
    best: list[tuple[float, tuple[_SegmentHypothesis, ...]]] = [(0.0, ())]
    for hypotheses in found:
        # In two sorted lists, the sum at ranks i and j (from 0) has (i + 1)(j + 1) - 1 sums that
        # are at least as high, so only few pairs can be among the best.
        sums = [
            (total + part.hypothesis.score, (*chosen, part))
            for rank, (total, chosen) in enumerate(best, start=1)
            for part in hypotheses[: count // rank]
        ]
        best = sorted(sums, key=lambda one: -one[0])[:count]
    return [chosen for _, chosen in best]
