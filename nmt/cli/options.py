"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nmt import console
from nmt.errors import UsageError


def _set_quiet(quiet: bool) -> bool:
    console.set_quiet(quiet)
    return quiet


Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet",
        callback=_set_quiet,
        help="Hide progress and notices, but not warnings and errors.",
    ),
]


def preset_names(incomplete: str) -> list[str]:
    """Return the presets that begin with what has been typed, for the shell's completion."""
    from nmt.models.presets import PRESETS

    return [name for name in PRESETS if name.startswith(incomplete)]


def check_new_file(name: str) -> Path:
    """Return the path of a file to be written, as it was typed.

    Raises:
        UsageError: if it is a folder, or has a slash at its end, or is in no folder.
    """
    path = Path(name)
    if name.endswith("/") or path.is_dir():
        raise UsageError(f"{name}: is a folder; name a file")
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent}: no such folder")
    if path.exists() and not path.is_file():
        raise UsageError(f"{path}: is not a regular file; choose another name")
    return path


def check_picture(name: str) -> Path:
    """Return the path of a picture to be drawn, as it was typed.

    Raises:
        UsageError: if it cannot be written, or is no name of an SVG file.
    """
    if not name.lower().endswith(".svg"):
        raise UsageError(f"{name}: pictures are SVG; give a name that ends in .svg")
    return check_new_file(name)
