"""The toy example: correct German, splits without overlap, and baselines that fail.

The German expected here is written by hand, from a grammar book's tables, not by the generator.
"""

from collections.abc import Callable

import baselines
import make_text
import pytest
import sacrebleu
from make_text import Clause, Sentence

SIZES = {"train": 4000, "valid": 100, "test": 200}
NOUN = {noun.en: noun for noun in make_text.NOUNS}
VERB = {verb.de + verb.prefix: verb for verb in make_text.VERBS}

Corpus = dict[str, list[Sentence]]


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return make_text.corpus(seed=1, sizes=SIZES)


@pytest.mark.parametrize(
    ("determiner", "adjective", "noun", "plural", "declined"),
    [
        ("the", "klug", "man", False, "der kluge Mann, den klugen Mann, dem klugen Mann"),
        ("the", "alt", "lamp", False, "die alte Lampe, die alte Lampe, der alten Lampe"),
        ("a", "alt", "table", False, "ein alter Tisch, einen alten Tisch, einem alten Tisch"),
        ("my", "rot", "book", False, "mein rotes Buch, mein rotes Buch, meinem roten Buch"),
        ("the", "jung", "man", True, "die jungen Männer, die jungen Männer, den jungen Männern"),
        ("a", "neu", "book", True, "neue Bücher, neue Bücher, neuen Büchern"),
    ],
)
def test_noun_phrase_declines(
    determiner: str, adjective: str, noun: str, plural: bool, declined: str
) -> None:
    cases = (
        make_text.noun_phrase_de(determiner, adjective, NOUN[noun], case, plural=plural)
        for case in ("nom", "acc", "dat")
    )
    assert ", ".join(cases) == declined


@pytest.mark.parametrize(
    ("subject", "verb", "tense", "en", "first", "last"),
    [
        ("he", "kaufen", "past", "he bought there", "er hat dort gekauft", "er dort gekauft hat"),
        ("he", "bringenmit", "present", "he brings there", "er bringt dort mit",
         "er dort mitbringt"),
        ("she", "holenab", "present", "she fetches there", "sie holt dort ab", "sie dort abholt"),
        ("they", "gehen", "past", "they went there", "sie sind dort gegangen",
         "sie dort gegangen sind"),
    ],
)  # fmt: skip
def test_clause_puts_its_verb_in_place(
    subject: str, verb: str, tense: str, en: str, first: str, last: str
) -> None:
    who = next(phrase for phrase in make_text.SUBJECTS if phrase.en == subject)
    clause = Clause(who, VERB[verb], tense, "there", "dort", frozenset())

    def words(text: str) -> str:
        return " ".join(text.split())

    assert words(make_text.english(clause)) == en
    assert words(make_text.main_clause(clause)) == first
    assert words(make_text.subordinate_clause(clause)) == last
    pronoun, conjugated, *rest = first.split()
    inverted = " ".join(["heute", conjugated, pronoun, *rest])
    assert words(make_text.main_clause(clause, "heute")) == inverted


# English, German, and the German words that each English one is linked with.
LINKED = """
Because the key is in the forest, our clever brother sells her new knife.
Weil der Schlüssel im Wald liegt, verkauft unser kluger Bruder ihr neues Messer.
Weil der Schlüssel liegt, im im Wald unser kluger Bruder verkauft ihr neues Messer.

The old aunt sold the small coat, because it was too black.
Die alte Tante hat den kleinen Mantel verkauft, weil er zu schwarz gewesen ist.
Die alte Tante hat+verkauft, den kleinen Mantel weil er gewesen+ist. zu schwarz
"""


def test_words_are_linked_with_those_that_they_stand_for() -> None:
    rng = make_text.Drawing(3)
    lines = {sentence.en: sentence for sentence in (make_text.draw(rng) for _ in range(12))}
    for expected in LINKED.split("\n\n"):
        en, de, linked = expected.strip().split("\n")
        found = lines[en]
        words: dict[int, list[str]] = {}
        for link in found.links.split():
            number, other = map(int, link.split("-"))
            words.setdefault(number, []).append(found.de.split()[other])
        assert found.de == de
        assert " ".join("+".join(words[n]) for n in range(len(en.split()))) == linked


def test_splits_have_their_sizes_and_share_no_line(corpus: Corpus) -> None:
    assert {split: len(lines) for split, lines in corpus.items()} == SIZES
    assert len({s.en for lines in corpus.values() for s in lines}) == sum(SIZES.values())


def test_held_out_adjectives_and_nouns_are_in_no_line_of_train(corpus: Corpus) -> None:
    adjectives = {adjective.en for adjective in make_text.ADJECTIVES}
    claimed = {pair for sentence in corpus["test"] for pair in sentence.pairs}
    held_out = {
        f" {first} {noun}{end}"
        for first, noun in claimed
        if first in adjectives and make_text.split_of(frozenset({(first, noun)})) == "test"
        for end in " .,"
    }
    assert len(held_out) > 15
    assert not [pair for pair in held_out for s in corpus["train"] if pair in s.en]


@pytest.mark.parametrize("method", [baselines.word_by_word, baselines.nearest_neighbour])
def test_baseline_stays_below_50_bleu(
    corpus: Corpus, method: Callable[[list[list[str]], list[str], list[list[str]]], list[str]]
) -> None:
    src, test = ([baselines.tokenize(s.en) for s in corpus[split]] for split in ("train", "test"))
    hypotheses = method(src, [s.de for s in corpus["train"]], test)
    bleu = sacrebleu.corpus_bleu(hypotheses, [[s.de for s in corpus["test"]]])
    assert 5 < bleu.score < 50
