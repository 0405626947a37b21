"""Commands of the user that write one line for each line: teachers, and what scores translations.

A command is started for each block of lines, and each block's answer is a file of its own, complete
or not there. Its name has the checksum of the command with the lines, and that of the answer. So a
command that was stopped goes on with the block that it was at, and a file that was changed is made
again. Since the count is checked for each block, a line too many never shifts the lines of others.
"""

from __future__ import annotations

import codecs
import contextlib
import hashlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TypeVar

from nmt import console
from nmt.errors import DataError, NMTError
from nmt.system.files import atomic_writer

T = TypeVar("T")
BLOCK_LINES = 10_000
"""Many, because some programs take half a minute to load a model."""
_GRACE_SECONDS = 10.0
"""For a command to end after SIGTERM."""


def answers(
    command: str, option: str, lines: Iterable[str], folder: Path, read: Callable[[str], T]
) -> Iterator[T]:
    """Yield what a command writes for each line; NMTError if it fails.

    command: for the shell. It reads UTF-8 on stdin and writes it on stdout.
    option: with which it was given, for messages.
    folder: keeps its answers.
    read: makes a line of an answer what is wanted; ValueError if it is nothing of the kind.
    """
    folder.mkdir(exist_ok=True)
    waiting = iter(lines)
    blocks = iter(lambda: list(islice(waiting, BLOCK_LINES)), [])
    with console.progress(f"{option} is at work", total=None, unit="lines") as bar:
        for number, block in enumerate(blocks):
            given = "".join(f"{line}\n" for line in block).encode()
            first = number * BLOCK_LINES + 1
            name = f"{option}, lines {first:,} to {first + len(block) - 1:,}"
            key = f"{number:05}-{_checksum(command.encode() + bytes(1) + given)}"
            kept = (path.read_bytes() for path in folder.glob(f"{key}-*") if _is_whole(path))
            answer = next(kept, None) or _run(command, given, name)
            texts = _texts(answer, name, len(block))
            found = [_read(read, text, number, option) for number, text in enumerate(texts, first)]
            with atomic_writer(folder / f"{key}-{_checksum(answer)}") as file:
                file.write(answer)
            yield from found
            bar.update(len(block))


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _is_whole(path: Path) -> bool:
    return path.name.endswith(f"-{_checksum(path.read_bytes())}")


def _run(command: str, given: bytes, name: str) -> bytes:
    """Return what a command writes; what it starts ends with it if we are stopped (NMTError)."""
    shell = subprocess.Popen(
        ["/bin/sh", "-c", command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    with shell:
        try:
            answer, _ = shell.communicate(given)
        except KeyboardInterrupt:
            os.killpg(shell.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                shell.wait(_GRACE_SECONDS)
            with contextlib.suppress(ProcessLookupError):  # nothing of it is left
                os.killpg(shell.pid, signal.SIGKILL)
            raise
    if status := shell.returncode:
        how = f"with status {status}" if status > 0 else f"by {signal.Signals(-status).name}"
        raise NMTError(
            f"{name}: the command ended {how}; mend that, and run the same command again to go on "
            "there"
        )
    return answer


def _read(read: Callable[[str], T], text: str, number: int, option: str) -> T:
    try:
        return read(text)
    except ValueError:
        raise DataError(
            f"{option}: wrote {text!r:.40} for line {number:,}; it must be a number"
        ) from None


def _texts(answer: bytes, name: str, expected: int) -> list[str]:
    """Return the lines of an answer; DataError if they are too many, too few or no text."""
    lines = answer.removeprefix(codecs.BOM_UTF8).split(b"\n")
    if not lines[-1]:
        lines.pop()
    if len(lines) != expected:
        raise DataError(
            f"{name}: the command wrote {console.counted(len(lines), 'line', 'lines')}; it must "
            "write exactly one for each"
        )
    try:
        return [line.removesuffix(b"\r").decode() for line in lines]
    except UnicodeDecodeError as error:
        raise DataError(f"{name}: the command wrote text that is not UTF-8: {error}") from None
