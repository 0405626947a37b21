"""How a benchmark measures in turn, prints, and appends to the file that NMT_BENCH_OUT names."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

Measured = TypeVar("Measured")


def rounds(usual: int = 5) -> int:
    """Return how often each system is measured, as NMT_BENCH_ROUNDS says."""
    return int(os.environ.get("NMT_BENCH_ROUNDS", usual))


def in_turn(
    systems: Mapping[str, Callable[[], Measured]], rounds: int
) -> dict[str, list[Measured]]:
    """Measure the systems in turn, so that a slow minute hits all alike."""
    found: dict[str, list[Measured]] = {name: [] for name in systems}
    for _ in range(rounds):
        for name, measure in systems.items():
            found[name].append(measure())
    return found


def spread(values: Sequence[float], form: str = ",.0f") -> str:
    """Return the median, the lowest and the highest as text."""
    if len(values) == 1:
        return format(values[0], form)
    low, high = min(values), max(values)
    return f"{statistics.median(values):{form}} ({low:{form}} to {high:{form}})"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table. All columns except the first are right-aligned."""
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
