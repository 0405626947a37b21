"""The text that a student learns."""

import gzip
import math
from pathlib import Path

import pytest
from prepare_job import Job
from toy_training import pairs, prepare_toy, write_text

from nmt.data.folder import DataFolder
from nmt.errors import DataError, UsageError
from nmt.runs import distillation
from nmt.scoring.choice import Choice

LISTS = """\
0 ||| Ein Hund rennt. ||| -0.1
0 ||| Ein Hund läuft über die Wiese ||| -0.2
1 ||| Das ||| das ||| -0.5
1 |||  ||| -0.6
"""
BEST = Choice("reference", keep=1, minimum=10)


def chosen(work: Path, lists: str = LISTS, choice: Choice = BEST) -> dict[str, str]:
    """What is chosen of some lists for two lines."""
    texts = {"lists": lists, "source": "A dog.\nThat ||| that\n"}
    texts["reference"] = "Ein Hund läuft über die Wiese.\nDas ||| das\n"
    for name, text in texts.items():
        (work / name).write_text(text, encoding="utf-8")
    distillation.choose_text(work, ("en", "de"), "lists", choice)
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
        chosen(tmp_path, choice=Choice("reference", keep=4, minimum=101))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder with the source of two files, one of them compressed."""
    (tmp_path / "one.zh").write_text("一\r\n\n", encoding="utf-8")
    (tmp_path / "two.zh.gz").write_bytes(gzip.compress("二 ||| 2\t2".encode()))
    paths = [tmp_path / "one.zh", tmp_path / "two.zh.gz"]
    distillation.write_source(tmp_path, paths)
    assert distillation.survey_source(paths)[0] == 3
    return tmp_path


def lists_of(work: Path, name: str = "lists") -> list[str]:
    return (work / name).read_text(encoding="utf-8").splitlines()


def test_text_without_references_is_that_of_all_files(source: Path) -> None:
    assert (source / "source").read_text(encoding="utf-8") == "一\n\n二 ||| 2\t2\n"
    assert (source / "reference").read_text() == "\n\n\n"
    for name, text in {"two.txt": "二 ||| 2\t2\n", "one.txt": "一\n\n"}.items():
        (source / name).write_text(text, encoding="utf-8")
    paths = [source / "one.zh", source / "two.zh.gz"]
    survey = distillation.survey_source(paths)
    assert survey == distillation.survey_source([source / "one.txt", source / "two.txt"])
    assert survey != distillation.survey_source(paths[::-1])


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "no text"), (b"a\n\xff\n", "line 2"), (b"-0.1\ta\n", "SCORE"), (b"%PDF-1.4", "PDF")],
)
def test_a_source_that_is_no_text_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "mono").write_bytes(content)
    with pytest.raises(DataError, match=f"mono: .*{said}|mono is .*{said}"):
        distillation.survey_source([tmp_path / "mono"])


def test_a_command_translates_each_line(source: Path) -> None:
    distillation.ask_command(source, "sed 's/.*/<&>/'")
    texts = ("<一>", "<>", "<二 ||| 2\t2>")
    assert lists_of(source) == [f"{n} ||| {text} ||| 0.000000" for n, text in enumerate(texts)]


def test_a_command_scores_each_translation(source: Path) -> None:
    entries = ["0 ||| ab ||| -0.5", "0 ||| a\tb ||| -0.7", "1 |||  ||| 0", "2 ||| 2 ||| -1e-1"]
    (source / "lists").write_text("".join(f"{line}\n" for line in entries), encoding="utf-8")
    distillation.score_lists(source, "awk -F'\\t' '{print NF + length($2) / 8}'")
    scores = [line.rpartition(" ||| ")[2] for line in lists_of(source, "scored")]
    assert scores == ["2.250000", "2.375000", "2.000000", "2.125000"]
    for number in ("nan", "good", ""):
        with pytest.raises(DataError, match=r"--score-command: .*line 1"):
            distillation.score_lists(source, f"sed 's/.*/{number}/'")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("one\ntwo\n", "no translation of line 2"),
        ("one\ntwo\nthree\nfour\n", "translation of line 3"),
        ("0 ||| one ||| -1\n2 ||| three ||| -1\n", "no translation of line 1"),
        ("H-0\t-1\tone\nH-3\t-1\tthree\n", "no translation of line 1"),
    ],
)
def test_translations_of_other_lines_are_refused(source: Path, content: str, said: str) -> None:
    (source / "out.de").write_text(content)
    with pytest.raises(DataError, match=rf"out\.de.*{said}"):
        distillation.take_translations(source, source / "out.de", needs_scores=False)
    assert not (source / "lists").exists()


def test_translations_of_a_file_become_lists(source: Path) -> None:
    (source / "out.de").write_text("H-2\t-1\tc\nH-0\t-3\tA\nH-0\t-2\ta\nH-1\t-1\t\n")
    distillation.take_translations(source, source / "out.de", needs_scores=False)
    expected = ["0 ||| a ||| -2.000000", "0 ||| A ||| -3.000000"]
    expected += ["1 |||  ||| -1.000000", "2 ||| c ||| -1.000000"]
    assert lists_of(source) == expected


def test_plain_lines_have_no_scores(source: Path) -> None:
    (source / "out.de").write_text("a\nb\nc\n")
    with pytest.raises(DataError, match=r"out\.de: .*--min-score"):
        distillation.take_translations(source, source / "out.de", needs_scores=True)
    assert not (source / "lists").exists()
    (source / "out.de").write_text("0 ||| a ||| -1\n1 ||| b ||| 0\n2 ||| c ||| -1\n")
    distillation.take_translations(source, source / "out.de", needs_scores=True)


def test_what_looks_like_a_feature_is_text_of_a_command(source: Path) -> None:
    distillation.ask_command(source, "sed 's/$/ ||| F= 1/'")
    best = Choice("score", keep=1, minimum=-math.inf)
    distillation.choose_text(source, ("en", "de"), "lists", best)
    chosen = (source / "chosen.de").read_text(encoding="utf-8")
    assert chosen == "一 ||| F= 1\n ||| F= 1\n二 ||| 2\t2 ||| F= 1\n"


def text_of(data: Path) -> Path:
    """Return a folder with the training text of a data folder, which it stands beside."""
    work = data.parent / "work"
    work.mkdir()
    distillation.write_training_text(work, DataFolder.open(data))
    return work


@pytest.mark.parametrize("keep_text", [False, True])
def test_the_training_text_is_what_was_prepared(tmp_path: Path, *, keep_text: bool) -> None:
    work = text_of(prepare_toy(tmp_path, keep_text=keep_text))
    for name, lang in (("source", "en"), ("reference", "de")):
        assert (work / name).read_text() == (tmp_path / f"train.{lang}").read_text()


def job(folder: Path, **options: object) -> Job:
    train = write_text(folder, "train", pairs(300, seed=1))
    valid = write_text(folder, "valid", pairs(20, seed=2))
    usual: dict[str, object] = {"train": (train,), "valid": valid, "vocab_size": 346}
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
def test_other_than_lines_of_one_pair_fails(tmp_path: Path, options: dict[str, object]) -> None:
    if "train" in options:
        train = write_text(tmp_path, "train", pairs(300, seed=1))
        options |= {"pair": (f"en-de={train}", f"de-en={train}")}
    data = DataFolder.open(job(tmp_path, **options).prepare().path)
    with pytest.raises(UsageError, match="--data"):
        distillation.check_data(data)


def test_a_student_is_made_of_the_same_again(tmp_path: Path) -> None:
    work = tmp_path / "student" / "distill"
    distillation.check_made_of(work, {"max_updates": 3, "seed": None})
    (work / "lists").touch()
    distillation.check_made_of(work, {"max_updates": 3, "seed": None})
    distillation.check_made_of(work, {"max_updates": 3})
    for other in ({"max_updates": 4}, {"max_updates": 3, "seed": 1}, {}):
        with pytest.raises(UsageError, match=f"{work.parent} .*--out"):
            distillation.check_made_of(work, other)
    (work / "made-of.json").write_text("[")
    with pytest.raises(DataError, match=r"made-of\.json"):
        distillation.check_made_of(work, {})


def test_a_student_that_has_no_translations_yet_may_become_another(tmp_path: Path) -> None:
    work = tmp_path / "distill"
    distillation.check_made_of(work, {"its data": "a"})
    for name in ("source", "reference"):
        (work / name).touch()
    distillation.check_made_of(work, {"its data": "a"})
    assert (work / "source").exists()
    distillation.check_made_of(work, {"its data": "b"})
    assert [path.name for path in work.iterdir()] == ["made-of.json"]
    assert "b" in (work / "made-of.json").read_text()
