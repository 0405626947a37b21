"""What a benchmark prints, and leaves in the file that NMT_BENCH_OUT names."""

from __future__ import annotations

import os
import statistics
from collections.abc import Sequence
from pathlib import Path


def spread(values: Sequence[float], form: str = ",.0f") -> str:
    """Return the median, the lowest and the highest in words."""
    if len(values) == 1:
        return format(values[0], form)
    low, high = min(values), max(values)
    return f"{statistics.median(values):{form}} ({low:{form}} to {high:{form}})"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table, its first column of text and the others of figures."""
    ruler = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in [header, ruler, *rows])


def publish(text: str) -> None:
    """Print a report, and add it to the file."""
    print(f"\n{text}\n")
    if path := os.environ.get("NMT_BENCH_OUT"):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(f"{text}\n\n")


def publish_picture(name: str, picture: str) -> None:
    """Write an SVG picture beside the file."""
    if path := os.environ.get("NMT_BENCH_OUT"):
        Path(path).with_name(f"{name}.svg").write_text(picture, encoding="utf-8")
