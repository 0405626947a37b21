"""What a worker does with a block of training text, step by step.

A step is a function of `Work`: it adds to the work, or drops pairs. The three lists of steps stand
first: `encode_block` does the whole work, `clean_sample` only cleans a sample, and `count_words`
counts what BPE is learnt from. `judge_block` is the dry run of the first. The steps follow in the
order in which the whole work takes them:

    fix, look for a shift, filter by text, compare with valid and test | encode, filter by tokens |
    annotate terms, join windows, hash

The first four need only text, so the pass that counts words does them, and the whole work takes
over what it found. Filters see text after its fixes, and only the pairs that filters keep are
encoded. Filters count subwords without annotations, so terms come after them. With `--documents`,
windows may be duplicates, and not single lines, so hashing comes last.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from nmt.data.composition import compose_lines
from nmt.data.folder import TEXT
from nmt.data.language_tokens import spell_pair, tagged
from nmt.data.manifest import FlawRecord
from nmt.data.moses import MosesRules
from nmt.data.shards import TokenRows
from nmt.data.word_ids import Subwords
from nmt.prepare.block import Block, Hashes, Judgement, Misfit, Overlaps, Verdicts, Work
from nmt.prepare.cleaning_options import NEAR, CleaningOptions
from nmt.prepare.duplicates import hash_lines, hash_pairs, normalized
from nmt.prepare.filters import Filters, token_verdicts
from nmt.prepare.fixes import examine
from nmt.prepare.options import PrepareOptions
from nmt.prepare.term_annotator import Annotator
from nmt.prepare.text_checks import misfit
from nmt.prepare.windows import choose_windows, draw_context, join_side, split_tags

IDS = "bin"  # the suffix of a shard of ids, beside which one of text is kept
# SentencePiece's longest piece: a line of n characters has at least n / 16 tokens.
_PIECE_CHARACTERS = 16
_BETWEEN = "\x1e"  # between the lines of a window in its text, which tells windows apart


class EncodedBlock(NamedTuple):
    """The result for one block, without the text that is not kept; see `Work`."""

    verdicts: Verdicts  # (pairs,)
    hashes: dict[str, Hashes]  # (kept,) for each rule of duplicates that applies
    columns: dict[str, tuple[TokenRows, TokenRows]]  # (kept,) each side
    """The ids and perhaps the text of source and target, by the suffix of their shards."""
    seconds: tuple[float, float]
    """CPU seconds for SentencePiece, and for all other steps."""
    misfit: Misfit | None
    flaws: tuple[FlawRecord, ...]
    nearest: Overlaps


def encode_block(
    block: Block,
    *,
    filters: Filters,
    subwords: Subwords,
    annotator: Annotator | None,
    options: PrepareOptions,
) -> EncodedBlock:
    """Do all the work on a block of training text."""
    start = time.process_time()
    cleaning, work = filters.cleaning, Work.decode(block)
    if block.judgement is None:
        judge_text(work, filters)
    else:
        take_over(work, block.judgement)
    judge_tokens(work, subwords, cleaning)
    if annotator is not None:
        annotate_terms(work, annotator, subwords, longest=cleaning.max_length)
    if options.documents:
        join_windows(work, subwords, options, longest=cleaning.max_length)
    for rule in cleaning.duplicate_rules:
        hash_work(work, rule, cleaning, has_languages=bool(options.pair))
    assert work.ids is not None
    columns = {IDS: work.ids}
    if options.keep_text:
        src, tgt = map(TokenRows.from_text, work.lines)
        columns[TEXT] = src, tgt
    seconds = work.encoding_seconds, time.process_time() - start - work.encoding_seconds
    found = work.misfit, work.flaws, work.nearest
    return EncodedBlock(work.verdicts, work.hashes, columns, seconds, *found)


def judge_block(
    block: Block, *, filters: Filters, subwords: Subwords | None
) -> tuple[Verdicts, tuple[FlawRecord, ...]]:
    """Return the verdicts on the pairs of a block except duplicates, and the flaws of its lines.

    subwords: None if there is no vocabulary yet.
    """
    work = Work.decode(block)
    judge_text(work, filters)
    if subwords is None:
        judge_fewest_tokens(work, filters.cleaning)
    else:
        judge_tokens(work, subwords, filters.cleaning)
    return work.verdicts, work.flaws


def clean_sample(
    block: Block, *, filters: Filters, moses: MosesRules = (None, None), composes: bool = False
) -> tuple[list[tuple[str, str]], Verdicts]:
    """Return the pairs of a block that are kept, as the vocabulary sees them, and all verdicts.

    moses: the rules that are applied then.
    composes: whether the vocabulary composes text, before Moses' rules split letters and marks.
    """
    work = Work.decode(block)
    judge_text(work, filters)
    judge_fewest_tokens(work, filters.cleaning)
    src, tgt = lines_to_learn_from(work, moses, composes=composes)
    return list(zip(src, tgt, strict=True)), work.verdicts


def count_words(
    blocks: Sequence[Block],
    *,
    filters: Filters,
    moses: MosesRules,
    composes: bool,
    sides: Sequence[Sequence[int]],
) -> tuple[tuple[list[dict[str, int]], list[Judgement]], Verdicts]:
    """Count the words of the pairs of blocks that are kept; see also `clean_sample`.

    sides: of each table of words that is wanted; 0 is the source.
    Returns the tables, the judgement on each block by its text alone, and all verdicts.
    """
    tables = [Counter[str]() for _ in sides]
    judgements, verdicts = [], []
    for block in blocks:
        work = Work.decode(block)
        judge_text(work, filters)
        judgements.append(Judgement.of(work))
        judge_fewest_tokens(work, filters.cleaning)
        verdicts.append(work.verdicts)
        lines = lines_to_learn_from(work, moses, composes=composes)
        for table, chosen in zip(tables, sides, strict=True):
            text = " ".join(chain.from_iterable(lines[side] for side in chosen))
            # Other kinds of spaces are parts of words; rules of normalisation may split there.
            table.update(text.replace("\t", " ").split(" "))
    for table in tables:
        del table[""]
    return (list(map(dict, tables)), judgements), np.concatenate(verdicts)


# The steps, in the order of the whole work.


def judge_text(work: Work, filters: Filters) -> None:
    """Fix lines and count their flaws, look for a shift, and drop pairs by what needs no tokens.

    What is left is compared with valid and test.
    """
    work.pairs, work.flaws = examine(work.pairs, filters.cleaning.fix)
    work.misfit = misfit(work.pairs)
    work.lines = work.pairs.src.lines, work.pairs.tgt.lines
    work.judge(filters.judge_text(work.pairs))
    work.nearest = filters.nearest(work.pairs, work.rows)


def take_over(work: Work, known: Judgement) -> None:
    """Drop the pairs that `judge_text` has dropped in an earlier pass, which fixed nothing."""
    work.flaws, work.misfit, work.nearest = known.flaws, known.misfit, known.nearest
    work.lines = work.pairs.src.lines, work.pairs.tgt.lines
    work.judge(known.verdicts)


def judge_tokens(work: Work, subwords: Subwords, cleaning: CleaningOptions) -> None:
    """Cut lines into subwords, and drop pairs by their number, not counting the end token."""
    start = time.process_time()
    src, tgt = work.ids = subwords.encode(work.tagged, work.lines[1], work.block.langs)
    work.encoding_seconds = time.process_time() - start
    work.judge(token_verdicts(src.lengths, tgt.lengths, cleaning))


def judge_fewest_tokens(work: Work, cleaning: CleaningOptions) -> None:
    """Drop pairs that are too long even with the fewest tokens that their characters can have."""
    src, tgt = (-(-side.lengths[work.rows] // _PIECE_CHARACTERS) for side in work.pairs.sides)
    work.judge(token_verdicts(src, tgt, cleaning, ["too_long"]))


def lines_to_learn_from(work: Work, moses: MosesRules, *, composes: bool) -> list[Sequence[str]]:
    """Return the lines that are left as the vocabulary sees them, of source and target: (left,)."""
    sides = []
    for lines, rules in zip(work.lines, moses, strict=True):
        composed = compose_lines(lines) if composes and rules is not None else lines
        sides.append(composed if rules is None else list(map(rules.apply, composed)))
    return sides


def annotate_terms(work: Work, annotator: Annotator, subwords: Subwords, *, longest: int) -> None:
    """Write into some sources how their words are translated.

    longest: the most tokens of a source.
    """
    assert work.ids is not None
    vocabulary, _ = subwords.vocabularies(work.block.langs)
    work.ids = annotator.annotate(work, vocabulary, longest=longest), work.ids[1]


def join_windows(work: Work, subwords: Subwords, options: PrepareOptions, *, longest: int) -> None:
    """Make a window of each pair and some pairs that come before it.

    longest: the most tokens of a side.
    """
    assert work.ids is not None
    vocabularies = subwords.vocabularies(work.block.langs)
    sides = list(map(split_tags, vocabularies, (work.tagged, work.lines[1]), work.ids))
    hashes = hash_pairs(*map(hash_lines, work.lines))
    wanted = draw_context(hashes, window=options.window, seed=options.seed)
    # Lines before and after the start of a document must not seem to be neighbours.
    numbers = work.numbers + np.searchsorted(work.block.starts, work.numbers, side="right")
    starts = choose_windows(numbers.tolist(), wanted, *sides, longest=longest)
    src_ids, tgt_ids = (
        subwords.rows(join_side(side, starts, vocabulary.separator))
        for side, vocabulary in zip(sides, vocabularies, strict=True)
    )
    work.ids = src_ids, tgt_ids
    src_lines, tgt_lines = (
        [_BETWEEN.join(lines[start : last + 1]) for last, start in enumerate(starts)]
        for lines in work.lines
    )
    work.lines = src_lines, tgt_lines


def hash_work(work: Work, rule: str, cleaning: CleaningOptions, *, has_languages: bool) -> None:
    """Hash the pairs that are left, to find the ones that a rule of duplicates drops.

    has_languages: whether texts are in several pairs of languages. Then the same source in another
    pair of languages is another source.
    """
    src, tgt = map(normalized, work.lines) if rule == NEAR else work.lines
    if has_languages:
        src = [tagged(line, spell_pair(work.block.langs)) for line in src]
    hashes = hash_lines(src)
    by_source = cleaning.duplicates_by == "source"
    work.hashes[rule] = hashes if by_source else hash_pairs(hashes, hash_lines(tgt))
