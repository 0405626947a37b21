#!/usr/bin/env python3
"""Translate the toy test without a neural network, in two ways, to show that it is not trivial.

`word_by_word` replaces each word by its most probable translation. The dictionary is learnt from
train by IBM Model 1 (Brown et al. 1993). `nearest_neighbour` answers with the target of the train
pair whose source shares most words with the line, by the Dice coefficient.
"""

import argparse
import re
from collections import defaultdict
from pathlib import Path

from make_text import read_lines, write_lines

EM_ROUNDS = 4

Tokens = list[str]


def tokenize(line: str) -> Tokens:
    """Split a line into words and punctuation marks, the first word in lower case."""
    return re.findall(r"\w+|[^\w\s]", line[0].lower() + line[1:])


def learn_dictionary(src: list[Tokens], tgt: list[Tokens]) -> dict[str, str]:
    """Return the most probable translation of each word of the source, by IBM Model 1."""
    # table[s][t] = p(t | s); all equal in the first round, when only co-occurrence counts.
    table: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(lambda: 1.0))
    for _ in range(EM_ROUNDS):
        counts: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        for src_line, tgt_line in zip(src, tgt, strict=True):
            rows = [(table[s], counts[s]) for s in src_line]
            for t in tgt_line:
                total = sum(row[t] for row, _ in rows)
                for row, count in rows:
                    count[t] += row[t] / total
        table = {
            s: {t: count / sum(row.values()) for t, count in row.items()}
            for s, row in counts.items()
        }
    return {s: max(row, key=lambda t: row[t]) for s, row in table.items()}


def word_by_word(src: list[Tokens], tgt: list[str], test: list[Tokens]) -> list[str]:
    """Translate each word of the test in its place, with a dictionary learnt from train."""
    dictionary = learn_dictionary(src, [tokenize(line) for line in tgt])
    lines = [" ".join(dictionary.get(word, word) for word in line) for line in test]
    return [line[0].upper() + re.sub(r" ([.,])", r"\1", line[1:]) for line in lines]


def nearest_neighbour(src: list[Tokens], tgt: list[str], test: list[Tokens]) -> list[str]:
    """Answer each line of the test with the target of the nearest train pair, the first of them."""
    train = [frozenset(line) for line in src]

    def translate(words: frozenset[str]) -> str:
        near = [2 * len(words & line) / (len(words) + len(line)) for line in train]
        return tgt[near.index(max(near))]

    return [translate(frozenset(line)) for line in test]


METHODS = {"word_by_word": word_by_word, "nearest_neighbour": nearest_neighbour}


def main() -> None:
    """Translate test.en by one of the methods."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("method", choices=METHODS)
    parser.add_argument("text", type=Path, help="folder that make_text.py wrote")
    parser.add_argument("--output", type=Path, required=True, help="file for the translation")
    options = parser.parse_args()

    src, test = (
        [tokenize(line) for line in read_lines(options.text / f"{split}.en")]
        for split in ("train", "test")
    )
    write_lines(
        options.output, METHODS[options.method](src, read_lines(options.text / "train.de"), test)
    )


if __name__ == "__main__":
    main()
