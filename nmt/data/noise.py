"""Noise: changes to a pair of raw lines, such as upper case, typos and missing punctuation.

Each change is a function of the lines and a random generator, so the same seed gives the same pair.
Casing and placeholders change both sides. The other changes make the source worse and leave the
target as it should be translated.
"""

from __future__ import annotations

import random
import re
import string
import unicodedata
from collections import Counter

Pair = tuple[str, str]

_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_PLACEHOLDERS = ("{%s}", "{{%s}}", "[%s]", "<%s>", "__%s__", "$%s", "%%%s", "@%s", "#%s")
_COMBINING = dict.fromkeys(range(768, 880))  # marks of Latin, Greek and Cyrillic
_CHARACTERS_A_TYPO = 40


def upper_case(pair: Pair, _: random.Random) -> Pair:
    return pair[0].upper(), pair[1].upper()


def title_case(pair: Pair, _: random.Random) -> Pair:
    """Begin each word of both sides with a capital."""
    return _titled(pair[0]), _titled(pair[1])


def _titled(line: str) -> str:
    return " ".join(word[:1].upper() + word[1:] for word in line.split(" "))


def typos(pair: Pair, draw: random.Random) -> Pair:
    """Make a typo in the source for each started 40 characters, inside of words.

    Two letters are swapped, or one is left out, doubled or replaced by another one of the line.
    """
    src, tgt = pair
    inside = [index for index in range(1, len(src) - 1) if src[index - 1 : index + 2].isalpha()]
    wanted = 1 + len(src) // _CHARACTERS_A_TYPO
    for index in sorted(draw.sample(inside, min(wanted, len(inside))), reverse=True):
        letter, next_ = src[index], src[index + 1]
        other = draw.choice([letter for letter in src if letter.isalpha()])
        there = draw.choice((next_ + letter, next_, letter + letter + next_, other + next_))
        src = src[:index] + there + src[index + 2 :]
    return src, tgt


def drop_punctuation(pair: Pair, draw: random.Random) -> Pair:
    """Drop the marks at the end of the source, or all marks at the edges of its words."""
    src, tgt = pair
    if draw.random() < 0.5:
        return without_end(src), tgt
    words = (without_end(without_end(word)[::-1])[::-1] for word in src.split(" "))
    return " ".join(filter(None, words)), tgt


def without_end(text: str) -> str:
    """Return a text without the marks and spaces at its end."""
    end = len(text)
    while end and (text[end - 1].isspace() or unicodedata.category(text[end - 1])[0] == "P"):
        end -= 1
    return text[:end]


def drop_diacritics(pair: Pair, _: random.Random) -> Pair:
    """Drop the accents of the source's letters, as people type who lack the keys."""
    src, tgt = pair
    bare = unicodedata.normalize("NFD", src).translate(_COMBINING)
    return unicodedata.normalize("NFC", bare), tgt


def placeholders(pair: Pair, draw: random.Random) -> Pair:
    """Put the same number or placeholder into both sides.

    It takes the place of a number that both sides have once, or else stands at the start or the end
    of both, so that no alignment of words is needed.
    """
    src, tgt = pair
    symbol = _symbol(draw)
    src_numbers, tgt_numbers = (Counter(_NUMBER.findall(line)) for line in pair)
    shared = [number for number, times in src_numbers.items() if times == tgt_numbers[number] == 1]
    if shared:
        old = draw.choice(shared)
        return _replaced(src, old, symbol), _replaced(tgt, old, symbol)
    if draw.random() < 0.5:
        return f"{symbol} {src}", f"{symbol} {tgt}"
    return f"{src} {symbol}", f"{tgt} {symbol}"


def _replaced(line: str, number: str, symbol: str) -> str:
    return _NUMBER.sub(lambda match: symbol if match[0] == number else match[0], line)


def _symbol(draw: random.Random) -> str:
    """Return a number, or a placeholder with a name or a number in it."""
    number = "".join(draw.choices(string.digits, k=draw.randint(1, 5)))
    if draw.random() < 0.5:
        return number
    name = "".join(draw.choices(string.ascii_letters, k=draw.randint(1, 8)))
    return draw.choice(_PLACEHOLDERS) % draw.choice((name, number[:1]))


def merged(pair: Pair, following: Pair) -> Pair:
    """Join two neighbouring pairs with a space on both sides."""
    return f"{pair[0]} {following[0]}", f"{pair[1]} {following[1]}"
