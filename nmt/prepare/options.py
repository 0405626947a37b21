"""The options of `prepare`, except those of cleaning."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt.cpu import cores, most_workers
from nmt.data.corpus import Encoding
from nmt.data.manifest import LANGUAGES
from nmt.errors import UsageError, did_you_mean
from nmt.prepare.cleaning import Cleaning
from nmt.values import check, option_name, value

if TYPE_CHECKING:
    from nmt.data.language_tokens import LanguageTokens
    from nmt.data.vocabulary import Vocabulary

_TEXT, _VOCABULARY = "Text", "Vocabulary"
_MOSES_TAG = re.compile(r"<[^\s<>]+>")
_LARGEST_WEIGHT = 1000
_TABLE = re.compile(r"-|.*\.(tsv(\.\w+)?|parquet|arrow)")
_LANG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_@.-]*")

STDIN = "-"
"""Stands for TSV on stdin instead of a file's name."""
TABLE_FOLDERS = (".parquet", ".arrow")
"""Suffixes of the files that a folder may be made of."""


@dataclass(frozen=True, kw_only=True)
class PrepareOptions:
    """Which text is read, and the vocabulary."""

    src_lang: str = value(
        ..., "Source language: PREFIX.LANG.", option="--src", metavar="LANG", panel=_TEXT
    )
    tgt_lang: str = value(
        ..., "Target language: PREFIX.LANG.", option="--tgt", metavar="LANG", panel=_TEXT
    )
    train: tuple[str, ...] = value(
        ...,
        "Training text in PREFIX.SRC and PREFIX.TGT, plain or compressed (.gz, .xz, .bz2, .zst). "
        "Or a file: .tsv, .parquet or .arrow with columns, such as crawl.tsv:en,de, a folder of "
        "those two, .tmx, a .zip of OPUS, or - for TSV on stdin. You can repeat it.",
        metavar="PREFIX|FILE",
        panel=_TEXT,
    )
    valid: str | None = value(
        None,
        "Text to validate on. Cleaning leaves it as it is.",
        metavar="PREFIX|FILE",
        panel=_TEXT,
    )
    valid_lines: int = value(
        0,
        "Without --valid: take N random pairs out of the training text.",
        minimum=0,
        shown="none",
        panel=_TEXT,
    )
    test: tuple[str, ...] = value(
        (),
        "A test set. Cleaning leaves it as it is. You can repeat it.",
        metavar="PREFIX|FILE",
        panel=_TEXT,
    )
    weight: tuple[str, ...] = value(
        (),
        "How often an epoch visits each pair of this training text. For example, 3 repeats it "
        "three times, and 0.5 takes a different half in each epoch.",
        metavar="TEXT=NUMBER",
        shown="1",
        panel=_TEXT,
    )
    tag: tuple[str, ...] = value(
        (),
        "Put a tag such as <2de> or <BT> before each source line of this text. To use it later, "
        "type it before the line that you translate.",
        metavar="TEXT=TAG",
        panel=_TEXT,
    )
    min_score: tuple[str, ...] = value(
        (),
        "Drop pairs whose number in this column of a table is smaller. Scores of bicleaner, LASER "
        "or COMET are read this way, as in crawl.tsv:score:0.5. You can repeat it.",
        metavar="FILE:COLUMN:NUMBER",
        shown="none",
        panel=_TEXT,
    )
    encoding: str = value(
        "utf-8", "Character encoding of all text, for example windows-1252.", panel=_TEXT
    )
    vocab_size: int = value(
        32_000,
        "Size of the vocabulary. 4 special tokens and 256 bytes count too.",
        minimum=1,
        panel=_VOCABULARY,
    )
    vocab: tuple[Path, ...] = value(
        (),
        "Use the vocabulary of this model file, run folder or SentencePiece model instead of "
        "learning one. Give two SentencePiece models for separate vocabularies: source, then "
        "target.",
        metavar="MODEL",
        panel=_VOCABULARY,
    )
    new_language: str | None = value(
        None,
        "Add this language to the vocabulary of a model of several languages, to tune it for one "
        "more, such as gsw_Latn.",
        metavar="LANG",
        shown="none",
        panel=_VOCABULARY,
    )
    subwords: str = value(
        "bpe",
        "How subwords are learnt: byte-pair encoding (Sennrich et al. 2016) or a unigram language "
        "model (Kudo 2018).",
        choices=("bpe", "unigram"),
        panel=_VOCABULARY,
    )
    split_digits: bool = value(False, "Make each digit a subword of its own.", panel=_VOCABULARY)
    symbol: tuple[str, ...] = value(
        (),
        "A word that is always one subword, such as a placeholder __URL__. You can repeat it.",
        metavar="WORD",
        shown="none",
        panel=_VOCABULARY,
    )
    separate_vocab: bool = value(
        False, "Learn one vocabulary for each language instead of a joint one.", panel=_VOCABULARY
    )
    sample_size: int = value(
        1_000_000,
        "Learn the vocabulary from this many random pairs, drawn by --weight and cleaned.",
        minimum=1,
        panel=_VOCABULARY,
    )
    normalization: str = value(
        "identity",
        "SentencePiece's rule: identity, nfkc, nfkc_cf, nmt_nfkc or nmt_nfkc_cf. All except "
        "identity change some characters, and decoding does not restore them.",
        choices=("identity", "nfkc", "nfkc_cf", "nmt_nfkc", "nmt_nfkc_cf"),
        metavar="RULE",
        panel=_VOCABULARY,
    )
    moses_normalize: bool = value(
        False,
        "Apply Moses' punctuation normalisation to all text. `nmt translate` will do the same to "
        "its input.",
        panel=_VOCABULARY,
    )
    moses_tokenize: bool = value(
        False,
        "Apply Moses' tokeniser to all text. `nmt translate` will do the same to its input, and "
        "detokenise its output.",
        panel=_VOCABULARY,
    )
    character_coverage: float = value(
        1.0,
        "Share of characters that become subwords. The others are written as bytes. Use 0.9995 for "
        "Chinese or Japanese.",
        minimum=0.98,
        maximum=1,
        panel=_VOCABULARY,
    )
    keep_text: bool = value(
        False,
        "Keep the raw training text in OUT, too, for a recipe that changes it in training, such as "
        "to upper case. It takes the size of the text and 12 bytes a pair.",
        panel=_TEXT,
    )
    seed: int = value(1, "Seed of random pairs, for the vocabulary and --valid-lines.", minimum=0)
    workers: int | None = value(
        None, "Number of processes. The result does not depend on it.", shown="all cores"
    )
    shard_pairs: int = 500_000  # of a shard of train; the last block may add some

    def __post_init__(self) -> None:
        check(self)

    def problems(self) -> list[str]:
        """Return what is wrong with the languages, the encoding, and combinations of options."""
        problems = [
            f"--{side} {lang!r}: use letters, digits and _ @ . - as in PREFIX.en, but not bin"
            for side, lang in (("src", self.src_lang), ("tgt", self.tgt_lang))
            if not _LANG.fullmatch(lang) or lang == "bin"  # valid.bin is a shard
        ]
        if self.src_lang == self.tgt_lang:
            problems.append(f"--src and --tgt are both {self.src_lang!r}")
        if not 1 <= self.processes <= most_workers():
            problems.append(
                f"--workers {self.workers}: must be from 1 to {most_workers()} (this process "
                f"may use {cores()} cores)"
            )
        if (self.valid is None) == (self.valid_lines == 0):
            problems.append("give one of --valid PREFIX and --valid-lines N")
        try:
            Encoding.find(self.encoding)
        except UsageError as error:
            problems.append(str(error))
        if sum(file_and_columns(text)[0] == STDIN for text in self.train) > 1:
            problems.append("--train -: stdin can be read only once")
        texts = (*self.train, *filter(None, [self.valid]), *self.test)
        problems += _unclear("--weight", self.weight, self.train)
        problems += _unclear("--tag", self.tag, texts)
        files = [file_and_columns(text)[0] for text in self.train]
        for text in self.min_score:
            file, column, least = _score_parts(text)
            if not column or not math.isfinite(_number(least, default=math.nan)):
                problems.append(f"--min-score {text}: must be FILE:COLUMN:NUMBER")
            elif file not in files:
                guess = did_you_mean(file, files)
                problems.append(f"--min-score {text}: {file} is not among --train{guess}")
        problems += [
            f"--weight {text}: must be a number above 0 and at most {_LARGEST_WEIGHT:,}"
            for text in self.weight
            if not 0 < _number(_parts(text)[1]) <= _LARGEST_WEIGHT
        ]
        for text in self.tag:
            _, tag = _parts(text)
            if len(tag.split()) != 1 or "\u2581" in tag:
                problems.append(f"--tag {text}: must be one word")
            elif self.moses_tokenize and not _MOSES_TAG.fullmatch(tag):
                problems.append(f"--tag {text}: with --moses-tokenize it must be of the form <tag>")
        problems += [
            f"--symbol {symbol}: must be one word"
            for symbol in self.symbol
            if len(symbol.split()) != 1 or "\u2581" in symbol
        ]
        if len(self.vocab) > 2:
            times = len(self.vocab)
            problems.append(
                f"--vocab was given {times} times; give it once, or once for each language"
            )
        if len(self.vocab) == 1 and self.separate_vocab:
            problems.append("--separate-vocab needs --vocab twice, for --src and for --tgt")
        if self.vocab:
            learning = (
                *("vocab_size", "subwords", "split_digits", "symbol"),
                *("normalization", "character_coverage", "sample_size"),
            )
            problems += [
                f"{option_name(spec)} has no effect with --vocab; remove one of them"
                for spec in dataclasses.fields(self)
                if spec.name in learning and getattr(self, spec.name) != spec.default
            ]
        return problems

    @property
    def processes(self) -> int:
        return cores() if self.workers is None else self.workers

    @property
    def langs(self) -> tuple[str, str]:
        return self.src_lang, self.tgt_lang

    @property
    def weights(self) -> dict[str, float]:
        """How often an epoch visits each pair, by prefix or file of train, if not once."""
        return {prefix: float(number) for prefix, number in map(_parts, self.weight)}

    @property
    def tags(self) -> dict[str, str]:
        """The tag put before each source line, by prefix or file."""
        return dict(map(_parts, self.tag))

    def min_scores(self, file: str) -> dict[str, float]:
        """Return the least score by column of a file."""
        parts = map(_score_parts, self.min_score)
        return {column: float(least) for name, column, least in parts if name == file}


def file_and_columns(prefix: str) -> tuple[str, tuple[str, ...]]:
    """Split the name of a text, such as crawl.tsv:en,de, into that of its file and its columns."""
    name, colon, columns = prefix.rpartition(":")
    if not colon or "/" in columns or not ("," in columns or _TABLE.fullmatch(name)):
        return prefix, ()
    return name, tuple(columns.split(","))


def _parts(text: str) -> tuple[str, str]:
    """Split TEXT=VALUE at the last equals sign, since a prefix may hold others.

    A file is named without its columns.
    """
    prefix, _, value = text.rpartition("=")
    return file_and_columns(prefix)[0], value


def _score_parts(text: str) -> tuple[str, str, str]:
    """Split FILE:COLUMN:NUMBER."""
    rest, _, least = text.rpartition(":")
    file, _, column = rest.rpartition(":")
    return file_and_columns(file)[0], column, least


def _number(text: str, *, default: float = 0.0) -> float:
    try:
        return float(text)
    except ValueError:
        return default


def _unclear(option: str, given: Sequence[str], prefixes: Sequence[str]) -> Iterator[str]:
    """Yield which of the TEXT=VALUE of an option name no text, or one that has a value."""
    seen = set()
    prefixes = [file_and_columns(prefix)[0] for prefix in prefixes]
    for text in given:
        prefix, _ = _parts(text)
        if "=" not in text:
            yield f"{option} {text}: must be TEXT=VALUE"
        elif prefix in seen:
            yield f"{option} {text}: {prefix} has one already; give only one"
        elif prefix not in prefixes:
            yield f"{option} {text}: no text has this name{did_you_mean(prefix, prefixes)}"
        seen.add(prefix)


_NOT_RECORDED = {
    *("train", "valid", "test", "weight", "tag", "min_score"),
    *("vocab", "new_language", "workers"),
}
"""What other parts of `dataset.json` record, and what does not change the folder."""


def used_settings(
    options: PrepareOptions,
    cleaning: Cleaning,
    given: Sequence[Vocabulary],
    languages: LanguageTokens | None,
) -> dict[str, Any]:
    """Return the options that decide, with the text, what is written, as `dataset.json` has them.

    Args:
        options: of texts and vocabulary.
        cleaning: of the rules.
        given: the vocabularies of --vocab.
        languages: their language tokens, if they have some.
    """
    used = dataclasses.asdict(options) | dataclasses.asdict(cleaning)
    used |= {"encoding": Encoding.find(options.encoding).name}
    used |= {"keep": sorted(set(cleaning.keep)), "symbol": sorted(set(options.symbol))}
    if given:
        used |= {"vocab_size": len(given[0]), "separate_vocab": len(given) == 2}
    if languages is not None:
        used[LANGUAGES] = dataclasses.asdict(languages)
    return {name: value for name, value in used.items() if name not in _NOT_RECORDED}
