"""The process of a system that translates a file: load, warm up, translate, write, report.

python -m benchmarks.SYSTEM_process INPUT OUTPUT WARMUP SETTINGS...

WARMUP is the number of lines that are translated once before. The time is from text in memory to
text in memory, with subword segmentation both ways, and is printed as JSON. This file does not
import `nmt`, because peers run in their own Pythons.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

Translate = Callable[[list[str]], list[str]]


def serve(load: Callable[..., Translate]) -> None:
    """Translate the file with the translator that `load` makes from the settings."""
    source, output, warmup, *settings = sys.argv[1:]
    lines = Path(source).read_text(encoding="utf-8").split("\n")[:-1]
    translate = load(*settings)
    if int(warmup):
        translate(lines[: int(warmup)])
    began = time.perf_counter()
    found = translate(lines)
    seconds = time.perf_counter() - began
    # A peer may produce the subword of a line feed.
    text = "".join(line.replace("\n", " ") + "\n" for line in found)
    Path(output).write_text(text, encoding="utf-8")
    print(json.dumps({"seconds": seconds}))
