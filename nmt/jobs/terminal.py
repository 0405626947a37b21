"""The terminal: lines are translated as they are typed."""

from __future__ import annotations

import contextlib
import time

from nmt import console
from nmt.jobs.counts import Counts
from nmt.jobs.lines import Line
from nmt.translate.context import Before
from nmt.translate.output import RENDERS
from nmt.translate.translator import Translator


def converse(translator: Translator) -> Counts:
    """Translate lines typed on the terminal until Ctrl-D or Ctrl-C."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401 - with it, `input` has a history and keys to edit by

    config, composes = translator.config, translator.language_pair.src_vocabulary.composes
    counts, before = Counts(), Before(config.context)
    src, tgt = translator.language_pair.languages
    console.notice(
        f"{' + '.join(map(str, config.models))}, {src} to {tgt}; type a line and press Enter; "
        "leave by Ctrl-D"
    )
    while True:
        try:
            typed = input("> ")
        except (EOFError, KeyboardInterrupt):
            console.print_row()
            Counts(decomposed=counts.decomposed, messages=counts.messages).warn("the input")
            return counts
        source, _, prefix = typed.partition("\t") if config.prefixes else (typed, "", "")
        started = time.monotonic()
        (translation,) = translator.translate([source], [prefix], contexts=[before.take(source)])
        counts.seconds += time.monotonic() - started
        answer = RENDERS[config.form](counts.lines, translation)
        print(*answer, sep="\n", flush=True)  # noqa: T201 - text as it is, as in a pipe
        if translation.error:
            console.warning(translation.error)
        counts.lines_out += len(answer)
        counts.add(Line(source, prefix), translation, composes=composes)
