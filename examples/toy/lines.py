"""Read and write the lines of a text file, as UTF-8 that ends its lines with \\n."""

from collections.abc import Iterable
from pathlib import Path


def read_lines(path: Path) -> list[str]:
    """Read the lines of a file."""
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines under a temporary name and rename, so that the name never holds half a file."""
    temporary = path.with_name(f"{path.name}.partial")
    temporary.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
    temporary.replace(path)
