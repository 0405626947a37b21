"""How many translations loop or run to their limit, with and without the guard, and its time.

Captions, and lines that are hardly sentences. Time is CPU time, so other work on the machine counts
little.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from string import ascii_lowercase, printable

import pytest
from benchmarks.corpora import multi30k_test
from benchmarks.harness import cpu_time, in_turn, publish, rounds, setting, spread, table
from benchmarks.machine import describe
from benchmarks.translation import model_of

from nmt.scoring.metrics import score
from nmt.search.options import SearchOptions
from nmt.search.retry import count_loops
from nmt.translate.output import Translation
from nmt.translate.translator import Translator

pytestmark = pytest.mark.benchmark

LINES = setting("LINES", 1_000)
_TOPS = ("com", "org", "net/index.html", "de/search?q=1&page=2", "co.uk/~user/img_001.jpg")
_RULES = ("-", "_", "=", ".", "*", "ha ", "very ", "| 0 ", "na na ", "\u2014")


def test_loops(tmp_path: Path) -> None:
    model = model_of("small", tmp_path)
    translators = {
        "--no-guard": Translator.load(model, SearchOptions(no_guard=True)),
        "guard": Translator.load(model),
        "--no-repeat-ngram 4": Translator.load(model, SearchOptions(no_repeat_ngram=4)),
        "--repetition-penalty 1.2": Translator.load(model, SearchOptions(repetition_penalty=1.2)),
    }
    captions, references = multi30k_test(LINES)
    rows = []
    for name, lines in (("captions", captions), ("noise", noisy_lines(captions, LINES))):
        systems = {
            key: partial(cpu_time, partial(one.translate, lines))
            for key, one in translators.items()
        }
        for key, found in in_turn(systems, rounds(3)).items():
            translations = found[0][0]
            faults = [
                fault(translators[key], *pair) for pair in zip(lines, translations, strict=True)
            ]
            bleu = score([one.text for one in translations], [references]) if "cap" in name else {}
            rows.append(
                {
                    "": f"{len(lines):,} lines of {name}, {key}",
                    "searched again": str(sum(one.guarded for one in translations)),
                    "loop": str(faults.count("loop")),
                    "run to the limit": str(faults.count("limit")),
                    "CPU seconds": spread([seconds for _, seconds in found], ".1f"),
                    "BLEU": f"{bleu['bleu'].score:.2f}" if bleu else "",
                }
            )
    publish(f"{describe()}. Beam 4, one thread.\n\n{table(rows)}")
    assert len(rows) == 2 * len(translators)


def fault(translator: Translator, line: str, found: Translation) -> str:
    numbers: dict[str, int] = {}
    ids = [numbers.setdefault(token, len(numbers)) for token in found.tokens]
    (source,) = translator.language_pair.src_vocabulary.encode([line])
    if count_loops(ids) > count_loops(source):
        return "loop"
    longest = translator.engine.options.longest(len(source))
    return "limit" if found.segments == 1 and len(ids) >= longest else ""


def noisy_lines(sentences: Sequence[str], count: int, seed: int = 1) -> list[str]:
    """Return what a translator meets on the web, of eight kinds in turn, hardly sentences."""
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
