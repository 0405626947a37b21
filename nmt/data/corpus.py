"""Parallel text on disk: `PREFIX.en` and `PREFIX.de`, plain or compressed, as pairs of lines.

Lines end only at `\\n`, as in every other tool that counts lines. One `\\r` before it belongs to
the line end; U+2028, U+0085 and a lone `\\r` are text. Lines stay bytes until each is decoded by
itself, so that an invalid line can be reported by its number.
"""

from __future__ import annotations

import codecs
import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from nmt.data.compressed import DAMAGE, MAGIC, SUFFIXES, Decompressor, check_unpacked
from nmt.errors import DataError, UsageError
from nmt.system.files import is_there, read_when_ready, refuse_pointer

_CHUNK_BYTES = 1 << 20
_START_BYTES = 1 << 16
# Python codecs that are not text encodings; some cannot replace invalid bytes.
_NOT_OF_TEXT = {"idna", "punycode", "unicode-escape", "raw-unicode-escape"}
_UTF16_BOMS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_BOMS = {
    # UTF-32 first: its little-endian BOM begins with that of UTF-16.
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}

# Invalid bytes become a lone surrogate, which is not valid in UTF-8 either.
_MARK_INVALID = "nmt-mark-invalid"
codecs.register_error(_MARK_INVALID, lambda error: ("\ud800", error.end))  # type: ignore[attr-defined]


class Encoding(NamedTuple):
    """A character encoding of text files."""

    name: str
    by_line: bool
    """Whether its bytes can be split into lines at `\\n`; UTF-16 is converted to UTF-8 first."""

    @classmethod
    def find(cls, name: str) -> Encoding:
        """Return the encoding of a name; UsageError if it is unknown."""
        try:
            codec = codecs.lookup(name).name
            if codec in _NOT_OF_TEXT:
                raise LookupError(name)
            line_feed = "\n".encode(codec)
        except (LookupError, ValueError):
            raise UsageError(
                f"--encoding {name}: unknown; use for example utf-8, windows-1252, iso-8859-1, "
                "utf-16, gb18030, shift_jis or koi8-r"
            ) from None
        if codec == "utf-8-sig":  # it would look for a BOM on every line
            return cls("utf-8", by_line=True)
        return cls(codec, by_line=line_feed == b"\n")

    @property
    def line_codec(self) -> str:
        """The codec of single lines, after splitting."""
        return self.name if self.by_line else "utf-8"

    def decode(self, line: bytes, *, number: int) -> str | None:
        """Return the text of line `number`, or of lines from it on; None if it is not valid."""
        try:
            text = line.decode(self.line_codec)
            if self.line_codec != "utf-8":
                text.encode()  # a few codecs decode to lone surrogates, which are not text
        except UnicodeError:
            return None
        return text.removeprefix("\ufeff") if number == 1 else text


def find_sides(prefix: str, src_lang: str, tgt_lang: str) -> tuple[Path, Path]:
    """Return the source and target of a prefix; DataError if a side has no file, or several."""
    return _find_side(prefix, src_lang), _find_side(prefix, tgt_lang)


def read_lines(path: Path, encoding: Encoding) -> Iterator[bytes]:
    """Yield the lines of a file, without line ends; in UTF-8 if `encoding` is not by line."""
    return split_lines(read_chunks(path, encoding))


def read_chunks(
    path: Path,
    encoding: Encoding,
    *,
    watch: Callable[[bytes], object] = bytes,
    any_bytes: bool = False,
) -> Iterator[bytes]:
    """Yield the text of a file in pieces of any size; in UTF-8 if `encoding` is not by line.

    path: plain or compressed.
    encoding: of the text.
    watch: called with the raw bytes of the file, before decompression.
    any_bytes: also read files that do not look like text in this encoding.
    """
    chunks = _read(path, encoding, watch, any_bytes)
    return chunks if any_bytes else refuse_binary(path, chunks, encoding)


def _read(
    path: Path, encoding: Encoding, watch: Callable[[bytes], object], any_bytes: bool
) -> Iterator[bytes]:
    text = TextStream(str(path), encoding, suffix=path.suffix, any_bytes=any_bytes)
    with path.open("rb") as file:
        refuse_pointer(path, file.peek())
        while block := file.read(_CHUNK_BYTES):
            watch(block)
            yield from text.feed(block)
    yield from text.feed(b"", final=True)


def read_pipe(descriptor: int, encoding: Encoding, name: str) -> Iterator[bytes]:
    """Yield the text of a pipe or a terminal, as `read_chunks` does; errors call it `name`."""
    text = TextStream(name, encoding)
    while block := read_when_ready(descriptor, _CHUNK_BYTES):
        yield from text.feed(block)
    yield from text.feed(b"", final=True)


def decode_lines(
    lines: Iterable[bytes], encoding: Encoding, *, name: str, remedy: str
) -> Iterator[str]:
    """Yield the text of lines; raise DataError with the number of one that is not valid."""
    for number, line in enumerate(lines, start=1):
        text = encoding.decode(line, number=number)
        if text is None:
            raise DataError(f"{name}: line {number:,} is not valid {encoding.name}; {remedy}")
        yield text


def split_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of a stream of bytes, without `\\n` or `\\r\\n` at their ends."""
    unfinished: list[bytes] = []  # parts of a line that continues in the next chunk
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
    candidates = [Path(f"{prefix}.{lang}{suffix}") for suffix in ("", *SUFFIXES)]
    plain, files = candidates[0], list(filter(is_there, candidates))
    if len(files) > 1:
        names = " and ".join(map(str, files))
        raise DataError(f"{names} both exist; remove or rename one of them")
    if not files:
        suffixes = " ".join(SUFFIXES)
        given = (Path(prefix + suffix) for suffix in ("", *SUFFIXES))
        if found := next((path for path in given if path.is_file()), None):
            raise DataError(
                f"{plain}: no such file; {found} exists: give the prefix without the language"
            )
        raise DataError(f"{plain}: no such file, plain or compressed ({suffixes}){_near(plain)}")
    if not files[0].is_file():
        raise DataError(f"{files[0]}: not a regular file; it must be readable more than once")
    return files[0]


def _near(path: Path) -> str:
    if not path.parent.is_dir():
        return f"; there is no folder {path.parent}"
    names = sorted(entry.name for entry in path.parent.iterdir() if entry.is_file())
    near = difflib.get_close_matches(path.name, names, n=4, cutoff=0.5)
    return f"; the folder has {', '.join(near)}" if near else ""


class _Start:
    """The first bytes of a stream, held back until they show its kind."""

    def __init__(self, marks: Mapping[bytes, str], kind: str | None = None) -> None:
        """Look for marks, unless the kind is already known ("" for none)."""
        self.kind = kind
        self._marks = marks
        self._held = b""

    def feed(self, block: bytes, *, final: bool) -> bytes:
        """Take bytes and return those that need not be held back."""
        if self.kind is not None:
            return block
        self._held += block
        size = len(self._held)
        if not final and any(mark[:size] == self._held != mark for mark in self._marks):
            return b""
        kinds = (kind for mark, kind in self._marks.items() if self._held.startswith(mark))
        self.kind = next(kinds, "")
        return self._held


class TextStream:
    """Turns the bytes of a file or pipe into text as they arrive.

    Compression is recognised by the file's suffix or its first bytes. If UTF-8 is expected, a
    byte-order mark of UTF-16 or UTF-32 is recognised too. The text comes out in UTF-8, or in its
    own encoding if that can be split into lines.
    """

    def __init__(
        self, name: str, encoding: Encoding, *, suffix: str = "", any_bytes: bool = False
    ) -> None:
        """Start a stream.

        name: its name in errors.
        encoding: of the text.
        suffix: of the file's name, which may show its compression.
        any_bytes: turn invalid UTF-16 into invalid UTF-8 instead of raising an error.
        """
        self._name = name
        self._any_bytes = any_bytes
        self._file = _Start(MAGIC, suffix if suffix in SUFFIXES else None)
        codec = "" if encoding.by_line else encoding.name
        self._text = _Start(_BOMS, None if encoding.name == "utf-8" else codec)
        self._decompressor: Decompressor | None = None
        self._packed = self._unpacked = 0  # bytes so far
        self._decoder: codecs.IncrementalDecoder | None = None

    def feed(self, block: bytes, *, final: bool = False) -> Iterator[bytes]:
        """Take bytes, the last ones with `final`, and yield the text decoded so far.

        The text comes in pieces that are not empty, because a few bytes may become much text.
        DataError if the compressed file is damaged, or the text not valid.
        """
        block = self._file.feed(block, final=final)
        kind = self._file.kind
        for piece in self._decompressed(block, kind, final=final) if kind else [block]:
            if text := self._decoded(piece):
                yield text
        if final and (text := self._decoded(b"", final=True)):
            yield text

    def _decoded(self, piece: bytes, *, final: bool = False) -> bytes:
        text = self._text.feed(piece, final=final)
        return self._transcoded(text, self._text.kind, final=final) if self._text.kind else text

    def _decompressed(self, block: bytes, kind: str, *, final: bool) -> Iterator[bytes]:
        try:
            if self._decompressor is None:
                self._decompressor = Decompressor(kind)
            self._packed += len(block)
            for piece in self._decompressor.feed(block):
                self._unpacked += len(piece)
                check_unpacked(self._name, self._packed, self._unpacked)
                yield piece
            if final:
                self._decompressor.finish()
        except DAMAGE as error:
            raise DataError(
                f"{self._name}: cut short or damaged ({error}); download or compress it again"
            ) from None

    def _transcoded(self, text: bytes, codec: str, *, final: bool) -> bytes:
        if self._decoder is None:
            errors = _MARK_INVALID if self._any_bytes else "strict"
            self._decoder = codecs.getincrementaldecoder(codec)(errors)
        try:
            decoded = self._decoder.decode(text, final=final)
            return decoded.encode(errors="surrogatepass" if self._any_bytes else "strict")
        except UnicodeError as error:
            raise DataError(
                f"{self._name}: not valid {codec}: {error}; pass another --encoding"
            ) from None


# First bytes of files that are not text.
_NOT_TEXT = {
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
    """Pass on the text of a file; DataError if its start shows that it is none."""
    first = next(chunks, b"")
    start = first[:_START_BYTES]
    kind = next((what for magic, what in _NOT_TEXT.items() if start.startswith(magic)), None)
    if start[8:10] == b'{"' and start[4:8] == bytes(4):  # JSON after its length
        kind = "safetensors, for example a model"
    if kind:
        raise DataError(f"{path}: not text but {kind}; give a text file")
    if encoding.by_line and (start.startswith(_UTF16_BOMS) or start.count(0) * 4 > len(start)):
        raise DataError(
            f"{path}: not {encoding.name} text; it looks like UTF-16: pass --encoding utf-16 (or "
            "utf-16-le or utf-16-be if it has no byte-order mark)"
        )
    # We refuse a file if more than 30 % (and more than 64) of its first 65,536 bytes are invalid or
    # control characters such as NUL. In models and pictures about 45 % are. Czech in ISO 8859-2,
    # read as UTF-8, has 12 % and is translated, like text with some NULs.
    strange = len(start) - len(start.translate(None, _CONTROLS))
    strange += start.decode(encoding.line_codec, "replace").count("\ufffd")
    if strange > max(64, 0.3 * len(start)):
        raise DataError(
            f"{path}: does not look like {encoding.name} text: {strange / len(start):.0%} of its "
            "start is control characters or invalid; pass --encoding if it is text"
        )
    yield first
    yield from chunks
