"""The inputs of `prepare`, read once and checked before anything is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

from nmt import console
from nmt.data.corpus import Encoding
from nmt.data.manifest import Settings
from nmt.data.moses import moses_rules
from nmt.data.vocabulary import Vocabulary
from nmt.errors import DataError, UsageError
from nmt.prepare.characters import known_scripts
from nmt.prepare.cleaning import Cleaner
from nmt.prepare.duplicates import OverlapKeys
from nmt.prepare.encode import BlockEncoder
from nmt.prepare.faults import faults
from nmt.prepare.options import PrepareOptions, settle
from nmt.prepare.sampling import draw_pairs
from nmt.prepare.sources import Sources
from nmt.prepare.splits import HeldOutText
from nmt.prepare.text import BlockDecoder, Rows


@dataclass(frozen=True)
class Inputs:
    """The texts, the vocabularies that were given, and the settings."""

    settings: Settings
    given: tuple[Vocabulary, ...]
    sources: Sources
    decode: BlockDecoder
    drawn: tuple[Rows, ...] = ()
    """Line numbers drawn for valid, for each training text."""

    @classmethod
    def read(cls, options: PrepareOptions) -> Inputs:
        """Read every file once; raise DataError or UsageError if one cannot be used."""
        given = tuple(Vocabulary.load(path) for path in options.vocab)
        for path, vocabulary in zip(options.vocab, given, strict=True):
            if not vocabulary.covers_all_text:
                console.warning(f"{path} has no byte fallback: unknown characters become <unk>")
        settings = settle(options.settings, given)
        langs = (settings.src_lang, settings.tgt_lang)
        decode = BlockDecoder(Encoding.find(settings.encoding), langs)
        sources = Sources.survey(
            options.train,
            options.valid,
            options.test,
            langs=langs,
            encoding=decode.encoding,
            threads=options.workers,
            weights=options.weights,
            tags=options.tags,
        )
        if not any(text.lines for text in sources.train):
            prefixes = ", ".join(text.text.prefix for text in sources.train)
            raise DataError(f"the training text is empty: {prefixes}")
        if not any(round(text.lines * text.weight) for text in sources.train):
            raise UsageError(
                "--weight: the weights are so small that an epoch has no pairs; raise them"
            )
        inputs = cls(settings, given, sources, decode)
        for tag in inputs.tags if given else ():
            if not given[0].has_symbol(tag):
                raise UsageError(
                    f"--tag {tag} is not in the vocabulary and would be split; learn the "
                    f"vocabulary with --user_defined_symbols={tag}"
                )
        return inputs

    @property
    def tags(self) -> list[str]:
        """The tags of all texts, in alphabetical order."""
        texts = (*self.sources.train, *self.sources.held_out)
        return sorted({text.tag for text in texts if text.tag})

    def warn_of_faults(self) -> None:
        """Warn of faults in the first pairs of each text, and of equal files."""
        held_out = self.sources.held_out
        for text in (*self.sources.train, *held_out):
            for block in islice(text.read(self.decode.encoding), 1):
                for fault in faults(text.text, *self.decode(block), self.decode.langs):
                    console.warning(fault)
        for text in self.sources.train:
            for other in held_out:
                if [file.sha256 for file in text.records] == [f.sha256 for f in other.records]:
                    console.warning(
                        f"--train {text.text.prefix} is the same text as {other.text.prefix}; "
                        "do not train on valid or test"
                    )

    def with_valid(self, workers: int) -> Inputs:
        """Return the inputs with a text for valid, drawn from train if none was given."""
        if self.sources.valid is not None:
            return self
        drawn = draw_pairs(
            self.sources.train,
            self.decode,
            Cleaner.of(self.settings, held_out=_joined(self.check_held_out())),
            size=self.settings.valid_lines,
            seed=self.settings.seed,
            workers=workers,
        )
        sources = replace(self.sources, valid=drawn.source)
        return replace(self, sources=sources, drawn=drawn.numbers)

    def check_held_out(self) -> list[HeldOutText]:
        """Read valid and the test sets; DataError names the first unusable line."""
        return [HeldOutText.check(text, self.decode) for text in self.sources.held_out]

    def cleaner(self, held_out: Sequence[HeldOutText]) -> Cleaner:
        """Return the cleaning rules for the training text."""
        settings = self.settings
        for side, lang in (("src", settings.src_lang), ("tgt", settings.tgt_lang)):
            if "script" not in settings.keep and not known_scripts(lang):
                console.notice(
                    f"--{side} {lang}: the script of this language is unknown, so the rule "
                    "`script` skips this side"
                )
        return Cleaner.of(self.settings, held_out=_joined(held_out), drawn=self.drawn)

    def encoder(self, models: Sequence[bytes], cleaner: Cleaner) -> BlockEncoder:
        """Return the function that workers apply to training text, for these vocabularies."""
        return BlockEncoder(
            decode=self.decode,
            cleaner=cleaner,
            models=tuple(models),
            moses=moses_rules(self.settings),
            duplicates_by=self.settings.duplicates_by,
            tags=tuple(text.tag for text in self.sources.train),
        )


def _joined(held_out: Sequence[HeldOutText]) -> tuple[OverlapKeys, OverlapKeys]:
    src, tgt = (OverlapKeys.join([text.keys[side] for text in held_out]) for side in (0, 1))
    return src, tgt
