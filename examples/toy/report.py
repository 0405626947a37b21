#!/usr/bin/env python3
"""Print the results of the toy: a table of scores, and ten translations beside their references.

The demo is also a check: it fails if the model is not above 95 BLEU, or if a baseline reaches 50,
when the task would be too easy to show anything.
"""

import json
import sys
from pathlib import Path

from make_text import read_lines

MODELS = {"greedy": "greedy", "beam4": "beam 4", "averaged": "averaged, beam 4"}
BASELINES = {
    "word_by_word": "word-by-word dictionary",
    "nearest_neighbour": "nearest neighbour",
}
SHOWN = 10

Scores = dict[str, dict[str, dict[str, float | str]]]  # output -> metric -> what nmt score says


def table(scores: Scores) -> str:
    """Return a row for each output, then the signatures, which are the same for all."""
    lines = [f"{'':25}{'BLEU':>6}{'chrF':>6}"]
    for output, label in (MODELS | BASELINES).items():
        bleu, chrf = (scores[output][metric]["score"] for metric in ("bleu", "chrf"))
        lines.append(f"{label:25}{bleu:6.1f}{chrf:6.1f}")
    signatures = (f"{metric}: {made['signature']}" for metric, made in scores["averaged"].items())
    return "\n".join([*lines, "", *signatures])


def translations(src: list[str], references: list[str], hypotheses: list[str]) -> str:
    """Return lines spread evenly over the test, each with its reference and its translation."""
    chosen = range(0, len(src), max(1, len(src) // SHOWN))[:SHOWN]
    return "\n\n".join(
        f"line {n + 1}: {'same' if hypotheses[n] == references[n] else 'different'}\n"
        f"  source      {src[n]}\n  reference   {references[n]}\n  translation {hypotheses[n]}"
        for n in chosen
    )


def failures(scores: Scores) -> list[str]:
    """Return the problems of the scores; none if they are as expected."""
    bleu = {output: float(made["bleu"]["score"]) for output, made in scores.items()}
    weak = [f"{output} is not above 95 BLEU" for output in MODELS if bleu[output] <= 95]
    strong = [f"{output} is not below 50 BLEU" for output in BASELINES if bleu[output] >= 50]
    return weak + strong


def main() -> int:
    """Print the report on a work folder; return 1 if a score is not as expected."""
    work = Path(sys.argv[1])
    scores: Scores = {
        output: json.loads((work / "out" / f"{output}.json").read_text(encoding="utf-8"))
        for output in MODELS | BASELINES
    }
    src, references = (read_lines(work / "text" / f"test.{side}") for side in ("en", "de"))
    hypotheses = read_lines(work / "out" / "averaged.de")
    print(table(scores), translations(src, references, hypotheses), sep="\n\n")
    for problem in failures(scores):
        print(f"report.py: {problem}", file=sys.stderr)
    return 1 if failures(scores) else 0


if __name__ == "__main__":
    sys.exit(main())
