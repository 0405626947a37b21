"""The first pass: every line judged and counted, and the sample that vocabularies come from."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from nmt.data.cleaning import Cleaner
from nmt.data.corpus import Encoding, ParallelText
from nmt.data.duplicates import SeenPairs
from nmt.data.manifest import Settings
from nmt.data.scan import ScannedText, read_kept, sample_pairs, scan_held_out, scan_train
from nmt.errors import DataError

UTF8 = Encoding.find("utf-8")


def write_text(folder: Path, src: list[bytes], tgt: list[bytes], name: str = "t") -> ParallelText:
    for lang, lines in (("en", src), ("de", tgt)):
        (folder / f"{name}.{lang}").write_bytes(b"".join(line + b"\n" for line in lines))
    return ParallelText.find(f"{folder}/{name}", "en", "de")


def cleaner(keep: tuple[str, ...] = (), max_length: int = 256) -> Cleaner:
    return Cleaner.of(Settings(src_lang="en", tgt_lang="de", keep=keep, max_length=max_length))


def scan(text: ParallelText, *, keep: tuple[str, ...] = ()) -> ScannedText:
    return scan_train(text, UTF8, cleaner(keep), SeenPairs())


def numbered(folder: Path, count: int, name: str = "t") -> ParallelText:
    src = [b"%s en %d" % (name.encode(), n) for n in range(count)]
    tgt = [b"%s de %d" % (name.encode(), n) for n in range(count)]
    return write_text(folder, src, tgt, name)


def test_every_line_is_kept_or_counted_under_one_rule(tmp_path: Path) -> None:
    good = [(b"a house %d" % n, b"ein Haus %d" % n) for n in range(20)]
    bad = [
        (b"", b"leer"),
        (b"caf\xe9", b"Kaffee"),
        (b"bell\x07", b"Glocke"),
        (b"same", b"same"),
        (b"x" * 500, b"kurz"),
        (b"a house 3", b"ein Haus 3"),
        (b"a house 3", b"ein Haus 3"),
    ]
    src, tgt = zip(*good, *bad, strict=True)
    scanned = scan(write_text(tmp_path, list(src), list(tgt)))
    assert scanned.rejects.counts == {
        "encoding": 1,
        "empty": 1,
        "control": 1,
        "identical": 1,
        "ratio": 1,
        "duplicate": 2,
    }
    assert (scanned.lines, scanned.kept) == (27, 20)
    assert scanned.kept + sum(scanned.rejects.counts.values()) == scanned.lines
    assert scanned.rejects.examples["encoding"] == [
        {"line": 22, "src": "caf\\xe9", "tgt": "Kaffee"}
    ]
    kept = [number for batch in read_kept(scanned, UTF8) for number in batch.numbers]
    assert kept == list(range(1, 21))


def test_duplicates_are_found_across_texts_and_can_be_kept(tmp_path: Path) -> None:
    first, second = numbered(tmp_path, 3), write_text(tmp_path, [b"t en 1"], [b"t de 1"], "u")
    seen = SeenPairs()
    assert scan_train(first, UTF8, cleaner(), seen).kept == 3
    assert scan_train(second, UTF8, cleaner(), seen).rejects.counts == {"duplicate": 1}
    assert scan_train(second, UTF8, cleaner(("duplicate",)), seen).kept == 1


def test_a_pair_is_no_duplicate_when_one_side_differs(tmp_path: Path) -> None:
    text = write_text(tmp_path, [b"a", b"a", b"b"], [b"x", b"y", b"x"])
    assert scan(text).kept == 3


def test_a_few_bad_lines_are_dropped_with_the_first_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [b"line %d" % n for n in range(1, 101)]
    bad = [*lines[:41], b"b\xe9d", *lines[42:60], b"b\xe9d", *lines[61:]]
    scanned = scan(write_text(tmp_path, bad, [b"de %d" % n for n in range(100)]))
    assert scanned.rejects.counts == {"encoding": 2}
    assert "t.en line 42 is not valid utf-8 (2 of 100 lines are not)" in capsys.readouterr().err


def test_many_bad_lines_are_another_encoding(tmp_path: Path) -> None:
    lines = [b"eins", *[b"K\xe4se"] * 11, *[b"Haus"] * 88]
    text = write_text(tmp_path, [b"en %d" % n for n in range(100)], lines)
    with pytest.raises(
        DataError,
        match=r"t\.de line 2 is not valid utf-8 \(11 of 100 lines are not\); pass --encoding",
    ):
        scan(text)


@pytest.mark.parametrize(
    ("src", "tgt", "message"),
    [
        ([b"a", b"b\xff"], [b"x", b"y"], r"t\.en line 2 is not valid utf-8"),
        ([b"a", b"b", b"c"], [b"x", b"y", b" \t"], r"t\.de line 3 is blank"),
        ([], [], r"t\.en and .*t\.de are empty"),
        ([b"a", b"b"], [b"x"], r"t\.en has 2 lines and .*t\.de has 1"),
    ],
)
def test_held_out_text_is_kept_whole_or_refused_by_line(
    tmp_path: Path, src: list[bytes], tgt: list[bytes], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        scan_held_out(write_text(tmp_path, src, tgt), UTF8)


def test_held_out_text_is_not_cleaned(tmp_path: Path) -> None:
    text = write_text(
        tmp_path, [b"same", b"same", b"\x07", b"x" * 999], [b"same", b"same", b"b", b"y"]
    )
    assert scan_held_out(text, UTF8).kept == 4


@pytest.mark.parametrize("change", ["append", "break", "touch"])
def test_text_that_changes_under_our_hands_is_noticed(tmp_path: Path, change: str) -> None:
    text = numbered(tmp_path, 5)
    scanned = scan(text)
    content = text.src.read_bytes()
    if change == "append":
        for path in (text.src, text.tgt):
            path.write_bytes(path.read_bytes() + b"more\n")
    elif change == "break":
        text.src.write_bytes(content[:3] + b"\xff" + content[4:])
    else:
        text.src.write_bytes(content.replace(b"en 2", b"EN 2"))
        os.utime(text.src, ns=(1, 1))
    with pytest.raises(DataError, match="has changed while it was read"):
        list(read_kept(scanned, UTF8))


def sample(texts: list[ScannedText], size: int, seed: int = 1) -> list[tuple[str, str]]:
    return list(sample_pairs(texts, UTF8, cleaner(), size=size, seed=seed))


def test_the_sample_has_the_size_asked_for_and_no_pair_twice(tmp_path: Path) -> None:
    texts = [scan(numbered(tmp_path, 300, "a")), scan(numbered(tmp_path, 200, "b"))]
    for size in (1, 77, 499, 500):
        pairs = sample(texts, size)
        assert len(pairs) == size == len(set(pairs))
        assert all(src.replace("en", "de") == tgt for src, tgt in pairs)
    assert len(sample(texts, 1000)) == 500


def test_the_sample_is_decided_by_the_seed(tmp_path: Path) -> None:
    texts = [scan(numbered(tmp_path, 300))]
    assert sample(texts, 50, seed=4) == sample(texts, 50, seed=4)
    assert sample(texts, 50, seed=4) != sample(texts, 50, seed=5)


def test_every_pair_is_as_likely_to_be_drawn(tmp_path: Path) -> None:
    texts = [scan(numbered(tmp_path, 20))]
    drawn = Counter(src for seed in range(1000) for src, _ in sample(texts, 5, seed))
    # 1,000 draws of 5 in 20: 250 each, with a standard deviation of sqrt(1000 / 4 * 3 / 4) = 13.7.
    assert len(drawn) == 20
    assert all(abs(count - 250) < 5 * 13.7 for count in drawn.values())


def test_the_sample_leaves_out_what_must_have_too_many_tokens(tmp_path: Path) -> None:
    # A piece has at most 16 characters: 161 characters are more than 10 tokens.
    text = write_text(tmp_path, [b"x" * 161, b"x" * 160], [b"y" * 100, b"z" * 100])
    scanned = scan(text)
    short = list(sample_pairs([scanned], UTF8, cleaner(max_length=10), size=9, seed=1))
    assert [len(src) for src, _ in short] == [160]
    kept = cleaner(("too_long",), max_length=10)
    assert len(list(sample_pairs([scanned], UTF8, kept, size=9, seed=1))) == 2
