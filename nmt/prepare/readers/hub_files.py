"""Which files a folder or a pattern stands for.

Hubs keep the splits of a data set side by side, such as `data/train-00000-of-00003.parquet` and
`data/test-...`, or `train/0000.parquet`. A folder whose files name no split is one text.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from nmt import console
from nmt.errors import DataError, UsageError
from nmt.prepare.readers.text_names import format_of
from nmt.tables.formats import TABLES, Format, is_table

_SPLITS = {
    "train": "train training trainset",
    "valid": "valid validation validset val dev development devset",
    "test": "test testing testset devtest",
    "": "eval evaluation",  # which some say for valid, and others for test
}
"""Words in the names of files, by the option that takes them."""
_SPLIT_OF = {word: split for split, words in _SPLITS.items() for word in words.split()}
_WORD = re.compile("[a-z]+")
_SIGNS = re.compile(r"[*?\[]")
_LISTED = 4


def is_pattern(name: str) -> bool:
    return _SIGNS.search(name) is not None and not Path(name).exists()


def files_of(name: str, path: Path, split: str) -> tuple[Format, list[Path]]:
    """Return the files of a folder or a pattern, and their format.

    name: as the user gives it; split: train, valid or test, by the option that names it.
    DataError if there is no file. UsageError if it is not clear which ones are meant.
    """
    if is_pattern(str(path)):
        pattern = str(path.relative_to(path.anchor))
        there = chosen = sorted(filter(Path.is_file, Path(path.anchor).glob(pattern)))
        if not there:
            raise DataError(f"{name}: no file fits this pattern; look at the names in the folder")
        folder = Path(os.path.commonpath([file.parent for file in there]))
        splits = set.union(*(_splits_in(file, folder) for file in there))
        if len(splits) > 1:
            raise _unclear(name, "it fits files of several splits", there)
    else:
        folder = path
        there = _tables_in(path.iterdir(), path) or _tables_in(path.rglob("*"), path)
        if not there:
            suffixes = console.listed((table.suffix for table in TABLES), "or")
            raise DataError(
                f"{name}: has no {suffixes} files; for others, give the prefix of two files, as in "
                "FOLDER/train, or one file"
            )
        chosen = _of_split(name, path, there, split)
    formats = {format_of(file.name) for file in chosen}
    form = formats.pop()
    if formats or form is None or not form.has_parts:
        raise _unclear(name, "these are not tables of one kind", chosen)
    listed = _listed([file.relative_to(folder) for file in chosen])
    console.notice(f"{name}: reading {len(chosen):,} of {len(there):,} files: {listed}")
    return form, chosen


def _tables_in(files: Iterable[Path], folder: Path) -> list[Path]:
    def is_hidden(file: Path) -> bool:
        return any(part.startswith(".") for part in file.relative_to(folder).parts)

    return sorted(f for f in files if is_table(f.name) and f.is_file() and not is_hidden(f))


def _of_split(name: str, folder: Path, files: Sequence[Path], split: str) -> list[Path]:
    """Return the files of a split, or all if none names a split (UsageError)."""
    splits = {file: _splits_in(file, folder) for file in files}
    chosen = [file for file in files if splits[file] == {split}]
    if not any(splits.values()):
        chosen = [*files]
    elif not chosen:
        raise _unclear(name, f"no file is named {' or '.join(_SPLITS[split].split()[:2])}", files)
    places = {_place(file, folder) for file in chosen}
    if len(places) > 1:
        raise _unclear(name, f"it holds several data sets, {', '.join(sorted(places))}", chosen)
    beside = [file for file in files if _place(file, folder) in places and file not in chosen]
    if odd := [file for file in beside if len(splits[file]) != 1]:
        raise _unclear(name, "not all files name one split", odd)
    return chosen


def _splits_in(file: Path, folder: Path) -> set[str]:
    """Return the splits that the name of a file in a folder tells."""
    words = _WORD.findall(file.relative_to(folder).as_posix().lower())
    return {_SPLIT_OF[word] for word in words if word in _SPLIT_OF}


def _place(file: Path, folder: Path) -> str:
    """Return where in a folder a file is, without the names of splits."""
    parts = file.relative_to(folder).parent.parts
    return "/".join(part for part in parts if not _splits_in(folder / part, folder)) or "."


def _listed(files: Sequence[Path]) -> str:
    more = f" ... {files[-1]}" if len(files) > _LISTED else ""
    return ", ".join(map(str, files[:_LISTED])) + more


def _unclear(name: str, problem: str, files: Sequence[Path]) -> UsageError:
    pattern = files[0].with_name(f"NAME*{files[0].suffix}")
    return UsageError(
        f"{name}: {problem}: {_listed(files)}; name one file, or several by a pattern in quotes, "
        f"such as '{pattern}'"
    )
