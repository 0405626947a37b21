"""The translator: lines in, translations out.

Each line goes through the same steps: sentences if wanted, ids, segments, search, text again. A
line's translation does not depend on the other lines. Batches change only the speed and rounding.

A line on its way has four forms: a `Line` of input, a `Source` for each segment, `Hypothesis`es of
search, and `Translation`s of the segments and then of the line. Tags are taken out before all that,
and put back at the end. `torch_engine.load` and
`ctranslate2_engine.load` make translators. This file imports no torch, so that CTranslate2 exports
start without it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt.errors import NMTError, UsageError
from nmt.lexical.glossary import Terms
from nmt.lexical.lemmas import is_installed
from nmt.lexical.token_offsets import token_offsets
from nmt.markup.tag_writer import restore
from nmt.markup.tags import Marked, parse
from nmt.search.engine import Engine, Hypothesis, SearchResult, Source
from nmt.search.options import SearchOptions
from nmt.search.retry import search_guarded
from nmt.translate.alignment import Alignment
from nmt.translate.attention_picture import draw_attention
from nmt.translate.context import Before, contexts_of, find_windows, search_windows
from nmt.translate.copied_text import copy_translation
from nmt.translate.forbidden_words import NOT_AVOIDED, ForbiddenWords
from nmt.translate.joined_segments import best_sums, failed, join_parts
from nmt.translate.language_pair import LanguagePair
from nmt.translate.minimum_risk import by_utility
from nmt.translate.options import TranslationConfig, called
from nmt.translate.output import BLANK, TermUse, Translation
from nmt.translate.sources import LineSources, Spans, only_text
from nmt.translate.term_phrases import TermPhrases
from nmt.translate.term_sources import TermSources, attention_to_plain

if TYPE_CHECKING:
    import torch

POOL_LINES = 4_096


class Translator:
    """An engine with its vocabularies: text to text."""

    def __init__(self, engine: Engine, pair: LanguagePair, config: TranslationConfig) -> None:
        """Set up the translator. From Python, use `load`.

        engine: its options are those of `config.search`, made for the pair.
        """
        assert set(pair.tgt_vocabulary.barred_ids) <= set(engine.options.barred_ids)
        self.pair = pair
        self.config = config
        self.forbidden: ForbiddenWords | None = None
        if config.forbid is not None:
            words = Terms.read_words(config.forbid)
            self.forbidden = ForbiddenWords(words, pair.tgt_vocabulary)
            sequences = self.forbidden.sequences
            engine = engine.with_options(replace(engine.options, forbidden=sequences))
        self.engine = engine
        annotations = phrases = None
        self._inflected: str | None = None  # the language of which any form of a term will do
        if config.terms is not None:
            terms = Terms.read(config.terms)
            if pair.reads_terms:
                annotations = TermSources(terms, pair.src_vocabulary)
                self._inflected = pair.languages[1] if is_installed() else None
            else:
                vocabularies = pair.src_vocabulary, pair.tgt_vocabulary
                barred_ids = engine.options.barred_ids
                is_forbidden = None if self.forbidden is None else self.forbidden.are_in
                phrases = TermPhrases(terms, *vocabularies, barred_ids, is_forbidden)
        self.sources = LineSources(pair, config, annotations=annotations, phrases=phrases)

    @classmethod
    def load(
        cls,
        path: Path | str | Sequence[Path | str],
        options: SearchOptions | TranslationConfig | None = None,
        *,
        device: torch.device | str = "cpu",
        batch_tokens: int | None = None,
        **values: Any,
    ) -> Translator:
        """Load a model file, or the best model of a run folder; or several as an ensemble.

        Args:
            path: the file or folder, or several with the same vocabularies.
            options: of the search, or the whole configuration.
            device: cpu, cuda, cuda:1 or auto.
            batch_tokens: see `Engine`; if None, a default for the device.
            values: of fields of `TranslationConfig`, such as `alignment=True`.

        Raises:
            DataError: if a file is missing, damaged or of another version.
            UsageError: if the device does not support the precision, models cannot be joined,
                options conflict, or a language is not known.
        """
        from nmt.translate.torch_engine import load

        config = TranslationConfig.of(path, options, **values)
        return cls(*load(config, device=device, batch_tokens=batch_tokens), config)

    def stream(
        self, lines: Iterable[str], *, pool_lines: int = POOL_LINES
    ) -> Iterator[Translation]:
        """Translate lines as they come, `pool_lines` at a time.

        Args:
            lines: any text, with or without line ends, for example an open file. With context, a
                blank line ends a document.
            pool_lines: larger pools give batches of more similar length.

        Yields:
            A translation for each line, in order.

        Raises:
            UsageError: if `lines` is a string, or `pool_lines` less than 1.
        """
        if isinstance(lines, str) or not isinstance(lines, Iterable):
            raise UsageError(f"give lines, not {called(lines)}")
        if not isinstance(pool_lines, int) or pool_lines < 1:
            raise UsageError(f"pool_lines is {pool_lines!r}; it must be a whole number from 1")
        waiting, before = iter(lines), Before(self.config.context)
        while pool := _as_lines(islice(waiting, pool_lines)):
            yield from self.translate(pool, contexts=list(map(before.take, pool)))

    def translate(
        self,
        lines: Iterable[str],
        prefixes: Iterable[str] = (),
        *,
        contexts: Sequence[Sequence[str]] | None = None,
        on_progress: Callable[[int], object] | None = None,
        on_step: Callable[[], object] | None = None,
    ) -> list[Translation]:
        """Translate lines.

        Args:
            lines: any text. Blank lines stay blank, and those without letters are copied. Line ends
                are dropped.
            prefixes: each translation begins with its prefix. Either one for each line, or none.
                If a line is split into segments, the first one gets the prefix.
            contexts: the lines before each line in its document, of which the last count. If None,
                they are taken from `lines`, where a blank line ends a document.
            on_progress: called with the number of lines or segments just done.
            on_step: called before each step of the decoder. If it raises, the search ends.

        Returns:
            The translation of each line, in order; with `error` set if there is none.

        Raises:
            UsageError: if `lines` or `prefixes` is a string, or no strings are in it, numbers
                differ, there are prefixes with context or markup, or contexts without it.
        """
        lines, prefixes = _as_lines(lines), _as_lines(prefixes)
        if prefixes and len(prefixes) != len(lines):
            raise UsageError(
                f"{len(lines)} lines but {len(prefixes)} prefixes; give one for each line"
            )
        if any(prefixes):
            self.config.check_prefixes()
        contexts = contexts_of(lines, contexts, self.config.context)
        contexts = [list(map(only_text, _as_lines(context))) for context in contexts]
        markup = self.config.markup
        if markup is None:
            return self._translate(lines, prefixes, contexts, on_progress, on_step)
        marked = [parse(only_text(line), markup) for line in lines]
        texts = [line.text for line in marked]
        contexts = [[parse(line, markup).text for line in context] for context in contexts]
        kept = [line.kept for line in marked]
        found = self._translate(texts, (), contexts, on_progress, on_step, kept)
        return [self._with_tags(*pair) for pair in zip(marked, found, strict=True)]

    def _with_tags(self, line: Marked, translation: Translation) -> Translation:
        """Put the tags of a line back into its translations."""
        if translation.error:
            return translation
        links, weaker = [], []
        if translation.alignment is not None:
            src = token_offsets(line.text, translation.alignment.src_tokens)
            tgt = token_offsets(translation.text, translation.tokens)
            positions = translation.alignment.positions
            links = [(*src[at], *span) for at, span in zip(positions, tgt, strict=True)]
            pairs = translation.alignment.weaker_links()
            weaker = [(*src[one], *tgt[other]) for one, other in pairs]
        text = restore(line, translation.text, links, weaker)
        terms = translation.terms
        if line.kept and self.config.markup is not None:  # pieces may have replaced some
            without = parse(text, self.config.markup).text
            terms = tuple(TermUse.of(use.term, without, self._inflected) for use in terms)
        return replace(
            translation,
            text=text,
            terms=terms,
            alignment=translation.alignment if self.config.alignment else None,
            others=tuple(self._with_tags(line, other) for other in translation.others),
        )

    def _translate(
        self,
        lines: Sequence[str],
        prefixes: Sequence[str],
        contexts: Sequence[Sequence[str]],
        on_progress: Callable[[int], object] | None,
        on_step: Callable[[], object] | None,
        kept: Sequence[Spans] = (),
    ) -> list[Translation]:
        segments = self.sources.of(lines, prefixes, kept)
        joined, has_window = self._in_context(lines, contexts, segments, on_step)
        rest = [number for number in range(len(lines)) if number not in joined]
        sources = [one for number in rest for one in segments[number] if one.copy is None]
        if on_progress is not None:
            copies = sum(one.copy is not None for one in chain.from_iterable(segments))
            on_progress(segments.count([]) + len(joined) + copies)  # blank lines are done
        found, guarded = search_guarded(
            self.engine, sources, on_progress=on_progress, on_step=on_step
        )
        if self.forbidden is not None:
            search = partial(search_guarded, self.engine, on_step=on_step)
            found, more = self.forbidden.avoided(search, sources, found)
            guarded |= more
        translated = iter(self._translations(sources, found, guarded))
        for number in rest:
            line = segments[number]
            parts = [self._copies(one) if one.copy else next(translated) for one in line]
            one = self._joined(line, parts)
            joined[number] = replace(one, fell_back=True) if number in has_window else one
        metric = self.engine.options.mbr
        in_order = [joined[number] for number in range(len(lines))]
        return in_order if metric is None else [by_utility(one, metric) for one in in_order]

    def _in_context(
        self,
        lines: Sequence[str],
        contexts: Sequence[Sequence[str]],
        segments: Sequence[Sequence[Source]],
        on_step: Callable[[], object] | None,
    ) -> tuple[dict[int, Translation], Container[int]]:
        """Translate lines together with lines before them, as far as the model can.

        Returns:
            The translations by the number of the line, and the numbers of all lines that were
            tried.
        """
        separator = self.pair.tgt_vocabulary.separator
        if not self.config.context or separator is None:
            return {}, ()
        windows = find_windows(lines, contexts, segments, self.pair)
        found = search_windows(self.engine, windows, separator, on_step=on_step)
        sources = [windows[number].source for number in found]
        translated = self._translations(sources, [[one] for one in found.values()], ())
        joined = {
            number: replace(self._joined([source], [one]), context=windows[number].lines)
            for number, source, one in zip(found, sources, translated, strict=True)
        }
        return joined, windows

    def _copies(self, source: Source) -> list[Translation]:
        """Return the copy of a source, once, or as often as there are samples of others."""
        is_aligned = self.config.alignment or self.config.markup is not None
        copied = copy_translation(source, self.pair.src_vocabulary, alignment=is_aligned)
        options = self.engine.options
        return [copied] * (1 if options.sampling is None else options.n_best)

    def draw_attention(self, line: str, prefix: str = "") -> str:
        """Draw all attention weights of a line and its translation as SVG.

        If the line is split into segments, only the first one is drawn.

        Raises:
            NMTError: if the line has no letters or could not be translated.
        """
        text = line if self.config.markup is None else parse(line, self.config.markup).text
        (segments,) = self.sources.of([text], [prefix])
        segments = [one for one in segments if one.copy is None]
        found = search_guarded(self.engine, segments[:1])[0] or ["the line has no letters"]
        if isinstance(best := found[0], str):
            raise NMTError(f"cannot draw attention: {best}")
        source, target = segments[0].ids, (*self.pair.tgt_vocabulary.first, *best[0].ids)
        return draw_attention(
            self.engine.attention_weights(source, target),
            self.pair.src_vocabulary.tokens(source),
            self.pair.tgt_vocabulary.tokens(target),
        )

    def _translations(
        self, sources: Sequence[Source], found: Sequence[SearchResult], guarded: Container[int]
    ) -> list[list[Translation] | str]:
        """Return each segment's translations, best first, or the reason why there are none.

        guarded: the numbers of those that were searched twice.
        """
        pairs = [
            (source, hypothesis)
            for source, best in zip(sources, found, strict=True)
            if not isinstance(best, str)
            for hypothesis in best
        ]
        # In one call: each call costs as much as decoding hundreds.
        texts = self.pair.tgt_vocabulary.decode([hypothesis.ids for _, hypothesis in pairs])
        terms = (
            tuple(TermUse.of(term, text, self._inflected) for term in source.terms)
            for (source, _), text in zip(pairs, texts, strict=True)
        )
        each_text = iter(texts)
        alignments: Iterator[Alignment | None] = iter([None] * len(pairs))
        if self.config.alignment or self.config.markup is not None:
            alignments = self._alignments(pairs)
        return [
            best
            if isinstance(best, str)
            else [
                Translation(
                    next(each_text),
                    hypothesis.score,
                    hypothesis.log_prob,
                    tuple(self.pair.tgt_vocabulary.tokens(hypothesis.ids)),
                    hypothesis.token_log_probs[:-1],
                    1,
                    is_cut=source.is_cut,
                    guarded=number in guarded,
                    alignment=next(alignments),
                    terms=next(terms),
                )
                for hypothesis in best
            ]
            for number, (source, best) in enumerate(zip(sources, found, strict=True))
        ]

    def _alignments(self, found: Sequence[tuple[Source, Hypothesis]]) -> Iterator[Alignment | None]:
        """Return the alignment of each source's own tokens to those of its translation."""
        first = self.pair.tgt_vocabulary.first
        pairs = [(source.ids, (*first, *one.before, *one.ids)) for source, one in found]
        for (source, one), weights in zip(found, self.engine.attention(pairs), strict=True):
            if weights is None:
                yield None
                continue
            begin = len(first) + len(one.before)
            src_tokens = self.pair.src_vocabulary.tokens(
                (source.plain or source.ids)[source.added :]
            )
            tgt_tokens = self.pair.tgt_vocabulary.tokens(one.ids)
            own = attention_to_plain(weights[begin:], source)[:, source.added :]
            yield Alignment.of([own], src_tokens, tgt_tokens)

    def _joined(
        self, sources: Sequence[Source], translated: Sequence[list[Translation] | str]
    ) -> Translation:
        """Join the translations of a line's segments to the line's own.

        For beam search, these are the combinations with the best sums of scores. For sampling, the
        n-th samples of all segments make the line's n-th: the best sums would not be random.
        """
        if not sources:
            return BLANK
        errors = [part for part in translated if isinstance(part, str)]
        if errors:
            return failed(sources, errors[0])
        found = [part for part in translated if not isinstance(part, str)]
        if self.engine.options.sampling is None:
            chosen = best_sums(found, 2 * self.engine.options.n_best)
        else:
            chosen = list(zip(*found, strict=False))  # as many as every segment has
        joined = [join_parts(sources, parts) for parts in chosen]
        # Two segments may make a phrase, and a copy may have one.
        may_have = len(sources) > 1 or sources[0].copy is not None
        if self.forbidden is not None and may_have:
            joined = [one for one in joined if not self.forbidden.are_in(one.text)]
            if not joined:
                return failed(sources, NOT_AVOIDED)
        if self.engine.options.sampling is None:
            # Joined differently, segments can give the same text.
            by_text = {one.text: one for one in reversed(joined)}
            joined = [one for one in joined if by_text[one.text] is one]
        best, *others = joined[: self.engine.options.n_best]
        return replace(best, others=tuple(others)) if others else best


def _as_lines(lines: Iterable[str]) -> list[str]:
    """Return lines without their ends; UsageError if there are none."""
    if isinstance(lines, str) or not isinstance(lines, Iterable):
        raise UsageError(f"give a list of lines, not {called(lines)}")
    found = list(lines)
    for line in found:
        if not isinstance(line, str):
            raise UsageError(f"a line must be a string, not {called(line)}")
    ended = (line.removesuffix("\n") for line in found)
    return [
        text.removesuffix("\r") if text != line else text
        for text, line in zip(ended, found, strict=True)
    ]
