"""Which files a job reads, and which it writes."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path

from nmt.errors import DataError, UsageError


def find_files(inputs: Sequence[str], output: Path | None) -> list[tuple[Path, Path]]:
    """Return which files are to be translated to which; none where a pipe or device is among them.

    Raises:
        UsageError: if there is nothing to read, or no place to write to.
        DataError: if the only file to read does not exist.
    """
    sources = [source for given in inputs for source in _expanded(given)]
    if inputs and not sources:
        raise UsageError(f"--input {' '.join(inputs)}: there are no files")
    if sources != [Path(given) for given in inputs[:1]]:
        if output is None or output.is_file():
            raise UsageError("several inputs need a folder to write to: --output FOLDER")
        for source in sources:
            if source.exists() and not source.is_file():
                raise UsageError(f"{source}: several inputs must be files, which can be read twice")
        twice = [path.name for path in sources if [p.name for p in sources].count(path.name) > 1]
        if twice:
            raise UsageError(f"--input: two files have the name {twice[0]}, and so would outputs")
        output.mkdir(exist_ok=True)
        return [(source, _other(source, output / source.name)) for source in sources]
    if sources and not sources[0].exists():
        raise DataError(f"{sources[0]}: No such file or directory")
    if output is None:
        return []
    if output.is_dir():
        if not sources:
            raise UsageError(f"{output}: is a folder; name a file for what comes through a pipe")
        output /= sources[0].name
    if not output.parent.is_dir():
        raise UsageError(f"{output.parent}: no such folder")
    if not (sources and sources[0].is_file()) or (output.exists() and not output.is_file()):
        return []
    return [(sources[0], _other(sources[0], output))]


def _expanded(given: str) -> list[Path]:
    path = Path(given)
    if path.is_dir():
        files = [entry for entry in path.iterdir() if entry.is_file()]
        return sorted(entry for entry in files if not entry.name.startswith("."))
    if path.exists() or not glob.has_magic(given):
        return [path]
    matches = (Path(match) for match in glob.glob(given))  # noqa: PTH207 - it may be absolute
    return sorted(match for match in matches if match.is_file())


def _other(source: Path, output: Path) -> Path:
    if output.exists() and output.samefile(source):
        raise UsageError(f"{output}: the output would replace the input")
    return output
