"""How far a data folder has come, so that a run that was killed can be taken up.

It lies in the folder that is being built, is written whenever a training shard is complete, and
goes when the folder is done. What an earlier run has left is used only when it is of the same text,
options and program, and every shard has its checksum.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nmt import __version__
from nmt.data import manifest
from nmt.data.building import PROGRESS_FOLDER
from nmt.data.duplicates import Hashes
from nmt.data.manifest import FileRecord, Settings, ShardRecord, VocabularyRecord
from nmt.data.reject_report import CorpusRejects
from nmt.data.sources import Sources, SourceText, record_file
from nmt.data.vocabulary import Vocabulary
from nmt.files import atomic_writer, sha256_file, write_text

_NAME = "progress.json"


@dataclass(frozen=True)
class Progress:
    """What is complete of a data folder."""

    key: str
    """Stands for the text, the options and the version of the program."""
    vocabulary: VocabularyRecord
    shards: tuple[ShardRecord, ...]
    """Training shards."""
    hashes: tuple[FileRecord, ...]
    """Of the pairs in each shard, to go on telling duplicates from new ones."""
    rejects: tuple[CorpusRejects, ...]
    """Of each training text up to there."""
    corpus: int
    """The training text that is read next, and the line that is next in it."""
    line: int


def progress_key(settings: Settings, sources: Sources, given: Sequence[Vocabulary]) -> str:
    """Return what stands for all that decides the bytes of the folder."""
    what = {
        "version": __version__,
        "format": manifest.FORMAT_VERSION,
        "settings": dataclasses.asdict(settings),
        "train": [[text.text.prefix, *_source(text)] for text in sources.train],
        "valid": _source(sources.valid) if sources.valid else None,
        "tests": {name: _source(text) for name, text in sources.tests.items()},
        "vocab": [hashlib.sha256(vocabulary.model).hexdigest() for vocabulary in given],
    }
    return hashlib.sha256(json.dumps(what).encode()).hexdigest()


def read_progress(folder: Path) -> Progress | None:
    """Return how far the folder has come: None where nothing of it can be used."""
    try:
        content = json.loads((folder / PROGRESS_FOLDER / _NAME).read_bytes())
        progress = manifest.build_value(Progress, content, "")
        checksums = {
            **{folder / file.name: file.sha256 for file in progress.vocabulary.files},
            **{folder / shard.name: shard.sha256 for shard in progress.shards},
            **{folder / PROGRESS_FOLDER / file.name: file.sha256 for file in progress.hashes},
        }
        if any(sha256_file(path) != sha256 for path, sha256 in checksums.items()):
            return None
    except (OSError, ValueError):
        return None
    return progress


def write_progress(folder: Path, progress: Progress) -> None:
    """Put on record what is complete."""
    write_text(folder / PROGRESS_FOLDER / _NAME, json.dumps(dataclasses.asdict(progress)))


def write_hashes(folder: Path, number: int, hashes: Hashes) -> FileRecord:
    """Write the hashes of the pairs of training shard `number`."""
    path = folder / PROGRESS_FOLDER / f"seen-{number:05d}.bin"
    with atomic_writer(path) as file:
        file.write(hashes.astype("<u8").data)
    return record_file(path)


def read_hashes(folder: Path, file: FileRecord) -> Hashes:
    """Return the hashes of the pairs of a shard."""
    return np.fromfile(folder / PROGRESS_FOLDER / file.name, "<u8").astype(np.uint64)


def _source(text: SourceText) -> list[object]:
    files = [[file.name, file.sha256] for file in text.records]
    return [files, text.weight, text.tag]
