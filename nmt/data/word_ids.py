"""Much text to token ids, by words: a word that was seen before costs a look into a dictionary.

Byte-pair encoding joins characters of one word only, if no piece has a space inside. Then the ids
of a line are those of its words, one after the other, and text repeats its words. SentencePiece
takes two to five times as long for real text. `cuts_by_words` looks at a model once and says
whether this is certain, and every line of which it is not is left to SentencePiece.

`Subwords` is what a worker process gets: both vocabularies, and the words that they know.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice

import numpy as np

from nmt.data.language_tokens import LanguageTokens
from nmt.data.moses import MosesRules
from nmt.data.pieces import PieceModel
from nmt.data.shards import ID_TYPES, TokenRows, token_bytes_for
from nmt.data.vocabulary import ANNOTATION, Vocabulary
from nmt.errors import DataError

_SPACE = "\u2581"  # in pieces
_MOST_WORDS = 400_000  # in a dictionary: some 70 MB
_LONGEST_WORD = 40  # characters; what is longer hardly comes again
_LONGEST_RULE = 256  # bytes that are replaced; rules in a circle replace any number
_LONGEST_MEAN = 15  # characters of a word of a line; above, it is Chinese, Thai or the like


class _UnfitWordError(Exception):
    """A word whose ids may depend on what is beside it."""


class WordIds(dict[str, bytes]):
    """The ids of words, as the bytes that shards have; new words come in as they are looked up."""

    def __init__(self, vocabulary: Vocabulary, *, token_bytes: int) -> None:
        super().__init__({"": b""})  # between two spaces
        self._vocabulary = vocabulary
        self._type = ID_TYPES[token_bytes].char

    def add(self, words: Iterable[str]) -> None:
        """Look up words of which many lines have some: together, they take half of the time."""
        fit = [word for word in islice(words, _MOST_WORDS - len(self)) if _SPACE not in word]
        self.update(zip(fit, map(self._bytes, self._vocabulary.segmented(fit)), strict=True))

    def __missing__(self, word: str) -> bytes:
        # Spaces that normalisation makes, such as of U+00A0, part words as any other space does.
        if _SPACE in word:
            raise _UnfitWordError
        ids = self._bytes(self._vocabulary.segmented([word])[0])
        if len(self) < _MOST_WORDS and len(word) <= _LONGEST_WORD:
            self[word] = ids
        return ids

    def encode(self, lines: Sequence[str]) -> list[bytes]:
        """Return the ids of each line of text, which Moses' rules were applied to."""
        find, join = self.__getitem__, b"".join
        rows, unfit = list[bytes](), list[int]()
        for number, line in enumerate(lines):
            words = line.split(" ")
            try:
                if len(line) > _LONGEST_MEAN * len(words):
                    raise _UnfitWordError
                rows.append(join(map(find, words)))
            except _UnfitWordError:
                rows.append(b"")
                unfit.append(number)
        whole = self._vocabulary.segmented([lines[number] for number in unfit])
        for number, ids in zip(unfit, whole, strict=True):
            rows[number] = self._bytes(ids)
        return rows

    def _bytes(self, ids: Sequence[int]) -> bytes:
        return array(self._type, ids).tobytes()


def encode_rows(
    vocabulary: Vocabulary, lines: Sequence[str], words: WordIds | None, *, token_bytes: int
) -> TokenRows:
    """Return the ids of each line with its tag or language token, as shards have them.

    words: those of the vocabulary, if it `cuts_by_words`.
    """
    if words is None:
        return TokenRows.from_lists(vocabulary.encode(lines), token_bytes=token_bytes)
    first: Sequence[tuple[int, ...]] = ()
    if vocabulary.begins_lines and lines:
        first, lines = zip(*map(vocabulary.split_tag, lines), strict=True)
    rows = words.encode(vocabulary.prepared(lines))
    if first:
        tags = (np.array(ids, ID_TYPES[token_bytes]).tobytes() for ids in first)
        rows = [tag + row for tag, row in zip(tags, rows, strict=True)]
    return TokenRows.from_bytes(rows, token_bytes=token_bytes)


def cuts_by_words(vocabulary: Vocabulary) -> bool:
    """Whether the ids of a word are the same beside any other, so that `WordIds` gives them.

    Runs of spaces must become one `▁` before each word, no rule of normalisation may replace a
    space together with what is beside it, and pieces with `▁` must begin with their only one. By
    itself it must be a piece that text may have: several unknown characters are one token, and so
    are a `▁` that is unknown and those beside it.

    DataError if the rules of normalisation are damaged.
    """
    model = PieceModel.read(vocabulary.model)
    texts = {piece.text for piece in model.pieces}
    return (
        model.is_bpe
        and _SPACE in model.own
        and not any(_SPACE in text[1:] or " " in text for text in texts)
        and vocabulary.normalized("  a  b ") == f"{_SPACE}a{_SPACE}b"
        and not _replaces(model.charsmap, ord(" "))
        and not vocabulary.has_added_tokens
    )


def _replaces(charsmap: bytes, byte: int) -> bool:
    """Whether a rule of normalisation replaces a text with this byte of UTF-8.

    Rules are a double array of 32-bit units (Yata et al. 2007, "A Compact Static Double-Array
    Keeping Character Codes"): a length in bytes, then the units. A unit has its label in its lowest
    8 bits, which the highest bit says to be a value instead, and from bit 10 on where its children
    are: child c stands at (own place) XOR offset XOR c. We walk through all of them level by level.
    Without rules (`identity`), there are no bytes at all.
    """
    units = np.frombuffer(charsmap[4:], "<u4", int.from_bytes(charsmap[:4], "little") // 4)
    places = np.zeros(1, np.uint32)[: len(units)]
    for _ in range(_LONGEST_RULE):
        unit = units[places]
        bases = places ^ ((unit >> 10) << ((unit & 512) >> 6))
        found = []
        for label in range(1, 256):
            children = bases ^ np.uint32(label)
            children = children[children < len(units)]
            children = children[units[children] & 0x8000_00FF == label]
            if label == byte and len(children):
                return True
            found.append(children)
        places = np.unique(np.concatenate(found))  # rules with one ending share its units
        if not len(places):
            return False
    raise DataError("--vocab: the model's rules of normalisation run in a circle")


@dataclass(frozen=True)
class Subwords:
    """The vocabularies of source and target, with their rules for text."""

    models: tuple[bytes, ...]
    """Serialised SentencePiece models: one for both languages, or source and target."""
    moses: MosesRules
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
        words = [
            WordIds(vocabulary, token_bytes=self.token_bytes) if cuts_by_words(vocabulary) else None
            for vocabulary in self._plain[: len(self.models)]
        ]
        return words[0], words[-1]
