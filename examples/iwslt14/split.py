#!/usr/bin/env python3
"""Make the text of IWSLT14 German-English from WIT3's archive, as everybody compares on it.

It is the text that fairseq's script prepare-iwslt14.sh makes with Moses' tools before it learns
subwords:

- Training text is that of the talks, their titles and descriptions, tokenised. Pairs are kept if
  both sides have 1 to 175 tokens, and neither has more than 1.5 times as many as the other. Then
  all is lower-cased. Every 23rd pair that is kept is validation text.
- The test set is five development and test sets of the campaign, one after the other, tokenised and
  lower-cased. Its English side is also written as it was, for sacreBLEU (`reference.en`).

Lines must be as many as the catalogue says. `lines` is written last, and tells that all is there.
"""

from __future__ import annotations

import argparse
import gzip
import io
import re
import tarfile
import zlib
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

from sacremoses import MosesTokenizer

from nmt import console
from nmt.cli.command import run
from nmt.errors import DataError
from nmt.system.files import atomic_writer, parse_toml, remove_left_overs, write_text

LANGUAGES = ("de", "en")
TRAINING = "de-en/train.tags.de-en"
TESTS = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")
"""In the order in which they make up the test set."""

ABOUT_A_TALK = re.compile("<url>|<talkid>|<keywords>")
MARKS = re.compile("</?(?:title|description)>")
SEGMENT_MARKS = re.compile(r'<seg id="[0-9]*">\s*|\s*</seg>\s*')
LAST_DOT = re.compile(r"(?<=[^\s.])\.$")
MOST_TOKENS = 175
VALID_EVERY = 23

Pairs = list[tuple[str, str]]


class Tokenizer:
    """Moses' tokenizer.perl as it is since November 2018, with its entities such as `&apos;`.

    Since then it splits a dot at the end of a line from any word, also from an abbreviation, which
    sacremoses does not. Nor does that take Chinese characters for letters, unless told.
    """

    def __init__(self, language: str) -> None:
        self._moses = MosesTokenizer(language)
        self._moses.PAD_NOT_ISALNUM = MosesTokenizer("cjk").PAD_NOT_ISALNUM

    def tokenize(self, line: str) -> str:
        """Return the tokens of a line, with spaces between them."""
        return LAST_DOT.sub(" .", self._moses.tokenize(line, return_str=True))


def split(archive: Path, lines: dict[str, int], folder: Path) -> None:
    """Write training, validation and test text into a folder.

    archive: WIT3's de-en.tgz.
    lines: how many there must be of `raw` training text, and of `train`, `valid` and `test`.
    folder: where to.
    DataError if the archive is damaged, lacks a member, or does not have the lines it should.
    """
    files = _read(archive)
    tokenizers = [Tokenizer(language) for language in LANGUAGES]
    raw = [training_lines(files, language) for language in LANGUAGES]
    raw_test = [test_lines(files, language) for language in LANGUAGES]
    for name, sides in (("raw", raw), ("test", raw_test)):
        for side, language in zip(sides, LANGUAGES, strict=True):
            _check(f"{archive}: {name} text in {language}", len(side), lines[name])
    console.notice(f"tokenising {lines['raw'] + lines['test']:,} pairs, which takes about a minute")
    kept = clean(_tokenized(raw, tokenizers))
    texts = {
        "train": [pair for number, pair in enumerate(kept, start=1) if number % VALID_EVERY],
        "valid": kept[VALID_EVERY - 1 :: VALID_EVERY],
        "test": _tokenized(raw_test, tokenizers),
    }
    for name, pairs in texts.items():
        _check(f"{name}, with sacremoses {version('sacremoses')},", len(pairs), lines[name])
    remove_left_overs(folder)
    for name, pairs in texts.items():
        for column, language in enumerate(LANGUAGES):
            _write(folder / f"{name}.{language}", (pair[column].lower() for pair in pairs))
    _write(folder / "reference.en", raw_test[1])
    write_text(folder / "lines", "".join(f"{name}\t{len(texts[name])}\n" for name in texts))


def _read(archive: Path) -> dict[str, list[str]]:
    """Return the lines of all files of an archive by name."""
    if not archive.is_file():
        raise DataError(f"{archive}: no such file")
    files = {}
    try:
        # Unpacked as a whole, since tarfile does not look at the checksum at the end.
        with tarfile.open(fileobj=io.BytesIO(gzip.decompress(archive.read_bytes()))) as tar:
            for member in tar:
                content = tar.extractfile(member) if member.isreg() else None
                if content is not None:
                    text = content.read().decode()
                    files[member.name.removeprefix("./")] = text.removesuffix("\n").split("\n")
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile, UnicodeDecodeError) as error:
        raise DataError(
            f"{archive}: cut short or damaged ({error}); remove it and {archive.name}.sha256, and "
            "it is fetched again"
        ) from None
    names = [f"{TRAINING}.{language}" for language in LANGUAGES]
    names += [_test_file(name, language) for name in TESTS for language in LANGUAGES]
    for name in names:
        if name not in files:
            raise DataError(f"{archive} does not hold {name}")
    return files


def _test_file(name: str, language: str) -> str:
    return f"de-en/IWSLT14.{name}.de-en.{language}.xml"


def training_lines(files: dict[str, list[str]], language: str) -> list[str]:
    """Return the training text of a language, not tokenised."""
    lines = files[f"{TRAINING}.{language}"]
    return [MARKS.sub("", line) for line in lines if not ABOUT_A_TALK.search(line)]


def test_lines(files: dict[str, list[str]], language: str) -> list[str]:
    """Return the test text of a language, not tokenised; entities stay as they are."""
    return [
        SEGMENT_MARKS.sub("", line).replace("’", "'")
        for name in TESTS
        for line in files[_test_file(name, language)]
        if "<seg id" in line
    ]


def clean(pairs: Pairs) -> Pairs:
    """Return the pairs of tokenised lines that are not too long, and of similar length."""
    kept = []
    for pair in pairs:
        tokens = [line.split() for line in pair]
        shorter, longer = sorted(map(len, tokens))
        if shorter and longer <= MOST_TOKENS and 2 * longer <= 3 * shorter:
            kept.append((" ".join(tokens[0]), " ".join(tokens[1])))
    return kept


def _tokenized(sides: list[list[str]], tokenizers: list[Tokenizer]) -> Pairs:
    src, tgt = (
        [tokenizer.tokenize(line) for line in side]
        for side, tokenizer in zip(sides, tokenizers, strict=True)
    )
    return list(zip(src, tgt, strict=True))


def _check(what: str, count: int, expected: int) -> None:
    if count != expected:
        raise DataError(f"{what} has {count:,} lines, and {expected:,} are expected")


def _write(path: Path, lines: Iterable[str]) -> None:
    with atomic_writer(path) as file:
        file.writelines(f"{line}\n".encode() for line in lines)


def read_counts(catalogue: Path) -> dict[str, int]:
    """Return how many lines a catalogue expects of each text; DataError if it does not say so."""
    try:
        lines = parse_toml(catalogue.read_bytes())["lines"]
        return {name: int(lines[name]) for name in ("raw", "train", "valid", "test")}
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{catalogue}: does not say how many lines there are: {error!r}") from None


def main() -> None:
    """Make the text that the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("archive", type=Path, help="de-en.tgz")
    parser.add_argument("--catalogue", type=Path, required=True, help="iwslt14.toml")
    parser.add_argument("--out", type=Path, required=True, help="folder to write to")
    options = parser.parse_args()
    lines = read_counts(options.catalogue)
    options.out.mkdir(parents=True, exist_ok=True)
    split(options.archive, lines, options.out)


if __name__ == "__main__":
    run(main)
