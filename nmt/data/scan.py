"""The first pass over the text: count, compare, judge, before anything is written.

For a training text it leaves one byte a pair, the verdict of the rules that need only the text.
Later passes read the text again and need no rule but the one on tokens, so they can be cut into
ranges of lines.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from nmt import console
from nmt.data.cleaning import RULES, Cleaner, RejectReport, is_blank
from nmt.data.corpus import Encoding, PairBatch, ParallelText, read_pairs
from nmt.data.duplicates import SeenPairs, hash_pair
from nmt.errors import DataError

KEPT = 0
_CODES = {rule: code for code, rule in enumerate(RULES, start=1)}
# More bad lines than this share is another encoding, not a few accidents.
_MAX_BAD_SHARE = 0.1
# SentencePiece's longest piece: a line of n characters has at least n / 16 tokens.
_PIECE_CHARACTERS = 16


@dataclass
class ScannedText:
    """A parallel text after the first pass."""

    text: ParallelText
    verdicts: bytearray
    """One byte a pair: `KEPT`, or the code of the rule that rejected it."""
    stamps: tuple[tuple[int, int], ...]
    """Size and time of both files, to notice when they change under our hands."""
    rejects: RejectReport = field(default_factory=RejectReport)

    @property
    def lines(self) -> int:
        return len(self.verdicts)

    @property
    def kept(self) -> int:
        return self.verdicts.count(KEPT)

    def reject(self, rule: str, *, line: int, src: str, tgt: str) -> None:
        """Reject the pair of a line (from 1) by a rule."""
        self.verdicts[line - 1] = _CODES[rule]
        self.rejects.add(rule, line=line, src=src, tgt=tgt)


@dataclass(frozen=True)
class TextBatch:
    """Kept pairs of a text, decoded, with their line numbers."""

    numbers: list[int]
    src: list[str]
    tgt: list[str]


def scan_train(
    text: ParallelText, encoding: Encoding, cleaner: Cleaner, seen: SeenPairs
) -> ScannedText:
    """Judge every pair of a training text; DataError when the text cannot be used at all."""
    scanned = ScannedText(text, bytearray(), _stamps(text))
    bad_src, bad_tgt = _BadLines(text.src), _BadLines(text.tgt)
    with console.progress(f"Reading {text.prefix}", total=None, unit="pairs") as bar:
        for batch in read_pairs(text, encoding):
            src = [bad_src.decode(n, line, encoding) for n, line in _number(batch, batch.src)]
            tgt = [bad_tgt.decode(n, line, encoding) for n, line in _number(batch, batch.tgt)]
            rules = [cleaner.judge_text(*pair) for pair in zip(src, tgt, strict=True)]
            if cleaner.applies("duplicate"):
                _mark_duplicates(src, tgt, rules, seen)
            scanned.verdicts.extend(bytes(len(rules)))
            for at, rule in enumerate(rules):
                if rule is not None:
                    scanned.reject(
                        rule,
                        line=batch.number + at,
                        src=_show(batch.src[at], encoding),
                        tgt=_show(batch.tgt[at], encoding),
                    )
            bar.update(len(rules))
    for bad in (bad_src, bad_tgt):
        bad.settle(scanned.lines, encoding)
    return scanned


def scan_held_out(text: ParallelText, encoding: Encoding) -> ScannedText:
    """Check that every line of valid or test can be used; DataError names the first that cannot."""
    scanned = ScannedText(text, bytearray(), _stamps(text))
    for batch in read_pairs(text, encoding):
        for path, lines in ((text.src, batch.src), (text.tgt, batch.tgt)):
            for number, line in _number(batch, lines):
                decoded = encoding.decode(line, number=number)
                if decoded is None:
                    raise DataError(
                        f"{path} line {number:,} is not valid {encoding.name}; every line of valid "
                        "and test is kept, so mend it, or pass --encoding"
                    )
                if is_blank(decoded):
                    raise DataError(
                        f"{path} line {number:,} is blank; every line of valid and test is kept, "
                        "so take the pair out of both files"
                    )
        scanned.verdicts.extend(bytes(len(batch.src)))
    if not scanned.lines:
        raise DataError(f"{text.src} and {text.tgt} are empty")
    return scanned


def read_kept(scanned: ScannedText, encoding: Encoding) -> Iterator[TextBatch]:
    """Read a scanned text again and yield what is kept; DataError when it has changed since."""
    lines = 0
    for batch in read_pairs(scanned.text, encoding):
        lines += len(batch.src)
        kept = TextBatch([], [], [])
        for at, (src_line, tgt_line) in enumerate(zip(batch.src, batch.tgt, strict=True)):
            number = batch.number + at
            if number > scanned.lines:
                break
            if scanned.verdicts[number - 1] == KEPT:
                src = encoding.decode(src_line, number=number)
                tgt = encoding.decode(tgt_line, number=number)
                if src is None or tgt is None:
                    raise _changed(scanned)
                kept.numbers.append(number)
                kept.src.append(src)
                kept.tgt.append(tgt)
        yield kept
    if lines != scanned.lines or _stamps(scanned.text) != scanned.stamps:
        raise _changed(scanned)


def sample_pairs(
    texts: Sequence[ScannedText],
    encoding: Encoding,
    cleaner: Cleaner,
    *,
    size: int,
    seed: int,
) -> Iterator[tuple[str, str]]:
    """Yield `size` of the kept pairs, each set of them as likely as any other, or all.

    Selection sampling (Knuth, The Art of Computer Programming 3.4.2, algorithm S): the text passes
    by once and nothing is held. Pairs that are certain to have too many tokens are left out.
    """
    draw = random.Random(seed).random
    remaining = sum(text.kept for text in texts)
    wanted = min(size, remaining)
    longest = _PIECE_CHARACTERS * cleaner.max_length if cleaner.applies("too_long") else None
    for text in texts:
        for batch in read_kept(text, encoding):
            for src, tgt in zip(batch.src, batch.tgt, strict=True):
                if draw() * remaining < wanted:
                    wanted -= 1
                    if longest is None or max(len(src), len(tgt)) <= longest:
                        yield src, tgt
                remaining -= 1


class _BadLines:
    """The lines of one file that could not be decoded."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._count = 0
        self._first = 0

    def decode(self, number: int, line: bytes, encoding: Encoding) -> str | None:
        text = encoding.decode(line, number=number)
        if text is None:
            self._first = self._first or number
            self._count += 1
        return text

    def settle(self, lines: int, encoding: Encoding) -> None:
        """Tell of bad lines, or refuse the file when they are too many."""
        if not self._count:
            return
        found = (
            f"{self._path} line {self._first:,} is not valid {encoding.name} "
            f"({self._count:,} of {lines:,} lines are not)"
        )
        if self._count > _MAX_BAD_SHARE * lines:
            raise DataError(f"{found}; pass --encoding, such as --encoding windows-1252")
        console.warning(f"{found}; these pairs are dropped")


def _mark_duplicates(
    src: list[str | None], tgt: list[str | None], rules: list[str | None], seen: SeenPairs
) -> None:
    """Put `duplicate` where no rule has rejected a pair that was seen before."""
    candidates = [at for at, rule in enumerate(rules) if rule is None]
    hashes = [hash_pair(src[at] or "", tgt[at] or "") for at in candidates]
    is_new = seen.add(np.array(hashes, np.uint64))
    for at, new in zip(candidates, is_new.tolist(), strict=True):
        if not new:
            rules[at] = "duplicate"


def _number(batch: PairBatch, lines: list[bytes]) -> Iterator[tuple[int, bytes]]:
    return enumerate(lines, start=batch.number)


def _show(line: bytes, encoding: Encoding) -> str:
    return line.decode(encoding.name if encoding.by_line else "utf-8", "backslashreplace")


def _stamps(text: ParallelText) -> tuple[tuple[int, int], ...]:
    return tuple((s.st_size, s.st_mtime_ns) for s in (text.src.stat(), text.tgt.stat()))


def _changed(scanned: ScannedText) -> DataError:
    return DataError(
        f"{scanned.text.src} or {scanned.text.tgt} has changed while it was read; run it again"
    )
