"""The stage that turns parallel text into a data folder: whole, or not at all.

Every file is read once to count its lines and take its checksum, which tells whether there is
anything to do, and compared with its other side before anything is written. Then a vocabulary is
learnt from a sample, and the text goes block by block through the workers into shards. No pass
holds the text. All is written to `OUT.partial`, which becomes `OUT` in one rename; a run that was
stopped or killed is taken up from the last shard that was complete.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nmt import console
from nmt.data import manifest
from nmt.data.building import building_folder, check_space, check_target, empty_folder
from nmt.data.cleaning import CODES, KEPT, Cleaner
from nmt.data.corpus import Encoding
from nmt.data.decoding import BlockDecoder
from nmt.data.encode import BlockEncoder
from nmt.data.folder import DataFolder
from nmt.data.held_out import HeldOutText
from nmt.data.manifest import DatasetInfo, FileRecord, Settings, SplitRecord, VocabularyRecord
from nmt.data.options import PrepareOptions, check_options, settle
from nmt.data.progress import Progress, progress_key, read_progress, write_progress
from nmt.data.reject_report import CorpusRejects, report_json, report_text
from nmt.data.reuse import check_same, find_folder
from nmt.data.rules import RULES
from nmt.data.sampling import SampleCleaner, sample_blocks
from nmt.data.sources import Sources, record_file
from nmt.data.split_writer import SplitWriter
from nmt.data.train_split import TrainSplit
from nmt.data.vocabulary import Vocabulary, learn_vocabulary
from nmt.data.workers import map_in_order
from nmt.errors import DataError, UsageError
from nmt.files import atomic_writer, write_text

# Of text: a token takes two bytes and stands for about four; of pairs: two offsets, a line number,
# and, while the folder is built, a hash.
_BYTES_A_BYTE = 0.6
_BYTES_A_PAIR = 20


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
    settings = settle(options.settings, given)
    there = find_folder(out)
    encoding = Encoding.find(settings.encoding)
    sources = Sources.survey(
        options.train,
        options.valid,
        options.test,
        langs=(settings.src_lang, settings.tgt_lang),
        encoding=encoding,
        threads=options.workers,
    )
    if there is not None:
        check_same(there, settings, sources, given)
        console.notice(f"{options.out} is already prepared from the same text and options")
        return there

    _check_any_text(sources)
    check_space(out, _space_needed(sources))
    decode = BlockDecoder(encoding, (settings.src_lang, settings.tgt_lang))
    held_out = [HeldOutText.check(text, decode) for text in sources.held_out]
    hashes = np.unique(np.concatenate([text.long_sources for text in held_out]))
    cleaner = Cleaner.of(settings, held_out=hashes)
    with building_folder(out) as folder:
        builder = _Builder(folder, settings, sources, decode, cleaner, options.workers)
        progress = builder.take_up(given)
        builder.build(progress, held_out)
        DataFolder.open(folder)
    return DataFolder.open(out)


@dataclass(frozen=True)
class _Builder:
    """Writes the files of a data folder."""

    folder: Path
    settings: Settings
    sources: Sources
    decode: BlockDecoder
    cleaner: Cleaner
    workers: int

    def take_up(self, given: Sequence[Vocabulary]) -> Progress:
        """Return how far an earlier run has come, or begin: with the vocabulary."""
        key = progress_key(self.settings, self.sources, given)
        progress = read_progress(self.folder)
        if progress is not None and progress.key == key:
            pairs = sum(shard.pairs for shard in progress.shards)
            console.notice(
                f"going on with {self.folder}: {len(progress.shards):,} shards with {pairs:,} "
                "pairs are complete"
            )
            return progress
        if progress is not None:
            console.notice(f"{self.folder} is of other text, options or version; starting afresh")
        empty_folder(self.folder)
        vocabularies = given or self._learn()
        progress = Progress(
            key=key,
            vocabulary=self._write_vocabularies(vocabularies, given=bool(given)),
            shards=(),
            hashes=(),
            rejects=tuple(
                CorpusRejects(text.text.prefix, text.text.src.name, text.text.tgt.name)
                for text in self.sources.train
            ),
            corpus=0,
            line=1,
        )
        write_progress(self.folder, progress)
        return progress

    def build(self, progress: Progress, held_out: Sequence[HeldOutText]) -> None:
        """Write everything that is not there yet."""
        encoder = BlockEncoder(
            decode=self.decode,
            cleaner=self.cleaner,
            models=tuple(
                (self.folder / file.name).read_bytes() for file in progress.vocabulary.files
            ),
            duplicates_by=self.settings.duplicates_by,
        )
        split = TrainSplit(
            self.folder,
            self.sources.train,
            encoder,
            progress,
            shard_pairs=self.settings.shard_pairs,
        )
        split.write(workers=self.workers)
        _check_any_left(split.rejects)
        names = ("valid", *self.sources.tests)
        valid, *tests = [
            self._write_held_out(name, text, encoder)
            for name, text in zip(names, held_out, strict=True)
        ]
        info = DatasetInfo(
            format_version=manifest.FORMAT_VERSION,
            settings=self.settings,
            vocabulary=progress.vocabulary,
            train=split.record(),
            valid=valid,
            tests=tuple(tests),
            rejects=self._write(manifest.REJECTS_NAME, report_json(split.rejects)),
            rejects_text=self._write(manifest.REJECTS_TEXT_NAME, report_text(split.rejects)),
        )
        write_text(self.folder / manifest.FILE_NAME, manifest.to_json(info))

    def _learn(self) -> list[Vocabulary]:
        """Return the vocabulary of both languages, or that of the source and that of the target."""
        settings = self.settings
        langs = (settings.src_lang, settings.tgt_lang)
        lines = min(settings.sample_size, sum(text.lines for text in self.sources.train))
        vocabularies = []
        for sides in ((0,), (1,)) if settings.separate_vocab else ((0, 1),):
            what = " and ".join(langs[side] for side in sides)
            console.notice(f"learning the vocabulary of {what} from {lines:,} pairs")
            try:
                vocabulary = learn_vocabulary(
                    (pair[side] for pair in self._sample() for side in sides),
                    vocab_size=settings.vocab_size,
                    normalization=settings.normalization,
                    character_coverage=settings.character_coverage,
                )
            except UsageError as error:
                raise UsageError(f"{what}: {error}") from None
            vocabularies.append(vocabulary)
        return vocabularies

    def _sample(self) -> Iterator[tuple[str, str]]:
        blocks = sample_blocks(
            self.sources.train,
            self.decode.encoding,
            size=self.settings.sample_size,
            seed=self.settings.seed,
        )
        counts = np.zeros(len(RULES) + 1, np.int64)  # by the code of the verdict
        clean = SampleCleaner(self.decode, self.cleaner)
        for _, sample in map_in_order(clean, blocks, workers=self.workers):
            counts += np.bincount(sample.verdicts, minlength=len(counts))
            yield from sample.pairs
        if not counts[KEPT]:
            raise _nothing_left({rule: int(counts[code]) for rule, code in CODES.items()})

    def _write_vocabularies(
        self, vocabularies: Sequence[Vocabulary], *, given: bool
    ) -> VocabularyRecord:
        names = ("vocab.model",) if len(vocabularies) == 1 else ("src.model", "tgt.model")
        for name, vocabulary in zip(names, vocabularies, strict=True):
            with atomic_writer(self.folder / name) as file:
                file.write(vocabulary.model)
        return VocabularyRecord(
            files=tuple(record_file(self.folder / name) for name in names),
            sizes=tuple(len(vocabulary) for vocabulary in vocabularies),
            given=given,
        )

    def _write_held_out(self, name: str, text: HeldOutText, encoder: BlockEncoder) -> SplitRecord:
        writer = SplitWriter(self.folder, name, token_bytes=encoder.token_bytes)
        paths = [self.folder / f"{name}.{lang}" for lang in self.decode.langs]
        text.encode(encoder, writer, paths)
        writer.flush()
        return writer.record([text.record()], [record_file(path) for path in paths])

    def _write(self, name: str, content: str) -> FileRecord:
        write_text(self.folder / name, content)
        return record_file(self.folder / name)


def _check_any_text(sources: Sources) -> None:
    if not any(text.lines for text in sources.train):
        prefixes = ", ".join(text.text.prefix for text in sources.train)
        raise DataError(f"the training text is empty: {prefixes}")


def _check_any_left(rejects: Sequence[CorpusRejects]) -> None:
    if not any(corpus.kept for corpus in rejects):
        counts: Counter[str] = Counter()
        for corpus in rejects:
            counts.update(corpus.counts)
        raise _nothing_left(counts)


def _nothing_left(rejected: Mapping[str, int]) -> DataError:
    spelt = ", ".join(f"{rule} {count:,}" for rule, count in rejected.items() if count)
    return DataError(
        f"nothing is left of {sum(rejected.values()):,} training pairs; rejected: {spelt}; see "
        "`nmt prepare --help` for the rules and --keep"
    )


def _space_needed(sources: Sources) -> int:
    """Return about how many bytes a data folder takes while it is built: rather too many."""
    train_bytes = sum(text.text_bytes for text in sources.train)
    pairs = sum(text.lines for text in sources.train)
    held_out_bytes = sum(text.text_bytes for text in sources.held_out)
    return int(_BYTES_A_BYTE * train_bytes + _BYTES_A_PAIR * pairs + 2 * held_out_bytes) + (1 << 22)
