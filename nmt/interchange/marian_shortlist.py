"""Marian's shortlists: the target tokens among which it looks for the tokens of a translation.

The tokens of a translation are nearly always among the most probable translations of its source's
tokens and the most frequent tokens of all (Schwenk et al. 2007; Jean et al. 2015, section 3.2).
Marian joins the lists of a batch's tokens. It asks for no frequent tokens, but for the first ones
by id. So the frequent ones are the list of eos, which ends each source.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nmt import console
from nmt.data.folder import DataFolder
from nmt.data.vocabulary import EOS_ID
from nmt.lexical.ibm_model1 import LEXICON_STEPS, learn_lexicon

FIRST = 50  # so many tokens by id are on the list of each source
_MAGIC = struct.pack("<Q", 0xF11A48D5013417F5)


Lists = Sequence[NDArray[np.int64]]
"""The target tokens that may translate each source token, ascending."""


def learn_lists(data: DataFolder, *, frequent: int, best: int, src_size: int) -> Lists:
    """Learn lists from the training pairs, by IBM Model 1.

    frequent: the number of most frequent target tokens.
    best: the number of most probable translations of each source token.
    src_size: of the source vocabulary, which may have got unused pieces at its end.
    """
    sizes = len(data.src_vocabulary), len(data.tgt_vocabulary)
    with console.progress("learning the shortlist", total=LEXICON_STEPS, unit="steps") as bar:
        lexicon = learn_lexicon(data.train, *sizes, on_progress=bar.update)
    lists = [np.sort(row[row >= 0]) for row in lexicon.best(min(best, sizes[1]), src_size)]
    lists[EOS_ID] = np.sort(np.argsort(-lexicon.target_counts, kind="stable")[:frequent])
    if not len(lists[-1]):
        lists[-1] = np.array([EOS_ID])  # Marian's check wants the last list to have something
    return lists


def content_of(lists: Lists, best: int) -> bytes:
    """Return a file: counts, where each list begins and the last one ends, and the lists.

    best: the length of the longest list, but for that of eos.
    """
    ends, tokens = np.cumsum([0, *map(len, lists)]), np.concatenate(lists)
    counted = struct.pack("<4Q", FIRST, best, len(ends), len(tokens))
    counted += ends.astype("<u8").tobytes() + tokens.astype("<u4").tobytes()
    return _MAGIC + struct.pack("<Q", _checksum(counted)) + counted


def _checksum(content: bytes) -> int:
    """Return Marian's hash of whole 64-bit numbers, as boost::hash_combine has it."""
    total = 0
    for number in np.frombuffer(content, "<u8", len(content) // 8).tolist():
        total ^= (number + 0x9E3779B9 + (total << 6) + (total >> 2)) & (1 << 64) - 1
    return total
