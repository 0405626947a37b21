"""Random samples of the training text, to learn a vocabulary from or to draw valid from.

`sample_blocks` draws lines, uniformly or by weight. `clean_sample` applies the cleaning rules to
them. `draw_pairs` draws a validation set (`--valid-lines`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from nmt.data.composition import compose_lines
from nmt.data.corpus import Encoding
from nmt.data.epochs import Epochs, Permutation
from nmt.data.line_blocks import Advance
from nmt.data.manifest import FileRecord
from nmt.data.moses import Moses
from nmt.errors import DataError
from nmt.prepare.block import KEPT, Block, Rows, Verdicts, Work
from nmt.prepare.cleaning import Cleaning
from nmt.prepare.corpora import SourceText
from nmt.prepare.encode import Step, run_steps
from nmt.prepare.readers.line_files import LineFiles
from nmt.prepare.readers.reader import Survey
from nmt.prepare.repairs import repair
from nmt.prepare.rules import Cleaner, token_verdicts
from nmt.prepare.text_checks import measure_shift
from nmt.system.workers import map_in_order

# SentencePiece's longest piece: a line of n characters has at least n / 16 tokens.
_PIECE_CHARACTERS = 16
_OTHER_DRAW = 1 << 32  # added to the seed, so that valid is not the vocabulary's sample

Sample = tuple[list[tuple[str, str]], Verdicts]
"""The clean pairs of a block, and the verdicts on all pairs of it."""


def sample_blocks(
    texts: Sequence[SourceText], *, size: int, seed: int, weights: Sequence[float] | None = None
) -> Iterator[Block]:
    """Yield `size` lines of the texts, or all of them if there are fewer, in their order.

    The lines are the first of a permutation of all lines, so every set is equally likely.
    `weights` of the texts draw from the visits of an epoch instead: with a weight of 2 a line is
    twice as likely, and may be drawn twice.
    """
    if weights is None:
        weights = [1.0] * len(texts)
    shares = [(text.lines, weight) for text, weight in zip(texts, weights, strict=True)]
    epoch = Epochs(shares, seed=seed)
    chosen = np.arange(min(size, epoch.visits))
    if size < epoch.visits:
        chosen = Permutation(epoch.visits, (seed,)).take(chosen)
    chosen = np.sort(epoch.pairs_of(chosen, 0))
    first = 0  # index of the block's first line among all lines
    for corpus, text in enumerate(texts):
        for block in text.read(corpus=corpus):
            begin, end = np.searchsorted(chosen, [first, first + block.lines])
            rows = chosen[begin:end] - first
            if np.array_equal(rows, np.arange(block.lines)):
                yield block
            elif len(rows):
                yield block.select(rows)
            first += block.lines


def text_steps(cleaner: Cleaner) -> tuple[Step, ...]:
    """Return the steps that need no tokens."""
    return partial(repair, fix=cleaner.cleaning.fix), measure_shift, cleaner


def judge_text(work: Work, *, steps: Sequence[Step]) -> None:
    """Do these steps that need no tokens, or take over what they found in an earlier pass."""
    known = work.block.judgement
    if known is None:
        run_steps(work, steps)
    else:
        work.flaws, work.shift = known.flaws, known.shift
        work.lines = work.pairs.src.lines, work.pairs.tgt.lines
        work.judge(known.verdicts)


def sample_steps(cleaner: Cleaner) -> tuple[Step, ...]:
    """Return the steps that judge pairs by their text, and by the fewest tokens they can have."""
    return *text_steps(cleaner), partial(judge_fewest, cleaning=cleaner.cleaning)


def judge_fewest(work: Work, *, cleaning: Cleaning) -> None:
    src, tgt = (-(-side.lengths[work.rows] // _PIECE_CHARACTERS) for side in work.pairs.sides)
    work.judge(token_verdicts(src, tgt, cleaning, ["too_long"]))


def clean_sample(
    block: Block,
    *,
    cleaner: Cleaner,
    moses: tuple[Moses | None, Moses | None] = (None, None),
    composes: bool = False,
) -> Sample:
    """Return the pairs of a block that pass the rules, as the vocabulary sees them.

    moses: the rules that are applied then.
    composes: whether the vocabulary composes text, before Moses' rules split letters and marks.
    """
    work = run_steps(Work.decode(block), sample_steps(cleaner))
    return list(zip(*seen_lines(work, moses, composes=composes), strict=True)), work.verdicts


def seen_lines(
    work: Work, moses: tuple[Moses | None, Moses | None], *, composes: bool
) -> list[Sequence[str]]:
    """Return the lines that are left as the vocabulary sees them, of source and target: (left,)."""
    sides = []
    for lines, rules in zip(work.lines, moses, strict=True):
        composed = compose_lines(lines) if composes and rules is not None else lines
        sides.append(composed if rules is None else list(map(rules.apply, composed)))
    return sides


def draw_pairs(
    texts: Sequence[SourceText], cleaner: Cleaner, *, size: int, seed: int, workers: int | None
) -> tuple[SourceText, tuple[Rows, ...]]:
    """Draw `size` different pairs that pass the rules, to become valid.

    The texts are of one pair of languages. Every line is equally likely, so a pair that occurs
    twice is likelier. Returns their text, and the line numbers that were drawn from each training
    text. DataError: there are fewer such pairs.
    """
    total = sum(text.lines for text in texts)
    candidates = 2 * size
    while True:
        places: dict[tuple[str, str], tuple[int, int]] = {}  # pair -> text and line
        blocks = sample_blocks(texts, size=candidates, seed=seed + _OTHER_DRAW)
        clean = partial(clean_sample, cleaner=cleaner)
        for block, (sample, verdicts) in map_in_order(clean, blocks, workers=workers):
            rows = np.flatnonzero(verdicts == KEPT).tolist()
            for row, pair in zip(rows, sample, strict=True):
                places.setdefault(pair, (block.corpus, block.line_number(row)))
        if len(places) >= size:
            break
        if candidates >= total:
            raise DataError(
                f"--valid-lines {size}: only {len(places):,} of {total:,} training pairs are "
                "different and pass the rules; ask for fewer"
            )
        candidates *= 4
    pairs = list(places.items())
    chosen = np.random.default_rng((seed, size)).choice(len(pairs), size, replace=False)
    drawn = [pairs[at] for at in np.sort(chosen).tolist()]
    src, tgt = ([pair[side] for pair, _ in drawn] for side in (0, 1))
    tags = tuple(texts[corpus].tag for _, (corpus, _) in drawn)
    numbers = [
        np.array([line for _, (corpus, line) in drawn if corpus == number], np.int64)
        for number in range(len(texts))
    ]
    langs = texts[0].langs
    src_text, tgt_text = ("".join(f"{line}\n" for line in lines).encode() for lines in (src, tgt))
    reader = _DrawnText(langs, (src_text, tgt_text))
    surveys = tuple(survey(int) for survey in reader.surveys())
    drawn_text = SourceText("drawn from train", reader, langs, surveys, stamps=(), line_tags=tags)
    return drawn_text, tuple(numbers)


@dataclass(frozen=True)
class _DrawnText(LineFiles):
    """Pairs that were drawn, as a text without a file."""

    langs: tuple[str, str]
    texts: tuple[bytes, bytes]
    encoding = Encoding.find("utf-8")
    files = ()

    @property
    def sides(self) -> tuple[str, str]:
        src, tgt = self.langs
        return f"valid.{src}", f"valid.{tgt}"

    def chunks(self, side: int) -> Iterator[bytes]:
        yield self.texts[side]

    def _survey(self, side: int, advance: Advance) -> Survey:  # noqa: ARG002
        raw = self.texts[side]
        record = FileRecord(self.sides[side], len(raw), hashlib.sha256(raw).hexdigest())
        return Survey(record, *self._survey_text(side, self.chunks(side)))
