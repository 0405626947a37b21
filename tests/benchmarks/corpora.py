"""Data folders for training, and text for translation."""

import gzip
import lzma
import math
import os
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from benchmarks.harness import nmt, setting

_EUROPARL_PAIRS = 100_000
_VALID_LINES = 3_000  # of made-up text


def real_text(name: str) -> Path:
    """Return the folder of a corpus in NMT_DATA; skip the test if it is not there."""
    data = os.environ.get("NMT_DATA")
    folder = Path(data or "") / name
    if not (data and folder.is_dir()):
        pytest.skip(f"needs real text, {name}: set NMT_DATA to a folder that holds {name}/")
    return folder


def first_lines(prefix: Path, lang: str, lines: int | None = None) -> list[str]:
    """Return the first lines, or all, of PREFIX.LANG.gz."""
    with gzip.open(f"{prefix}.{lang}.gz", "rt", encoding="utf-8", newline="\n") as file:
        return [line.rstrip("\n") for line in islice(file, lines)]


def multi30k_test(lines: int) -> tuple[list[str], list[str]]:
    """Return the first lines of Multi30k's test_2016_flickr, English and German."""
    text = real_text("multi30k") / "test_2016_flickr"
    return first_lines(text, "en", lines), first_lines(text, "de", lines)


def ntrex() -> dict[str, bytes]:
    """Return NTREX-128's text by language: the English source as "eng", and all translations.

    (Federmann et al. 2022, "NTREX-128 - News Test References for MT Evaluation of 128 Languages".)
    """
    folder = real_text("ntrex") / "NTREX-128"
    found = {"eng": (folder / "newstest2019-src.eng.txt").read_bytes()}
    for path in sorted(folder.glob("newstest2019-ref.*.txt")):
        found[path.name.split(".")[1]] = path.read_bytes()
    return found


def multi30k(out: Path, *, vocab_size: int = 8_000) -> Path:
    """Prepare Multi30k en-de, captions of 13 words."""
    text = real_text("multi30k")
    words = ("--vocab-size", str(vocab_size))
    return _prepare(out, "en", "de", text / "train", text / "val", *words)


def europarl(out: Path) -> Path:
    """Prepare a tenth of the Europarl text with a vocabulary of 32,000: as long as WMT's lines."""
    text = real_text("europarl-en-fr")
    for lang in ("en", "fr"):
        with (
            lzma.open(text / f"train.{lang}.xz", "rt", encoding="utf-8", newline="\n") as lines,
            out.with_name(f"{out.name}.{lang}").open("w", encoding="utf-8", newline="\n") as sample,
        ):
            sample.writelines(islice(lines, _EUROPARL_PAIRS))
    return _prepare(out, "en", "fr", out, text / "valid", "--vocab-size", "32000")


def made_up(out: Path, *, pairs: int = 400_000, vocab_size: int = 32_000) -> Path:
    """Return the data folder that NMT_BENCH_DATA names, or prepare made-up text of WMT's lengths.

    Words are 60,000 strings of syllables, the n-th as frequent as 1/n (Zipf's law); lines have a
    lognormal number of them, 29 on average. A translation has each word's neighbour in the list of
    words, and a few words more or less: it can be learnt.
    """
    if given := setting("DATA", ""):
        return Path(given)
    random = np.random.default_rng(1)
    syllables = [a + b for a in "bdfghklmnprstvz" for b in "aeiou"]
    words = np.array(
        sorted({"".join(random.choice(syllables, size)) for size in random.integers(2, 5, 60_000)})
    )
    words = words[: len(words) // 2 * 2]
    random.shuffle(words)
    chances = 1 / np.arange(1, len(words) + 1)
    chances /= chances.sum()
    src_lengths = random.lognormal(math.log(24), 0.6, pairs)
    tgt_lengths = src_lengths * random.lognormal(0, 0.15, pairs)
    for name, count in (("train", pairs), ("valid", min(pairs, _VALID_LINES))):
        sizes = [np.clip(side[:count], 1, 150).astype(int) for side in (src_lengths, tgt_lengths)]
        starts = np.cumsum(sizes[0]) - sizes[0]  # of lines, in the words of all sources
        text = random.choice(len(words), int(sizes[0].sum()) + 150, p=chances)
        for lang, own, side in (("xx", sizes[0], words[text]), ("yy", sizes[1], words[text ^ 1])):
            with out.with_name(f"{out.name}-{name}.{lang}").open("w") as file:
                file.writelines(
                    f"{' '.join(side[start : start + size])}\n"
                    for start, size in zip(starts.tolist(), own.tolist(), strict=True)
                )
    train, valid = (out.with_name(f"{out.name}-{name}") for name in ("train", "valid"))
    return _prepare(out, "xx", "yy", train, valid, "--vocab-size", str(vocab_size))


def _prepare(
    out: Path, src: str, tgt: str, train: Path, valid: Path, *vocabulary: str | Path
) -> Path:
    pairs = ("--src", src, "--tgt", tgt, "--train", train, "--valid", valid)
    nmt("prepare", out, *pairs, *vocabulary, "--quiet")
    return out
