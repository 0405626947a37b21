"""The vocabularies of a data folder: checked and extended if they are given, else learnt.

Languages are checked first, then given vocabularies get the tags and language tokens that they lack
(`with_new_pieces`). `learn_vocabularies` learns BPE from how often each word occurs in the training
text, and unigram models from a sample of its lines.

Without `--vocab-size`, the size depends on the number of pairs (`size_for`). Little text needs few
subwords, since rare ones are hardly learnt: Sennrich and Zhang (2019) and Ding et al. (2019) found
small vocabularies better there, and Gowda and May (2020) want most subwords to be seen 100 times.
Known points are 8,000 for the 29,000 pairs of Multi30k, where 4,000 are 0.8 to 1.3 BLEU worse
(`examples/languages`), fairseq's 10,000 for the 160,000 of IWSLT14, and the 37,000 and 32,000 of
Vaswani et al. (2017) for the 4.5 and 36 million of WMT14. Each step doubles the size.

These have alphabets. Chinese has thousands of characters, and each is a piece: of 4,000 pieces for
English and Chinese, 3,500 would be single Chinese characters, and English words would be spelt. So
the characters of a text come on top (`size_with`).
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from nmt import console
from nmt.data.composition import NFC, compose
from nmt.data.epochs import Epochs, mixed_shares
from nmt.data.language_tokens import LanguageTokens, spell_pair
from nmt.data.manifest import VocabularyRecord, record_file
from nmt.data.pieces import Kind, Piece, PieceModel
from nmt.data.vocabulary import TAG, UnfitSize, Vocabulary, learn_vocabulary
from nmt.errors import UsageError
from nmt.prepare.block import KEPT, Block, Judgements, Pairs, Verdicts
from nmt.prepare.block_steps import clean_sample, count_words
from nmt.prepare.cleaning_options import RULES
from nmt.prepare.corpora import SourceText
from nmt.prepare.filters import CODES, Filters
from nmt.prepare.options import PrepareOptions
from nmt.prepare.reject_report import nothing_left
from nmt.prepare.samples import sample_blocks
from nmt.prepare.word_counts import WordCounts
from nmt.system.files import atomic_writer
from nmt.system.workers import map_in_order

_SIZES = {10_000: 2_000, 20_000: 4_000, 250_000: 8_000, 1_000_000: 16_000}
"""The size of the vocabulary for less than so many pairs."""
_FREE_CHARACTERS, _ROUND = 200, 1_000
"""Characters that each of these sizes has room for, and what more of them are rounded up to."""
_NEARLY_ALL = 0.9998
"""Of a text: the other characters are those of other scripts."""
_TEMPERATURE = 5
"""At least, so that a small language among large ones gets more than its letters (NLLB Team 2022,
section 8.1)."""
Blocks = TypeVar("Blocks")
Clean = TypeVar("Clean")
_LARGEST = 32_000
_SAMPLE = 1_000_000  # pairs
_BLOCKS_TOGETHER = 12
_FEWEST_LINES, _MOST_LINES = 20, 500  # that show whether a given vocabulary suits a text
_MOST_ODD = 0.15
"""Of the tokens: bytes or unknown. A coverage of 0.98 gives Chinese some 0.06."""
_TOO_MANY = 1.25
"""Times the tokens that a text has if two vocabularies change places."""


def language_tokens(
    options: PrepareOptions, languages: LanguageTokens | None
) -> LanguageTokens | None:
    """Return the tokens of the languages of the texts: of a given vocabulary, or new ones.

    languages: those of --vocab. UsageError: they lack a language of the texts.
    """
    if options.new_language is not None:
        if languages is None:
            raise UsageError(
                "--new-language is for --vocab with a model of several languages, such as NLLB"
            )
        if not any(options.new_language in pair for pair in options.pairs):
            raise UsageError(
                f"--new-language {options.new_language}: no training text is in this language"
            )
        languages = languages.with_language(options.new_language)
    if languages is not None:
        languages = languages.with_pairs(options.pairs)
        _check_languages(languages, options)
    elif options.pair:
        languages = LanguageTokens.of_targets(options.pairs)
    else:
        return None
    # Test sets may be of a pair without train, but their languages must have tokens.
    for text in options.test if options.pair else ():
        for side, lang in zip(("src", "tgt"), options.langs_of(text), strict=True):
            languages.check(side, lang, f"--test {text}:", is_given=True)
    return languages


def _check_languages(languages: LanguageTokens, options: PrepareOptions) -> None:
    """Check that a model of several languages knows those of the texts."""
    for pair in options.pairs:
        for side, lang in zip(("src", "tgt"), pair, strict=True):
            option = f"--pair {spell_pair(pair)}: {lang}" if options.pair else f"--{side}"
            languages.check(side, lang, option, is_given=bool(options.pair))
            codes = languages.codes(lang)
            if languages.has_choice(side) and len(codes) > 1:
                console.warning(
                    f"--{side} {lang}: the model has {' and '.join(codes)}; lines get no tag, "
                    "unless you choose one of them"
                )


def with_new_pieces(
    vocabularies: Sequence[Vocabulary], options: PrepareOptions, languages: LanguageTokens | None
) -> list[Vocabulary]:
    """Return the vocabularies of --vocab, if any, with the pieces that they lack.

    Those are tags, a language, and control pieces.
    """
    if not vocabularies:
        return []
    first, instead = vocabularies[0], options.control_pieces
    added = [
        Piece(tag, kind=Kind.CONTROL if TAG.fullmatch(tag) else Kind.USER_DEFINED)
        for tag in sorted(set(options.tags.values()))
        if not first.has_symbol(tag)
    ]
    controls = [
        piece
        for lang, piece in (languages.pieces if languages else {}).items()
        if lang == options.new_language or (options.pair and not first.has_control(piece))
    ]
    controls += [piece for piece in instead if not first.has_control(piece)]
    added += [Piece(piece, kind=Kind.CONTROL) for piece in controls]
    for piece in added:
        if any(piece.text in vocabulary.pieces for vocabulary in vocabularies):
            raise UsageError(
                f"{piece.text} is a piece of the vocabulary already, and text may have it; "
                + instead.get(piece.text, "choose another tag")
            )
    if not added:
        return list(vocabularies)
    names = ", ".join(piece.text for piece in added)
    console.notice(f"{names}: new in the vocabulary; train with --init-from to keep the rest")
    models = (PieceModel.read(vocabulary.model) for vocabulary in vocabularies)
    return [Vocabulary(model.with_pieces(added).write()) for model in models]


def warn_of_unfit(vocabularies: Sequence[Vocabulary], train: Sequence[SourceText]) -> None:
    """Warn if the vocabularies of --vocab do not know a text's letters, or stand in wrong order."""
    kinds = [
        np.array([piece.kind in (Kind.BYTE, Kind.UNKNOWN) for piece in model.pieces])
        for model in (PieceModel.read(vocabulary.model) for vocabulary in vocabularies)
    ]
    for text in train if vocabularies else ():
        tokens = np.zeros((2, 2), np.int64)  # of each side, by either vocabulary
        for block in islice(text.read(), 1):
            sides = [side.lines[:_MOST_LINES] for side in Pairs.decode(block).sides]
            for index, (name, lines) in enumerate(zip(text.reader.sides, sides, strict=True)):
                if len(lines) < _FEWEST_LINES:
                    continue
                for place in (0, -1):
                    ids = np.fromiter(chain(*vocabularies[place].encode(lines)), np.int64)
                    tokens[index, place] = len(ids)
                    odd = int(kinds[place][ids].sum())
                    if place == -index and odd > _MOST_ODD * len(ids):
                        console.warning(
                            f"{name}: --vocab has no pieces for {odd / len(ids):.0%} of its "
                            f"tokens, {odd / len(lines):.1f} a {text.reader.unit}: bytes or "
                            "unknown characters; is it of another script?"
                        )
        if tokens.trace() > _TOO_MANY * np.fliplr(tokens).trace():
            console.warning(
                f"{text.prefix}: --vocab cuts {len(lines):,} pairs into {tokens.trace():,} tokens, "
                f"and with its two models exchanged into {np.fliplr(tokens).trace():,}; give that "
                "of --src first"
            )


def size_for(pairs: int) -> int:
    """Return the size of the vocabulary for so many pairs of training text."""
    return next((size for below, size in _SIZES.items() if pairs < below), _LARGEST)


def vocabulary_size(options: PrepareOptions, train: Sequence[SourceText]) -> int:
    """Return the size of the vocabulary as it was given, or for text of few characters.

    All pairs of the training texts count once, whatever their weights.
    """
    return options.vocab_size or size_for(sum(text.lines for text in train))


def report_what_is_not_learnt(options: PrepareOptions, train: Sequence[SourceText]) -> None:
    """Say, in a dry run, what vocabulary would be learnt, and what cannot be told without it."""
    if options.vocab_size is None:
        console.notice(
            f"no --vocab-size given: it will be {vocabulary_size(options, train):,}, or more if "
            f"the text has more than {_FREE_CHARACTERS} characters"
        )
    console.notice("without --vocab, too_short is not counted, and too_long only if it is certain")


def size_with(characters: int, size: int) -> int:
    """Return the size for text of so many characters, which are pieces that join nothing.

    size: for text of few characters; the others come on top.
    """
    if characters <= _FREE_CHARACTERS:
        return size
    return -(-(size + characters - _FREE_CHARACTERS) // _ROUND) * _ROUND


def _frequent_characters(text: Mapping[str, int] | Sequence[str]) -> int:
    """Return how many different characters make up nearly all of the words, or of the lines."""
    characters = Counter[str]()
    for words in text:
        times = text[words] if isinstance(text, Mapping) else 1
        for character in compose(words):
            characters[character] += times
    counts = np.sort(np.fromiter(characters.values(), np.int64))[::-1]
    return int(np.searchsorted(counts.cumsum(), _NEARLY_ALL * counts.sum())) + 1


class Learnt(NamedTuple):
    """Vocabularies that were learnt, and what the pass over the text has found beside them."""

    vocabularies: Sequence[Vocabulary]
    judgements: Judgements
    """On blocks that were read whole."""
    counts: Sequence[Mapping[str, int]]
    """How often each word occurs, for each vocabulary; empty if it is not known."""


NOTHING_LEARNT = Learnt((), {}, ())


def learn_vocabularies(
    options: PrepareOptions,
    languages: LanguageTokens | None,
    train: Sequence[SourceText],
    *,
    filters: Filters,
) -> Learnt:
    """Learn one vocabulary for both languages, or one for each, from clean pairs.

    If their size is not given and does not suit the text, they get one that does: the largest
    possible one, or one with room for twice as many subwords as the text has characters.

    DataError if no pair passes the rules. UsageError if the text does not suit the size that was
    given.
    """
    tables = ((0,), (1,)) if options.separate_vocab else ((0, 1),)
    names = [
        " and ".join(dict.fromkeys(pair[side] for pair in options.pairs for side in sides))
        for sides in tables
    ]
    shares = mixed_shares(
        [(text.lines, text.weight) for text in train],
        [text.langs for text in train],
        max(options.temperature, _TEMPERATURE),
    )
    clean = {"filters": filters, "moses": options.moses, "composes": options.normalization == NFC}
    learning = _Learning(options, train, shares, clean)
    pairs = min(learning.sample_size or sys.maxsize, Epochs(shares, seed=options.seed).visits)
    console.notice(
        f"learning the vocabular{'ies' if len(names) > 1 else 'y'} of {' and '.join(names)} from "
        f"{pairs:,} pairs"
    )
    learn = partial(
        learn_vocabulary,
        subwords=options.subwords,
        split_digits=options.split_digits,
        normalization=options.normalization,
        symbols=sorted({*options.tags.values(), *options.symbol}),
        controls=(*(languages.pieces.values() if languages else ()), *options.control_pieces),
        character_coverage=options.character_coverage,
    )
    is_bpe, in_all = options.subwords == "bpe", sum(text.lines for text in train)
    counts, judgements = learning.word_counts(tables) if is_bpe else ((), {})
    vocabularies = []
    for number, of_langs in enumerate(names):
        size, vocabulary = vocabulary_size(options, train), None
        text = counts[number] if is_bpe else list(learning.lines(tables[number]))
        if options.vocab_size is None:
            characters = _frequent_characters(text)
            size = size_with(characters, size)
            console.notice(
                f"{of_langs}: no --vocab-size given: taking {size:,}, because the text has "
                f"{console.counted(in_all, 'pair', 'pairs')} and {characters:,} characters"
            )
        while vocabulary is None:
            try:
                vocabulary = learn(text, vocab_size=size)
            except UnfitSize as error:
                if options.vocab_size is not None:
                    raise UsageError(f"{of_langs}: {error}") from None
                is_small = error.bound < size
                size = _suited(size, error.bound)
                console.notice(
                    f"{of_langs}: taking {size:,}, "
                    + ("the most for so little text" if is_small else "for so many characters")
                )
        vocabularies.append(vocabulary)
    return Learnt(vocabularies, judgements, counts)


def _suited(size: int, bound: int) -> int:
    """Return the size to try after one that is too large, or too small for the characters.

    bound: the largest size that is possible, or the smallest.
    """
    if bound < size:
        return bound
    while size < 2 * bound:
        size *= 2
    return size


class _Learning(NamedTuple):
    """What vocabularies are learnt from."""

    options: PrepareOptions
    train: Sequence[SourceText]
    shares: Sequence[tuple[int, float]]
    """Of each text: its lines, and how often an epoch visits each."""
    clean: Mapping[str, Any]
    """How the pairs are cleaned: arguments of `clean_sample`."""

    @property
    def sample_size(self) -> int | None:
        """How many pairs to learn from; None: all."""
        default = None if self.options.subwords == "bpe" else _SAMPLE
        return self.options.sample_size or default

    def drawn(self) -> Iterator[Block]:
        """Yield a sample of the pairs, drawn by their weights."""
        weights = [weight for _, weight in self.shares]
        size = self.sample_size or _SAMPLE
        return sample_blocks(self.train, size=size, seed=self.options.seed, weights=weights)

    def lines(self, sides: Sequence[int]) -> Iterator[str]:
        """Yield the lines of some sides of a sample of clean pairs, which a unigram model needs."""
        clean, workers = partial(clean_sample, **self.clean), self.options.processes
        for _, pairs in _kept(self.drawn(), clean, workers=workers):
            yield from (pair[side] for pair in pairs for side in sides)

    def word_counts(
        self, tables: Sequence[Sequence[int]]
    ) -> tuple[list[Mapping[str, int]], Judgements]:
        """Return how often each word occurs in clean text, by the weights: for each table of sides.

        Without `--sample-size`, all pairs are read once, and count as often as their weight says.
        Then the judgements on all blocks are returned, too.
        """
        judgements: Judgements = {}
        counts = [WordCounts() for _ in tables]
        is_whole = self.options.sample_size is None
        times, blocks = [1] * len(self.train), self.drawn()
        if is_whole:
            times = whole_weights([weight for _, weight in self.shares])
            texts = enumerate(self.train)
            blocks = (block for corpus, text in texts for block in text.read(corpus=corpus))
        count, workers = partial(count_words, sides=tables, **self.clean), self.options.processes
        for together, (words, judged) in _kept(_grouped(blocks), count, workers=workers):
            if is_whole:
                places = ((block.corpus, block.number) for block in together)
                judgements.update(zip(places, judged, strict=True))
            for table, found in zip(counts, words, strict=True):
                table.add(found, times[together[0].corpus])
        return [table.counts for table in counts], judgements


def _grouped(blocks: Iterator[Block]) -> Iterator[tuple[Block, ...]]:
    """Yield a few blocks of one corpus together: the more, the fewer words are sent back."""
    for _, of_corpus in groupby(blocks, key=lambda block: block.corpus):
        while together := tuple(islice(of_corpus, _BLOCKS_TOGETHER)):
            yield together


def whole_weights(weights: Sequence[float]) -> list[int]:
    """Return weights as multiples of the smallest one, or nearly so of a sixteenth of it."""
    smallest = min(weights)
    multiples = [round(weight / smallest) for weight in weights]
    if all(map(math.isclose, weights, (times * smallest for times in multiples))):
        return multiples
    return [round(16 * weight / smallest) for weight in weights]


def _kept(
    blocks: Iterator[Blocks],
    clean: Callable[[Blocks], tuple[Clean, Verdicts]],
    *,
    workers: int | None,
) -> Iterator[tuple[Blocks, Clean]]:
    """Yield blocks, or groups of them, and what is left; DataError if nothing is left of any."""
    counts = np.zeros(len(RULES) + 1, np.int64)  # by the code of the verdict
    for block, (left, verdicts) in map_in_order(clean, blocks, workers=workers):
        counts += np.bincount(verdicts, minlength=len(counts))
        yield block, left
    if not counts[KEPT]:
        raise nothing_left({rule: int(counts[code]) for rule, code in CODES.items()})


def write_vocabularies(
    folder: Path, vocabularies: Sequence[Vocabulary], *, given: bool
) -> VocabularyRecord:
    """Write one vocabulary for both languages, or that of the source and of the target."""
    names = ("vocab.model",) if len(vocabularies) == 1 else ("src.model", "tgt.model")
    for name, vocabulary in zip(names, vocabularies, strict=True):
        with atomic_writer(folder / name) as file:
            file.write(vocabulary.model)
    files = tuple(record_file(folder / name) for name in names)
    return VocabularyRecord(files, sizes=tuple(map(len, vocabularies)), given=given)
