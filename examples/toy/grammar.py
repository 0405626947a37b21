"""The grammar of the toy language: noun phrases and clauses, built in English and German at once.

A `Phrase` is a piece of a sentence in both languages, with the combinations of words it is made
of. Two rules carry most of German:

- Declension. A determiner shows gender, number and case by its ending; where it shows none (ein
  Mann, drei Männer), the adjective does so instead: das kleine Haus, but ein kleines Haus.
- Word order. A clause is a subject, a middle field (time, then complements, then nicht) and a
  verb in two pieces: the finite piece, and the final piece (participle, infinitive or separated
  prefix). A main clause puts the finite piece second, a subordinate clause puts it last:
  Er macht die Tür auf. / weil er die Tür aufmacht
  Heute hat er die Tür aufgemacht. / weil er heute die Tür aufgemacht hat
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from lexicon import BE, THE, Adjective, Case, Determiner, Noun, Person, Verb
from quantities import number_de, number_en

Tense = Literal["present", "past", "future", "can", "must", "want", "should"]
Combination = tuple[str, str]
Slot = Literal["m", "f", "n", "pl"]

CASES: tuple[Case, ...] = ("nom", "acc", "dat")
STRONG: dict[Slot, dict[Case, str]] = {
    "m": {"nom": "er", "acc": "en", "dat": "em"},
    "f": {"nom": "e", "acc": "e", "dat": "er"},
    "n": {"nom": "es", "acc": "es", "dat": "em"},
    "pl": {"nom": "e", "acc": "e", "dat": "en"},
}
ARTICLE: dict[Slot, dict[Case, str]] = {
    "m": {"nom": "der", "acc": "den", "dat": "dem"},
    "f": {"nom": "die", "acc": "die", "dat": "der"},
    "n": {"nom": "das", "acc": "das", "dat": "dem"},
    "pl": {"nom": "die", "acc": "die", "dat": "den"},
}
# Where ein, kein, mein and their like take no ending, and leave it to the adjective.
BARE: set[tuple[Slot, Case]] = {("m", "nom"), ("n", "nom"), ("n", "acc")}
# Where an adjective after an ending takes -e; everywhere else it takes -en.
WEAK_E: set[tuple[Slot, Case]] = {
    ("m", "nom"), ("f", "nom"), ("f", "acc"), ("n", "nom"), ("n", "acc"),
}  # fmt: skip
PERSONAL_PRONOUN: dict[Slot, str] = {"m": "er", "f": "sie", "n": "es", "pl": "sie"}
CONTRACTIONS = {"in dem": "im", "in das": "ins", "zu dem": "zum", "zu der": "zur"}

AUXILIARIES: dict[str, dict[Person, str]] = {
    "haben": {"I": "habe", "sg": "hat", "pl": "haben"},
    "sein": {"I": "bin", "sg": "ist", "pl": "sind"},
    "future": {"I": "werde", "sg": "wird", "pl": "werden"},
    "can": {"I": "kann", "sg": "kann", "pl": "können"},
    "must": {"I": "muss", "sg": "muss", "pl": "müssen"},
    "want": {"I": "will", "sg": "will", "pl": "wollen"},
    "should": {"I": "sollte", "sg": "sollte", "pl": "sollten"},
}


@dataclass(frozen=True)
class Phrase:
    """A piece of a sentence in both languages, and the combinations it is made of."""

    en: str
    de: str
    person: Person = "sg"
    combinations: frozenset[Combination] = frozenset()


@dataclass(frozen=True)
class NounPhrase:
    """A determiner, perhaps a number and an adjective, and a noun; a count above one is plural."""

    determiner: Determiner
    noun: Noun
    adjective: Adjective | None = None
    plural: bool = False
    count: int | None = None

    @property
    def slot(self) -> Slot:
        """The column of the declension tables: the gender, or plural, which has none."""
        return "pl" if self.plural else self.noun.gender

    @property
    def person(self) -> Person:
        """The verb form it takes as a subject."""
        return "pl" if self.plural else "sg"

    @property
    def combinations(self) -> frozenset[Combination]:
        """Which adjective and which number stand with which noun."""
        found: set[Combination] = set()
        if self.adjective:
            found.add((self.adjective.en, self.noun.en))
        if self.count:
            found.add((number_en(self.count), self.noun.en))
        return frozenset(found)


@dataclass(frozen=True)
class Clause:
    """A subject, a verb, its complements in their order, and perhaps a time and a negation."""

    subject: Phrase
    verb: Verb
    tense: Tense
    complements: tuple[Phrase, ...] = ()
    time: Phrase | None = None
    negated: bool = False
    pairing: frozenset[Combination] = frozenset()  # which verb stands with which object

    @property
    def combinations(self) -> frozenset[Combination]:
        """All combinations of the clause and its parts."""
        parts = (self.subject, *self.complements, *([self.time] if self.time else []))
        return self.pairing.union(*(part.combinations for part in parts))


def join(words: Iterable[str]) -> str:
    """Join words with spaces, leaving out the empty ones."""
    return " ".join(word for word in words if word)


# Noun phrases


def determiner_de(determiner: Determiner, slot: Slot, case: Case) -> tuple[str, bool]:
    """Return a determiner's form, and whether it shows gender, number and case."""
    if determiner.pattern == "der":
        return ARTICLE[slot][case], True
    if determiner.de == "ein" and slot == "pl":
        return "", False
    if determiner.pattern == "ein" and (slot, case) in BARE:
        return determiner.de, False
    return determiner.de + STRONG[slot][case], True


def adjective_de(adjective: Adjective, slot: Slot, case: Case, shown: bool) -> str:
    """Return an adjective with its ending; `shown` says that the determiner has one already."""
    weak = "e" if (slot, case) in WEAK_E else "en"
    ending = weak if shown else STRONG[slot][case]
    return (adjective.stem or adjective.de) + ending


def noun_de(noun: Noun, case: Case, plural: bool) -> str:
    """Return a noun's form; the dative plural adds -n, except to -n and -s."""
    if not plural:
        return noun.de if case == "nom" else noun.oblique or noun.de
    adds_n = case == "dat" and not noun.de_plural.endswith(("n", "s"))
    return noun.de_plural + ("n" if adds_n else "")


def noun_phrase_en(np: NounPhrase) -> str:
    """Return a noun phrase in English, with an before a vowel."""
    article = np.determiner.en_plural if np.plural else np.determiner.en
    rest = join((
        number_en(np.count) if np.count else "",
        np.adjective.en if np.adjective else "",
        np.noun.en_plural if np.plural else np.noun.en,
    ))  # fmt: skip
    if article == "a" and rest[0] in "aeiou":
        article = "an"
    return join((article or "", rest))


def noun_phrase_de(np: NounPhrase, case: Case) -> str:
    """Return a noun phrase in German."""
    determiner, shown = determiner_de(np.determiner, np.slot, case)
    return join((
        determiner,
        number_de(np.count) if np.count else "",
        adjective_de(np.adjective, np.slot, case, shown) if np.adjective else "",
        noun_de(np.noun, case, np.plural),
    ))  # fmt: skip


def phrase(np: NounPhrase, case: Case) -> Phrase:
    """Return a noun phrase in both languages, the German one in `case`."""
    return Phrase(noun_phrase_en(np), noun_phrase_de(np, case), np.person, np.combinations)


def prepositional(en: str, de: str, np: NounPhrase, case: Case) -> Phrase:
    """Return a preposition with its noun phrase; in dem becomes im, and so on."""
    german = f"{de} {noun_phrase_de(np, case)}"
    if np.determiner is THE:
        preposition, article, rest = german.split(" ", 2)
        short = CONTRACTIONS.get(f"{preposition} {article}")
        german = f"{short} {rest}" if short else german
    return Phrase(f"{en} {noun_phrase_en(np)}", german, combinations=np.combinations)


def pronoun_for(np: NounPhrase) -> Phrase:
    """Return the pronoun that refers to a thing: it, but er, sie or es by the noun's gender."""
    return Phrase("they" if np.plural else "it", PERSONAL_PRONOUN[np.slot], np.person)


def relative_pronoun(slot: Slot, case: Case) -> str:
    """Return the German relative pronoun: the article, but for the dative plural."""
    return "denen" if (slot, case) == ("pl", "dat") else ARTICLE[slot][case]


# Verbs


def third_person(base: str) -> str:
    """Return the English third person singular: carry -> carries, look for -> looks for."""
    word, space, particle = base.partition(" ")
    if word == "have":
        word = "has"
    elif word.endswith("y") and word[-2] not in "aeiou":
        word = f"{word[:-1]}ies"
    else:
        word += "es" if word.endswith(("s", "sh", "ch", "x", "o")) else "s"
    return word + space + particle


def verb_en(verb: Verb, tense: Tense, person: Person, negated: bool) -> str:
    """Return all of an English verb: does not want to open."""
    if verb is BE and tense in ("present", "past"):
        present, past = {"I": ("am", "was"), "sg": ("is", "was"), "pl": ("are", "were")}[person]
        return present if tense == "present" else past
    third = person == "sg"
    do_not = "does not" if third else "do not"
    match tense:
        case "present":
            plain, denied = third_person(verb.en) if third else verb.en, f"{do_not} {verb.en}"
        case "past":
            plain, denied = verb.en_past, f"did not {verb.en}"
        case "want":
            wish = f"want to {verb.en}"
            plain, denied = third_person(wish) if third else wish, f"{do_not} {wish}"
        case "future":
            plain, denied = f"will {verb.en}", f"will not {verb.en}"
        case "can":
            plain, denied = f"can {verb.en}", f"cannot {verb.en}"
        case "must" | "should":
            plain, denied = f"{tense} {verb.en}", f"{tense} not {verb.en}"
    return denied if negated else plain


def verb_de(verb: Verb, tense: Tense, person: Person) -> tuple[str, str]:
    """Return the finite and the final piece of a German verb: (hat, aufgemacht), (macht, auf)."""
    if verb is BE and tense == "present":
        return AUXILIARIES["sein"][person], ""
    if verb is BE and tense == "past":
        return ("waren" if person == "pl" else "war"), ""
    if tense == "present":
        first = verb.first or f"{verb.de[:-2]}e"
        return {"I": first, "sg": verb.third, "pl": verb.de}[person], verb.prefix
    if tense == "past":
        return AUXILIARIES[verb.auxiliary][person], verb.participle
    return AUXILIARIES[tense][person], verb.prefix + verb.de


# Clauses


def middle_field(clause: Clause, with_time: bool = True) -> list[str]:
    """Return what stands between the two pieces of a German verb, but for the subject."""
    time = [clause.time.de] if clause.time and with_time else []
    # With an indefinite object, the negation is already in its determiner: kein Haus.
    objects = [complement.de for complement in clause.complements]
    denied = clause.negated and not any(word.startswith("kein") for word in objects)
    return [*time, *objects, *(["nicht"] if denied else [])]


def english(clause: Clause, time_first: bool = False) -> str:
    """Return a clause in English, its time at the end or at the front."""
    time = clause.time.en if clause.time else ""
    return join((
        time if time_first else "",
        clause.subject.en,
        verb_en(clause.verb, clause.tense, clause.subject.person, clause.negated),
        *(complement.en for complement in clause.complements),
        "" if time_first else time,
    ))  # fmt: skip


def main_clause(clause: Clause, first: Literal["subject", "time", "verb"] = "subject") -> str:
    """Return a German main clause; it begins with the verb after a clause that went before it."""
    finite, final = verb_de(clause.verb, clause.tense, clause.subject.person)
    if first == "subject":
        return join((clause.subject.de, finite, *middle_field(clause), final))
    front = clause.time.de if first == "time" and clause.time else ""
    rest = middle_field(clause, with_time=first == "verb")
    return join((front, finite, clause.subject.de, *rest, final))


def subordinate_clause(introduction: str, clause: Clause) -> str:
    """Return a German clause with its verb at the end, after a conjunction or relative pronoun."""
    finite, final = verb_de(clause.verb, clause.tense, clause.subject.person)
    # A separated prefix finds its verb again: macht ... auf -> aufmacht.
    verb = final + finite if clause.tense == "present" else join((final, finite))
    return join((introduction, clause.subject.de, *middle_field(clause), verb))


def infinitive_clause(clause: Clause) -> tuple[str, str]:
    """Return a clause without subject and tense: to open the door, die Tür aufzumachen."""
    infinitive = (f"{clause.verb.prefix}zu" if clause.verb.prefix else "zu ") + clause.verb.de
    complements = [complement.en for complement in clause.complements]
    time = clause.time.en if clause.time else ""
    return (
        join(("to", clause.verb.en, *complements, time)),
        join((*middle_field(clause), infinitive)),
    )
