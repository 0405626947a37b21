"""Compound splitting, as the English-German figures of Vaswani et al. (2017) were computed.

Each hyphen inside a word of tokenised text becomes a token of its own: `rich-text` is scored as
`rich ##AT##-##AT## text`. So do tensor2tensor's `get_ende_bleu.sh` and fairseq's
`compound_split_bleu.sh`, after the preparation of WMT14 by Luong et al. (2015). It makes more
n-grams match, and BLEU higher.
"""

from __future__ import annotations

import re

# Of bytes, because in both scripts perl reads bytes: a letter that is two of them can end one match
# and begin the next.
_HYPHEN = re.compile(rb"(\S)-(\S)")


def split_compounds(line: str) -> str:
    """Return a line of tokens with the hyphens inside them apart."""
    return _HYPHEN.sub(rb"\1 ##AT##-##AT## \2", line.encode()).decode()
