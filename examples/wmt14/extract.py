#!/usr/bin/env python3
"""Take one parallel text out of its archive: `NAME.en` and `NAME.de`, and `NAME.lines`.

Only the two members that the catalogue names are taken, whatever else an archive holds. Plain text
is copied byte by byte, compressed text (.gz) stays compressed, and SGML becomes text. Both sides
must have the number of lines that the catalogue says; `NAME.lines` holds it, is written last, and
tells that the text is complete.
"""

from __future__ import annotations

import argparse
import gzip
import shutil
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, BinaryIO, cast

from catalogue import ParallelText, read_catalogue

from nmt import console
from nmt.cli.command import run
from nmt.data.corpus import Encoding, read_chunks
from nmt.errors import DataError, did_you_mean
from nmt.markup.segment_files import read_sgml
from nmt.system.files import atomic_writer, check_room, remove_left_overs, write_text

CHUNK = 1 << 20
DAMAGES = (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile)


def extract(text: ParallelText, archive: Path, folder: Path) -> None:
    """Write both sides of a text into a folder.

    DataError if the archive is damaged, lacks a member, or does not have the lines it should.
    """
    if not archive.is_file():
        raise DataError(f"{archive}: no such file")
    console.notice(f"taking {text.name} out of {archive.name}")
    remove_left_overs(folder)
    languages = {member: language for language, member in text.members.items()}
    lines, others = {}, set()
    try:
        for member, content in _members(archive):
            language = languages.get(member.name.removeprefix("./"))
            if language is None:
                others.add(member.name)
                continue
            if content is None:
                raise DataError(f"{archive}: {member.name} is no regular file")
            lines[member.name] = _write(content, member, folder / f"{text.name}.{language}")
    except (*DAMAGES, UnicodeDecodeError) as error:
        raise DataError(
            f"{archive}: cut short or damaged ({error}); remove it and {archive.name}.sha256, and "
            "it is fetched again"
        ) from None
    if missing := languages.keys() - {name.removeprefix("./") for name in lines}:
        name = min(missing)
        raise DataError(f"{archive} does not hold {name}{did_you_mean(name, others)}")
    for name, count in lines.items():
        if count != text.lines:
            raise DataError(
                f"{archive}: {name} has {count:,} lines, and {text.lines:,} are expected"
            )
    write_text(folder / f"{text.name}.lines", f"{text.lines}\n")


def _members(archive: Path) -> Iterator[tuple[tarfile.TarInfo, IO[bytes] | None]]:
    """Yield what an archive holds, in order, each with its content if it is a regular file."""
    with archive.open("rb") as file:
        # Through GzipFile, since tarfile's own stream does not look at the checksum at the end.
        plain = cast(BinaryIO, gzip.GzipFile(fileobj=file)) if archive.suffix == ".tgz" else file
        with tarfile.open(fileobj=plain, mode="r|") as tar:
            for member in tar:
                yield member, tar.extractfile(member) if member.isreg() else None
        while plain.read(CHUNK):
            pass


def _write(content: IO[bytes], member: tarfile.TarInfo, path: Path) -> int:
    """Write a side of a text, and return how many lines it has."""
    if member.name.endswith(".gz"):
        path = path.with_name(f"{path.name}.gz")
    check_room(path, member.size)
    with atomic_writer(path) as file:
        if member.name.endswith(".sgm"):
            text = read_sgml(member.name, content.read().decode())
            file.writelines(f"{line}\n".encode() for line in text.lines)
        else:
            shutil.copyfileobj(content, file, CHUNK)
    return count_lines(path)


def count_lines(path: Path) -> int:
    """Return how many lines a text has, compressed or not, as `nmt prepare` counts them."""
    count, last = 0, b"\n"
    for chunk in read_chunks(path, Encoding.find("utf-8"), any_bytes=True):
        count += chunk.count(b"\n")
        last = chunk[-1:] or last
    return count + (last != b"\n")


def main() -> None:
    """Extract what the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("name", help="text to extract, such as europarl-v7")
    parser.add_argument("--pair", required=True, help="languages, such as en-de")
    parser.add_argument("--catalogue", type=Path, required=True, help="wmt14.toml")
    parser.add_argument("--archives", type=Path, required=True, help="folder that holds them")
    parser.add_argument("--out", type=Path, required=True, help="folder to write to")
    options = parser.parse_args()
    text = read_catalogue(options.catalogue).text(options.pair, options.name)
    options.out.mkdir(parents=True, exist_ok=True)
    extract(text, options.archives / text.archive, options.out)


if __name__ == "__main__":
    run(main)
