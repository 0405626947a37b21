#!/usr/bin/env python3
"""Print the speed of a translation, and how many lines fell back: summary.py LOG."""

import json
import sys
from pathlib import Path


def main() -> None:
    """Print what the last line on stderr of `nmt translate` says."""
    summary = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()[-1])
    speed = summary["lines_in"] / max(summary["seconds"], 0.1)
    print(f"{speed:.1f} lines/s, {summary['fell_back']} of {summary['lines_in']} lines fell back")


if __name__ == "__main__":
    main()
