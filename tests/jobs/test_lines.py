"""The line contract: for any bytes, exactly as many lines, in order, ended as they were."""

import bz2
import codecs
import gzip
import lzma
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, BinaryIO
from unittest import mock

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from processes import LONG

from nmt.data.compressed import MAGIC, zstd
from nmt.data.corpus import Encoding
from nmt.errors import DataError
from nmt.jobs import lines as lines_module
from nmt.jobs.lines import Line, LineReader, pipe_chunks
from nmt.system.prefetch import PAUSE, Pause

BOM = b"\xef\xbb\xbf"


@contextmanager
def piped(data: bytes) -> Iterator[BinaryIO]:
    """The reading end of a pipe that another thread fills and closes."""
    reading, writing = os.pipe()

    def fill() -> None:
        with suppress(BrokenPipeError), os.fdopen(writing, "wb") as stream:
            stream.write(data)

    thread = threading.Thread(target=fill)
    thread.start()
    try:
        with os.fdopen(reading, "rb") as stream:
            yield stream
    finally:
        thread.join()


def read(
    data: bytes, *, encoding: str = "utf-8", strict: bool = False, max_lines: int = 1_000
) -> list[Line]:
    """The lines of a pipe."""
    with piped(data) as stream:
        reader = reader_of(stream, encoding=encoding, strict=strict)
        pools = without_pauses(reader.pools(max_lines))
    assert all(0 < len(pool) <= max_lines for pool in pools)
    lines = [line for pool in pools for line in pool]
    assert reader.lines_read == len(lines)
    return lines


def reader_of(stream: BinaryIO, *, encoding: str = "utf-8", strict: bool = False) -> LineReader:
    known = Encoding.find(encoding)
    chunks = pipe_chunks(stream, known, "news")
    return LineReader(chunks, name="news", encoding=known, strict=strict)


def without_pauses(pools: Iterator[list[Line] | Pause]) -> list[list[Line]]:
    return [pool for pool in pools if not isinstance(pool, Pause)]


def in_blocks(size: int) -> AbstractContextManager[object]:
    """Let pipes be read by so many bytes."""
    return mock.patch.object(lines_module, "_BLOCK", size)


NASTY = [b"\n", b"\n", b"\r", b"\r\n", b"a", b" ", b"\0", b"\x0b", b"\x0c", b"\xff", b"\xc3", BOM]
NASTY += [text.encode() for text in ("é", "\u2028", "\u2029", "\x85", "\x1e", "\ufffd", "😀")]

TELLING = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, *MAGIC)  # what begins so is not plain text

any_bytes = st.lists(st.sampled_from(NASTY) | st.binary(max_size=3), max_size=40).map(b"".join)


@given(any_bytes, st.integers(1, 7), st.integers(1, 5))
@settings(deadline=None, max_examples=150)
def test_any_bytes_in_any_blocks_keep_their_lines(data: bytes, block: int, max_lines: int) -> None:
    assume(not data.startswith(TELLING))
    with in_blocks(block):
        found = read(data, max_lines=max_lines)
    assert b"".join(line.raw for line in found) == data
    # As many as `wc -l` counts, and a last line without a newline.
    *ended, rest = data.split(b"\n")
    ends = [b"\r\n" if content.endswith(b"\r") else b"\n" for content in ended]
    assert [line.end for line in found] == ends + [b""] * (rest != b"")
    # Each line is what stood there, less a byte-order mark at the very start.
    raw = [content.removesuffix(b"\r") for content in ended] + [rest] * (rest != b"")
    if raw:
        raw[0] = raw[0].removeprefix(BOM)
    assert [line.text for line in found] == [content.decode(errors="replace") for content in raw]
    valid = [content.decode(errors="ignore").encode() == content for content in raw]
    assert [line.is_valid for line in found] == valid


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"\n", [("", b"\n")]),
        (b"a\n", [("a", b"\n")]),
        (b"a\n\nb", [("a", b"\n"), ("", b"\n"), ("b", b"")]),
        (b"a\r\nb\r\n", [("a", b"\r\n"), ("b", b"\r\n")]),
        (b"a\r\r\n", [("a\r", b"\r\n")]),
        (b"a\rb\n", [("a\rb", b"\n")]),
        (b"\r", [("\r", b"")]),
        (BOM + b"a\n" + BOM + b"b\n", [("a", b"\n"), ("\ufeffb", b"\n")]),
        (BOM + BOM + b"a\n", [("\ufeffa", b"\n")]),
        ("a\u2028b\x85c\x0bd\x0ce\0f\n".encode(), [("a\u2028b\x85c\x0bd\x0ce\0f", b"\n")]),
    ],
)
def test_lines_and_their_ends_by_hand(data: bytes, lines: list[tuple[str, bytes]]) -> None:
    assert [(line.text, line.end) for line in read(data)] == lines


def test_strict_reading_fails_at_the_first_invalid_line_and_names_it() -> None:
    with pytest.raises(DataError, match=r"^news: line 2 .*utf-8"):
        read(b"fine\nb\xffd\n", strict=True)
    assert read("é\n".encode(), strict=True) == [Line("é", raw="é\n".encode())]


def test_a_byte_order_mark_is_one_in_utf_8_alone() -> None:
    assert read(BOM + b"a\n", encoding="iso-8859-1")[0].text == "ï»¿a"


TWO_LINES = "Gr\u010a\u00dfe \u2013 \U0001f600\nb"

ENCODED = {
    **{
        given: (TWO_LINES.encode(given), given)
        for given in ("utf-16", "utf-16-le", "utf-32", "gb18030")
    },
    **{
        f"{told} by its mark": (f"\ufeff{TWO_LINES}".encode(told), "utf-8")
        for told in ("utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")
    },
}


@pytest.mark.parametrize("block", [1, 7, 1_000])
@pytest.mark.parametrize(("data", "encoding"), ENCODED.values(), ids=ENCODED)
def test_a_pipe_may_be_of_any_encoding(data: bytes, encoding: str, block: int) -> None:
    with in_blocks(block):
        found = read(data, encoding=encoding)
    assert [line.text for line in found] == TWO_LINES.split("\n")
    assert [line.end for line in found] == [b"\n", b""]
    assert all(line.is_valid for line in found)


COMPRESS: dict[str, Any] = {"gzip": gzip, "lzma": lzma, "bz2": bz2, "zstd": zstd}


@pytest.mark.parametrize("block", [1, 1_000])
@pytest.mark.parametrize("kind", COMPRESS)
def test_compressed_text_in_a_pipe_is_recognised(kind: str, block: int) -> None:
    if COMPRESS[kind] is None:
        pytest.skip("needs the extra zstd")
    compress = COMPRESS[kind].compress
    # As `cat a.gz b.gz` has them; the text may have a byte-order mark, too.
    data = compress("\ufeffone\ntw".encode("utf-16-le")) + compress("o\n".encode("utf-16-le"))
    with in_blocks(block):
        assert [line.text for line in read(data)] == ["one", "two"]


def test_a_pool_is_delivered_while_the_pipe_stays_open() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as stream, ThreadPoolExecutor() as executor:
        pools = reader_of(stream).pools(1_000)
        try:
            for number in range(3):
                os.write(writing, f"line {number}\nhalf a li".encode())
                # The limit only keeps a broken reader from waiting for ever.
                pool = executor.submit(next, pools).result(timeout=LONG)
                assert not isinstance(pool, Pause)
                assert [line.text.removeprefix("half a li") for line in pool] == [f"line {number}"]
                assert next(pools) is PAUSE
        finally:
            os.close(writing)
        (last,) = without_pauses(pools)
        assert [line.text for line in last] == ["half a li"]


def test_lines_that_keep_coming_are_answered_after_half_a_second() -> None:
    now = 0.0

    def a_line_every_30_ms() -> Iterator[bytes | Pause]:
        nonlocal now
        for number in range(100):
            now += 0.03
            yield b"line %d\n" % number

    reader = LineReader(a_line_every_30_ms(), name="news", encoding=Encoding.find("utf-8"))
    with mock.patch("nmt.jobs.lines.time.monotonic", lambda: now):
        pools = without_pauses(reader.pools(1_000))
    assert sum(map(len, pools)) == 100
    assert max(map(len, pools)) <= 0.5 / 0.03 + 2


def test_a_pipe_that_does_not_block_is_waited_for() -> None:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    with os.fdopen(reading, "rb") as stream, ThreadPoolExecutor() as executor:
        pools = executor.submit(lambda: without_pauses(reader_of(stream).pools(1_000)))
        time.sleep(0.2)  # it finds nothing first
        os.write(writing, b"a line")
        os.close(writing)
        ((line,),) = pools.result(timeout=LONG)
        assert line.text == "a line"
