"""The vocabularies of a pair of languages, in a form that is sent to worker processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from nmt.data.language_tokens import LanguageTokens
from nmt.data.moses import Moses
from nmt.data.shards import TokenRows, token_bytes_for
from nmt.data.vocabulary import ANNOTATION, Vocabulary
from nmt.data.word_ids import WordIds, cuts_by_words, encode_rows


@dataclass(frozen=True)
class Subwords:
    """The vocabularies of source and target, with their rules for text."""

    models: tuple[bytes, ...]
    """Serialised SentencePiece models: one for both languages, or source and target."""
    moses: tuple[Moses | None, Moses | None]
    languages: LanguageTokens | None

    def encode(
        self, src: Sequence[str], tgt: Sequence[str], langs: tuple[str, str]
    ) -> tuple[TokenRows, TokenRows]:
        """Return the token ids of source and target lines in these languages."""
        encode = partial(encode_rows, token_bytes=self.token_bytes)
        src_vocabulary, tgt_vocabulary = self.vocabularies(langs)
        src_words, tgt_words = self._words
        return encode(src_vocabulary, src, src_words), encode(tgt_vocabulary, tgt, tgt_words)

    def add_words(self, counts: Sequence[Mapping[str, int]]) -> None:
        """Encode the words that are known to occur again, before workers do it one by one.

        counts: of both languages, or of the source and of the target; may be empty.
        """
        for words, of_side in zip(self._words, counts, strict=False):
            if words is not None:
                words.add(word for word, count in of_side.items() if count > 1)

    def rows(self, ids: Sequence[Sequence[int]]) -> TokenRows:
        """Return lists of ids as shards have them."""
        return TokenRows.from_lists(ids, token_bytes=self.token_bytes)

    def vocabularies(self, langs: tuple[str, str]) -> tuple[Vocabulary, Vocabulary]:
        """Return the vocabularies of a pair of languages."""
        return self._plain if self.languages is None else self.languages.begin(self._plain, langs)

    @property
    def separator(self) -> int | None:
        """The token between the lines of a window, if there is one."""
        return self._plain[0].separator

    @property
    def marker(self) -> int:
        """The id that begins an annotation of a source, if there may be some."""
        return self._plain[0].control_ids(ANNOTATION)[0]

    @property
    def token_bytes(self) -> int:
        """Bytes of a token id in the shards."""
        return token_bytes_for(max(map(len, self._plain)))

    @cached_property
    def _plain(self) -> tuple[Vocabulary, Vocabulary]:
        src, tgt = self.moses
        return Vocabulary(self.models[0], src), Vocabulary(self.models[-1], tgt)

    @cached_property
    def _words(self) -> tuple[WordIds | None, WordIds | None]:
        """The words of source and target, if their ids do not depend on what is beside them."""
        vocabularies = self._plain[: len(self.models)]
        words = [
            WordIds(vocabulary, token_bytes=self.token_bytes) if cuts_by_words(vocabulary) else None
            for vocabulary in vocabularies
        ]
        return words[0], words[-1]
