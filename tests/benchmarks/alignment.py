"""How well a model's alignments fit: `PYTHONPATH=tests python -m benchmarks.alignment -h`.

The test set of a data folder is aligned with its references, by forced decoding. Two figures:

- Agreement: of the target tokens that `nmt.lexical.alignment_links` links by IBM Model 1, how many
  have the most attention at the source token of their link.
- The alignment error rate (AER; Och and Ney 2003) against known links of words, such as those of
  examples/toy: 1 - 2 * (found and known) / (found + known). A model links each target token with
  the source token of the most attention.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmt.data.batches import NO_LINK
from nmt.data.folder import DataFolder
from nmt.data.shards import TokenRows
from nmt.lexical.alignment_links import TokenLinker
from nmt.translate.alignment import align_words
from nmt.translate.translator import Translator

Words = set[tuple[int, int]]


def main() -> None:
    """Print the figures of some models."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("data", type=Path, help="a data folder with a test set")
    parser.add_argument("models", nargs="*", type=Path, help="model files or run folders")
    parser.add_argument("--links", type=Path, help="known links of the test set: 0-0 1-2")
    options = parser.parse_args()

    data = DataFolder.open(options.data)
    assert data.test is not None, f"{options.data} has no test set; prepare it with --test"
    src, tgt = data.test.rows(np.arange(len(data.test)))
    linker = TokenLinker.learn(data.train, len(data.src_vocabulary), len(data.tgt_vocabulary))
    links = linker(src, tgt)
    known = None if options.links is None else [pairs(line) for line in lines(options.links)]
    print(f"{np.mean(links != NO_LINK):.1%} of the target tokens have links by IBM Model 1")
    if known is not None:
        print(f"IBM Model 1: AER {aer(words(data, src, tgt, links), known):.1%}")
    for model in options.models:
        found = attended(model, src, tgt)
        agreement = np.mean((found == links)[links != NO_LINK])
        error = "" if known is None else f", AER {aer(words(data, src, tgt, found), known):.1%}"
        print(f"{model}: agreement {agreement:.1%}{error}")


def attended(model: Path, src: TokenRows, tgt: TokenRows) -> NDArray[np.int64]:
    """Return the source position with the most attention of each target token: (tokens,)."""
    sources, targets = ([tuple(row.tolist()) for row in split(side)] for side in (src, tgt))
    attention = Translator.load(str(model)).engine.attention(
        list(zip(sources, targets, strict=True))
    )
    return np.concatenate([weights.argmax(axis=1) for weights in attention if weights is not None])


def words(
    data: DataFolder, src: TokenRows, tgt: TokenRows, links: NDArray[np.int64]
) -> list[Words]:
    """Return the pairs of words of each line whose subwords are linked."""
    found = []
    of_lines = split(TokenRows(links, tgt.lengths))  # type: ignore[arg-type]
    for source, target, places in zip(split(src), split(tgt), of_lines, strict=True):
        is_linked = places != NO_LINK
        # A token without a link is left out with its word mark kept: it aligns with no word.
        tokens = data.src_vocabulary.tokens(source.tolist())
        aligned = align_words(
            np.where(is_linked, places, len(tokens)).tolist(),
            [*tokens, ""],
            data.tgt_vocabulary.tokens(target.tolist()),
        )
        found.append(set(aligned))
    return found


def aer(found: Sequence[Words], known: Sequence[Words]) -> float:
    """Return the alignment error rate, with all known links sure."""
    both = sum(len(ours & theirs) for ours, theirs in zip(found, known, strict=True))
    return 1 - 2 * both / (sum(map(len, found)) + sum(map(len, known)))


def split(rows: TokenRows) -> Iterable[NDArray[np.integer[Any]]]:
    """Yield each row."""
    for start, end in pairwise((0, *np.cumsum(rows.lengths).tolist())):
        yield rows.ids[start:end]


def lines(path: Path) -> list[str]:
    """Read the lines of a file."""
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def pairs(line: str) -> Words:
    """Read links in the Pharaoh form: 0-0 1-2."""
    return {(int(a), int(b)) for a, b in (link.split("-") for link in line.split())}


if __name__ == "__main__":
    main()
