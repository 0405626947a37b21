"""Lines that a translator meets on the web, and that are hardly sentences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from string import ascii_lowercase, printable

_TOPS = ("com", "org", "net/index.html", "de/search?q=1&page=2", "co.uk/~user/img_001.jpg")
_RULES = ("-", "_", "=", ".", "*", "ha ", "very ", "| 0 ", "na na ", "\u2014")


def noisy_lines(sentences: Sequence[str], count: int, seed: int = 1) -> list[str]:
    """Return lines of eight kinds in turn, some of them made of the sentences."""
    random = Random(seed)
    kinds: Sequence[Callable[[], str]] = (
        lambda: random.randbytes(random.randint(5, 60)).decode(errors="replace"),
        lambda: "".join(random.choices(printable[:95], k=random.randint(5, 80))),
        lambda: " | ".join(str(random.randint(0, 9999)) for _ in range(random.randint(4, 25))),
        lambda: random.choice(_RULES) * random.randint(4, 40),
        lambda: f"https://www.{_word(random)}.{random.choice(_TOPS)}/{_word(random)}",
        lambda: random.choice(sentences).upper(),
        lambda: random.choice(sentences).replace(" ", ""),
        lambda: " ".join(_word(random) for _ in range(random.randint(2, 15))),
    )
    lines = [kinds[number % len(kinds)]() for number in range(count)]
    # Characters that end a line or a table's cell would make others of them.
    return [" ".join(line.split()) or "?" for line in lines]


def _word(random: Random) -> str:
    return "".join(random.choices(ascii_lowercase, k=random.randint(2, 12)))
