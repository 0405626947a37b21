"""Whether a folder that is already there is the one that is asked for.

A folder that appears under its name when it is complete, and not before.

It is built beside its place as `NAME.partial`, locked while its process lives, and renamed. What a
run that was stopped or killed has left is handed to the next one, which may go on with it.

How far a data folder has come, so that a run that was killed can be taken up.

It lies in the folder that is being built, is written whenever a training shard is complete, and
goes when the folder is done. What an earlier run has left is used only when it is of the same text,
options and program, and every shard has its checksum.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from nmt import __version__
from nmt.data import manifest
from nmt.data.folder import DataFolder
from nmt.data.manifest import (
    FILE_NAME,
    DatasetInfo,
    FileRecord,
    Settings,
    ShardRecord,
    SplitRecord,
    VocabularyRecord,
)
from nmt.data.vocabulary import Vocabulary
from nmt.errors import DataError, NMTError, Stopped, UsageError
from nmt.files import (
    TEMPORARY_SUFFIX,
    atomic_writer,
    megabytes,
    sha256_file,
    sync_folder,
    write_text,
)
from nmt.prepare.duplicates import Hashes
from nmt.prepare.rejects import CorpusRejects
from nmt.prepare.sources import Sources, SourceText, record_file

PROGRESS_FOLDER = "progress"
"""What tells our unfinished folders from anything else of that name."""

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
_OCCUPIED = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)


def check_target(out: Path) -> None:
    """Refuse a place where no folder can be made, before any work is done."""
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out}: this is a file, and a folder is to be written there")
    nearest = _nearest_folder(out)
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        raise UsageError(f"{out}: {nearest} is not a folder that you may write to")


def check_space(out: Path, needed: int) -> None:
    """Refuse a disk that has not room for about `needed` bytes, before any work is done."""
    partial = _partial(out)
    there = sum(path.stat().st_size for path in partial.rglob("*")) if partial.is_dir() else 0
    free = shutil.disk_usage(_nearest_folder(out)).free
    if free + there < needed:
        raise NMTError(
            f"{out.parent}: the disk has {megabytes(free)} free, and about "
            f"{megabytes(needed - there)} are needed; make room, or choose another place"
        )


@contextlib.contextmanager
def building_folder(out: Path) -> Iterator[Path]:
    """Yield the folder to build in; on leaving without an error it becomes `out`.

    It holds what an earlier run has left. Where text or options are at fault all is removed; every
    other failure, such as a full disk or a worker that died, leaves the progress for the next run.

    Raises:
        Stopped: another process is building the same folder, or this one was interrupted.
        NMTError: the disk is full.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = _partial(out)
    with _locked(partial):
        try:
            yield partial
            shutil.rmtree(partial / PROGRESS_FOLDER)
            sync_folder(partial)
            _move(partial, out)
        except (DataError, UsageError):
            shutil.rmtree(partial, ignore_errors=True)  # of no use to another run
            raise
        except BaseException as error:
            left = _leave(partial)
            if isinstance(error, KeyboardInterrupt):
                raise Stopped(f"stopped; {left}: run the same command again to go on") from None
            if isinstance(error, OSError) and error.errno in _NO_SPACE:
                raise NMTError(
                    f"{out.parent}: the disk is full; {left}: make room and run the same command "
                    "again"
                ) from None
            raise


def _leave(partial: Path) -> str:
    """Keep what another run can go on with, else nothing; return the words for it."""
    progress = partial / PROGRESS_FOLDER
    if progress.is_dir() and any(progress.iterdir()):
        return f"what is complete waits in {partial}"
    shutil.rmtree(partial, ignore_errors=True)
    return "nothing was left there"


def empty_folder(partial: Path) -> None:
    """Remove what an earlier run has left in the folder."""
    for path in partial.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    (partial / PROGRESS_FOLDER).mkdir()


@contextlib.contextmanager
def _locked(partial: Path) -> Iterator[None]:
    """Make the folder where it is not there, and keep other processes from it."""
    with contextlib.suppress(FileExistsError):
        partial.mkdir()
    # Killed in its last moment, a run has removed the record of its progress and not yet the name.
    marks = (partial / PROGRESS_FOLDER, partial / FILE_NAME)
    if not partial.is_dir() or not (
        any(mark.exists() for mark in marks) or not any(partial.iterdir())
    ):
        raise UsageError(f"{partial} is in the way, and is not of `nmt prepare`; move it away")
    lock = os.open(partial, os.O_RDONLY)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Stopped(
                f"another process is building {partial}; wait for it, and run the same command "
                "again"
            ) from None
        except OSError:
            pass  # this file system has no locks
        (partial / PROGRESS_FOLDER).mkdir(exist_ok=True)
        for half_written in partial.rglob(f"*{TEMPORARY_SUFFIX}"):  # by a process that was killed
            half_written.unlink()
        yield
    finally:
        os.close(lock)


def _move(partial: Path, out: Path) -> None:
    try:
        partial.rename(out)  # onto nothing or an empty folder; the system refuses any other
    except OSError as error:
        if error.errno in _OCCUPIED:
            raise UsageError(f"{out}: something else was put there in the meantime") from None
        raise
    sync_folder(out.parent)


def _partial(out: Path) -> Path:
    return out.with_name(f"{out.name}.partial")


def _nearest_folder(out: Path) -> Path:
    return next((folder for folder in (out, *out.parents) if folder.exists()), out)


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


def find_folder(out: Path) -> DataFolder | None:
    """Return what an earlier run has made at `out`; UsageError when anything else is there."""
    if not out.exists() or not any(out.iterdir()):
        return None
    if not (out / FILE_NAME).exists():
        raise UsageError(f"{out}: this folder is not empty and not a data folder; choose another")
    try:
        return DataFolder.open(out)
    except DataError as error:
        raise UsageError(
            f"{out} is there and is not used: {error}; remove it, or choose another name"
        ) from None


def check_same(
    folder: DataFolder, settings: Settings, sources: Sources, given: Sequence[Vocabulary]
) -> None:
    """UsageError that names every difference between a folder and what is asked for now."""
    info = folder.info
    differences = [
        *_changed_settings(info.settings, settings),
        *_changed_text(info, sources),
        *_changed_vocabulary(info, given),
    ]
    if differences:
        raise UsageError(
            f"{folder.path} was prepared in another way: {'; '.join(differences)}; remove it, or "
            "choose another name"
        )


def _changed_settings(old: Settings, new: Settings) -> list[str]:
    pairs = [(f.name, getattr(old, f.name), getattr(new, f.name)) for f in fields(Settings)]
    return [f"{name} was {_spell(a)} and is {_spell(b)}" for name, a, b in pairs if a != b]


def _changed_text(info: DatasetInfo, sources: Sources) -> list[str]:
    differences = []
    old_tests = {split.name: split for split in info.tests}
    if list(old_tests) != list(sources.tests):
        names = (_spell(list(old_tests)), _spell(list(sources.tests)))
        differences.append("test was {} and is {}".format(*names))
    splits: list[tuple[SplitRecord, Sequence[SourceText]]] = [
        (info.train, sources.train),
        *([(info.valid, [sources.valid])] if sources.valid else []),
        *((old_tests[name], [text]) for name, text in sources.tests.items() if name in old_tests),
    ]
    for split, texts in splits:
        old = [(corpus.src.sha256, corpus.tgt.sha256) for corpus in split.corpora]
        new = [tuple(file.sha256 for file in text.records) for text in texts]
        if old != new:
            was = _spell([corpus.prefix for corpus in split.corpora])
            now = _spell([text.text.prefix for text in texts])
            differences.append(f"the text of {split.name} was {was} and is {now}, not the same")
            continue
        for corpus, text in zip(split.corpora, texts, strict=True):
            if corpus.weight != text.weight:
                differences.append(
                    f"the weight of {corpus.prefix} was {corpus.weight:g} and is {text.weight:g}"
                )
            if corpus.tag != text.tag:
                differences.append(
                    f"the tag of {corpus.prefix} was {_spell(corpus.tag)} and is {_spell(text.tag)}"
                )
    return differences


def _changed_vocabulary(info: DatasetInfo, given: Sequence[Vocabulary]) -> list[str]:
    if info.vocabulary.given != bool(given):
        was, now = ("given" if is_given else "learnt" for is_given in (not given, bool(given)))
        return [f"the vocabulary was {was} and is {now}"]
    checksums = [hashlib.sha256(vocabulary.model).hexdigest() for vocabulary in given]
    if given and checksums != [file.sha256 for file in info.vocabulary.files]:
        return ["the vocabulary was another one"]
    return []


def _spell(value: str | float | Iterable[str]) -> str:
    if isinstance(value, int | float):
        return str(value)
    return value or "none" if isinstance(value, str) else ", ".join(value) or "none"
