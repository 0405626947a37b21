"""The work of a worker: decode, clean and encode one block of training text."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import compress

import numpy as np

from nmt.data.folder import TEXT
from nmt.data.language_tokens import LanguageTokens, spell_pair, tagged
from nmt.data.manifest import FlawRecord
from nmt.data.moses import Moses
from nmt.data.shards import TokenRows, token_bytes_for
from nmt.data.vocabulary import Vocabulary
from nmt.lexical.term_annotation import MARKERS
from nmt.prepare.duplicates import Hashes, hash_lines, hash_pairs, normalized
from nmt.prepare.faults import line_shift
from nmt.prepare.judge import KEPT, Cleaner, Verdicts
from nmt.prepare.terms import Annotator
from nmt.prepare.text import Block
from nmt.prepare.windows import Side, Windows, draw_context


@dataclass(frozen=True)
class EncodedBlock:
    """The result for one block, without the text that is not kept."""

    verdicts: Verdicts  # (lines,)
    hashes: dict[str, Hashes]  # (kept,) for each rule of duplicates that applies
    src: TokenRows  # (kept,)
    tgt: TokenRows  # (kept,)
    side_columns: dict[str, tuple[TokenRows, TokenRows]]
    """The values that are kept, by the name of their column: (kept,) each side."""
    seconds: tuple[float, float]
    """CPU seconds for decoding and judging, and for SentencePiece."""
    shortened: Mapping[str, int]
    """How many windows have fewer lines than were drawn, by the reason."""
    shift: int
    """By how many lines the targets seem to lag their sources."""
    flaws: tuple[FlawRecord, ...]
    """Lines that had entities or a broken encoding."""


@dataclass(frozen=True)
class BlockEncoder:
    """The function that workers call, with everything that it needs; sent to each worker once."""

    cleaner: Cleaner
    models: tuple[bytes, ...]
    """Serialised SentencePiece models: one for both languages, or source and target."""
    moses: tuple[Moses | None, Moses | None]
    languages: LanguageTokens | None
    tags: tuple[str, ...]
    """The tag put before the source lines of each corpus; may be empty."""
    has_pairs: bool
    """Whether corpora are in several pairs of languages."""
    keep_text: bool = False
    window: int = 1
    """The most lines of a pair, in documents."""
    seed: int = 0
    """Of the draw of windows."""
    annotator: Annotator | None = None
    """Of --terms."""

    def __call__(self, block: Block) -> EncodedBlock:
        began = time.process_time()
        pairs, flaws = self.cleaner.read(block)
        verdicts = self.cleaner.judge_text(pairs)
        shift = line_shift(pairs)
        kept = np.flatnonzero(verdicts == KEPT)
        src_lines, tgt_lines = ([side.lines[at] for at in kept] for side in pairs.sides)
        judged = time.process_time()
        tagged_lines = [tagged(line, self.tags[block.corpus]) for line in src_lines]
        src_rows, tgt_rows = self.encode(tagged_lines, tgt_lines, block.langs)
        encoded = time.process_time()
        by_length = self.cleaner.judge_tokens(src_rows.lengths, tgt_rows.lengths)
        verdicts[kept] = by_length
        chosen = by_length == KEPT
        src_lines, tgt_lines = (list(compress(side, chosen)) for side in (src_lines, tgt_lines))
        rows = src_rows.select(chosen), tgt_rows.select(chosen)
        shortened: Mapping[str, int] = {}
        if self.annotator is not None:
            src_rows = self.annotator(
                self._vocabularies_of(block.langs)[0],
                list(zip(compress(tagged_lines, chosen), tgt_lines, strict=True)),
                rows[0],
                corpus=block.corpus,
                numbers=np.array([block.line_number(at) for at in kept[chosen].tolist()], np.int64),
                most=self.cleaner.cleaning.max_length,
            )
            rows = src_rows, rows[1]
        side_columns = {}
        if self.keep_text:
            side_columns[TEXT] = TokenRows.of_text(src_lines), TokenRows.of_text(tgt_lines)
        if self.window > 1:
            lines = src_lines, tgt_lines
            numbers = [block.line_number(at) for at in kept[chosen].tolist()]
            windows, rows = self._windows(block, numbers, lines, rows)
            src_lines, tgt_lines = windows.texts(src_lines), windows.texts(tgt_lines)
            shortened = windows.shortened
        hashes = {
            rule: self._hash(rule, src_lines, tgt_lines, block.langs)
            for rule in self.cleaner.cleaning.duplicate_rules
        }
        for column in block.side_columns:
            if column.kept_as:
                values = block.side_values(column)
                rows_of = TokenRows.of_text([values[at] for at in kept[chosen]])
                side_columns[column.kept_as] = rows_of, TokenRows.of_text([""] * len(rows_of))
        seconds = (judged - began + time.process_time() - encoded, encoded - judged)
        return EncodedBlock(verdicts, hashes, *rows, side_columns, seconds, shortened, shift, flaws)

    def _windows(
        self,
        block: Block,
        numbers: list[int],
        lines: tuple[list[str], list[str]],
        rows: tuple[TokenRows, TokenRows],
    ) -> tuple[Windows, tuple[TokenRows, TokenRows]]:
        """Return the windows that end with the lines of these numbers, and their ids."""
        src, tgt = lines
        tagged_src = [tagged(line, self.tags[block.corpus]) for line in src]
        sides = tuple(map(Side.of, self._vocabularies_of(block.langs), (tagged_src, tgt), rows))
        hashes = hash_pairs(hash_lines(src), hash_lines(tgt))
        wanted = draw_context(hashes, window=self.window, seed=self.seed)
        longest = self.cleaner.cleaning.max_length
        windows = Windows.choose(numbers, wanted, sides[0], sides[1], longest=longest)
        src_rows, tgt_rows = (
            TokenRows.of(side.joined(windows.starts), token_bytes=self.token_bytes)
            for side in sides
        )
        return windows, (src_rows, tgt_rows)

    def encode(
        self, src: list[str], tgt: list[str], langs: tuple[str, str]
    ) -> tuple[TokenRows, TokenRows]:
        """Return the token ids of source and target lines in these languages."""
        src_rows, tgt_rows = (
            TokenRows.of(vocabulary.encode(lines), token_bytes=self.token_bytes)
            for vocabulary, lines in zip(self._vocabularies_of(langs), (src, tgt), strict=True)
        )
        return src_rows, tgt_rows

    def _vocabularies_of(self, langs: tuple[str, str]) -> tuple[Vocabulary, Vocabulary]:
        vocabularies = self._vocabularies
        return vocabularies if self.languages is None else self.languages.begin(vocabularies, langs)

    @property
    def separator(self) -> int | None:
        """The token between the lines of a window; None if pairs are single lines."""
        return self._vocabularies[0].separator if self.window > 1 else None

    @property
    def marker(self) -> int | None:
        """The id that begins an annotation of a source, if there may be some."""
        return None if self.annotator is None else self._vocabularies[0].control_ids(MARKERS)[0]

    @property
    def token_bytes(self) -> int:
        """Bytes of a token id in the shards."""
        return token_bytes_for(max(map(len, self._vocabularies)))

    @cached_property
    def _vocabularies(self) -> tuple[Vocabulary, Vocabulary]:
        src, tgt = self.moses
        return Vocabulary(self.models[0], src), Vocabulary(self.models[-1], tgt)

    def _hash(self, rule: str, src: list[str], tgt: list[str], langs: tuple[str, str]) -> Hashes:
        if rule == "near_duplicate":
            src, tgt = normalized(src), normalized(tgt)
        if self.has_pairs:  # in other languages it is another pair
            src = [tagged(line, spell_pair(langs)) for line in src]
        hashes = hash_lines(src)
        by_source = self.cleaner.cleaning.duplicates_by == "source"
        return hashes if by_source else hash_pairs(hashes, hash_lines(tgt))
