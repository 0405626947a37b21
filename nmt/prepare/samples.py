"""Random samples of the training text, to learn a vocabulary from or to draw valid from.

`sample_blocks` draws lines, uniformly or by weight. `clean_pairs` yields those of their
pairs that pass the rules. `draw_valid` draws a validation set (`--valid-lines`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from nmt.data.epochs import Epochs, Permutation
from nmt.errors import DataError
from nmt.prepare.block import KEPT, Block, Rows
from nmt.prepare.block_steps import clean_sample
from nmt.prepare.corpora import SourceText
from nmt.prepare.filters import Filters
from nmt.prepare.options import PrepareOptions
from nmt.prepare.readers.line_files import TextInMemory
from nmt.system.workers import map_in_order

_OTHER_DRAW = 1 << 32  # added to the seed, so that valid is not the vocabulary's sample


def sample_blocks(
    texts: Sequence[SourceText], *, size: int, seed: int, weights: Sequence[float] = ()
) -> Iterator[Block]:
    """Yield `size` lines of the texts, or all of them if there are fewer, in their order.

    The lines are the first of a permutation of all lines, so every set is equally likely.
    `weights` of the texts draw from the visits of an epoch instead: with a weight of 2 a line is
    twice as likely, and may be drawn twice.
    """
    weights = weights or [1.0] * len(texts)
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


def clean_pairs(
    train: Sequence[SourceText], filters: Filters, options: PrepareOptions, *, size: int
) -> Iterator[tuple[str, str]]:
    """Yield the pairs that are kept of a sample of `size` pairs, drawn by the texts' weights."""
    weights = [text.weight for text in train]
    blocks = sample_blocks(train, size=size, seed=options.seed, weights=weights)
    clean = partial(clean_sample, filters=filters)
    for _, (pairs, _) in map_in_order(clean, blocks, workers=options.processes):
        yield from pairs


def draw_valid(
    train: Sequence[SourceText], filters: Filters, options: PrepareOptions
) -> tuple[tuple[SourceText, ...], tuple[Rows, ...]]:
    """Draw a text of `--valid-lines` pairs from train for each pair of languages.

    Returns these texts, and the line numbers that were drawn from each training text.
    """
    valids, drawn = [], [np.zeros(0, np.int64)] * len(train)
    for langs in options.pairs:
        places = [index for index, text in enumerate(train) if text.langs == langs]
        valid, numbers_by_text = _draw_pairs([train[index] for index in places], filters, options)
        valids.append(valid)
        for place, numbers in zip(places, numbers_by_text, strict=True):
            drawn[place] = numbers
    return tuple(valids), tuple(drawn)


def _draw_pairs(
    texts: Sequence[SourceText], filters: Filters, options: PrepareOptions
) -> tuple[SourceText, list[Rows]]:
    """Draw `--valid-lines` different pairs that pass the rules, to become valid.

    The texts are of one pair of languages. Every line is equally likely, so a pair that occurs
    twice is likelier. Returns their text, and the line numbers that were drawn from each training
    text. DataError: there are fewer such pairs.
    """
    size, seed = options.valid_lines, options.seed
    total = sum(text.lines for text in texts)
    candidates = 2 * size
    while True:
        places: dict[tuple[str, str], tuple[int, int]] = {}  # pair -> text and line
        blocks = sample_blocks(texts, size=candidates, seed=seed + _OTHER_DRAW)
        clean = partial(clean_sample, filters=filters)
        for block, (sample, verdicts) in map_in_order(clean, blocks, workers=options.processes):
            for row, pair in zip(np.flatnonzero(verdicts == KEPT).tolist(), sample, strict=True):
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
    drawn = [pairs[index] for index in np.sort(chosen).tolist()]
    tags = tuple(texts[corpus].tag for _, (corpus, _) in drawn)
    numbers = [
        np.array([line for _, (corpus, line) in drawn if corpus == number], np.int64)
        for number in range(len(texts))
    ]
    langs = texts[0].langs
    names = f"valid.{langs[0]}", f"valid.{langs[1]}"
    reader = TextInMemory.of(names, zip(*(pair for pair, _ in drawn), strict=True))
    surveys = tuple(survey(int) for survey in reader.surveys())
    drawn_text = SourceText("drawn from train", reader, langs, surveys, stamps=(), line_tags=tags)
    return drawn_text, numbers
