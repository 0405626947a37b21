#!/usr/bin/env python3
"""Write a small English-German parallel corpus from a grammar: train, valid and test.

The language has some thirty nouns, fifteen adjectives and twenty verbs, and what makes German hard
to copy word by word: gender, case and adjective endings, verbs that are second, last or in two
parts, and English words whose translation depends on another word of the line. Each English
sentence has exactly one translation.

The splits hold out pairs of words: an adjective with its noun, a verb with its object or place,
a thing with its place. CRC-32 of "FIRST SECOND", the two English words, modulo 16 says where a
pair belongs: 0 to valid, 1 to test, the rest to train. So each line of test holds a pair that no
line of train or valid holds, made of words that train does.

The grammar also knows which word stands for which. While a sentence is drawn, words of both sides
that belong together carry the same mark, a character that no text has. `links` reads them.
"""

import argparse
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from pathlib import Path
from random import Random
from typing import NamedTuple
from zlib import crc32


class Noun(NamedTuple):
    """A noun of words.txt."""

    en: str
    en_plural: str
    de: str
    gender: str
    de_plural: str
    kind: str


class Adjective(NamedTuple):
    """An adjective of words.txt; `kinds` are those of the nouns it goes with."""

    en: str
    de: str
    kinds: str


class Verb(NamedTuple):
    """A verb of words.txt; `kinds` are those of the nouns it takes."""

    en: str
    en_past: str
    de: str
    third: str
    participle: str
    auxiliary: str
    prefix: str
    takes: str
    kinds: str


def read_lines(path: Path) -> list[str]:
    """Read the lines of a file."""
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write the lines of a file."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")


def read_words(name: str) -> list[list[str]]:
    """Return the rows of words.txt that begin with a name, such as noun."""
    rows = [line.split() for line in read_lines(Path(__file__).with_name("words.txt"))]
    return [
        [word.replace("_", " ").strip("-") for word in row[1:]] for row in rows if row[:1] == [name]
    ]


SIZES = {"train": 16_000, "valid": 500, "test": 500}

NOBODY = Noun("", "", "", "", "", "")
NOUNS = [Noun(*row) for row in read_words("noun")]
ADJECTIVES = [Adjective(*row) for row in read_words("adjective")]
VERBS = [Verb(*row) for row in read_words("verb")]
DOINGS = [verb for verb in VERBS if verb.takes and verb.takes != "where"]
# place and be, by the kind of thing.
PLACE = {verb.kinds: verb for verb in VERBS if verb.takes == "on"}
BE_SOMEWHERE = {verb.kinds: verb for verb in VERBS if verb.takes == "where"}
BE = VERBS[-1]

# The endings of dieser by case and slot, which is gender or plural; those of der and of ein follow.
ENDINGS = {
    "nom": {"m": "er", "f": "e", "n": "es", "pl": "e"},
    "acc": {"m": "en", "f": "e", "n": "es", "pl": "e"},
    "dat": {"m": "em", "f": "er", "n": "em", "pl": "en"},
}
# ein Mann, ein Haus: where ein has no ending, and the adjective shows the gender.
WITHOUT_ENDING = {("nom", "m"), ("nom", "n"), ("acc", "n")}
DETERMINERS = {"this": "dies", "a": "ein", "my": "mein", "our": "unser", "her": "ihr"}
OFTEN = ("the", "the", "the", "a", "a", "this", "my", "our", "her")
IT = {
    "m": {"nom": "er", "acc": "ihn"},
    "f": {"nom": "sie", "acc": "sie"},
    "n": {"nom": "es", "acc": "es"},
    "pl": {"nom": "sie", "acc": "sie"},
}
AUXILIARIES = {  # singular and plural
    "haben": ("hat", "haben"),
    "sein": ("ist", "sind"),
    "must": ("muss", "müssen"),
    "will": ("wird", "werden"),
}
TIMES = {
    "present": ("every day", "jeden Tag"),
    "past": ("yesterday", "gestern"),
    "must": ("today", "heute"),
    "will": ("tomorrow", "morgen"),
}
CONJUNCTIONS = (("because", "weil"), ("although", "obwohl"), ("if", "wenn"))

Pairs = frozenset[tuple[str, str]]

MARK = "[\ue000-\uf8ff]"
"""Matches a mark."""


class Drawing(Random):
    """Random numbers, and marks that differ within a sentence."""

    marks = 0

    def mark(self) -> str:
        """Return the next mark."""
        self.marks = (self.marks + 1) % 1000
        return chr(0xE000 + self.marks)


def marked(text: str, marks: Iterable[str]) -> str:
    """Return the words of a text, each with its mark."""
    return " ".join(map("".join, zip(text.split(), marks, strict=True)))


@dataclass(frozen=True)
class Phrase:
    """A noun phrase or a pronoun; `slot` is its gender, or pl."""

    en: str
    de: dict[str, str]  # by case
    slot: str
    noun: Noun = NOBODY
    pairs: Pairs = frozenset()


SUBJECTS = [
    Phrase(en, {"nom": de}, slot)
    for en, de, slot in (
        ("he", "er", "m"), ("she", "sie", "f"), ("we", "wir", "pl"), ("they", "sie", "pl"),
        ("Anna", "Anna", "f"), ("Peter", "Peter", "m"),
    )
]  # fmt: skip


@dataclass(frozen=True)
class Clause:
    """A subject with its verb; `en` and `de` are what else it holds."""

    subject: Phrase
    verb: Verb
    tense: str
    en: str
    de: str
    pairs: Pairs
    marks: tuple[str, str] = "", ""
    """Of the verb, and of "must" or "will"."""

    @property
    def plural(self) -> bool:
        return self.subject.slot == "pl"


class Sentence(NamedTuple):
    """A line of both sides, and the pairs of words that it holds.

    links: which words stand for which, as positions from 0: 0-0 1-2.
    """

    en: str
    de: str
    pairs: Pairs
    links: str = ""


def the_de(case: str, slot: str) -> str:
    """Return the definite article, which is also the relative pronoun: der, die, das."""
    ending = ENDINGS[case][slot]
    return "d" + {"e": "ie", "es": "as"}.get(ending, ending)


def noun_phrase_de(determiner: str, adjective: str, noun: Noun, case: str, *, plural: bool) -> str:
    """Decline a noun phrase: den guten Mann, ein kleines Haus, neuen Büchern."""
    slot = "pl" if plural else noun.gender
    ending = ENDINGS[case][slot]
    if determiner == "a" and plural:
        article, shown = "", False
    elif determiner == "the":
        article, shown = the_de(case, slot), True
    else:
        shown = determiner == "this" or (case, slot) not in WITHOUT_ENDING
        article = DETERMINERS[determiner] + (ending if shown else "")
    if shown:  # Gender and case are seen on the determiner; the adjective need not repeat them.
        weak = not plural and (case == "nom" or (case == "acc" and slot != "m"))
        ending = "e" if weak else "en"
    word = noun.de_plural if plural else noun.de
    if plural and case == "dat" and word[-1] not in "ns":
        word += "n"
    return " ".join(filter(None, (article, adjective and adjective + ending, word)))


def noun_phrase_en(determiner: str, adjective: str, noun: Noun, *, plural: bool) -> str:
    """Return a noun phrase: an old house, these books."""
    words = f"{adjective} {noun.en_plural if plural else noun.en}".strip()
    if determiner == "a":
        determiner = "" if plural else "an" if words[0] in "aeiou" else "a"
    elif determiner == "this" and plural:
        determiner = "these"
    return f"{determiner} {words}".strip()


def english(clause: Clause) -> str:
    """Return a clause in English."""
    verb, tense, plural = clause.verb, clause.tense, clause.plural
    if tense in ("must", "will"):
        words = verb.en
    elif verb.en == "be":
        words = {"past": ("was", "were"), "present": ("is", "are")}[tense][plural]
    elif tense == "past" or plural:
        words = verb.en_past if tense == "past" else verb.en
    else:
        first, _, particle = verb.en.partition(" ")
        words = f"{first}{'es' if first[-1] in 'oh' else 's'} {particle}"
    of_verb, of_auxiliary = clause.marks
    words = marked(words, repeat(of_verb, len(words.split())))
    if tense in ("must", "will"):
        words = f"{tense}{of_auxiliary} {words}"
    return f"{clause.subject.en} {words} {clause.en}"


def german_verb(clause: Clause) -> tuple[str, str]:
    """Return a German verb in two parts: conjugated, and at the end of the clause."""
    verb, tense, plural = clause.verb, clause.tense, clause.plural
    of_verb, of_auxiliary = clause.marks
    if tense == "present":
        several = "sind" if verb.de == "sein" else verb.de
        conjugated, end = several if plural else verb.third, verb.prefix
        return conjugated + of_verb, end and end + of_verb
    if tense == "past":
        return AUXILIARIES[verb.auxiliary][plural] + of_verb, verb.participle + of_verb
    return AUXILIARIES[tense][plural] + of_auxiliary, verb.prefix + verb.de + of_verb


def main_clause(clause: Clause, first: str = "") -> str:
    """Return a German clause whose verb is second, after the subject or after `first`."""
    conjugated, end = german_verb(clause)
    subject = clause.subject.de["nom"]
    start = f"{first} {conjugated} {subject}" if first else f"{subject} {conjugated}"
    return f"{start} {clause.de} {end}"


def subordinate_clause(clause: Clause) -> str:
    """Return a German clause whose verb is last: er sie anruft, er sie gesehen hat."""
    conjugated, end = german_verb(clause)
    space = "" if clause.tense == "present" else " "
    return f"{clause.subject.de['nom']} {clause.de} {end}{space}{conjugated}"


def draw_noun_phrase(rng: Drawing, kinds: str, *, plural: float = 0.3) -> Phrase:
    """Draw a determiner, perhaps an adjective, and a noun of one of the kinds."""
    noun = rng.choice([noun for noun in NOUNS if noun.kind in kinds])
    fitting = [adjective for adjective in ADJECTIVES if noun.kind in adjective.kinds]
    adjective = rng.choice(fitting) if rng.random() < 0.5 else Adjective("", "", "")
    determiner, several = rng.choice(OFTEN), rng.random() < plural
    de = {
        case: noun_phrase_de(determiner, adjective.de, noun, case, plural=several)
        for case in ENDINGS
    }
    en = noun_phrase_en(determiner, adjective.en, noun, plural=several)
    pairs = frozenset({(adjective.en, noun.en)} if adjective.en else ())
    phrase = Phrase(en, de, "pl" if several else noun.gender, noun, pairs)
    return with_marks(phrase, [rng.mark() for _ in en.split()])


def with_marks(phrase: Phrase, marks: Sequence[str]) -> Phrase:
    """Mark a phrase that has the same words in both languages, in the same order."""
    de = {case: marked(words, marks) for case, words in phrase.de.items()}
    return replace(phrase, en=marked(phrase.en, marks), de=de)


def draw_subject(rng: Drawing) -> Phrase:
    """Draw a person: a pronoun, a name or a noun phrase."""
    if rng.random() < 0.4:
        return with_marks(rng.choice(SUBJECTS), [rng.mark()])
    return draw_noun_phrase(rng, "p")


def draw_place(rng: Drawing, kinds: str, case: str) -> Phrase:
    """Draw a place: on the table, auf dem Tisch."""
    place = draw_noun_phrase(rng, kinds, plural=0.0)
    if place.noun.kind == "f":
        en, de = "on", "auf"
    else:
        en, de = "into" if case == "acc" else "in", "in"
    mark = rng.mark()
    return replace(place, en=f"{en}{mark} {place.en}", de={case: f"{de}{mark} {place.de[case]}"})


def draw_action(
    rng: Drawing, subject: Phrase, verb: Verb, tense: str, thing: Phrase | None = None
) -> Clause:
    """Draw what somebody does, to a given thing or to one drawn here."""
    marks = rng.mark(), rng.mark()
    if verb.takes == "into":
        place = draw_place(rng, "r", "acc")
        pairs = subject.pairs | place.pairs | {(verb.en, place.noun.en)}
        return Clause(subject, verb, tense, place.en, place.de["acc"], pairs, marks)
    thing = thing or draw_noun_phrase(rng, verb.kinds)
    pairs = subject.pairs | thing.pairs
    if verb.takes == "on":
        place = draw_place(rng, "f", "acc")
        pairs |= place.pairs | {(thing.noun.en, place.noun.en)}
        en, de = f"{thing.en} {place.en}", f"{thing.de['acc']} {place.de['acc']}"
        return Clause(subject, verb, tense, en, de, pairs, marks)
    pairs |= {(verb.en, thing.noun.en)}
    return Clause(subject, verb, tense, thing.en, thing.de[verb.takes], pairs, marks)


def draw_state(rng: Drawing, thing: Phrase, tense: str) -> Clause:
    """Draw where a thing is, or what it is too much of."""
    marks = rng.mark(), rng.mark()
    if rng.random() < 0.5:
        place = draw_place(rng, "fr", "dat")
        pairs = thing.pairs | place.pairs | {(thing.noun.en, place.noun.en)}
        verb = BE_SOMEWHERE[thing.noun.kind]
        return Clause(thing, verb, tense, place.en, place.de["dat"], pairs, marks)
    adjective = rng.choice([word for word in ADJECTIVES if thing.noun.kind in word.kinds])
    pairs = thing.pairs | {(adjective.en, thing.noun.en)}
    of_words = rng.mark(), rng.mark()
    en, de = marked(f"too {adjective.en}", of_words), marked(f"zu {adjective.de}", of_words)
    return Clause(thing, BE, tense, en, de, pairs, marks)


def draw_clause(rng: Drawing) -> Clause:
    """Draw a clause about somebody or something."""
    tense = rng.choice(list(TIMES))
    if rng.random() < 0.2:
        return draw_state(rng, draw_noun_phrase(rng, "ls"), tense)
    return draw_action(rng, draw_subject(rng), rng.choice(DOINGS), tense)


def draw_relative(rng: Drawing) -> Phrase:
    """Draw a person with a relative clause: the man who called her friend."""
    head = draw_noun_phrase(rng, "p")
    who = with_marks(Phrase("who", {"nom": the_de("nom", head.slot)}, head.slot), [rng.mark()])
    clause = draw_action(rng, who, rng.choice(DOINGS), rng.choice(list(TIMES)))
    en = f"{head.en} {english(clause)}"
    de = {"nom": f"{head.de['nom']}, {subordinate_clause(clause)},"}
    return Phrase(en, de, head.slot, pairs=head.pairs | clause.pairs)


def draw_simple(rng: Drawing) -> Sentence:
    """Draw a main clause with a time, which may come first, or with a relative clause, or both."""
    tense, relative = rng.choice(list(TIMES)), rng.random() < 0.5
    subject = draw_relative(rng) if relative else draw_subject(rng)
    clause = draw_action(rng, subject, rng.choice(DOINGS), tense)
    marks = [rng.mark() for _ in TIMES[tense][0].split()]
    time_en, time_de = (marked(side, marks) for side in TIMES[tense])
    if rng.random() < 0.5:
        return Sentence(f"{time_en} {english(clause)}", main_clause(clause, time_de), clause.pairs)
    later = replace(clause, en=f"{clause.en} {time_en}", de=f"{time_de} {clause.de}")
    return Sentence(english(later), main_clause(later), clause.pairs)


def draw_joined(rng: Drawing) -> Sentence:
    """Draw a main clause and a subordinate clause, in either order."""
    main, subordinate = draw_clause(rng), draw_clause(rng)
    pairs = main.pairs | subordinate.pairs
    mark = rng.mark()
    conjunction_en, conjunction_de = (word + mark for word in rng.choice(CONJUNCTIONS))
    en = f"{conjunction_en} {english(subordinate)}"
    de = f"{conjunction_de} {subordinate_clause(subordinate)}"
    if rng.random() < 0.5:
        return Sentence(f"{en}, {english(main)}", main_clause(main, f"{de},"), pairs)
    return Sentence(f"{english(main)} {en}", f"{main_clause(main)}, {de}", pairs)


def draw_reference(rng: Drawing) -> Sentence:
    """Draw a clause about a thing, then one that calls it "it" or "they"."""
    thing = draw_noun_phrase(rng, "ls")
    fitting = [verb for verb in DOINGS if verb.takes == "acc" and thing.noun.kind in verb.kinds]
    tense = rng.choice(list(TIMES))
    first = draw_action(rng, draw_subject(rng), rng.choice(fitting), tense, thing)
    several = thing.slot == "pl"
    it = replace(thing, de=IT[thing.slot], pairs=frozenset())
    mark, of_it = rng.mark(), [rng.mark()]
    if rng.random() < 0.5:
        it = with_marks(replace(it, en="they" if several else "it"), of_it)
        second = draw_state(rng, it, tense)
        en, de = f"because{mark} {english(second)}", f"weil{mark} {subordinate_clause(second)}"
    else:
        it = with_marks(replace(it, en="them" if several else "it"), of_it)
        verb = rng.choice([*fitting, PLACE[thing.noun.kind]])
        second = draw_action(rng, draw_subject(rng), verb, tense, it)
        en, de = f"and{mark} {english(second)}", f"und{mark} {main_clause(second)}"
    pairs = first.pairs | second.pairs
    return Sentence(f"{english(first)}, {en}", f"{main_clause(first)}, {de}", pairs)


def tidy(text: str) -> str:
    """Make a line of words and clauses: single spaces and commas, a capital, a full stop."""
    text = re.sub(r"\s*,[\s,]*", ", ", " ".join(text.split())).removesuffix(", ")
    for second, both in (("dem", "im"), ("das", "ins")):
        text = re.sub(rf" in({MARK}?) {second}({MARK}?) ", rf" {both}\1\2 ", text)
    return text[0].upper() + text[1:] + "."


def links(en: str, de: str) -> str:
    """Return the pairs of words with a common mark, in the Pharaoh form."""
    marks = [[set(re.findall(MARK, word)) for word in side.split()] for side in (en, de)]
    return " ".join(
        f"{number}-{other}"
        for number, ours in enumerate(marks[0])
        for other, theirs in enumerate(marks[1])
        if ours & theirs
    )


def draw(rng: Drawing) -> Sentence:
    """Draw a sentence."""
    sentence = rng.choice((draw_simple, draw_joined, draw_reference))(rng)
    en, de = tidy(sentence.en), tidy(sentence.de)
    without = [re.sub(MARK, "", side) for side in (en, de)]
    return Sentence(without[0], without[1], sentence.pairs, links(en, de))


def split_of(pairs: Pairs) -> str | None:
    """Return the split that a sentence belongs to, or None if it mixes those of valid and test."""
    numbers = {crc32(" ".join(pair).encode()) % 16 for pair in pairs}
    if {0, 1} <= numbers:
        return None
    return "valid" if 0 in numbers else "test" if 1 in numbers else "train"


def corpus(seed: int, sizes: dict[str, int]) -> dict[str, list[Sentence]]:
    """Return the sentences of each split, each English line once."""
    rng = Drawing(seed)
    splits: dict[str, dict[str, Sentence]] = {split: {} for split in sizes}
    while any(len(splits[split]) < size for split, size in sizes.items()):
        sentence = draw(rng)
        split = split_of(sentence.pairs)
        if split and len(splits[split]) < sizes[split]:
            splits[split][sentence.en] = sentence
    return {split: list(sentences.values()) for split, sentences in splits.items()}


def main() -> None:
    """Write the text of each split, and the links of its words."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    files = "train.en, train.de, train.links and so on"
    parser.add_argument("--out", type=Path, required=True, help=f"folder for {files}")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    options.out.mkdir(parents=True, exist_ok=True)
    for split, sentences in corpus(options.seed, SIZES).items():
        write_lines(options.out / f"{split}.links", [sentence.links for sentence in sentences])
        write_lines(options.out / f"{split}.en", [sentence.en for sentence in sentences])
        write_lines(options.out / f"{split}.de", [sentence.de for sentence in sentences])


if __name__ == "__main__":
    main()
