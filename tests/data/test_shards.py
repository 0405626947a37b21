"""Shards: what is written is read back, and nothing else is believed."""

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

from nmt.data.shards import Shard, ShardBuilder, TokenRows, token_bytes_for
from nmt.errors import DataError

PAIRS = [([5, 6, 7], [8]), ([9], [10, 11]), ([], [4]), ([65_535], [0, 1])]
WIDE = [([70_000], [65_536])]
LINES = [3, 4, 9, 4_000_000_000]


def build(
    path: Path, pairs: list[tuple[list[int], list[int]]] = PAIRS, *, token_bytes: int = 2
) -> Path:
    builder = ShardBuilder(token_bytes=token_bytes)
    for part in (slice(0, 3), slice(3, len(pairs))):
        src, tgt = (
            TokenRows.from_lists([pair[side] for pair in pairs[part]], token_bytes=token_bytes)
            for side in (0, 1)
        )
        builder.extend(src, tgt, np.array(LINES[: len(pairs)][part], np.int64))
    assert len(builder) == len(pairs)
    builder.write(path, corpus=6)
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return build(tmp_path / "train-00000.bin")


@pytest.mark.parametrize(("pairs", "token_bytes"), [(PAIRS, 2), (PAIRS, 4), (WIDE, 4)])
def test_pairs_are_read_back_in_any_order(
    tmp_path: Path, pairs: list[tuple[list[int], list[int]]], token_bytes: int
) -> None:
    shard = Shard.open(build(tmp_path / "s.bin", pairs, token_bytes=token_bytes))
    assert len(shard) == len(pairs)
    for index in reversed(range(len(pairs))):
        assert tuple(side.tolist() for side in shard.pair(index)) == pairs[index]
        assert shard.line(index) == LINES[index]
    backwards = list(reversed(pairs))
    rows = shard.rows(np.arange(len(pairs))[::-1])
    assert list(zip(*(side.lists() for side in rows), strict=True)) == backwards
    assert shard.corpus == 6
    assert shard.pair(0)[0].dtype == np.dtype(f"u{token_bytes}")
    src, tgt = ([len(pair[side]) for pair in pairs] for side in (0, 1))
    assert (shard.src_tokens, shard.tgt_tokens) == (sum(src), sum(tgt))
    # Lengths are signed, so that they can be subtracted.
    assert np.subtract(*shard.all_lengths()).tolist() == np.subtract(src, tgt).tolist()


def test_the_bytes_are_as_documented(path: Path) -> None:
    body = struct.pack("<5I", 0, 3, 4, 4, 5) + struct.pack("<5I", 0, 1, 3, 4, 6)
    body += struct.pack("<4I", *LINES)
    tokens = struct.pack("<5H", 5, 6, 7, 9, 65_535) + struct.pack("<6H", 8, 10, 11, 4, 0, 1)
    header = b"NMTSHARD" + struct.pack("<IIQQQI", 2, 2, 4, 5, 6, 6) + bytes(16)
    crc = struct.pack("<I", zlib.crc32(header + body))
    assert path.read_bytes() == header + crc + body + tokens


def test_ids_take_two_bytes_while_the_vocabulary_fits() -> None:
    assert [token_bytes_for(size) for size in (65_536, 65_537)] == [2, 4]
    with pytest.raises(OverflowError):
        TokenRows.from_lists([[65_536]], token_bytes=2)


def test_a_shard_cut_short_or_altered_anywhere_is_refused_with_its_name(path: Path) -> None:
    whole = path.read_bytes()
    damaged = [whole[:size] for size in range(len(whole))] + [whole + b"\0"]
    for at in range(64 + 2 * 5 * 4 + 4 * 4):  # header, offsets and line numbers
        damaged.append(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
    for content in damaged:
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"train-00000\.bin"):
            Shard.open(path)


def test_offsets_are_32_bits_wide_and_the_builder_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.data.shards.MAX_TOKENS", 3)
    builder = ShardBuilder(token_bytes=2)
    one, two, four = (TokenRows.from_lists([[7] * n], token_bytes=2) for n in (1, 2, 4))
    assert not builder.has_room_for(four, one)
    assert not builder.has_room_for(one, four)
    builder.extend(two, one, np.array([1]))
    assert builder.has_room_for(one, two)
    assert not builder.has_room_for(two, one)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "is missing"),
        (b"PK\x03\x04" + bytes(200), "not a shard"),
        (b"NMTSHARD\7\0\0\0" + bytes(64), "format 7, .* 2"),
        (b"NMTSHARD" + struct.pack("<IIQQQ24x", 2, 2, *[2**64 - 1] * 3), "cut short"),
    ],
)
def test_what_is_no_shard_is_refused(tmp_path: Path, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / "s.bin").write_bytes(content)
    with pytest.raises(DataError, match=rf"s\.bin.*{message}"):
        Shard.open(tmp_path / "s.bin")


def test_ids_beyond_the_vocabulary_are_noticed(tmp_path: Path) -> None:
    shard = Shard.open(build(tmp_path / "s.bin", [([4, 5], [6])]))
    shard.check_content(6, 7)
    for sizes in ((5, 7), (6, 6)):
        with pytest.raises(DataError, match=r"s\.bin: .*vocabulary"):
            shard.check_content(*sizes)
