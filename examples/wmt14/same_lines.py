#!/usr/bin/env python3
"""Check that a data folder was made of every line of the extracted text, and of nothing else."""

from __future__ import annotations

import argparse
from pathlib import Path

from nmt.cli.command import run
from nmt.data.manifest import read_info
from nmt.errors import DataError


def check(data: Path, text: Path) -> None:
    """Compare what `nmt prepare` has read with `NAME.lines` of each text.

    Raises:
        DataError: it has read more or fewer lines, or kept other than all of valid and test.
    """
    info = read_info(data)
    for split in info.splits:
        for corpus in split.corpora:
            name = Path(corpus.prefix).name
            lines = int((text / f"{name}.lines").read_text(encoding="utf-8"))
            kept = corpus.lines if split is info.train else corpus.kept
            for found, what in ((corpus.lines, "read"), (kept, "kept")):
                if found != lines:
                    raise DataError(
                        f"{data}: {found:,} lines of {name} were {what}, and {lines:,} were "
                        f"extracted; remove {data} and run the same command again"
                    )


def main() -> None:
    """Check what the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("data", type=Path, help="data folder that `nmt prepare` has written")
    parser.add_argument("text", type=Path, help="folder of extracted text")
    options = parser.parse_args()
    check(options.data, options.text)


if __name__ == "__main__":
    run(main)
