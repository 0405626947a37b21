"""The words of the toy language: nouns, adjectives, verbs and adverbs, English beside German.

Everything here is data. A noun carries its gender and plural, an adjective the stem its endings
join, a verb its irregular forms; all that follows by rule stands in `grammar.py`. `kind` and
`kinds` say what goes with what, so that people are tired and suitcases heavy, not the reverse.

English words are chosen to have one translation. Hence no "you" (du, ihr, Sie), no verb whose
past tense looks like its present (read, put), and "tall" of people where "big" serves for things.
"""

from dataclasses import dataclass
from typing import Literal

Case = Literal["nom", "acc", "dat"]
Gender = Literal["m", "f", "n"]
Person = Literal["I", "sg", "pl"]  # "we" and "they" share their verb forms in both languages


@dataclass(frozen=True)
class Noun:
    """A noun; `oblique` is the accusative and dative singular of the weak masculines."""

    en: str
    en_plural: str
    de: str
    gender: Gender
    de_plural: str
    oblique: str = ""


@dataclass(frozen=True)
class Adjective:
    """An adjective; `stem` is what endings join where it is not the predicative form."""

    en: str
    de: str
    kinds: tuple[str, ...]
    stem: str = ""


@dataclass(frozen=True)
class Determiner:
    """A determiner; `pattern` names its declension, and `en_plural` None means singular only."""

    en: str
    en_plural: str | None
    de: str
    pattern: Literal["der", "dieser", "ein"]


@dataclass(frozen=True)
class Verb:
    """A verb; German forms stand without the separable `prefix`, but the participle is whole."""

    en: str
    en_past: str
    de: str
    third: str
    participle: str
    kinds: tuple[str, ...] = ()
    case: Case = "acc"
    prefix: str = ""
    auxiliary: Literal["haben", "sein"] = "haben"
    first: str = ""


NOUNS: dict[str, tuple[Noun, ...]] = {
    "person": (
        Noun("man", "men", "Mann", "m", "Männer"),
        Noun("woman", "women", "Frau", "f", "Frauen"),
        Noun("child", "children", "Kind", "n", "Kinder"),
        Noun("boy", "boys", "Junge", "m", "Jungen", "Jungen"),
        Noun("girl", "girls", "Mädchen", "n", "Mädchen"),
        Noun("neighbour", "neighbours", "Nachbar", "m", "Nachbarn", "Nachbarn"),
        Noun("student", "students", "Student", "m", "Studenten", "Studenten"),
        Noun("doctor", "doctors", "Arzt", "m", "Ärzte"),
        Noun("teacher", "teachers", "Lehrer", "m", "Lehrer"),
        Noun("friend", "friends", "Freund", "m", "Freunde"),
        Noun("brother", "brothers", "Bruder", "m", "Brüder"),
        Noun("sister", "sisters", "Schwester", "f", "Schwestern"),
        Noun("aunt", "aunts", "Tante", "f", "Tanten"),
        Noun("daughter", "daughters", "Tochter", "f", "Töchter"),
    ),
    "animal": (
        Noun("dog", "dogs", "Hund", "m", "Hunde"),
        Noun("cat", "cats", "Katze", "f", "Katzen"),
        Noun("horse", "horses", "Pferd", "n", "Pferde"),
        Noun("bird", "birds", "Vogel", "m", "Vögel"),
    ),
    "text": (
        Noun("book", "books", "Buch", "n", "Bücher"),
        Noun("letter", "letters", "Brief", "m", "Briefe"),
        Noun("postcard", "postcards", "Postkarte", "f", "Postkarten"),
    ),
    "container": (
        Noun("suitcase", "suitcases", "Koffer", "m", "Koffer"),
        Noun("box", "boxes", "Kiste", "f", "Kisten"),
        Noun("bag", "bags", "Tasche", "f", "Taschen"),
        Noun("bottle", "bottles", "Flasche", "f", "Flaschen"),
    ),
    "opening": (
        Noun("door", "doors", "Tür", "f", "Türen"),
        Noun("window", "windows", "Fenster", "n", "Fenster"),
        Noun("gate", "gates", "Tor", "n", "Tore"),
    ),
    "furniture": (
        Noun("table", "tables", "Tisch", "m", "Tische"),
        Noun("chair", "chairs", "Stuhl", "m", "Stühle"),
        Noun("bed", "beds", "Bett", "n", "Betten"),
        Noun("cupboard", "cupboards", "Schrank", "m", "Schränke"),
    ),
    "device": (
        Noun("lamp", "lamps", "Lampe", "f", "Lampen"),
        Noun("radio", "radios", "Radio", "n", "Radios"),
        Noun("computer", "computers", "Computer", "m", "Computer"),
    ),
    "clothing": (
        Noun("coat", "coats", "Mantel", "m", "Mäntel"),
        Noun("dress", "dresses", "Kleid", "n", "Kleider"),
        Noun("shirt", "shirts", "Hemd", "n", "Hemden"),
        Noun("jacket", "jackets", "Jacke", "f", "Jacken"),
    ),
    "vehicle": (
        Noun("car", "cars", "Auto", "n", "Autos"),
        Noun("bicycle", "bicycles", "Fahrrad", "n", "Fahrräder"),
        Noun("boat", "boats", "Boot", "n", "Boote"),
    ),
    "food": (
        Noun("apple", "apples", "Apfel", "m", "Äpfel"),
        Noun("egg", "eggs", "Ei", "n", "Eier"),
        Noun("pear", "pears", "Birne", "f", "Birnen"),
        Noun("cake", "cakes", "Kuchen", "m", "Kuchen"),
    ),
    "place": (
        Noun("garden", "gardens", "Garten", "m", "Gärten"),
        Noun("kitchen", "kitchens", "Küche", "f", "Küchen"),
        Noun("house", "houses", "Haus", "n", "Häuser"),
        Noun("school", "schools", "Schule", "f", "Schulen"),
        Noun("city", "cities", "Stadt", "f", "Städte"),
        Noun("forest", "forests", "Wald", "m", "Wälder"),
        Noun("village", "villages", "Dorf", "n", "Dörfer"),
        Noun("hotel", "hotels", "Hotel", "n", "Hotels"),
    ),
    "event": (
        Noun("course", "courses", "Kurs", "m", "Kurse"),
        Noun("festival", "festivals", "Festival", "n", "Festivals"),
        Noun("journey", "journeys", "Reise", "f", "Reisen"),
        Noun("exhibition", "exhibitions", "Ausstellung", "f", "Ausstellungen"),
    ),
    "transport": (
        Noun("train", "trains", "Zug", "m", "Züge"),
        Noun("bus", "buses", "Bus", "m", "Busse"),
        Noun("ship", "ships", "Schiff", "n", "Schiffe"),
    ),
    "measure": (
        Noun("page", "pages", "Seite", "f", "Seiten"),
        Noun("room", "rooms", "Zimmer", "n", "Zimmer"),
    ),
}

NOUN_OF = {noun.en: noun for nouns in NOUNS.values() for noun in nouns}

GOODS = ("text", "container", "furniture", "device", "clothing", "vehicle", "food")
PORTABLE = ("text", "container", "clothing", "food")
PEOPLE = ("person",)
ANYTHING = (*GOODS, "opening", "place", "transport")

QUALITIES = (
    Adjective("old", "alt", (*ANYTHING, "person", "animal")),
    Adjective("young", "jung", ("person", "animal")),
    Adjective("new", "neu", (*ANYTHING, "event")),
    Adjective("small", "klein", (*ANYTHING, "animal")),
    Adjective("big", "groß", (*ANYTHING, "animal", "event")),
    Adjective("tall", "groß", PEOPLE),
    Adjective("friendly", "freundlich", PEOPLE),
    Adjective("famous", "berühmt", PEOPLE),
    Adjective("sick", "krank", ("person", "animal")),
    Adjective("tired", "müde", ("person", "animal"), "müd"),
    Adjective("clever", "klug", ("person", "animal")),
    Adjective("beautiful", "schön", (*GOODS, "place", "event")),
    Adjective("expensive", "teuer", (*GOODS, "event"), "teur"),
    Adjective("cheap", "billig", GOODS),
    Adjective("heavy", "schwer", ("container", "furniture", "device", "opening")),
    Adjective("good", "gut", (*GOODS, "person", "event")),
    Adjective("dark", "dunkel", ("place",), "dunkl"),
    Adjective("quiet", "ruhig", ("place",)),
)
# Nothing is said to be too black or very red, so these stand only before a noun.
COLOURS = (
    Adjective("black", "schwarz", (*GOODS, "animal", "opening", "transport")),
    Adjective("white", "weiß", (*GOODS, "animal", "opening", "transport")),
    Adjective("red", "rot", (*GOODS, "opening", "transport")),
    Adjective("green", "grün", (*GOODS, "opening", "transport")),
)

THE = Determiner("the", "the", "d", "der")
THIS = Determiner("this", "these", "dies", "dieser")
EVERY = Determiner("every", None, "jed", "dieser")
A = Determiner("a", "", "ein", "ein")
NO = Determiner("a", "", "kein", "ein")  # English negates the verb: "does not buy a house"
POSSESSIVES = (
    Determiner("my", "my", "mein", "ein"),
    Determiner("our", "our", "unser", "ein"),
    Determiner("his", "his", "sein", "ein"),
    Determiner("her", "her", "ihr", "ein"),
)

NAMES = ("Anna", "Peter", "Maria", "Paul", "Lena", "Thomas")
PRONOUNS: tuple[tuple[str, str, Person], ...] = (
    ("I", "ich", "I"),
    ("we", "wir", "pl"),
    ("he", "er", "sg"),
    ("she", "sie", "sg"),
    ("they", "sie", "pl"),
)

SEEN = (*GOODS, "person", "animal")
TRANSITIVE = (
    Verb("buy", "bought", "kaufen", "kauft", "gekauft", GOODS),
    Verb("sell", "sold", "verkaufen", "verkauft", "verkauft", GOODS),
    Verb("need", "needed", "brauchen", "braucht", "gebraucht", GOODS),
    Verb("see", "saw", "sehen", "sieht", "gesehen", SEEN),
    Verb("find", "found", "finden", "findet", "gefunden", SEEN),
    Verb("look for", "looked for", "suchen", "sucht", "gesucht", SEEN),
    Verb("write", "wrote", "schreiben", "schreibt", "geschrieben", ("text",)),
    Verb("eat", "ate", "essen", "isst", "gegessen", ("food",)),
    Verb("wear", "wore", "tragen", "trägt", "getragen", ("clothing",)),
    Verb("wash", "washed", "waschen", "wäscht", "gewaschen", ("clothing", "vehicle", "animal")),
    Verb("repair", "repaired", "reparieren", "repariert", "repariert",
         ("furniture", "device", "vehicle", "opening")),
    Verb("visit", "visited", "besuchen", "besucht", "besucht", PEOPLE),
    Verb("help", "helped", "helfen", "hilft", "geholfen", PEOPLE, "dat"),
    Verb("thank", "thanked", "danken", "dankt", "gedankt", PEOPLE, "dat"),
    Verb("answer", "answered", "antworten", "antwortet", "geantwortet", PEOPLE, "dat"),
    Verb("listen to", "listened to", "hören", "hört", "zugehört", PEOPLE, "dat", "zu"),
    Verb("open", "opened", "machen", "macht", "aufgemacht", ("opening", "container"), prefix="auf"),
    Verb("close", "closed", "machen", "macht", "zugemacht", ("opening", "container"), prefix="zu"),
    Verb("switch on", "switched on", "schalten", "schaltet", "eingeschaltet", ("device",),
         prefix="ein"),
    Verb("switch off", "switched off", "schalten", "schaltet", "ausgeschaltet", ("device",),
         prefix="aus"),
    Verb("bring along", "brought along", "bringen", "bringt", "mitgebracht", PORTABLE,
         prefix="mit"),
    Verb("take along", "took along", "nehmen", "nimmt", "mitgenommen", PORTABLE, prefix="mit"),
    Verb("pick up", "picked up", "holen", "holt", "abgeholt", PEOPLE, prefix="ab"),
    Verb("invite", "invited", "laden", "lädt", "eingeladen", PEOPLE, prefix="ein"),
    Verb("call", "called", "rufen", "ruft", "angerufen", PEOPLE, prefix="an"),
)  # fmt: skip

DITRANSITIVE = (
    Verb("give", "gave", "geben", "gibt", "gegeben", GOODS),
    Verb("show", "showed", "zeigen", "zeigt", "gezeigt", GOODS),
    Verb("send", "sent", "schicken", "schickt", "geschickt", ("text", "clothing", "food")),
    Verb("lend", "lent", "leihen", "leiht", "geliehen", ("text", "clothing", "device", "vehicle")),
)

MOTION = (
    Verb("go", "went", "gehen", "geht", "gegangen", auxiliary="sein"),
    Verb("run", "ran", "laufen", "läuft", "gelaufen", auxiliary="sein"),
    Verb("drive", "drove", "fahren", "fährt", "gefahren", auxiliary="sein"),
)

RESTING = (
    Verb("work", "worked", "arbeiten", "arbeitet", "gearbeitet"),
    Verb("play", "played", "spielen", "spielt", "gespielt"),
    Verb("wait", "waited", "warten", "wartet", "gewartet"),
    Verb("live", "lived", "wohnen", "wohnt", "gewohnt"),
    Verb("stay", "stayed", "bleiben", "bleibt", "geblieben", auxiliary="sein"),
)

MOMENTARY = (
    Verb("get up", "got up", "stehen", "steht", "aufgestanden", prefix="auf", auxiliary="sein"),
    Verb("fall asleep", "fell asleep", "schlafen", "schläft", "eingeschlafen", prefix="ein",
         auxiliary="sein"),
    Verb("come back", "came back", "kommen", "kommt", "zurückgekommen", prefix="zurück",
         auxiliary="sein"),
)  # fmt: skip

ARRIVE = Verb("arrive", "arrived", "kommen", "kommt", "angekommen", prefix="an", auxiliary="sein")
LEAVE = Verb("leave", "left", "fahren", "fährt", "abgefahren", prefix="ab", auxiliary="sein")
BEGIN = Verb("begin", "began", "fangen", "fängt", "angefangen", prefix="an")
LAST = Verb("last", "lasted", "dauern", "dauert", "gedauert", first="dauere")

BE = Verb("be", "was", "sein", "ist", "gewesen", auxiliary="sein")
HAVE = Verb("have", "had", "haben", "hat", "gehabt")
COST = Verb("cost", "cost", "kosten", "kostet", "gekostet")
PAY = Verb("pay", "paid", "bezahlen", "bezahlt", "bezahlt")

SAYING = (
    Verb("know", "knew", "wissen", "weiß", "gewusst", first="weiß"),
    Verb("say", "said", "sagen", "sagt", "gesagt"),
    Verb("believe", "believed", "glauben", "glaubt", "geglaubt"),
    Verb("hope", "hoped", "hoffen", "hofft", "gehofft"),
)

INTENDING = (
    Verb("try", "tried", "versuchen", "versucht", "versucht"),
    Verb("forget", "forgot", "vergessen", "vergisst", "vergessen"),
    Verb("promise", "promised", "versprechen", "verspricht", "versprochen"),
)

CONJUNCTIONS = (
    ("because", "weil"),
    ("although", "obwohl"),
    ("if", "wenn"),
    ("before", "bevor"),
)

WEEKDAYS = (
    ("Monday", "Montag"),
    ("Tuesday", "Dienstag"),
    ("Wednesday", "Mittwoch"),
    ("Thursday", "Donnerstag"),
    ("Friday", "Freitag"),
    ("Saturday", "Samstag"),
    ("Sunday", "Sonntag"),
)
HABITS = (
    ("today", "heute"),
    ("every day", "jeden Tag"),
    ("every morning", "jeden Morgen"),
    ("every evening", "jeden Abend"),
)
PAST_DAYS = (("yesterday", "gestern"), ("today", "heute"))
PAST_SPANS = (("last week", "letzte Woche"), ("last year", "letztes Jahr"))
COMING_DAYS = (("tomorrow", "morgen"), ("today", "heute"))
COMING_SPANS = (("next week", "nächste Woche"), ("next year", "nächstes Jahr"))
