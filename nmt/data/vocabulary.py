"""Subword vocabularies: the only module that uses SentencePiece.

We learn subwords with fixed special ids and byte fallback. No line needs `<unk>`, and decoding
gives the line back, up to NFC, tabs, runs of spaces, edge spaces and U+2581. A tab is a space. The
vocabulary is the serialised SentencePiece model; data folders and model files contain its bytes.

SentencePiece learns no piece with characters of two Unicode scripts, so that punctuation stays
apart. To keep modifier letters of script Common in their words, such as the U+02BB of Tongan, the
trainer sees signs of script Inherited in place of them, and the learnt pieces get them back.
"""

from __future__ import annotations

import contextlib
import copy
import io
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import sentencepiece

from nmt.data.composition import NFC, compose, rules_as_tsv
from nmt.data.moses import Moses
from nmt.data.protobuf import read_fields, write_field
from nmt.data.words import MODIFIERS, WordEdges
from nmt.errors import DataError, UsageError
from nmt.system.files import read_file

T = TypeVar("T")
PAD_ID, UNK_ID, BOS_ID, EOS_ID = 0, 1, 2, 3
_MANY_LINES = 256
"""From so many on, one call for all is faster, by a tenth for encoding and a third for decoding.

Given several lines, SentencePiece starts threads, even if it is told to use one. That takes longer
than a few lines do, and if no thread can start, it aborts the process.
"""

STRANGE = "\ue000"
"""Begins UNUSED pieces in BPE, where they would otherwise take part in merges. Text does not have
this private character."""

READ_AS_UNK = "<read as unk>"
"""A control piece; those after it are segmented, but stand for unk."""

ADDED = "<added tokens>"
ADDED_WITH_SPACE = "<added tokens with space>"
"""Control pieces; those after one are split off from text before it is segmented, as transformers
does with the tokens of `add_tokens`. After the second one, a space before them is a piece."""

TAG = re.compile(r">>.*?<<")

SEPARATOR = "<sep>"
"""Between the lines of a window, which is some neighbouring lines of a document as one source and
one target (Tiedemann and Scherrer 2017, "Neural Machine Translation with Extended Context";
Junczys-Dowmunt 2019, "Microsoft Translator at WMT 2019"). It is a control piece, so no text spells
it, and search never produces it unless it translates a window."""

ANNOTATION = ("<term>", "<as>", "</term>")
"""In a source, before words, before the translation that they are to have, and after that. Control
pieces, too; see `nmt.lexical.annotation`."""

# A translated line must stay one line, tabs part columns, NUL ends strings in other programs, and
# the other control characters steer terminals.
_CONTROLS = re.compile("[\0-\x1f\x7f-\x9f]")
_TAB_RULE = "9\t20\n"  # in SentencePiece's form: a tab becomes a space
# Variation selectors, which only fonts of rare Chinese characters use, take on any script.
_STAND_IN_OF = {letter: chr(0xE01EF - number) for number, letter in enumerate(MODIFIERS)}
_LETTER_OF = {sign: letter for letter, sign in _STAND_IN_OF.items()}
_REPLACED = re.compile(f"[{MODIFIERS}{min(_LETTER_OF)}-{max(_LETTER_OF)}]")
# In some releases the trainer's positions inside a word have 16 bits; longer lines are split.
_LONGEST_LEARNT = 50_000
_SPACE = "\u2581"
_BYTE = re.compile("<0x[0-9A-F]{2}>")
_SILENT = 9  # above the highest level of SentencePiece's log
_TOO_LARGE = re.compile(r"Vocabulary size too high \((\d+)\).*<= (\d+)")
_TOO_SMALL = re.compile(r"smaller than required_chars\. (\d+) vs (\d+)")

# Numbers of fields, from sentencepiece_model.proto.
_PIECE, _NORMALIZER = 1, 3
_TEXT = 1
_NAME, _TSV = 1, 6


def read_parsed(path: Path, parse: Callable[[bytes], T]) -> T:
    """Return what a file holds; DataError names the file if it is missing or cannot be parsed."""
    try:
        content = read_file(path)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    try:
        return parse(content)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None


class UnfitSize(UsageError):
    """A vocabulary cannot have the size that was asked for.

    bound: the largest size that it can have, or the smallest.
    """

    def __init__(self, message: str, bound: int) -> None:
        super().__init__(message)
        self.bound = bound


class Vocabulary:
    """Lines to token ids and back.

    Search must never produce `barred_ids`: pad, unk, bos, other control pieces, and every piece
    with a control character.

    In a model from another toolkit, pieces that only the other side has are UNUSED. They stand for
    unknown characters that are just their text. Pieces without an id there come after
    `READ_AS_UNK`. Control pieces such as `>>fra<<` are tags: a line may begin with one, which says
    the language of its translation.

    moses: preprocessing of lines before they are split into pieces, undone after decoding.
    """

    first: tuple[int, ...] = ()
    """The language token that begins every line without a tag, if any; see `beginning_with`."""

    def __init__(self, model: bytes, moses: Moses | None = None) -> None:
        processor = sentencepiece.SentencePieceProcessor()
        try:
            loaded = processor.LoadFromSerializedProto(model)
            tokens = processor.id_to_piece(list(range(processor.get_piece_size())))
        except (RuntimeError, UnicodeDecodeError):
            loaded = False
        if not loaded or processor.get_piece_size() == 0:
            raise DataError("not a SentencePiece model")
        ids = (processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id())
        if ids != (PAD_ID, UNK_ID, BOS_ID, EOS_ID):
            raise DataError(
                "the special ids pad, unk, bos, eos of this SentencePiece model are "
                f"{', '.join(map(str, ids))}, but nmt needs {PAD_ID}, {UNK_ID}, {BOS_ID}, "
                f"{EOS_ID}; learn it again with --pad_id={PAD_ID} --unk_id={UNK_ID} "
                f"--bos_id={BOS_ID} --eos_id={EOS_ID}"
            )
        self.model = model
        self.moses = moses
        self._processor = processor
        self.pieces: list[str] = tokens
        # One call for all ids: SentencePiece takes longer to be asked than to answer.
        ids_of = {piece: id_ for id_, piece in enumerate(tokens)}
        is_unused = processor.is_unused(list(range(len(tokens))))
        is_control = processor.is_control(list(range(len(tokens))))
        self._others = {p.removeprefix(STRANGE): id_ for p, id_ in ids_of.items() if is_unused[id_]}
        self.covers_all_text = bool(processor.is_byte(processor.piece_to_id("<0x00>")))
        """Whether the vocabulary has byte fallback, so that no character is unknown."""
        self.known = ids_of.get(READ_AS_UNK, len(tokens))
        """How many ids `encode` can return: those before `READ_AS_UNK`, or all."""
        self._controls = {piece: id_ for piece, id_ in ids_of.items() if is_control[id_]}
        self._tags = {piece: id_ for piece, id_ in self._controls.items() if TAG.fullmatch(piece)}
        starts = (self._controls.get(name, self.known) for name in (ADDED, ADDED_WITH_SPACE))
        added = range(min(starts), self.known)
        self._added = {tokens[id_]: id_ for id_ in added if not is_control[id_]}
        self.has_added_tokens = bool(self._added)
        """Whether some pieces are split off from text before it is segmented."""
        self.separator = self._controls.get(SEPARATOR)
        """The id of the piece between the lines of a window, if there is one."""
        self.barred_ids = tuple(i for i in range(len(self)) if i != EOS_ID and self._is_barred(i))

    @classmethod
    def load(cls, path: Path, moses: Moses | None = None) -> Vocabulary:
        """Read a SentencePiece model file."""
        return read_parsed(path, lambda model: cls(model, moses))

    def __len__(self) -> int:
        return int(self._processor.get_piece_size())

    def has_ids_of(self, other: Vocabulary) -> bool:
        """Whether each id is the same piece in another vocabulary, so that they can share rows."""
        both = (self.pieces, other.pieces)
        mine, theirs = ([piece.removeprefix(STRANGE) for piece in tokens] for tokens in both)
        return mine == theirs

    @cached_property
    def composes(self) -> bool:
        """Whether composed and decomposed text (NFC and NFD) have the same ids."""
        return bool(self._processor.encode("\u00fc") == self._processor.encode("u\u0308"))

    def beginning_with(self, piece: str) -> Vocabulary:
        """Return this vocabulary with a language token, which begins each line.

        DataError if it has no such control piece.
        """
        vocabulary = copy.copy(self)
        vocabulary.first = self.control_ids([piece])
        return vocabulary

    def control_ids(self, pieces: Sequence[str]) -> tuple[int, ...]:
        """Return the ids of control pieces, which no text has.

        DataError if one of them is no such piece.
        """
        for piece in pieces:
            if not self.has_control(piece):
                raise DataError(f"damaged: the vocabulary has no control piece {piece!r}")
        return tuple(self._controls[piece] for piece in pieces)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Return the ids of each line with its tag or language token, without bos and eos."""
        if not self.begins_lines:
            return self.encode_text(lines)
        first, texts = zip(*map(self.split_tag, lines), strict=True) if lines else ((), ())
        return [[*tag, *row] for tag, row in zip(first, self.encode_text(texts), strict=True)]

    @property
    def begins_lines(self) -> bool:
        """Whether a line may begin with a tag, or does with a language token."""
        return bool(self._tags or self.first)

    def encode_text(self, lines: Sequence[str]) -> list[list[int]]:
        """Return the ids of text that begins no line."""
        prepared = self.prepared(lines)
        if not self.has_added_tokens:
            return self.segmented(prepared)
        # The longest one first, where one is the beginning of another.
        added = re.compile(f"({'|'.join(map(re.escape, sorted(self._added, reverse=True)))})")
        parts = list(map(added.split, prepared))  # text, token, text, ...
        ids = iter(self.segmented([text for line in parts for text in line[::2]]))
        space = [self._processor.piece_to_id(_SPACE)] * self.has_control(ADDED_WITH_SPACE)
        rows = []
        for line in parts:
            row: list[int] = []
            for number, part in enumerate(line):
                row += [self._added[part]] if number % 2 else next(ids)
                if number % 2 == 0 and len(line) > 1 and part[-1:].isspace():
                    row += space
            rows.append(row)
        return rows

    def segmented(self, prepared: Sequence[str]) -> list[list[int]]:
        """Return the ids of text that Moses' rules were applied to, and that has no added token."""
        encode, is_many = self._processor.encode, len(prepared) >= _MANY_LINES
        ids: list[list[int]] = (
            encode(list(prepared), num_threads=1) if is_many else list(map(encode, prepared))
        )
        if self._others:
            pairs = zip(prepared, ids, strict=True)
            ids = [self._with_others(line) if UNK_ID in row else row for line, row in pairs]
        if self.known < len(self.pieces):
            ids = [[id_ if id_ < self.known else UNK_ID for id_ in row] for row in ids]
        return ids

    def prepared(self, lines: Sequence[str]) -> Sequence[str]:
        """Return lines as Moses' rules leave them, which split letters from their marks."""
        if self.moses is None:
            return lines
        return list(map(self.moses.apply, map(compose, lines) if self.composes else lines))

    def normalized(self, text: str) -> str:
        """Return text as it is segmented, with `▁` for spaces."""
        return str(self._processor.normalize(text))

    def split_tag(self, line: str) -> tuple[tuple[int, ...], str]:
        """Return the id of a line's tag, or else the language token, and the line's text."""
        tag = TAG.match(line) if self._tags else None
        if tag is None:
            return self.first, line
        return (self._tags.get(tag[0], UNK_ID),), line[tag.end() :]

    def _with_others(self, line: str) -> list[int]:
        """Return a line's ids, where unknown characters may be a piece of the other side.

        Those that spell a control piece, such as `</s>`, are text.
        """
        pieces: list[str] = self._processor.encode(line, out_type=str)
        ids: list[int] = self._processor.encode(line)
        return [
            self._others.get(piece, UNK_ID) if id_ == UNK_ID else id_
            for piece, id_ in zip(pieces, ids, strict=True)
        ]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Return the line of each sequence of ids."""
        rows = [list(map(int, row)) for row in ids]
        decode, is_many = self._processor.decode, len(rows) >= _MANY_LINES
        lines: list[str] = decode(rows, num_threads=1) if is_many else list(map(decode, rows))
        if self.marks_word_ends:
            lines = [line.removesuffix(" ") for line in lines]
        return list(map(self.moses.undo, lines)) if self.moses else lines

    def joins_pieces_of(self, other: Vocabulary) -> bool:
        """Whether this SentencePiece model joins the other's pieces alike, if ▁ becomes a space."""
        barred = set(other.barred_ids)
        pieces = [["a", piece] for id_, piece in enumerate(other.pieces) if id_ not in barred]
        joined = (one._processor.decode_pieces(pieces) for one in (self, other))
        mine, theirs = ([text.replace(_SPACE, " ") for text in texts] for texts in joined)
        return bool(mine == theirs)

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """Return the tokens of a text in SentencePiece's usual form, with `▁` for a space before.

        A model of BPE codes has its mark behind words: its `d▁ u nd▁` is returned as `▁d ▁u nd`.
        """
        pieces = [self.pieces[i] for i in ids]
        return self._with_starts(pieces) if self.marks_word_ends else pieces

    def _with_starts(self, pieces: Sequence[str]) -> list[str]:
        tokens = list[str]()
        starts = True
        for piece in pieces:
            if piece not in self._controls and not _BYTE.fullmatch(piece):
                tokens.append(starts * _SPACE + piece.removesuffix(_SPACE))
                starts = piece.endswith(_SPACE)
            else:  # it has no place for a mark
                if starts and tokens:
                    tokens[-1] += _SPACE
                tokens.append(piece)
                starts = False
        return tokens

    @cached_property
    def marks_word_ends(self) -> bool:
        """Whether pieces have `▁` for the space behind a word, as those of BPE codes."""
        return self.normalized("a").endswith(_SPACE)

    def has_control(self, piece: str) -> bool:
        """Whether there is a control piece, such as a language token."""
        return piece in self._controls

    def has_symbol(self, symbol: str) -> bool:
        """Whether a separate word, such as a tag, is one piece."""
        if symbol in self._tags:
            return True
        symbol = compose(symbol) if self.composes else symbol
        pieces = self.tokens(self.encode_text([symbol])[0])
        return "".join(pieces).removeprefix(_SPACE) == symbol and len(pieces) <= 2

    @cached_property
    def word_edges(self) -> WordEdges:
        """Which tokens begin or end inside a word."""
        return WordEdges.of_pieces(self.pieces)

    def merges(self) -> list[tuple[int, int]]:
        """Return the two tokens of each token's last merge, (-1, -1) for tokens without one.

        The merges are those of byte-pair encoding on the token's own text: the pair that was
        learnt first is joined first.
        """
        processor = self._processor
        scores = {
            processor.id_to_piece(token): (-processor.get_score(token), token)
            for token in range(len(self))
            if not (processor.is_control(token) or processor.is_byte(token))
        }
        return [_last_merge(processor.id_to_piece(token), scores) for token in range(len(self))]

    def _is_barred(self, token_id: int) -> bool:
        piece = self.pieces[token_id]
        if token_id == UNK_ID or piece in self._controls:
            return True
        if piece.startswith(STRANGE) and self._processor.is_unused(token_id):
            return True
        if piece.startswith("<0x") and self._processor.is_byte(token_id):
            byte = int(piece[1:-1], 16)
            return byte < 0x80 and bool(_CONTROLS.match(chr(byte)))  # above, it is part of one
        return bool(_CONTROLS.search(piece))


def join_lines(lines: Sequence[Sequence[int]], separator: int) -> list[int]:
    """Return the ids of lines as those of a window."""
    joined = list(lines[0])
    for line in lines[1:]:
        joined += (separator, *line)
    return joined


def split_lines(ids: Sequence[int], separator: int) -> list[Sequence[int]]:
    """Return the ids of each line of a window; [] is one empty line."""
    ends = [index for index, token in enumerate(ids) if token == separator]
    return [ids[start + 1 : end] for start, end in pairwise([-1, *ends, len(ids)])]


def _last_merge(piece: str, ranks: Mapping[str, tuple[float, int]]) -> tuple[int, int]:
    """Return the ids of the two parts of a piece; ranks: the rank and id of each piece."""
    parts = list(piece) if piece in ranks else []
    while len(parts) > 2:
        joined = [left + right for left, right in pairwise(parts)]
        known = [position for position, text in enumerate(joined) if text in ranks]
        if not known:
            return -1, -1
        position = min(known, key=lambda position: ranks[joined[position]][0])
        parts[position : position + 2] = [joined[position]]
    if len(parts) < 2 or any(part not in ranks for part in parts):
        return -1, -1
    return ranks[parts[0]][1], ranks[parts[1]][1]


def learn_vocabulary(
    text: Iterable[str] | Mapping[str, int],
    *,
    vocab_size: int,
    subwords: str = "bpe",
    split_digits: bool = False,
    normalization: str = NFC,
    character_coverage: float = 1.0,
    symbols: Sequence[str] = (),
    controls: Sequence[str] = (),
) -> Vocabulary:
    """Learn a vocabulary of `vocab_size` pieces, including special and byte pieces.

    text: lines, or for BPE the words of the text and how often each occurs. Pieces are the same.
    subwords: "bpe" (Sennrich et al. 2016) or "unigram" (Kudo 2018).
    split_digits: whether each digit is a piece of its own.
    normalization: "nfc" (see `nmt.data.composition`), or one of SentencePiece's own rules.
    symbols: words, such as tags, that are always one piece.
    controls: pieces that no text contains, such as language tokens and the separator.

    We always use one thread. The trainer writes the number of threads into the model, so its bytes
    would depend on the machine, and more threads were not faster (1.6 s for 150,000 lines with 1, 2
    and 16).
    """
    model = io.BytesIO()
    failure: BaseException | None = None

    def parts() -> Iterator[str]:
        """Yield the text for the trainer, which would hide an error that ends it."""
        nonlocal failure
        try:
            for line in text:
                count = f"\t{text[line]}" if isinstance(text, Mapping) else ""
                for start in range(0, len(line), _LONGEST_LEARNT):
                    yield _with_stand_ins(line[start : start + _LONGEST_LEARNT]) + count
        except (Exception, KeyboardInterrupt) as error:
            failure = error
            raise

    if normalization == NFC:
        symbols = list(map(compose, symbols))
    symbols = list(map(_with_stand_ins, symbols))
    try:
        with _rules(normalization) as rules:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=parts(),
                input_format="tsv" if isinstance(text, Mapping) else "text",
                model_writer=model,
                model_type=subwords,
                split_digits=split_digits,
                vocab_size=vocab_size,
                pad_id=PAD_ID,
                unk_id=UNK_ID,
                bos_id=BOS_ID,
                eos_id=EOS_ID,
                byte_fallback=True,
                user_defined_symbols=list(symbols),
                control_symbols=list(controls),
                character_coverage=character_coverage,
                **rules,
                max_sentence_length=1 << 30,  # the default silently drops lines above 4,192 bytes
                num_threads=1,
                minloglevel=_SILENT,
            )
    except RuntimeError as error:
        if failure is not None:
            raise failure from None
        raise _explain(str(error), vocab_size) from None
    return Vocabulary(_finished(model.getvalue(), normalization))


@contextlib.contextmanager
def _rules(normalization: str) -> Iterator[dict[str, Any]]:
    """Give the trainer's options for rules of normalisation, which it reads from a file."""
    if normalization not in (NFC, "identity"):
        yield {"normalization_rule_name": normalization}
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rules.tsv")
        path.write_text(_TAB_RULE + (rules_as_tsv() if normalization == NFC else ""), "ascii")
        yield {"normalization_rule_tsv": str(path)}


def _with_stand_ins(text: str) -> str:
    """Return text as the trainer sees it; stand-ins that it has itself are spelt as bytes."""
    if text.isascii():
        return text
    return _REPLACED.sub(lambda found: _STAND_IN_OF.get(found[0], ""), text)


def _finished(model: bytes, normalization: str) -> bytes:
    """Return a model with modifier letters in its pieces, whose rules have a name and no path."""
    letters = str.maketrans(_LETTER_OF)
    fields = []
    for number, content, raw in read_fields(model):
        if number == _PIECE:
            parts = [
                write_field(kind, value.decode().translate(letters).encode())
                if kind == _TEXT
                else part
                for kind, value, part in read_fields(content)
            ]
            raw = write_field(number, b"".join(parts))
        elif number == _NORMALIZER:
            kept = [part for kind, _, part in read_fields(content) if kind not in (_NAME, _TSV)]
            raw = write_field(number, write_field(_NAME, normalization.encode()) + b"".join(kept))
        fields.append(raw)
    return b"".join(fields)


def _explain(message: str, vocab_size: int) -> Exception:
    if sizes := _TOO_LARGE.search(message):
        fault = f"too large for this text; pass --vocab-size {sizes[2]} or less"
    elif sizes := _TOO_SMALL.search(message):
        fault = (
            "too small for the characters of this text, 256 bytes and 4 special tokens; pass "
            f"--vocab-size {sizes[2]} or more, or lower --character-coverage"
        )
    if sizes:
        return UnfitSize(f"a vocabulary of {vocab_size} is {fault}", int(sizes[2]))
    if "!sentences_.empty()" in message:
        return DataError("there is no text to learn a vocabulary from")
    return DataError(f"SentencePiece could not learn a vocabulary: {message}")
