"""The text of examples/languages: nothing of valid or test stands in train."""

import gzip
import zipfile
from pathlib import Path

import example_runs
import pytest
from command_line import write
from example_runs import make

pytestmark = example_runs.needs_make

Pair = tuple[str, str]


def made_text(work: Path, lang: str, source: Path) -> dict[str, list[Pair]]:
    """Make the text from a copy of what is to be fetched; return the pairs of each split."""
    done = make("languages", "text", f"TGT={lang}", f"FROM={source}", f"WORK={work}")
    assert done.returncode == 0, done.stderr
    splits = {}
    for split in ("train", "valid", "test"):
        files = (work / f"text-{lang}" / f"{split}.{one}" for one in ("en", lang))
        sides = (file.read_text(encoding="utf-8").splitlines() for file in files)
        splits[split] = list(zip(*sides, strict=True))
    return splits


@pytest.mark.parametrize("suffix", [".txt", ".zip"])
def test_a_list_is_split_by_english_sentences(suffix: str, tmp_path: Path) -> None:
    forms = ("It is {}.", "it is {}", "It is {}!")
    rows = [(form.format(n), f"\u0647\u0630\u0627 {n}") for n in range(1300) for form in forms]
    listed = write(tmp_path / "list.txt", (f"{one}\t{other}\tCC BY 2.0" for one, other in rows))
    if suffix == ".zip":
        with zipfile.ZipFile(tmp_path / "list.zip", "w") as archive:
            archive.writestr("_about.txt", "Tatoeba")
            archive.write(listed, "list.txt")
    splits = made_text(tmp_path / "work", "ar", listed.with_suffix(suffix))
    # Each of the 600 has its first form; the 100 that are left have all.
    assert [len(pairs) for pairs in splits.values()] == [3 * 100, 600, 600]
    assert set().union(*splits.values()) <= set(rows)
    numbers = [{english.strip(".!").lower() for english, _ in splits[s]} for s in splits]
    assert len(set().union(*numbers)) == sum(map(len, numbers))


def test_test_lines_that_stand_in_train_are_left_out(tmp_path: Path) -> None:
    for name, numbers in (("train", range(9)), ("val", range(9, 12)), ("test", range(6, 20))):
        write(tmp_path / f"{name}.en", (f"picture {n}" for n in numbers))
        write(tmp_path / f"{name}.zh", (f"\u56fe {n + 3}" for n in numbers))
    splits = made_text(tmp_path / "work", "zh", tmp_path)
    assert [len(splits[split]) for split in ("train", "valid", "test")] == [9, 3, 11]
    assert splits["test"][0] == ("picture 9", "\u56fe 12")


def test_the_test_set_of_multi30k_stays_whole(tmp_path: Path) -> None:
    for name in ("train", "val", "test_2016_flickr"):
        for lang in ("en", "cs"):
            (tmp_path / f"{name}.{lang}.gz").write_bytes(gzip.compress(f"{lang}\n".encode() * 3))
    splits = made_text(tmp_path / "work", "cs", tmp_path)
    assert list(splits.values()) == [[("en", "cs")] * 3] * 3


def test_a_language_without_text_is_refused(tmp_path: Path) -> None:
    done = make("languages", "text", "TGT=ka", f"WORK={tmp_path / 'work'}")
    assert done.returncode == 2 and "SRC=en TGT=ka" in done.stderr
