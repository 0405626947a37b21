"""Language identification for `nmt prepare --langid`, beside other libraries.

Lines of known languages are judged as what they are, and as each of the others.
"""

import functools
import importlib
import random
import time
from collections.abc import Callable, Sequence

import pytest
from benchmarks.corpora import first_lines, real_text
from benchmarks.harness import publish, table
from benchmarks.machine import describe

from nmt.data.languages import are_close
from nmt.prepare.language_id import LanguageIdentifier

pytestmark = pytest.mark.benchmark

LINES = 700  # of each text and language
LETTERS = (15, 30, 60)  # ends of the ranges of length
NAMES = ("below 15", "15 to 29", "30 to 59", "from 60")

Wrong = Callable[[Sequence[str], str], Sequence[bool]]
"""Which lines are not in a language."""


def texts() -> dict[str, list[str]]:
    """Return lines by their language: captions, short sentences, news and debates."""
    found: dict[str, list[str]] = {}
    for corpus, name, langs in (
        ("multi30k", "test_2017_flickr", ("en", "de", "fr")),
        ("tatoeba-en-de", "valid", ("en", "de")),
        ("tatoeba-en-fr", "valid", ("en", "fr")),
        ("wmt-news", "newstest2013.en-de", ("en", "de")),
        ("wmt-news", "newstest2013.en-fr", ("en", "fr")),
        ("europarl-en-fr", "valid", ("en", "fr")),
    ):
        for lang in langs:
            lines = first_lines(real_text(corpus) / name, lang)
            random.Random(1).shuffle(lines)
            found.setdefault(lang, []).extend(lines[:LINES])
    return found


def by_best_guess(guess: Callable[[str], str | None]) -> Wrong:
    codes = functools.cache(are_close)
    return lambda lines, lang: [not codes(guess(line) or "und", lang) for line in lines]


def detectors() -> dict[str, Wrong]:
    """Return ours, and those of the libraries that are installed."""
    found: dict[str, Wrong] = {}
    ours = LanguageIdentifier.find("auto")
    found["--langid auto"] = lambda lines, lang: ours.in_other_language(lines, lang, ()).tolist()
    for name, make in (
        ("py3langid", lambda module: lambda line: module.classify(line)[0]),
        ("heliport", lambda module: module.Identifier().identify),
        ("pycld2", lambda module: lambda line: module.detect(line, bestEffort=True)[2][0][1]),
        ("lingua", lingua),
    ):
        try:
            found[name] = by_best_guess(make(importlib.import_module(name)))
        except ImportError:
            continue
    return found


def lingua(module: object) -> Callable[[str], str | None]:
    detector = module.LanguageDetectorBuilder.from_all_languages().build()  # type: ignore[attr-defined]

    def guess(line: str) -> str | None:
        found = detector.detect_language_of(line)
        return found.iso_code_639_1.name.lower() if found else None

    return guess


def test_langid() -> None:
    known = texts()
    rows = []
    for name, wrong in detectors().items():
        lost, found = ([[0, 0] for _ in range(len(LETTERS) + 1)] for _ in range(2))
        wrong(["Hello"], "en")  # loads the model
        began = time.monotonic()
        verdicts = {lang: wrong(lines, lang) for lang, lines in known.items()}
        rate = sum(map(len, known.values())) / (time.monotonic() - began)
        for lang, lines in known.items():
            for expected in known:
                verdict = verdicts[lang] if expected == lang else wrong(lines, expected)
                for line, is_wrong in zip(lines, verdict, strict=True):
                    letters = sum(map(str.isalpha, line))
                    place = sum(letters >= end for end in LETTERS)
                    counts = (lost if expected == lang else found)[place]
                    counts[0] += is_wrong
                    counts[1] += 1
        for what, counts_of in (("right lines lost", lost), ("wrong lines found", found)):
            shares = [f"{100 * some / most:.2f} %" for some, most in counts_of]
            row = {"letters of a line": f"{name}: {what}", **dict(zip(NAMES, shares, strict=True))}
            rows.append(row | {"lines/s": f"{rate:,.0f}"})
        assert sum(some for some, _ in found) > 20 * sum(some for some, _ in lost)
    publish(f"{describe()}\n\n{table(rows)}")
