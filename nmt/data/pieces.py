"""SentencePiece models as lists of pieces, to put the pieces in another order.

It serves models that were trained elsewhere. Their ids are in another order than ours, and two
SentencePiece models may share one numbering.

A SentencePiece model is a protocol buffer. We change the few fields of pieces, and all other bytes
stay.
"""

from __future__ import annotations

import struct
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property
from typing import NamedTuple

from nmt.data.protobuf import FIXED32, VARINT, read_fields, write_field, write_key, write_varint
from nmt.data.vocabulary import BOS_ID, EOS_ID, PAD_ID, READ_AS_UNK, STRANGE, UNK_ID
from nmt.errors import DataError


class Kind(IntEnum):
    """Kinds of pieces, numbered as in SentencePiece."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


class Piece(NamedTuple):
    text: str
    score: float = 0.0
    kind: Kind = Kind.NORMAL


SPECIAL = {
    PAD_ID: Piece("<pad>", kind=Kind.CONTROL),
    UNK_ID: Piece("<unk>", kind=Kind.UNKNOWN),
    BOS_ID: Piece("<s>", kind=Kind.CONTROL),
    EOS_ID: Piece("</s>", kind=Kind.CONTROL),
}
"""The first pieces of every vocabulary of ours, by id."""

# Numbers of fields, from sentencepiece_model.proto.
_PIECES, _TRAINER, _NORMALIZER = 1, 2, 3
_NAME, _CHARSMAP = 1, 2
_TEXT, _SCORE, _KIND = 1, 2, 3
_MODEL_TYPE, _BPE, _WORD = 3, 2, 3
_VOCAB_SIZE, _SUFFIX_SPACE, _BYTE_FALLBACK = 4, 24, 35
_IDS = {40: UNK_ID, 41: BOS_ID, 42: EOS_ID, 43: PAD_ID}
_TEXTS = {45: UNK_ID, 46: BOS_ID, 47: EOS_ID, 48: PAD_ID}


@dataclass(frozen=True)
class PieceModel:
    """A SentencePiece model: its pieces in the order of their ids, and all other fields."""

    pieces: tuple[Piece, ...]
    trainer: bytes
    rest: bytes
    serialised: bytes = b""  # as it was read, if nothing has changed

    @classmethod
    def read(cls, model: bytes) -> PieceModel:
        """Read a serialised model; DataError if it is none."""
        pieces, trainer, rest = list[Piece](), b"", b""
        try:
            for number, content, raw in read_fields(model):
                if number == _PIECES:
                    pieces.append(_piece(content))
                elif number == _TRAINER:
                    trainer += content
                else:
                    rest += raw
        except (ValueError, IndexError, struct.error):
            raise DataError("not a SentencePiece model") from None
        if not pieces:
            raise DataError("not a SentencePiece model")
        return cls(tuple(pieces), trainer, rest, model)

    def write(self) -> bytes:
        if self.serialised:
            return self.serialised
        pieces = (
            write_field(_TEXT, piece.text.encode())
            + write_key(_SCORE, FIXED32)
            + struct.pack("<f", piece.score)
            + (b"" if piece.kind is Kind.NORMAL else _number(_KIND, piece.kind))
            for piece in self.pieces
        )
        listed = b"".join(write_field(_PIECES, piece) for piece in pieces)
        return listed + write_field(_TRAINER, self.trainer) + self.rest

    @property
    def is_bpe(self) -> bool:
        """Whether lines are segmented by byte-pair encoding."""
        types = [raw for number, _, raw in read_fields(self.trainer) if number == _MODEL_TYPE]
        return bool(types) and types[-1] == _number(_MODEL_TYPE, _BPE)

    @property
    def charsmap(self) -> bytes:
        """The compiled rules that normalise text; empty if there are none."""
        return self._last_of_normalizer(_CHARSMAP)

    @property
    def normalization(self) -> str:
        """The name of the rules that normalise text; user_defined if they are the trainer's."""
        return self._last_of_normalizer(_NAME).decode()

    def _last_of_normalizer(self, field: int) -> bytes:
        """Return a field of the rules; empty if there is none."""
        for number, content, _ in read_fields(self.rest):
            if number == _NORMALIZER:
                values = [value for kind, value, _ in read_fields(content) if kind == field]
                return values[-1] if values else b""
        return b""

    @cached_property
    def own(self) -> dict[str, Piece]:
        """The pieces that text is segmented into, by their text."""
        kinds = (Kind.NORMAL, Kind.USER_DEFINED, Kind.BYTE)
        return {piece.text: piece for piece in self.pieces if piece.kind in kinds}

    def with_pieces(self, added: Sequence[Piece]) -> PieceModel:
        """Return the model with more pieces at the end, but before those that are read as unk."""
        texts = [piece.text for piece in self.pieces]
        end = texts.index(READ_AS_UNK) if READ_AS_UNK in texts else len(texts)
        return self.with_only((*self.pieces[:end], *added, *self.pieces[end:]))

    def marking_word_ends(self, *, covers_all_text: bool) -> PieceModel:
        """Return the model with `▁` behind a word, not before it, and with or without bytes."""
        fields = _number(_SUFFIX_SPACE, True) + _number(_BYTE_FALLBACK, covers_all_text)
        return self.with_only(self.pieces, fields)

    def of_words(self, words: Sequence[str]) -> PieceModel:
        """Return a model with our special pieces that cuts text at spaces, and no further."""
        pieces = (*SPECIAL.values(), *(Piece(f"\u2581{word}") for word in words))
        return self.with_only(pieces, _number(_MODEL_TYPE, _WORD) + _number(_BYTE_FALLBACK, False))

    def padded(self, multiple: int) -> PieceModel:
        """Return the model with UNUSED pieces at the end, up to a multiple of this number."""
        size = len(self.pieces) + -len(self.pieces) % multiple
        if size == len(self.pieces):
            return self
        names = (f"{STRANGE}<row {id_}>" for id_ in range(len(self.pieces), size))
        return self.with_only((*self.pieces, *(Piece(name, kind=Kind.UNUSED) for name in names)))

    def extends(self, other: PieceModel) -> bool:
        """Whether this is the other model, perhaps with more pieces."""
        known = set(other.pieces)
        same = tuple(piece for piece in self.pieces if piece in known) == other.pieces
        return same and self.rest == other.rest and self.trainer.startswith(other.trainer)

    def renumbered(self) -> PieceModel:
        """Return a model that segments alike, with our special pieces first."""
        names = {piece.text for piece in SPECIAL.values()}
        known = (piece for piece in self.pieces if piece.kind is not Kind.UNKNOWN)
        kept = [piece for piece in known if piece.text not in names]
        controls = {piece.text for piece in kept if piece.kind is Kind.CONTROL}
        return self.reordered([piece.text for piece in kept], controls)

    def reordered(
        self, texts: Sequence[str], controls: Container[str] = (), symbols: Container[str] = ()
    ) -> PieceModel:
        """Return a model that segments alike, with our special pieces first and these after them.

        texts: of all other pieces, by id; every own piece is among them.
        controls: those that become control pieces.
        symbols: those that become user-defined pieces. Others that are not own ones become UNUSED.
        """
        own, prefix = self.own, STRANGE if self.is_bpe else ""
        pieces = [*SPECIAL.values()]
        for text in texts:
            if text in controls:
                pieces.append(Piece(text, kind=Kind.CONTROL))
            elif text in symbols:
                pieces.append(Piece(text, kind=Kind.USER_DEFINED))
            else:
                pieces.append(own.get(text, Piece(prefix + text, kind=Kind.UNUSED)))
        if tuple(pieces) == self.pieces:
            return self
        numbers = (_number(field, id_) for field, id_ in _IDS.items())
        names = (write_field(field, SPECIAL[id_].text.encode()) for field, id_ in _TEXTS.items())
        return self.with_only(pieces, b"".join((*numbers, *names)))

    def with_only(self, pieces: Sequence[Piece], fields: bytes = b"") -> PieceModel:
        """Return the model with these pieces, by id.

        fields: for its trainer; of the same field, the last value counts.
        """
        trainer = self.trainer + _number(_VOCAB_SIZE, len(pieces)) + fields
        return replace(self, pieces=tuple(pieces), trainer=trainer, serialised=b"")


def _piece(message: bytes) -> Piece:
    text, score, kind = "", 0.0, Kind.NORMAL
    for number, content, raw in read_fields(message):
        match number:
            case 1:
                text = content.decode()
            case 2:
                (score,) = struct.unpack("<f", content)
            case 3:
                kind = Kind(raw[1])
    return Piece(text, score, kind)


def _number(field: int, value: int) -> bytes:
    return write_key(field, VARINT) + write_varint(value)
