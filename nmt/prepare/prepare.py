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
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from nmt import console
from nmt.data import manifest
from nmt.data.composition import NFC
from nmt.data.corpus import Encoding
from nmt.data.folder import DataFolder
from nmt.data.language_tokens import LanguageTokens, spell_pair
from nmt.data.manifest import DatasetInfo
from nmt.data.moses import Moses, moses_rules
from nmt.data.vocabulary import Vocabulary
from nmt.errors import DataError, UsageError
from nmt.prepare.block import Rows
from nmt.prepare.characters import known_scripts
from nmt.prepare.cleaning import Cleaning
from nmt.prepare.corpora import Sources
from nmt.prepare.duplicates import OverlapKeys, hash_block
from nmt.prepare.encode import Step, Subwords, encode_lines, judge_block, keep_text
from nmt.prepare.language_id import LanguageIdentifier, measured
from nmt.prepare.options import PrepareOptions
from nmt.prepare.readers.copies import copies_kept
from nmt.prepare.reject_report import (
    CorpusRejects,
    check_any_left,
    warn_if_most_rejected,
    warn_of_flaws,
    write_reports,
)
from nmt.prepare.repairs import recorded_fixes
from nmt.prepare.resume import (
    LEXICON_NAME,
    PROGRESS_FOLDER,
    Progress,
    building_folder,
    check_same,
    check_space,
    check_target,
    empty_folder,
    find_folder,
    progress_key,
    read_progress,
    write_progress,
)
from nmt.prepare.rules import Cleaner, judge_tokens
from nmt.prepare.samples import draw_pairs, judge_text, sample_blocks, sample_steps, text_steps
from nmt.prepare.term_annotator import Annotator, learn_lexicon
from nmt.prepare.text_checks import check_moses, warn_of_faults
from nmt.prepare.vocabularies import (
    NOTHING_LEARNT,
    Learnt,
    check_languages,
    check_tests,
    learn_vocabularies,
    report_what_is_not_learnt,
    vocabulary_size,
    with_new_pieces,
    write_vocabularies,
)
from nmt.prepare.windows import join_windows
from nmt.prepare.write_splits import HeldOutText, TrainSplit, write_held_out
from nmt.system.files import resolved, write_text
from nmt.system.ray_workers import connect
from nmt.system.workers import map_in_order

_NOT_RECORDED = {
    *("pair", "train", "valid", "test", "weight", "tag", "quoting"),
    *("vocab", "new_language", "workers", "documents", "terms"),
}
"""The options that other parts of `dataset.json` record, or that do not change the folder."""


def prepare(
    out: Path,
    options: PrepareOptions,
    cleaning: Cleaning,
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
    check_target(folder)
    there = find_folder(folder)
    with copies_kept(options.texts, folder.parent) as copies:
        given = _Inputs.read(options, cleaning, vocabularies, languages, copies)
        if there is not None:
            return given.same_as(there)

        needed = given.sources.space_needed(options)
        check_space(folder, needed)
        given.check_text()
        inputs = given.with_langid_measured().with_valid()
        held_out = inputs.read_held_out()
        inputs.report_skipped_rules()
        with building_folder(folder) as unfinished:
            if unfinished == folder:
                return given.same_as(DataFolder.open(folder))
            cleaner = inputs.cleaner(held_out)
            progress, learnt = _resume_or_begin(unfinished, inputs, cleaner)
            _build(unfinished, inputs, cleaner, progress, learnt, held_out)
            DataFolder.open(unfinished)
    return DataFolder.open(folder)


def dry_run(
    options: PrepareOptions,
    cleaning: Cleaning,
    vocabularies: Sequence[Vocabulary] | None = None,
    languages: LanguageTokens | None = None,
    *,
    pairs: int,
) -> list[CorpusRejects]:
    """Return what the rules reject in a sample of `pairs` training pairs; write nothing.

    Duplicates are not counted, since a sample has few of them. Tokens are counted only if a
    vocabulary is given. Without one, `too_long` rejects only pairs that are too long for certain.
    """
    with copies_kept(options.texts, Path(tempfile.gettempdir())) as copies:
        inputs = _Inputs.read(options, cleaning, vocabularies, languages, copies)
        inputs.check_text()
        inputs = inputs.with_langid_measured().with_valid()
        cleaner = inputs.cleaner(inputs.read_held_out())
        inputs.report_skipped_rules()
        if inputs.vocabularies:
            subwords = inputs.subwords([vocabulary.model for vocabulary in inputs.vocabularies])
            steps = inputs.steps(subwords, cleaner, annotator=None)
        else:
            steps = sample_steps(cleaner)
            report_what_is_not_learnt(options, inputs.sources.train)
        rejects = [CorpusRejects.begin(text) for text in inputs.sources.train]
        blocks = sample_blocks(inputs.sources.train, size=pairs, seed=options.seed)
        judge = partial(judge_block, steps=steps)
        for block, judged in map_in_order(judge, blocks, workers=options.processes):
            rejects[block.corpus].add(block, *judged)
        for corpus in rejects:
            warn_of_flaws(corpus, corpus.lines, set())
        warn_if_most_rejected(rejects)
        return rejects


@dataclass(frozen=True)
class _Inputs:
    """The options, the vocabularies that were given, and the texts."""

    options: PrepareOptions
    cleaning: Cleaning
    vocabularies: tuple[Vocabulary, ...]  # of --vocab; none if they are learnt
    languages: LanguageTokens | None
    sources: Sources
    identifier: LanguageIdentifier | None  # of --langid
    annotator: Annotator | None  # of --terms
    fixes: list[str]  # of --fix
    drawn: tuple[Rows, ...] = ()  # line numbers drawn for valid, for each training text

    @classmethod
    def read(
        cls,
        options: PrepareOptions,
        cleaning: Cleaning,
        vocabularies: Sequence[Vocabulary] | None,
        languages: LanguageTokens | None,
        copies: Mapping[str, Path],
    ) -> _Inputs:
        """Read every file once; raise DataError or UsageError if one cannot be used."""
        if options.processes is None:
            connect()  # before any work is done
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
            check_languages(languages, options)
        elif options.pair:
            languages = LanguageTokens.of_targets(options.pairs)
            check_tests(languages, options)
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
        return cls(
            options, cleaning, vocabularies, languages, sources, identifier, annotator, fixes
        )

    def same_as(self, there: DataFolder) -> DataFolder:
        """Return a finished folder; UsageError if it is of other text or options."""
        check_same(there, self.settings, self.sources, self.vocabularies)
        console.notice(f"{there.path} is already prepared from the same text and options")
        return there

    @property
    def settings(self) -> dict[str, Any]:
        """The options that decide, with the text, what is written, as `dataset.json` has them."""
        options, cleaning, vocabularies = self.options, self.cleaning, self.vocabularies
        used = asdict(options) | asdict(cleaning)
        used |= dict(zip(("src_lang", "tgt_lang"), options.langs, strict=True))
        used |= {"encoding": Encoding.find(options.encoding).name}
        used |= {"keep": sorted(set(cleaning.keep)), "symbol": sorted(set(options.symbol))}
        used |= {"vocab_size": vocabulary_size(options, self.sources.train)}
        if vocabularies:  # with rules of its own
            used |= {"vocab_size": len(vocabularies[0]), "separate_vocab": len(vocabularies) == 2}
            used["normalization"] = None
        used |= {"languages": self.languages and asdict(self.languages), "fix": self.fixes}
        used |= {"window": options.lines_a_pair, "annotations": None}
        if self.identifier is not None:
            used["langid"] = self.identifier.fingerprint
        if self.annotator is not None:
            used["annotations"] = self.annotator.fingerprint
        return {name: value for name, value in used.items() if name not in _NOT_RECORDED}

    @property
    def moses(self) -> tuple[Moses | None, Moses | None]:
        """The Moses rules of the source and the target."""
        options = self.options
        return moses_rules(
            options.langs, normalize=options.moses_normalize, tokenize=options.moses_tokenize
        )

    def check_text(self) -> None:
        """Warn of faults of the texts; UsageError if Moses' rules do not suit them."""
        warn_of_faults(self.sources, self.vocabularies)
        learnt = self.options.normalization == NFC
        composes = all(one.composes for one in self.vocabularies) if self.vocabularies else learnt
        if self.options.moses_tokenize:
            check_moses(self.sources.train, self.moses, composes=composes)

    def with_langid_measured(self) -> _Inputs:
        """Return the inputs with a --langid that knows what it confuses in valid and test."""
        if self.identifier is None:
            return self
        right = self.sources.held_out
        blocks = chain.from_iterable(text.read(corpus=at) for at, text in enumerate(right))
        return replace(self, identifier=measured(self.identifier, right, blocks))

    def with_valid(self) -> _Inputs:
        """Return the inputs with texts for valid, drawn from train if none were given."""
        if self.sources.valids:
            return self
        train, held_out = self.sources.train, self.read_held_out()
        valids, drawn = [], [np.zeros(0, np.int64)] * len(train)
        for langs in self.options.pairs:
            places = [at for at, text in enumerate(train) if text.langs == langs]
            texts = [train[at] for at in places]
            valid, lines = draw_pairs(
                texts,
                self._plain_cleaner(held_out),
                size=self.options.valid_lines,
                seed=self.options.seed,
                workers=self.options.processes,
            )
            valids.append(valid)
            for place, numbers in zip(places, lines, strict=True):
                drawn[place] = numbers
        sources = replace(self.sources, valids=tuple(valids))
        return replace(self, sources=sources, drawn=tuple(drawn))

    def read_held_out(self) -> list[HeldOutText]:
        """Read valid and the test sets; DataError names the first unusable line."""
        documents, fix = self.options.documents, self.cleaning.fix
        held_out = self.sources.held_out
        return [HeldOutText.read(text, documents=documents, fix=fix) for text in held_out]

    def report_skipped_rules(self) -> None:
        """Tell of the rules that do not know a language, and so skip its side."""
        for lang in dict.fromkeys(lang for pair in self.options.pairs for lang in pair):
            if self.cleaning.applies("script") and not known_scripts(lang):
                console.notice(
                    f"{lang}: nmt does not know the script of this language, so the rule `script` "
                    "does not check it"
                )
            if self.identifier is not None and not self.identifier.knows(lang):
                console.notice(
                    f"{lang}: --langid does not know this language, so the rule `language` does "
                    "not check it"
                )

    def cleaner(self, held_out: Sequence[HeldOutText]) -> Cleaner:
        drawn = held_out[: len(self.sources.valids)] if self.drawn else ()
        cleaner = self._plain_cleaner(held_out)
        drawn_pairs = frozenset[frozenset[str]]().union(*(text.pairs for text in drawn))
        return replace(cleaner, drawn=self.drawn, drawn_pairs=drawn_pairs)

    def _plain_cleaner(self, held_out: Sequence[HeldOutText]) -> Cleaner:
        """Return the rules for text of which nothing was drawn for valid."""
        src, tgt = (OverlapKeys.join([text.keys[side] for text in held_out]) for side in (0, 1))
        pairs = frozenset[frozenset[str]]()
        if self.options.pair:
            # A source of en-de is a target of de-en. A text and its reverse would often be in train
            # and in valid, so train must not repeat whole pairs either, whatever their length.
            src = tgt = OverlapKeys.join([src, tgt])
            pairs = pairs.union(*(text.pairs for text in held_out))
        return Cleaner(
            cleaning=self.cleaning,
            held_out=(src, tgt),
            held_out_pairs=pairs,
            identifier=self.identifier,
            documents=self.options.documents,
        )

    def subwords(self, models: Sequence[bytes]) -> Subwords:
        """Return the vocabularies in the form that is sent to workers."""
        return Subwords(tuple(models), self.moses, self.languages)

    def steps(
        self, subwords: Subwords, cleaner: Cleaner, annotator: Annotator | None
    ) -> tuple[Step, ...]:
        """Return the steps of the work on a block of training text."""
        options, cleaning = self.options, self.cleaning
        # Rules judge repaired text, and only what they keep is encoded. They count subwords without
        # annotations, so terms come after them. Duplicates come last: with --documents, of windows.
        longest = cleaning.max_length
        steps: list[Step] = [partial(judge_text, steps=text_steps(cleaner))]
        steps += [
            partial(encode_lines, subwords=subwords),
            partial(judge_tokens, cleaning=cleaning),
        ]
        if annotator is not None:
            steps.append(partial(annotator.annotate, subwords=subwords, longest=longest))
        if options.keep_text:
            steps.append(keep_text)
        if options.documents:
            window, seed = options.window, options.seed
            steps.append(
                partial(join_windows, subwords=subwords, window=window, seed=seed, longest=longest)
            )
        for rule in cleaning.duplicate_rules:
            by_source, has_languages = cleaning.duplicates_by == "source", bool(options.pair)
            steps.append(
                partial(hash_block, rule=rule, by_source=by_source, has_languages=has_languages)
            )
        return tuple(steps)


def _resume_or_begin(folder: Path, inputs: _Inputs, cleaner: Cleaner) -> tuple[Progress, Learnt]:
    """Return the progress of an earlier run, or start afresh with the vocabulary.

    Returns also what was learnt, which is nothing in the first case.
    """
    key = progress_key(inputs.settings, inputs.sources, inputs.vocabularies)
    progress = read_progress(folder)
    if progress is not None and progress.key == key:
        pairs = sum(shard.pairs for shard in progress.shards)
        console.notice(
            f"resuming {folder}: {len(progress.shards):,} shards with {pairs:,} pairs are complete"
        )
        return progress, NOTHING_LEARNT
    if progress is not None:
        console.notice(f"{folder} was made from other text, options or version; starting afresh")
    elif any(path.is_file() for path in folder.iterdir()):
        console.notice(f"{folder} is damaged or almost empty; starting afresh")
    empty_folder(folder)
    train, options = inputs.sources.train, inputs.options
    learnt = NOTHING_LEARNT
    if not inputs.vocabularies:
        learnt = learn_vocabularies(
            options, inputs.languages, train, cleaner=cleaner, moses=inputs.moses
        )
    vocabularies = inputs.vocabularies or learnt.vocabularies
    given = bool(inputs.vocabularies)
    lexicon = folder / PROGRESS_FOLDER / LEXICON_NAME
    progress = Progress(
        key=key,
        vocabulary=write_vocabularies(folder, vocabularies, given=given),
        shards=(),
        side_columns=(),
        hashes=(),
        rejects=tuple(map(CorpusRejects.begin, train)),
        corpus=0,
        line=1,
        lexicon=learn_lexicon(lexicon, inputs.annotator, train, cleaner, options),
    )
    write_progress(folder, progress)
    return progress, learnt


def _build(
    folder: Path,
    inputs: _Inputs,
    cleaner: Cleaner,
    progress: Progress,
    learnt: Learnt,
    held_out: Sequence[HeldOutText],
) -> None:
    models = [(folder / file.name).read_bytes() for file in progress.vocabulary.files]
    options, sources, subwords = inputs.options, inputs.sources, inputs.subwords(models)
    subwords.add_words(learnt.counts)
    annotator = inputs.annotator
    if annotator is not None and progress.lexicon:
        annotator = annotator.with_lexicon(folder / PROGRESS_FOLDER / LEXICON_NAME)
    split = TrainSplit(
        folder,
        sources.train,
        inputs.steps(subwords, cleaner, annotator),
        progress,
        # They judge repaired text, which is not there any more.
        judgements={} if inputs.cleaning.fix else learnt.judgements,
        token_bytes=subwords.token_bytes,
        separator=subwords.separator if options.documents else None,
        marker=None if annotator is None else subwords.marker,
        duplicate_rules=inputs.cleaning.duplicate_rules,
        shard_pairs=options.shard_pairs,
    )
    split.write(workers=options.processes)
    check_any_left(split.rejects)
    warn_if_most_rejected(split.rejects)
    count = len(sources.valids)
    stems = [
        f"valid.{spell_pair(text.langs)}" if options.pair else "valid" for text in sources.valids
    ]
    valids = dict(zip(stems, held_out[:count], strict=True))
    valid = write_held_out(folder, "valid", valids, subwords)
    tests = [
        write_held_out(folder, name, {name: text}, subwords)
        for name, text in zip(sources.tests, held_out[count:], strict=True)
    ]
    rejects, rejects_text = write_reports(folder, split.rejects)
    info = DatasetInfo(
        format_version=manifest.FORMAT_VERSION,
        settings=inputs.settings,
        vocabulary=progress.vocabulary,
        train=split.record(),
        valid=valid,
        tests=tuple(tests),
        rejects=rejects,
        rejects_text=rejects_text,
    )
    write_text(folder / manifest.FILE_NAME, manifest.to_json(info))
