"""How well `nmt translate --quality` tells the sentence chrF of texts with references.

    python3 quality.py MODEL SOURCE,REFERENCE...

MODEL was calibrated by `nmt calibrate`, on other text. The table has, for each text and in percent
of chrF: the mean told and true, the error of the mean of 100 lines (1,000 draws), the mean error of
ten groups by what was told, the share of lines inside their interval, Pearson's r of lines, the
share of the worst tenth that stands among the lowest tenth told, and the share of unusual lines.
Last comes the bias of a curve that was fitted to 100 lines of the text itself, on its other lines
(mean of 20 draws, without sign).
"""

import sys
from pathlib import Path

import numpy as np
from sacrebleu import CHRF

from nmt import Translator
from nmt.scoring.quality import Curve
from nmt.translate.calibration import known_of

COLUMNS = (
    "text lines told true bias of-100 of-groups inside r worst-tenth unusual recalibrated".split()
)
DRAWS, RECALIBRATIONS = 1_000, 20


def read(path: str) -> list[str]:
    return Path(path).read_text(encoding="utf-8").split("\n")[:-1]


def row(name: str, translator: Translator, sources: list[str], references: list[str]) -> list[str]:
    """Return what the table has of a text."""
    metric = CHRF()
    rated = [
        (one.quality, known_of(source, one), metric.sentence_score(one.text, [reference]).score)
        for source, one, reference in zip(
            sources, translator.translate(sources), references, strict=True
        )
        if one.quality is not None
    ]
    estimates, features = [one for one, _, _ in rated], np.array([one for _, one, _ in rated])
    told, true = np.array([one.chrf for one in estimates]), np.array([one for _, _, one in rated])
    count, differences, order = len(rated), told - true, np.argsort(told, kind="stable")
    draw = np.random.default_rng(1)
    of_100 = [differences[draw.permutation(count)[:100]].mean() for _ in range(DRAWS)]
    of_groups = [differences[group].mean() for group in np.array_split(order, 10)]
    worst = set(np.argsort(true, kind="stable")[: count // 10])
    inside = np.mean(
        [one.low <= score <= one.high for one, score in zip(estimates, true, strict=True)]
    )
    biases = []
    for _ in range(RECALIBRATIONS):
        own, rest = np.split(draw.permutation(count), [100])
        told_rest = Curve.fit(features[own], true[own]).estimates(features[rest])
        biases.append(np.mean([one.chrf for one in told_rest]) - true[rest].mean())
    errors = np.abs(of_100).mean(), np.abs(of_groups).mean()
    numbers = told.mean(), true.mean(), differences.mean(), *errors
    found = len(worst.intersection(order[: count // 10])) / len(worst)
    shares = inside, np.corrcoef(told, true)[0, 1], found
    return [
        name,
        str(count),
        *(f"{number:.1f}" for number in numbers),
        *(f"{share:.2f}" for share in shares),
        f"{np.mean([one.is_unusual for one in estimates]):.1%}",
        f"{np.abs(biases).mean():.1f}",
    ]


def main() -> None:
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    model, *texts = sys.argv[1:]
    translator = Translator.load(model, quality=True)
    print("\t".join(COLUMNS))
    for text in texts:
        source, _, reference = text.partition(",")
        print("\t".join(row(source, translator, read(source), read(reference))), flush=True)


if __name__ == "__main__":
    main()
