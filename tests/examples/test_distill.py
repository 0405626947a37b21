"""The example distill: its teachers, and its student for browsers."""

from pathlib import Path

import pytest
from example_runs import TINY, made, needs_make, write_corpus
from toy_training import prepare_toy, train


@needs_make
def test_teachers_are_trained_by_the_recipe_of_multi30k_unless_given(tmp_path: Path) -> None:
    words = ("--dry-run", f"WORK={tmp_path}", f"NMT_DATA={tmp_path}", "student")
    preset = "--model transformer_low_resource"
    commands = made("distill", *words).splitlines()
    trained = [line for line in commands if preset in line and "--seed" in line]
    assert [line.partition(preset)[2].split()[:2] for line in trained] == [
        ["--seed", seed] for seed in "12"
    ]
    assert "--seed" not in made("distill", *words, "TEACHERS=/")


@needs_make
@pytest.mark.slow
def test_a_student_for_browsers_learns_the_same_text(tmp_path: Path) -> None:
    for name, count in {"train": 290, "val": 20}.items():
        write_corpus(tmp_path / "multi30k" / name, count, seed=count)
    for name in ("test_2016_flickr", "test_2017_flickr"):
        write_corpus(tmp_path / "multi30k" / name, 20, seed=3)
    teacher = train(prepare_toy(tmp_path), tmp_path / "teacher")
    options = f"TRAIN_OPTIONS={TINY.replace('d_model=32', 'd_model=64')}"
    places = (f"WORK={tmp_path / 'work'}", f"NMT_DATA={tmp_path}", f"TEACHERS={teacher}")
    made("distill", *places, "UPDATES=40", "MIN_CHRF=5", options, "browser")
    names = {path.name for path in (tmp_path / "work/browser-model").iterdir()}
    assert {"model.ende.intgemm.alphas.bin", "lex.50.50.ende.s2t.bin"} <= names
