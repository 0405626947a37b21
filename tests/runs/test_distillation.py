"""The text that a student learns."""

from pathlib import Path

import pytest
from prepare_job import Job
from toy_training import pairs, prepare_toy, write_text

from nmt.data.folder import DataFolder
from nmt.errors import DataError, UsageError
from nmt.runs import distillation
from nmt.runs.distillation import check_data, check_made_of, choose_text, write_training_text
from nmt.scoring.nearest_translations import NearestTranslations

LISTS = """\
0 ||| Ein Hund rennt. ||| -0.1
0 ||| Ein Hund läuft über die Wiese ||| -0.2
1 ||| Das ||| das ||| -0.5
1 |||  ||| -0.6
"""
BEST = NearestTranslations(keep=1, min_chrf=10)


def chosen(work: Path, lists: str = LISTS, nearest: NearestTranslations = BEST) -> dict[str, str]:
    """What is chosen of some lists for two lines."""
    texts = {
        "lists": lists,
        "source": "A dog.\nThat ||| that\n",
        "reference": "Ein Hund läuft über die Wiese.\nDas ||| das\n",
    }
    for name, text in texts.items():
        (work / name).write_text(text, encoding="utf-8")
    choose_text(work, ("en", "de"), nearest)
    return {path.name: path.read_text("utf-8") for path in work.iterdir() if path.suffix}


def test_what_is_near_and_what_is_likely_are_texts_of_their_own(tmp_path: Path) -> None:
    assert chosen(tmp_path) == {
        "chosen.en": "A dog.\nThat ||| that\n",
        "chosen.de": "Ein Hund läuft über die Wiese\nDas ||| das\n",
        "first.en": "A dog.\nThat ||| that\n",
        "first.de": "Ein Hund rennt.\nDas ||| das\n",
    }


def test_several_processes_choose_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
    expected = chosen(one)
    monkeypatch.setattr(distillation, "_LINES_OF_A_WORKER", 2)
    monkeypatch.setattr(distillation, "cores", lambda: 2)
    assert chosen(two) == expected


def test_a_line_whose_likeliest_translation_is_empty_has_none(tmp_path: Path) -> None:
    swapped = LISTS.replace("0 ||| Ein Hund rennt.", "0 ||| ")
    assert chosen(tmp_path, swapped)["first.en"] == "That ||| that\n"


@pytest.mark.parametrize(
    "lists", [LISTS[: LISTS.index("1 |||")], LISTS.replace("1 |||", "2 |||"), LISTS[:-4]]
)
def test_lists_that_are_not_those_of_the_lines_are_refused(tmp_path: Path, lists: str) -> None:
    with pytest.raises(DataError, match="line"):
        chosen(tmp_path, lists)
    assert not list(tmp_path.glob("*.en"))


def test_nothing_to_learn_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="--min-chrf"):
        chosen(tmp_path, nearest=NearestTranslations(keep=4, min_chrf=101))


def text_of(data: Path) -> Path:
    """Return a folder with the training text of a data folder, which it stands beside."""
    work = data.parent / "work"
    work.mkdir()
    write_training_text(work, DataFolder.open(data))
    return work


@pytest.mark.parametrize("keep_text", [False, True])
def test_the_training_text_is_what_was_prepared(tmp_path: Path, *, keep_text: bool) -> None:
    work = text_of(prepare_toy(tmp_path, keep_text=keep_text))
    for name, lang in (("source", "en"), ("reference", "de")):
        assert (work / name).read_text() == (tmp_path / f"train.{lang}").read_text()


def job(folder: Path, **options: object) -> Job:
    usual = {
        "train": (write_text(folder, "train", pairs(300, seed=1)),),
        "valid": write_text(folder, "valid", pairs(20, seed=2)),
        "vocab_size": 346,
    }
    return Job.of(folder / "data", **usual | options)


def test_tags_are_no_text(tmp_path: Path) -> None:
    train = str(tmp_path / "train")
    work = text_of(job(tmp_path, tag=(f"{train}=<BT>",)).prepare().path)
    assert (work / "source").read_text() == (tmp_path / "train.en").read_text()


def test_test_sets_keep_their_names(tmp_path: Path) -> None:
    test = write_text(tmp_path, "news", pairs(5, seed=3))
    work = text_of(job(tmp_path, test=(test,)).prepare().path)
    for lang in ("en", "de"):
        assert (work / f"tests/news.{lang}").read_text() == Path(f"{test}.{lang}").read_text()


TWO_WAYS = {"src_lang": "", "tgt_lang": "", "train": ()}


@pytest.mark.parametrize(
    "options", [{"documents": True}, {"terms": "auto"}, {"valid": (), "valid_lines": 10} | TWO_WAYS]
)
def test_text_that_is_not_plain_lines_of_one_pair_is_refused(
    tmp_path: Path, options: dict[str, object]
) -> None:
    if "train" in options:
        train = write_text(tmp_path, "train", pairs(300, seed=1))
        options |= {"pair": (f"en-de={train}", f"de-en={train}")}
    data = DataFolder.open(job(tmp_path, **options).prepare().path)
    with pytest.raises(UsageError, match="--data"):
        check_data(data)


def test_a_student_is_made_of_the_same_again(tmp_path: Path) -> None:
    work = tmp_path / "student" / "distill"
    check_made_of(work, {"max_updates": 3, "seed": None})
    check_made_of(work, {"max_updates": 3, "seed": None})
    check_made_of(work, {"max_updates": 3})
    for other in ({"max_updates": 4}, {"max_updates": 3, "seed": 1}, {}):
        with pytest.raises(UsageError, match=f"{work.parent} .*--out"):
            check_made_of(work, other)
    (work / "made-of.json").write_text("[")
    with pytest.raises(DataError, match=r"made-of\.json"):
        check_made_of(work, {})
