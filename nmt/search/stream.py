"""A stream of lines through a translator: pools in, pools out, nothing lost or shifted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nmt.errors import NMTError
from nmt.search.lines import LineReader
from nmt.search.translator import Translation, Translator

Render = Callable[[int, Sequence[Translation]], list[str]]
"""Line number from 0 and its translations, best first, to the lines that are written for it."""


def render_text(_number: int, translations: Sequence[Translation]) -> list[str]:
    """Return the best translation."""
    return [translations[0].text]


def render_scored(_number: int, translations: Sequence[Translation]) -> list[str]:
    """Return score and best translation, tab-separated."""
    return [f"{translations[0].score:.6f}\t{translations[0].text}"]


def render_n_best(number: int, translations: Sequence[Translation]) -> list[str]:
    """Return all translations, a line each, in the Moses form."""
    return [f"{number} ||| {t.text} ||| {t.score:.6f}" for t in translations]


@dataclass
class StreamSummary:
    """What came in and went out."""

    lines_in: int = 0
    lines_out: int = 0
    cut_lines: int = 0  # translated in pieces
    first_cut_line: int = 0  # from 1


def translate_stream(
    translator: Translator,
    reader: LineReader,
    write: Callable[[bytes], object],
    *,
    render: Render,
    pool_lines: int,
    on_progress: Callable[[int], object],
) -> StreamSummary:
    """Translate all lines of `reader` in order; each pool is written as soon as it is done.

    Raises:
        NMTError: if not as many lines went out as came in, which would be an error of ours.
    """
    summary = StreamSummary()
    for pool in reader.pools(pool_lines):
        summary.lines_in += len(pool)
        translations = translator.translate([line.text for line in pool], on_progress=on_progress)
        output = bytearray()
        for line, found in zip(pool, translations, strict=True):
            texts = [text.encode() for text in render(summary.lines_out, found)]
            output += (line.end or b"\n").join(texts) + line.end
            summary.lines_out += 1
            if found[0].pieces > 1:
                summary.cut_lines += 1
                summary.first_cut_line = summary.first_cut_line or summary.lines_out
        write(bytes(output))
    if not summary.lines_in == summary.lines_out == reader.lines_read:
        raise NMTError(
            f"{reader.name}: {reader.lines_read} lines came in, {summary.lines_out} went out; "
            "please report this"
        )
    return summary
