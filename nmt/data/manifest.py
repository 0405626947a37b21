"""`dataset.json`: the contents of a data folder and how it was made, as dataclasses.

It records no times, hosts or absolute paths, so that the same text and settings give the same
bytes. Reading checks every field: a missing, unknown or mistyped value means a damaged file.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt.data.language_tokens import LanguageTokens
from nmt.data.moses import STEPS, MosesRules, moses_rules
from nmt.errors import DataError
from nmt.system.files import parse_json, read_file, sha256_file

FORMAT_VERSION = 3
FILE_NAME = "dataset.json"
REJECTS_NAME = "rejects.json"
REJECTS_TEXT_NAME = "rejects.txt"

_NEEDED = {
    "src_lang": str,
    "tgt_lang": str,
    "languages": LanguageTokens | None,
    "temperature": float,
    "window": int,
    "annotations": str | None,
    "moses_normalize": bool,
    "moses_tokenize": bool,
    "max_length": int,
}
"""The settings that other commands read, by their types."""

LEARNING = tuple(
    "vocab_size subwords split_digits symbol normalization character_coverage sample_size".split()
)
"""The settings that have no effect on a folder whose vocabulary was given."""


@dataclass(frozen=True)
class FileRecord:
    """Name, size and checksum of a file."""

    name: str
    size: int
    sha256: str


def record_file(path: Path) -> FileRecord:
    return FileRecord(path.name, path.stat().st_size, sha256_file(path))


def record_files(name: str, files: Sequence[Path]) -> FileRecord:
    """Return one record of several files: of their sizes together, and of all their checksums."""
    records = [record_file(path) for path in files]
    listed = "".join(f"{record.sha256}  {record.name}\n" for record in records)
    size = sum(record.size for record in records)
    return FileRecord(name, size, hashlib.sha256(listed.encode()).hexdigest())


@dataclass(frozen=True)
class ShardRecord:
    """A file like those of `FileRecord`, and what it holds."""

    name: str
    size: int
    sha256: str
    corpus: int  # index of the split's corpus that all its pairs come from
    pairs: int
    src_tokens: int
    tgt_tokens: int
    annotations: int  # how its words are to be translated, in its sources
    annotated: int  # pairs that have some


@dataclass(frozen=True)
class FlawRecord:
    """Lines of one side of a text that have HTML entities or a broken encoding."""

    kind: str  # as `nmt prepare --fix` calls it
    side: str  # src or tgt
    lines: int
    repaired: int  # how many of these lines were repaired, at least in part
    first: int  # the number of the first of them, from 1
    example: str  # what that line has


@dataclass(frozen=True)
class OverlapRecord:
    """How near a text of valid or test is to train, by character 4-grams on either side."""

    same: int  # pairs with a side that stands in train but for case, punctuation and spaces
    near: int  # other pairs with a near copy in train: an overlap of 0.85 or more
    median: float  # of the overlap of each pair with the nearest line of train


@dataclass(frozen=True)
class CorpusRecord:
    """A parallel text that was read, and how many of its pairs were kept."""

    prefix: str
    src: FileRecord
    tgt: FileRecord
    lines: int
    kept: int
    rejected: Mapping[str, int]
    weight: float  # how often an epoch visits each of its pairs
    tag: str  # the tag put before each of its source lines
    langs: tuple[str, str]  # source and target
    columns: tuple[str, ...]  # of a table: those of source and target
    quoted: bool  # whether the cells of a table of text were read as quoted
    flaws: tuple[FlawRecord, ...]
    """Of train: lines that have entities or a broken encoding, by side and kind."""
    overlap: OverlapRecord | None = None
    """Of valid and test."""


@dataclass(frozen=True)
class LengthRecord:
    """Token counts of one side of a split, without eos."""

    tokens: int
    mean: float
    median: int
    longest: int


@dataclass(frozen=True)
class SplitRecord:
    """train, valid, or one test set."""

    name: str
    pairs: int
    src: LengthRecord
    tgt: LengthRecord
    corpora: tuple[CorpusRecord, ...]
    shards: tuple[ShardRecord, ...]
    text: tuple[FileRecord, ...] = ()
    """Of valid and test: the raw text, source and target of each corpus."""
    overlaps: tuple[FileRecord, ...] = ()
    """Of valid and test: how near each line of a corpus is to train, one number a line."""
    side_columns: tuple[FileRecord, ...] = ()
    """Of train: shards of bytes. `train-00003.text` has the raw lines of `train-00003.bin`."""
    windows: tuple[int, ...] = ()
    """Of train, if it is documents: how many pairs are windows of 1 line, of 2 and so on."""

    @property
    def title(self) -> str:
        """The name for people: of a test set that of its file, unless it would seem another one."""
        title = self.name.removeprefix("test-")
        return self.name if title in ("train", "valid") else title

    @property
    def annotations(self) -> int:
        return sum(shard.annotations for shard in self.shards)

    @property
    def annotated(self) -> int:
        """Pairs that have annotations."""
        return sum(shard.annotated for shard in self.shards)


@dataclass(frozen=True)
class VocabularyRecord:
    """The vocabulary: one file for both languages, or source and target."""

    files: tuple[FileRecord, ...]
    sizes: tuple[int, ...]
    given: bool  # whether it was given with --vocab instead of learnt from this text


@dataclass(frozen=True)
class DatasetInfo:
    """All of `dataset.json`."""

    format_version: int
    settings: Mapping[str, Any]
    """The options of `prepare` that decided, with the text, what it wrote."""
    vocabulary: VocabularyRecord
    train: SplitRecord
    valid: SplitRecord
    tests: tuple[SplitRecord, ...]
    rejects: FileRecord
    rejects_text: FileRecord

    @property
    def langs(self) -> tuple[str, str]:
        """Source and target language; "" if there are several."""
        return str(self.settings["src_lang"]), str(self.settings["tgt_lang"])

    @property
    def sides(self) -> tuple[str, str]:
        """What reports call the sides: by their language, if there is only one."""
        src, tgt = self.langs
        return src or "source", tgt or "target"

    @property
    def temperature(self) -> float:
        """How evenly the pairs of languages are mixed, see `nmt.data.epochs.mixed_shares`."""
        return float(self.settings["temperature"])

    @property
    def window(self) -> int:
        """The most lines of a training pair: 1, unless they are windows of documents."""
        return int(self.settings["window"])

    @property
    def max_length(self) -> int:
        """The most tokens of a side of train."""
        return int(self.settings["max_length"])

    @property
    def moses(self) -> MosesRules:
        # Folders that were prepared earlier have the first two steps only.
        steps = [step for step in STEPS if self.settings.get(f"moses_{step}")]
        return moses_rules(self.langs, steps)

    @property
    def reads_annotations(self) -> bool:
        """Whether sources of train have annotations."""
        return self.settings["annotations"] is not None

    @property
    def languages(self) -> LanguageTokens | None:
        """The language tokens of the vocabulary, if it was given and has some."""
        tokens: LanguageTokens | None
        tokens = build_value(LanguageTokens | None, self.settings["languages"], "languages")
        return tokens

    @property
    def splits(self) -> tuple[SplitRecord, ...]:
        return (self.train, self.valid, *self.tests)

    @property
    def files(self) -> tuple[FileRecord | ShardRecord, ...]:
        """Every file of the folder except `dataset.json` itself."""
        files: list[FileRecord | ShardRecord] = [*self.vocabulary.files]
        files += [self.rejects, self.rejects_text]
        for split in self.splits:
            files += [*split.shards, *split.text, *split.overlaps, *split.side_columns]
        return tuple(files)


def to_json(info: DatasetInfo) -> str:
    return json.dumps(dataclasses.asdict(info), indent=2, ensure_ascii=False) + "\n"


def read_info(folder: Path) -> DatasetInfo:
    """Read a folder's `dataset.json`; raise DataError if it is missing or damaged."""
    path = folder / FILE_NAME
    try:
        content = parse_json(read_file(path))
        version = content.get("format_version") if isinstance(content, dict) else None
        if version != FORMAT_VERSION:
            raise DataError(
                f"{folder} has format version {version}, but this nmt reads version "
                f"{FORMAT_VERSION}; run `nmt prepare` again into a new folder"
            )
        info: DatasetInfo = build_value(DatasetInfo, content, "")
        for name, kind in _NEEDED.items():
            build_value(kind, info.settings.get(name), f"settings.{name}")
    except (FileNotFoundError, NotADirectoryError):
        if not folder.exists():
            lack = "there is no such folder"
        elif (folder / "checkpoints").is_dir():
            lack = "it is a run folder"
        else:
            lack = f"it has no {FILE_NAME}"
        raise DataError(
            f"{folder} is not a data folder: {lack}; make one with `nmt prepare`"
        ) from None
    except ValueError as error:
        raise DataError(f"{path}: damaged: {error}; run `nmt prepare` again") from None
    return info


def build_value(kind: Any, value: Any, where: str) -> Any:
    """Convert JSON to a type, such as a dataclass; ValueError names the field that does not fit."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        fields = _typed(dict, value, where)
        # What a later version adds to a format has a default.
        needed = {
            spec.name
            for spec in dataclasses.fields(kind)
            if spec.default is spec.default_factory is dataclasses.MISSING
        }
        if odd := (needed - fields.keys()) | (fields.keys() - hints.keys()):
            listed = ", ".join(sorted(odd))
            raise ValueError(f"{where or 'top level'}: missing or unknown: {listed}")
        return kind(**{k: build_value(hints[k], v, f"{where}.{k}") for k, v in fields.items()})
    if origin in (tuple, list):
        items = _typed(list, value, where)
        is_fixed = origin is tuple and ... not in arguments
        kinds = arguments if is_fixed else arguments[:1] * len(items)
        if len(kinds) != len(items):
            raise ValueError(f"{where}: must be {len(kinds)} values, not {len(items)}")
        each = zip(kinds, items, strict=True)
        return origin(build_value(of, item, f"{where}[{n}]") for n, (of, item) in enumerate(each))
    if origin in (Mapping, dict):
        entries = _typed(dict, value, where)
        return {k: build_value(arguments[1], v, f"{where}.{k}") for k, v in entries.items()}
    if origin is types.UnionType:  # a type or None
        return None if value is None else build_value(arguments[0], value, where)
    if kind is Any:
        return value
    if kind is float and isinstance(value, int):
        with contextlib.suppress(OverflowError):
            return float(value)
    return _typed(kind, value, where)


def _typed(kind: type, value: Any, where: str) -> Any:
    # In Python a bool is an int; here it is not.
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ValueError(f"{where or 'top level'}: {value!r} is not of type {kind.__name__}")
    return value
