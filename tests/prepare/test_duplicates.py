"""The table of seen hashes says what a Python set says, and overlaps what sets of 4-grams say."""

import random
import unicodedata

import numpy as np
import pytest
from prepare_job import OTHER_WORDS

from nmt.prepare import duplicates
from nmt.prepare.block import TextSide
from nmt.prepare.characters import plain_classes
from nmt.prepare.duplicates import (
    NEAR_COPY,
    SAME,
    HeldOutLines,
    SeenHashes,
    hash_lines,
    line_overlaps,
    normalized,
)


# Hashes below 3,000 repeat often, in a batch and after it. The multiples of 4,002, the size of the
# table, all want the same slot, and collide.
@pytest.mark.parametrize("factor", [1, 4002])
def test_a_table_agrees_with_a_set_until_it_is_full(factor: int) -> None:
    random = np.random.default_rng(5)
    seen, expected = SeenHashes(3000), set[int]()
    assert seen._table.nbytes == 8 * 4002
    for size in [200] * 40 + [0]:
        batch = (1 + random.integers(0, 3000, size=size)).astype(np.uint64) * np.uint64(factor)
        new = []
        for value in batch.tolist():
            new.append(value not in expected)
            expected.add(value)
        assert seen.add(batch).tolist() == new


def test_hashes_are_the_same_on_every_machine() -> None:
    # BLAKE2b with an 8-byte digest of "Käse", as `b2sum -l 64` prints it, read little-endian.
    expected = int.from_bytes(bytes.fromhex("b03b72b0962cccca"), "little")
    assert hash_lines(["Käse", " Käse\t"]).tolist() == [expected, expected]


def test_composed_and_decomposed_lines_are_the_same() -> None:
    one, other = "Grüße aus 서울", unicodedata.normalize("NFD", "Grüße aus 서울")
    assert one != other
    hashes = hash_lines([one, other, f" {other} ", "Gru\u0308sse aus 서울"]).tolist()
    assert hashes[0] == hashes[1] == hashes[2] != hashes[3]
    assert hash_lines([one]).tolist() == hashes[:1]  # whatever stands beside it


def test_near_duplicates_differ_in_case_digits_punctuation_and_spaces() -> None:
    lines = ["Page 3 of 1,000!", "  page 17 of\u00a02 ", "Seite 3"]
    lines += ["Straße ﬁn", "STRASSE-FIN", "...", ""]
    page = "page0of0"
    assert normalized(lines) == [page, page, "seite0", "strassefin", "strassefin", "", ""]
    assert normalized(["Öl", "Ol"])[0] != normalized(["Ol"])[0]  # marks tell words apart
    assert normalized(["٣ كتب", "۱۲ كتب"]) == ["0كتب"] * 2
    assert normalized([]) == []


@pytest.mark.parametrize(
    ("one", "other", "overlap"),
    [
        ("Tom is ill.", "Is Tom ill?", 2000),  # tomi of tomi omis misi isil sill
        ("I know.", "I know, Tom!", 10_000),  # all of the shorter one
        ("Yes.", "yes !", SAME),
        ("Yes.", "Yesterday", 0),  # too short for a 4-gram
        ("Ｔｏｍ ﬁnds ②", "tom finds 2", SAME),  # NFKC
        ("はい、そうです。", "はいそうです", SAME),
        ("haha haha", "haha ha, what", 10_000),  # haha and ahah, each once
        ("...", "?!", 0),
        ("", "", 0),
    ],
)
def test_the_overlap_is_of_the_shorter_lines_4_grams(one: str, other: str, overlap: int) -> None:
    assert line_overlaps([one, "x", other], [other, "y", one]).tolist() == [overlap, 0, overlap]


def some_text(seed: int, lines: int) -> list[str]:
    """Lines of two to twelve words, of which some are near copies of others."""
    draw = random.Random(seed)
    text = [" ".join(draw.choices(OTHER_WORDS, k=draw.randint(2, 12))) for _ in range(lines)]
    return [*text, *(f"And {line.title()}!" for line in text[::7]), "ja", "ja", ""]


def compare(known: HeldOutLines, lines: list[str], least: float = 0) -> tuple[list[int], list[int]]:
    side = TextSide(lines, np.zeros(len(lines), np.bool_), plain_classes())
    of_lines, of_held_out = known.compare(side, np.arange(len(lines)), least=least)
    return of_lines.tolist(), of_held_out.tolist()


def test_lines_are_compared_as_sets_of_4_grams(monkeypatch: pytest.MonkeyPatch) -> None:
    held, train = some_text(1, 60), some_text(1, 40)[3:] + some_text(2, 300)
    table = np.array([line_overlaps([line] * len(held), held, least=0.5) for line in train])
    assert 0 < (table.max(0) >= NEAR_COPY).sum() < len(held)
    numbers = np.arange(len(held))
    monkeypatch.setattr(duplicates, "_CHUNK", 999)  # more than one chunk of lines
    small = HeldOutLines.of(held, numbers, train_lines=1, train_bytes=1)
    assert compare(small, train, least=0.5) == (table.max(1).tolist(), table.max(0).tolist())


def test_large_text_is_compared_by_what_the_lines_share(monkeypatch: pytest.MonkeyPatch) -> None:
    held = some_text(1, 60)
    long = [line for line in range(0, 60, 3) if len(held[line].split()) > 4]
    same = range(1, 60, 3)  # of any length
    train = [f"And {held[line].title()}!" for line in long] + [held[line] for line in same]
    train += some_text(2, 300)
    exact, large = (
        HeldOutLines.of(held, np.arange(len(held)), train_lines=lines, train_bytes=1)
        for lines in (1, 10**9)
    )
    monkeypatch.setattr(duplicates, "_SHORTEST", 0)
    (_, all_found), (_, found) = compare(exact, train), compare(large, train)
    assert all(one <= other for one, other in zip(found, all_found, strict=True))
    assert all(found[line] >= NEAR_COPY for line in long)
    assert {found[line] for line in same} == {SAME}
    monkeypatch.setattr(duplicates, "_SHORTEST", len(train))
    assert compare(large, train)[1] == all_found
