"""Language tokens: how a model of several languages is told which ones to read and to write.

Some models read the target language at the start of the source, such as those of OPUS-MT:
`>>fra<< Hello`. In M2M100 (Fan et al. 2020) and NLLB (NLLB Team 2022), the source begins with its
own language, and the decoder reads the target language before the translation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nmt.data.languages import primary_language
from nmt.errors import UsageError

if TYPE_CHECKING:
    from nmt.data.vocabulary import Vocabulary

_SHOWN = 6  # languages of a message


@dataclass(frozen=True)
class LanguageTokens:
    """The tokens of a model's languages, and where they stand."""

    pieces: Mapping[str, str]
    """The piece of each language."""
    src: str
    """Whose token begins a source: `src`, `tgt` or none."""
    tgt: str
    """Whose token the decoder reads before a translation: `tgt` or none."""

    def with_language(self, lang: str) -> LanguageTokens:
        """Return these tokens with one more, named as the others are.

        Raises:
            UsageError: if there is one already.
        """
        if lang in self.pieces:
            raise UsageError(f"--new-language {lang}: the model knows it already; leave it out")
        code, piece = next(iter(self.pieces.items()))
        before, _, after = piece.partition(code)
        return replace(self, pieces={**self.pieces, lang: f"{before}{lang}{after}"})

    def codes(self, lang: str) -> list[str]:
        """Return the model's own codes for a language, such as `deu_Latn` for `de`."""
        if lang in self.pieces or not lang:
            return [lang] * (lang in self.pieces)
        primary = primary_language(lang)
        return [one for one in self.pieces if primary_language(one) == primary]

    def has_choice(self, side: str) -> bool:
        """Whether the model can be told the language of a side, `src` or `tgt`."""
        return side in (self.src, self.tgt)

    def check(self, side: str, lang: str, option: str, *, is_given: bool) -> None:
        """Check that the model knows the language of a side, which `option` says.

        Without a language for the decoder to read, each source may begin with a tag of its own.

        Raises:
            UsageError: if it does not, or knows several, and the user gave the language or the
                decoder needs one.
        """
        codes = self.codes(lang)
        if not self.has_choice(side) or len(codes) == 1 or not (is_given or self.tgt):
            return
        if codes:
            raise UsageError(f"{option} {lang}: the model has {' and '.join(codes)}; choose one")
        names = sorted(self.pieces)
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        known = f"the model knows {', '.join(names[:_SHOWN])}{more}"
        raise UsageError(f"{option} {lang}: {known}" if lang else f"{option} is missing: {known}")

    def begin(
        self, vocabularies: tuple[Vocabulary, Vocabulary], langs: tuple[str, str]
    ) -> tuple[Vocabulary, Vocabulary]:
        """Return the vocabularies of source and target with the tokens of a pair of languages.

        A language that is not known for certain has none.

        Raises:
            DataError: if a vocabulary lacks the token.
        """
        codes = {"src": self.codes(langs[0]), "tgt": self.codes(langs[1])}
        found = list(vocabularies)
        for place, whose in enumerate((self.src, self.tgt)):
            if len(known := codes.get(whose, [])) == 1:
                found[place] = found[place].beginning_with(self.pieces[known[0]])
        return found[0], found[1]
