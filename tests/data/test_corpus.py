"""Parallel text: where lines end, how files are found and opened, what is refused."""

from __future__ import annotations

import bz2
import gzip
import lzma
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nmt.data.corpus import Encoding, ParallelText, read_chunks, read_lines, split_lines
from nmt.errors import DataError, UsageError

UTF8 = Encoding.find("utf-8")
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
}


def lines_of(path: Path, encoding: str = "utf-8") -> list[str | None]:
    found = Encoding.find(encoding)
    return [found.decode(line, number=n) for n, line in enumerate(read_lines(path, found), 1)]


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a\nb\n", ["a", "b"]),
        (b"a\nb", ["a", "b"]),
        (b"a\n\n", ["a", ""]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\r\r\n", ["a\r"]),
        (b"a\rb\n", ["a\rb"]),
        (b"a\r", ["a\r"]),
        ("a\u2028b\u2029c\u0085d\vf\fg\x1ch\n".encode(), ["a\u2028b\u2029c\u0085d\vf\fg\x1ch"]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),
        (b"a\0b\n" + b"c" * 40 + b"\n", ["a\0b", "c" * 40]),
        (b"good\nb\xffd\n", ["good", None]),
    ],
)
def test_lines_end_at_line_feeds_only(
    tmp_path: Path, content: bytes, lines: list[str | None]
) -> None:
    path = tmp_path / "text.en"
    path.write_bytes(content)
    assert lines_of(path) == lines


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_lines_do_not_depend_on_how_the_stream_is_cut(size: int) -> None:
    content = b"one\r\ntwo\n\nthr\ree\r\n\r\nlast"
    chunks = [content[at : at + size] for at in range(0, len(content), size)]
    assert list(split_lines(chunks)) == [b"one", b"two", b"", b"thr\ree", b"", b"last"]


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".bz2"])
def test_compressed_text_reads_like_plain_text(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"text.en{suffix}"
    # Two streams one after the other are one text, as `cat a.gz b.gz` makes them.
    path.write_bytes(COMPRESS[suffix](b"a\nb") + COMPRESS[suffix](b"c\nd\n"))
    assert lines_of(path) == ["a", "bc", "d"]


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".bz2"])
@pytest.mark.parametrize("damage", ["cut short", "altered", "not compressed", "empty"])
def test_damaged_compressed_text_is_refused_with_its_name(
    tmp_path: Path, suffix: str, damage: str
) -> None:
    whole = COMPRESS[suffix](bytes(range(32, 127)) * 2000)
    path = tmp_path / f"text.en{suffix}"
    path.write_bytes(
        {
            "cut short": whole[:-10],
            "altered": whole[:40] + b"\x55\xaa\x55\xaa" + whole[44:],
            "not compressed": b"hello\n",
            "empty": b"",
        }[damage]
    )
    with pytest.raises(DataError, match=f"text.en{suffix}"):
        lines_of(path)


def test_zstd_text_is_read_and_refused_like_the_others(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard", reason="the extra `zstd` is not installed")
    frame = zstandard.compress(b"a\nb") + zstandard.compress(b"c\n" * 9)
    path = tmp_path / "text.en.zst"
    path.write_bytes(frame)
    assert lines_of(path) == ["a", "bc", *["c"] * 8]
    for damaged in (frame[:-3], b"hello", b""):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=r"text\.en\.zst"):
            lines_of(path)


def test_zstd_text_without_its_package_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    path = tmp_path / "text.en.zst"
    path.write_bytes(b"content")
    with pytest.raises(DataError, match=r"pip install nmt\[zstd\]"):
        lines_of(path)


@pytest.mark.parametrize(
    ("encoding", "content"),
    [
        ("windows-1252", b"caf\xe9 \x96 na\xefve\n"),
        ("utf-16", "café – naïve\n".encode("utf-16")),
        ("utf-16-be", b"\xfe\xff" + "café – naïve\r\n".encode("utf-16-be")),
        ("utf-8-sig", b"\xef\xbb\xbf" + "café – naïve\n".encode()),
        ("UTF8", "café – naïve\n".encode()),
    ],
)
def test_text_is_read_in_its_encoding(tmp_path: Path, encoding: str, content: bytes) -> None:
    path = tmp_path / "text.en"
    path.write_bytes(content)
    assert lines_of(path, encoding) == ["café – naïve"]


def test_utf_16_does_not_break_lines_at_half_a_character(tmp_path: Path) -> None:
    path = tmp_path / "text.en"
    path.write_bytes("\u0a0a a\nb\n".encode("utf-16-le"))  # U+0A0A is the bytes 0A 0A
    assert lines_of(path, "utf-16-le") == ["\u0a0a a", "b"]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_taken_for_utf_8_is_recognised(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "text.en"
    path.write_bytes("some text\n".encode(encoding))
    with pytest.raises(DataError, match=r"text\.en: .*--encoding utf-16"):
        lines_of(path)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_a_byte_order_mark_tells_the_encoding(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "text.en"
    path.write_bytes("café\nnaïve\n".encode(encoding))
    assert lines_of(path) == ["café", "naïve"]


def test_a_compressed_file_need_not_be_named_so(tmp_path: Path) -> None:
    path = tmp_path / "text.en"
    path.write_bytes(gzip.compress(b"a\nb\n"))
    assert lines_of(path) == ["a", "b"]


def test_what_is_not_valid_utf_16_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "text.en"
    path.write_bytes(b"\x00\xd8\x41\x00")  # half a surrogate pair
    with pytest.raises(DataError, match=r"text\.en: not valid utf-16-le"):
        lines_of(path, "utf-16-le")


@pytest.mark.parametrize("name", ["utf-9", "hex", "rot13", "undefined", "idna"])
def test_unknown_encodings_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"--encoding {name}"):
        Encoding.find(name)


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz", ".bz2", ".zst"])
def test_a_side_is_found_plain_or_compressed(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"train.en{suffix}").touch()
    (tmp_path / "train.de").touch()
    text = ParallelText.find(f"{tmp_path}/train", "en", "de")
    assert (text.src.name, text.tgt.name) == (f"train.en{suffix}", "train.de")


@pytest.mark.parametrize(
    ("prefix", "message"),
    [
        ("both", r"both\.en and .*both\.en\.gz both exist"),
        ("train", r"/train\.de: no such file, plain or compressed \(\.gz \.xz \.bz2 \.zst\); the"),
        ("train", r"^(?!.*readme).*; the folder has .*train\.ger\.gz"),
        ("train.en", r"train\.en\.en: no such file; .*train\.en exists: give the prefix"),
        ("nowhere/train", r"there is no folder .*/nowhere"),
    ],
)
def test_a_side_that_is_missing_or_ambiguous_is_told(
    tmp_path: Path, prefix: str, message: str
) -> None:
    for name in ("train.en", "train.ger.gz", "readme", "both.en", "both.en.gz", "both.de"):
        (tmp_path / name).touch()
    with pytest.raises(DataError, match=message):
        ParallelText.find(f"{tmp_path}/{prefix}", "en", "de")


def test_an_onlooker_sees_all_bytes_of_the_file_itself(tmp_path: Path) -> None:
    path = tmp_path / "text.en.gz"
    content = gzip.compress(b"a\nb\n" * 9000) + gzip.compress(b"c") + bytes(70_000)
    path.write_bytes(content)
    seen = bytearray()
    text = b"".join(read_chunks(path, UTF8, watch=seen.extend))
    assert (bytes(seen), text) == (content, b"a\nb\n" * 9000 + b"c")


def test_a_small_file_of_much_text_is_read_in_pieces(tmp_path: Path) -> None:
    size = 1 << 26
    path = tmp_path / "text.en.gz"
    path.write_bytes(gzip.compress(b"a\n" * (size // 2)))
    pieces = [len(piece) for piece in read_chunks(path, UTF8)]
    assert sum(pieces) == size
    assert max(pieces) < size // 8
