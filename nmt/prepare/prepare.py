"""`nmt prepare`: turn parallel text into a data folder, whole or not at all.

1. Survey every file: count its lines, take its checksum, compare the two sides. The checksums
   tell whether the data folder is already there.
2. Learn a vocabulary: BPE from the words of all text, which this pass also judges by the rules.
3. Send the text block by block through the workers into shards.

No pass holds the whole text in memory. Everything is written to `OUT.partial`, which becomes `OUT`
in one rename. A run that was killed resumes after its last complete shard.

`dry_run` tries the cleaning rules on a sample and writes nothing.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from nmt import console
from nmt.data import manifest
from nmt.data.composition import NFC
from nmt.data.corpus import Encoding
from nmt.data.folder import DataFolder
from nmt.data.language_tokens import LanguageTokens, spell_pair
from nmt.data.languages import of_country
from nmt.data.vocabulary import Vocabulary
from nmt.data.word_ids import Subwords
from nmt.errors import DataError, UsageError
from nmt.prepare import reject_report, resume
from nmt.prepare.block_steps import encode_block, judge_block
from nmt.prepare.characters import known_scripts
from nmt.prepare.cleaning_options import CleaningOptions
from nmt.prepare.corpora import Sources
from nmt.prepare.duplicates import OverlapKeys
from nmt.prepare.filters import Filters
from nmt.prepare.fixes import recorded_fixes
from nmt.prepare.language_id import LanguageIdentifier, measured
from nmt.prepare.options import AUTO_TERMS, PrepareOptions
from nmt.prepare.readers.copies import copies_kept
from nmt.prepare.samples import clean_pairs, draw_valid, sample_blocks
from nmt.prepare.term_annotator import LEXICON_PAIRS, Annotator, learn_lexicon
from nmt.prepare.text_checks import check_moses, warn_of_faults
from nmt.prepare.vocabularies import (
    NOTHING_LEARNT,
    Learnt,
    language_tokens,
    learn_vocabularies,
    report_what_is_not_learnt,
    vocabulary_size,
    warn_of_unfit,
    with_new_pieces,
    write_vocabularies,
)
from nmt.prepare.write_splits import (
    HeldOutText,
    TrainSplit,
    index_lines,
    with_nearest,
    write_held_out,
)
from nmt.system.files import resolved, write_text
from nmt.system.ray_workers import connect
from nmt.system.workers import map_in_order

_NOT_RECORDED = frozenset(
    "pair train valid test weight tag quoting vocab new_language workers documents terms".split()
)
"""The options that other parts of `dataset.json` record, or that do not change the folder."""


def prepare(
    out: Path,
    options: PrepareOptions,
    cleaning: CleaningOptions,
    vocabularies: Sequence[Vocabulary] | None = None,
    languages: LanguageTokens | None = None,
) -> DataFolder:
    """Make the data folder, or open it if it was already made from the same text and options.

    out: the folder.
    options: of texts and vocabulary.
    cleaning: of the rules.
    vocabularies: those of `options.vocab`; None: they are SentencePiece models with our ids.
    languages: their language tokens, which then begin all lines.
    """
    folder = resolved(out)
    resume.check_target(folder)
    finished = resume.find_folder(folder)
    with copies_kept(options.texts, folder.parent) as copies:
        inputs = _read_inputs(options, cleaning, vocabularies, languages, copies)
        settings = _settings(options, cleaning, inputs)
        if finished is not None:
            return _same(finished, settings, inputs)
        resume.check_space(folder, inputs.sources.space_needed(options))
        sources, held_out, filters = _hold_out(options, cleaning, inputs)
        with resume.building_folder(folder) as unfinished:
            if unfinished == folder:
                return _same(DataFolder.open(folder), settings, inputs)
            key = resume.progress_key(settings, sources, inputs.vocabularies)
            progress, learnt = _progress_of(unfinished, key), NOTHING_LEARNT
            if progress is None:
                progress, learnt = _begin(unfinished, key, options, inputs, filters)
            models = [(unfinished / file.name).read_bytes() for file in progress.vocabulary.files]
            subwords = Subwords(tuple(models), options.moses, inputs.languages)
            subwords.add_words(learnt.counts)
            annotator = inputs.annotator
            if annotator is not None and progress.lexicon:
                annotator = annotator.with_lexicon(resume.lexicon_path(unfinished))
            train = TrainSplit(unfinished, sources.train, progress, options, cleaning, subwords)
            # A judgement holds verdicts without the fixed lines, so --fix has to make them anew.
            judgements = {} if cleaning.fix else learnt.judgements
            encode = partial(encode_block, filters=filters, subwords=subwords, annotator=annotator)
            train.write(partial(encode, options=options), judgements)
            reject_report.check_any_left(train.rejects)
            reject_report.warn_if_most_rejected(train.rejects)
            held_out = with_nearest(held_out, train.nearest)
            valid, *tests = _write_held_out(unfinished, options, sources, held_out, subwords)
            rejects, rejects_text = reject_report.write_reports(unfinished, train.rejects)
            info = manifest.DatasetInfo(
                format_version=manifest.FORMAT_VERSION,
                settings=settings,
                vocabulary=progress.vocabulary,
                train=train.record(),
                valid=valid,
                tests=tuple(tests),
                rejects=rejects,
                rejects_text=rejects_text,
            )
            write_text(unfinished / manifest.FILE_NAME, manifest.to_json(info))
            DataFolder.open(unfinished)
    return DataFolder.open(folder)


def dry_run(
    options: PrepareOptions,
    cleaning: CleaningOptions,
    vocabularies: Sequence[Vocabulary] | None = None,
    languages: LanguageTokens | None = None,
    *,
    pairs: int,
) -> list[reject_report.CorpusRejects]:
    """Return what the rules reject in a sample of `pairs` training pairs; write nothing.

    Duplicates are not counted, since a sample has few of them. Tokens are counted only if a
    vocabulary is given. Without one, `too_long` rejects only pairs that are too long for certain.
    """
    with copies_kept(options.texts, Path(tempfile.gettempdir())) as copies:
        inputs = _read_inputs(options, cleaning, vocabularies, languages, copies)
        sources, _, filters = _hold_out(options, cleaning, inputs)
        subwords = None
        if inputs.vocabularies:
            models = tuple(vocabulary.model for vocabulary in inputs.vocabularies)
            subwords = Subwords(models, options.moses, inputs.languages)
        else:
            report_what_is_not_learnt(options, sources.train)
        rejects = [reject_report.CorpusRejects.begin(text) for text in sources.train]
        blocks = sample_blocks(sources.train, size=pairs, seed=options.seed)
        judge = partial(judge_block, filters=filters, subwords=subwords)
        for block, judged in map_in_order(judge, blocks, workers=options.processes):
            rejects[block.corpus].add(block, *judged)
        for corpus in rejects:
            reject_report.warn_of_flaws(corpus, corpus.lines, set())
        reject_report.warn_if_most_rejected(rejects)
        return rejects


class _Inputs(NamedTuple):
    """The files that the options name, each read once."""

    vocabularies: tuple[Vocabulary, ...]  # of --vocab; none if they are learnt
    languages: LanguageTokens | None
    identifier: LanguageIdentifier | None  # of --langid
    annotator: Annotator | None  # of --terms
    fixes: list[str]  # of --fix
    sources: Sources


def _read_inputs(
    options: PrepareOptions,
    cleaning: CleaningOptions,
    vocabularies: Sequence[Vocabulary] | None,
    languages: LanguageTokens | None,
    copies: Mapping[str, Path],
) -> _Inputs:
    """Read every file once; raise DataError or UsageError if one cannot be used."""
    if options.processes is None:
        connect()  # before any work is done
    languages = language_tokens(options, languages)
    if vocabularies is None:
        vocabularies = [Vocabulary.load(path) for path in options.vocab]
    if not all(vocabulary.covers_all_text for vocabulary in vocabularies):
        listed = " ".join(map(str, options.vocab))
        console.warning(f"{listed} has no byte fallback: unknown characters become <unk>")
    identifier = LanguageIdentifier.find(cleaning.langid) if cleaning.langid else None
    annotator = Annotator.from_options(options)
    fixes = recorded_fixes(cleaning.fix)
    sources = Sources.survey(options, Encoding.find(options.encoding), copies)
    if not any(text.lines for text in sources.train):
        raise DataError(f"the training text is empty: {', '.join(options.train)}")
    if not any(round(text.lines * text.weight) for text in sources.train):
        raise UsageError(
            "--weight: the weights are so small that an epoch has no pairs; raise them"
        )
    vocabularies = tuple(with_new_pieces(vocabularies, options, languages))
    return _Inputs(vocabularies, languages, identifier, annotator, fixes, sources)


def _settings(
    options: PrepareOptions, cleaning: CleaningOptions, inputs: _Inputs
) -> dict[str, Any]:
    """Return the options that decide, with the text, what is written: for `dataset.json`."""
    vocabularies, languages = inputs.vocabularies, inputs.languages
    used = asdict(options) | asdict(cleaning)
    used |= dict(zip(("src_lang", "tgt_lang"), options.langs, strict=True))
    used |= {"encoding": Encoding.find(options.encoding).name}
    used |= {"keep": sorted(set(cleaning.keep)), "symbol": sorted(set(options.symbol))}
    used |= {"vocab_size": vocabulary_size(options, inputs.sources.train)}
    if vocabularies:  # with rules of its own
        used |= {"vocab_size": len(vocabularies[0]), "separate_vocab": len(vocabularies) == 2}
        used["normalization"] = None
    used |= {"languages": languages and asdict(languages), "fix": inputs.fixes}
    annotator = inputs.annotator
    used |= {"window": options.lines_a_pair, "annotations": annotator and annotator.fingerprint}
    if inputs.identifier is not None:
        used["langid"] = inputs.identifier.fingerprint
    return {name: value for name, value in used.items() if name not in _NOT_RECORDED}


def _same(finished: DataFolder, settings: Mapping[str, Any], inputs: _Inputs) -> DataFolder:
    """Return a finished folder; UsageError if it is of other text or options."""
    resume.check_same(finished, settings, inputs.sources, inputs.vocabularies)
    console.notice(f"{finished.path} is already prepared from the same text and options")
    return finished


def _check_text(options: PrepareOptions, inputs: _Inputs) -> None:
    """Warn of faults of the texts; UsageError if Moses' rules do not suit them."""
    vocabularies = inputs.vocabularies
    warn_of_faults(inputs.sources, vocabularies)
    warn_of_unfit(vocabularies, inputs.sources.train)
    if options.moses_tokenize:
        learnt = options.normalization == NFC
        composes = all(one.composes for one in vocabularies) if vocabularies else learnt
        check_moses(inputs.sources.train, options.moses, composes=composes)


def _hold_out(
    options: PrepareOptions, cleaning: CleaningOptions, inputs: _Inputs
) -> tuple[Sources, list[HeldOutText], Filters]:
    """Check the text, read valid and the tests, or draw valid, and keep both out of train.

    Returns the texts with those of valid, what was read of valid and the tests, and the rules that
    drop the same lines from train. DataError names the first unusable line.
    """
    _check_text(options, inputs)
    sources, identifier = inputs.sources, inputs.identifier
    read = partial(HeldOutText.read, documents=options.documents, fix=cleaning.fix)
    held_out = list(map(read, sources.held_out))
    if identifier is not None:
        identifier = measured(identifier, ((text.source, text.raw) for text in held_out))
    keys = _keys_of(held_out, options)
    filters = Filters(cleaning=cleaning, identifier=identifier, documents=options.documents, **keys)
    if not sources.valids:
        valids, numbers = draw_valid(sources.train, filters, options)
        drawn = list(map(read, valids))
        held_out, sources = [*drawn, *held_out], sources._replace(valids=valids)
        filters = filters._replace(
            **_keys_of(held_out, options),
            drawn=numbers,
            drawn_pairs=frozenset().union(*(text.pairs for text in drawn)),
            drawn_lines=index_lines(drawn, sources.train),
        )
    filters = filters._replace(
        held_out_lines=index_lines(held_out, sources.train),
        held_out_count=sum(text.source.lines for text in held_out),
    )
    _report_skipped_rules(options, filters)
    return sources, held_out, filters


def _keys_of(held_out: Sequence[HeldOutText], options: PrepareOptions) -> dict[str, Any]:
    """Return what the rule `overlap` knows of texts that train must not repeat."""
    src, tgt = ([line for text in held_out for line in text.lines[side]] for side in (0, 1))
    if not options.pair:
        return {"held_out": (OverlapKeys.of(src), OverlapKeys.of(tgt))}
    # A source of en-de is a target of de-en. A text and its reverse would often be in train and in
    # valid, so train must not repeat whole pairs either, whatever their length.
    keys, pairs = OverlapKeys.of(src + tgt), (text.pairs for text in held_out)
    return {"held_out": (keys, keys), "held_out_pairs": frozenset().union(*pairs)}


def _report_skipped_rules(options: PrepareOptions, filters: Filters) -> None:
    """Tell of the rules that do not know a language, and so skip its side."""
    for lang in dict.fromkeys(lang for pair in options.pairs for lang in pair):
        unknown = {}  # what does not know it, by rule
        if filters.cleaning.applies("script") and not known_scripts(lang):
            unknown["script"] = "nmt does not know the script of"
        if filters.identifier is not None and not filters.identifier.knows(lang):
            unknown["language"] = "--langid does not know"
        for rule, what in unknown.items():
            told = f"{what} this language, so the rule `{rule}` does not check it"
            console.notice(f"{lang}: {told}{of_country(lang)}")


def _progress_of(folder: Path, key: str) -> resume.Progress | None:
    """Return the progress of an earlier run; None if there is none, or of other text or options."""
    progress = resume.read_progress(folder)
    if progress is not None and progress.key == key:
        shards, pairs = len(progress.shards), sum(shard.pairs for shard in progress.shards)
        console.notice(f"resuming {folder}: {shards:,} shards with {pairs:,} pairs are complete")
        return progress
    if progress is not None:
        console.notice(f"{folder} was made from other text, options or version; starting afresh")
    elif any(path.is_file() for path in folder.iterdir()):
        console.notice(f"{folder} is damaged or almost empty; starting afresh")
    return None


def _begin(
    folder: Path, key: str, options: PrepareOptions, inputs: _Inputs, filters: Filters
) -> tuple[resume.Progress, Learnt]:
    """Learn and write the vocabulary, and the lexicon of `--terms auto`, into an emptied folder.

    Returns the progress, without any shard, and what was learnt beside it.
    """
    resume.empty_folder(folder)
    train, learnt, lexicon = inputs.sources.train, NOTHING_LEARNT, tuple[manifest.FileRecord, ...]()
    if not inputs.vocabularies:
        learnt = learn_vocabularies(options, inputs.languages, train, filters=filters)
    vocabularies = inputs.vocabularies or learnt.vocabularies
    vocabulary = write_vocabularies(folder, vocabularies, given=bool(inputs.vocabularies))
    if options.terms == AUTO_TERMS:
        pairs = clean_pairs(train, filters, options, size=LEXICON_PAIRS)
        lexicon = (learn_lexicon(resume.lexicon_path(folder), pairs, options.langs),)
    rejects = tuple(map(reject_report.CorpusRejects.begin, train))
    progress = resume.Progress(key, vocabulary, rejects, lexicon)
    resume.write_progress(folder, progress)
    return progress, learnt


def _write_held_out(
    folder: Path,
    options: PrepareOptions,
    sources: Sources,
    held_out: Sequence[HeldOutText],
    subwords: Subwords,
) -> list[manifest.SplitRecord]:
    """Write valid, which has one text for each pair of languages, and the test sets.

    Warns of what makes scores on them say little.
    """
    stems = [
        f"valid.{spell_pair(text.langs)}" if options.pair else "valid" for text in sources.valids
    ]
    splits = {"valid": dict(zip(stems, held_out, strict=False))}
    valids, tests = held_out[: len(sources.valids)], held_out[len(sources.valids) :]
    faults = [text.faults(()) for text in valids] + [text.faults(valids) for text in tests]
    for fault in chain.from_iterable(faults):
        console.warning(fault)
    splits |= {name: {name: text} for name, text in zip(sources.tests, tests, strict=True)}
    return [write_held_out(folder, name, texts, subwords) for name, texts in splits.items()]
