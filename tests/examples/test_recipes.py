"""What the recipes of examples promise: they name what is wrong, and survive kills.

Tests of an example's own programs are in a file of its own.
"""

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import example_runs
import pytest
from example_runs import TINY, iwslt14_rehearsal, made, make, make_with_kills, write_corpus
from toy_training import prepare_toy, train, weights

from nmt.data.folder import DataFolder

pytestmark = example_runs.needs_make

BLANKS = "path without blanks"


@pytest.mark.parametrize(
    ("example", "words", "said"),
    [
        ("backtranslate", ["NMT_DATA={0}"], "train.en.gz"),
        ("distill", ["student", "NMT_DATA={0}", "TEACHERS={0}/nobody"], "{0}/nobody"),
        ("iwslt14", ["-n", "MODEL=tiny"], "post-norm modern"),
        ("parsing", ["-n", "wsj"], "TREEBANK"),
        ("parsing", ["-n", "semi-supervised", "TREEBANK=."], "PARSED"),
        ("parsing", ["-n", "wsj", "TREEBANK=my treebank"], "TREEBANK='my treebank' "),
        ("table3", ["DATA=missing"], "missing is not"),
        ("table3", ["DATA={0}", "UPDATES=15"], "UPDATES=15 "),
        ("wmt14", ["-n", "train", "WORK=my work"], BLANKS),
        ("wmt14", ["-n", "train", "MODEL=en-es-base"], "en-de-base en-de-big en-fr-base"),
    ],
)
def test_what_is_wrong_is_named(example: str, words: list[str], said: str, tmp_path: Path) -> None:
    (tmp_path / "dataset.json").touch()
    done = make(example, f"WORK={tmp_path / 'work'}", *[word.format(tmp_path) for word in words])
    assert done.returncode == 2
    assert said.format(tmp_path) in done.stderr
    assert not (tmp_path / "work").exists()


def backtranslate(folder: Path) -> list[str]:
    corpora = {"multi30k/train": 200, "multi30k/val": 20, "multi30k/test_2016_flickr": 20}
    corpora |= {"tatoeba-en-de/train": 150, "tatoeba-en-de/valid": 20}
    for seed, (name, count) in enumerate(corpora.items()):
        write_corpus(folder / name, count, seed=seed + 5)
    sizes = ["PAIRS=180", "LINES=120", "UPDATES=40", "VOCAB_SIZE=345"]
    return [f"NMT_DATA={folder}", *sizes, f"TRAIN_OPTIONS={TINY}"]


def distill(folder: Path) -> list[str]:
    corpora = {"train": 290, "val": 20, "test_2016_flickr": 20, "test_2017_flickr": 20}
    for seed, (name, count) in enumerate(corpora.items()):
        write_corpus(folder / "multi30k" / name, count, seed=seed + 5)
    data = prepare_toy(folder)
    teachers = [train(data, folder / f"teacher{seed}", seed=seed) for seed in (1, 2)]
    words = [f"NMT_DATA={folder}", "UPDATES=40", "MIN_CHRF=5", f"TRAIN_OPTIONS={TINY}"]
    systems = "SYSTEMS=teacher ensemble student-ctranslate2 student-ctranslate2-int8"
    return [*words, f"TEACHERS={teachers[0]} {teachers[1]}", systems]


def parsing(_: Path) -> list[str]:
    tiny = f"TRAIN_OPTIONS={TINY} --set save_every=5 --set validate_every=20"
    search = "SEARCH=--beam-size 2 --max-extra-tokens 9 --no-guard --no-copy --no-split"
    words = ["toy", "PROCESSES=1", "UPDATES=40", "PRESET=transformer_tiny", "TEST=valid"]
    return [*words, tiny, search]


RECIPES: dict[str, tuple[Callable[[Path], list[str]], str]] = {
    "backtranslate": (backtranslate, "BLEU    180 pairs    and 120 back-translated lines"),
    "distill": (distill, "student-ctranslate2-int8"),
    "iwslt14": (iwslt14_rehearsal, "nrefs:1|case:lc"),
    "parsing": (parsing, "300 sentences"),
}
"""What writes the text of a recipe and returns its variables, and what it prints in the end."""


@pytest.mark.slow
@pytest.mark.parametrize("example", RECIPES)
def test_a_recipe_ends_the_same_however_often_it_is_killed(example: str, tmp_path: Path) -> None:
    write, said = RECIPES[example]
    arguments, whole, killed = write(tmp_path), tmp_path / "whole", tmp_path / "killed"
    started = time.monotonic()
    assert said in made(example, *arguments, f"WORK={whole}")
    limit = (time.monotonic() - started) / 6
    assert make_with_kills(example, [limit] * 5, *arguments, f"WORK={killed}") == 5

    # Texts, translations, scores and shards are equal byte by byte, and models by their weights.
    endings = {".en", ".de", ".score", ".bin", ""}
    same = [path for path in whole.rglob("[!.]*") if path.is_file() and path.suffix in endings]
    for path in same:
        if path.name not in ("lock", "finished"):
            assert (killed / path.relative_to(whole)).read_bytes() == path.read_bytes(), path
    models = [*whole.rglob("last.safetensors"), *whole.rglob("averaged.safetensors")]
    assert models
    for path in models:
        found, wanted = weights(killed / path.relative_to(whole)), weights(path)
        assert all(found[name].equal(wanted[name]) for name in wanted), path
    assert not list(killed.rglob("*.partial"))

    shutil.rmtree(whole / "downloads", ignore_errors=True)  # which nobody needs any more
    before = {path: path.stat().st_mtime_ns for path in (*same, *models)}
    assert said in made(example, *arguments, f"WORK={whole}")
    assert {path: path.stat().st_mtime_ns for path in before} == before
    if example == "backtranslate":
        assert_only_translations_are_tagged(whole)
    (whole / "mine").touch()
    made(example, "clean", f"WORK={whole}", f"NMT_DATA={tmp_path}")
    assert not any(path.exists() for path in models)
    # The other two remove the whole folder.
    assert (whole / "mine").exists() == (example in ("iwslt14", "parsing"))


def assert_only_translations_are_tagged(work: Path) -> None:
    """Check that only back-translations have the tag, which is one more piece."""
    data = DataFolder.open(work / "after-data")
    pairs = range(len(data.train))
    tokens = [data.src_vocabulary.tokens(data.train.src(pair).tolist()) for pair in pairs]
    found = {(data.train.origin(n)[0], "<BT>" in of) for n, of in zip(pairs, tokens, strict=True)}
    assert found == {(0, False), (1, True)}
    assert len(data.src_vocabulary) == len(DataFolder.open(work / "before-data").src_vocabulary) + 1
