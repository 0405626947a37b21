"""XML that declares no entities: those would let a file grow without bound, or read others.

Source: the production Char of XML 1.0, https://www.w3.org/TR/xml/#charsets.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from xml.parsers import expat

from nmt.data.corpus import Encoding, read_chunks
from nmt.errors import DataError, UsageError

BYTES = Encoding.find("iso-8859-1")  # leaves bytes as they are
_UTF8 = Encoding.find("utf-8")
_START_BYTES = 256
_DECLARED = re.compile(rb"\s*<\?xml[^>]*?\sencoding\s*=\s*[\"']([^\"']*)")
_WITHOUT_BOM = {b"<\0?\0": "utf-16-le", b"\0<\0?": "utf-16-be"}

_ILLEGAL = re.compile(rb"[\0-\x08\x0b\x0c\x0e-\x1f]|\xed[\xa0-\xbf][\x80-\xbf]|\xef\xbf[\xbe\xbf]")
"""Control characters, surrogates, U+FFFE and U+FFFF, in UTF-8."""
_REPLACEMENT = "\ufffd".encode()
_REFERENCE = re.compile(
    rb"&#(?:x0*(1?[0-9A-Fa-f]|[DFdf][0-9A-Fa-f]{3}|[0-9A-Fa-f]{6,20})"
    rb"|0*([12]?[0-9]|3[01]|[56][0-9]{4}|[0-9]{7,20}));"
)
"""To a number of which some are illegal; a pattern for all numbers would be slower."""
_LONGEST_REFERENCE = 24
_INCOMPLETE = re.compile(rb"(?:&[^;&<]*|[\xed\xef][\x80-\xbf]?)\Z")
"""A reference or a character of which the next chunk may have the rest."""


def xml_parser(
    start: Callable[[str, dict[str, str]], object],
    end: Callable[[str], object],
    characters: Callable[[str], object],
    encoding: str | None = None,
) -> expat.XMLParserType:
    """Return a parser with these handlers; encoding: of all files, whatever they declare."""
    parser = expat.ParserCreate(encoding)
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = characters
    return parser


def read_xml(
    path: Path, parser: expat.XMLParserType, chunks: Iterable[bytes], *, remedy: str
) -> None:
    """Pass a file through a parser, as `feed_xml` does."""
    for _ in feed_xml(path, parser, chunks, remedy=remedy):
        pass


def feed_xml(
    path: Path, parser: expat.XMLParserType, chunks: Iterable[bytes], *, remedy: str
) -> Iterator[None]:
    """Pass a file through a parser, which has its handlers, and yield after each chunk.

    It yields once more at the end, for which newer versions of expat may keep some of the file.

    path: its name; parser: of expat; chunks: the bytes of the file; remedy: what to do if it is
    damaged.
    DataError if it is not valid XML, or uses or declares an entity.
    """

    def refuse(entity: str, *_: object) -> None:
        raise DataError(
            f"{path}: uses the entity &{entity};, which it does not need; replace it by its text"
        )

    parser.EntityDeclHandler = parser.SkippedEntityHandler = refuse
    try:
        for chunk in chunks:
            parser.Parse(chunk, False)
            yield
        parser.Parse(b"", True)
        yield
    except expat.ExpatError as error:
        reason = expat.errors.messages.get(error.code, "damaged")
        raise DataError(
            f"{path} line {error.lineno:,}: not valid XML ({reason}); {remedy}"
        ) from None
    except (LookupError, ValueError) as error:  # it names an encoding that Python cannot read
        raise DataError(f"{path}: {error}; convert it to UTF-8") from None


def legal_xml(path: Path, watch: Callable[[bytes], object]) -> Iterator[bytes]:
    """Yield the text of a file, in UTF-8 whatever encoding it declares, without illegal characters.

    Those become U+FFFD. Translation tools write them nonetheless, such as `&#x1F;` for the soft
    hyphen of a word processor, and a parser stops at the first one.

    watch: called with the raw bytes of the file, before decompression.
    DataError if the encoding is unknown.
    """
    start = incomplete = b""
    for chunk in read_chunks(path, BYTES, any_bytes=True):
        start += chunk
        if len(start) >= _START_BYTES:
            break
    for chunk in read_chunks(path, _encoding(path, start), watch=watch, any_bytes=True):
        chunk = incomplete + chunk
        cut = _INCOMPLETE.search(chunk, max(len(chunk) - _LONGEST_REFERENCE, 0))
        end = cut.start() if cut else len(chunk)
        incomplete = chunk[end:]
        yield _without_illegal(chunk[:end])
    yield _without_illegal(incomplete)


def _encoding(path: Path, start: bytes) -> Encoding:
    """Return the encoding of a file by its first bytes."""
    if start[:4] in _WITHOUT_BOM:
        return Encoding.find(_WITHOUT_BOM[start[:4]])
    declared = _DECLARED.match(start)
    if declared is None:
        return _UTF8  # or UTF-16 with a byte-order mark, which is recognised
    name = declared[1].decode("ascii", "replace")
    try:
        encoding = Encoding.find(name)
    except UsageError:
        raise DataError(f"{path}: its encoding {name!r} is unknown; export it in UTF-8") from None
    # A declaration of UTF-16 that is not in UTF-16 is left over from before a conversion.
    is_utf8 = encoding.name == "utf-8" or encoding.name.startswith(("utf-16", "utf-32"))
    return _UTF8 if is_utf8 else Encoding(encoding.name, by_line=False)


def _without_illegal(chunk: bytes) -> bytes:
    chunk = _ILLEGAL.sub(_REPLACEMENT, chunk)
    return _REFERENCE.sub(_legal, chunk) if b"&#" in chunk else chunk


def _legal(reference: re.Match[bytes]) -> bytes:
    code = int(reference[1], 16) if reference[1] else int(reference[2])
    if code > sys.maxunicode:
        return _REPLACEMENT
    is_legal = not _ILLEGAL.match(chr(code).encode(errors="surrogatepass"))
    return reference[0] if is_legal else _REPLACEMENT
