"""How well alignments of models fit: `PYTHONPATH=tests python -m benchmarks.alignment DATA MODEL`.

The test set of a data folder is aligned with its references, by forced decoding. Of the target
tokens that `nmt.lexical.alignment_links` links by IBM Model 1, we count how many have the most
attention at the source token of their link.
"""

import sys
from pathlib import Path

import numpy as np

from nmt.data.batches import NO_LINK
from nmt.data.folder import DataFolder
from nmt.lexical.alignment_links import TokenLinker
from nmt.translate.translator import Translator


def main(folder: str, *models: str) -> None:
    """Print the figures of some models: files or run folders."""
    data = DataFolder.open(Path(folder))
    assert data.test is not None, f"{folder} has no test set; prepare it with --test"
    linker = TokenLinker.learn(data.train, len(data.src_vocabulary), len(data.tgt_vocabulary))
    numbers = range(len(data.test))
    links = linker(*data.test.rows(np.array(numbers)))
    print(f"{np.mean(links != NO_LINK):.1%} of the target tokens have links by IBM Model 1")
    pairs = [
        (tuple(data.test.src(number).tolist()), tuple(data.test.tgt(number).tolist()))
        for number in numbers
    ]
    for model in models:
        attention = Translator.load(model).engine.attention(pairs)
        found = np.concatenate([one.argmax(axis=1) for one in attention if one is not None])
        print(f"{model}: agreement {np.mean((found == links)[links != NO_LINK]):.1%}")


if __name__ == "__main__":
    main(*sys.argv[1:])
