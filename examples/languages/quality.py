"""How well `nmt translate --quality` tells the sentence chrF of texts with references.

    python3 quality.py MODEL SOURCE,REFERENCE...

MODEL was calibrated by `nmt calibrate`, on other text. The table has, for each text and in percent
of chrF: the mean told and true, the error of the mean of 100 lines (1,000 draws), the mean error of
ten groups by what was told, the share of lines inside their interval, Pearson's r of lines, the
share of the worst tenth that stands among the lowest tenth told, and the share of unusual lines.
"""

import random
import statistics
import sys
from pathlib import Path

from sacrebleu import CHRF

from nmt import Translator

COLUMNS = "text lines told true bias of-100 of-groups inside r worst-tenth unusual".split()
DRAWS = 1_000


def read(path: str) -> list[str]:
    return Path(path).read_text(encoding="utf-8").split("\n")[:-1]


def row(name: str, translator: Translator, sources: list[str], references: list[str]) -> list[str]:
    """Return what the table has of a text."""
    metric = CHRF()
    rated = [
        (one.quality, metric.sentence_score(one.text, [reference]).score)
        for one, reference in zip(translator.translate(sources), references, strict=True)
        if one.quality is not None
    ]
    told, true = [quality.chrf for quality, _ in rated], [score for _, score in rated]
    count = len(rated)
    differences = [a - b for a, b in zip(told, true, strict=True)]
    draw = random.Random(1)
    of_100 = [statistics.mean(draw.sample(differences, 100)) for _ in range(DRAWS)]
    order = sorted(range(count), key=lambda line: told[line])
    groups = [order[part * count // 10 : (part + 1) * count // 10] for part in range(10)]
    of_groups = [statistics.mean(differences[line] for line in group) for group in groups]
    worst = set(sorted(range(count), key=lambda line: true[line])[: count // 10])
    found = len(worst.intersection(order[: count // 10])) / len(worst)
    inside = sum(quality.low <= score <= quality.high for quality, score in rated) / count
    numbers = (
        statistics.mean(told),
        statistics.mean(true),
        statistics.mean(differences),
        statistics.mean(map(abs, of_100)),
        statistics.mean(map(abs, of_groups)),
    )
    shares = inside, statistics.correlation(told, true), found
    unusual = sum(quality.is_unusual for quality, _ in rated) / count
    return [
        name,
        str(count),
        *(f"{number:.1f}" for number in numbers),
        *(f"{share:.2f}" for share in shares),
        f"{unusual:.1%}",
    ]


def main() -> None:
    model, *texts = sys.argv[1:]
    translator = Translator.load(model, quality=True)
    print("\t".join(COLUMNS))
    for text in texts:
        source, reference = text.split(",")
        print("\t".join(row(source, translator, read(source), read(reference))), flush=True)


if __name__ == "__main__":
    main()
