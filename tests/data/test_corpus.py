"""Parallel text: where lines end, how files are found and opened, what is refused."""

import bz2
import gzip
import lzma
import random
from pathlib import Path
from typing import Any

import pytest

from nmt.data import compressed
from nmt.data.corpus import Encoding, find_sides, read_chunks, read_lines
from nmt.errors import DataError, UsageError

UTF8 = Encoding.find("utf-8")
SUFFIXES = [".gz", ".xz", ".bz2", ".zst"]


def lines_of(path: Path, encoding: str = "utf-8") -> list[str | None]:
    found = Encoding.find(encoding)
    return [found.decode(line, number=n) for n, line in enumerate(read_lines(path, found), 1)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "text.en"


@pytest.mark.parametrize(
    ("encoding", "content", "lines"),
    [
        ("utf-8", b"", []),
        ("utf-8", b"\n", [""]),
        ("utf-8", b"a\nb\n", ["a", "b"]),
        ("utf-8", b"a\nb", ["a", "b"]),
        ("utf-8", b"a\n\n", ["a", ""]),
        ("utf-8", b"a\r\nb\r\n", ["a", "b"]),
        ("utf-8", b"a\r\r\n", ["a\r"]),
        ("utf-8", b"a\rb\n", ["a\rb"]),
        ("utf-8", b"a\r", ["a\r"]),
        ("utf-8", "\u2028\u2029\u0085\v\f\x1c".encode(), ["\u2028\u2029\u0085\v\f\x1c"]),
        ("utf-8", b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),
        ("utf-8", b"a\0b\n" + b"c" * 40 + b"\n", ["a\0b", "c" * 40]),
        ("utf-8", b"good\nb\xffd\n", ["good", None]),
        ("UTF8", "café – naïve\n".encode(), ["café – naïve"]),
        ("utf-8-sig", b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),
        ("windows-1252", b"caf\xe9 \x96 na\xefve\n", ["café – naïve"]),
        ("utf-16", "café – naïve\n".encode("utf-16"), ["café – naïve"]),
        ("utf-16-be", b"\xfe\xff" + "café – naïve\r\n".encode("utf-16-be"), ["café – naïve"]),
        # U+0A0A is the bytes 0A 0A.
        ("utf-16-le", "\u0a0a a\nb\n".encode("utf-16-le"), ["\u0a0a a", "b"]),
        # What the first bytes tell: an encoding, or that a file is compressed.
        ("utf-8", "café\nnaïve\n".encode("utf-16"), ["café", "naïve"]),
        ("utf-8", "café\nnaïve\n".encode("utf-32"), ["café", "naïve"]),
        ("utf-8", gzip.compress(b"a\nb\n", mtime=0), ["a", "b"]),
    ],
)
def test_lines_end_at_line_feeds_only(
    path: Path, encoding: str, content: bytes, lines: list[str | None]
) -> None:
    path.write_bytes(content)
    assert lines_of(path, encoding) == lines


def packed(suffix: str, content: bytes) -> bytes:
    module: Any = {".gz": gzip, ".xz": lzma, ".bz2": bz2, ".zst": compressed.zstd}[suffix]
    if module is None:
        pytest.skip("needs the extra zstd")
    return bytes(module.compress(content))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_compressed_text_reads_like_plain_text(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"text.en{suffix}"
    # Two streams one after the other are one text, as `cat a.gz b.gz` makes them.
    path.write_bytes(packed(suffix, b"a\nb") + packed(suffix, b"c\nd\n"))
    assert lines_of(path) == ["a", "bc", "d"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_damaged_compressed_text_is_refused_with_its_name(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"text.en{suffix}"
    whole = packed(suffix, bytes(range(32, 127)) * 2000)
    altered = [] if suffix == ".zst" else [whole[:40] + b"\x55\xaa\x55\xaa" + whole[44:]]
    for content in (whole[:-10], b"hello\n", b"", *altered):
        path.write_bytes(content)
        with pytest.raises(DataError, match=f"text.en{suffix}"):
            lines_of(path)


def test_zstd_without_its_package_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compressed, "zstd", None)
    path = tmp_path / "text.en.zst"
    path.write_bytes(b"content")
    with pytest.raises(DataError, match=r"zst .*zstd"):
        lines_of(path)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_without_text_can_be_compressed_and_read(tmp_path: Path, suffix: str) -> None:
    packed(suffix, b"")
    (tmp_path / "text").write_bytes(b"")
    compressed.compress(tmp_path / "text", tmp_path / f"text{suffix}", suffix)
    assert lines_of(tmp_path / f"text{suffix}") == []


def test_an_onlooker_sees_all_bytes_of_the_file_itself(path: Path) -> None:
    content = gzip.compress(b"a\nb\n" * 9000) + gzip.compress(b"c") + bytes(70_000)
    path.write_bytes(content)
    seen = bytearray()
    text = b"".join(read_chunks(path, UTF8, watch=seen.extend))
    assert (bytes(seen), text) == (content, b"a\nb\n" * 9000 + b"c")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_small_file_of_much_text_is_read_in_pieces(tmp_path: Path, suffix: str) -> None:
    size = 1 << 23
    path = tmp_path / f"text.en{suffix}"
    path.write_bytes(packed(suffix, b"a\n" * (size // 2)))
    assert path.stat().st_size < size // 500
    pieces = [len(piece) for piece in read_chunks(path, UTF8)]
    assert sum(pieces) == size
    assert max(pieces) <= 1 << 21


def test_many_small_compressed_files_come_in_large_pieces(path: Path) -> None:
    one = gzip.compress(b"a\n" * 5000)  # as `bgzip` writes them
    path.write_bytes(one * 400)
    pieces = [len(piece) for piece in read_chunks(path, UTF8)]
    assert sum(pieces) == 4_000_000
    assert min(pieces[:-1]) >= 1 << 20


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("size", [(1 << 20) - 1, 1 << 20, (1 << 20) + 1])
def test_text_that_fills_pieces_arrives_whole(tmp_path: Path, suffix: str, size: int) -> None:
    path = tmp_path / f"text.en{suffix}"
    text = random.Random(1).randbytes(1 << 16).hex().encode()
    content = (text * (size // len(text) + 1))[:size]
    path.write_bytes(packed(suffix, content) * 2)
    assert b"".join(read_chunks(path, UTF8)) == content * 2


@pytest.mark.parametrize(
    ("content", "encoding", "message"),
    [
        ("some text\n".encode("utf-16-le"), "utf-8", ".*--encoding utf-16"),
        ("some text\n".encode("utf-16-be"), "utf-8", ".*--encoding utf-16"),
        (b"\x00\xd8\x41\x00", "utf-16-le", "not valid utf-16-le"),  # half a surrogate pair
    ],
)
def test_other_encodings_fail(path: Path, content: bytes, encoding: str, message: str) -> None:
    path.write_bytes(content)
    with pytest.raises(DataError, match=rf"text\.en: {message}"):
        lines_of(path, encoding)


@pytest.mark.parametrize("name", ["hex", "rot13", "undefined"])
def test_unknown_encodings_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"--encoding {name}"):
        Encoding.find(name)


def test_a_side_is_found_plain_or_compressed(tmp_path: Path) -> None:
    for suffix in ("", *SUFFIXES):
        name = f"in-{suffix[1:]}"
        for path in (tmp_path / f"{name}.en{suffix}", tmp_path / f"{name}.de"):
            path.touch()
        src, tgt = find_sides(f"{tmp_path}/{name}", "en", "de")
        assert (src.name, tgt.name) == (f"{name}.en{suffix}", f"{name}.de")


@pytest.mark.parametrize(
    ("prefix", "message"),
    [
        ("both", r"both\.en and .*both\.en\.gz both exist"),
        ("train", r"/train\.de: no"),
        ("train", r"^(?!.*readme).*; the folder has .*train\.ger\.gz"),
        ("train.en", r"train\.en\.en: .*train\.en exists"),
        ("nowhere/train", "no folder .*/nowhere"),
    ],
)
def test_a_side_missing_or_ambiguous_is_told(tmp_path: Path, prefix: str, message: str) -> None:
    for name in ("train.en", "train.ger.gz", "readme", "both.en", "both.en.gz", "both.de"):
        (tmp_path / name).touch()
    with pytest.raises(DataError, match=message):
        find_sides(f"{tmp_path}/{prefix}", "en", "de")
