"""The cleaning rules tried on a sample, before the long run."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from nmt import console
from nmt.data.blocks import Block
from nmt.data.encode import EncodedBlock
from nmt.data.inputs import Inputs
from nmt.data.options import PrepareOptions, check_options
from nmt.data.reject_report import CorpusRejects, warn_of_many
from nmt.data.sampling import CleanSample, SampleCleaner, sample_blocks
from nmt.data.workers import map_in_order


def dry_run(options: PrepareOptions, *, pairs: int) -> list[CorpusRejects]:
    """Return what the rules take from `pairs` of the training pairs; nothing is written.

    Duplicates are not looked for, since a sample has few of them. Tokens are counted where a
    vocabulary is given; else `too_long` takes only what must have too many.
    """
    check_options(options)
    inputs = Inputs.read(options)
    inputs.warn_of_faults()
    inputs = inputs.with_valid(options.workers)
    cleaner = inputs.cleaner(inputs.check_held_out())
    judge: Callable[[Block], EncodedBlock | CleanSample]
    if inputs.given:
        judge = inputs.encoder([vocabulary.model for vocabulary in inputs.given], cleaner)
    else:
        judge = SampleCleaner(inputs.decode, cleaner, moses=(None, None))
        console.notice(
            "without --vocab, too_short is not judged, nor is too_long where it is close"
        )
    rejects = [CorpusRejects.of(text) for text in inputs.sources.train]
    encoding = inputs.decode.encoding
    blocks = sample_blocks(inputs.sources.train, encoding, size=pairs, seed=inputs.settings.seed)
    judged: Iterator[tuple[Block, EncodedBlock | CleanSample]]
    judged = map_in_order(judge, blocks, workers=options.workers)
    for block, result in judged:
        rejects[block.corpus].add(block, result.verdicts, encoding)
    warn_of_many(rejects)
    return rejects
