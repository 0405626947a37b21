"""Tags are taken out of lines before they are translated, and put back into the translations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from nmt.lexical.token_offsets import token_offsets
from nmt.markup.breaks import LINE_END, MarkedLines
from nmt.markup.tags import parse
from nmt.search.engine import Source
from nmt.translate.joined_segments import join_parts
from nmt.translate.output import TermUse, Translation
from nmt.translate.sources import only_text
from nmt.translate.steps import LinesUnderWay


@dataclass(frozen=True)
class TakeTagsOut:
    """The first step with `--markup`."""

    form: str

    def __call__(self, lines: LinesUnderWay) -> None:
        """Leave the text without tags, and note what must stay as it is."""
        lines.marked = [MarkedLines.of(only_text(line), self.form) for line in lines.texts]
        units = [list(line.units()) for line in lines.marked]
        lines.texts = [unit.text for line in units for unit in line]
        lines.kept = [unit.kept for line in units for unit in line]
        lines.prefixes = ()  # all are blank
        lines.contexts = [
            [MarkedLines.of(line, self.form).text.replace(LINE_END, " ") for line in context]
            for context, line in zip(lines.contexts, units, strict=False)
            for _ in line
        ]


@dataclass(frozen=True)
class PutTagsBack:
    """The last step with `--markup`."""

    form: str
    keeps_alignment: bool  # which this step needs itself
    inflected_lang: str | None  # the language of which any form of a term will do

    def __call__(self, lines: LinesUnderWay) -> None:
        """Put the tags of each line into its translations."""
        translations = (lines.translations[number] for number in range(len(lines.texts)))
        lines.translations = {
            number: self._whole(line, translations) for number, line in enumerate(lines.marked)
        }

    def _whole(self, line: MarkedLines, translations: Iterator[Translation]) -> Translation:
        """Return the translation of a line, given those of its units in order."""
        parts = [next(translations)]
        for message in line.messages:
            branches = [
                part
                if isinstance(part, str)
                else self._whole(MarkedLines.whole(part), translations)
                for part in message.parts
            ]
            parts += [part for part in branches if isinstance(part, Translation)]
            message.node.opening = "".join(
                part if isinstance(part, str) else part.text for part in branches
            )
        if failed := next((part for part in parts if part.error), None):
            return failed
        own = self._tagged(line, parts[0])
        if len(parts) == 1:
            return own
        joined = join_parts([Source((), separator=" ")] * len(parts), [own, *parts[1:]])
        return replace(joined, text=own.text, others=own.others)

    def _tagged(self, line: MarkedLines, translation: Translation) -> Translation:
        links, weaker_links = [], []
        alignment = translation.alignment
        if alignment is not None:
            src = token_offsets(line.text, alignment.src_tokens)
            tgt = token_offsets(translation.text, translation.tokens)
            links = [
                (*src[position], *offsets)
                for position, offsets in zip(alignment.positions, tgt, strict=True)
            ]
            weaker_links = [
                (*src[src_token], *tgt[tgt_token])
                for src_token, tgt_token in alignment.weaker_links()
            ]
        text = line.restore(translation.text, links, weaker_links)
        terms = translation.terms
        if line.kept:  # pieces may have replaced some
            without_tags = parse(text, self.form).text
            terms = tuple(TermUse.of(use.term, without_tags, self.inflected_lang) for use in terms)
        return replace(
            translation,
            text=text,
            terms=terms,
            alignment=alignment if self.keeps_alignment else None,
            others=tuple(self._tagged(line, other) for other in translation.others),
        )
