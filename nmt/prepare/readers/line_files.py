"""Text with one file for each side: `PREFIX.en` and `PREFIX.de`, also inside a ZIP of OPUS."""

from __future__ import annotations

import codecs
import contextlib
import hashlib
import re
import zipfile
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import IO, NamedTuple

from nmt import console
from nmt.data.compressed import DAMAGE, check_unpacked
from nmt.data.corpus import Encoding, TextStream, read_chunks, split_lines
from nmt.data.languages import of_country, variant_rank
from nmt.data.line_blocks import CHUNKS_AHEAD, Advance, Lines
from nmt.data.manifest import FileRecord, record_file
from nmt.errors import DataError
from nmt.prepare.block import Block
from nmt.system.files import refuse_pointer
from nmt.system.prefetch import prefetched
from nmt.tables.formats import FileRequest

MAX_BAD_SHARE = 0.1
"""A larger share of bad lines means another encoding or other columns, not a few accidents."""
_CHUNK_BYTES = 1 << 20
_LISTS = (".ids", ".xml")  # of documents, in archives of OPUS
_LINK = re.compile(rb'<link\b[^>]*\bxtargets="[^";]+;[^";]+"')


class Survey(NamedTuple):
    """What reading a text once has shown of it, or of one of its sides."""

    record: FileRecord
    lines: int
    text_bytes: int  # size of the text, uncompressed
    warnings: tuple[str, ...]  # what is odd about it


class LineFiles(ABC):
    """A text whose two sides are read in step."""

    files: tuple[Path, ...]  # all that are read
    encoding: Encoding
    unit = "line"  # what holds a pair
    columns = ()
    quoted = False

    @property
    @abstractmethod
    def sides(self) -> tuple[str, str]:
        """What messages call the source and the target."""

    @abstractmethod
    def chunks(self, side: int) -> Iterator[bytes]:
        """Yield the text of a side in pieces of any size."""

    def surveys(self) -> Sequence[Callable[[Advance], Survey]]:
        """Return functions that read the text once: one for each side."""
        return [partial(self._survey, side) for side in (0, 1)]

    @abstractmethod
    def _survey(self, side: int, advance: Advance) -> Survey:
        """Read a side once."""

    def _survey_text(self, side: int, chunks: Iterator[bytes]) -> tuple[int, int, tuple[str, ...]]:
        """Return the lines of a side, its size, and what is odd about its encoding (DataError)."""
        lines = text_bytes = 0
        last = b""
        validity = Validity(self.encoding)
        for chunk in chunks:
            lines += chunk.count(b"\n")
            text_bytes += len(chunk)
            last = chunk[-1:] or last
            validity.look_at(chunk)
        lines += last not in (b"", b"\n")  # a last line without a line feed counts
        if not validity.ends_well():
            for number, line in enumerate(split_lines(self.chunks(side)), start=1):
                if self.encoding.decode(line, number=number) is None:
                    validity.count_bad(number)
        return lines, text_bytes, validity.warnings(self.sides[side], lines, "line")

    def blocks(self, *, corpus: int = 0, start: int = 1) -> Iterator[Block]:
        """Yield the lines from `start` on; DataError if one side ends before the other.

        The ends of blocks depend only on the bytes of the text and on `start`.
        """
        sides = [
            Lines(name, prefetched(self.chunks(side), ahead=CHUNKS_AHEAD))
            for side, name in enumerate(self.sides)
        ]
        number = 1
        while lines := min(side.ready() for side in sides):
            if number < start:
                lines = min(lines, start - number)
            src, tgt = (side.take(lines) for side in sides)
            if number >= start:
                yield Block(corpus, number, lines, src, tgt, self.encoding)
            number += lines
        if any(side.ready() for side in sides):
            shorter = self.sides[1] if sides[0].ready() else self.sides[0]
            raise DataError(
                f"{shorter} ends after line {number - 1:,}, but its other side does not; both "
                "sides of a parallel text need one line for each pair"
            )


@dataclass(frozen=True)
class MosesFiles(LineFiles):
    files: tuple[Path, Path]
    encoding: Encoding

    @property
    def sides(self) -> tuple[str, str]:
        src, tgt = map(str, self.files)
        return src, tgt

    def chunks(self, side: int) -> Iterator[bytes]:
        return read_chunks(self.files[side], self.encoding)

    def _survey(self, side: int, advance: Advance) -> Survey:
        sha256, size = hashlib.sha256(), 0

        def watch(content: bytes) -> None:
            nonlocal size
            sha256.update(content)
            size += len(content)
            advance(len(content))

        chunks = read_chunks(self.files[side], self.encoding, watch=watch)
        lines, text_bytes, warnings = self._survey_text(side, chunks)
        record = FileRecord(self.files[side].name, size, sha256.hexdigest())
        return Survey(record, lines, text_bytes, warnings)


@dataclass(frozen=True)
class ZipFiles(LineFiles):
    """Two files of a ZIP archive, as OPUS has them."""

    files: tuple[Path]
    members: tuple[str, str]
    encoding: Encoding
    pairs: int = 0  # that its list of documents has; 0 if there is none, or nobody asks
    starts: tuple[int, ...] = ()  # the numbers of lines that begin a document

    @classmethod
    def find(cls, request: FileRequest) -> ZipFiles:
        """Find the files of both languages; DataError if there is not one of each."""
        path = request.path
        with open_zip(path) as archive:
            members = own_members(archive)
            found = []
            for lang in request.langs:
                of_lang = members_of(members, lang)
                if len(of_lang) != 1:
                    listed = ", ".join(member.filename for member in (of_lang or members)[:8])
                    raise DataError(
                        f"{path}: must have one file that ends with .{lang}; it has "
                        f"{listed or 'none'}{of_country(lang)}"
                    )
                check_unpacked(str(path), of_lang[0].compress_size, of_lang[0].file_size)
                found.append(of_lang[0].filename)
            files = cls((path,), (found[0], found[1]), request.encoding)
            lists = [member for member in members if member.filename.endswith(_LISTS)]
            if not request.documents:
                return files
            if len(lists) != 1:
                console.notice(f"{request.name}: has no .ids, so it is read as one document")
                return files
            check_unpacked(str(path), lists[0].compress_size, lists[0].file_size)
            with archive.open(lists[0]) as file:
                documents = list(_documents(file, lists[0].filename))
        following = enumerate(pairwise(documents), start=2)
        starts = tuple(number for number, (before, its) in following if before != its)
        return replace(files, pairs=len(documents), starts=starts)

    @property
    def sides(self) -> tuple[str, str]:
        src, tgt = self.members
        return f"{self.files[0]}:{src}", f"{self.files[0]}:{tgt}"

    def chunks(self, side: int) -> Iterator[bytes]:
        text, path = TextStream(self.sides[side], self.encoding), self.files[0]
        with open_zip(path) as archive, archive.open(self.members[side]) as file:
            while content := file.read(_CHUNK_BYTES):
                yield from text.feed(content)
        yield from text.feed(b"", final=True)

    def blocks(self, *, corpus: int = 0, start: int = 1) -> Iterator[Block]:
        for block in super().blocks(corpus=corpus, start=start):
            ends = (block.number, block.number + block.lines)
            first, last = (bisect_left(self.starts, number) for number in ends)
            yield replace(block, starts=self.starts[first:last])

    def _survey(self, side: int, advance: Advance) -> Survey:
        def watched() -> Iterator[bytes]:
            for chunk in self.chunks(side):
                yield chunk
                advance(0)

        record = record_file(self.files[0])
        survey = self._survey_text(side, watched())
        advance(record.size // 2)
        if self.pairs and self.pairs != survey[0]:
            raise DataError(
                f"{self.sides[side]} has {survey[0]:,} lines, but the archive lists the documents "
                f"of {self.pairs:,}; leave out --documents"
            )
        return Survey(record, *survey)


@dataclass(frozen=True)
class TextInMemory(LineFiles):
    """A text that is held as a whole: the segments of a test set, or pairs that were drawn."""

    names: tuple[str, str]  # of the sides
    texts: tuple[bytes, bytes]
    files: tuple[Path, ...]  # one for each side, one for both, or none
    unit: str
    encoding = Encoding.find("utf-8")

    @classmethod
    def of(
        cls,
        names: tuple[str, str],
        sides: Iterable[Sequence[str]],
        *,
        files: tuple[Path, ...] = (),
        unit: str = "line",
    ) -> TextInMemory:
        """Return the text of the lines of both sides."""
        src, tgt = ("".join(f"{line}\n" for line in lines).encode() for lines in sides)
        return cls(names, (src, tgt), files, unit)

    @property
    def sides(self) -> tuple[str, str]:
        return self.names

    def chunks(self, side: int) -> Iterator[bytes]:
        yield self.texts[side]

    def _survey(self, side: int, advance: Advance) -> Survey:
        text = self.texts[side]
        record = FileRecord(self.names[side], len(text), hashlib.sha256(text).hexdigest())
        if self.files:
            record = record_file(self.files[min(side, len(self.files) - 1)])
            advance(record.size // (3 - len(self.files)))
        return Survey(record, *self._survey_text(side, self.chunks(side)))


@contextlib.contextmanager
def open_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open an archive; DataError if it, or what is read of it, is damaged."""
    try:
        with path.open("rb") as file:
            refuse_pointer(path, file.peek())
            with zipfile.ZipFile(file) as archive:
                yield archive
    # RuntimeError: it is encrypted, or of another version or compression.
    except (*DAMAGE, zipfile.BadZipFile, RuntimeError) as error:
        if getattr(error, "errno", None):  # of the system, such as a full disk
            raise
        raise DataError(
            f"{path}: cannot be read as a ZIP archive ({error}); download it again"
        ) from None


def own_members(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    """Return the files of an archive, without what macOS adds to each."""
    members = (member for member in archive.infolist() if not member.is_dir())
    return [member for member in members if not member.filename.startswith("__MACOSX/")]


def members_of(members: Sequence[zipfile.ZipInfo], lang: str) -> list[zipfile.ZipInfo]:
    """Return the files that end with a code of a language, as near to the given one as there is."""
    exact = [member for member in members if member.filename.endswith(f".{lang}")]
    named = [(member, Path(member.filename).suffix[1:]) for member in members]
    ranks = [(variant_rank(code, lang), member) for member, code in named if code and not exact]
    serving = [(rank, member) for rank, member in ranks if rank is not None]
    best = min((rank for rank, _ in serving), default=0)
    return exact or [member for rank, member in serving if rank == best]


def _documents(file: IO[bytes], name: str) -> Iterator[bytes | int]:
    """Yield what names the document of each pair, in a list of OPUS.

    A line of .ids is a pair: its two documents, and the ids of its sentences. In .xml, a group of
    links is a document, and links without a source or a target are no pairs.
    """
    group = 0
    for line in file:
        if name.endswith(".ids"):
            yield line[: line.find(b"\t", line.find(b"\t") + 1)]
        elif b"<linkGrp" in line:
            group += 1
        elif _LINK.search(line):
            yield group


class Validity:
    """Checks whether a stream of bytes is valid text, without splitting lines."""

    def __init__(self, encoding: Encoding) -> None:
        self._encoding = encoding
        names = {encoding.line_codec, "utf-8"}
        # Those by whose codecs everything has been valid so far.
        self._decoders = {name: codecs.getincrementaldecoder(name)() for name in names}
        self._is_beyond_ascii = False
        self._bad = self._first_bad = 0

    def look_at(self, chunk: bytes, *, final: bool = False) -> None:
        for name, decoder in [*self._decoders.items()]:
            try:
                text = decoder.decode(chunk, final)
            except UnicodeError:
                del self._decoders[name]
            else:
                self._is_beyond_ascii |= name == "utf-8" and not text.isascii()

    def ends_well(self) -> bool:
        self.look_at(b"", final=True)
        return self._encoding.line_codec in self._decoders

    def count_bad(self, number: int) -> None:
        """Count a line, by its number, that is not valid."""
        self._bad += 1
        self._first_bad = self._first_bad or number

    def warnings(self, name: str, lines: int, unit: str) -> tuple[str, ...]:
        """Return what is odd about so many lines; DataError if too many are not valid."""
        warnings, codec = [], self._encoding.name
        if self._bad:
            warnings.append(
                f"{name} {unit} {self._first_bad:,} is not valid {codec} "
                f"({self._bad:,} of {lines:,} {unit}s are not)"
            )
            if self._bad > MAX_BAD_SHARE * lines:
                raise DataError(
                    f"{warnings[0]}; pass --encoding, for example --encoding windows-1252"
                )
        self.look_at(b"", final=True)
        is_utf8 = "utf-8" in self._decoders and self._is_beyond_ascii
        if is_utf8 and self._encoding.by_line and codec != "utf-8":
            warnings.append(f"{name} is valid UTF-8 but is read as {codec}; check --encoding")
        return tuple(warnings)
