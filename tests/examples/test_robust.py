"""The test sets of `make robust` in examples/multi30k."""

import subprocess
import sys
from pathlib import Path

import pytest
from command_line import write
from toy_training import environment

from nmt.config.recipes import read_toml, resolve_recipe

EXAMPLE = Path(__file__).parents[2] / "examples" / "multi30k"
EN, DE = ["A big dog, it runs.", "Two men!"], ["Ein großer Hund läuft.", "Zwei Männer!"]


@pytest.mark.parametrize(
    ("kind", "src", "tgt"),
    [
        ("clean", EN, DE),
        ("upper", ["A BIG DOG, IT RUNS.", "TWO MEN!"], ["EIN GROSSER HUND LÄUFT.", "ZWEI MÄNNER!"]),
        ("title", ["A Big Dog, It Runs.", "Two Men!"], ["Ein Großer Hund Läuft.", "Zwei Männer!"]),
        ("no-stop", ["A big dog, it runs", "Two men"], DE),
        ("joined", [" ".join(EN)], [" ".join(DE)]),
    ],
)
def test_noisy_sets_are_as_named(tmp_path: Path, kind: str, src: list[str], tgt: list[str]) -> None:
    assert noisy(tmp_path, kind) == (src, tgt)


def test_typos_are_in_the_source_only_and_repeat(tmp_path: Path) -> None:
    src, tgt = noisy(tmp_path, "typos")
    assert src != EN
    assert tgt == DE
    assert noisy(tmp_path, "typos") == (src, tgt)


def noisy(folder: Path, kind: str) -> tuple[list[str], list[str]]:
    paths = [folder / name for name in ("test.en", "test.de", "out.en", "out.de")]
    for path, side in zip(paths, (EN, DE), strict=False):
        write(path, side)
    command = [sys.executable, str(EXAMPLE / "noisy.py"), kind, *map(str, paths)]
    subprocess.run(command, check=True, env=environment())
    src, tgt = (path.read_text(encoding="utf-8").splitlines() for path in paths[2:])
    return src, tgt


def test_its_recipe_is_read() -> None:
    path = EXAMPLE / "robust.toml"
    assert resolve_recipe("p", "transformer", [(str(path), read_toml(path))]).augment.any
