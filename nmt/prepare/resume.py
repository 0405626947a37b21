"""Resuming `prepare`: is the data folder already there, and how far did an earlier run get?

- `find_folder` and `check_same`: a finished folder is used again only if text and options agree.
- `building_folder`: the folder is built as `NAME.partial`, locked while its process lives, and
  renamed when it is complete.
- `Progress`: the state of an unfinished folder, written into it after each training shard. The next
  run resumes from it if text, options and version are the same and every checksum matches.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nmt import __version__
from nmt.data import manifest
from nmt.data.folder import DataFolder
from nmt.data.vocabulary import Vocabulary
from nmt.errors import DataError, NMTError, Stopped, UsageError
from nmt.prepare.block import Hashes
from nmt.prepare.corpora import Sources, SourceText
from nmt.prepare.reject_report import CorpusRejects
from nmt.system import files

PROGRESS_FOLDER = "progress"
"""Marks our unfinished folders, so that no other folder of that name is touched."""
_PROGRESS_NAME, _LEXICON_NAME = "progress.json", "lexicon.json"
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
_OCCUPIED = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)


def lexicon_path(folder: Path) -> Path:
    """Return where the lexicon of `--terms auto` is while a data folder is built."""
    return folder / PROGRESS_FOLDER / _LEXICON_NAME


def check_target(out: Path) -> None:
    """Refuse a path where no folder can be made, before any work is done."""
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is a file; choose another name for the data folder")
    nearest = _nearest_folder(out)
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        raise UsageError(f"{out}: {nearest} is not a folder that you may write to")


def check_space(out: Path, needed: int) -> None:
    """Refuse a disk without room for about `needed` bytes, before any work is done."""
    partial = _partial(out)
    there = sum(path.stat().st_size for path in partial.rglob("*")) if partial.is_dir() else 0
    free = shutil.disk_usage(_nearest_folder(out)).free
    if free + there < needed:
        raise NMTError(
            f"{out.parent}: the disk has {files.megabytes(free)} free, but about "
            f"{files.megabytes(needed - there)} are needed; make room or choose another place"
        )


def find_folder(out: Path) -> DataFolder | None:
    """Return the data folder at `out`, None if there is nothing; refuse anything else."""
    if not out.exists() or not any(out.iterdir()):
        return None
    if not (out / manifest.FILE_NAME).exists():
        raise UsageError(f"{out} is not empty and not a data folder; choose another name")
    try:
        return DataFolder.open(out)
    except DataError as error:
        raise UsageError(
            f"{out} exists but cannot be used: {error}; remove it or choose another name"
        ) from None


def check_same(
    folder: DataFolder,
    settings: Mapping[str, Any],
    sources: Sources,
    vocabularies: Sequence[Vocabulary],
) -> None:
    """Raise UsageError that names every difference between a folder and the present options."""
    info, old = folder.info, folder.info.settings
    # Languages belong to the vocabulary.
    ignored = ("languages", *(manifest.LEARNING if vocabularies else ()))
    differences = [
        f"{name} was {_spell(old.get(name))} and is {_spell(settings.get(name))}"
        for name in {**settings, **old}
        if old.get(name) != settings.get(name) and name not in ignored
    ]
    differences += [*_changed_text(info, sources), *_changed_vocabulary(info, vocabularies)]
    if differences:
        raise UsageError(
            f"{folder.path} was prepared with other options or text: {'; '.join(differences)}; "
            "remove it or choose another name"
        )


def _changed_text(info: manifest.DatasetInfo, sources: Sources) -> list[str]:
    differences = []
    old_tests = {split.name: split for split in info.tests}
    if list(old_tests) != list(sources.tests):
        was, now = _spell(list(old_tests)), _spell(list(sources.tests))
        differences.append(f"test was {was} and is {now}")
    splits: list[tuple[manifest.SplitRecord, Sequence[SourceText]]] = [
        (info.train, sources.train),
        *([(info.valid, sources.valids)] if sources.valids else []),
        *((old_tests[name], [text]) for name, text in sources.tests.items() if name in old_tests),
    ]
    for split, texts in splits:
        # Texts of an old folder may not be in the order of their weights.
        corpora = sorted(split.corpora, key=lambda corpus: -corpus.weight)
        records = [text.record(lines=0, rejected={}) for text in texts]
        old, new = list(map(_checksums, corpora)), list(map(_checksums, records))
        same_weights = [one.weight for one in corpora] == [one.weight for one in records]
        if sorted(old) != sorted(new) or (same_weights and old != new):
            was = _spell([corpus.prefix for corpus in corpora])
            now = _spell([text.prefix for text in texts])
            differences.append(
                f"the text of {split.title} was {was} and is {now}"
                if was != now
                else f"the text of {split.title}, {now}, has changed"
            )
            continue
        differences += [
            f"the {what} of {corpus.prefix} was {_spell(was)} and is {_spell(now)}"
            for corpus, record in zip(
                sorted(corpora, key=_checksums), sorted(records, key=_checksums), strict=True
            )
            for what, was, now in (
                ("language pair", "-".join(corpus.langs), "-".join(record.langs)),
                ("weight", corpus.weight, record.weight),
                ("tag", corpus.tag, record.tag),
                ("columns", list(corpus.columns), list(record.columns)),
                ("--quoting", _QUOTING[corpus.quoted], _QUOTING[record.quoted]),
            )
            if was != now
        ]
    return differences


def _checksums(corpus: manifest.CorpusRecord) -> tuple[str, str]:
    return corpus.src.sha256, corpus.tgt.sha256


def _changed_vocabulary(
    info: manifest.DatasetInfo, vocabularies: Sequence[Vocabulary]
) -> list[str]:
    if info.vocabulary.given != bool(vocabularies):
        was, now = ("learnt", "given") if vocabularies else ("given", "learnt")
        return [f"the vocabulary was {was} and is {now}"]
    checksums = [hashlib.sha256(vocabulary.model).hexdigest() for vocabulary in vocabularies]
    if vocabularies and checksums != [file.sha256 for file in info.vocabulary.files]:
        return ["the vocabulary was another one"]
    return []


_QUOTING = {True: "csv", False: "none"}


def _spell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list):
        value = ", ".join(value)
    return "none" if value in (None, "", []) else str(value)


@contextlib.contextmanager
def building_folder(out: Path) -> Iterator[Path]:
    """Yield the folder to build in; rename it to `out` at the end.

    It is `out` itself if another process has finished that since the caller looked.
    It may hold the progress of an earlier run. Errors in text or options remove everything. Any
    other failure, such as a full disk or a worker that died, keeps the progress for the next run.
    HeldOff: another process is building the same folder. Stopped: this process was interrupted.
    NMTError: the disk is full.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = _partial(out)
    with _locked(partial):
        if (out / manifest.FILE_NAME).exists():
            shutil.rmtree(partial)
            yield out
            return
        try:
            yield partial
            shutil.rmtree(partial / PROGRESS_FOLDER)
            files.sync_folder(partial)
            _move(partial, out)
        except (DataError, UsageError):
            shutil.rmtree(partial, ignore_errors=True)  # of no use to another run
            raise
        except BaseException as error:
            left = _leave(partial)
            if isinstance(error, KeyboardInterrupt):
                raise Stopped(f"stopped; {left}; run the same command again to resume") from None
            if isinstance(error, OSError) and error.errno in _NO_SPACE:
                raise NMTError(
                    f"{out.parent}: the disk is full; {left}; make room and run the same command "
                    "again"
                ) from None
            raise


def _leave(partial: Path) -> str:
    """Keep the progress for another run, if there is any; describe what was kept."""
    progress = partial / PROGRESS_FOLDER
    if progress.is_dir() and any(progress.iterdir()):
        return f"complete shards are kept in {partial}"
    shutil.rmtree(partial, ignore_errors=True)
    return "nothing was kept"


def empty_folder(partial: Path) -> None:
    """Remove what an earlier run has left in the folder."""
    for path in partial.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    (partial / PROGRESS_FOLDER).mkdir()


@contextlib.contextmanager
def _locked(partial: Path) -> Iterator[None]:
    """Make the folder if it is missing, and lock it against other processes."""
    with contextlib.suppress(FileExistsError):
        partial.mkdir()
    # A run that was killed just before the rename has already removed its progress.
    marks = (partial / PROGRESS_FOLDER, partial / manifest.FILE_NAME)
    is_folder = partial.is_dir() and not partial.is_symlink()
    is_ours = is_folder and (any(mark.exists() for mark in marks) or not any(partial.iterdir()))
    if not is_ours:
        raise UsageError(f"{partial} is in the way and not from `nmt prepare`; move it away")
    busy = f"another process is building {partial}; wait for it, then run the same command again"
    folder = os.open(partial, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        files.check_owner(folder, partial)
        files.lock(folder, partial, busy)
        if not (partial.exists() and os.path.samestat(os.fstat(folder), partial.stat())):
            with _locked(partial):  # the other process has renamed or removed what we had opened
                yield
            return
        (partial / PROGRESS_FOLDER).mkdir(exist_ok=True)
        for inner in (partial, partial / PROGRESS_FOLDER):
            files.remove_left_overs(inner)
        yield
    finally:
        os.close(folder)


def _move(partial: Path, out: Path) -> None:
    try:
        partial.rename(out)  # the system refuses if `out` exists and is not an empty folder
    except OSError as error:
        if error.errno in _OCCUPIED:
            raise UsageError(
                f"{out} was created by something else in the meantime; move it away"
            ) from None
        raise
    files.sync_folder(out.parent)


def _partial(out: Path) -> Path:
    return out.with_name(f"{out.name}.partial")


def _nearest_folder(out: Path) -> Path:
    return next((folder for folder in (out, *out.parents) if folder.exists()), out)


@dataclass(frozen=True)
class Progress:
    """The complete part of a data folder."""

    key: str  # hash of the text, the options and the version of the program
    vocabulary: manifest.VocabularyRecord
    rejects: tuple[CorpusRejects, ...]  # rejected pairs of each training text so far
    lexicon: tuple[manifest.FileRecord, ...]  # the lexicon, if one had to be learnt
    shards: tuple[manifest.ShardRecord, ...] = ()  # training shards
    side_columns: tuple[manifest.FileRecord, ...] = ()  # the shards of side columns that are kept
    hashes: tuple[manifest.FileRecord, ...] = ()
    """Hashes of the pairs in each shard, to find duplicates of them after resuming."""
    nearest: tuple[int, ...] = (0,)
    """The largest overlap of the shards with each pair of valid and test; (0,): not known yet."""
    corpus: int = 0  # the training text to read next
    line: int = 1  # the next line in it


def progress_key(
    settings: Mapping[str, Any], sources: Sources, vocabularies: Sequence[Vocabulary]
) -> str:
    """Return a hash of everything that decides the bytes of the folder."""
    decisive = {
        "version": __version__,
        "format": manifest.FORMAT_VERSION,
        "settings": settings,
        "train": [[text.prefix, _source(text)] for text in sources.train],
        "valid": [_source(text) for text in sources.valids],
        "tests": {name: _source(text) for name, text in sources.tests.items()},
        "vocab": [hashlib.sha256(vocabulary.model).hexdigest() for vocabulary in vocabularies],
    }
    return hashlib.sha256(json.dumps(decisive).encode()).hexdigest()


def read_progress(folder: Path) -> Progress | None:
    """Return the progress of the folder; None if nothing in it can be used."""
    try:
        content = (folder / PROGRESS_FOLDER / _PROGRESS_NAME).read_bytes()
        checksum, _, written = content.partition(b"\n")
        if hashlib.sha256(written).hexdigest().encode() != checksum:
            return None
        progress: Progress = manifest.build_value(Progress, files.parse_json(written), "")
        inner = folder / PROGRESS_FOLDER
        checksums = {folder / file.name: file.sha256 for file in progress.vocabulary.files}
        checksums |= {folder / shard.name: shard.sha256 for shard in progress.shards}
        checksums |= {folder / file.name: file.sha256 for file in progress.side_columns}
        checksums |= {inner / one.name: one.sha256 for one in (*progress.hashes, *progress.lexicon)}
        if any(files.sha256_file(path) != sha256 for path, sha256 in checksums.items()):
            return None
    except (OSError, ValueError):
        return None
    return progress


def write_progress(folder: Path, progress: Progress) -> None:
    """Record what is complete: a line with the checksum, and one with the progress."""
    content = json.dumps(asdict(progress))
    checksum = hashlib.sha256(content.encode()).hexdigest()
    files.write_text(folder / PROGRESS_FOLDER / _PROGRESS_NAME, f"{checksum}\n{content}")


def write_hashes(folder: Path, rule: str, number: int, hashes: Hashes) -> manifest.FileRecord:
    """Write what a rule of duplicates has to remember of training shard `number`."""
    path = folder / PROGRESS_FOLDER / f"{rule}-{number:05d}.bin"
    with files.atomic_writer(path) as file:
        file.write(hashes.astype("<u8").data)
    return manifest.record_file(path)


def hashed_rule(file: manifest.FileRecord) -> str:
    return file.name.rpartition("-")[0]


def read_hashes(folder: Path, file: manifest.FileRecord) -> Hashes:
    return np.fromfile(folder / PROGRESS_FOLDER / file.name, "<u8").astype(np.uint64)


def _source(text: SourceText) -> dict[str, Any]:
    return asdict(text.record(lines=text.lines, rejected={})) | {"prefix": ""}
