"""Copies of text that cannot be read more than once where it is: stdin, URLs, tables in ZIPs."""

from __future__ import annotations

import contextlib
import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from nmt import console
from nmt.data.compressed import SUFFIXES, check_unpacked
from nmt.data.languages import names_language, primary_language
from nmt.errors import DataError, UsageError
from nmt.prepare.readers.line_files import members_of, open_zip, own_members
from nmt.prepare.readers.text_names import TMX, ZIP, Copies, format_of, has_rows, two_files
from nmt.system.files import TEMPORARY_SUFFIX, megabytes, naming
from nmt.system.remote import download, exists, files_at, is_url, mirrored, without_scheme
from nmt.tables.formats import STDIN, TSV, file_and_columns, suffix_of

_ARCHIVE = re.compile(r"(?P<file>.+\.zip)(?::(?P<member>.+))?", re.IGNORECASE)
_START_BYTES = 1 << 16


@contextlib.contextmanager
def copies_kept(texts: Sequence[tuple[str, tuple[str, str]]], folder: Path) -> Iterator[Copies]:
    """Copy stdin, files at URLs and tables in ZIP archives to a folder; yield their paths by name.

    The folder is temporary: it is removed at the end.

    folder: where to make the temporary one, if it is needed.
    DataError if a URL has no such text. NMTError if a URL cannot be read.
    """
    named = [(file_and_columns(prefix)[0], langs) for prefix, langs in texts]
    if not any(name == STDIN or "://" in name or ZIP.suffix in name.lower() for name, _ in named):
        yield {}
        return
    folder.mkdir(parents=True, exist_ok=True)
    made = tempfile.TemporaryDirectory(dir=folder, prefix=".copies-", suffix=TEMPORARY_SUFFIX)
    with naming(folder), made as temporary:
        copies: dict[str, Path] = {}
        for name, langs in named:
            if name == STDIN:
                copies[name] = path = Path(temporary, "stdin")
                _copy_stdin(path)
                console.notice(f"copied {megabytes(path.stat().st_size)} from stdin to {folder}")
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
        for number, (name, langs) in enumerate(named):
            if archive := _ARCHIVE.fullmatch(name):
                path = copies.get(archive["file"], Path(archive["file"]))
                folder = Path(temporary, f"zip-{number}")
                if path.is_file() and (table := _unpacked(path, archive["member"], langs, folder)):
                    copies[name] = table
        yield copies


def _unpacked(path: Path, member: str | None, langs: tuple[str, str], folder: Path) -> Path | None:
    """Unpack the table of a ZIP archive, or its translation memories; None if it has lines of text.

    member: the name of the one that is meant, if the user gave it.
    folder: where to.
    Returns the file, or the folder if there are several memories. DataError if there are several
    tables.
    """
    with open_zip(path) as archive:
        members = [one for one in own_members(archive) if member in (None, one.filename)]
        if member is None and all(members_of(members, lang) for lang in langs):
            return None
        tables = [one for one in members if has_rows(one.filename)]
        tables = tables or [one for one in members if _has_tabs(archive, one)]
        if len(tables) > 1 and any(suffix_of(one.filename) != TMX.suffix for one in tables):
            example = f"{path}:{max(tables, key=lambda one: _fit(one, langs)).filename}"
            raise DataError(f"{path}: has {len(tables)} tables; name one, as in {example}")
        targets = []
        for number, one in enumerate(tables):
            check_unpacked(str(path), one.compress_size, one.file_size)
            name = Path(one.filename).name
            target = folder / f"{number:06}" / (name if format_of(name) else name + TSV.suffix)
            target.parent.mkdir(parents=True)
            with archive.open(one) as source, target.open("wb") as file:
                shutil.copyfileobj(source, file, 1 << 20)
            targets.append(target)
    return folder if len(targets) > 1 else next(iter(targets), None)


def _fit(member: zipfile.ZipInfo, langs: tuple[str, str]) -> tuple[int, int]:
    """Return how many of the languages the name of a file names, and its size."""
    words = re.findall("[A-Za-z]+", member.filename)
    named = (any(names_language(word, primary_language(lang)) for word in words) for lang in langs)
    return sum(named), member.file_size


def _has_tabs(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bool:
    """Return whether a file named .txt is a table, as those of Anki are."""
    if not member.filename.lower().endswith(".txt"):
        return False
    with archive.open(member) as file:
        return b"\t" in file.readline(_START_BYTES)


def _copy_stdin(path: Path) -> None:
    if sys.stdin is None:
        raise UsageError("stdin is closed; name the file of each text")
    with path.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file, 1 << 20)


def _files_of(name: str, langs: tuple[str, str]) -> list[str]:
    if name.endswith("/") or "*" in name:
        return list(filter(has_rows, files_at(name)))
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
