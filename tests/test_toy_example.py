"""The toy example: correct German, splits that hold what they promise, baselines that fail.

The German expected here is written by hand, from a grammar book's tables, not by the generator.
"""

import hashlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import cast

import pytest
import sacrebleu

TOY = Path(__file__).parents[1] / "examples" / "toy"
sys.path.insert(0, str(TOY))

import baselines  # noqa: E402
import generate  # noqa: E402
import lexicon as lex  # noqa: E402
import report  # noqa: E402
from grammar import (  # noqa: E402
    Clause,
    NounPhrase,
    Phrase,
    Tense,
    english,
    infinitive_clause,
    main_clause,
    noun_phrase_de,
    noun_phrase_en,
    phrase,
    prepositional,
    pronoun_for,
    relative_pronoun,
    subordinate_clause,
)
from quantities import (  # noqa: E402
    clock_de,
    clock_en,
    number_de,
    number_en,
    ordinal_de,
    ordinal_en,
    price_de,
    price_en,
)
from templates import draw  # noqa: E402

SIZES = {"train": 4000, "valid": 100, "test": 200}
ADJECTIVE = {word.en: word for word in (*lex.QUALITIES, *lex.COLOURS)}
VERB = {verb.en: verb for verb in (*lex.TRANSITIVE, *lex.MOTION, *lex.MOMENTARY, *lex.RESTING)}
HE = Phrase("he", "er")
THEY = Phrase("they", "sie", "pl")
TODAY = Phrase("today", "heute")

Corpus = dict[str, list[Phrase]]


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return generate.corpus(seed=1, sizes=SIZES)


def np(determiner: lex.Determiner, words: str, *, plural: bool = False) -> NounPhrase:
    adjective, _, noun = words.rpartition(" ")
    return NounPhrase(determiner, lex.NOUN_OF[noun], ADJECTIVE.get(adjective), plural)


def clause(who: Phrase, tense: Tense, verb: str, *objects: Phrase, negated: bool = False) -> Clause:
    return Clause(who, VERB[verb], tense, objects, negated=negated)


THE_DOOR = phrase(np(lex.THE, "door"), "acc")


# Numbers, times, dates, prices


@pytest.mark.parametrize(
    ("number", "en", "de"),
    [
        (0, "zero", "null"),
        (1, "one", "eins"),
        (7, "seven", "sieben"),
        (12, "twelve", "zwölf"),
        (16, "sixteen", "sechzehn"),
        (17, "seventeen", "siebzehn"),
        (20, "twenty", "zwanzig"),
        (21, "twenty-one", "einundzwanzig"),
        (30, "thirty", "dreißig"),
        (34, "thirty-four", "vierunddreißig"),
        (66, "sixty-six", "sechsundsechzig"),
        (77, "seventy-seven", "siebenundsiebzig"),
        (99, "ninety-nine", "neunundneunzig"),
        (100, "one hundred", "hundert"),
        (101, "one hundred and one", "hunderteins"),
        (143, "one hundred and forty-three", "hundertdreiundvierzig"),
        (200, "two hundred", "zweihundert"),
        (617, "six hundred and seventeen", "sechshundertsiebzehn"),
        (731, "seven hundred and thirty-one", "siebenhunderteinunddreißig"),
        (999, "nine hundred and ninety-nine", "neunhundertneunundneunzig"),
    ],
)
def test_cardinal_is_as_written_by_hand(number: int, en: str, de: str) -> None:
    assert (number_en(number), number_de(number)) == (en, de)


@pytest.mark.parametrize("cardinal", [number_en, number_de])
def test_cardinals_to_999_are_all_different(cardinal: Callable[[int], str]) -> None:
    assert len({cardinal(number) for number in range(1000)}) == 1000


@pytest.mark.parametrize(
    ("number", "en", "de"),
    [
        (1, "first", "ersten"),
        (2, "second", "zweiten"),
        (3, "third", "dritten"),
        (5, "fifth", "fünften"),
        (7, "seventh", "siebten"),
        (8, "eighth", "achten"),
        (9, "ninth", "neunten"),
        (12, "twelfth", "zwölften"),
        (16, "sixteenth", "sechzehnten"),
        (19, "nineteenth", "neunzehnten"),
        (20, "twentieth", "zwanzigsten"),
        (21, "twenty-first", "einundzwanzigsten"),
        (30, "thirtieth", "dreißigsten"),
        (31, "thirty-first", "einunddreißigsten"),
    ],
)
def test_ordinal_is_as_written_by_hand(number: int, en: str, de: str) -> None:
    assert (ordinal_en(number), ordinal_de(number)) == (en, de)


@pytest.mark.parametrize(
    ("hour", "minute", "en", "de"),
    [
        (1, 0, "one o'clock", "ein Uhr"),
        (3, 0, "three o'clock", "drei Uhr"),
        (7, 5, "five past seven", "fünf nach sieben"),
        (1, 15, "a quarter past one", "Viertel nach eins"),
        (8, 20, "twenty past eight", "zwanzig nach acht"),
        (2, 25, "twenty-five past two", "fünf vor halb drei"),
        (2, 30, "half past two", "halb drei"),
        (12, 30, "half past twelve", "halb eins"),
        (2, 35, "twenty-five to three", "fünf nach halb drei"),
        (4, 40, "twenty to five", "zwanzig vor fünf"),
        (12, 45, "a quarter to one", "Viertel vor eins"),
        (11, 55, "five to twelve", "fünf vor zwölf"),
    ],
)
def test_clock_is_as_written_by_hand(hour: int, minute: int, en: str, de: str) -> None:
    assert (clock_en(hour, minute), clock_de(hour, minute)) == (en, de)


def test_price_is_as_written_by_hand() -> None:
    assert (price_en(12, 50), price_de(12, 50)) == ("twelve euros fifty", "zwölf Euro fünfzig")
    assert (price_en(21, 0), price_de(21, 0)) == ("twenty-one euros", "einundzwanzig Euro")


# Declension


@pytest.mark.parametrize(
    ("phrase_", "nominative", "accusative", "dative"),
    [
        (np(lex.THE, "good man"), "der gute Mann", "den guten Mann", "dem guten Mann"),
        (np(lex.THE, "old cat"), "die alte Katze", "die alte Katze", "der alten Katze"),
        (np(lex.THE, "new house"), "das neue Haus", "das neue Haus", "dem neuen Haus"),
        (np(lex.A, "good man"), "ein guter Mann", "einen guten Mann", "einem guten Mann"),
        (np(lex.A, "old cat"), "eine alte Katze", "eine alte Katze", "einer alten Katze"),
        (np(lex.A, "small house"), "ein kleines Haus", "ein kleines Haus", "einem kleinen Haus"),
        (np(lex.THIS, "tall boy"), "dieser große Junge", "diesen großen Jungen",
         "diesem großen Jungen"),
        (np(lex.EVERY, "child"), "jedes Kind", "jedes Kind", "jedem Kind"),
        (np(lex.NO, "red coat"), "kein roter Mantel", "keinen roten Mantel",
         "keinem roten Mantel"),
        (np(lex.POSSESSIVES[1], "expensive book"), "unser teures Buch", "unser teures Buch",
         "unserem teuren Buch"),
        (np(lex.A, "dark forest"), "ein dunkler Wald", "einen dunklen Wald",
         "einem dunklen Wald"),
        (np(lex.THE, "student"), "der Student", "den Studenten", "dem Studenten"),
        (np(lex.A, "neighbour"), "ein Nachbar", "einen Nachbarn", "einem Nachbarn"),
        (np(lex.THE, "good man", plural=True), "die guten Männer", "die guten Männer",
         "den guten Männern"),
        (np(lex.A, "tired child", plural=True), "müde Kinder", "müde Kinder", "müden Kindern"),
        (np(lex.NO, "old car", plural=True), "keine alten Autos", "keine alten Autos",
         "keinen alten Autos"),
        (np(lex.POSSESSIVES[3], "sister", plural=True), "ihre Schwestern", "ihre Schwestern",
         "ihren Schwestern"),
        (NounPhrase(lex.A, lex.NOUN_OF["apple"], ADJECTIVE["red"], True, 21),
         "einundzwanzig rote Äpfel", "einundzwanzig rote Äpfel", "einundzwanzig roten Äpfeln"),
        (NounPhrase(lex.THE, lex.NOUN_OF["apple"], ADJECTIVE["red"], True, 3),
         "die drei roten Äpfel", "die drei roten Äpfel", "den drei roten Äpfeln"),
    ],
)  # fmt: skip
def test_noun_phrase_declines(
    phrase_: NounPhrase, nominative: str, accusative: str, dative: str
) -> None:
    declined = [noun_phrase_de(phrase_, case) for case in ("nom", "acc", "dat")]
    assert declined == [nominative, accusative, dative]


@pytest.mark.parametrize(
    ("phrase_", "expected"),
    [
        (np(lex.A, "apple"), "an apple"),
        (np(lex.A, "old house"), "an old house"),
        (np(lex.A, "red apple"), "a red apple"),
        (np(lex.THIS, "child", plural=True), "these children"),
        (np(lex.A, "new box", plural=True), "new boxes"),
    ],
)
def test_english_noun_phrase_is_as_written_by_hand(phrase_: NounPhrase, expected: str) -> None:
    assert noun_phrase_en(phrase_) == expected


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (prepositional("with", "mit", np(lex.THE, "old cat"), "dat"), "mit der alten Katze"),
        (prepositional("in", "in", np(lex.THE, "garden"), "dat"), "im Garten"),
        (prepositional("into", "in", np(lex.THE, "garden"), "acc"), "in den Garten"),
        (prepositional("into", "in", np(lex.THE, "old house"), "acc"), "ins alte Haus"),
        (prepositional("into", "in", np(lex.A, "old house"), "acc"), "in ein altes Haus"),
        (prepositional("to", "zu", np(lex.THE, "doctor"), "dat"), "zum Arzt"),
        (prepositional("to", "zu", np(lex.THE, "aunt"), "dat"), "zur Tante"),
        (prepositional("to", "zu", np(lex.THE, "friend", plural=True), "dat"), "zu den Freunden"),
        (prepositional("for", "für", np(lex.THIS, "lamp"), "acc"), "für diese Lampe"),
    ],
)
def test_preposition_takes_its_case_and_contracts(made: Phrase, expected: str) -> None:
    assert made.de == expected


# Clauses


@pytest.mark.parametrize(
    ("made", "en", "main", "subordinate"),
    [
        (clause(HE, "present", "open", THE_DOOR),
         "he opens the door", "er macht die Tür auf", "weil er die Tür aufmacht"),
        (clause(HE, "past", "open", THE_DOOR),
         "he opened the door", "er hat die Tür aufgemacht", "weil er die Tür aufgemacht hat"),
        (clause(HE, "must", "open", THE_DOOR),
         "he must open the door", "er muss die Tür aufmachen", "weil er die Tür aufmachen muss"),
        (clause(THEY, "want", "close", THE_DOOR),
         "they want to close the door", "sie wollen die Tür zumachen",
         "weil sie die Tür zumachen wollen"),
        (clause(HE, "want", "close", THE_DOOR, negated=True),
         "he does not want to close the door", "er will die Tür nicht zumachen",
         "weil er die Tür nicht zumachen will"),
        (clause(HE, "present", "open", THE_DOOR, negated=True),
         "he does not open the door", "er macht die Tür nicht auf",
         "weil er die Tür nicht aufmacht"),
        (clause(HE, "past", "buy", phrase(np(lex.NO, "old car"), "acc"), negated=True),
         "he did not buy an old car", "er hat kein altes Auto gekauft",
         "weil er kein altes Auto gekauft hat"),
        (clause(HE, "present", "help", phrase(np(lex.THE, "old man"), "dat")),
         "he helps the old man", "er hilft dem alten Mann", "weil er dem alten Mann hilft"),
        (clause(Phrase("I", "ich", "I"), "present", "invite", phrase(np(lex.A, "boy"), "acc")),
         "I invite a boy", "ich lade einen Jungen ein", "weil ich einen Jungen einlade"),
        (clause(THEY, "past", "go", prepositional("into", "in", np(lex.THE, "city"), "acc")),
         "they went into the city", "sie sind in die Stadt gegangen",
         "weil sie in die Stadt gegangen sind"),
        (clause(HE, "past", "come back"), "he came back", "er ist zurückgekommen",
         "weil er zurückgekommen ist"),
    ],
)  # fmt: skip
def test_clause_puts_its_verb_in_place(made: Clause, en: str, main: str, subordinate: str) -> None:
    assert english(made) == en
    assert main_clause(made) == main
    assert subordinate_clause("weil", made) == subordinate


def test_main_clause_inverts_after_a_time_or_a_clause() -> None:
    made = Clause(HE, VERB["open"], "past", (THE_DOOR,), TODAY)
    assert english(made, time_first=True) == "today he opened the door"
    assert main_clause(made) == "er hat heute die Tür aufgemacht"
    assert main_clause(made, "time") == "heute hat er die Tür aufgemacht"
    assert main_clause(made, "verb") == "hat er heute die Tür aufgemacht"


def test_infinitive_takes_zu_inside_a_separable_verb() -> None:
    nobody = Phrase("", "")
    book = phrase(np(lex.A, "book"), "acc")
    opening = clause(nobody, "present", "open", THE_DOOR)
    buying = clause(nobody, "present", "buy", book)
    assert infinitive_clause(opening) == ("to open the door", "die Tür aufzumachen")
    assert infinitive_clause(buying) == ("to buy a book", "ein Buch zu kaufen")


@pytest.mark.parametrize(
    ("noun", "plural", "en", "de"),
    [
        ("table", False, "it", "er"),
        ("lamp", False, "it", "sie"),
        ("book", False, "it", "es"),
        ("table", True, "they", "sie"),
    ],
)
def test_pronoun_follows_the_gender_of_the_thing(noun: str, plural: bool, en: str, de: str) -> None:
    pronoun = pronoun_for(np(lex.THE, noun, plural=plural))
    assert (pronoun.en, pronoun.de) == (en, de)


def test_relative_clause_takes_the_case_of_its_own_verb() -> None:
    table = np(lex.THE, "table")
    made = clause(HE, "past", "buy")
    pronoun = relative_pronoun(table.slot, VERB["buy"].case)
    assert subordinate_clause(pronoun, made) == "den er gekauft hat"
    assert relative_pronoun("pl", "dat") == "denen"


# Splits


def test_same_seed_gives_the_same_bytes_and_another_seed_others(tmp_path: Path) -> None:
    def digests(seed: int, hash_seed: str) -> dict[str, str]:
        out = tmp_path / f"{seed}-{hash_seed}"
        sizes = ["--train", "3000", "--valid", "20", "--test", "20"]
        subprocess.run(
            [sys.executable, TOY / "generate.py", "--out", out, "--seed", str(seed), *sizes],
            check=True,
            env={"PYTHONHASHSEED": hash_seed},
        )
        return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in out.iterdir()}

    first = digests(1, "1")
    assert set(first) == {f"{split}.{side}" for split in generate.SPLITS for side in ("en", "de")}
    assert digests(1, "2") == first
    assert digests(2, "1") != first


def test_splits_have_their_sizes_and_share_no_line(corpus: Corpus) -> None:
    assert {split: len(lines) for split, lines in corpus.items()} == SIZES
    for side in ("en", "de"):
        sides = {split: {getattr(s, side) for s in lines} for split, lines in corpus.items()}
        assert not sides["train"] & sides["valid"]
        assert not sides["train"] & sides["test"]
        assert not sides["valid"] & sides["test"]


def test_every_word_of_valid_and_test_is_seen_in_train(corpus: Corpus) -> None:
    for side in ("en", "de"):
        known = set().union(*(generate.words(getattr(s, side)) for s in corpus["train"]))
        for sentence in corpus["valid"] + corpus["test"]:
            assert generate.words(getattr(sentence, side)) <= known


def test_every_line_of_test_holds_a_combination_no_other_split_holds(corpus: Corpus) -> None:
    held = {
        split: set().union(*(sentence.combinations for sentence in lines))
        for split, lines in corpus.items()
    }
    assert all(sentence.combinations - held["train"] - held["valid"] for sentence in corpus["test"])
    assert all(sentence.combinations - held["train"] - held["test"] for sentence in corpus["valid"])


def test_held_out_combination_appears_in_no_line_of_train(corpus: Corpus) -> None:
    # The combinations that a line claims to hold, against its words, for one kind that is easy to
    # find in them: an adjective right before its noun.
    claimed = {pair for sentence in corpus["test"] for pair in sentence.combinations}
    held_out = {
        f"{adjective} {noun}"
        for adjective, noun in claimed
        if adjective in ADJECTIVE
        and noun in lex.NOUN_OF
        and generate.split_of_combination((adjective, noun)) == "test"
    }
    assert len(held_out) > 5
    text = " | ".join(sentence.en.lower() for sentence in corpus["train"])
    assert not [pair for pair in held_out if f" {pair} " in text]


def test_an_english_line_has_one_translation() -> None:
    rng = Random(3)
    translation: dict[str, str] = {}
    for _ in range(20_000):
        sentence = draw(rng)
        assert translation.setdefault(sentence.en, sentence.de) == sentence.de


def test_train_too_small_is_refused_with_what_to_do() -> None:
    with pytest.raises(SystemExit, match="larger --train"):
        generate.corpus(seed=1, sizes={"train": 1, "valid": 1, "test": 1})


# Baselines and report


@pytest.mark.parametrize("method", baselines.METHODS)
def test_baseline_stays_below_50_bleu(corpus: Corpus, method: str) -> None:
    src = baselines.truecase([baselines.tokenize(s.en) for s in corpus["train"]])
    test = baselines.truecase([baselines.tokenize(s.en) for s in corpus["test"]])
    hypotheses = baselines.METHODS[method](src, [s.de for s in corpus["train"]], test)
    bleu = sacrebleu.corpus_bleu(hypotheses, [[s.de for s in corpus["test"]]])
    assert 5 < bleu.score < 50


def test_dictionary_learns_what_stands_with_what() -> None:
    src = [["the", "house"], ["the", "book"], ["a", "book"]]
    tgt = [["das", "Haus"], ["das", "Buch"], ["ein", "Buch"]]
    learnt = baselines.learn_dictionary(src, tgt)
    assert learnt == {"the": "das", "house": "Haus", "book": "Buch", "a": "ein"}


def test_nearest_neighbour_takes_the_first_of_equals() -> None:
    neighbours = baselines.NearestNeighbour([["a", "b"], ["a", "c"], ["b", "c"]], ["1", "2", "3"])
    assert neighbours.translate(["a", "d"]) == "1"
    assert neighbours.translate(["c"]) == "2"


def test_report_fails_on_a_weak_model_and_a_strong_baseline() -> None:
    def scores(model: float, baseline: float) -> report.Scores:
        figures = dict.fromkeys(report.MODELS, model) | dict.fromkeys(report.BASELINES, baseline)
        made = {
            output: {metric: {"score": figure, "signature": "nrefs:1"} for metric in report.METRICS}
            for output, figure in figures.items()
        }
        return cast(report.Scores, made)

    assert report.failures(scores(90.0, 49.9)) == []
    assert len(report.failures(scores(89.9, 20.0))) == len(report.MODELS)
    assert len(report.failures(scores(95.0, 50.0))) == len(report.BASELINES)
    assert ["averaged,", "beam", "4", "95.0", "95.0"] in [
        line.split() for line in report.table(scores(95.0, 20.0)).splitlines()
    ]
