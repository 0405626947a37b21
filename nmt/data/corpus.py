"""Parallel text on disk: `PREFIX.en` and `PREFIX.de`, plain or compressed, as pairs of lines.

Lines end at `\\n` and nowhere else, because every other tool that counts lines does the same: one
`\\r` before it belongs to the line end, and U+2028, U+0085 or a lone `\\r` are text. Lines are
bytes until they are decoded one by one, so that a bad one is a line with a number and not the end.
"""

from __future__ import annotations

import bz2
import codecs
import difflib
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO

from nmt.errors import DataError, UsageError

_CHUNK_BYTES = 1 << 20
_BATCH_PAIRS = 4096
# Lines of several megabytes do occur; a batch of 4,096 of them would not fit.
_BATCH_BYTES = 1 << 24
_UTF16_BOMS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(frozen=True)
class Encoding:
    """A character encoding of text files."""

    name: str
    by_line: bool
    """Whether its bytes can be cut into lines at `\\n`; UTF-16 is made UTF-8 first."""

    @classmethod
    def find(cls, name: str) -> Encoding:
        """Return the encoding of a name; UsageError when there is none."""
        try:
            found = codecs.lookup(name).name
            line_feed = "\n".encode(found)
        except (LookupError, ValueError):
            raise UsageError(
                f"--encoding {name}: unknown; some that are known: utf-8, windows-1252, "
                "iso-8859-1, utf-16, gb18030, shift_jis, koi8-r"
            ) from None
        if found == "utf-8-sig":  # it would look for a BOM on every line
            return cls("utf-8", by_line=True)
        return cls(found, by_line=line_feed == b"\n")

    def decode(self, line: bytes, *, number: int) -> str | None:
        """Return the text of line `number`, or None where its bytes are not valid."""
        try:
            if self.name == "utf-8" or not self.by_line:
                text = line.decode()
            else:
                text = line.decode(self.name)
                text.encode()  # a few codecs decode to what is no text: half a surrogate pair
        except UnicodeError:
            return None
        return text.removeprefix("\ufeff") if number == 1 else text


@dataclass(frozen=True)
class ParallelText:
    """Two files that are translations of each other, line by line."""

    prefix: str
    src: Path
    tgt: Path

    @classmethod
    def find(cls, prefix: str, src_lang: str, tgt_lang: str) -> ParallelText:
        """Return the files of a prefix; DataError when there is none, or more than one."""
        return cls(prefix, _find_side(prefix, src_lang), _find_side(prefix, tgt_lang))


@dataclass(frozen=True)
class PairBatch:
    """Consecutive pairs of lines, not yet decoded."""

    number: int
    """Line number of the first pair, from 1."""
    src: list[bytes]
    tgt: list[bytes]


def read_pairs(text: ParallelText, encoding: Encoding) -> Iterator[PairBatch]:
    """Yield all pairs in batches; DataError when one side has more lines than the other."""
    src_lines, tgt_lines = read_lines(text.src, encoding), read_lines(text.tgt, encoding)
    src: list[bytes] = []
    tgt: list[bytes] = []
    number, size = 1, 0
    for src_line, tgt_line in zip_longest(src_lines, tgt_lines):
        if src_line is None or tgt_line is None:
            common = number + len(src) - 1
            longer = common + 1 + sum(1 for _ in (tgt_lines if src_line is None else src_lines))
            src_count, tgt_count = (common, longer) if src_line is None else (longer, common)
            raise DataError(
                f"{text.src} has {src_count:,} lines and {text.tgt} has {tgt_count:,}; the two "
                "sides of a parallel text have one line each for every pair"
            )
        src.append(src_line)
        tgt.append(tgt_line)
        size += len(src_line) + len(tgt_line)
        if len(src) == _BATCH_PAIRS or size > _BATCH_BYTES:
            yield PairBatch(number, src, tgt)
            number += len(src)
            src, tgt, size = [], [], 0
    if src:
        yield PairBatch(number, src, tgt)


def read_lines(path: Path, encoding: Encoding) -> Iterator[bytes]:
    """Yield the lines of a file, without their ends: in UTF-8 where `encoding` is not by line."""
    chunks = _check_start(path, _decompress(path), encoding)
    return split_lines(chunks if encoding.by_line else _transcode(path, chunks, encoding))


def split_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines that a stream of bytes holds, without `\\n` or `\\r\\n` at their ends."""
    unfinished: list[bytes] = []  # parts of a line that goes on in the next chunk
    for chunk in chunks:
        first, *others = chunk.split(b"\n")
        unfinished.append(first)
        if not others:
            continue
        yield b"".join(unfinished).removesuffix(b"\r")
        for line in others[:-1]:
            yield line.removesuffix(b"\r")
        unfinished = [others[-1]]
    if last := b"".join(unfinished):
        yield last


def _find_side(prefix: str, lang: str) -> Path:
    plain = Path(f"{prefix}.{lang}")
    candidates = [plain, *(plain.with_name(plain.name + suffix) for suffix in _OPENERS)]
    found = [candidate for candidate in candidates if candidate.exists()]
    if len(found) > 1:
        names = " and ".join(map(str, found))
        raise DataError(f"both {names} exist; remove one, or rename it, so that it is plain which")
    if not found:
        suffixes = " ".join(_OPENERS)
        raise DataError(f"{plain}: no such file, nor with {suffixes} at its end{_near(plain)}")
    if not found[0].is_file():
        raise DataError(f"{found[0]}: no regular file, and it is read more than once")
    return found[0]


def _near(path: Path) -> str:
    if not path.parent.is_dir():
        return f"; there is no folder {path.parent}"
    names = sorted(entry.name for entry in path.parent.iterdir() if entry.is_file())
    near = difflib.get_close_matches(path.name, names, n=4, cutoff=0.5)
    return f"; the folder has {', '.join(near)}" if near else ""


def _decompress(path: Path) -> Iterator[bytes]:
    opener = _OPENERS.get(path.suffix)
    with path.open("rb") as file:
        if opener is None:
            yield from _read(file)
            return
        # An empty .gz reads as an empty text, but no program writes one: the copy was cut off.
        if path.stat().st_size == 0:
            raise DataError(f"{path}: an empty file is no {path.suffix} file; fetch it again")
        try:
            yield from opener(file)
        except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # the disk, not the content
            raise DataError(
                f"{path}: cut short or damaged ({error}); fetch or compress it again"
            ) from None


def _read(file: BinaryIO | gzip.GzipFile | lzma.LZMAFile | bz2.BZ2File) -> Iterator[bytes]:
    return iter(lambda: file.read(_CHUNK_BYTES), b"")


def _open_gzip(file: BinaryIO) -> Iterator[bytes]:
    with gzip.GzipFile(fileobj=file) as content:
        yield from _read(content)


def _open_xz(file: BinaryIO) -> Iterator[bytes]:
    with lzma.LZMAFile(file) as content:
        yield from _read(content)


def _open_bz2(file: BinaryIO) -> Iterator[bytes]:
    with bz2.BZ2File(file) as content:
        yield from _read(content)


def _open_zstd(file: BinaryIO) -> Iterator[bytes]:
    try:
        import zstandard
    except ImportError:
        raise DataError("reading .zst needs zstandard; run `pip install nmt[zstd]`") from None
    # By hand, because the package's own reader takes a frame that is cut short for the end.
    frame = None
    try:
        for chunk in _read(file):
            while chunk:
                if frame is None:
                    frame = zstandard.ZstdDecompressor().decompressobj()
                yield frame.decompress(chunk)
                chunk = frame.unused_data
                if frame.eof:
                    frame = None
    except zstandard.ZstdError as error:
        raise EOFError(str(error)) from None
    if frame is not None:
        raise EOFError("the last frame does not end")


_OPENERS: dict[str, Callable[[BinaryIO], Iterator[bytes]]] = {
    ".gz": _open_gzip,
    ".xz": _open_xz,
    ".bz2": _open_bz2,
    ".zst": _open_zstd,
}


def _check_start(path: Path, chunks: Iterator[bytes], encoding: Encoding) -> Iterator[bytes]:
    """Pass the chunks on, unless the first shows that this is UTF-16 read as something else."""
    first = next(chunks, b"")
    start = first[:4096]
    if encoding.by_line and (start.startswith(_UTF16_BOMS) or start.count(0) * 4 > len(start)):
        raise DataError(
            f"{path}: this is not {encoding.name} text but looks like UTF-16; pass --encoding "
            "utf-16 (or utf-16-le, utf-16-be where it has no byte order mark)"
        )
    yield first
    yield from chunks


def _transcode(path: Path, chunks: Iterator[bytes], encoding: Encoding) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding.name)()
    try:
        for chunk in chunks:
            yield decoder.decode(chunk).encode()
        yield decoder.decode(b"", final=True).encode()
    except UnicodeError as error:
        raise DataError(
            f"{path}: not valid {encoding.name}: {error}; pass another --encoding"
        ) from None
