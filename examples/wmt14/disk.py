"""What of the disk that a recipe needs is still to be written."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG

from catalogue import FILE_NAME, read_catalogue

from nmt.files import TEMPORARY_SUFFIX

CATALOGUE = Path(__file__).with_name(FILE_NAME)


def left_to_write(name: str, needed: Mapping[str, int], work: Path) -> int:
    """Return the bytes of what is needed that are not there yet.

    Of a complete stage nothing is written any more, and what it has read may have been removed.
    Other recipes' files in the work folder count where this one reads them too.

    Args:
        name: the recipe's, such as en-de-base.
        needed: bytes by part, as `Needs.disk` has them.
        work: folder that all is written to.
    """
    pair = name.rpartition("-")[0]
    texts = read_catalogue(CATALOGUE).texts[pair]
    text, data, downloads = work / f"text-{pair}", work / f"data-{pair}", work / "downloads"
    prepared = (work / f"{data.name}.complete").exists()
    extracted = prepared or all((text / f"{one}.lines").exists() for one in texts)
    complete = {"archives": extracted, "text": extracted, "data folder": prepared}
    archives = {one.archive for one in texts.values()}
    paths = {
        "archives": [
            downloads / f"{one}{end}" for one in archives for end in ("", TEMPORARY_SUFFIX)
        ],
        "text": [text],
        "data folder": [data, work / f"{data.name}{TEMPORARY_SUFFIX}"],
        "checkpoints and training states": [work / name],
    }
    return sum(
        max(0, size - used_bytes(paths[part]))
        for part, size in needed.items()
        if not complete.get(part)
    )


def used_bytes(paths: Iterable[Path]) -> int:
    """Return the bytes of files, and of all files below folders; links to one are counted once."""
    sizes = {}
    for path in paths:
        below = (Path(folder) / name for folder, _, names in os.walk(path) for name in names)
        for file in (path, *below):
            with suppress(FileNotFoundError):  # a training that is at work removes checkpoints
                status = file.stat()
                if S_ISREG(status.st_mode):
                    sizes[status.st_dev, status.st_ino] = status.st_size
    return sum(sizes.values())
