"""Translation line by line as they are typed."""

from __future__ import annotations

import contextlib

from nmt import console
from nmt.errors import UsageError
from nmt.search.job import Job
from nmt.search.render import RENDERS


def converse(job: Job) -> None:
    """Ask for lines on the terminal until its end (Ctrl-D or Ctrl-C), and answer each.

    Raises:
        UsageError: if a part of what is typed is asked for.
    """
    if job.shard.count > 1:
        raise UsageError("--shard needs --input FILE: what is typed has no shards")
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401 - with it, `input` has a history and keys to edit by

    translator = job.translators().translator
    number = 0
    while True:
        try:
            typed = input("> ")
        except (EOFError, KeyboardInterrupt):
            print()
            return
        source, _, prefix = typed.partition("\t") if job.prefixes else (typed, "", "")
        (translation,) = translator.translate([source], [prefix])
        print(*RENDERS[job.form](number, translation), sep="\n", flush=True)
        if translation.error:
            console.warning(translation.error)
        number += 1
