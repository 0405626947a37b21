"""XML that declares no entities: those would let a file grow without bound, or read others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from xml.parsers import expat

from nmt.errors import DataError


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
