"""The input and output files of a translation job."""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from nmt import console
from nmt.errors import UsageError
from nmt.jobs.journal import JOURNALS


def find_files(
    inputs: Sequence[str], output: str | None, also_read: Sequence[Path] = ()
) -> list[tuple[Path, Path]]:
    """Pair input and output files; return none if a pipe or device is among them.

    Inputs are files, folders and globs, and the output a file or folder, all as typed. Files of
    inner folders keep their places. The output and folders that are `also_read`, such as models,
    are no inputs, even if they are in one. No output may replace a file or folder that is
    `also_read`. UsageError if an input matches no files, or the output cannot be written there.
    OSError if the only file to read is out of reach.
    """
    if "-" in inputs:
        raise UsageError("--input - : leave it out to read stdin, or name the file ./-")
    if output == "-":
        raise UsageError("--output - : leave it out to write to stdout, or name the file ./-")
    others = [*also_read, *([Path(output)] if output is not None else [])]
    expanded = {typed: _expanded(typed, others) for typed in inputs}
    for typed, files in expanded.items():
        if not files:
            raise UsageError(f"--input {typed}: no files found")
    sources = [source for typed in inputs for source in expanded[typed]]
    if sources != [Path(typed) for typed in inputs[:1]]:
        places = [place for typed in inputs for place in expanded[typed].values()]
        return _several(sources, places, output, also_read)
    if sources:
        sources[0].stat()  # or OSError: `exists` would not say why it is out of reach
    if output is None:
        return []
    target = Path(output)
    if target.is_dir():
        if not sources:
            raise UsageError(f"{output}: is a folder; name a file for the translation of a pipe")
        target /= sources[0].name
    elif output.endswith("/"):
        raise UsageError(f"{output}: no such folder; make it, or leave out the slash for a file")
    if not target.parent.is_dir():
        raise UsageError(f"{target.parent}: no such folder")
    _refuse_replacing(sources, also_read, [target])
    if not (sources and sources[0].is_file()) or (target.exists() and not target.is_file()):
        return []
    return [(sources[0], target)]


def _several(
    sources: Sequence[Path], places: Sequence[Path], output: str | None, also_read: Sequence[Path]
) -> list[tuple[Path, Path]]:
    """Pair several sources with files at some places in the output, a folder, which is made."""
    if output is None or (Path(output).exists() and not Path(output).is_dir()):
        raise UsageError("several inputs need a folder to write to: --output FOLDER")
    folder = Path(output)
    if not folder.parent.is_dir():
        raise UsageError(f"{folder.parent}: no such folder")
    for source in sources:
        if source.exists() and not source.is_file():
            raise UsageError(f"{source}: with several inputs, each must be a file")
    name, count = Counter(places).most_common(1)[0]
    if count > 1:
        raise UsageError(f"--input: two files are called {name}, so their outputs would be, too")
    files = [(source, folder / place) for source, place in zip(sources, places, strict=True)]
    _refuse_replacing(sources, also_read, [target for _, target in files])
    for inner in {folder / JOURNALS, *(target.parent for _, target in files)}:
        inner.mkdir(parents=True, exist_ok=True)
    return files


def _expanded(typed: str, others: Sequence[Path]) -> dict[Path, Path]:
    """Return the files that are meant, with their places in the output.

    others: files and folders that are left out, unless they are the folder itself.
    """
    path = Path(typed)
    if path.is_dir():
        # Broken links are included, so that they are reported.
        files = [entry for entry in _walk(path, others) if entry.is_file() or not entry.exists()]
        return {file: file.relative_to(path) for file in sorted(files)}
    if path.exists() or not glob.has_magic(typed):
        return {path: Path(path.name)}
    parts = path.parts
    fixed = Path(*parts[: next(n for n, part in enumerate(parts) if glob.has_magic(part))])
    matches = sorted(map(Path, glob.glob(typed, recursive=True)))  # noqa: PTH207
    folders = [match for match in matches if match.is_dir()]
    if folders and "**" not in typed:
        console.notice(
            f"--input {typed}: {console.counted(len(folders), 'folder is', 'folders are')} not "
            f"looked into, such as {folders[0]}; use {fixed}/** for all"
        )
    left_out = {_identity(other) for other in others if other.exists()} - {_identity(fixed)}
    around = {folder for match in matches for folder in match.parents}
    outside = {folder for folder in around if _identity(folder) in left_out}
    inputs = (match for match in matches if match.is_file() and not outside & {*match.parents})
    return {file: file.relative_to(fixed) for file in inputs}


def _walk(folder: Path, others: Iterable[Path]) -> Iterator[Path]:
    """Yield all entries of a folder that are no folders, and of those in it, except hidden ones."""
    left_out = {_identity(other) for other in others if other.exists()} - {_identity(folder)}
    for root, folders, names in os.walk(folder, onerror=_fail):
        inner = [Path(root, name) for name in folders if not name.startswith(".")]
        for link in filter(Path.is_symlink, inner):  # it may lead to a folder around it
            console.notice(f"{link}: is a link to a folder, which is not looked into")
        folders[:] = [path.name for path in inner if _identity(path) not in left_out]
        yield from (Path(root, name) for name in names if not name.startswith("."))


def _fail(error: OSError) -> None:
    raise error


def _refuse_replacing(
    sources: Iterable[Path], also_read: Iterable[Path], written: Iterable[Path]
) -> None:
    """Refuse outputs that would replace a file that is read, even through a link (UsageError)."""
    others = [file for path in also_read for file in (path.iterdir() if path.is_dir() else [path])]
    read = {_identity(file): f"{file}, which is read" for file in others if file.is_file()}
    read |= {_identity(file): f"the input {file}" for file in sources if file.is_file()}
    for path in written:
        if path.is_file() and (replaced := read.get(_identity(path))):
            raise UsageError(f"{path}: the output would replace {replaced}; choose another")


def _identity(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino


def count_lines(chunks: Iterator[bytes]) -> int:
    """Count lines, including a last one without a newline."""
    newlines, end = 0, b"\n"
    for chunk in chunks:
        newlines += chunk.count(b"\n")
        end = chunk[-1:] or end
    return newlines + (end != b"\n")
