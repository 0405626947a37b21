"""Choose what a student learns: `choose.py LISTS TEXT.en TEXT.de OUT.en OUT.de [KEEP [MIN_CHRF]]`.

Of each line's n-best list, the KEEP translations with the highest sentence BLEU against the
reference. With one, this is interpolated sequence-level distillation (Kim and Rush 2016, section
3.3); with more, the student also sees how else the teacher would say it. A translation whose chrF
is below MIN_CHRF is left out: teacher and reference hardly agree, so one of them is wrong, mostly
the teacher.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

from sacrebleu import BLEU, CHRF

BLEU_OF_A_LINE, CHRF_OF_A_LINE = BLEU(effective_order=True), CHRF()


def n_best_lists(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Read the number of each line, from 0, and its translations: `LINE ||| TEXT ||| SCORE`."""
    with path.open(encoding="utf-8", newline="\n") as file:
        entries = (line.rstrip("\n").split(" ||| ", 1) for line in file)
        for number, entry in itertools.groupby(entries, key=lambda entry: int(entry[0])):
            yield number, [text.rpartition(" ||| ")[0] for _, text in entry]


def choose(texts: list[str], reference: str, keep: int, min_chrf: float) -> list[str]:
    """Return the translations with the best sentence BLEU, less those whose chrF is too low."""
    ranked = sorted(
        filter(None, texts),
        key=lambda text: BLEU_OF_A_LINE.sentence_score(text, [reference]).score,
        reverse=True,
    )
    return [
        text
        for text in ranked[:keep]
        if CHRF_OF_A_LINE.sentence_score(text, [reference]).score >= min_chrf
    ]


def read_lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


def main(
    lists: Path, src: Path, tgt: Path, outs: tuple[Path, Path], keep: int = 1, min_chrf: float = 0
) -> None:
    """Write the pairs, both files under their names only when they are complete."""
    sources, references = read_lines(src), read_lines(tgt)
    pairs: list[tuple[str, str]] = []
    kept = first = 0
    for number, texts in n_best_lists(lists):
        chosen = choose(texts, references[number], keep, min_chrf)
        pairs += [(sources[number], text) for text in chosen]
        kept += bool(chosen)
        first += chosen[:1] == texts[:1]
    for side, out in enumerate(outs):
        partial = out.with_name(f"{out.name}.partial")
        partial.write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
        partial.replace(out)
    print(
        f"{out.parent}: {len(pairs):,} pairs of {kept:,} of {len(sources):,} lines; the best "
        f"translation was the teacher's first in {first:,}"
    )


if __name__ == "__main__":
    lists, src, tgt, *outs = map(Path, sys.argv[1:6])
    numbers = sys.argv[6:]
    main(lists, src, tgt, (outs[0], outs[1]), *map(int, numbers[:1]), *map(float, numbers[1:]))
