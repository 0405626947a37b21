#!/usr/bin/env python3
"""Write a small English-German parallel corpus from a grammar: train, valid and test.

The language has some five hundred word forms of English, and what makes German hard to copy word
by word: gender, case and adjective endings; verbs that stand second, last, or in two pieces;
participles with haben or sein; infinitives with zu; relative clauses; pronouns that follow the
gender of a thing; and numbers, times, dates and prices written out. Each English sentence has
exactly one translation, which depends on that sentence alone. The words are in `lexicon.py`, the
numbers in `quantities.py`, declension and word order in `grammar.py`; `clauses.py` draws clauses
at random, and `templates.py` makes sentences of them.

What is held out is not lines but combinations: which adjective stands with which noun, which verb
with which object, which number with which noun, which day in which month, which minutes with
which hour, which euros with which cents. The rule is fixed, whatever the seed: CRC-32 of "FIRST
SECOND", the two English words, modulo 16; 0 belongs to valid, 1 to test, the rest to train. A
sentence all of whose combinations belong to train goes to train. One with at least one
combination of test, and none of valid, goes to test; and the other way round. So each line of
test holds a combination that no line of train or valid holds, made of words that train does.
"""

import argparse
import itertools
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from zlib import crc32

from grammar import Combination, Phrase
from lexicon import NAMES, NOUN_OF
from lines import write_lines
from templates import draw

SPLITS = ("train", "valid", "test")
HELD_OUT = {0: "valid", 1: "test"}
MODULUS = 16
# A held-out line must be made of words of train; with a train too small, none may ever be.
MAX_DRAWS_PER_LINE = 2000


def split_of_combination(combination: Combination) -> str:
    """Return the split to which a combination belongs."""
    return HELD_OUT.get(crc32(" ".join(combination).encode()) % MODULUS, "train")


def split_of(sentence: Phrase) -> str | None:
    """Return the split a sentence may stand in, or None if it mixes those of valid and test."""
    held_out = {split_of_combination(pair) for pair in sentence.combinations} - {"train"}
    if len(held_out) > 1:
        return None
    return held_out.pop() if held_out else "train"


def words(text: str) -> set[str]:
    """Return the words of a line, without punctuation, in lower case."""
    return {word.lower() for word in re.findall(r"[\w'-]+", text)}


def repeats_a_noun(sentence: Phrase) -> bool:
    """Return whether a noun or name stands twice in a sentence: the man sees the man."""
    counts = Counter(re.findall(r"\w+", sentence.en))
    return any(counts[word] > 1 for word in (*NOUN_OF, *NAMES))


def sentences(rng: Random) -> Iterator[Phrase]:
    """Yield sentences without end, each English line once."""
    seen: set[str] = set()
    while True:
        sentence = draw(rng)
        if sentence.en not in seen and not repeats_a_noun(sentence):
            seen.add(sentence.en)
            yield sentence


def corpus(seed: int, sizes: dict[str, int]) -> dict[str, list[Phrase]]:
    """Return the sentences of each split; train is drawn first, for the others to use its words."""
    stream = sentences(Random(seed))
    train = itertools.islice((s for s in stream if split_of(s) == "train"), sizes["train"])
    splits = {"train": list(train), "valid": [], "test": []}
    known_en = set().union(*(words(sentence.en) for sentence in splits["train"]))
    known_de = set().union(*(words(sentence.de) for sentence in splits["train"]))
    for split in ("valid", "test"):
        for sentence in itertools.islice(stream, MAX_DRAWS_PER_LINE * sizes[split]):
            if len(splits[split]) == sizes[split]:
                break
            known = words(sentence.en) <= known_en and words(sentence.de) <= known_de
            if known and split_of(sentence) == split:
                splits[split].append(sentence)
        else:
            raise SystemExit(
                f"generate.py: {sizes['train']} lines of train hold too few words for "
                f"{sizes[split]} lines of {split}; ask for a larger --train"
            )
    return splits


def main() -> None:
    """Write the six files of the corpus."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for train.en, train.de ...")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--train", type=int, default=16_000, help="lines (default %(default)s)")
    parser.add_argument("--valid", type=int, default=500, help="lines (default %(default)s)")
    parser.add_argument("--test", type=int, default=500, help="lines (default %(default)s)")
    options = parser.parse_args()

    splits = corpus(options.seed, {split: getattr(options, split) for split in SPLITS})
    options.out.mkdir(parents=True, exist_ok=True)
    for split, phrases in splits.items():
        write_lines(options.out / f"{split}.en", [phrase.en for phrase in phrases])
        write_lines(options.out / f"{split}.de", [phrase.de for phrase in phrases])


if __name__ == "__main__":
    main()
