"""Translation line by line as they are typed."""

from __future__ import annotations

import contextlib
import time

from nmt import console
from nmt.errors import UsageError
from nmt.search.job import Job
from nmt.search.lines import Line
from nmt.search.render import RENDERS
from nmt.search.stream import Counts


def converse(job: Job) -> Counts:
    """Ask for lines on the terminal until its end (Ctrl-D or Ctrl-C), and answer each.

    Returns:
        What has been typed and answered.

    Raises:
        UsageError: if a part of what is typed is asked for.
    """
    if job.shard.count > 1:
        raise UsageError("--shard needs --input FILE: what is typed has no shards")
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401 - with it, `input` has a history and keys to edit by

    translator = job.translators().translator
    counts = Counts()
    while True:
        try:
            typed = input("> ")
        except (EOFError, KeyboardInterrupt):
            print()
            return counts
        source, _, prefix = typed.partition("\t") if job.prefixes else (typed, "", "")
        started = time.monotonic()
        (translation,) = translator.translate([source], [prefix])
        counts.seconds += time.monotonic() - started
        answer = RENDERS[job.form](counts.lines, translation)
        print(*answer, sep="\n", flush=True)
        if translation.error:
            console.warning(translation.error)
        counts.lines_out += len(answer)
        counts.add(Line(source, b"\n", typed.encode(errors="replace")), translation)
