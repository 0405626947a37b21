#!/usr/bin/env python3
"""Print the labelled F1 of the trees that a model wrote.

    python bracket_score.py GOLD TREES [--parses PARSES]

The rules are those of evalb with its COLLINS.prm, by which parsers have been compared since 1997.
A bracket counts if its label and its words are those of a bracket of the gold tree. The outermost
bracket does not count. Nor do the words that the gold tree tags as punctuation, nor phrases that
hold nothing else. ADVP and PRT are one label. Unlike evalb, no sentence is left out: lines that are
not well-formed are repaired, as trees.py says, and counted.
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from trees import (
    TOP,
    Tree,
    bracketed,
    check_counts,
    read_lines,
    read_trees,
    restored,
    walk,
    words_of,
)

from nmt.cli.command import run
from nmt.system.files import write_text

PUNCTUATION = {",", ":", "``", "''", "."}
"""Tags of words that do not count."""
SAME = {"PRT": "ADVP"}


@dataclass
class Score:
    """What was counted over all sentences."""

    matched: int = 0
    gold: int = 0
    written: int = 0
    complete: int = 0
    """Sentences with all brackets right and none too many."""
    sentences: int = 0
    repaired: int = 0

    def add(self, gold: Tree, written: Tree) -> None:
        """Count the brackets of a sentence."""
        ones, others = brackets(gold), brackets(written)
        self.matched += (ones & others).total()
        self.gold += ones.total()
        self.written += others.total()
        self.complete += ones == others
        self.sentences += 1

    def __str__(self) -> str:
        """Return what is printed."""
        precision = 100 * self.matched / max(1, self.written)
        recall = 100 * self.matched / max(1, self.gold)
        f1 = 200 * self.matched / max(1, self.gold + self.written)
        return (
            f"labelled F1 {f1:.2f}, precision {precision:.2f}, recall {recall:.2f}\n"
            f"{self.sentences:,} sentences: {self.complete:,} without a fault, "
            f"{self.repaired:,} not well-formed and repaired\n"
        )


def brackets(tree: Tree) -> Counter[tuple[str, int, int]]:
    """Return the brackets that count: label, and the words before its first and up to its last."""
    found: Counter[tuple[str, int, int]] = Counter()
    starts: list[int] = []
    words = 0
    for sign, node in walk(tree):
        if not sign:
            words += node.label not in PUNCTUATION
        elif sign == "(":
            starts.append(words)
        elif (start := starts.pop()) < words and node.label != TOP:
            found[SAME.get(node.label, node.label), start, words] += 1
    return found


def score(gold: Path, written: Path, parses: Path | None) -> Score:
    """Return the score of a model's lines; write them as trees with the gold tags, for evalb.

    DataError if there is not a line for each tree.
    """
    trees, lines = list(read_trees(read_lines(gold), str(gold))), list(read_lines(written))
    check_counts(gold, len(trees), written, len(lines))
    total = Score()
    texts = []
    for tree, line in zip(trees, lines, strict=True):
        parse, is_repaired = restored(line, words_of(tree))
        total.add(tree, parse)
        total.repaired += is_repaired
        texts.append(f"{bracketed(parse)}\n")
    if parses:
        write_text(parses, "".join(texts))
    return total


def main() -> None:
    """Print the score of the command line's files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("gold", type=Path, help="trees, a line each, such as test.gold")
    parser.add_argument("trees", type=Path, help="what the model wrote")
    parser.add_argument("--parses", type=Path, help="also write bracketed trees to this file")
    options = parser.parse_args()
    print(score(options.gold, options.trees, options.parses), end="")


if __name__ == "__main__":
    run(main)
