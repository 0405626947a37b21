"""Choose what a student learns: `choose.py LISTS TEXT.en TEXT.de OUT.en OUT.de [MIN_CHRF]`.

Of each line's n-best list, the translation with the highest sentence BLEU against the reference
(interpolated sequence-level distillation, Kim and Rush 2016, section 3.3). If even that has a chrF
below MIN_CHRF, teacher and reference hardly agree, so one of them is wrong, mostly the teacher:
the line is left out.
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


def choose(texts: list[str], reference: str, min_chrf: float) -> str | None:
    """Return the translation with the best sentence BLEU, or None if its chrF is too low."""
    best = max(texts, key=lambda text: BLEU_OF_A_LINE.sentence_score(text, [reference]).score)
    chrf = CHRF_OF_A_LINE.sentence_score(best, [reference]).score
    return best if best and chrf >= min_chrf else None


def read_lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


def main(lists: Path, src: Path, tgt: Path, outs: tuple[Path, Path], min_chrf: float) -> None:
    """Write the pairs, both files under their names only when they are complete."""
    sources, references = read_lines(src), read_lines(tgt)
    chosen = [
        (sources[number], best, rank)
        for number, texts in n_best_lists(lists)
        if (best := choose(texts, references[number], min_chrf)) is not None
        for rank in [texts.index(best)]
    ]
    for side, out in enumerate(outs):
        partial = out.with_name(f"{out.name}.partial")
        partial.write_text("".join(f"{pair[side]}\n" for pair in chosen), encoding="utf-8")
        partial.replace(out)
    print(
        f"{out.parent}: kept {len(chosen):,} of {len(sources):,} lines; the best translation was "
        f"the teacher's first in {sum(rank == 0 for *_, rank in chosen):,}"
    )


if __name__ == "__main__":
    lists, src, tgt, *outs = map(Path, sys.argv[1:6])
    main(lists, src, tgt, (outs[0], outs[1]), float(*sys.argv[6:] or ["0"]))
