"""The example distill: what a student learns."""

from __future__ import annotations

import re
from pathlib import Path

import choose
import pytest
from example_runs import TINY, make, needs_make, write_corpus
from toy_training import prepare_toy, train

GERMAN = ["Ein Hund läuft über die Wiese.", "Zwei Männer sitzen auf einer Bank."]
LISTS = """\
0 ||| Ein Hund rennt. ||| -0.1
0 ||| Ein Hund läuft über die Wiese ||| -0.2
0 ||| Ein Hund läuft. ||| -0.3
1 ||| Drei Frauen kochen Suppe. ||| -0.4
1 ||| Das ||| das ||| -0.5
"""


def chosen(
    folder: Path, *, keep: int = 1, min_chrf: float = 0, lists: str = LISTS
) -> tuple[str, str]:
    texts = {"lists": lists, "text.en": "A dog.\nTwo men.\n", "text.de": "\n".join(GERMAN) + "\n"}
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    inputs = [folder / name for name in texts]
    outs = (folder / "out.en", folder / "out.de")
    choose.main(inputs[0], inputs[1], inputs[2], outs, keep, min_chrf)
    src, tgt = (out.read_text(encoding="utf-8") for out in outs)
    return src, tgt


def test_the_translation_nearest_to_the_reference_is_kept_not_the_likeliest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    src, tgt = chosen(tmp_path)
    assert src == "A dog.\nTwo men.\n"
    assert tgt == "Ein Hund läuft über die Wiese\nDrei Frauen kochen Suppe.\n"
    assert re.search("2 pairs of 2 of 2 .* 1$", capsys.readouterr().out)


def test_the_best_of_a_line_are_kept_in_their_order_and_each_must_be_near(tmp_path: Path) -> None:
    assert chosen(tmp_path, keep=2, min_chrf=40) == (
        "A dog.\nA dog.\n",
        "Ein Hund läuft über die Wiese\nEin Hund läuft.\n",
    )


@needs_make
def test_teachers_are_trained_by_the_recipe_of_multi30k_unless_they_are_given(
    tmp_path: Path,
) -> None:
    done = make("distill", "--dry-run", f"WORK={tmp_path}", f"NMT_DATA={tmp_path}", "lists")
    assert done.returncode == 0, done.stderr
    preset = "--model transformer_low_resource"
    trained = [line for line in done.stdout.splitlines() if preset in line]
    assert [line.partition(preset)[2].split()[:2] for line in trained] == [
        ["--seed", seed] for seed in "12"
    ]
    given = make("distill", "-n", f"WORK={tmp_path}", f"NMT_DATA={tmp_path}", "TEACHERS=/", "lists")
    assert given.returncode == 0, given.stderr
    assert preset not in given.stdout


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
