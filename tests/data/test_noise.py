"""Noise: what each change does to a pair, and what it leaves alone."""

import random
import re
from collections.abc import Callable

import pytest

from nmt.data import noise
from nmt.data.noise import Pair

SRC, TGT = "Don't stop, Zoë: 12 cafés (open)!", "Halt nicht an, Zoë: 12 Cafés (offen)!"


def drawn(change: Callable[[Pair, random.Random], Pair], pair: Pair, draws: int = 60) -> set[Pair]:
    """Return what a change makes of a pair with many seeds."""
    return {change(pair, random.Random(seed)) for seed in range(draws)}


@pytest.mark.parametrize(
    ("change", "pair", "found"),
    [
        (noise.upper_case, ("straße 1", "a Zoë"), {("STRASSE 1", "A ZOË")}),
        (noise.title_case, ("don't  go", "(a) über x"), {("Don't  Go", "(a) Über X")}),
        (
            noise.drop_punctuation,
            (SRC, TGT),
            {("Don't stop, Zoë: 12 cafés (open", TGT), ("Don't stop Zoë 12 cafés open", TGT)},
        ),
        (noise.drop_punctuation, ("no end", "."), {("no end", ".")}),
        (noise.drop_diacritics, (SRC, TGT), {("Don't stop, Zoe: 12 cafes (open)!", TGT)}),
        # Marks that are letters in their script stay.
        (noise.drop_diacritics, ("हिन्दी が", "x"), {("हिन्दी が", "x")}),
        (noise.typos, ("12 a bc", "x"), {("12 a bc", "x")}),
    ],
)
def test_a_change_leaves_the_rest_as_it_is(
    change: Callable[[Pair, random.Random], Pair], pair: Pair, found: set[Pair]
) -> None:
    assert drawn(change, pair) == found


def test_a_typo_stays_inside_of_words_and_there_is_one_for_each_started_40_characters() -> None:
    found = drawn(noise.typos, ("word", "Wort"), 200)
    # Swapped, left out, doubled, or replaced by a letter of the line, at two places.
    typos = "wrod wrd woord word wwrd wrrd wdrd wodr wod worrd wowd wood wodd"
    assert {src for src, _ in found} == set(typos.split())
    assert {tgt for _, tgt in found} == {"Wort"}
    line = "abcd " * 16  # 80 characters
    changed = {sum(a != "abcd" for a in src.split()) for src, _ in drawn(noise.typos, (line, ""))}
    assert max(changed) == 3


def test_a_placeholder_is_the_same_on_both_sides() -> None:
    symbol = r"(?:\d{1,5}|[{[<_$%@#]+\w+[}\]>_]*)"
    places = set()
    for src, tgt in drawn(noise.placeholders, ("a b", "c d"), 200):
        found = re.fullmatch(rf"({symbol} )?a b( {symbol})?", src)
        assert found
        before, after = found[1] or "", found[2] or ""
        assert tgt == f"{before}c d{after}"
        assert bool(before) != bool(after)
        places.add(bool(before))
    assert places == {True, False}


def test_a_number_that_both_sides_have_once_gives_its_place_to_the_placeholder() -> None:
    for src, tgt in drawn(noise.placeholders, ("1 of 3, 1,5 and 2", "1 von 3: 1,5 1 2.")):
        symbols = [
            re.findall(pattern, line)
            for pattern, line in (
                (r"^1 of (\S+), (\S+) and (\S+)$", src),
                (r"^1 von (\S+): (\S+) 1 (\S+)\.$", tgt),
            )
        ]
        assert symbols[0] == symbols[1]
        assert sum(a != b for a, b in zip(*symbols[0], ("3", "1,5", "2"), strict=True)) <= 1
