"""`nmt translate --terms`: terms are in the translation, and what has no place is reported."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Literal
from unicodedata import normalize

import pytest
from command_line import TranslateText

import nmt as package
from nmt.data.vocabulary import learn_vocabulary
from nmt.lexical.word_list import ListedWord, WordList, has_phrase
from nmt.search.options import SearchOptions
from nmt.translate.language_pair import LanguagePair
from nmt.translate.options import TranslationConfig
from nmt.translate.terms import ForceTerms

TERMS = "# animals\nsource\ttarget\tform\ncat\tKatze\tKater\nred bird\troter Vogel\nhouse\tHaus\n"
LINES = [
    "the cat sees a dog",
    "",
    "a dog.",
    # Longer than the model takes at once.
    "the small house finds the old river and then the river and then the tree and then the cat",
    "A CAT and a red bird",
]
TEXT = "".join(f"{line}\n" for line in LINES)
WANTED = [["Katze"], [], [], ["Haus", "Katze"], ["Katze", "roter Vogel"]]
ROOM = ("--max-extra-tokens", "25")


@pytest.fixture
def terms(tmp_path: Path) -> Path:
    path = tmp_path / "terms.tsv"
    path.write_text(TERMS, encoding="utf-8")
    return path


def has(text: str, target: str) -> bool:
    return has_phrase(text, target) or (target == "Katze" and has_phrase(text, "Kater"))


@pytest.mark.parametrize(
    "words", [(), ("--split",), ("--workers", "2"), ("--no-repeat-ngram", "3")]
)
def test_each_line_has_its_terms_and_others_do_not_change(
    translate_text: TranslateText, terms: Path, words: tuple[str, ...]
) -> None:
    free = translate_text(TEXT, *ROOM, *words)
    found = translate_text(TEXT, *ROOM, *words, "--terms", terms).succeeded()
    assert "lacks" not in found.stderr
    lines, others = found.stdout.split("\n")[:-1], free.stdout.split("\n")[:-1]
    assert len(lines) == len(LINES)
    for line, other, wanted in zip(lines, others, WANTED, strict=True):
        assert all(has(line, target) for target in wanted)
        if not wanted:
            assert line == other


def test_jsonl_tells_which_terms_are_placed(translate_text: TranslateText, terms: Path) -> None:
    found = translate_text(TEXT, *ROOM, "--terms", terms, "--format", "jsonl", "--n-best", "2")
    entries = [json.loads(line) for line in found.stdout.split("\n")[:-1]]
    assert [[term["target"] for term in one.get("terms", [])] for one in entries] == WANTED
    assert entries[0]["terms"] == [{"source": "cat", "target": "Katze", "placed": True}]
    (other,) = entries[0]["others"]
    assert has(other["text"], "Katze")
    assert other["terms"][0]["placed"]


def test_what_has_no_place_is_reported(translate_text: TranslateText, terms: Path) -> None:
    short = translate_text(TEXT, "--terms", terms, "--max-tokens", "1")
    assert (short.status, short.stdout) == (0, translate_text(TEXT, "--max-tokens", "1").stdout)
    assert re.search("in: 3 lines .* line 1: cat -> Katze", short.stderr)
    found = translate_text(TEXT, "--terms", terms, "--max-tokens", "1", "--format", "jsonl")
    entries = [json.loads(line) for line in found.stdout.split("\n")[:-1]]
    placed = [term["placed"] for one in entries for term in one.get("terms", [])]
    assert placed == [False] * 5


def test_a_finished_file_is_translated_again_with_other_terms(
    translate_text: TranslateText, terms: Path, tmp_path: Path
) -> None:
    words = (*ROOM, "--terms", terms, "--output", tmp_path / "out")
    assert "already translated" not in translate_text(TEXT, *words).stderr
    assert "already translated" in translate_text(TEXT, *words).stderr
    terms.write_text(TERMS.replace("Katze\tKater", "Mieze"), encoding="utf-8")
    assert "already translated" not in translate_text(TEXT, *words).stderr
    assert has_phrase((tmp_path / "out").read_text(encoding="utf-8").split("\n")[0], "Mieze")


@pytest.mark.parametrize(
    ("content", "text", "is_named"),
    [
        ("Katze\tcat\n", TEXT, True),  # swapped
        ("Cat\tKatze\n", TEXT, True),
        ("cat\tKatze\ngearbox\tGetriebe\n", TEXT, False),
        ("gearbox\tGetriebe\n", "\n \n", False),  # nothing to translate
    ],
)
def test_a_list_of_which_no_term_is_in_the_text_is_named(
    translate_text: TranslateText, terms: Path, content: str, text: str, is_named: bool
) -> None:
    terms.write_text(content, encoding="utf-8")
    told = translate_text(text, "--terms", terms, "--max-tokens", "3").succeeded().stderr
    assert (f"warning: {terms}: none of its terms" in told) == is_named


def test_columns_belong_to_the_terms_and_not_to_the_file(
    translate_text: TranslateText, terms: Path, tmp_path: Path
) -> None:
    terms.write_text("n\tHaus\thouse\nn\tKatze\tcat\n", encoding="utf-8")
    words = (*ROOM, "--output", tmp_path / "out", "--terms")
    assert "none of" not in translate_text(TEXT, *words, f"{terms}:3,2").succeeded().stderr
    assert "already translated" in translate_text(TEXT, *words, f"{terms}:3,2").stderr
    assert "none of" in translate_text(TEXT, *words, f"{terms}:2,3").stderr
    onto_itself = translate_text(TEXT, "--terms", f"{terms}:3,2", "--output", terms)
    assert onto_itself.refusal(2)


def test_python_takes_terms_and_copies_of_the_file(
    model_file: Path, other_model: Path, terms: Path, tmp_path: Path
) -> None:
    options = SearchOptions(beam_size=2)
    for model in (model_file, [model_file, other_model]):
        (found,) = package.Translator.load(model, options, terms=terms).translate(["the house"])
        assert has_phrase(found.text, "Haus")
        assert [(one.source, one.is_placed) for one in found.terms] == [("house", True)]
    config = TranslationConfig(models=(model_file,), search=options, terms=terms)
    assert config.files()[terms] == [terms]
    copies = {path: tmp_path / f"copy-{path.name}" for path in config.files()}
    for path, copy in copies.items():
        shutil.copy(path, copy)
    assert config.moved(copies).terms == copies[terms]
    named = replace(config, terms=Path(f"{terms}:1,2"))
    assert named.files() == config.files()
    assert named.moved(copies).terms == Path(f"{copies[terms]}:1,2")


def test_words_have_spaces_before_them_and_signs_need_not() -> None:
    text = ["(Katze) und Hund!", "(Hund) und Katze!", "Hund (Katze)"] * 3
    vocabulary = learn_vocabulary(text, vocab_size=290)
    terms = WordList([ListedWord("cat", ("Katze",)), ListedWord("stop", ("!",))])
    cut = ForceTerms(terms, LanguagePair(("en", "de"), vocabulary, vocabulary, 20))
    (segment,) = cut("cat stop", (), [7], 20, "")
    word, sign = segment.source.phrases
    assert word.forms == (tuple(vocabulary.encode_text(["Katze"])[0]),)
    assert [vocabulary.tokens(form)[0][0] for form in word.inner_forms] == ["K"]
    assert (sign.inner_forms, [word.is_word, sign.is_word]) == ((), [True, False])
    assert [vocabulary.tokens(form)[-1] for form in sign.forms] == ["!", "!"]


def test_words_in_what_stays_as_it_is_are_no_terms(model_file: Path, terms: Path) -> None:
    options = SearchOptions(beam_size=2)
    translator = package.Translator.load(model_file, options, terms=terms, markup="xml", split=True)
    lines = ["<code>cat</code> {cat}. A {cat} sees it.", "a {cat}. The cat sees"]
    found = translator.translate(lines)
    assert [[one.source for one in line.terms] for line in found] == [[], ["cat"]]
    assert "Katze" not in found[0].text
    assert has(found[1].text, "Katze")


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_terms_and_text_may_be_in_different_normal_forms(
    translate_text: TranslateText, tmp_path: Path, form: Literal["NFC", "NFD"]
) -> None:
    line = "the cät and a naïve dog\n"
    texts = [normalize("NFC", line), normalize("NFD", line)]
    path = tmp_path / "forms.tsv"
    path.write_text(normalize(form, "cät\tKätzchen\nnaïve dog\tnaiver Hünd\n"))
    found = [translate_text(text, *ROOM, "--terms", path).succeeded() for text in texts]
    assert ["lacks" in one.stderr for one in found] == [False, False]
    assert found[0].stdout == found[1].stdout
    assert has_phrase(found[0].stdout, "Kätzchen")
    assert has_phrase(found[0].stdout, "naiver Hünd")
