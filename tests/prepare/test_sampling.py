"""The sample that vocabularies are learnt from: uniform, of the size asked for, and clean."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from nmt.data.corpus import Encoding
from nmt.prepare import text as blocks
from nmt.prepare.cleaning import Cleaning
from nmt.prepare.duplicates import OverlapKeys
from nmt.prepare.judge import Cleaner
from nmt.prepare.options import PrepareOptions
from nmt.prepare.sampling import SampleCleaner, sample_blocks
from nmt.prepare.sources import Sources, SourceText
from nmt.prepare.text import Block, BlockDecoder

NO_KEYS = OverlapKeys.join([])
UTF8 = Encoding.find("utf-8")


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_LINES", 16)


def numbered(folder: Path, **counts: int) -> tuple[SourceText, ...]:
    for name, count in counts.items():
        for lang in ("en", "de"):
            text = "".join(f"{name} {lang} {n}\n" for n in range(count))
            (folder / f"{name}.{lang}").write_text(text)
    prefixes = tuple(f"{folder}/{name}" for name in counts)
    options = PrepareOptions(
        src_lang="en", tgt_lang="de", train=prefixes, valid=prefixes[0], workers=1
    )
    return Sources.survey(options, UTF8).train


def sample(
    texts: tuple[SourceText, ...], size: int, seed: int = 1, by_weight: bool = False
) -> list[tuple[str, str]]:
    found = list(sample_blocks(texts, UTF8, size=size, seed=seed, by_weight=by_weight))
    return [
        (src, tgt)
        for block in found
        for src, tgt in zip(
            block.src.decode().splitlines(), block.tgt.decode().splitlines(), strict=True
        )
    ]


@pytest.mark.parametrize("size", [1, 77, 499, 500, 1000])
def test_the_sample_has_the_size_asked_for_and_no_pair_twice(tmp_path: Path, size: int) -> None:
    texts = numbered(tmp_path, a=300, b=200)
    pairs = sample(texts, size)
    assert len(pairs) == len(set(pairs)) == min(size, 500)
    assert all(src.replace("en", "de") == tgt for src, tgt in pairs)
    expected = [f"a en {n}" for n in range(300)] + [f"b en {n}" for n in range(200)]
    places = [expected.index(src) for src, _ in pairs]
    assert places == sorted(places)


def test_blocks_say_which_text_and_line_they_begin_with(tmp_path: Path) -> None:
    for block in sample_blocks(numbered(tmp_path, a=40, b=40), UTF8, size=20, seed=3):
        name, _, number = block.src.decode().splitlines()[0].split()
        assert (name, int(number) + 1) == ("ab"[block.corpus], block.number)


def test_the_sample_is_decided_by_the_seed(tmp_path: Path) -> None:
    texts = numbered(tmp_path, a=300)
    assert sample(texts, 50, seed=4) == sample(texts, 50, seed=4)
    assert sample(texts, 50, seed=4) != sample(texts, 50, seed=5)


def test_every_pair_is_as_likely_to_be_drawn(tmp_path: Path) -> None:
    texts = numbered(tmp_path, a=20)
    drawn = Counter(src for seed in range(1000) for src, _ in sample(texts, 5, seed))
    # 1,000 draws of 5 in 20: 250 each, with a standard deviation of sqrt(1000 / 4 * 3 / 4) = 13.7.
    assert len(drawn) == 20
    assert all(abs(count - 250) < 5 * 13.7 for count in drawn.values())


def test_pairs_are_drawn_in_proportion_to_their_weights(tmp_path: Path) -> None:
    one, other, third = numbered(tmp_path, a=10, b=10, c=10)
    texts = (replace(one, weight=2.0), replace(other, weight=0.5), third)
    drawn = Counter(src[0] for seed in range(600) for src, _ in sample(texts, 7, seed, True))
    # 600 draws of 7 of the 35 visits of an epoch, of which 20, 5 and 10 are to a, b and c.
    for name, visits in (("a", 20), ("b", 5), ("c", 10)):
        p = visits / 35
        expected, deviation = 4200 * p, (4200 * p * (1 - p)) ** 0.5
        assert abs(drawn[name] - expected) < 5 * deviation


def test_a_sample_of_everything_holds_what_an_epoch_visits(tmp_path: Path) -> None:
    one, other = numbered(tmp_path, a=40, b=40)
    drawn = Counter(sample((replace(one, weight=2.5), replace(other, weight=0.5)), 999, 1, True))
    assert Counter(src[0] for src, _ in drawn.elements()) == {"a": 100, "b": 20}
    assert {drawn[f"a en {n}", f"a de {n}"] for n in range(40)} == {2, 3}
    assert max(count for (src, _), count in drawn.items() if src[0] == "b") == 1


def test_what_the_rules_reject_is_not_learnt_from() -> None:
    lines = [(b"good", b"gut"), (b"same", b"same"), (b"b\xffd", b"x"), (b"x" * 161, b"y" * 100)]
    lines.append((b"x" * 160, b"z" * 100))
    src, tgt = (b"".join(line + b"\n" for line in side) for side in zip(*lines, strict=True))
    # A piece has at most 16 characters: 161 characters are more than 10 tokens.
    for keep, long in (((), 1), (("too_long",), 2)):
        cleaning = Cleaning(max_length=10, keep=keep)
        cleaner = Cleaner(cleaning=cleaning, held_out=(NO_KEYS, NO_KEYS))
        clean = SampleCleaner(BlockDecoder(UTF8, ("en", "de")), cleaner, moses=(None, None))
        sample = clean(Block(0, 1, len(lines), src, tgt))
        pairs = sample.pairs
        assert sample.verdicts.astype(bool).tolist() == [False, True, True, long == 1, False]
        assert pairs[0] == ("good", "gut")
        assert [len(src) for src, _ in pairs[1:]] == [161, 160][2 - long :]
