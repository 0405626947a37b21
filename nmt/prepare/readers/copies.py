"""Copies of text that cannot be read more than once where it is: stdin, and files at URLs."""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from nmt import console
from nmt.data.compressed import SUFFIXES
from nmt.errors import DataError, UsageError
from nmt.prepare.readers.text_names import format_of, two_files
from nmt.system.files import TEMPORARY_SUFFIX, megabytes, naming
from nmt.system.remote import download, exists, files_at, is_url, mirrored, without_scheme
from nmt.tables.formats import STDIN, file_and_columns, is_table


@contextlib.contextmanager
def copies_kept(
    texts: Sequence[tuple[str, tuple[str, str]]], folder: Path
) -> Iterator[Mapping[str, Path]]:
    """Copy stdin and the files at URLs to a temporary folder, and yield their paths by name.

    It is removed at the end.

    folder: where to make the temporary one, if it is needed.
    DataError if a URL has no such text. NMTError if a URL cannot be read.
    """
    named = [(file_and_columns(prefix)[0], langs) for prefix, langs in texts]
    if not any(name == STDIN or "://" in name for name, _ in named):
        yield {}
        return
    folder.mkdir(parents=True, exist_ok=True)
    with (
        naming(folder),
        tempfile.TemporaryDirectory(
            dir=folder, prefix=".copies-", suffix=TEMPORARY_SUFFIX
        ) as temporary,
    ):
        copies: dict[str, Path] = {}
        for name, langs in named:
            if name == STDIN:
                copies[name] = Path(temporary, "stdin")
                _copy_stdin(copies[name])
                console.notice(
                    f"copied {megabytes(copies[name].stat().st_size)} from stdin to {folder}"
                )
                continue
            two = two_files(name)
            is_two = two is not None and "://" in two[1]
            for file in two if two and is_two else (name,):
                if is_url(file):
                    copies[file] = mirrored(file, Path(temporary))
                    for url in [file] if is_two else _files_of(file, langs):
                        path = mirrored(url, Path(temporary))
                        if not path.exists():
                            download(url, path)
                elif "://" in file:
                    copies[file] = Path(without_scheme(file))
        yield copies


def _copy_stdin(path: Path) -> None:
    if sys.stdin is None:
        raise UsageError("stdin is closed; name the file of each text")
    with path.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file, 1 << 20)


def _files_of(name: str, langs: tuple[str, str]) -> list[str]:
    if name.endswith("/") or "*" in name:
        return list(filter(is_table, files_at(name)))
    if format_of(name):
        return [name]
    urls = []
    for lang in langs:
        names = [f"{name}.{lang}{suffix}" for suffix in ("", *SUFFIXES)]
        of_lang = [url for url in names if exists(url)]
        if not of_lang:
            raise DataError(f"{names[0]}: no such file, plain or compressed ({' '.join(SUFFIXES)})")
        urls += of_lang
    return urls
