"""How well a model's alignments fit: `PYTHONPATH=tests python -m benchmarks.alignment -h`.

The test set of a data folder is aligned with its references, by forced decoding. Of the target
tokens that `nmt.lexical.alignment_links` links by IBM Model 1, we count how many have the most
attention at the source token of their link.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmt.data.batches import NO_LINK
from nmt.data.folder import DataFolder
from nmt.data.shards import TokenRows
from nmt.lexical.alignment_links import TokenLinker
from nmt.translate.translator import Translator


def main() -> None:
    """Print the figures of some models."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("data", type=Path, help="a data folder with a test set")
    parser.add_argument("models", nargs="*", type=Path, help="model files or run folders")
    options = parser.parse_args()

    data = DataFolder.open(options.data)
    assert data.test is not None, f"{options.data} has no test set; prepare it with --test"
    src, tgt = data.test.rows(np.arange(len(data.test)))
    linker = TokenLinker.learn(data.train, len(data.src_vocabulary), len(data.tgt_vocabulary))
    links = linker(src, tgt)
    print(f"{np.mean(links != NO_LINK):.1%} of the target tokens have links by IBM Model 1")
    for model in options.models:
        found = attended(model, src, tgt)
        agreement = np.mean((found == links)[links != NO_LINK])
        print(f"{model}: agreement {agreement:.1%}")


def attended(model: Path, src: TokenRows, tgt: TokenRows) -> NDArray[np.int64]:
    """Return the source position with the most attention of each target token: (tokens,)."""
    sources, targets = ([tuple(row.tolist()) for row in split(side)] for side in (src, tgt))
    attention = Translator.load(str(model)).engine.attention(
        list(zip(sources, targets, strict=True))
    )
    return np.concatenate([weights.argmax(axis=1) for weights in attention if weights is not None])


def split(rows: TokenRows) -> Iterable[NDArray[np.integer[Any]]]:
    """Yield each row."""
    for start, end in pairwise((0, *np.cumsum(rows.lengths).tolist())):
        yield rows.ids[start:end]


if __name__ == "__main__":
    main()
