"""What every process that translates a file does: load, warm up, translate, write, tell.

python -m benchmarks.SYSTEM_process INPUT OUTPUT WARMUP SETTINGS...

WARMUP is the number of lines that are translated once before, 0 for none. What is timed is text in
memory to text in memory, subword segmentation both ways counted; the seconds are printed as JSON.
Nothing of `nmt` is imported here: peers run in Pythons of their own.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

Translate = Callable[[list[str]], list[str]]


def serve(load: Callable[..., Translate]) -> None:
    """Do what the arguments say with the translator that `load` makes of the settings."""
    source, output, warmup, *settings = sys.argv[1:]
    lines = Path(source).read_text(encoding="utf-8").split("\n")[:-1]
    translate = load(*settings)
    if int(warmup):
        translate(lines[: int(warmup)])
    began = time.perf_counter()
    found = translate(lines)
    seconds = time.perf_counter() - began
    # A peer may produce the piece of a line feed.
    text = "".join(line.replace("\n", " ") + "\n" for line in found)
    Path(output).write_text(text, encoding="utf-8")
    print(json.dumps({"seconds": seconds}))
