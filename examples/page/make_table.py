#!/usr/bin/env python3
"""Write a table of English and Velu, a made-up language, as Excel saves one, and a test.

Velu is agglutinative: endings stand for most small words of English. The verb is last, and a
question ends with `ka`. Subjects that are pronouns are left out, since the verb's ending shows
them. Adjectives follow their noun, and end in -o for what lives and in -u for things. A vowel of an
ending is a or e, as the last one of its word is dark (a, o, u) or bright (e, i). Each English
sentence has exactly one translation.

CRC-32 of "VERB OBJECT", the two English words, modulo 16 says whether a sentence is for the test
(0), so its verb never has that object in the table.
"""

import argparse
import csv
import sys
from pathlib import Path
from random import Random
from typing import NamedTuple
from zlib import crc32

SIZES = {"table": 6_000, "test": 300}
FORMS = {  # separator, encoding and suffix of what Excel's "Save as" offers
    "comma": (",", "utf-8-sig", ".csv"),  # CSV UTF-8
    "semicolon": (";", "utf-8-sig", ".csv"),  # the same, in countries that write 0,5
    "unicode": ("\t", "utf-16", ".txt"),  # Unicode Text
}


class Noun(NamedTuple):
    """A noun; `lives` decides its adjectives, their ending, and the verbs that take it."""

    en: str
    plural: str
    velu: str
    lives: bool


def words(text: str) -> list[list[str]]:
    """Return the words of each row of a list."""
    return [row.split() for row in text.split(",")]


LIVING = words(
    "woman women sela, man men toru, child children pim, friend friends naro, dog dogs dag, cat"
    " cats miru, horse horses kavol, bird birds tif, teacher teachers lomen, king kings rud"
)
THINGS = words(
    "house houses kol, river rivers vesi, garden gardens palo, tree trees hin, boat boats sudo,"
    " book books lek, letter letters fini, apple apples oma, lamp lamps lusi, forest forests gat,"
    " stone stones brun, knife knives teki, song songs meli, door doors porta"
)
NOUNS = [
    Noun(en, plural, velu, lives)
    for lives, rows in ((True, LIVING), (False, THINGS))
    for en, plural, velu in rows
]
PLACES = [
    noun for noun in NOUNS if noun.en in ("house", "river", "garden", "tree", "boat", "forest")
]
ADJECTIVES = {  # of what lives, and of things
    True: words(
        "old van, small pik, big gro, good bon, strange fremi, young juv, wise sof, shy tim"
    ),
    False: words("old van, small pik, big gro, good bon, new nel, heavy dur, red ruz, white alb"),
}
# Stem, third person and past of English; those of the second list only take things.
VERBS = words(
    "see sees saw kat, find finds found mer, love loves loved ama, paint paints painted pint, draw"
    " draws drew rit, forget forgets forgot lete, remember remembers remembered mem, look_for"
    " looks_for looked_for seku"
)
VERBS_OF_THINGS = words(
    "buy buys bought os, sell sells sold venu, want wants wanted vol, bring brings brought tuo,"
    " touch touches touched tan, describe describes described dir"
)
OWNERS = {"my": "mi", "your": "ti", "our": "nu"}
PERSONS = {"I": "m", "you": "t", "she": "", "he": "", "we": "me", "they": "r"}
TIMES = {"present": ("today", "odi"), "past": ("yesterday", "ere"), "future": ("tomorrow", "mane")}
PREPOSITIONS = {"in": "ssa", "near": "lla"}


class Phrase(NamedTuple):
    """A noun with what belongs to it; `velu` takes the ending of its case."""

    en: str
    velu: str
    rest: str  # words of Velu after the noun
    noun: Noun
    plural: bool


def is_dark(word: str) -> bool:
    """Tell by its last vowel what vowels a word's endings have."""
    return max(map(word.rfind, "aou")) > max(map(word.rfind, "ei"))


def add(word: str, ending: str) -> str:
    """Add an ending: its a is e in a bright word, and a vowel parts it from a consonant."""
    if not ending:
        return word
    vowel = "a" if is_dark(word) else "e"
    if word[-1] not in "aeiou" and (len(ending) == 1 or ending[:2] in ("ss", "ll")):
        word += vowel
    return word + (ending.replace("a", "e") if vowel == "e" else ending.replace("e", "a"))


def draw_phrase(draw: Random, nouns: list[Noun]) -> Phrase:
    """Draw a noun with its determiner and perhaps an adjective: my old dogs, dagarimi vanor."""
    noun, plural = draw.choice(nouns), draw.random() < 0.3
    determiner = draw.choice(("the", "the", "the", "a", "this", *OWNERS))
    adjective = draw.choice(ADJECTIVES[noun.lives]) if draw.random() < 0.4 else None
    velu = add(noun.velu, "r") if plural else noun.velu
    rest = []
    if adjective:
        rest.append(adjective[1] + ("o" if noun.lives else "u") + ("r" if plural else ""))
    if determiner in OWNERS:
        velu = velu + ("i" if plural else "") + OWNERS[determiner]
    elif determiner == "this":
        rest.append("kir" if plural else "ki")
    elif determiner == "a" and not plural:
        rest.append("un")
    en = noun.plural if plural else noun.en
    if adjective:
        en = f"{adjective[0]} {en}"
    if determiner == "a":
        determiner = "some" if plural else "an" if en[0] in "aeiou" else "a"
        if plural:
            rest.append("per")
    elif determiner == "this" and plural:
        determiner = "these"
    return Phrase(f"{determiner} {en}", velu, " ".join(rest), noun, plural)


def draw_sentence(draw: Random) -> tuple[str, str, bool]:
    """Return a sentence in English and in Velu, and whether it is for the test."""
    thing = draw_phrase(draw, NOUNS)
    verbs = VERBS if thing.noun.lives else VERBS + VERBS_OF_THINGS
    stem, third, past, velu = (word.replace("_", " ") for word in draw.choice(verbs))
    tense = draw.choice(list(TIMES))
    negated, asked = draw.random() < 0.2, draw.random() < 0.2
    if draw.random() < 0.5:
        subject = draw.choice(list(PERSONS))
        person, subject_velu = PERSONS[subject], ""
    else:
        phrase = draw_phrase(draw, [noun for noun in NOUNS if noun.lives])
        subject, subject_velu = phrase.en, f"{phrase.velu} {phrase.rest}"
        person = "r" if phrase.plural else ""
    is_third = person == ""
    place_en = place_velu = ""
    if draw.random() < 0.3:
        place = draw_phrase(draw, PLACES)
        preposition = draw.choice(list(PREPOSITIONS))
        place_en = f"{preposition} {place.en}"
        place_velu = f"{add(place.velu, PREPOSITIONS[preposition])} {place.rest}"
    time_en, time_velu = TIMES[tense] if draw.random() < 0.4 else ("", "")

    auxiliary = {"present": "does" if is_third else "do", "past": "did", "future": "will"}[tense]
    if asked:
        verb = f"{auxiliary} {subject} {'not ' * negated}{stem}"
    elif negated:
        verb = f"{subject} {auxiliary} not {stem}"
    elif tense == "future":
        verb = f"{subject} will {stem}"
    else:
        verb = f"{subject} {past if tense == 'past' else third if is_third else stem}"
    mark = "?" if asked else "."
    en = " ".join(f"{verb} {thing.en} {place_en} {time_en}".split()) + mark

    ending = {"present": "", "past": "li", "future": "va"}[tense]
    verb_velu = add(add("ne" * negated + velu, ending), person)
    parts = time_velu, subject_velu, place_velu, add(thing.velu, "n"), thing.rest, verb_velu
    whole = " ".join((*parts, "ka" * asked)).split()
    velu = " ".join(whole) + mark
    is_test = crc32(f"{stem} {thing.noun.en}".encode()) % 16 == 0
    return en[0].upper() + en[1:], velu[0].upper() + velu[1:], is_test


def sentences(seed: int) -> dict[str, dict[str, str]]:
    """Return the Velu of each English sentence of the table and of the test."""
    draw = Random(seed)
    found: dict[str, dict[str, str]] = {name: {} for name in SIZES}
    while any(len(found[name]) < size for name, size in SIZES.items()):
        en, velu, is_test = draw_sentence(draw)
        name = "test" if is_test else "table"
        if len(found[name]) < SIZES[name]:
            found[name][en] = velu
    return found


def main() -> None:
    """Write the table, and the test as lines."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for table.csv and test.*")
    parser.add_argument("--form", choices=FORMS, default="semicolon", help="as Excel saves it")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    options.out.mkdir(parents=True, exist_ok=True)
    found = sentences(options.seed)
    separator, encoding, suffix = FORMS[options.form]
    path = options.out / f"table{suffix}"
    with path.open("w", encoding=encoding, newline="") as file:
        rows = csv.writer(file, delimiter=separator)
        rows.writerow(("English", "Velu", "Notes"))
        for number, (en, velu) in enumerate(found["table"].items()):
            note = "" if number % 9 else f'lesson {number // 200 + 1}; "heard"'
            rows.writerow((en, velu, note))
    for lang, lines in (("en", found["test"]), ("qaa", found["test"].values())):
        text = "".join(f"{line}\n" for line in lines)
        (options.out / f"test.{lang}").write_text(text, encoding="utf-8", newline="\n")
    print(
        f"{path}: {len(found['table']):,} sentences; test.en and test.qaa: {len(found['test'])} "
        "others",
        file=sys.stderr,
    )


if __name__ == "__main__":
    main()
