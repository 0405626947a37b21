"""What has been done of a file's translation, on disk, so that a job goes on where it was killed.

Beside OUT stand, hidden, `.OUT.partial` with the lines translated so far, and `.OUT.journal` with a
line of JSON for each pool of them: how far input and output reach, and the SHA-256 of both up to
there. What does not match is not believed, and the job begins again. When all is done the journal
notes it and the partial file becomes OUT; from then on it tells of what OUT is the translation. It
also is the lock: one job at a time is at work on OUT.

It names the kernel, too, by which matrices are multiplied (`models.kernels`): the rest of a file is
translated by the same, though another may have become the fastest.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, Self

from nmt.data.compressed import compress, is_compressed
from nmt.errors import HeldOff
from nmt.files import TEMPORARY_SUFFIX, naming, resolved, sha256_file, sync_folder

_FORMAT_VERSION = 1
_EMPTY = hashlib.sha256().hexdigest()

Chunks = Iterator[bytes]


@dataclass(frozen=True)
class Reached:
    """How far a job has come."""

    input_bytes: int = 0  # of text, decompressed
    input_sha256: str = _EMPTY
    output_bytes: int = 0
    output_sha256: str = _EMPTY
    ends_line: bool = True  # whether the input's last line is complete
    counts: dict[str, Any] = field(default_factory=dict)  # what the job wants to remember
    file_sha256: str = ""  # when all is done, of the file that becomes the output


def lock(file: BinaryIO, path: Path) -> None:
    """Hold an open file locked until it is closed, also by the death of this process.

    Raises:
        HeldOff: if another process does.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise HeldOff(f"{path}: another job is at work; run the same command again later") from None


class Journal:
    """The journal of one output file, locked; for `with`."""

    def __init__(self, output: Path) -> None:
        """Open and lock it.

        Raises:
            HeldOff: if another job is at work on the file.
        """
        self.output = resolved(output)  # behind a symbolic link, the file itself is replaced
        self.reached = Reached()
        self.kernel: str | None = None  # by which lines are translated, once that is known
        folder, name = self.output.parent, self.output.name
        self._partial = folder / f".{name}{TEMPORARY_SUFFIX}"
        self._compressed = folder / f".{name}.compressed{TEMPORARY_SUFFIX}"
        self._path = folder / f".{name}.journal"
        self._file = open_locked(self._path, output)
        self._writing: BinaryIO | None = None
        self._is_new = not self._path.stat().st_size
        self._job: dict[str, Any] = {}
        self._end = 0  # of what is true in the journal
        self._input, self._written = hashlib.sha256(), hashlib.sha256()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        is_empty = not (self.reached.counts or self.reached.file_sha256)
        if self._is_new and is_empty:  # of what has done nothing, nothing is left
            self._partial.unlink(missing_ok=True)
            self._path.unlink(missing_ok=True)
        # What counts has been flushed; what is left over from a full disk need not be.
        with contextlib.suppress(OSError):
            if self._writing is not None:
                self._writing.close()
        with contextlib.suppress(OSError):
            self._file.close()

    def job(self) -> dict[str, Any]:
        """Return what the journal says that the output depends on; nothing if it is new."""
        self._file.seek(0)
        try:
            content = json.loads(self._file.readline())
            return dict(content["job"])
        except (ValueError, TypeError, KeyError):  # empty, or not written by us
            return {}

    def begin(self, job: dict[str, Any], text: Callable[[], Chunks]) -> Chunks | None:
        """Go to where the job was; to the beginning, where what is noted does not match.

        Args:
            job: all that the translation depends on besides its input, as JSON has it.
            text: returns the input's bytes from their beginning, in pieces of any size.

        Returns:
            The input from there on; None where the output is complete, of this very input.
        """
        self._job = job
        self.reached, self._end, self.kernel = self._read(job)
        if self.reached.file_sha256:
            if self._is_complete(text()):
                return None
            return self.begin_again(text)
        # Without a line translated by the kernel that is noted, any other will do.
        rest = self._rest(text()) if self.reached.input_bytes else None
        return self.begin_again(text) if rest is None else rest

    def begin_again(self, text: Callable[[], Chunks]) -> Chunks:
        """Go to the beginning: nothing is kept of what is noted. See `begin`, which was first."""
        self.reached, self._end, self.kernel = Reached(), 0, None
        self._input, self._written = hashlib.sha256(), hashlib.sha256()
        return text()

    def add(self, read: bytes, written: bytes, counts: dict[str, Any]) -> None:
        """Note that some input has been translated: when this returns, it is safe on disk."""
        writing = self._started()
        with naming(self.output):
            writing.write(written)
            writing.flush()
            os.fsync(writing.fileno())
        self._input.update(read)
        self._written.update(written)
        self.reached = Reached(
            self.reached.input_bytes + len(read),
            self._input.hexdigest(),
            self.reached.output_bytes + len(written),
            self._written.hexdigest(),
            read.endswith(b"\n"),
            counts,
        )
        self._append(asdict(self.reached))

    def finish(self) -> None:
        """Let the output be what has been written."""
        self._started()
        complete = self._partial
        if is_compressed(self.output):
            with naming(self.output):
                compress(self._partial, self._compressed, self.output.suffix)
            complete = self._compressed
        self.reached = replace(self.reached, file_sha256=sha256_file(complete))
        self._append(asdict(self.reached))
        self._put_in_place(complete)

    def _started(self) -> BinaryIO:
        """Return the partial file. What another job has left goes only now that there is more."""
        if self._writing is None:
            self._file.truncate(self._end)  # of a line that was cut off nothing remains
            if not self._end:
                self._is_new = True
                self._append(_header(self._job) | {"kernel": self.kernel})
            self._writing = self._partial.open("r+b" if self._partial.exists() else "w+b")
            self._writing.truncate(self.reached.output_bytes)
            self._writing.seek(0, os.SEEK_END)
        return self._writing

    def _put_in_place(self, complete: Path) -> None:
        if complete != self.output:
            os.replace(complete, self.output)
        for left_over in (self._partial, self._compressed):
            left_over.unlink(missing_ok=True)
        sync_folder(self.output.parent)

    def _is_complete(self, text: Chunks) -> bool:
        digest = hashlib.sha256()
        for chunk in text:
            digest.update(chunk)
        if digest.hexdigest() != self.reached.input_sha256:
            return False
        # The latter two, where the job was killed before it could rename them.
        for path in (self.output, self._partial, self._compressed):
            if path.is_file() and sha256_file(path) == self.reached.file_sha256:
                self._put_in_place(path)
                return True
        return False

    def _rest(self, text: Chunks) -> Chunks | None:
        """Return what is left of the input; None where input or output are not as noted."""
        self._input, self._written = hashlib.sha256(), hashlib.sha256()
        left = self.reached.output_bytes
        if left and self._partial.is_file():
            with self._partial.open("rb") as file:
                while block := file.read(min(left, 1 << 20)):
                    self._written.update(block)
                    left -= len(block)
        if left or self._written.hexdigest() != self.reached.output_sha256:
            return None
        rest = _after(text, self.reached.input_bytes, self._input)
        if self._input.hexdigest() != self.reached.input_sha256:
            return None
        more = next(rest, b"")
        if more and not self.reached.ends_line:
            return None  # what was the last line has grown
        return _with_first(more, rest)

    def _read(self, job: dict[str, Any]) -> tuple[Reached, int, str | None]:
        """Return how far this job had come, where in the journal that is said, and its kernel."""
        self._file.seek(0)
        lines = self._file.read().splitlines(keepends=True)
        reached, end, kernel = Reached(), 0, None
        for number, line in enumerate(lines):
            try:
                content = json.loads(line.removesuffix(b"\n") if line[-1:] == b"\n" else b"")
                if number:
                    reached = Reached(**content)
                elif {**content, "kernel": None} != _header(job) | {"kernel": None}:
                    break
                else:
                    kernel = content.get("kernel")
            except (ValueError, TypeError):  # cut off, or not written by us
                break
            end += len(line)
        return reached, end, kernel

    def _append(self, content: dict[str, Any]) -> None:
        with naming(self.output):
            self._file.write(json.dumps(content).encode() + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())


def _header(job: dict[str, Any]) -> dict[str, Any]:
    return {"format": _FORMAT_VERSION, "job": job}


def open_locked(path: Path, output: Path) -> BinaryIO:
    """Open a file to append to and read, made if need be, and lock it until it is closed.

    Raises:
        HeldOff: another process holds it; this and errors of the system name `output`.
    """
    while True:
        try:
            file = path.open("a+b")
        except OSError as error:
            error.filename = str(output)
            raise
        lock(file, output)
        # Another job may have removed it in between; a lock on what has no name holds off nobody.
        if path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat()):
            return file
        file.close()


def _after(chunks: Chunks, count: int, digest: Any) -> Chunks:
    """Take `count` bytes off the chunks, all of which the digest is given; return the others."""
    for chunk in chunks:
        digest.update(chunk[:count])
        if len(chunk) > count:
            return _with_first(chunk[count:], chunks)
        count -= len(chunk)
        if not count:
            break
    return chunks


def _with_first(first: bytes, others: Chunks) -> Chunks:
    yield first
    yield from others
