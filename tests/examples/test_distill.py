"""The example distill: its teachers, and its student for browsers."""

from __future__ import annotations

from pathlib import Path

import pytest
from example_runs import TINY, make, needs_make, write_corpus
from toy_training import prepare_toy, train


@needs_make
def test_teachers_are_trained_by_the_recipe_of_multi30k_unless_they_are_given(
    tmp_path: Path,
) -> None:
    done = make("distill", "--dry-run", f"WORK={tmp_path}", f"NMT_DATA={tmp_path}", "student")
    assert done.returncode == 0, done.stderr
    preset = "--model transformer_low_resource"
    trained = [line for line in done.stdout.splitlines() if preset in line and "--seed" in line]
    assert [line.partition(preset)[2].split()[:2] for line in trained] == [
        ["--seed", seed] for seed in "12"
    ]
    given = make(
        "distill", "-n", f"WORK={tmp_path}", f"NMT_DATA={tmp_path}", "TEACHERS=/", "student"
    )
    assert given.returncode == 0, given.stderr
    assert "--seed" not in given.stdout


@needs_make
@pytest.mark.slow
def test_a_student_for_browsers_learns_the_same_text(tmp_path: Path) -> None:
    for name, count in {"train": 290, "val": 20}.items():
        write_corpus(tmp_path / "multi30k" / name, count, seed=count)
    for name in ("test_2016_flickr", "test_2017_flickr"):
        write_corpus(tmp_path / "multi30k" / name, 20, seed=3)
    teacher = train(prepare_toy(tmp_path), tmp_path / "teacher")
    options = TINY.replace("d_model=32", "d_model=64")
    done = make(
        "distill",
        *(f"WORK={tmp_path / 'work'}", f"NMT_DATA={tmp_path}", "UPDATES=40", "MIN_CHRF=5"),
        *(f"TEACHERS={teacher}", f"TRAIN_OPTIONS={options}", "browser"),
    )
    assert done.returncode == 0, done.stderr
    names = {path.name for path in (tmp_path / "work/browser-model").iterdir()}
    assert {"model.ende.intgemm.alphas.bin", "lex.50.50.ende.s2t.bin"} <= names
