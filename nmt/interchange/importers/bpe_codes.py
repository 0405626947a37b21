"""Codes of subword-nmt and fastBPE as a SentencePiece model that segments alike.

In codes (Sennrich et al. 2016) a word is its characters, of which the last one is marked as the
end: `h`, `u`, `n`, `d</w>`. A line of the codes joins two parts, and what comes first is joined
first. As pieces of SentencePiece, the mark is `▁`, which stands for the space behind a word:

    codes            pieces, the best first
                     d▁ (a last character: to join it with its mark comes before all else)
    u n              un
    un d</w>         und▁
                     h u n d ▁ (characters)

SentencePiece joins two neighbours by the text that they give together, and subword-nmt by what they
are. So each piece must come from one pair only, and be joined from this pair in the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from nmt.data.pieces import SPECIAL, Kind, Piece, PieceModel
from nmt.data.vocabulary import READ_AS_UNK, STRANGE, Vocabulary, learn_vocabulary, read_parsed
from nmt.errors import DataError

_END, SPACE = "</w>", "\u2581"
_VERSION = b"#version:"
_BYTE_LEVEL = "Ġ"  # a space in codes that join bytes, such as those of GPT-2
JOINED = "@@"
"""Ends a subword inside a word, in text that was segmented."""
_SIGNS = [
    *map(chr, chain(range(0x21, 0x7F), range(0xA1, 0xC0), range(0x2010, 0x2028))),
    *"\u2030\u20ac\u2212\u0964\u060c\u061b\u061f\u06d4\u055d\u0589\u10fb\u1362\u17d4\u0e2f",
    *map(chr, chain(range(0x3001, 0x3020), range(0xFF01, 0xFF66))),
]
"""Signs that often stand alone, also of Arabic, Hindi, Chinese and others: no code has them."""


def read_codes(path: Path) -> Vocabulary | None:
    """Read a file of codes; None if it is of another kind. DataError: see `model_of_codes`."""
    if not path.is_file() or path.suffix == ".safetensors":
        return None
    return read_parsed(
        path, lambda raw: Vocabulary(model_of_codes(raw)) if is_bpe_codes(raw) else None
    )


def is_bpe_codes(content: bytes) -> bool:
    """Tell whether a file begins as codes do: with their version, or with two parts of words."""
    first, _, _ = content.partition(b"\n")
    fields = first.split(b" ")
    is_text = not any(byte < 32 for byte in first.rstrip(b"\r"))
    return first.startswith(_VERSION) or (
        is_text and (len(fields) == 2 or (len(fields) == 3 and fields[2].strip().isdigit()))
    )


def model_of_codes(
    content: bytes, listed: Sequence[str] | None = None, *, takes_apart: bool = True
) -> bytes:
    """Return codes as a serialised SentencePiece model with our special ids.

    content: of the file that `subword-nmt learn-bpe` or fastBPE wrote.
    listed: all subwords of a dictionary, such as `hu@@` and `nd`, in the order of their ids after
        the special ones. None: all are known and common signs too, and other characters that codes
        do not have are bytes.
    takes_apart: whether subwords that are not listed are taken apart, as subword-nmt does with its
        option `--vocabulary`. Otherwise they are unknown, and so are single letters in any case.
    DataError if these are no codes, or if SentencePiece would segment otherwise.
    """
    merges, ends_apart = _read(content)
    texts = None if listed is None else [_piece_text(subword) for subword in listed]
    bare = _SIGNS if texts is None else [text.rstrip(SPACE) for text in texts]
    letters = set("".join(chain(*merges))) | {text for text in bare if len(text) == 1}
    merged = {left + right: -1.0 - rank for rank, (left, right) in enumerate(merges)}
    singles = dict.fromkeys(sorted(letters - {SPACE}), -1.0 - len(merges))
    if not ends_apart:
        singles |= {letter + SPACE: 0.0 for letter in singles}
    start = basis().marking_word_ends(covers_all_text=texts is None)
    pieces = list(start.pieces[: len(SPECIAL)])
    if texts is None:
        pieces += start.pieces[len(SPECIAL) : len(SPECIAL) + 256]
        # The mark stays behind a character that is written as bytes.
        scores = merged | singles | {SPACE: -1.0 - len(merges)}
        pieces += (Piece(text, score) for text, score in scores.items())
    else:
        scores = merged | singles
        for text in texts:
            strange = Piece(STRANGE + text, kind=Kind.UNUSED)
            pieces.append(Piece(text, scores.pop(text)) if text in scores else strange)
        pieces.append(Piece(READ_AS_UNK, kind=Kind.CONTROL))
        # SentencePiece takes UNUSED ones apart.
        pieces += (
            Piece(text, score, Kind.UNUSED if takes_apart and text in merged else Kind.NORMAL)
            for text, score in scores.items()
        )
    model = start.with_only(pieces).write()
    _check(model, merges)
    return model


def basis() -> PieceModel:
    """Return a model that changes no text but tabs, to which pieces are given."""
    size = len(SPECIAL) + 256 + 2  # bytes, a letter and the mark
    return PieceModel.read(learn_vocabulary(["a"], vocab_size=size, normalization="identity").model)


def _piece_text(subword: str) -> str:
    """Return a subword as a piece: `hu@@` is `hu`, and `nd` is `nd▁`; `@@` alone is a word."""
    is_part = subword.endswith(JOINED) and subword != JOINED
    return subword.removesuffix(JOINED) if is_part else subword + SPACE


def _read(content: bytes) -> tuple[list[tuple[str, str]], bool]:
    """Return the pairs with `▁` for the end of a word, and whether this is a part of its own.

    That is so in version 0.1, which had no line that names it.
    """
    try:
        lines = content.decode("utf-8-sig").replace("\r\n", "\n").rstrip("\n").split("\n")
    except UnicodeDecodeError:
        raise DataError("no BPE codes: not valid UTF-8") from None
    is_named = lines[0].startswith(_VERSION.decode())
    pairs = dict[tuple[str, str], None]()
    has_counts = False
    for number, line in list(enumerate(lines, start=1))[is_named:]:
        parts = line.strip("\r\n ").split(" ")
        if len(parts) == 3 and parts[2].isdigit() and not is_named:
            has_counts = True  # of fastBPE
            del parts[2]
        if len(parts) != 2:
            raise DataError(f"no BPE codes: line {number} has {len(parts)} parts, and not two")
        left, right = (part.removesuffix(_END) + SPACE * part.endswith(_END) for part in parts)
        if SPACE not in (left + right)[:-1]:  # which nmt takes for a space
            pairs[left, right] = None
    if not any(right.endswith(SPACE) for _, right in pairs):
        kind = "of bytes, as GPT-2 has them" if _BYTE_LEVEL in content.decode() else "of others"
        raise DataError(f"BPE codes {kind}: no part is marked as the end of a word ({_END})")
    return list(pairs), not (is_named or has_counts)


def _check(model: bytes, merges: Sequence[tuple[str, str]]) -> None:
    """Check that each piece is joined from the pair of the codes in the end."""
    vocabulary = Vocabulary(model)
    pieces = vocabulary.pieces
    found = {
        text: (pieces[left], pieces[right])
        for text, (left, right) in zip(pieces, vocabulary.merges(), strict=True)
    }
    for left, right in merges:
        if found[left + right] != (left, right):
            text = (left + right).replace(SPACE, _END)
            raise DataError(
                f"BPE codes join {text!r} in several ways, which SentencePiece cannot; segment the "
                "text with subword-nmt, and let prepare learn a vocabulary"
            )
