"""`--terms`: training lines say how some of their words are translated (`nmt.lexical.annotation`).

- `auto`: words that translate each other by a lexicon, learnt from a sample of the text. The
  annotation is the lemma of the target word.
- a file: its terms, if the target line has one of their translations.

`auto` annotates each word with a chance that is drawn for the line, from 0 to 1. So some lines have
many annotations and others few or none, from which the model learns to translate without terms. Of
a file, every term is annotated, but only in half of the lines. What is drawn depends only on the
seed, the corpus and the number of the line.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nmt import console
from nmt.data.composition import compose
from nmt.data.epochs import random_bits, random_shares
from nmt.data.manifest import FileRecord, record_file
from nmt.data.shards import TokenRows
from nmt.data.vocabulary import Vocabulary
from nmt.errors import DataError
from nmt.lexical.annotation import Annotation, annotate
from nmt.lexical.ibm_model1 import LEXICON_STEPS
from nmt.lexical.lemmas import LineForms, has_lemmas, lemmas_version
from nmt.lexical.term_list import read_terms
from nmt.lexical.token_offsets import token_offsets
from nmt.lexical.word_lexicon import WordLexicon, learn_words
from nmt.lexical.word_list import WordList, has_phrase
from nmt.prepare.block import Work
from nmt.prepare.options import AUTO_TERMS, PrepareOptions
from nmt.system.files import is_there, sha256_file, write_text
from nmt.tables.formats import file_and_columns

_LINES_OF_FILE = 0.5  # share of the lines in which the terms of a file are annotated
LEXICON_PAIRS = 50_000
"""Pairs that the lexicon is learnt from: of long sentences, half a minute and 1 GB."""
_LINE, _SHARE, _WORDS = range(3)  # what the random numbers of a line are for


class Annotator(NamedTuple):
    """Annotates training lines, in the workers."""

    langs: tuple[str, str]
    seed: int
    fingerprint: str  # what identifies the terms in `dataset.json`
    terms: WordList | None  # of a file; None: `auto`
    lexicon: WordLexicon | None = None  # of `auto`, once it is learnt

    @classmethod
    def from_options(cls, options: PrepareOptions) -> Annotator | None:
        """Return the annotator that the options ask for (UsageError, DataError), if any."""
        if options.terms is None:
            return None
        for lang in options.langs:
            if not has_lemmas(lang):
                console.notice(
                    f"{lang}: simplemma does not know this language, so --terms takes its words "
                    "as they are"
                )
        if options.terms == AUTO_TERMS:
            return cls(options.langs, options.seed, f"auto, {lemmas_version()}", None)
        named, path = Path(options.terms), Path(file_and_columns(options.terms)[0])
        if not is_there(path):
            raise DataError(f"--terms {path}: no such file; give a file of terms, or auto")
        terms = read_terms(named, options.langs)
        fingerprint = f"{named.name} {sha256_file(path)}, {lemmas_version()}"
        return cls(options.langs, options.seed, fingerprint, terms)

    def with_lexicon(self, path: Path) -> Annotator:
        """Return the annotator with the lexicon that `learn_lexicon` has written."""
        return self._replace(lexicon=WordLexicon.read(path.read_text("utf-8")))

    def annotate(self, work: Work, vocabulary: Vocabulary, *, longest: int) -> TokenRows:
        """Return the ids of sources, some of which say how some of their words are translated.

        work: with ids.
        longest: the most ids of a source. An annotation that does not fit is left out.
        """
        assert work.ids is not None
        src_ids, _ = work.ids
        lines = list(zip(work.tagged, work.lines[1], strict=True))
        key, numbers = (self.seed, work.block.corpus), work.numbers
        shares = random_shares(numbers, *key, _SHARE)
        seeds = random_bits(numbers, *key, _WORDS)
        is_chosen = random_shares(numbers, *key, _LINE) < _LINES_OF_FILE
        is_chosen |= self.lexicon is not None
        places, annotated_ids, rows = [], [], src_ids.lists()
        for row in np.flatnonzero(is_chosen).tolist():
            src, tgt = map(compose, lines[row])
            first, text = vocabulary.split_tag(src)
            uses = self._uses(text, tgt)
            if self.lexicon is not None:
                draw = random.Random(int(seeds[row]))
                uses = [use for use in uses if draw.random() < shares[row]]
            if uses:
                text_ids = rows[row][len(first) :]
                spans = token_offsets(text, vocabulary.tokens(text_ids))
                made = annotate(vocabulary, text_ids, spans, uses, most=longest - len(first))
                places.append(row)
                annotated_ids.append([*first, *made.ids])
        return src_ids.replaced(places, annotated_ids)

    def _uses(self, src: str, tgt: str) -> list[Annotation]:
        if self.lexicon is not None:
            return [Annotation(*span, lemma) for span, _, lemma in self.lexicon.links(src, tgt)]
        if self.terms is None or not (uses_of_terms := self.terms.find(src)):
            return []
        line, uses = LineForms.of(tgt, self.langs[1]), []
        for use in uses_of_terms:
            there = (
                target for target in use.word.targets if has_phrase(tgt, target) or line.has(target)
            )
            if target := next(there, ""):
                uses.append(Annotation(use.start, use.end, target))
        return uses


def learn_lexicon(
    path: Path, clean_pairs: Iterable[tuple[str, str]], langs: tuple[str, str]
) -> FileRecord:
    """Write the lexicon of `auto`, learnt from clean pairs; return the record of its file."""
    pairs = [(compose(src), compose(tgt)) for src, tgt in clean_pairs]
    with console.progress("Aligning words", total=2 * LEXICON_STEPS, unit="steps") as bar:
        lexicon = learn_words(pairs, langs, on_progress=bar.update)
    console.notice(
        f"--terms auto: {lexicon.entries:,} pairs of words learnt from {len(pairs):,} pairs"
    )
    write_text(path, lexicon.write())
    return record_file(path)
