#!/usr/bin/env python3
"""Print the results of the toy: a table of scores, and ten translations beside their references.

The demo is also a check: it fails if the model is below 90 BLEU, or if a baseline is at 50 or
above, when the task would be too easy to show anything.
"""

import argparse
import json
import sys
from pathlib import Path

from lines import read_lines

MODELS = {
    "greedy": "greedy",
    "beam4": "beam 4",
    "averaged": "averaged, beam 4",
}
BASELINES = {
    "word_by_word": "word-by-word dictionary",
    "nearest_neighbour": "nearest neighbour",
}
METRICS = {"bleu": "BLEU", "chrf": "chrF"}
SHOWN = 10
MODEL_AT_LEAST = 90.0
BASELINE_BELOW = 50.0

Scores = dict[str, dict[str, dict[str, float | str]]]  # output -> metric -> what nmt score says


def bleu(scores: Scores, output: str) -> float:
    """Return the BLEU score of an output."""
    return float(scores[output]["bleu"]["score"])


def table(scores: Scores) -> str:
    """Return a row for each output and a column for each metric, then the signatures."""
    labels = MODELS | BASELINES
    width = max(map(len, labels.values()))
    lines = [" " * width + "".join(f"{name:>8}" for name in METRICS.values())]
    for output, label in labels.items():
        figures = (float(scores[output][metric]["score"]) for metric in METRICS)
        lines.append(f"{label:<{width}}" + "".join(f"{figure:8.1f}" for figure in figures))
    # The signature is the same for all outputs, as metric, references and options are.
    signatures = (f"{METRICS[m]}: {scores['averaged'][m]['signature']}" for m in METRICS)
    return "\n".join([*lines, "", *signatures])


def translations(src: list[str], references: list[str], hypotheses: list[str]) -> str:
    """Return lines spread evenly over the test, each with its reference and its translation."""
    blocks = []
    for number in range(0, len(src), max(1, len(src) // SHOWN))[:SHOWN]:
        same = hypotheses[number] == references[number]
        block = [
            f"line {number + 1}: {'same' if same else 'different'}",
            f"  source      {src[number]}",
            f"  reference   {references[number]}",
            f"  translation {hypotheses[number]}",
        ]
        blocks.append("\n".join(block))
    return "\n\n".join(blocks)


def failures(scores: Scores) -> list[str]:
    """Return what is wrong with the scores, in words; nothing if the demo holds."""
    weak = [
        f"{label} scores {bleu(scores, output):.1f} BLEU; at least {MODEL_AT_LEAST:.0f} is expected"
        for output, label in MODELS.items()
        if bleu(scores, output) < MODEL_AT_LEAST
    ]
    strong = [
        f"{label} scores {bleu(scores, output):.1f} BLEU; below {BASELINE_BELOW:.0f} is expected"
        for output, label in BASELINES.items()
        if bleu(scores, output) >= BASELINE_BELOW
    ]
    return weak + strong


def main() -> int:
    """Print the report; return 1 if a score is not as expected."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("work", type=Path, help="folder with text/test.* and out/*.json")
    work: Path = parser.parse_args().work

    scores: Scores = {
        output: json.loads((work / "out" / f"{output}.json").read_text(encoding="utf-8"))
        for output in MODELS | BASELINES
    }
    src, references = (read_lines(work / "text" / f"test.{side}") for side in ("en", "de"))
    hypotheses = read_lines(work / "out" / "averaged.de")
    print(table(scores), translations(src, references, hypotheses), sep="\n\n")
    wrong = failures(scores)
    for problem in wrong:
        print(f"report.py: {problem}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
