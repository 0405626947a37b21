"""Counts of a job: what went in and out, and the warnings of what was not as it should be."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from textwrap import shorten

from nmt import console
from nmt.data.composition import DECOMPOSED_REMEDY, is_decomposed
from nmt.jobs.lines import Line
from nmt.jobs.parallel import Translators
from nmt.markup.kept_pieces import find_message
from nmt.scoring.quality import length_of
from nmt.translate.language_pair import LanguagePair
from nmt.translate.output import Tally, Translation

# Of the lines of a text like that of calibration, where one of a hundred is unusual.
_MOST_UNUSUAL, _FEW_UNUSUAL = 0.1, 2


def translate_whole(
    lines: Sequence[Line], pool_lines: int, start: Callable[[], Translators], unit: str
) -> tuple[list[Translation], Counts, LanguagePair]:
    """Translate the lines of what is read as a whole, `pool_lines` at a time, and count them.

    start: returns translators, when it has been read; unit: what progress calls a line.
    """
    pools = (lines[first : first + pool_lines] for first in range(0, len(lines), pool_lines))
    counts, translations, started = Counts(), list[Translation](), time.monotonic()
    with console.progress("translating", total=len(lines), unit=unit) as bar:
        translators = start()
        for translated in translators.translate(pools, bar.update):
            translations += translated
    language_pair = translators.translator.language_pair
    for line, translation in zip(lines, translations, strict=True):
        counts.add(line, translation, composes=language_pair.src_vocabulary.composes)
    counts.lines_out, counts.seconds = counts.lines, time.monotonic() - started
    return translations, counts, language_pair


@dataclass
class Counts:
    edited: int = 0  # files that somebody else has changed or written, which stay
    lines: int = 0
    lines_out: int = 0  # more with n-best lists
    tokens: int = 0  # of the best translations
    seconds: float = 0.0
    split: int = 0  # into segments or sentences
    guarded: int = 0  # searched again because of a loop
    copied: int = 0  # without letters
    remembered: int = 0  # from a memory
    invalid: Tally = field(default_factory=Tally)  # with invalid bytes
    cut: Tally = field(default_factory=Tally)
    """Longer than any training source, or with such a sentence."""
    fell_back: Tally = field(default_factory=Tally)
    """Translated by themselves, since it failed in context."""
    decomposed: Tally = field(default_factory=Tally)
    """With letters and marks that the model's vocabulary does not compose."""
    messages: Tally = field(default_factory=Tally)
    """ICU messages with branches, which markup keeps as they are."""
    with_terms: int = 0  # in their source
    without_term: Tally = field(default_factory=Tally)  # that should have put something there
    rated: int = 0  # with an estimated chrF
    unusual: int = 0  # of them
    chrf: float = 0.0  # the estimates, each as often as its source has characters
    characters: int = 0  # of the sources of rated lines
    failed: Tally = field(default_factory=Tally)

    def add(self, line: Line, best: Translation, *, composes: bool) -> None:
        self.lines += 1
        number = self.lines
        self.tokens += len(best.tokens)
        if not line.is_valid:
            self.invalid.add(number)
        if not composes and (is_decomposed(line.text) or is_decomposed(line.prefix)):
            self.decomposed.add(number)
        if best.error:
            self.failed.add(number, best.error)
            return
        if not best.segments and find_message(line.text):
            self.messages.add(number)
        if best.quality is not None:
            self.rated += 1
            self.unusual += best.quality.is_unusual
            self.chrf += best.quality.chrf * length_of(line.text)
            self.characters += length_of(line.text)
        self.split += best.segments > 1
        self.guarded += best.guarded
        self.copied += best.copied
        self.remembered += best.remembered
        self.with_terms += bool(best.terms)
        if missing := [use for use in best.terms if not use.is_placed]:
            term = f"{missing[0].source} -> {missing[0].target}"
            self.without_term.add(number, shorten(term, 80, placeholder="..."))
        if best.fell_back:
            self.fell_back.add(number)
        if best.is_cut:
            self.cut.add(number)

    def warn(
        self,
        name: str,
        unit: str = "line",
        *,
        encoding: str = "",
        too_long: str = "",
        calibrated: int = 0,
    ) -> None:
        """Warn about what was not as it should be, and name the first line or unit of the text.

        calibrated: with how many lines, if the quality is to be told.
        encoding: of the text, if it has lines.
        too_long: what lines that were cut have, if that is to be told.
        """
        for tally, verbs, fault, after in self._faults(unit, encoding, too_long):
            if tally.lines:
                console.warning(tally.told(name, verbs, fault, after, unit))
        if calibrated and self.rated:
            told = (
                f"{name}: chrF may be {self.chrf / self.characters:.1f}, if the text is like the "
                f"{calibrated:,} lines of calibration; {self.unusual:,} of {self.rated:,} {unit}s "
                "are unusual"
            )
            if self.unusual > max(_FEW_UNUSUAL, _MOST_UNUSUAL * self.rated):
                console.warning(f"{told}, so it is not; calibrate with 100 lines of such text")
            else:
                console.notice(told)

    def _faults(
        self, unit: str, encoding: str, too_long: str
    ) -> Iterator[tuple[Tally, tuple[str, str], str, str]]:
        has = ("has", "have")
        if encoding:
            yield self.invalid, ("is", "are"), f"not valid {encoding}", "bad bytes became U+FFFD"
        if too_long:
            yield self.cut, has, too_long, "long ones were split into segments"
        if encoding:
            fault = "translated without the lines before"
            reason = "the model gave another number of lines or a loop"
            yield self.fell_back, ("was", "were"), fault, reason
        yield self.decomposed, has, "letters apart from their marks (NFD)", DECOMPOSED_REMEDY
        reason = "it stays as it is; translate its branches one by one"
        yield self.messages, has, "an ICU message with plural, select or choice", reason
        hint = "--format jsonl shows all" if unit == "line" else ""
        yield self.without_term, ("lacks", "lack"), "a term", hint
        stays = unit == "unit"
        fault = f"not be translated{'' if stays else ' and left empty'}"
        yield self.failed, ("could", "could"), fault, "the source stays" if stays else ""
