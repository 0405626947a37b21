"""Write a test set as people may type it: `noisy.py KIND TEST.en TEST.de OUT.en OUT.de`.

Kinds: clean, upper, title, typos, no-stop (without the final mark) and joined (two lines in one).
Upper and title case are those of the reference, too; otherwise the reference stays as it is. The
typos are drawn as those of augmentation are.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path

from nmt.data import noise

Change = Callable[[noise.Pair, random.Random], noise.Pair]

if __name__ == "__main__":
    kind, *paths = sys.argv[1:]
    src, tgt, *out = map(Path, paths)
    pairs = list(zip(*(path.read_text("utf-8").splitlines() for path in (src, tgt)), strict=True))
    if kind == "joined":
        pairs = [noise.merged(*two) for two in zip(pairs[::2], pairs[1::2], strict=True)]
    changes: dict[str, Change] = {
        "upper": noise.upper_case,
        "title": noise.title_case,
        "typos": noise.typos,
        "no-stop": lambda pair, _: (noise.without_end(pair[0]), pair[1]),
    }
    if kind in changes:
        pairs = [changes[kind](pair, random.Random(number)) for number, pair in enumerate(pairs)]
    for path, side in zip(out, zip(*pairs, strict=True), strict=True):
        path.write_text("".join(f"{line}\n" for line in side), "utf-8")
