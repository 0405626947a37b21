#!/usr/bin/env python3
"""Terms of a test set, taken from its references, and how many of them translations have.

    term_use.py find TRAIN TEST OUT         make OUT/terms.tsv, and OUT/forms.tsv with other forms
    term_use.py results OUT TEST NAME...    print a table of OUT/NAME.de, .json and .log

A term is a word of the test source and the lemma of the reference's word that translates it, by the
lexicon that `nmt prepare --terms auto` learns, here from the training text only. A word that the
references translate in several ways is not a term, and neither is one without a translation.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path

from nmt.data.corpus import Encoding, find_sides, read_lines
from nmt.lexical.lemmas import WORD, LineForms, lemma
from nmt.lexical.term_list import read_terms
from nmt.lexical.word_lexicon import learn_words
from nmt.lexical.word_list import WordList, has_phrase
from nmt.system.files import write_text

LANGS = ("en", "de")
COLUMNS = ["", "terms as given", "in any form", "in the reference's", "BLEU", "chrF", "lines/s"]


def read_pairs(prefix: str) -> tuple[list[str], list[str]]:
    """Read the source and target lines of a small text in UTF-8."""
    encoding = Encoding.find("utf-8")
    src, tgt = (
        [line.decode() for line in read_lines(path, encoding)]
        for path in find_sides(prefix, *LANGS)
    )
    return src, tgt


def find(train: str, test: str, out: Path) -> None:
    """Write the terms of a test set, and the same with the forms that the references have."""
    lexicon = learn_words(list(zip(*read_pairs(train), strict=True)), LANGS)
    lemmas, forms = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for src, tgt in zip(*read_pairs(test), strict=True):
        for src_span, tgt_span, tgt_lemma in lexicon.links(src, tgt):
            word = src[slice(*src_span)].lower()
            lemmas[word].add(tgt_lemma)
            forms[word].add(tgt[slice(*tgt_span)])
    found = {word: next(iter(own)) for word, own in sorted(lemmas.items()) if len(own) == 1}
    rows = ["\t".join([word, found[word], *sorted(forms[word] - {found[word]})]) for word in found]
    write_text(out / "forms.tsv", "".join(f"{row}\n" for row in ["source\ttarget\tform", *rows]))
    rows = [f"{word}\t{lemma}\n" for word, lemma in found.items()]
    write_text(out / "terms.tsv", "".join(rows))  # last: make takes it to mean that both are there
    print(f"{len(found):,} terms of {len(lemmas):,} words that a reference translates")


def shares(src: list[str], references: list[str], hypotheses: list[str], terms: WordList) -> str:
    """Return which shares of the terms the translations have: as given, in any form, right.

    A term counts in the lines whose reference has it. Right is the form that the reference has.
    """
    counts = [0, 0, 0, 0]
    for line, reference, hypothesis in zip(src, references, hypotheses, strict=True):
        wanted, found = (LineForms.of(text, LANGS[1]) for text in (reference, hypothesis))
        for target in {one.word.targets[0] for one in terms.find(line)}:
            if wanted.has(target):
                words = WORD.findall(reference)
                right = [word for word in words if lemma(word, LANGS[1]).lower() == target.lower()]
                as_given = has_phrase(hypothesis, target)
                is_right = any(has_phrase(hypothesis, word) for word in right)
                has = as_given, as_given or found.has(target), is_right
                counts = [count + one for count, one in zip(counts, (True, *has), strict=True)]
    return " | ".join(f"{100 * count / counts[0]:.1f} %" for count in counts[1:])


def results(out: Path, test: str, names: list[str]) -> None:
    """Print a table with a row for each system."""
    src, references = read_pairs(test)
    terms = read_terms(out / "terms.tsv", LANGS)
    print(f"| {' | '.join(COLUMNS)} |\n|---|{'---:|' * (len(COLUMNS) - 1)}")
    for name in names:
        hypotheses = (out / f"{name}.de").read_text("utf-8").split("\n")[:-1]
        scores = json.loads((out / f"{name}.json").read_text("utf-8"))
        summary = json.loads((out / f"{name}.log").read_text("utf-8").splitlines()[-1])
        speed = summary["lines_in"] / summary["seconds"]
        row = [name, shares(src, references, hypotheses, terms)]
        row += [f"{scores[metric]['score']:.2f}" for metric in ("bleu", "chrf")]
        print(f"| {' | '.join([*row, f'{speed:.0f}'])} |")


if __name__ == "__main__":
    if sys.argv[1] == "find":
        find(sys.argv[2], sys.argv[3], Path(sys.argv[4]))
    else:
        results(Path(sys.argv[2]), sys.argv[3], sys.argv[4:])
