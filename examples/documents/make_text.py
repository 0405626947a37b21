#!/usr/bin/env python3
"""Write English-German text in which "it" is "er", "sie" or "es", as the line before says.

A document is one to three pairs of lines. The first line of a pair names a thing, and the second
says something about "it". German needs the gender of the thing, which only the first line tells:

    Here is a lamp.              Hier ist eine Lampe.
    It is much too expensive.    Sie ist viel zu teuer.

A thing and what is said of it are a combination. CRC-32 of the combination, modulo 12, holds one in
twelve out of train for the test. So no line of the test can be known by heart, and each gender is
right for about a third of its lines.
"""

import argparse
from pathlib import Path
from random import Random
from zlib import crc32

MASCULINE = (
    "table Tisch, chair Stuhl, hat Hut, coat Mantel, key Schlüssel, cupboard Schrank, carpet "
    "Teppich, spoon Löffel, plate Teller, cake Kuchen, cheese Käse, apple Apfel, tree Baum, ball "
    "Ball, car Wagen, train Zug, suitcase Koffer, ring Ring, mirror Spiegel, garden Garten, "
    "computer Rechner, stone Stein, skirt Rock, oven Ofen, letter Brief, pencil Bleistift, "
    "umbrella Regenschirm, hammer Hammer, bucket Eimer, sack Sack"
)
FEMININE = (
    "lamp Lampe, door Tür, clock Uhr, bag Tasche, fork Gabel, cup Tasse, bottle Flasche, flower "
    "Blume, jacket Jacke, trumpet Trompete, guitar Gitarre, map Karte, newspaper Zeitung, bridge "
    "Brücke, church Kirche, kitchen Küche, pear Birne, banana Banane, soup Suppe, pump Pumpe, "
    "machine Maschine, candle Kerze, box Kiste, ladder Leiter, saw Säge, chain Kette, coin Münze, "
    "shovel Schaufel, vase Vase, brush Bürste"
)
NEUTER = (
    "book Buch, house Haus, bed Bett, bicycle Fahrrad, window Fenster, picture Bild, knife "
    "Messer, glass Glas, shirt Hemd, dress Kleid, boat Boot, ship Schiff, egg Ei, radio Radio, "
    "piano Klavier, sofa Sofa, towel Handtuch, pillow Kissen, wheel Rad, tent Zelt, telephone "
    "Telefon, roof Dach, gift Geschenk, parcel Paket, bread Brot, carousel Karussell, rope Seil, "
    "instrument Instrument, sign Schild, motorcycle Motorrad"
)
FORMS = {  # article as subject, as object; pronoun as subject, as object
    "m": ("ein", "einen", "er", "ihn"),
    "f": ("eine", "eine", "sie", "sie"),
    "n": ("ein", "ein", "es", "es"),
}
NAMING = (
    ("Here is {}.", "Hier ist {nom} {}."),
    ("There is still {} at home.", "Zu Hause ist noch {nom} {}."),
    ("In the shop stands {}.", "Im Laden steht {nom} {}."),
    ("Yesterday we found {}.", "Gestern haben wir {acc} {} gefunden."),
    ("My brother bought {}.", "Mein Bruder hat {acc} {} gekauft."),
    ("She wants to sell {}.", "Sie will {acc} {} verkaufen."),
    ("I have seen {}.", "Ich habe {acc} {} gesehen."),
    ("Our neighbour needs {}.", "Unser Nachbar braucht {acc} {}."),
)
ADJECTIVES = (
    "old alt, new neu, big groß, small klein, beautiful schön, ugly hässlich, heavy schwer, light "
    "leicht, expensive teuer, cheap billig, dirty schmutzig, clean sauber, red rot, green grün, "
    "blue blau, white weiß, black schwarz, round rund, broken kaputt, rare selten"
)
SAYING = (
    ("It is {}.", "{Sub} ist {}."),
    ("It is much too {}.", "{Sub} ist viel zu {}."),
    ("Yesterday it was still {}.", "Gestern war {sub} noch {}."),
)
DOING = (
    ("I like it.", "Ich mag {obj}."),
    ("Nobody wants it.", "Niemand will {obj}."),
    ("We will keep it.", "Wir werden {obj} behalten."),
    ("Can you see it?", "Kannst du {obj} sehen?"),
    ("Please bring it here.", "Bitte bring {obj} her."),
    ("My mother hates it.", "Meine Mutter hasst {obj}."),
    ("It costs too much.", "{Sub} kostet zu viel."),
    ("It belongs to me.", "{Sub} gehört mir."),
    ("Tomorrow it will be gone.", "Morgen ist {sub} weg."),
    ("It came from Berlin.", "{Sub} kam aus Berlin."),
)
HELD_OUT = 12  # one of so many combinations
SPLITS = {"train": 6_000, "valid": 200, "test": 300}  # documents

Pair = tuple[str, str]


def words(text: str) -> list[Pair]:
    """Return the English and German words of a list."""
    return [(en, de) for en, _, de in (one.rpartition(" ") for one in text.split(", "))]


def sayings() -> list[Pair]:
    """Return everything that can be said of a thing."""
    adjectives = words(ADJECTIVES)
    return [
        *(
            (en.format(one), de.replace("{}", other))
            for en, de in SAYING
            for one, other in adjectives
        ),
        *DOING,
    ]


def article(thing: str) -> str:
    """Return the English article of a thing."""
    return "an" if thing[0] in "aeiou" else "a"


def is_held_out(thing: str, saying: str) -> bool:
    """Tell whether a combination is for the test."""
    return crc32(f"{thing} {saying}".encode()) % HELD_OUT == 0


def document(draw: Random, *, for_test: bool) -> list[Pair]:
    """Return a document of one to three pairs of lines."""
    lines: list[Pair] = []
    wanted = 2 * draw.choice((1, 2, 3))
    while len(lines) < wanted:
        gender = draw.choice(list(THINGS))
        en, de = draw.choice(THINGS[gender])
        saying = draw.choice(SAYINGS)
        if is_held_out(en, saying[0]) == for_test:
            nom, acc, sub, obj = FORMS[gender]
            naming = draw.choice(NAMING)
            lines.append(
                (naming[0].format(f"{article(en)} {en}"), naming[1].format(de, nom=nom, acc=acc))
            )
            told = saying[1].format(sub=sub, Sub=sub.capitalize(), obj=obj)
            lines.append((saying[0], told))
    return lines


THINGS = {"m": words(MASCULINE), "f": words(FEMININE), "n": words(NEUTER)}
SAYINGS = sayings()


def main() -> None:
    """Write each split. A blank line ends a document, except in valid, which is read by lines."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder to write to")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    for split, count in SPLITS.items():
        draw = Random(split)
        documents = [document(draw, for_test=split == "test") for _ in range(count)]
        for side, lang in enumerate(("en", "de")):
            lines = ("".join(f"{line[side]}\n" for line in one) for one in documents)
            text = ("" if split == "valid" else "\n").join(lines)
            (out / f"{split}.{lang}").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
