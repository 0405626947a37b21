"""The sample that vocabularies are learnt from: uniform, of the size asked for, and clean."""

from collections import Counter
from pathlib import Path

import pytest
from prepare_job import Job, write

from nmt.data import line_blocks
from nmt.data.corpus import Encoding
from nmt.prepare.block import Block
from nmt.prepare.block_steps import clean_sample
from nmt.prepare.cleaning_options import CleaningOptions
from nmt.prepare.corpora import Sources, SourceText
from nmt.prepare.duplicates import OverlapKeys
from nmt.prepare.filters import Filters
from nmt.prepare.samples import sample_blocks

NO_KEYS = OverlapKeys.of([])
UTF8 = Encoding.find("utf-8")


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_blocks, "BLOCK_LINES", 16)


def numbered(folder: Path, **counts: int) -> tuple[SourceText, ...]:
    prefixes = tuple(
        write(folder, name, [(f"{name} en {n}", f"{name} de {n}") for n in range(count)])
        for name, count in counts.items()
    )
    return Sources.survey(Job.of(folder, train=prefixes, valid=prefixes[0]).options, UTF8).train


def lines_of(block: Block) -> list[tuple[str, str]]:
    src, tgt = (side.decode().splitlines() for side in (block.src, block.tgt))
    return list(zip(src, tgt, strict=True))


def sample(
    texts: tuple[SourceText, ...], size: int, seed: int = 1, by_weight: bool = False
) -> list[tuple[str, str]]:
    weights = [text.weight for text in texts] if by_weight else []
    found = sample_blocks(texts, size=size, seed=seed, weights=weights)
    return [pair for block in found for pair in lines_of(block)]


@pytest.mark.parametrize("size", [1, 77, 499, 500, 1000])
def test_the_sample_has_the_size_asked_for_and_no_pair_twice(tmp_path: Path, size: int) -> None:
    texts = numbered(tmp_path, a=300, b=200)
    pairs = sample(texts, size)
    assert len(pairs) == len(set(pairs)) == min(size, 500)
    assert all(src.replace("en", "de") == tgt for src, tgt in pairs)
    expected = [f"a en {n}" for n in range(300)] + [f"b en {n}" for n in range(200)]
    places = [expected.index(src) for src, _ in pairs]
    assert places == sorted(places)
    assert sample(texts, size) == pairs
    assert (sample(texts, size, seed=5) == pairs) == (size >= 500)


def test_a_sample_of_everything_holds_what_an_epoch_visits(tmp_path: Path) -> None:
    one, other = numbered(tmp_path, a=40, b=40)
    drawn = Counter(sample((one._replace(weight=2.5), other._replace(weight=0.5)), 999, 1, True))
    assert Counter(src[0] for src, _ in drawn.elements()) == {"a": 100, "b": 20}
    assert {drawn[f"a en {n}", f"a de {n}"] for n in range(40)} == {2, 3}
    assert max(count for (src, _), count in drawn.items() if src[0] == "b") == 1


def test_what_the_rules_reject_is_not_learnt_from() -> None:
    src = b"good\nsame\nb\xffd\n" + b"x" * 161 + b"\n" + b"x" * 160 + b"\n"
    tgt = b"gut\nsame\nx\n" + b"y" * 100 + b"\n" + b"z" * 100 + b"\n"
    # A piece has at most 16 characters: 161 characters are more than 10 tokens.
    for keep, lengths in (((), [4, 160]), (("too_long",), [4, 161, 160])):
        cleaning = CleaningOptions(max_length=10, keep=keep)
        filters = Filters(cleaning=cleaning, held_out=(NO_KEYS, NO_KEYS))
        sample, verdicts = clean_sample(Block(0, 1, 5, src, tgt, UTF8), filters=filters)
        assert verdicts.astype(bool).tolist() == [False, True, True, not keep, False]
        assert sample[0] == ("good", "gut")
        assert [len(src) for src, _ in sample] == lengths
