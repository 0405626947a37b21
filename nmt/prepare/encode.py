"""The work on a block of training text, by a list of steps: what a worker is called with.

`nmt.prepare.prepare` builds the list from its options: repair, judge, encode, annotate, join
windows, hash and so on. A step that is not asked for is not in the list.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from nmt.data.folder import TEXT
from nmt.data.language_tokens import LanguageTokens
from nmt.data.manifest import FlawRecord
from nmt.data.moses import Moses
from nmt.data.shards import TokenRows, token_bytes_for
from nmt.data.vocabulary import ANNOTATION, Vocabulary
from nmt.data.word_ids import WordIds, cuts_by_words, encode_rows
from nmt.prepare.block import Block, Hashes, Verdicts, Work

Step = Callable[[Work], None]
"""A step of the work on a block: it adds to the work, or drops pairs."""


@dataclass(frozen=True)
class Subwords:
    """The vocabularies of both sides, in a form that is sent to workers."""

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


def encode_lines(work: Work, *, subwords: Subwords) -> None:
    """Cut the lines that are left into subwords: a step."""
    start = time.process_time()
    work.ids = subwords.encode(work.tagged, work.lines[1], work.block.langs)
    work.encoding_seconds = time.process_time() - start


def keep_text(work: Work) -> None:
    """Keep the raw lines as a side column: the step of --keep-text."""
    src, tgt = map(TokenRows.from_text, work.lines)
    work.side_columns[TEXT] = src, tgt


@dataclass(frozen=True)
class EncodedBlock:
    """The result for one block, without the text that is not kept; see `Work`."""

    verdicts: Verdicts  # (pairs,)
    hashes: dict[str, Hashes]  # (kept,) for each rule of duplicates that applies
    src: TokenRows  # (kept,)
    tgt: TokenRows  # (kept,)
    side_columns: dict[str, tuple[TokenRows, TokenRows]]  # (kept,) each side
    seconds: tuple[float, float]
    """CPU seconds for SentencePiece, and for all else."""
    shift: int
    flaws: tuple[FlawRecord, ...]


def encode_block(block: Block, *, steps: Sequence[Step]) -> EncodedBlock:
    """Do all the work on a block. Workers call this; the steps are sent to each of them once."""
    start = time.process_time()
    work = run_steps(Work.decode(block), steps)
    assert work.ids is not None
    encoding = work.encoding_seconds
    return EncodedBlock(
        work.verdicts,
        work.hashes,
        *work.ids,
        work.side_columns,
        (encoding, time.process_time() - start - encoding),
        work.shift,
        work.flaws,
    )


def judge_block(block: Block, *, steps: Sequence[Step]) -> tuple[Verdicts, tuple[FlawRecord, ...]]:
    """Return only the verdicts on the pairs of a block, and the flaws of its lines."""
    work = run_steps(Work.decode(block), steps)
    return work.verdicts, work.flaws


def run_steps(work: Work, steps: Sequence[Step]) -> Work:
    """Do the steps, one after the other, and return the work."""
    for step in steps:
        step(work)
    return work
