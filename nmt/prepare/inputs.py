"""The inputs of `prepare`, read once and checked before anything is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from nmt import console
from nmt.data.corpus import Encoding
from nmt.data.moses import Moses, moses_rules
from nmt.data.vocabulary import Vocabulary
from nmt.errors import DataError, UsageError
from nmt.prepare.characters import known_scripts
from nmt.prepare.cleaning import Cleaning
from nmt.prepare.duplicates import OverlapKeys
from nmt.prepare.encode import BlockEncoder
from nmt.prepare.faults import faults
from nmt.prepare.judge import Cleaner
from nmt.prepare.options import PrepareOptions, used_settings
from nmt.prepare.sampling import draw_pairs
from nmt.prepare.sources import Sources
from nmt.prepare.splits import HeldOutText
from nmt.prepare.text import BlockDecoder, Rows


@dataclass(frozen=True)
class Inputs:
    """The options, the vocabularies that were given, and the texts."""

    options: PrepareOptions
    cleaning: Cleaning
    given: tuple[Vocabulary, ...]
    sources: Sources
    decode: BlockDecoder
    drawn: tuple[Rows, ...] = ()
    """Line numbers drawn for valid, for each training text."""

    @classmethod
    def read(cls, options: PrepareOptions, cleaning: Cleaning) -> Inputs:
        """Read every file once; raise DataError or UsageError if one cannot be used."""
        given = tuple(Vocabulary.load(path) for path in options.vocab)
        for path, vocabulary in zip(options.vocab, given, strict=True):
            if not vocabulary.covers_all_text:
                console.warning(f"{path} has no byte fallback: unknown characters become <unk>")
        decode = BlockDecoder(Encoding.find(options.encoding), options.langs)
        sources = Sources.survey(options, decode.encoding)
        if not any(text.lines for text in sources.train):
            raise DataError(f"the training text is empty: {', '.join(options.train)}")
        if not any(round(text.lines * text.weight) for text in sources.train):
            raise UsageError(
                "--weight: the weights are so small that an epoch has no pairs; raise them"
            )
        for tag in sorted(set(options.tags.values())) if given else ():
            if not given[0].has_symbol(tag):
                raise UsageError(
                    f"--tag {tag} is not in the vocabulary and would be split; learn the "
                    f"vocabulary with --user_defined_symbols={tag}"
                )
        return cls(options, cleaning, given, sources, decode)

    @property
    def settings(self) -> dict[str, Any]:
        """The options that, with the text, decide what is written."""
        return used_settings(self.options, self.cleaning, self.given)

    @property
    def moses(self) -> tuple[Moses | None, Moses | None]:
        """The Moses rules of the source and the target."""
        options = self.options
        return moses_rules(
            options.langs, normalize=options.moses_normalize, tokenize=options.moses_tokenize
        )

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

    def with_valid(self) -> Inputs:
        """Return the inputs with a text for valid, drawn from train if none was given."""
        if self.sources.valid is not None:
            return self
        drawn = draw_pairs(
            self.sources.train,
            self.decode,
            Cleaner(cleaning=self.cleaning, held_out=_joined(self.check_held_out())),
            size=self.options.valid_lines,
            seed=self.options.seed,
            workers=self.options.processes,
        )
        sources = replace(self.sources, valid=drawn.source)
        return replace(self, sources=sources, drawn=drawn.numbers)

    def check_held_out(self) -> list[HeldOutText]:
        """Read valid and the test sets; DataError names the first unusable line."""
        return [HeldOutText.check(text, self.decode) for text in self.sources.held_out]

    def cleaner(self, held_out: Sequence[HeldOutText]) -> Cleaner:
        """Return the cleaning rules for the training text."""
        for side, lang in zip(("src", "tgt"), self.options.langs, strict=True):
            if self.cleaning.applies("script") and not known_scripts(lang):
                console.notice(
                    f"--{side} {lang}: the script of this language is unknown, so the rule "
                    "`script` skips this side"
                )
        return Cleaner(cleaning=self.cleaning, held_out=_joined(held_out), drawn=self.drawn)

    def encoder(self, models: Sequence[bytes], cleaner: Cleaner) -> BlockEncoder:
        """Return the function that workers apply to training text, for these vocabularies."""
        return BlockEncoder(
            decode=self.decode,
            cleaner=cleaner,
            models=tuple(models),
            moses=self.moses,
            tags=tuple(text.tag for text in self.sources.train),
        )


def _joined(held_out: Sequence[HeldOutText]) -> tuple[OverlapKeys, OverlapKeys]:
    src, tgt = (OverlapKeys.join([text.keys[side] for text in held_out]) for side in (0, 1))
    return src, tgt
