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
import io
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from nmt.errors import DataError, UsageError

_CHUNK_BYTES = 1 << 20
_START_BYTES = 1 << 16
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


def read_lines(path: Path, encoding: Encoding) -> Iterator[bytes]:
    """Yield the lines of a file, without their ends: in UTF-8 where `encoding` is not by line."""
    return split_lines(read_chunks(path, encoding))


def read_chunks(
    path: Path,
    encoding: Encoding,
    *,
    watch: Callable[[bytes], object] = bytes,
    any_bytes: bool = False,
) -> Iterator[bytes]:
    """Yield the text of a file in pieces of any size: UTF-8 where `encoding` is not by line.

    Args:
        path: plain or compressed.
        encoding: of the text.
        watch: called with all bytes of the file itself, compressed as they may be.
        any_bytes: take also what is most likely no text of this encoding.
    """
    chunks = _decompress(path, watch)
    if not any_bytes:
        chunks = _check_start(path, chunks, encoding)
    return chunks if encoding.by_line else _transcode(path, chunks, encoding)


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


class _Watched(io.BufferedReader):
    """A file that is read from its beginning to its end, with an onlooker."""

    def __init__(self, path: Path, watch: Callable[[bytes], object]) -> None:
        super().__init__(io.FileIO(path))
        self._watch = watch

    def read(self, size: int | None = -1, /) -> bytes:
        content = super().read(size)
        self._watch(content)
        return content


def _decompress(path: Path, watch: Callable[[bytes], object]) -> Iterator[bytes]:
    opener = _OPENERS.get(path.suffix)
    with _Watched(path, watch) as file:
        if opener is None:
            yield from _read(file)
            return
        # An empty .gz reads as an empty text, but no program writes one: the copy was cut off.
        if path.stat().st_size == 0:
            raise DataError(f"{path}: an empty file is no {path.suffix} file; fetch it again")
        try:
            yield from opener(file)
            while file.read(_CHUNK_BYTES):
                pass  # what stands behind the compressed text is of the file too
        except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # the disk, not the content
            raise DataError(
                f"{path}: cut short or damaged ({error}); fetch or compress it again"
            ) from None


def _read(
    file: _Watched | gzip.GzipFile | lzma.LZMAFile | bz2.BZ2File,
) -> Iterator[bytes]:
    return iter(lambda: file.read(_CHUNK_BYTES), b"")


def _open_gzip(file: _Watched) -> Iterator[bytes]:
    with gzip.GzipFile(fileobj=file) as content:
        yield from _read(content)


def _open_xz(file: _Watched) -> Iterator[bytes]:
    with lzma.LZMAFile(file) as content:
        yield from _read(content)


def _open_bz2(file: _Watched) -> Iterator[bytes]:
    with bz2.BZ2File(file) as content:
        yield from _read(content)


def _open_zstd(file: _Watched) -> Iterator[bytes]:
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


_OPENERS: dict[str, Callable[[_Watched], Iterator[bytes]]] = {
    ".gz": _open_gzip,
    ".xz": _open_xz,
    ".bz2": _open_bz2,
    ".zst": _open_zstd,
}


# What files that are no text begin with. Compressed ones are such where the name does not say so.
_MAGIC = {
    b"\x1f\x8b": "gzip; give it a name that ends in .gz",
    b"\xfd7zXZ\0": "xz; give it a name that ends in .xz",
    b"BZh91AY&SY": "bzip2; give it a name that ends in .bz2",
    b"\x28\xb5\x2f\xfd": "zstd; give it a name that ends in .zst",
    b"PK\x03\x04": "a zip archive, or a document that is one inside",
    b"%PDF-": "a PDF",
    b"\x89PNG\r\n\x1a\n": "a PNG picture",
    b"\xff\xd8\xff": "a JPEG picture",
    b"GIF8": "a GIF picture",
    b"\x7fELF": "a program",
    b"SQLite format 3\0": "a database",
    b"\x93NUMPY": "a NumPy array",
}
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\v\f\r\x1b"))


def refuse_binary(path: Path, chunks: Iterator[bytes], encoding: Encoding) -> Iterator[bytes]:
    """Pass the text of a file on, unless its start shows that it is none.

    Raises:
        DataError: saying what it is, or seems to be.
    """
    first = next(chunks, b"")
    start = first[:_START_BYTES]
    found = next((kind for magic, kind in _MAGIC.items() if start.startswith(magic)), None)
    if start[8:10] == b'{"' and start[4:8] == bytes(4):  # behind the length of that JSON
        found = "safetensors, such as a model"
    if found:
        raise DataError(f"{path}: not text but {found}")
    if encoding.by_line and start.startswith(_UTF16_BOMS):
        raise DataError(f"{path}: not {encoding.name} text but UTF-16; pass --encoding utf-16")
    # Not text: more than 30 %, and more than 64, of the first 65,536 bytes are invalid or control
    # characters, such as NUL. Of models and pictures about 45 % are. Of Czech in ISO 8859-2 that is
    # read as UTF-8 12 % are: that is translated, and so is text with some NULs in it.
    name = encoding.name if encoding.by_line else "utf-8"
    strange = len(start) - len(start.translate(None, _CONTROLS))
    strange += start.decode(name, "replace").count("\ufffd")
    if strange > max(64, 0.3 * len(start)):
        raise DataError(
            f"{path}: does not look like {encoding.name} text: {strange / len(start):.0%} of its "
            "start is control characters or invalid; pass --encoding if it is text"
        )
    yield first
    yield from chunks


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
