#!/usr/bin/env python3
"""Print how many pronouns of a translation are right: accuracy.py REFERENCE TRANSLATION."""

import sys
from pathlib import Path

PRONOUNS = {"er", "ihn", "sie", "es"}


def pronouns(line: str) -> set[str]:
    """Return the pronouns of a line, in lower case."""
    return set(line.lower().rstrip(".?").split()) & PRONOUNS


def accuracy(references: list[str], translations: list[str]) -> tuple[int, int]:
    """Return how many lines have exactly the pronoun of the reference, and how many need one.

    Lines that name a thing need none. They are every other line of a document, and the first.
    """
    right = needed = 0
    place = 0
    for reference, translation in zip(references, translations, strict=True):
        place = place + 1 if reference else 0
        if reference and place % 2 == 0:
            needed += 1
            right += pronouns(reference) == pronouns(translation)
    return right, needed


def main() -> None:
    """Print the share and the counts."""
    reference, translation = (
        Path(name).read_text(encoding="utf-8").split("\n") for name in sys.argv[1:3]
    )
    right, needed = accuracy(reference, translation)
    print(f"{100 * right / needed:.1f} % of the pronouns are right: {right} of {needed}")


if __name__ == "__main__":
    main()
