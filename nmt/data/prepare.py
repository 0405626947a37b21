"""The stage that turns parallel text into a data folder: whole, or not at all.

Four passes, none of which holds the text: checksums of the sources (which tell whether there is
anything to do), the scan that judges every pair, learning the vocabulary from a sample, and
encoding into shards. Nothing is written before the scan has found the text in order; then all goes
to `OUT.partial-PID`, which becomes `OUT` in one rename.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nmt import console
from nmt.data import manifest
from nmt.data.building import building_folder, check_target
from nmt.data.cleaning import RULES, Cleaner, check_keep
from nmt.data.corpus import Encoding
from nmt.data.duplicates import SeenPairs
from nmt.data.encode import Encoder
from nmt.data.folder import DataFolder
from nmt.data.manifest import DatasetInfo, FileRecord, Settings, VocabularyRecord
from nmt.data.reuse import check_same, find_folder
from nmt.data.scan import ScannedText, sample_pairs, scan_held_out, scan_train
from nmt.data.sources import Sources, record_file
from nmt.data.vocabulary import NORMALIZATIONS, Vocabulary, learn_vocabulary
from nmt.errors import DataError, UsageError, did_you_mean
from nmt.files import atomic_writer, write_text

_LANG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_@.-]*")


@dataclass(frozen=True, kw_only=True)
class PrepareOptions:
    """What `prepare` is asked for."""

    out: Path
    train: tuple[str, ...]
    """Prefixes of training text."""
    valid: str
    test: tuple[str, ...] = ()
    vocab: tuple[Path, ...] = ()
    """SentencePiece models to use: none to learn, one for both languages, or source and target."""
    settings: Settings
    workers: int = 1
    """For encoding; they change nothing in what is written."""


def prepare(options: PrepareOptions) -> DataFolder:
    """Make the data folder, or open it where it is already there, made of the same."""
    check_options(options)
    out = options.out.resolve()
    check_target(out)
    given = [Vocabulary.load(path) for path in options.vocab]
    for path, model in zip(options.vocab, given, strict=True):
        if not model.covers_all_text:
            console.warning(
                f"{path} has no byte fallback: characters that it does not know become <unk>"
            )
    settings = _settle(options.settings, given)
    there = find_folder(out)
    langs = (settings.src_lang, settings.tgt_lang)
    sources = Sources.find(options.train, options.valid, options.test, langs=langs)
    if there is not None:
        check_same(there, settings, sources, given)
        console.notice(f"{options.out} is already prepared from the same text and options")
        return there

    encoding, cleaner = Encoding.find(settings.encoding), Cleaner.of(settings)
    held_out = {
        text: scan_held_out(text, encoding) for text in (sources.valid, *sources.tests.values())
    }
    seen = SeenPairs()
    train = [scan_train(text, encoding, cleaner, seen) for text in sources.train]
    del seen
    _check_any_left(train, sum(text.kept for text in train))
    vocabularies = given or _learn(train, encoding, cleaner, settings)

    with building_folder(out) as folder:
        vocabulary = _write_vocabularies(folder, vocabularies, given=bool(given))
        encoder = Encoder(
            folder=folder,
            src_vocabulary=vocabularies[0],
            tgt_vocabulary=vocabularies[-1],
            encoding=encoding,
            cleaner=cleaner,
            records=sources.records,
            threads=options.workers,
        )
        train_record = encoder.encode_train(train, shard_pairs=settings.shard_pairs)
        _check_any_left(train, train_record.pairs)
        info = DatasetInfo(
            format_version=manifest.FORMAT_VERSION,
            settings=settings,
            vocabulary=vocabulary,
            train=train_record,
            valid=encoder.encode_held_out("valid", held_out[sources.valid], langs),
            tests=tuple(
                encoder.encode_held_out(name, held_out[text], langs)
                for name, text in sources.tests.items()
            ),
            rejects=_write_rejects(folder, train),
        )
        write_text(folder / manifest.FILE_NAME, manifest.to_json(info))
        DataFolder.open(folder)
    return DataFolder.open(out)


def check_options(options: PrepareOptions) -> None:
    """UsageError with every problem of the options at once."""
    settings, default = options.settings, Settings(src_lang="", tgt_lang="")
    problems = [
        f"--{side} {lang!r}: a language is letters, digits, _ @ . - as in PREFIX.en, and not bin"
        for side, lang in (("src", settings.src_lang), ("tgt", settings.tgt_lang))
        if not _LANG.fullmatch(lang) or lang == "bin"  # valid.bin is a shard
    ]
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
            ("max-length", settings.max_length, "1 or more", settings.max_length >= 1),
            ("max-ratio", settings.max_ratio, "1 or more", settings.max_ratio >= 1),
            ("workers", options.workers, "1 or more", options.workers >= 1),
            (
                "character-coverage",
                settings.character_coverage,
                "from 0.98 to 1",
                0.98 <= settings.character_coverage <= 1,
            ),
        )
        if not fits
    ]
    problems += check_keep(settings.keep)
    if len(options.vocab) > 2:
        problems.append(f"--vocab was given {len(options.vocab)} times; once, or for each language")
    if len(options.vocab) == 1 and settings.separate_vocab:
        problems.append("--separate-vocab needs --vocab twice, for --src and for --tgt")
    if options.vocab:
        problems += [
            f"--{name.replace('_', '-')} has no effect with --vocab, where nothing is learnt"
            for name in ("vocab_size", "normalization", "character_coverage", "sample_size")
            if getattr(settings, name) != getattr(default, name)
        ]
    if problems:
        raise UsageError("; ".join(problems))


def _settle(settings: Settings, given: Sequence[Vocabulary]) -> Settings:
    """Return the settings with what the options imply, in the one way they are compared in."""
    settings = replace(
        settings,
        keep=tuple(sorted(set(settings.keep))),
        encoding=Encoding.find(settings.encoding).name,
    )
    if given:
        settings = replace(settings, vocab_size=len(given[0]), separate_vocab=len(given) == 2)
    return settings


def _check_any_left(texts: Sequence[ScannedText], pairs: int) -> None:
    if pairs:
        return
    lines = sum(text.lines for text in texts)
    if not lines:
        prefixes = ", ".join(text.text.prefix for text in texts)
        raise DataError(f"the training text is empty: {prefixes}")
    rejected: Counter[str] = Counter()
    for text in texts:
        rejected.update(text.rejects.counts)
    counts = ", ".join(f"{rule} {count:,}" for rule, count in rejected.items())
    raise DataError(
        f"nothing is left of {lines:,} training pairs; rejected: {counts}; see `nmt prepare "
        "--help` for the rules and --keep"
    )


def _learn(
    train: Sequence[ScannedText], encoding: Encoding, cleaner: Cleaner, settings: Settings
) -> list[Vocabulary]:
    """Return the vocabulary of both languages, or that of the source and that of the target."""
    langs = (settings.src_lang, settings.tgt_lang)
    pairs = min(settings.sample_size, sum(text.kept for text in train))
    vocabularies = []
    for sides in ((0,), (1,)) if settings.separate_vocab else ((0, 1),):
        what = " and ".join(langs[side] for side in sides)
        console.notice(f"learning the vocabulary of {what} from {pairs:,} pairs")
        sample = sample_pairs(train, encoding, cleaner, size=pairs, seed=settings.seed)
        try:
            vocabulary = learn_vocabulary(
                (pair[side] for pair in sample for side in sides),
                vocab_size=settings.vocab_size,
                normalization=settings.normalization,
                character_coverage=settings.character_coverage,
            )
        except UsageError as error:
            raise UsageError(f"{what}: {error}") from None
        vocabularies.append(vocabulary)
    return vocabularies


def _write_vocabularies(
    folder: Path, vocabularies: Sequence[Vocabulary], *, given: bool
) -> VocabularyRecord:
    names = ("vocab.model",) if len(vocabularies) == 1 else ("src.model", "tgt.model")
    for name, vocabulary in zip(names, vocabularies, strict=True):
        with atomic_writer(folder / name) as file:
            file.write(vocabulary.model)
    return VocabularyRecord(
        files=tuple(record_file(folder / name) for name in names),
        sizes=tuple(len(vocabulary) for vocabulary in vocabularies),
        given=given,
    )


def _write_rejects(folder: Path, train: Sequence[ScannedText]) -> FileRecord:
    """Write what each rule took, with the first pairs of it, for people to judge the rules by."""
    report = {
        "rules": RULES,
        "corpora": [
            {
                "prefix": text.text.prefix,
                "lines": text.lines,
                "rejected": text.rejects.counts,
                "examples": text.rejects.examples,
            }
            for text in train
        ],
    }
    path = folder / manifest.REJECTS_NAME
    write_text(path, json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    return record_file(path)
