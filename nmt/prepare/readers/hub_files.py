"""Which files a folder or a pattern stands for.

Hubs keep the splits of a data set side by side, such as `data/train-00000-of-00003.parquet` and
`data/test-...`, or `train/0000.parquet`. A folder whose files name no split is one text.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from nmt import console
from nmt.errors import DataError, UsageError
from nmt.prepare.readers.text_names import TMX, has_rows
from nmt.tables.formats import TABLES, suffix_of

_SPLITS = {
    "train": "train training trainset",
    "valid": "valid validation validset val dev development devset",
    "test": "test testing testset devtest",
    "": "eval evaluation",  # which some say for valid, and others for test
}
"""Words in the names of files, by the option that takes them."""
_SIGNS = re.compile(r"[*?\[]")
_LISTED = 4


def is_pattern(name: str) -> bool:
    return _SIGNS.search(name) is not None and not Path(name).exists()


def files_of(name: str, path: Path, split: str) -> list[Path]:
    """Return the tables or memories, all of one format, that a folder or a pattern stands for.

    name: as the user gives it; split: train, valid or test, by the option that names it.
    DataError if there is none. UsageError if it is not clear which ones are meant.
    """
    is_folder = path.is_dir()
    folder, found = path, sorted(path.glob("*"))
    if is_folder and not any(has_rows(file.name) for file in found):
        found = sorted(path.rglob("*"))
    elif not is_folder:
        found = sorted(Path(path.anchor).glob(str(path.relative_to(path.anchor))))
        folder = Path(os.path.commonpath([file.parent for file in found] or [path]))
    inside = {file: file.relative_to(folder).as_posix() for file in found if has_rows(file.name)}
    splits = {file: _splits_in(place) for file, place in inside.items() if "/." not in f"/{place}"}
    if not splits:
        suffixes = console.listed((form.suffix for form in (*TABLES, TMX)), "or")
        raise DataError(
            f"{name}: has no {suffixes} files; for others, give the prefix of two files, as in "
            "FOLDER/train, or one file"
        )
    is_split = is_folder and any(splits.values())
    chosen = [file for file in splits if not is_split or splits[file] == {split}]
    places = {_place(inside[file]) for file in chosen}
    others = [splits[file] for file in splits if is_split and _place(inside[file]) in places]
    problems = {
        f"no file is named {split}": not chosen,
        f"it holds several data sets, {', '.join(sorted(places))}": is_folder and len(places) > 1,
        "not each file names one split": any(len(split) != 1 for split in others)
        or len({frozenset(splits[file]) for file in chosen}) > 1,
        "its files are of several kinds": len({suffix_of(file.name) for file in chosen}) > 1,
    }
    for problem in (problem for problem, is_there in problems.items() if is_there):
        file = (chosen or [*splits])[0]
        raise UsageError(
            f"{name}: {problem}: {_listed([*inside.values()])}; name one file, or several by a "
            f"pattern in quotes, such as '{file.parent}/NAME*{file.suffix}'"
        )
    listed = _listed([inside[file] for file in chosen])
    console.notice(f"{name}: reading {len(chosen):,} of {len(splits):,} files: {listed}")
    return chosen


def _splits_in(name: str) -> set[str]:
    words = re.findall("[a-z]+", name.lower())
    return {split for split, names in _SPLITS.items() if not set(words).isdisjoint(names.split())}


def _place(name: str) -> str:
    """Return the folder of a file without those that name a split."""
    return "/".join(part for part in name.split("/")[:-1] if not _splits_in(part)) or "."


def _listed(names: list[str]) -> str:
    more = [f"... {names[-1]}"] if len(names) > _LISTED else []
    return ", ".join(names[:_LISTED] + more)
