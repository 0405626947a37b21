#!/usr/bin/env python3
"""Translate the toy test without a neural network, in two ways, to show that it is not trivial.

`word_by_word` puts each word's likeliest translation in its place. The dictionary is learnt from
train by IBM Model 1 (Brown et al. 1993), a few rounds of expectation maximisation over which word
of the one line translates which of the other.

`nearest_neighbour` answers with the target of the train pair whose source is most like the line:
the Dice coefficient of their words, counted with repetition; of equals, the first in train.
"""

import argparse
import re
from collections import Counter, defaultdict
from pathlib import Path

from lines import read_lines, write_lines

EM_ROUNDS = 4

Tokens = list[str]


def tokenize(line: str) -> Tokens:
    """Split a line into words and punctuation marks."""
    return re.findall(r"[\w'-]+|[^\w\s]", line)


def truecase(lines: list[Tokens]) -> list[Tokens]:
    """Lower the first word of each line, unless no line has it in lower case."""
    lower = {word for line in lines for word in line[1:] if word[0].islower()}
    return [[line[0].lower() if line[0].lower() in lower else line[0], *line[1:]] for line in lines]


def learn_dictionary(src: list[Tokens], tgt: list[Tokens]) -> dict[str, str]:
    """Return the likeliest translation of each word of the source, by IBM Model 1."""
    # table[s][t] = p(t | s); all equal in the first round, when only co-occurrence speaks.
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


def word_by_word(dictionary: dict[str, str], line: Tokens) -> str:
    """Translate each word in its place; a word that the dictionary lacks stays as it is."""
    text = " ".join(dictionary.get(word, word) for word in line)
    text = re.sub(r" ([.,])", r"\1", text)
    return text[0].upper() + text[1:]


class NearestNeighbour:
    """The train pairs, found by the words of their sources."""

    def __init__(self, src: list[Tokens], tgt: list[str]) -> None:
        self.tgt = tgt
        self.lengths = [len(line) for line in src]
        self.lines_with: dict[tuple[str, int], list[int]] = defaultdict(list)
        for number, line in enumerate(src):
            for word in self.numbered(line):
                self.lines_with[word].append(number)

    @staticmethod
    def numbered(line: Tokens) -> list[tuple[str, int]]:
        """Tell repeated words apart: the man and the dog -> the 1, man 1, and 1, the 2, dog 1."""
        seen: Counter[str] = Counter()
        result = []
        for word in line:
            seen[word] += 1
            result.append((word, seen[word]))
        return result

    def translate(self, line: Tokens) -> str:
        """Return the target of the nearest source."""
        shared: Counter[int] = Counter()
        for word in self.numbered(line):
            shared.update(self.lines_with.get(word, ()))

        def nearness(number: int) -> tuple[float, int]:
            return 2 * shared[number] / (len(line) + self.lengths[number]), -number

        return self.tgt[max(shared, key=nearness, default=0)]


def word_by_word_lines(src: list[Tokens], tgt: list[str], test: list[Tokens]) -> list[str]:
    """Translate the test word by word with a dictionary learnt from train."""
    dictionary = learn_dictionary(src, truecase([tokenize(line) for line in tgt]))
    return [word_by_word(dictionary, line) for line in test]


def nearest_neighbour_lines(src: list[Tokens], tgt: list[str], test: list[Tokens]) -> list[str]:
    """Answer each line of the test with the target of the nearest train pair."""
    neighbours = NearestNeighbour(src, tgt)
    return [neighbours.translate(line) for line in test]


METHODS = {"word_by_word": word_by_word_lines, "nearest_neighbour": nearest_neighbour_lines}


def main() -> None:
    """Translate test.en by one of the methods."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("method", choices=METHODS)
    parser.add_argument("text", type=Path, help="folder that generate.py wrote")
    parser.add_argument("--output", type=Path, required=True, help="file for the translation")
    options = parser.parse_args()

    src = truecase([tokenize(line) for line in read_lines(options.text / "train.en")])
    tgt = read_lines(options.text / "train.de")
    test = truecase([tokenize(line) for line in read_lines(options.text / "test.en")])
    write_lines(options.output, METHODS[options.method](src, tgt, test))


if __name__ == "__main__":
    main()
