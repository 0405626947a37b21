"""The options of `prepare`, their checks, and the names of the cleaning rules.

This module does not import numpy, because `nmt prepare --help` shows the rules.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from nmt.cpu import cores, most_workers
from nmt.data.corpus import Encoding
from nmt.data.manifest import Settings
from nmt.data.vocabulary import NORMALIZATIONS, Vocabulary
from nmt.errors import UsageError, did_you_mean

# Short pairs have free ratios: "Nein." may translate a sentence ten times its length.
RATIO_FREE_CHARACTERS = 50
# Short lines may repeat: "Thank you." in valid should not remove it from train.
OVERLAP_FREE_LETTERS = 30
WIDE_LETTER = 3
"""A Chinese, Japanese or Korean letter says about as much as this many letters of an alphabet."""

RULES = {
    "valid": "the pair was drawn for valid (--valid-lines)",
    "encoding": "a side is not valid text in its encoding",
    "empty": "a side is blank, or has no tokens",
    "control": "a side contains control characters (other than tab) or U+FFFD",
    "identical": "both sides are equal",
    "ratio": "one side has more than --max-ratio times the characters of the other",
    "symbols": "more than --max-symbols of a side's characters are digits, punctuation or signs",
    "script": "most letters of a side belong to a script that its language does not use",
    "overlap": "a side repeats a line of valid or test (case, punctuation and spaces ignored) of "
    f"at least {OVERLAP_FREE_LETTERS} letters or digits (Chinese, Japanese and Korean letters "
    f"count {WIDE_LETTER} times)",
    "too_short": "a side has fewer than --min-length tokens",
    "too_long": "a side has more than --max-length tokens",
    "duplicate": "the pair, or its source (--duplicates-by), came earlier in the text",
}
"""In the order in which they are applied: the first rule that fits counts."""

# Without these, train would include valid, or pairs without text or tokens.
_ALWAYS_ON = ("valid", "encoding", "empty")

DUPLICATES_BY = ("pair", "source")


def check_keep(keep: Sequence[str]) -> list[str]:
    """Return the problems of a list of rules to switch off."""
    problems = [
        f"--keep {rule}: there is no such rule{did_you_mean(rule, RULES)}"
        for rule in keep
        if rule not in RULES
    ]
    problems += [
        f"--keep {rule}: this rule cannot be switched off: {RULES[rule]}"
        for rule in keep
        if rule in _ALWAYS_ON
    ]
    return problems


_MOSES_TAG = re.compile(r"<[^\s<>]+>")
_LARGEST_WEIGHT = 1000
_LANG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_@.-]*")


@dataclass(frozen=True, kw_only=True)
class PrepareOptions:
    """The options of `prepare`."""

    out: Path
    train: tuple[str, ...]
    """Prefixes of training text."""
    valid: str | None = None
    """Prefix; None if `settings.valid_lines` pairs are drawn from train."""
    test: tuple[str, ...] = ()
    vocab: tuple[Path, ...] = ()
    """SentencePiece models: one for both languages, or source and target; empty to learn them."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """By prefix of train: how often an epoch visits each pair, if not once."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """By prefix: the tag put before each source line."""
    settings: Settings
    workers: int = 1
    """Encoding processes; their number never changes the files."""


def check_options(options: PrepareOptions) -> None:
    """Raise UsageError with all problems of the options at once."""
    settings, default = options.settings, Settings(src_lang="", tgt_lang="")
    problems = [
        f"--{side} {lang!r}: use letters, digits and _ @ . - as in PREFIX.en, but not bin"
        for side, lang in (("src", settings.src_lang), ("tgt", settings.tgt_lang))
        if not _LANG.fullmatch(lang) or lang == "bin"  # valid.bin is a shard
    ]
    if (options.valid is None) == (settings.valid_lines == 0):
        problems.append("give one of --valid PREFIX and --valid-lines N")
    if settings.src_lang == settings.tgt_lang:
        problems.append(f"--src and --tgt are both {settings.src_lang!r}")
    try:
        Encoding.find(settings.encoding)
    except UsageError as error:
        problems.append(str(error))
    if settings.normalization not in NORMALIZATIONS:
        nearest = did_you_mean(settings.normalization, NORMALIZATIONS)
        problems.append(f"--normalization {settings.normalization}: there is no such rule{nearest}")
    problems += [
        f"--{name} {value}: must be {bound}"
        for name, value, bound, fits in (
            ("vocab-size", settings.vocab_size, "1 or more", settings.vocab_size >= 1),
            ("sample-size", settings.sample_size, "1 or more", settings.sample_size >= 1),
            ("min-length", settings.min_length, "1 or more", settings.min_length >= 1),
            (
                "max-length",
                settings.max_length,
                "--min-length or more",
                settings.max_length >= settings.min_length,
            ),
            ("seed", settings.seed, "0 or more", settings.seed >= 0),
            ("max-ratio", settings.max_ratio, "1 or more", settings.max_ratio >= 1),
            ("max-symbols", settings.max_symbols, "from 0 to 1", 0 <= settings.max_symbols <= 1),
            (
                "workers",
                options.workers,
                f"from 1 to {most_workers()} (this process may use {cores()} cores)",
                1 <= options.workers <= most_workers(),
            ),
            (
                "character-coverage",
                settings.character_coverage,
                "from 0.98 to 1",
                0.98 <= settings.character_coverage <= 1,
            ),
        )
        if not fits
    ]
    if settings.duplicates_by not in DUPLICATES_BY:
        problems.append(f"--duplicates-by {settings.duplicates_by}: must be pair or source")
    problems += check_keep(settings.keep)
    for name, given, prefixes in (
        ("weight", options.weights, options.train),
        ("tag", options.tags, (*options.train, *filter(None, [options.valid]), *options.test)),
    ):
        problems += [
            f"--{name} {prefix}=...: no text has this prefix{did_you_mean(prefix, prefixes)}"
            for prefix in given
            if prefix not in prefixes
        ]
    problems += [
        f"--weight {prefix}={weight}: must be a number above 0 and at most {_LARGEST_WEIGHT:,}"
        for prefix, weight in options.weights.items()
        if not 0 < weight <= _LARGEST_WEIGHT
    ]
    problems += [
        f"--tag {prefix}={tag}: must be one word"
        for prefix, tag in options.tags.items()
        if len(tag.split()) != 1 or "\u2581" in tag
    ]
    problems += [
        f"--tag {prefix}={tag}: with --moses-tokenize it must be of the form <tag>"
        for prefix, tag in options.tags.items()
        if settings.moses_tokenize and not _MOSES_TAG.fullmatch(tag)
    ]
    if len(options.vocab) > 2:
        problems.append(
            f"--vocab was given {len(options.vocab)} times; give it once, or once for each language"
        )
    if len(options.vocab) == 1 and settings.separate_vocab:
        problems.append("--separate-vocab needs --vocab twice, for --src and for --tgt")
    if options.vocab:
        problems += [
            f"--{name.replace('_', '-')} has no effect with --vocab; remove one of them"
            for name in ("vocab_size", "normalization", "character_coverage", "sample_size")
            if getattr(settings, name) != getattr(default, name)
        ]
    if problems:
        raise UsageError("; ".join(problems))


def settle(settings: Settings, given: Sequence[Vocabulary]) -> Settings:
    """Return the settings in canonical form, with the sizes of given vocabularies."""
    settings = replace(
        settings,
        keep=tuple(sorted(set(settings.keep))),
        encoding=Encoding.find(settings.encoding).name,
    )
    if given:
        settings = replace(settings, vocab_size=len(given[0]), separate_vocab=len(given) == 2)
    return settings
