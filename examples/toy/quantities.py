"""Numbers in words, in English and German: cardinals, ordinals, clock times, dates, prices.

German says the units before the tens (einundzwanzig), joins a number below a million into one
word (hundertdreiundvierzig), counts half hours towards the next hour (half past two = halb drei),
and looks at the five minutes on either side of the half hour from there (twenty-five past two =
fünf vor halb drei).
"""

# fmt: off
SMALL_EN = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine",
    "ten", "eleven", "twelve", "thirteen", "fourteen",
    "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
]
SMALL_DE = [
    "null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun",
    "zehn", "elf", "zwölf", "dreizehn", "vierzehn",
    "fünfzehn", "sechzehn", "siebzehn", "achtzehn", "neunzehn",
]
TENS_EN = [
    "", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety",
]
TENS_DE = [
    "", "", "zwanzig", "dreißig", "vierzig", "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig",
]
# fmt: on

IRREGULAR_ORDINALS_EN = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}
IRREGULAR_ORDINALS_DE = {1: "ersten", 3: "dritten", 7: "siebten", 8: "achten"}

MONTHS = (
    ("January", "Januar"),
    ("February", "Februar"),
    ("March", "März"),
    ("April", "April"),
    ("May", "Mai"),
    ("June", "Juni"),
    ("July", "Juli"),
    ("August", "August"),
    ("September", "September"),
    ("October", "Oktober"),
    ("November", "November"),
    ("December", "Dezember"),
)
DAYS_IN_MONTH = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)

# Minute of the hour -> English before the hour, German before the hour, German hours to add.
MINUTES = {
    5: ("five past", "fünf nach", 0),
    10: ("ten past", "zehn nach", 0),
    15: ("a quarter past", "Viertel nach", 0),
    20: ("twenty past", "zwanzig nach", 0),
    25: ("twenty-five past", "fünf vor halb", 1),
    30: ("half past", "halb", 1),
    35: ("twenty-five to", "fünf nach halb", 1),
    40: ("twenty to", "zwanzig vor", 1),
    45: ("a quarter to", "Viertel vor", 1),
    50: ("ten to", "zehn vor", 1),
    55: ("five to", "fünf vor", 1),
}


def number_en(number: int) -> str:
    """Return an English cardinal from 0 to 999: 143 -> one hundred and forty-three."""
    hundreds, rest = divmod(number, 100)
    if hundreds:
        head = f"{SMALL_EN[hundreds]} hundred"
        return f"{head} and {number_en(rest)}" if rest else head
    if number < 20:
        return SMALL_EN[number]
    tens, units = divmod(number, 10)
    return f"{TENS_EN[tens]}-{SMALL_EN[units]}" if units else TENS_EN[tens]


def number_de(number: int) -> str:
    """Return a German cardinal from 0 to 999: 143 -> hundertdreiundvierzig."""
    hundreds, rest = divmod(number, 100)
    if hundreds:
        head = "hundert" if hundreds == 1 else f"{SMALL_DE[hundreds]}hundert"
        return head + (number_de(rest) if rest else "")
    if number < 20:
        return SMALL_DE[number]
    tens, units = divmod(number, 10)
    if not units:
        return TENS_DE[tens]
    return f"{'ein' if units == 1 else SMALL_DE[units]}und{TENS_DE[tens]}"


def ordinal_en(number: int) -> str:
    """Return an English ordinal below 100: 21 -> twenty-first."""
    head, hyphen, last = number_en(number).rpartition("-")
    if last in IRREGULAR_ORDINALS_EN:
        last = IRREGULAR_ORDINALS_EN[last]
    else:
        last = f"{last[:-1]}ieth" if last.endswith("y") else f"{last}th"
    return head + hyphen + last


def ordinal_de(number: int) -> str:
    """Return a German ordinal below 100, as it stands after am and zum: 21 -> einundzwanzigsten."""
    if number in IRREGULAR_ORDINALS_DE:
        return IRREGULAR_ORDINALS_DE[number]
    return number_de(number) + ("ten" if number < 20 else "sten")


def clock_en(hour: int, minute: int) -> str:
    """Return an English time without its preposition: (2, 30) -> half past two."""
    if minute == 0:
        return f"{number_en(hour)} o'clock"
    # "twenty to three" names the coming hour, "twenty past two" the one that runs.
    named = hour if minute <= 30 else hour % 12 + 1
    return f"{MINUTES[minute][0]} {number_en(named)}"


def clock_de(hour: int, minute: int) -> str:
    """Return a German time without its preposition: (2, 30) -> halb drei."""
    if minute == 0:
        return f"{'ein' if hour == 1 else number_de(hour)} Uhr"
    _, before, ahead = MINUTES[minute]
    named = hour % 12 + 1 if ahead else hour
    return f"{before} {number_de(named)}"


def price_en(euros: int, cents: int) -> str:
    """Return an English price of two euros or more: twelve euros fifty."""
    return f"{number_en(euros)} euros" + (f" {number_en(cents)}" if cents else "")


def price_de(euros: int, cents: int) -> str:
    """Return a German price of two euros or more: zwölf Euro fünfzig."""
    return f"{number_de(euros)} Euro" + (f" {number_de(cents)}" if cents else "")
