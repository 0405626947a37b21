"""The translation of a stream, or of a file that is put in its place by a journal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nmt import console
from nmt.data.compressed import is_compressed
from nmt.data.corpus import Encoding, read_chunks
from nmt.data.workers import Pause
from nmt.search.journal import Journal
from nmt.search.lines import LineReader
from nmt.search.stream import Counts, Render, translate_stream
from nmt.search.translators import Translators


@dataclass(frozen=True)
class Job:
    """How text is read, translated and written."""

    translators: Callable[[], Translators]  # called when there is work for them
    encoding: Encoding
    strict: bool  # whether a line that is not in the encoding is an error
    render: Render  # makes what is written for a line
    pool_lines: int  # that are translated, and noted as done, together

    def translate_pipe(
        self, chunks: Iterator[bytes | Pause], name: str, write: Callable[[bytes], object]
    ) -> Counts:
        """Translate text that comes in chunks, called `name` in errors."""
        counts = Counts()
        self._translate(
            chunks, name, counts, lambda _read, written, _counts: write(written), total=None
        )
        return counts

    def translate_file(self, source: Path, output: Path, identity: dict[str, Any]) -> Counts:
        """Translate a file, from where a job that was stopped had come to.

        Nothing is done where the output is complete already, of this input, model and options.

        Args:
            source: plain or compressed.
            output: appears when it is complete, compressed if its name says so.
            identity: all that the translation depends on besides the source.

        Returns:
            The counts of all of the file, also of what an earlier job has done.

        Raises:
            Stopped: if another job is at work on the output.
        """
        with Journal(output) as journal:
            rest = journal.begin(
                identity, lambda: read_chunks(source, self.encoding, any_bytes=True)
            )
            counts = Counts(**journal.reached.counts)
            if rest is None:
                console.notice(f"{output}: translated already")
                self._warn_of_failures(str(source), counts)
                return counts
            if counts.lines:
                console.notice(f"{output}: going on behind line {counts.lines:,}")
            self._translate(
                rest,
                str(source),
                counts,
                lambda read, written, done: journal.add(read, written, asdict(done)),
                total=_count_lines(source),
            )
            journal.finish()
        return counts

    def _translate(
        self,
        chunks: Iterator[bytes | Pause],
        name: str,
        counts: Counts,
        write: Callable[[bytes, bytes, Counts], object],
        *,
        total: int | None,
    ) -> None:
        reader = LineReader(
            chunks,
            name=name,
            encoding=self.encoding,
            strict=self.strict,
            lines_read=counts.lines,
        )
        translators = self.translators()  # before the bar: threads do not survive a fork
        with console.progress(
            "translating", total=total, unit="lines", initial=counts.lines
        ) as bar:
            translate_stream(
                lambda pools: translators.translate(pools, bar.update),
                reader,
                write,
                counts,
                render=self.render,
                pool_lines=self.pool_lines,
            )
        if counts.invalid_lines:
            console.warning(
                f"{name}: {counts.invalid_lines:,} lines are not valid {self.encoding.name}, the "
                f"first is line {counts.first_invalid_line:,}; their bad bytes became U+FFFD"
            )
        if counts.cut_lines:
            console.warning(
                f"{name}: {counts.cut_lines:,} lines have more than {translators.max_src_tokens} "
                f"tokens, the first is line {counts.first_cut_line:,}; they were translated in "
                "pieces"
            )
        self._warn_of_failures(name, counts)

    def _warn_of_failures(self, name: str, counts: Counts) -> None:
        if counts.failed_lines:
            console.warning(
                f"{name}: {counts.failed_lines:,} lines could not be translated and are empty, the "
                f"first is line {counts.first_failed_line:,}: {counts.first_error}"
            )


def _count_lines(path: Path) -> int | None:
    """Return the newlines of a file; None where that takes more than reading it."""
    if is_compressed(path):
        return None
    with path.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
