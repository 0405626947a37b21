"""The sentences of the toy language: templates that draw words and put them into clauses.

Each template takes a random generator and returns a sentence as a `Phrase`: both languages and
every combination of words it holds. `TEMPLATES` lists them with their weights.
"""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import NamedTuple

import lexicon as lex
from clauses import (
    LARGE_NUMBERS,
    TENSES,
    adjective_for,
    any_clause,
    clock,
    day,
    ditransitive,
    momentary,
    motion,
    noun_phrase,
    price,
    quality,
    resting,
    span_of_days,
    subject,
    time,
    transitive,
    transitive_of_goods,
)
from grammar import (
    Clause,
    Combination,
    NounPhrase,
    Phrase,
    Tense,
    english,
    infinitive_clause,
    main_clause,
    noun_phrase_en,
    phrase,
    prepositional,
    pronoun_for,
    relative_pronoun,
    subordinate_clause,
)
from quantities import number_de, number_en

# What contains how many of what: the book has two hundred and twelve pages.
CONTENTS = (("book", "page"), ("village", "house"), ("hotel", "room"), ("school", "student"))


class Template(NamedTuple):
    """A way to make a sentence, and how often it is taken."""

    weight: int
    make: Callable[[Random], Phrase]


def sentence(en: str, de: str, *parts: Clause | Phrase) -> Phrase:
    """Return both languages with a capital and a full stop, and the combinations of the parts."""
    combinations: frozenset[Combination] = frozenset()
    return Phrase(
        f"{en[0].upper()}{en[1:]}.",
        f"{de[0].upper()}{de[1:]}.",
        combinations=combinations.union(*(part.combinations for part in parts)),
    )


def statement(rng: Random, clause: Clause) -> Phrase:
    """Return a clause as a sentence; a time goes to the front half the time."""
    time_first = clause.time is not None and rng.random() < 0.5
    german = main_clause(clause, "time" if time_first else "subject")
    return sentence(english(clause, time_first), german, clause)


def simple(rng: Random) -> Phrase:
    """Today the old man buys a lamp."""
    tense = rng.choice(TENSES)
    return statement(rng, any_clause(rng, tense, time(rng, tense)))


def timetable(rng: Random) -> Phrase:
    """On the third of May the journey will begin at half past seven."""
    if rng.random() < 0.5:
        what, verb = noun_phrase(rng, ("event",), plural=0.0), lex.BEGIN
    else:
        what = noun_phrase(rng, ("transport",), plural=0.0)
        verb = rng.choice((lex.LEAVE, lex.ARRIVE))
    tense: Tense = rng.choice(("present", "past", "future"))
    pairing = frozenset({(verb.en, what.noun.en)})
    clause = Clause(
        phrase(what, "nom"), verb, tense, (clock(rng),), day(rng, tense), pairing=pairing
    )
    return statement(rng, clause)


def duration(rng: Random) -> Phrase:
    """The course lasts from the third to the seventh of May."""
    what = phrase(noun_phrase(rng, ("event",), plural=0.0), "nom")
    tense: Tense = rng.choice(("present", "past", "future"))
    return statement(rng, Clause(what, lex.LAST, tense, (span_of_days(rng),)))


def costing(rng: Random) -> Phrase:
    """The red lamp costs twelve euros fifty."""
    what = phrase(noun_phrase(rng, lex.GOODS, plural=0.3), "nom")
    return statement(rng, Clause(what, lex.COST, "present", (price(rng),)))


def paying(rng: Random) -> Phrase:
    """Anna paid twelve euros fifty for the red lamp."""
    tense: Tense = rng.choice(("present", "past", "past", "future", "must"))
    what = prepositional("for", "für", noun_phrase(rng, lex.GOODS), "acc")
    clause = Clause(subject(rng), lex.PAY, tense, (price(rng), what), time(rng, tense))
    return statement(rng, clause)


def dear(rng: Random) -> Phrase:
    """Peter needs a lamp, but it costs twelve euros fifty."""
    main, what = transitive_of_goods(rng, rng.choice(("present", "want")), deniable=False)
    cost = Clause(pronoun_for(what), lex.COST, "present", (price(rng),))
    return sentence(
        f"{english(main)}, but {english(cost)}",
        f"{main_clause(main)}, aber {main_clause(cost)}",
        main,
        cost,
    )


def reason(rng: Random) -> Phrase:
    """Peter sold the lamp because it was too expensive."""
    main, what = transitive_of_goods(rng, rng.choice(("past", "past", "past", *TENSES)))
    tense: Tense = "past" if main.tense == "past" else "present"
    why = Clause(pronoun_for(what), lex.BE, tense, (quality(rng, what),))
    return sentence(
        f"{english(main)} because {english(why)}",
        f"{main_clause(main)}, {subordinate_clause('weil', why)}",
        main,
        why,
    )


def holding(rng: Random) -> Phrase:
    """This book has two hundred and twelve pages."""
    holder, content = rng.choice(CONTENTS)
    determiner = rng.choice((lex.THE, lex.THIS, rng.choice(lex.POSSESSIVES)))
    noun = lex.NOUN_OF[holder]
    what = NounPhrase(determiner, noun, adjective_for(rng, noun) if rng.random() < 0.6 else None)
    number = rng.choice(LARGE_NUMBERS)
    many = NounPhrase(lex.A, lex.NOUN_OF[content], plural=True, count=number)
    return statement(rng, Clause(phrase(what, "nom"), lex.HAVE, "present", (phrase(many, "acc"),)))


def age(rng: Random) -> Phrase:
    """The friendly teacher is thirty-four years old."""
    who, number = noun_phrase(rng, ("person", "animal"), plural=0.2), rng.randint(2, 99)
    years = Phrase(
        f"{number_en(number)} years old",
        f"{number_de(number)} Jahre alt",
        combinations=frozenset({(number_en(number), f"years {who.noun.en}")}),
    )
    return statement(rng, Clause(phrase(who, "nom"), lex.BE, "present", (years,)))


def two_clauses(rng: Random) -> tuple[str, str, Clause, Clause]:
    """Draw a conjunction in both languages, a main clause and a subordinate one."""
    conjunction = rng.choice(lex.CONJUNCTIONS)
    tense: Tense = rng.choice(("present", "past"))
    main_tense = tense
    if conjunction == ("if", "wenn"):
        tense, main_tense = "present", rng.choice(("present", "future", "can", "must", "should"))
    return *conjunction, any_clause(rng, main_tense, time(rng, main_tense)), any_clause(rng, tense)


def subordinate(rng: Random) -> Phrase:
    """Peter sells the car because Anna needs a bicycle."""
    conjunction_en, conjunction_de, main, sub = two_clauses(rng)
    return sentence(
        f"{english(main, main.time is not None)} {conjunction_en} {english(sub)}",
        f"{main_clause(main, 'time' if main.time else 'subject')}, "
        f"{subordinate_clause(conjunction_de, sub)}",
        main,
        sub,
    )


def fronted(rng: Random) -> Phrase:
    """If Anna needs a bicycle, Peter will sell the car."""
    conjunction_en, conjunction_de, main, sub = two_clauses(rng)
    return sentence(
        f"{conjunction_en} {english(sub)}, {english(main)}",
        f"{subordinate_clause(conjunction_de, sub)}, {main_clause(main, 'verb')}",
        main,
        sub,
    )


def saying(rng: Random) -> Phrase:
    """Peter hopes that Anna will open the door tomorrow."""
    main = Clause(subject(rng), rng.choice(lex.SAYING), "present")
    tense = rng.choice(TENSES)
    sub = any_clause(rng, tense, time(rng, tense))
    return sentence(
        f"{english(main)} that {english(sub)}",
        f"{main_clause(main)}, {subordinate_clause('dass', sub)}",
        main,
        sub,
    )


def intending(rng: Random) -> Phrase:
    """The boy forgot to close the window."""
    tense: Tense = rng.choice(("present", "past"))
    main = Clause(subject(rng), rng.choice(lex.INTENDING), tense)
    nobody = Phrase("", "")
    if rng.random() < 0.7:
        what, _ = transitive(rng, nobody, tense, deniable=False)
    else:
        what = rng.choice((ditransitive, motion, momentary))(rng, nobody, tense)
    infinitive_en, infinitive_de = infinitive_clause(what)
    return sentence(
        f"{english(main)} {infinitive_en}", f"{main_clause(main)}, {infinitive_de}", main, what
    )


def coordinate(rng: Random) -> Phrase:
    """Peter sold the car, but Anna bought a bicycle."""
    tense = rng.choice(TENSES)
    first, second = any_clause(rng, tense), any_clause(rng, tense)
    conjunction_en, conjunction_de = rng.choice(((", and", " und"), (", but", ", aber")))
    return sentence(
        f"{english(first)}{conjunction_en} {english(second)}",
        f"{main_clause(first)}{conjunction_de} {main_clause(second)}",
        first,
        second,
    )


def relative_subject(rng: Random) -> Phrase:
    """The woman who bought the house works in the city."""
    who = noun_phrase(rng, lex.PEOPLE, (lex.THE, lex.THE, lex.A, lex.THIS))
    head = phrase(who, "nom")
    tense: Tense = rng.choice(("present", "past"))
    pronoun = Phrase("who", relative_pronoun(who.slot, "nom"), who.person)
    relative, _ = transitive(rng, pronoun, tense)
    whole = Phrase(
        f"{head.en} {english(relative)}",
        f"{head.de}, {subordinate_clause('', relative)},",
        who.person,
        head.combinations | relative.combinations,
    )
    return statement(rng, rng.choice((motion, resting, momentary))(rng, whole, "present"))


def relative_object(rng: Random) -> Phrase:
    """The table that Peter bought yesterday is too small."""
    tense: Tense = rng.choice(("present", "past", "past"))
    clause, what = transitive_of_goods(rng, tense, deniable=False)
    relative = replace(clause, complements=())
    head = phrase(what, "nom")
    german = subordinate_clause(relative_pronoun(what.slot, clause.verb.case), relative)
    whole = Phrase(
        f"{noun_phrase_en(what)} that {english(relative)}",
        f"{head.de}, {german},",
        what.person,
        head.combinations | relative.combinations,
    )
    if rng.random() < 0.6:
        return statement(rng, Clause(whole, lex.BE, "present", (quality(rng, what),)))
    return statement(rng, Clause(whole, lex.COST, "present", (price(rng),)))


TEMPLATES = (
    Template(20, simple),
    Template(8, timetable),
    Template(4, duration),
    Template(5, costing),
    Template(5, paying),
    Template(5, dear),
    Template(7, reason),
    Template(4, holding),
    Template(4, age),
    Template(9, subordinate),
    Template(9, fronted),
    Template(9, saying),
    Template(8, intending),
    Template(6, coordinate),
    Template(7, relative_subject),
    Template(7, relative_object),
)


def draw(rng: Random) -> Phrase:
    """Draw a sentence."""
    (template,) = rng.choices(TEMPLATES, weights=[template.weight for template in TEMPLATES])
    return template.make(rng)
