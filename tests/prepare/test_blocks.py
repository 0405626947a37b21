"""Blocks: the same lines of both sides, none lost, wherever the file is cut."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from nmt.data import corpus
from nmt.data.corpus import Encoding, ParallelText
from nmt.errors import DataError
from nmt.prepare import text as blocks
from nmt.prepare.text import Block, read_blocks

UTF8 = Encoding.find("utf-8")


def text_of(folder: Path, src: bytes, tgt: bytes) -> ParallelText:
    (folder / "t.en").write_bytes(src)
    (folder / "t.de").write_bytes(tgt)
    return ParallelText.find(f"{folder}/t", "en", "de")


def joined(found: list[Block]) -> tuple[bytes, bytes]:
    return b"".join(block.src for block in found), b"".join(block.tgt for block in found)


@pytest.mark.parametrize("chunk_bytes", [1, 7, 64, 1 << 20])
@pytest.mark.parametrize("block_lines", [1, 3, 4096])
@pytest.mark.parametrize("block_bytes", [4, 1 << 24])
@pytest.mark.parametrize("end", [b"", b"\n"])
def test_all_lines_come_in_order_and_in_step(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    chunk_bytes: int,
    block_lines: int,
    block_bytes: int,
    end: bytes,
) -> None:
    monkeypatch.setattr(corpus, "_CHUNK_BYTES", chunk_bytes)
    monkeypatch.setattr(blocks, "BLOCK_LINES", block_lines)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", block_bytes)
    src = b"\n".join(b"s" * (n % 5) for n in range(20)) + b"x" + end
    tgt = b"\r\n".join(b"target" * (n % 3) for n in range(20)) + b"y" + end
    found = list(read_blocks(text_of(tmp_path, src, tgt), UTF8))
    assert joined(found) == (src, tgt)
    number = 1
    for block in found:
        assert block.number == number
        assert 1 <= block.lines <= block_lines
        assert len(block.src.splitlines()) == len(block.tgt.splitlines()) == block.lines
        # A single line may be longer, but no two lines go beyond the bound.
        assert block.lines == 1 or max(len(block.src), len(block.tgt)) <= block_bytes
        number += block.lines
    assert number == 21


@pytest.mark.parametrize("start", [1, 2, 4, 5, 20, 21])
def test_reading_can_begin_at_any_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: int
) -> None:
    monkeypatch.setattr(blocks, "BLOCK_LINES", 4)
    lines = [b"line %d\n" % n for n in range(1, 21)]
    text = text_of(tmp_path, b"".join(lines), b"".join(lines))
    found = list(read_blocks(text, UTF8, corpus=3, start=start))
    assert joined(found)[0] == b"".join(lines[start - 1 :])
    assert [block.corpus for block in found] == [3] * len(found)
    assert not found or found[0].number == start


@pytest.mark.parametrize(
    ("src", "tgt", "shorter"),
    [(5, 3, "t.de ends after line 3"), (0, 1, "t.en ends after line 0"), (4096, 4097, "t.en")],
)
def test_a_side_that_ends_early_is_named(tmp_path: Path, src: int, tgt: int, shorter: str) -> None:
    text = text_of(tmp_path, b"a\n" * src, b"b\n" * tgt)
    with pytest.raises(DataError, match=shorter):
        list(read_blocks(text, UTF8))


def test_empty_files_have_no_blocks(tmp_path: Path) -> None:
    assert list(read_blocks(text_of(tmp_path, b"", b""), UTF8)) == []


def test_compressed_and_two_byte_text_comes_as_utf_8(tmp_path: Path) -> None:
    (tmp_path / "t.en.gz").write_bytes(gzip.compress("Käse\nHaus\n".encode("utf-16")))
    (tmp_path / "t.de").write_bytes("\ufeffcheese\nhouse\n".encode("utf-16-le"))
    text = ParallelText.find(f"{tmp_path}/t", "en", "de")
    (block,) = read_blocks(text, Encoding.find("utf-16"))
    assert (block.src.decode(), block.tgt.decode()) == ("Käse\nHaus\n", "cheese\nhouse\n")


def test_a_file_without_line_ends_is_no_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "LONGEST_LINE", 1 << 21)
    text = text_of(tmp_path, b"x" * (3 << 20), b"y\n")
    with pytest.raises(DataError, match=r"t\.en has a line of more than 2 MiB"):
        list(read_blocks(text, UTF8))


def test_chosen_lines_are_a_block_of_their_own() -> None:
    block = Block(2, 11, 4, b"a\n\nccc\r\nd", b"A\nB\nC\nD\n")
    assert block.select(np.array([1, 2])) == Block(2, 12, 2, b"\nccc\r\n", b"B\nC\n", (12, 13))
    assert block.select(np.array([0, 3])) == Block(2, 11, 2, b"a\nd\n", b"A\nD\n", (11, 14))
    twice = Block(2, 14, 2, b"d\nd\n", b"D\nD\n", (14, 14))
    assert block.select(np.array([3, 3])) == twice
    assert [block.line_number(row) for row in range(4)] == [11, 12, 13, 14]
    chosen = block.select(np.array([0, 3]))
    assert [chosen.line_number(row) for row in range(2)] == [11, 14]
