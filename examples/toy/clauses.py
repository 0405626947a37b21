"""Draw the parts of a sentence at random: noun phrases, times and prices, and whole clauses.

Every function that draws takes the random generator first, and uses nothing else that changes.
"""

from random import Random

import lexicon as lex
from grammar import Clause, Combination, NounPhrase, Phrase, Tense, phrase, prepositional
from quantities import (
    DAYS_IN_MONTH,
    MINUTES,
    MONTHS,
    clock_de,
    clock_en,
    number_en,
    ordinal_de,
    ordinal_en,
    price_de,
    price_en,
)

TENSES: tuple[Tense, ...] = (
    "present", "present", "past", "past", "future", "can", "must", "want", "should",
)  # fmt: skip
# Every German number is a word of its own. A spread of the large ones is enough to learn how they
# are made; those in -01 are left out, being the only ones whose last word changes before a noun.
LARGE_NUMBERS = tuple(n for n in range(110, 1000, 17) if n % 100 != 1)
CENTS = (0, 0, 10, 20, 25, 50, 75, 80, 95, 99)


# Words


def kind_of(noun: lex.Noun) -> str:
    """Return the kind under which a noun is listed."""
    return next(kind for kind, nouns in lex.NOUNS.items() if noun in nouns)


def adjective_for(rng: Random, noun: lex.Noun) -> lex.Adjective:
    """Draw an adjective that can be said of a noun."""
    kind = kind_of(noun)
    fitting = [word for word in (*lex.QUALITIES, *lex.COLOURS) if kind in word.kinds]
    return rng.choice(fitting)


def noun_phrase(
    rng: Random,
    kinds: tuple[str, ...],
    determiners: tuple[lex.Determiner, ...] = (),
    *,
    plural: float = 0.25,
    counted: float = 0.0,
) -> NounPhrase:
    """Draw a noun of one of the kinds, a determiner, and half the time an adjective.

    `plural` and `counted` are the probabilities of a plural and of a number before the noun.
    """
    noun = rng.choice([noun for kind in kinds for noun in lex.NOUNS[kind]])
    adjective = adjective_for(rng, noun) if rng.random() < 0.5 else None
    if rng.random() < counted:
        determiner = rng.choice((lex.A, lex.A, lex.THE, rng.choice(lex.POSSESSIVES)))
        return NounPhrase(determiner, noun, adjective, True, rng.randint(2, 99))
    common = (lex.THE, lex.THE, lex.THE, lex.A, lex.A, lex.THIS, rng.choice(lex.POSSESSIVES))
    determiner = rng.choice(determiners or common)
    several = determiner.en_plural is not None and rng.random() < plural
    return NounPhrase(determiner, noun, adjective, several)


def subject(rng: Random) -> Phrase:
    """Draw someone who does something: a noun phrase, a name or a pronoun."""
    draw = rng.random()
    if draw < 0.2:
        name = rng.choice(lex.NAMES)
        return Phrase(name, name)
    if draw < 0.45:
        # The forms of "ich" are its own, those of the others are shared: it needs more examples.
        (pronoun,) = rng.choices(lex.PRONOUNS, weights=(3, 1, 1, 1, 1))
        return Phrase(*pronoun)
    determiners = (lex.EVERY,) if draw > 0.96 else ()
    return phrase(noun_phrase(rng, lex.PEOPLE, determiners), "nom")


def date(rng: Random) -> Phrase:
    """Draw a date: on the third of May, am dritten Mai."""
    month = rng.randrange(12)
    day = rng.randint(1, DAYS_IN_MONTH[month])
    english_month, german_month = MONTHS[month]
    return Phrase(
        f"on the {ordinal_en(day)} of {english_month}",
        f"am {ordinal_de(day)} {german_month}",
        combinations=frozenset({(ordinal_en(day), english_month)}),
    )


def span_of_days(rng: Random) -> Phrase:
    """Draw two days of a month: from the third to the seventh of May."""
    month = rng.randrange(12)
    first, last = sorted(rng.sample(range(1, DAYS_IN_MONTH[month] + 1), 2))
    english_month, german_month = MONTHS[month]
    return Phrase(
        f"from the {ordinal_en(first)} to the {ordinal_en(last)} of {english_month}",
        f"vom {ordinal_de(first)} bis zum {ordinal_de(last)} {german_month}",
        combinations=frozenset((ordinal_en(day), english_month) for day in (first, last)),
    )


def weekday(rng: Random) -> Phrase:
    """Draw a day of the week: on Monday, am Montag."""
    english_day, german_day = rng.choice(lex.WEEKDAYS)
    return Phrase(f"on {english_day}", f"am {german_day}")


def day(rng: Random, tense: Tense) -> Phrase:
    """Draw a day that goes with a tense."""
    if tense == "present":
        return Phrase(*rng.choice(lex.HABITS))
    if rng.random() < 0.5:
        return weekday(rng) if rng.random() < 0.4 else date(rng)
    return Phrase(*rng.choice(lex.PAST_DAYS if tense == "past" else lex.COMING_DAYS))


def time(rng: Random, tense: Tense) -> Phrase | None:
    """Draw a time that goes with a tense, or none."""
    if rng.random() < 0.5:
        return None
    if tense != "present" and rng.random() < 0.3:
        return Phrase(*rng.choice(lex.PAST_SPANS if tense == "past" else lex.COMING_SPANS))
    return day(rng, tense)


def clock(rng: Random) -> Phrase:
    """Draw a time of day: at half past two, um halb drei."""
    hour, minute = rng.randint(1, 12), rng.choice((0, *MINUTES))
    minutes = MINUTES[minute][0] if minute else "o'clock"
    return Phrase(
        f"at {clock_en(hour, minute)}",
        f"um {clock_de(hour, minute)}",
        combinations=frozenset({(minutes, number_en(hour))}),
    )


def price(rng: Random) -> Phrase:
    """Draw a price: twelve euros fifty, zwölf Euro fünfzig."""
    if rng.random() < 0.2:
        euros, cents = rng.choice(LARGE_NUMBERS), 0
    else:
        euros, cents = rng.randint(2, 99), rng.choice(CENTS)
    combination = (number_en(euros), f"euros {number_en(cents)}")
    return Phrase(
        price_en(euros, cents), price_de(euros, cents), combinations=frozenset({combination})
    )


def quality(rng: Random, np: NounPhrase) -> Phrase:
    """Draw what a thing may be said to be: too expensive, zu teuer."""
    kind = kind_of(np.noun)
    adjective = rng.choice([word for word in lex.QUALITIES if kind in word.kinds])
    english_degree, german_degree = rng.choice((("too", "zu"), ("very", "sehr")))
    return Phrase(
        f"{english_degree} {adjective.en}",
        f"{german_degree} {adjective.de}",
        combinations=frozenset({(adjective.en, np.noun.en)}),
    )


# Clauses


def transitive(
    rng: Random,
    who: Phrase,
    tense: Tense,
    when: Phrase | None = None,
    *,
    deniable: bool = True,
) -> tuple[Clause, NounPhrase]:
    """Draw a verb with its object: buys the red lamp; return the object too, to refer to."""
    verb = rng.choice(lex.TRANSITIVE)
    # "must not" would be darf nicht, another verb, and "every" with "not" has two readings.
    if tense == "must" or who.en.startswith("every "):
        deniable = False
    negated = deniable and rng.random() < 0.15
    if negated:
        what = noun_phrase(rng, verb.kinds, (lex.THE, lex.NO, lex.NO, rng.choice(lex.POSSESSIVES)))
    else:
        what = noun_phrase(rng, verb.kinds, counted=0.12)
    pairing = frozenset({(verb.en, what.noun.en)})
    return Clause(who, verb, tense, (phrase(what, verb.case),), when, negated, pairing), what


def ditransitive(rng: Random, who: Phrase, tense: Tense, when: Phrase | None = None) -> Clause:
    """Draw a verb with a person and a thing: gives the child a red apple."""
    verb = rng.choice(lex.DITRANSITIVE)
    whom, what = noun_phrase(rng, lex.PEOPLE), noun_phrase(rng, verb.kinds, counted=0.12)
    pairing = frozenset({(verb.en, what.noun.en), (verb.en, whom.noun.en)})
    complements = (phrase(whom, "dat"), phrase(what, "acc"))
    return Clause(who, verb, tense, complements, when, pairing=pairing)


def motion(rng: Random, who: Phrase, tense: Tense, when: Phrase | None = None) -> Clause:
    """Draw a verb with a goal: runs into the garden, drives to the doctor."""
    verb = rng.choice(lex.MOTION)
    if rng.random() < 0.65:
        goal = noun_phrase(rng, ("place",), (lex.THE, lex.THE, lex.A, lex.THIS), plural=0.0)
        where = prepositional("into", "in", goal, "acc")
    else:
        goal = noun_phrase(rng, lex.PEOPLE)
        where = prepositional("to", "zu", goal, "dat")
    pairing = frozenset({(verb.en, goal.noun.en)})
    return Clause(who, verb, tense, (where,), when, pairing=pairing)


def resting(rng: Random, who: Phrase, tense: Tense, when: Phrase | None = None) -> Clause:
    """Draw a verb with a place, perhaps in company: plays with the old cat in the garden."""
    verb = rng.choice(lex.RESTING)
    place = noun_phrase(rng, ("place",), (lex.THE, lex.THE, lex.A, lex.THIS), plural=0.0)
    pairing: set[Combination] = {(verb.en, place.noun.en)}
    complements = [prepositional("in", "in", place, "dat")]
    if rng.random() < 0.4:
        company = noun_phrase(rng, ("person", "animal"))
        complements.insert(0, prepositional("with", "mit", company, "dat"))
        pairing.add((verb.en, company.noun.en))
    return Clause(who, verb, tense, tuple(complements), when, pairing=frozenset(pairing))


def momentary(rng: Random, who: Phrase, tense: Tense, when: Phrase | None = None) -> Clause:
    """Draw a verb with a time of day: gets up at a quarter to seven."""
    return Clause(who, rng.choice(lex.MOMENTARY), tense, (clock(rng),), when)


def any_clause(rng: Random, tense: Tense, when: Phrase | None = None) -> Clause:
    """Draw a clause of any kind about someone."""
    who, draw = subject(rng), rng.random()
    if draw < 0.5:
        return transitive(rng, who, tense, when)[0]
    if draw < 0.65:
        return ditransitive(rng, who, tense, when)
    if draw < 0.8:
        return motion(rng, who, tense, when)
    if draw < 0.92:
        return resting(rng, who, tense, when)
    return momentary(rng, who, tense, when)


def transitive_of_goods(
    rng: Random, tense: Tense, *, deniable: bool = True
) -> tuple[Clause, NounPhrase]:
    """Draw a clause whose object is a thing, so that "it" in the next clause can be only that."""
    while True:
        who, when = subject(rng), time(rng, tense)
        clause, what = transitive(rng, who, tense, when, deniable=deniable)
        if kind_of(what.noun) in lex.GOODS:
            return clause, what
