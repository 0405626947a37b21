"""The text of an XML file in UTF-8, with the characters that XML does not allow in disguise.

Translation tools write such characters nonetheless, such as `&#x1F;` for the soft hyphen of a word
processor, and a parser stops at the first one. So control characters and invalid bytes pass the
parser as noncharacters of Unicode, which are legal and which no text has. `restore` gives them
back. What is not a character at all becomes U+FFFD.

Source: the production Char of XML 1.0, https://www.w3.org/TR/xml/#charsets.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from nmt.data.corpus import Encoding, read_chunks
from nmt.errors import DataError, UsageError

_BYTES = Encoding.find("iso-8859-1")  # leaves bytes as they are
_UTF8 = Encoding.find("utf-8")
_START_BYTES = 256
_DECLARED = re.compile(rb"\s*<\?xml[^>]*?\sencoding\s*=\s*[\"']([^\"']*)")
_WITHOUT_BOM = {b"<\0?\0": "utf-16-le", b"\0<\0?": "utf-16-be"}

_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r"))
_DISGUISE = 0xFDD0
"""Of NUL. U+FDD0 to U+FDEF are noncharacters, as many as there are control characters."""
_INVALID = chr(_DISGUISE + ord("\t"))
"""The disguise of bytes that are not text. A tab is legal, so its place is free."""
_RESTORED = {_DISGUISE + code: chr(code) for code in _CONTROLS} | {ord(_INVALID): "\udcff"}
_MARK = b"\xef\xb7"
"""How the disguises begin in UTF-8. Arabic ligatures begin like that, too."""
_NONCHARACTER = re.compile(rb"\xef(?:\xb7|\xbf[\xbe\xbf])")
_ILLEGAL = re.compile(r"[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")

_REFERENCE = re.compile(
    rb"&#(?:x0*(1?[0-9A-Fa-f]|[DFdf][0-9A-Fa-f]{3}|[0-9A-Fa-f]{6,20})"
    rb"|0*([12]?[0-9]|3[01]|[56][0-9]{4}|[0-9]{7,20}));"
)
"""To a number of which some are illegal; a pattern for all numbers would be slower."""
_LONGEST_REFERENCE = 24
_INCOMPLETE = re.compile(rb"(?:&[^;&<]*|[\xc2-\xf4][\x80-\xbf]{0,2})\Z")
"""A reference or a character of which the next chunk may have the rest."""


def read_xml(path: Path, watch: Callable[[bytes], object]) -> Iterator[bytes]:
    """Yield the text of a file, in UTF-8 whatever encoding it declares.

    watch: called with the raw bytes of the file, before decompression.
    DataError if the encoding is unknown.
    """
    start = incomplete = b""
    for chunk in read_chunks(path, _BYTES, any_bytes=True):
        start += chunk
        if len(start) >= _START_BYTES:
            break
    for chunk in read_chunks(path, _encoding(path, start), watch=watch, any_bytes=True):
        chunk = incomplete + chunk
        cut = _INCOMPLETE.search(chunk, max(len(chunk) - _LONGEST_REFERENCE, 0))
        end = cut.start() if cut else len(chunk)
        incomplete = chunk[end:]
        yield _disguise(chunk[:end])
    yield _disguise(incomplete)


def restore(text: str) -> bytes:
    """Return text of the parser in UTF-8, with its control characters, and \\xff for bad bytes."""
    raw = text.encode()
    if _MARK in raw:
        return text.translate(_RESTORED).encode(errors="surrogateescape")
    return raw


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


def _disguise(chunk: bytes) -> bytes:
    if not _is_legal(chunk):
        text = chunk.decode(errors="surrogateescape")
        chunk = _ILLEGAL.sub(lambda match: _disguise_of(ord(match[0])), text).encode()
    return _REFERENCE.sub(_disguise_reference, chunk) if b"&#" in chunk else chunk


def _is_legal(chunk: bytes) -> bool:
    if len(chunk.translate(None, _CONTROLS)) < len(chunk):
        return False
    try:
        text = chunk.decode()
    except UnicodeDecodeError:
        return False
    return text.isascii() or not _NONCHARACTER.search(chunk)


def _disguise_reference(reference: re.Match[bytes]) -> bytes:
    code = int(reference[1], 16) if reference[1] else int(reference[2])
    is_legal = code <= sys.maxunicode and not _ILLEGAL.match(chr(code))
    return reference[0] if is_legal else _disguise_of(code).encode()


def _disguise_of(code: int) -> str:
    if code < 32:
        return chr(_DISGUISE + code)
    return _INVALID if 0xDC80 <= code <= 0xDCFF else "\ufffd"  # a byte, or no character
