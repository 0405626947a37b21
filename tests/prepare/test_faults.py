"""Texts that are not what they are called are warned of, and clean ones are not."""

from __future__ import annotations

import os
import random
from itertools import islice
from pathlib import Path

import pytest

from nmt.data.corpus import Encoding, ParallelText
from nmt.prepare.characters import classes_for
from nmt.prepare.faults import faults, line_shift
from nmt.prepare.text import BlockDecoder, TextSide, decode_side, read_blocks

UTF8 = Encoding.find("utf-8")
TEXT = ParallelText("t", Path("t.en"), Path("t.de"))

WORDS = {
    "en": "the house of a man and the river in which you have to be with it is red",
    "de": "das Haus von einem Mann und der Fluss in dem du mit ihm zu sein hast ist rot",
    "nb": "huset av en mann og elva som du har til å være med ham i det er ikke rødt",
    "ru": "дом человека и река в которой ты с ним что не на по это но красный",
}


def lines_of(lang: str, lengths: list[int], seed: int) -> list[str]:
    words = random.Random(seed)
    return [" ".join(words.choices(WORDS[lang].split(), k=length)) for length in lengths]


def side(lines: list[str], lang: str) -> TextSide:
    raw = "".join(f"{line}\n" for line in lines).encode()
    return decode_side(raw, UTF8, classes_for(lang), number=2, lines=len(lines))


_NUMBERS = random.Random(4)
LENGTHS = [_NUMBERS.randint(3, 40) for _ in range(300)]
EN, DE, NB, RU = (lines_of(lang, LENGTHS, seed) for seed, lang in enumerate(WORDS))


def found(src: list[str], tgt: list[str], langs: str = "en de") -> list[str]:
    one, two = langs.split()
    return faults(TEXT, side(src, one), side(tgt, two), (one, two))


def test_good_text_and_text_of_unknown_languages_are_not_warned_of() -> None:
    assert found(EN, DE) == []
    assert found(EN, NB, "en no") == []
    assert found(EN, RU, "eng rus_Cyrl") == []
    assert found(EN, DE, "xx yy") == []
    assert found(EN[:20], DE[5:25]) == []  # too few to tell


@pytest.mark.parametrize(
    ("shift", "words"), [(1, "1 line later"), (-1, "1 line e"), (3, "3 lines l")]
)
def test_shifted_sides_are_told_with_how_far(shift: int, words: str) -> None:
    tgt = DE[-shift:] + DE[:-shift]
    assert line_shift(side(EN, "en"), side(tgt, "de")) == shift
    (fault,) = found(EN, tgt)
    assert f"t.en and t.de: judging by line lengths, the targets come {words}" in fault


def test_sides_whose_lengths_have_nothing_to_do_with_each_other_are_told() -> None:
    (fault,) = found(EN, random.Random(2).sample(DE, len(DE)))
    assert fault.startswith("t.en and t.de: the line lengths of the two sides do not match")


@pytest.mark.parametrize(
    ("src", "tgt", "langs", "message"),
    [
        (DE, EN, "en de", "t.en and t.de: the two sides seem to be swapped"),
        (NB, EN, "en no", "t.en and t.de: the two sides seem to be swapped"),
        (RU, EN, "en ru", "t.en and t.de: the two sides seem to be swapped"),
        (DE, DE, "en de", "t.en looks like de, but should be en"),
        (EN, RU, "en de", "t.de looks like ru, but should be de"),
        (EN, EN, "en deu_Latn", "t.de looks like en, but should be deu_Latn"),
    ],
)
def test_swapped_sides_and_other_languages_are_told(
    src: list[str], tgt: list[str], langs: str, message: str
) -> None:
    assert found(src, tgt, langs) == [message]


@pytest.mark.parametrize(("mark", "cut"), [("@@", "ho@@ use"), ("\u2581", "\u2581house")])
def test_text_that_is_cut_into_subwords_is_told(mark: str, cut: str) -> None:
    (fault,) = found([line.replace("house", cut) for line in EN], DE)
    assert fault.startswith(
        f"t.en seems to be split into subwords already (many of its words contain {mark})"
    )


CLEAN = [
    ("multi30k/train", "en", "de"),
    ("multi30k/test_2016_flickr", "fr", "en"),
    ("tatoeba-en-de/train", "en", "de"),
    ("tatoeba-en-fr/valid", "en", "fr"),
    ("europarl-en-de-20k/train", "de", "en"),
    ("europarl-en-fr/valid", "en", "fr"),
    ("wmt-news/newstest2013.en-de", "en", "de"),
    ("wmt-news/newstest2009.en-fr", "fr", "en"),
]


@pytest.mark.skipif("NMT_DATA" not in os.environ, reason="NMT_DATA does not name a folder")
@pytest.mark.parametrize(("prefix", "src", "tgt"), CLEAN)
def test_real_text_is_warned_of_if_and_only_if_something_is_done_to_it(
    prefix: str, src: str, tgt: str
) -> None:
    text = ParallelText.find(f"{os.environ['NMT_DATA']}/{prefix}", src, tgt)
    (block,) = islice(read_blocks(text, UTF8), 1)
    one, other = BlockDecoder(UTF8, (src, tgt))(block)
    assert faults(text, one, other, (src, tgt)) == []
    swapped = faults(text, side(other.lines, src), side(one.lines, tgt), (src, tgt))
    assert swapped == [f"{text.src} and {text.tgt}: the two sides seem to be swapped"]
    shifted = side(["First.", *other.lines[:-1]], tgt)
    (fault,) = faults(text, one, shifted, (src, tgt))
    assert "the targets come 1 line later than their sources" in fault
