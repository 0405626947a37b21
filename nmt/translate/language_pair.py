"""What a translation needs to know of a model's text: languages, vocabularies, lengths."""

from __future__ import annotations

from typing import NamedTuple, Self

from nmt.data.vocabulary import Vocabulary
from nmt.models.model_file import ModelCard


class LanguagePair(NamedTuple):
    languages: tuple[str, str]  # codes; they decide how sentences are split and joined
    src_vocabulary: Vocabulary
    tgt_vocabulary: Vocabulary
    max_src_tokens: int  # longer sources are translated in segments
    whole_src_tokens: int = 0  # longer lines are split into sentences; 0: as many as the maximum

    @classmethod
    def from_card(cls, card: ModelCard, src_lang: str | None, tgt_lang: str | None) -> Self:
        """Return the pair of a model, given the languages if it knows several."""
        card = card.for_pair(src_lang, tgt_lang)
        vocabularies = card.src_vocabulary, card.tgt_vocabulary
        lengths = card.max_src_tokens, card.whole_src_tokens
        return cls((card.src_lang, card.tgt_lang), *vocabularies, *lengths)
