"""Reads a document of a type that its name says, as jobs do."""

from pathlib import Path

from nmt.data.corpus import Encoding
from nmt.markup.documents import Document
from nmt.markup.file_types import document_type


def read_document(name: str, content: str | bytes) -> Document:
    kind = document_type(Path(name))
    assert kind is not None
    raw = content if isinstance(content, bytes) else content.encode()
    return Document.read(Path(name), kind, raw, Encoding.find("utf-8"))
