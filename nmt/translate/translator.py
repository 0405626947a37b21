"""The translator: an engine with vocabularies and options, for Python and for all commands.

`Translator.translate` is the road from lines to their translations, which every way to translate
takes. Without `context`, a line's translation does not depend on the other lines. Batches change
only the speed and rounding. This file imports no torch, so that CTranslate2 exports start without
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self

from nmt.errors import NMTError, UsageError
from nmt.lexical.lemmas import is_installed
from nmt.markup.breaks import LINE_END, MarkedLines
from nmt.search.engine import Engine
from nmt.search.options import SearchOptions
from nmt.search.retry import search_guarded
from nmt.translate.calibration import rate
from nmt.translate.context import Before, contexts_of, search_windows, windows_of
from nmt.translate.joined_segments import JoinSegments
from nmt.translate.language_pair import LanguagePair
from nmt.translate.options import TranslationConfig
from nmt.translate.output import Translation
from nmt.translate.recalled_lines import read_memory, recall_lines
from nmt.translate.segment import Found
from nmt.translate.segment_lines import Cut, SegmentLines, only_text
from nmt.translate.taken_out import knows_signs, restore_lost_signs, restored, take_out
from nmt.translate.terms import ForceTerms, ReadTerms, note_terms

if TYPE_CHECKING:
    import torch

POOL_LINES = 4_096


class Translator:
    """An engine with its vocabularies: text to text."""

    def __new__(cls, *made: object) -> Self:
        """Refuse what `load` takes."""
        if len(made) != 3:
            raise UsageError("write Translator.load(PATH) to load a model")
        return super().__new__(cls)

    def __init__(
        self, engine: Engine, language_pair: LanguagePair, config: TranslationConfig
    ) -> None:
        """Take what `load` makes, which Python calls.

        engine: its options are those of `config.search`, made for the pair.
        """
        assert set(language_pair.tgt_vocabulary.barred_ids) <= set(engine.options.barred_ids)
        self.language_pair = language_pair
        self.config = config
        self.engine = engine
        self._segment_lines = SegmentLines(language_pair, config, self._cut())
        self._join_segments = JoinSegments(engine, language_pair)
        self._is_known = knows_signs(language_pair.src_vocabulary)
        self._memory = config.memory and read_memory(config.memory, language_pair.languages)

    def _cut(self) -> Cut | None:
        """Return what cuts sentences with terms; None without `config.terms`."""
        if self.config.terms is None:
            return None
        from nmt.lexical.term_list import read_terms

        pair = self.language_pair
        terms = read_terms(self.config.terms, pair.languages)
        if self.config.reads_annotations:
            return ReadTerms(terms, pair.src_vocabulary, pair.languages)
        return ForceTerms(terms, pair, self.engine.options.barred_ids)

    @classmethod
    def load(
        cls,
        path: Path | str | Sequence[Path | str],
        options: SearchOptions | TranslationConfig | None = None,
        *,
        device: torch.device | str = "cpu",
        batch_tokens: int | None = None,
        threads: int = 1,
        **values: Any,
    ) -> Translator:
        """Load a model file, the best model of a run folder, or a folder of Hugging Face.

        path: the file or folder, or several with the same vocabularies as an ensemble.
        options: of the search, or the whole configuration.
        device: cpu, cuda, cuda:1 or auto.
        batch_tokens: see `Engine`; if None, a default for the device.
        threads: of torch, for each call. Other calls of torch in this process keep theirs.
        values: of fields of `TranslationConfig`, such as `alignment=True`.
        DataError if a file is missing, damaged or of another version. UsageError if the device does
        not support the precision, models cannot be joined, options conflict, or a language is not
        known.
        """
        from nmt.translate.load_model import load

        config = TranslationConfig.from_call(path, options, **values)
        return cls(*load(config, device=device, batch_tokens=batch_tokens, threads=threads), config)

    def __reduce_ex__(self, _: object) -> NoReturn:
        """Refuse to be copied or pickled: packed weights belong to the model that was loaded."""
        raise UsageError("a translator cannot be copied or pickled; load the model again")

    def __call__(self, line: str) -> Translation:
        """Translate one line; `translate` takes many, and is faster."""
        return self.translate([line])[0]

    def stream(
        self, lines: Iterable[str], *, pool_lines: int = POOL_LINES
    ) -> Iterator[Translation]:
        """Yield a translation for each line as it comes, `pool_lines` at a time.

        lines: any text, with or without line ends, for example an open file. With context, a blank
            line ends a document.
        pool_lines: larger pools give batches of more similar length.
        UsageError if `lines` is a string, or `pool_lines` less than 1.
        """
        if pool_lines < 1:
            raise UsageError(f"pool_lines is {pool_lines!r}; it must be 1 or more")
        waiting, before = iter(_checked(lines)), Before(self.config.context)
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
        units: Sequence[MarkedLines] = (),
    ) -> list[Translation]:
        """Translate lines. Several threads may call this at a time.

        lines: any text. Blank lines stay blank, and those without letters are copied.
        prefixes: what each translation begins with, or at least its first segment; or none.
        contexts: the lines before each line in its document, of which the last count. If None, they
            are taken from `lines`, where a blank line ends a document.
        on_progress: called with the number of lines or segments just done.
        on_step: called before each step of the decoder. If it raises, the search ends.
        units: the lines, parsed, if they are units of a document, which may be split; or none.
        Returns the translation of each line, with `error` set if there is none. UsageError if
        something is not text, numbers differ, options do not go together, or this process is a fork
        that the model is not of use to.
        """
        texts, begun = _as_lines(lines), _as_lines(prefixes)
        if begun and len(begun) != len(texts):
            raise UsageError(
                f"{len(texts)} lines but {len(begun)} prefixes; give one for each line"
            )
        if any(begun):
            self.config.check_prefixes()
        before = contexts_of(texts, contexts, self.config.context)
        asked: Sequence[str | MarkedLines] = units or list(map(only_text, texts))
        form = units[0].form if units else self.config.tags
        remembered = dict[int, Translation]()
        if self._memory:
            remembered = recall_lines(self._memory, asked, begun, form)
            if on_progress is not None:
                on_progress(len(remembered))
        rest = [number for number in range(len(asked)) if number not in remembered]
        with self.engine.at_work():
            translations = self._translate(
                [asked[number] for number in rest],
                [begun[number] for number in rest] if begun else [],
                [list(map(only_text, _as_lines(before[number]))) for number in rest],
                form=form,
                is_document=bool(units),
                on_progress=on_progress,
                on_step=on_step,
            )
        translated = remembered | dict(zip(rest, translations, strict=True))
        return [translated[number] for number in range(len(asked))]

    def _translate(
        self,
        lines: Sequence[str | MarkedLines],
        prefixes: Sequence[str],
        contexts: Sequence[Sequence[str]],
        *,
        form: str | None,
        is_document: bool,
        on_progress: Callable[[int], object] | None,
        on_step: Callable[[], object] | None,
    ) -> list[Translation]:
        """Return the translation of each line.

        A line on its way has four forms: its text, `Segment`s that are searched by themselves, what
        search `Found` for each, and `Translation`s.

        prefixes, contexts: of each line; or none.
        form: of the tags in lines, if they have some; is_document: whether the lines are its units.
        """
        config, language_pair = self.config, self.language_pair
        # Take out what the model must not see: tags, and signs that it does not know.
        take = partial(take_out, self._is_known, form)
        taken = list(map(take, lines))
        texts = [line.text for line in taken]

        # Segment: cut what is longer than the model was trained for, and copy what has no letters.
        protected = [line.protected for line in taken]
        segments = self._segment_lines(
            texts, prefixes, protected, is_document=is_document, has_breaks=form is not None
        )

        # Search, first together with the lines before, if you want. A line that fails there is
        # searched by itself.
        windows, in_context = {}, dict[int, list[Found | None]]()
        if config.context:
            before = [
                [take(line).text.replace(LINE_END, " ") for line in some] for some in contexts
            ]
            windows = windows_of(texts, before, segments, language_pair)
            in_context = search_windows(self.engine, windows, segments, language_pair, on_step)
            for number in in_context:
                segments[number] = [windows[number].segment]
        alone = [parts for number, parts in enumerate(segments) if number not in in_context]
        waiting = [segment for segment in chain.from_iterable(alone) if segment.copy is None]
        if on_progress is not None:  # what needs no search is done
            copies = sum(map(len, alone)) - len(waiting)
            on_progress(alone.count([]) + len(in_context) + copies)
        sources = [segment.source for segment in waiting]
        results, guarded = search_guarded(
            self.engine, sources, on_progress=on_progress, on_step=on_step
        )
        each = iter(Found(result, number in guarded) for number, result in enumerate(results))
        found = [
            in_context.get(number) or [None if segment.copy else next(each) for segment in parts]
            for number, parts in enumerate(segments)
        ]

        # Join the translations of a line's segments.
        is_aligned = config.alignment or form is not None
        translations = self._join_segments(segments, found, is_aligned=is_aligned)
        for number, window in windows.items():
            count = window.lines_before if number in in_context else 0
            translations[number] = replace(translations[number], context=count, fell_back=not count)

        # Put back what was taken out, and signs that a translation has lost.
        restores = {
            number: restore
            for number, (line, translation) in enumerate(zip(taken, translations, strict=True))
            if not translation.error
            and (restore := line.restore or restore_lost_signs(line.text, translation))
        }
        if not is_aligned:  # only these lines need an alignment
            aligned = self._join_segments(
                [segments[number] for number in restores],
                [found[number] for number in restores],
                is_aligned=True,
            )
            for number, again in zip(restores, aligned, strict=True):
                first = translations[number]
                translations[number] = replace(
                    again, context=first.context, fell_back=first.fell_back
                )
        if config.calibration is not None:  # whose features are those of text without tags
            rate(config.calibration.curve, texts, translations)
        for number, restore in restores.items():
            translations[number] = restored(
                translations[number], texts[number], restore, keeps_alignment=config.alignment
            )

        # Note which terms each translation has. A model that reads terms inflects them.
        if config.terms is not None:
            inflects = config.reads_annotations and is_installed()
            lang = language_pair.languages[1] if inflects else None
            translations = note_terms(translations, segments, form, lang)
        return translations

    def draw_attention(self, line: str, prefix: str = "", *, all_heads: bool = False) -> str:
        """Draw the attention of a line's translation to the line as SVG.

        It is the attention from which alignments are read. If the line is split into segments, only
        the first one is drawn.

        all_heads: draw all weights instead, of all layers and heads.
        NMTError if the line has no letters or could not be translated.
        """
        from nmt.translate.attention_picture import draw_attention, draw_matrix

        (text,), prefixes = _as_lines([line]), _as_lines([prefix])
        taken = take_out(self._is_known, self.config.tags, only_text(text))
        (segments,) = self._segment_lines(
            [taken.text], prefixes, [taken.protected], has_breaks=self.config.tags is not None
        )
        searched = next((segment for segment in segments if segment.copy is None), None)
        if searched is None:
            raise NMTError("cannot draw attention: the line has no letters")
        with self.engine.at_work():
            ((hypotheses,), _) = search_guarded(self.engine, [searched.source])
            if isinstance(hypotheses, str):
                raise NMTError(f"cannot draw attention: {hypotheses}")
            pair = self.language_pair
            source, target = searched.source.ids, (*pair.tgt_vocabulary.first, *hypotheses[0].ids)
            tokens = pair.src_vocabulary.tokens(source), pair.tgt_vocabulary.tokens(target)
            if all_heads:
                return draw_attention(self.engine.attention_weights(source, target), *tokens)
            (weights,) = self.engine.attention([(source, target)])
        if weights is None:
            raise NMTError("cannot draw attention: out of memory")
        return draw_matrix(weights, *tokens)


def _as_lines(lines: Iterable[str]) -> list[str]:
    """Return lines without their ends; UsageError if something is not a string."""
    texts = list(_checked(lines))
    for line in texts:
        if not isinstance(line, str):
            raise UsageError(f"a line must be a string, not {line!r:.80}")
    return [
        line.removesuffix("\n").removesuffix("\r") if line.endswith("\n") else line
        for line in texts
    ]


def _checked(lines: Iterable[str]) -> Iterable[str]:
    """Return lines, or raise UsageError if they are one string, which would be a line a letter."""
    if isinstance(lines, str):
        raise UsageError(f"give a list of lines, not {lines!r:.80}")
    return lines
