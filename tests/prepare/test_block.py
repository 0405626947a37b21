"""Blocks: the same lines of both sides, none lost, and the text that reading one by one gives."""

from pathlib import Path

import numpy as np
import pytest

from nmt.data import corpus, line_blocks
from nmt.data.corpus import Encoding, read_lines
from nmt.errors import DataError
from nmt.prepare.block import Block, Pairs, decode_side
from nmt.prepare.characters import CONTROL, FOREIGN, classes_for
from nmt.prepare.readers.line_files import MosesFiles

UTF8 = Encoding.find("utf-8")


def files_of(folder: Path, src: bytes, tgt: bytes) -> tuple[Path, Path]:
    (folder / "t.en").write_bytes(src)
    (folder / "t.de").write_bytes(tgt)
    return folder / "t.en", folder / "t.de"


@pytest.mark.parametrize("chunk_bytes", [1, 7, 64, 1 << 20])
@pytest.mark.parametrize("block_lines", [1, 3, 4096])
@pytest.mark.parametrize("block_bytes", [4, 1 << 24])
@pytest.mark.parametrize("end", [b"", b"\n"])
def test_lines_come_in_order_and_in_step_from_any_line_on(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    chunk_bytes: int,
    block_lines: int,
    block_bytes: int,
    end: bytes,
) -> None:
    monkeypatch.setattr(corpus, "_CHUNK_BYTES", chunk_bytes)
    monkeypatch.setattr(line_blocks, "BLOCK_LINES", block_lines)
    monkeypatch.setattr(line_blocks, "BLOCK_BYTES", block_bytes)
    src = b"\n".join(b"s" * (n % 5) for n in range(20)) + b"x" + end
    tgt = b"\r\n".join(b"target" * (n % 3) for n in range(20)) + b"y" + end
    files = files_of(tmp_path, src, tgt)
    for start in (1, 2, 4, 20, 21):
        found = list(MosesFiles(files, UTF8).blocks(corpus=3, start=start))
        for side, whole in (("src", src), ("tgt", tgt)):
            left = b"".join(whole.splitlines(keepends=True)[start - 1 :])
            assert b"".join(getattr(block, side) for block in found) == left
        number = start
        for block in found:
            assert (block.corpus, block.number) == (3, number)
            assert 1 <= block.lines <= block_lines
            assert len(block.src.splitlines()) == len(block.tgt.splitlines()) == block.lines
            # A single line may be longer, but no two lines go beyond the bound.
            assert block.lines == 1 or max(len(block.src), len(block.tgt)) <= block_bytes
            number += block.lines
        assert number == 21


def test_one_endless_line_is_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_blocks, "LONGEST_LINE", 1 << 21)
    files = files_of(tmp_path, b"x" * (3 << 20), b"y\n")
    with pytest.raises(DataError, match=r"t\.en .*2 MiB"):
        list(MosesFiles(files, UTF8).blocks())


def test_chosen_lines_are_a_block_of_their_own() -> None:
    block = Block(2, 11, 4, b"a\n\nccc\r\nd", b"A\nB\nC\nD\n", UTF8)
    assert block.select(np.array([1, 2])) == Block(
        2, 12, 2, b"\nccc\r\n", b"B\nC\n", UTF8, (12, 13)
    )
    assert block.select(np.array([0, 3])) == Block(2, 11, 2, b"a\nd\n", b"A\nD\n", UTF8, (11, 14))
    twice = Block(2, 14, 2, b"d\nd\n", b"D\nD\n", UTF8, (14, 14))
    assert block.select(np.array([3, 3])) == twice


@pytest.mark.parametrize(
    ("encoding", "content"),
    [
        ("utf-8", b"a\nb"),
        ("utf-8", b"a\r\nb\r\r\n\r\n\n"),
        ("utf-8", b"a\rb\nc\r"),
        ("utf-8", b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n"),
        ("utf-8", b"\xef\xbb\xbfa\nb\xffd\r\nc\n\xc3\n\xa4\n"),
        ("utf-8", "a\u2028b\u0085c\vd\x1ce\n".encode()),
        ("windows-1252", b"caf\xe9 \x96\r\nbad \x81\nb\xe4\n"),
        ("utf-16", "Käse\r\nx\n".encode("utf-16")),
        ("shift_jis", "日本\nbad".encode("shift_jis") + b"\xff\xff\n"),
        ("gb18030", "中文\n".encode("gb18030")),
    ],
)
def test_a_block_has_the_lines_of_one_by_one(tmp_path: Path, encoding: str, content: bytes) -> None:
    files, found = files_of(tmp_path, content, content), Encoding.find(encoding)
    expected = [found.decode(raw, number=n) for n, raw in enumerate(read_lines(files[0], found), 1)]
    (block,) = MosesFiles(files, found).blocks()
    for side in Pairs.decode(block).sides:
        assert side.lines == [line or "" for line in expected]
        assert side.is_bad.tolist() == [line is None for line in expected]


def test_a_byte_order_mark_is_one_at_the_start_of_the_text_only() -> None:
    raw = "\ufeffa\n".encode()
    table = classes_for("en")
    assert decode_side(raw, UTF8, table, number=1, lines=1).lines == ["a"]
    assert decode_side(raw, UTF8, table, number=2, lines=1).lines == ["\ufeffa"]


def test_characters_are_counted_line_by_line() -> None:
    lines = "ab 1,5\n\n \t\u00a0\nΔx\u0301?\x07\n漢字 kana\n"
    side = decode_side(lines.encode(), UTF8, classes_for("en"), number=1, lines=5)
    assert side.lengths.tolist() == [6, 0, 3, 5, 7]
    assert side.visible.tolist() == [5, 0, 0, 5, 6]
    assert side.signs.tolist() == [3, 0, 0, 2, 0]
    assert side.count(CONTROL).tolist() == [0, 0, 0, 1, 0]
    assert side.count(FOREIGN).tolist() == [0, 0, 0, 1, 2]
