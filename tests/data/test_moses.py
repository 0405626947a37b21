"""Moses rules: done before subwords, undone behind them, recorded where the vocabulary goes."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import sacremoses

from nmt.data.languages import primary_language
from nmt.data.moses import Moses, abbreviations, moses_rules
from nmt.data.vocabulary import Vocabulary, learn_vocabulary
from nmt.data.words import torn_mark

LINE = "„Das ist“, sagte Dr. Müller, „3,5 % von 1.000 Euro.“"


def test_lines_are_what_sacremoses_makes_of_them() -> None:
    normal = sacremoses.MosesPunctNormalizer(lang="de").normalize(LINE)
    assert Moses("de", normalize=True, tokenize=False).apply(LINE) == normal
    assert normal == '"Das ist", sagte Dr. Müller, "3,5% von 1.000 Euro."'
    both = Moses("de", normalize=True, tokenize=True)
    assert both.apply(LINE) == '" Das ist " , sagte Dr. Müller , " 3,5 % von 1.000 Euro . "'
    assert both.undo(both.apply(LINE)) == normal


@pytest.mark.parametrize("line", ["Fish & chips < 5 > 3 | [x] 'quoted' \"twice\"", "AT&amp;T"])
def test_nothing_is_written_as_an_entity(line: str) -> None:
    rules = Moses("en", normalize=False, tokenize=True)
    assert rules.apply(line).replace(" ", "") == line.replace(" ", "")
    assert "&" not in rules.undo("a & b").replace("& ", "").replace(" &", "")
    assert rules.undo(rules.apply("AT&amp;T")).replace(" ", "") == "AT&amp;T"


@pytest.mark.parametrize(
    ("line", "torn"),
    [
        ("ไม่ได้", ""),
        ("ไม ่ ได ้", "ม ่"),
        ("a \u0301", "a \u0301"),
        (" \u0301", " \u0301"),
        ("é à", ""),
    ],
)
def test_a_mark_after_a_space_is_torn(line: str, torn: str) -> None:
    assert torn_mark(line) == torn


def test_rules_are_for_each_language_by_its_code() -> None:
    src, tgt = moses_rules(("pt_BR", "de"), ["tokenize"])
    assert (src, tgt) == (Moses("pt_BR", False, True), Moses("de", False, True))
    assert src is not None
    assert src.apply("Olá, mundo!") == "Olá , mundo !"
    assert moses_rules(("en", "de"), []) == (None, None)


@pytest.mark.parametrize(
    ("lang", "steps", "expected", "returned"),
    [
        # As tokenizer.perl writes them: -no-escape, then by itself, with -a, and lowercase.perl.
        ("en", ["tokenize"], "Ann-Lee 's [ A & B ]", "Ann-Lee's [A & B]"),
        ("en", ["escape"], "Ann-Lee &apos;s &#91; A &amp; B &#93;", "Ann-Lee's [A & B]"),
        ("en", ["aggressive"], "Ann @-@ Lee 's [ A & B ]", "Ann-Lee's [A & B]"),
        (
            "en",
            ["escape", "lowercase"],
            "ann-lee &apos;s &#91; a &amp; b &#93;",
            "ann-lee's [a & b]",
        ),
    ],
)
def test_moses_steps_are_undone(lang: str, steps: list[str], expected: str, returned: str) -> None:
    rules, _ = moses_rules((lang, lang), ["tokenize", *steps])
    assert rules is not None
    tokens = rules.apply("Ann-Lee's [A & B]")
    assert (tokens, rules.undo(tokens)) == (expected, returned)
    assert rules.steps == list(dict.fromkeys(["tokenize", *steps]))
    russian, _ = moses_rules(("ru", "ru"), ["tokenize", "lowercase"])
    assert russian is not None
    assert russian.apply("Да, ДА!") == "да , да !"


@pytest.mark.parametrize("lang", ["de", "pt_BR", "EN-us", "deu_Latn", "xx"])
def test_abbreviations_are_those_of_the_language_and_of_english(lang: str) -> None:
    lists = sacremoses.NonbreakingPrefixes()
    lines = {*lists.words(primary_language(lang)), *lists.words("en")}
    always = {line for line in lines if "#" not in line}
    numeric = {line.removesuffix("#NUMERIC_ONLY#").strip() for line in lines if "#" in line}
    assert abbreviations(lang, before_digit=False) == always
    assert abbreviations(lang, before_digit=True) == always | numeric
    assert "Mr" in always
    assert "No" in numeric


def test_abbreviations_come_from_an_older_sacremoses_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # Before 0.2, the package had no module of the lists alone.
    lists = abbreviations("nl", before_digit=True)
    package = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr("nmt.data.moses.find_spec", lambda _: package)
    abbreviations.cache_clear()
    assert abbreviations("nl", before_digit=True) == lists


def test_a_vocabulary_with_rules_takes_and_gives_text_as_people_write_it() -> None:
    rules = Moses("en", normalize=True, tokenize=True)
    model = learn_vocabulary(["Hello , world !", "How are you ?"], vocab_size=290).model
    vocabulary, plain = Vocabulary(model, rules), Vocabulary(model)
    ids = vocabulary.encode(["Hello, world!", "“How are you?”"])
    assert ids == plain.encode(["Hello , world !", '" How are you ? "'])
    assert vocabulary.decode(ids) == ["Hello, world!", '"How are you?"']
