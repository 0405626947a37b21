"""Language tokens: how a model of several languages is told which ones to read and to write.

Some models read the target language at the start of the source, such as those of OPUS-MT:
`>>fra<< Hello`. In M2M100 (Fan et al. 2020) and NLLB (NLLB Team 2022), the source begins with its
own language, and the decoder reads the target language before the translation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nmt.data.languages import primary_language
from nmt.errors import UsageError

if TYPE_CHECKING:
    from nmt.data.vocabulary import Vocabulary

_SCRIPT = re.compile(r"[-_]([A-Z][a-z]{3})\b")
_SHOWN = 6  # languages of a message

Langs = tuple[str, str]
"""Source and target."""
Wanted = tuple[str | None, str | None]
"""The same by --from and --to, if they are given."""


SIDES, OPTIONS = ("src", "tgt"), ("--from", "--to")


def check_only(own: str, wanted: str | None, option: str) -> None:
    """Check that a language which is given is the only one that the model knows (UsageError)."""
    if wanted is not None and primary_language(wanted) != primary_language(own):
        raise UsageError(f"{option} {wanted}: the model knows only {own}")


def spell_pair(langs: Langs) -> str:
    """Return a pair of languages as options and files name it, such as `en-de`."""
    return f"{langs[0]}-{langs[1]}"


def _codes(lang: str, known: Iterable[str]) -> list[str]:
    """Return which of the known codes stand for a language."""
    if lang in known or not lang:
        return [lang] * (lang in known)
    primary, script = primary_language(lang), _SCRIPT.search(lang)
    alike = [code for code in known if primary_language(code) == primary]
    if script is None:
        return alike
    scripts = {code: _SCRIPT.search(code) for code in alike}
    return [code for code, own in scripts.items() if own is None or own[1] == script[1]]


def tagged(line: str, tag: str) -> str:
    """Return the line with a tag before it, as a user would type it."""
    return f"{tag} {line}" if tag else line


@dataclass(frozen=True)
class LanguageTokens:
    """The tokens of a model's languages, and where they stand."""

    pieces: Mapping[str, str]  # the piece of each language
    src: str  # whose token begins a source: `src`, `tgt` or none
    tgt: str  # whose token the decoder reads before a translation: `tgt` or none
    pairs: tuple[str, ...] = ()
    """The pairs of languages that it was trained for, such as `en-de`; empty if not known."""

    @classmethod
    def of_targets(cls, pairs: Sequence[Langs]) -> LanguageTokens:
        """Return tokens such as `<2de>`, which begin a source (Johnson et al. 2017, section 3)."""
        pieces = {tgt: f"<2{tgt}>" for tgt in sorted({tgt for _, tgt in pairs})}
        return cls(pieces, src="tgt", tgt="", pairs=tuple(map(spell_pair, pairs)))

    def with_pairs(self, pairs: Sequence[Langs]) -> LanguageTokens:
        """Return these tokens for some more pairs of languages."""
        more = (*self.pairs, *map(spell_pair, pairs)) if self.pairs else ()
        return replace(self, pairs=tuple(dict.fromkeys(more)))

    def with_language(self, lang: str) -> LanguageTokens:
        """Return these tokens with one more, named as the others are (UsageError)."""
        if lang in self.pieces:
            raise UsageError(f"--new-language {lang}: the model knows it already; leave it out")
        code, piece = next(iter(self.pieces.items()))
        before, _, after = piece.partition(code)
        return replace(self, pieces={**self.pieces, lang: f"{before}{lang}{after}"})

    def codes(self, lang: str) -> list[str]:
        """Return the model's own codes for a language, such as `deu_Latn` for `de`."""
        return _codes(lang, self.pieces)

    def has_choice(self, side: str) -> bool:
        """Whether the model can be told the language of a side, `src` or `tgt`."""
        return side in (self.src, self.tgt)

    def check(self, side: str, lang: str, option: str, *, is_given: bool) -> None:
        """Check that the model knows the language of a side, which `option` says.

        Without a language for the decoder to read, each source may begin with a tag of its own.
        UsageError if it does not, or knows several, and the user gave the language or the decoder
        needs one.
        """
        codes = self.codes(lang)
        if not self.has_choice(side) or len(codes) == 1 or not (is_given or self.tgt):
            return
        if codes:
            raise UsageError(f"{option} {lang}: the model has {' and '.join(codes)}; choose one")
        alike = sorted(code for code in self.pieces if code[:1] == lang[:1])
        names = alike or sorted(self.pieces)[:_SHOWN]
        others = len(self.pieces) - len(names)
        known = f"the model knows {', '.join(names)}" + f" and {others} more" * (others > 0)
        raise UsageError(f"{option} {lang}: {known}" if lang else f"{option} is missing: {known}")

    def choose(self, own: Langs, wanted: Wanted) -> Langs:
        """Return the languages of a translation.

        own: those of the model, which may be "".
        UsageError: see `check`; if a language that is given has no choice; or if the model was
        trained for other pairs.
        """
        if self.pairs:
            return self._choose_pair(own, wanted)
        for side, default, lang, option in zip(SIDES, own, wanted, OPTIONS, strict=True):
            if not self.has_choice(side):
                check_only(default, lang, option)
            self.check(side, lang or default, option, is_given=lang is not None)
        return wanted[0] or own[0], wanted[1] or own[1]

    def _choose_pair(self, own: Langs, wanted: Wanted) -> Langs:
        """Choose among the pairs that the model was trained for.

        A pair that it was not trained for is possible if the source language is not given: a model
        with target tokens is then told only what to write.
        """
        known = [(src, tgt) for src, _, tgt in (pair.partition("-") for pair in self.pairs)]
        src, tgt = (lang or default for lang, default in zip(wanted, own, strict=True))
        into = [pair for pair in known if not tgt or _codes(tgt, pair[1:])]
        fitting = [pair for pair in into if not src or _codes(src, pair[:1])]
        trained = f"the model was trained for {', '.join(self.pairs)}"
        if not fitting:
            chosen = zip(OPTIONS, (src, tgt), strict=True)
            typed = " ".join(f"{option} {lang}" for option, lang in chosen if lang)
            hint = "; leave out --from to try this pair all the same" * bool(into and wanted[0])
            raise UsageError(f"{typed}: {trained}{hint}")
        if len({pair[1] for pair in fitting}) > 1:
            raise UsageError(f"--to {tgt or 'is missing'}: {trained}; choose one")
        sources = {pair[0] for pair in fitting}
        return (sources.pop() if len(sources) == 1 else ""), fitting[0][1]

    def begin(
        self, vocabularies: tuple[Vocabulary, Vocabulary], langs: Langs
    ) -> tuple[Vocabulary, Vocabulary]:
        """Return the vocabularies of source and target with the tokens of a pair of languages.

        A language that fits several tokens, or none, has no token. DataError if a vocabulary lacks
        the token.
        """
        codes = {"src": self.codes(langs[0]), "tgt": self.codes(langs[1])}
        begun = list(vocabularies)
        for place, whose in enumerate((self.src, self.tgt)):
            if len(known := codes.get(whose, [])) == 1:
                begun[place] = begun[place].beginning_with(self.pieces[known[0]])
        return begun[0], begun[1]
