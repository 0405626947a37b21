"""Protocol buffers, as far as SentencePiece models need them: a message as a list of its fields.

We read and write fields ourselves: the classes that SentencePiece ships work only with the newest
protobuf.
"""

from __future__ import annotations

from collections.abc import Iterator

VARINT, BYTES, FIXED32 = 0, 2, 5  # how the content of a field is written


def read_fields(message: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield the number, content and all bytes of each field; a varint's content is empty.

    ValueError, IndexError: if it is not a message.
    """
    place = 0
    while place < len(message):
        start = place
        key, place = _read_varint(message, place)
        size = 0
        match key & 7:
            case 0:
                _, place = _read_varint(message, place)
            case 1:
                size = 8
            case 2:
                size, place = _read_varint(message, place)
            case 5:
                size = 4
            case _:
                raise ValueError("unknown type of field")
        end = place + size
        if end > len(message):
            raise ValueError("cut short")
        yield key >> 3, message[place:end], message[start:end]
        place = end


def _read_varint(message: bytes, place: int) -> tuple[int, int]:
    """Return a number of 7 bits a byte, and the place after it."""
    value = shift = 0
    while True:
        byte = message[place]
        value |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return value, place
        if shift > 63:
            raise ValueError("number too long")


def write_varint(value: int) -> bytes:
    """Return a number of 7 bits a byte."""
    written = bytearray()
    while value > 127:
        written.append(value & 127 | 128)
        value >>= 7
    return bytes([*written, value])


def write_key(number: int, kind: int) -> bytes:
    """Return the beginning of a field."""
    return write_varint(number << 3 | kind)


def write_field(number: int, content: bytes) -> bytes:
    return write_key(number, BYTES) + write_varint(len(content)) + content
