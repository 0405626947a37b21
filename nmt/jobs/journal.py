"""The journal of a translation job: progress on disk, so that a killed job continues.

Two hidden files stand beside OUT. `.OUT.partial` holds the lines translated so far. `.OUT.journal`
has a line of JSON for each finished pool: the bytes of input and output so far, and the SHA-256 of
both. If they do not match the files, the job begins again. A line is believed only if its own
checksum matches. At the end the journal records the finished output and the partial file becomes
OUT. The journal stays, and says what OUT is the translation of. It is also a lock: only one job at
a time works on OUT. The journals of a job over a folder lie in one hidden folder of its output.

By the journals, a job also knows what a person has corrected. It replaces the OUT that an earlier
job wrote, or that was there when this one began: the header has its SHA-256. What is there instead
was changed since, before this job or while it ran. In the output of a folder job, OUT without a
journal is somebody else's.

The journal also records the kernel for matrix products (`models.kernels`). The rest of a file is
translated with the same one, even if another is faster now.

What is on disk if a run is killed after each of its steps, and what the next run of the same
command does. The input `a b c` is three pools of a line, translated to `A B C`:

    step                              journal          partial  OUT    the next run
    1  open and lock the journal      empty            -        old    begins
    2  write the header               header           -        old    begins, with any kernel
    3  write a pool to the partial    header           A        old    begins: A is cut off
    4  note it in the journal         header a         A        old    goes on with b
       write the next pool            header a         A B      old    goes on with b: B is cut off
       note half of it                header a half    A B      old    the same; the half is cut off
       all pools are noted            header a b c     A B C    old    translates nothing; step 5
    5  compress, if OUT is compressed header a b c     A B C    old    compresses again
    6  note the SHA-256 of OUT (+)    header a b c +   A B C    old    reads and compares; step 7
    7  rename the partial to OUT      header a b c +   -        A B C  has nothing to do

Steps 3, 4 and 6 reach the disk (`fsync`) before the next one begins. So the journal never claims
what the partial file lacks, also after a power failure. The other way round, one pool too many in
the partial file is lost work, but no harm. `old` is an earlier file of this name, or none: nobody
ever sees half of a translation there. The kernel lets go of the lock when it ends a process, so no
lock file is left to be removed.

If the input or the options are others now, a checksum or the header does not match. Then
everything stays as it was until the first pool is translated (`_started`).
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, BinaryIO, Self

from nmt.data.compressed import compress, is_compressed
from nmt.data.manifest import build_value
from nmt.errors import NMTError, describe
from nmt.jobs.counts import Counts
from nmt.system import files

_FORMAT_VERSION = 2
JOURNALS = ".nmt-journals"
"""The folder for journals in the output of a job over a folder."""
_CHECK = "check"  # the field of a line that holds its checksum
_EMPTY = hashlib.sha256().hexdigest()

Chunks = Iterator[bytes]


@dataclass(frozen=True)
class JobProgress:
    input_bytes: int = 0  # of text, decompressed
    input_sha256: str = _EMPTY
    output_bytes: int = 0
    output_sha256: str = _EMPTY
    ends_line: bool = True  # whether the input's last line is complete
    counts: Counts = field(default_factory=Counts)
    file_sha256: str = ""  # of the finished output file; empty before


def journal_of(output: Path) -> Path:
    """Return the journal of an output: in a folder for journals above it, or else beside it."""
    output = output.absolute()
    beside = output.with_name(f".{output.name}.journal")
    for folder in output.parents:
        journals = folder / JOURNALS
        if journals.is_dir() and not journals.is_symlink():  # which another user may have planted
            journal = journals / output.parent.relative_to(folder) / beside.name[1:]
            journal.parent.mkdir(parents=True, exist_ok=True)
            if beside.exists() and not journal.exists():  # from before there was the folder
                beside.replace(journal)
            return journal
    return beside


class Journal:
    """The journal of one output file, which it locks. A context manager."""

    def __init__(self, output: Path) -> None:
        """Open and lock the journal; HeldOff if another job is working on the output."""
        self.output = files.resolved(output)  # replaces the target of a symbolic link
        self.progress = JobProgress()
        self.kernel: str | None = None  # that translates the lines, once known
        folder, name = self.output.parent, self.output.name
        self._partial = folder / f".{name}{files.TEMPORARY_SUFFIX}"
        self._compressed = folder / f".{name}.compressed{files.TEMPORARY_SUFFIX}"
        self._path = journal_of(self.output)
        self._file = open_locked(self._path, output, is_ours=True)
        self._writing: BinaryIO | None = None
        self._is_new = not self._path.stat().st_size
        self._job: dict[str, Any] = {}
        self._end = 0  # of the valid part of the journal
        self._input, self._written = hashlib.sha256(), hashlib.sha256()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        is_empty = not (self.progress.input_bytes or self.progress.file_sha256)
        if self._is_new and is_empty:  # a job that did nothing leaves nothing
            self._partial.unlink(missing_ok=True)
            self._path.unlink(missing_ok=True)
        # Everything that counts was flushed before. On a full disk, closing may fail.
        with contextlib.suppress(OSError):
            if self._writing is not None:
                self._writing.close()
        # Workers that were forked meanwhile have the file open, too: closing would not unlock it.
        from filelock import unlock_descriptor  # here, as `lock` does

        with contextlib.suppress(OSError):
            unlock_descriptor(self._file.fileno())
        with contextlib.suppress(OSError):
            self._file.close()

    def job(self) -> dict[str, Any]:
        """Return the identity of the recorded job; empty if the journal is new."""
        self._file.seek(0)
        try:
            return dict(read_line(self._file.readline())["job"])
        except (ValueError, TypeError, KeyError):  # empty, damaged, or of another version
            return {}

    def is_edited(self) -> bool:
        """Tell whether the output is the work of somebody else than the jobs that are recorded."""
        self._file.seek(0)
        known = set[str]()
        with contextlib.suppress(ValueError):  # the last line may be cut off
            for line in self._file:
                content = read_line(line)
                known |= {content.get("replaces", ""), content.get("file_sha256", "")}
        is_judged = self._path.parent != self.output.parent or bool(known - {""})
        return is_judged and bool(self._sha256_before) and self._sha256_before not in known

    @cached_property
    def _sha256_before(self) -> str:
        """Of the output before this job; empty if there was none."""
        return self._sha256_now()

    def _sha256_now(self) -> str:
        return files.sha256_file(self.output) if self.output.is_file() else ""

    def begin(self, job: dict[str, Any], text: Callable[[], Chunks]) -> Chunks | None:
        """Continue where the job stopped, or at the beginning if the record does not match.

        job: everything that the translation depends on besides its input, as JSON.
        text: returns the input's bytes from the beginning, in chunks of any size.
        Returns the rest of the input, or None if the output is complete and of this input.

        For example, the input `a b c` has grown to `a b c d` since a and b were noted. The bytes of
        a and b are as before, so the rest is `c d`. If the job was finished, `a b c d` is another
        input, and all of it is translated again.
        """
        self._job = job
        self.progress, self._end, self.kernel = self._read(job)
        if self.progress.file_sha256:
            return None if self._is_complete(text()) else self.begin_again(text)
        # If no line was translated yet, any kernel will do.
        rest = self._rest(text()) if self.progress.input_bytes else None
        return self.begin_again(text) if rest is None else rest

    def begin_again(self, text: Callable[[], Chunks]) -> Chunks:
        """Start at the beginning and drop the record. Call `begin` first."""
        self.progress, self._end, self.kernel = JobProgress(), 0, None
        self._input, self._written = hashlib.sha256(), hashlib.sha256()
        return text()

    def add(self, read: bytes, written: bytes, counts: Counts) -> None:
        """Record that some input has been translated. On return, it is safe on disk."""
        writing = self._started()
        with files.naming(self.output):
            writing.write(written)
            writing.flush()
            os.fsync(writing.fileno())
        self._input.update(read)
        self._written.update(written)
        self.progress = JobProgress(
            self.progress.input_bytes + len(read),
            self._input.hexdigest(),
            self.progress.output_bytes + len(written),
            self._written.hexdigest(),
            read.endswith(b"\n"),
            counts,
        )
        self._append(asdict(self.progress))

    def finish(self) -> None:
        """Turn the partial file into the output; NMTError if somebody changed that meanwhile."""
        self._started()
        complete = self._partial
        if is_compressed(self.output):
            self._compressed.unlink(missing_ok=True)
            with files.naming(self.output):
                compress(self._partial, self._compressed, self.output.suffix)
            complete = self._compressed
        self.progress = replace(self.progress, file_sha256=files.sha256_file(complete))
        self._append(asdict(self.progress))
        if self._sha256_now() != self._sha256_before:
            raise NMTError(
                f"{self.output}: was changed while it was translated, and is left as it is; the "
                f"finished text is in {complete.name}, and --overwrite takes that"
            )
        self._put_in_place(complete)

    def _started(self) -> BinaryIO:
        """Return the partial file, opened. Only now another job's remains are removed."""
        if self._writing is None:
            self._file.truncate(self._end)  # drops a line that was cut off
            if not self._end:
                self._is_new = True
                header = {"kernel": self.kernel, "replaces": self._sha256_before}
                self._append(_header(self._job) | header)
            with files.naming(self.output, instead=True):
                self._writing = files.open_unlinked(self._partial)
            self._writing.truncate(self.progress.output_bytes)
            self._writing.seek(0, os.SEEK_END)
        return self._writing

    def _put_in_place(self, complete: Path) -> None:
        if complete != self.output:
            try:
                os.replace(complete, self.output)
            except OSError as error:
                error.filename = None
                raise NMTError(
                    f"{self.output}: the finished text is in {complete.name}, which cannot be "
                    f"renamed: {describe(error)}"
                ) from None
        for left_over in (self._partial, self._compressed):
            left_over.unlink(missing_ok=True)
        files.sync_folder(self.output.parent)

    def _is_complete(self, text: Chunks) -> bool:
        digest = hashlib.sha256()
        for chunk in text:
            digest.update(chunk)
        if digest.hexdigest() != self.progress.input_sha256:
            return False
        # The last two exist if the job was killed before it renamed them.
        if self._sha256_before == self.progress.file_sha256:
            self._put_in_place(self.output)
            return True
        for path in (self._partial, self._compressed):
            is_ours = path.is_file() and not path.is_symlink()
            if is_ours and files.sha256_file(path) == self.progress.file_sha256:
                self._put_in_place(path)
                return True
        return False

    def _rest(self, text: Chunks) -> Chunks | None:
        """Return the rest of the input, or None if input or output differ from the record."""
        self._input, self._written = hashlib.sha256(), hashlib.sha256()
        if self._partial.is_file():
            with self._partial.open("rb") as file:
                blocks = iter(partial(file.read, 1 << 20), b"")
                _after(blocks, self.progress.output_bytes, self._written)
        if self._written.hexdigest() != self.progress.output_sha256:
            return None
        rest = _after(text, self.progress.input_bytes, self._input)
        if self._input.hexdigest() != self.progress.input_sha256:
            return None
        if (more := next(rest, b"")) and not self.progress.ends_line:
            return None  # the incomplete last line has grown
        return itertools.chain([more], rest)

    def _read(self, job: dict[str, Any]) -> tuple[JobProgress, int, str | None]:
        """Return this job's progress, the end of the valid part of the journal, and its kernel."""
        self._file.seek(0)
        progress, end, kernel = JobProgress(), 0, None
        for number, line in enumerate(self._file.read().splitlines(keepends=True)):
            try:
                content = read_line(line)
                if number:
                    progress = build_value(JobProgress, content, "")
                elif content != content | _header(job):
                    break
                else:
                    kernel = content.get("kernel")
            except ValueError:  # damaged, or of another version; or the last one is cut off
                # Lines are written from left to right, so a killed job leaves no line end. A bad
                # line that has one was changed later, and then nothing of the journal is believed.
                if line.endswith(b"\n"):
                    return JobProgress(), 0, None
                break
            end += len(line)
        return progress, end, kernel

    def _append(self, content: dict[str, Any]) -> None:
        with files.naming(self.output):
            self._file.write(written_line(content))
            self._file.flush()
            os.fsync(self._file.fileno())


def written_line(content: dict[str, Any]) -> bytes:
    """Return the line of a journal with this content."""
    check = hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]
    return json.dumps(content | {_CHECK: check}).encode() + b"\n"


def read_line(line: bytes) -> dict[str, Any]:
    """Return the content of a line; ValueError if it is not as it was written."""
    content = files.parse_json(line)
    if isinstance(content, dict):
        content.pop(_CHECK, None)
        if written_line(content) == line:
            return content
    raise ValueError("damaged")


def _header(job: dict[str, Any]) -> dict[str, Any]:
    return {"format": _FORMAT_VERSION, "job": job}


def open_locked(path: Path, output: Path, *, is_ours: bool = False) -> BinaryIO:
    """Open a file for appending and reading, create it if needed, and lock it until it is closed.

    is_ours: whether only nmt writes it, so that it must be neither a link nor another user's.
    HeldOff if another process holds the lock. This and system errors name `output`.
    """
    while True:
        with files.naming(output, instead=True):
            file = files.open_unlinked(path, os.O_APPEND) if is_ours else path.open("a+b")
            if is_ours:
                files.check_owner(file.fileno(), path)
        busy = f"{output}: another job is working on it; run the same command again later"
        files.lock(file.fileno(), path, busy)
        # Another job may have removed the file in between. Then the lock would be useless.
        if path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat()):
            return file
        file.close()


def _after(chunks: Chunks, count: int, digest: Any) -> Chunks:
    """Move the first `count` bytes of the chunks to the digest; return the rest."""
    for chunk in chunks:
        digest.update(chunk[:count])
        if len(chunk) > count:
            return itertools.chain([chunk[count:]], chunks)
        count -= len(chunk)
        if not count:
            break
    return chunks
