"""The BLEU card: every variant of BLEU in use, and the published scores it can be compared with.

Four variants of BLEU are in use in machine translation, and they differ by points. Report
sacreBLEU's score. Use the others only to compare with papers that computed them.

Compound splitting is the variant of the English-German scores of Vaswani et al. (2017). Each hyphen
inside a word of tokenised text becomes a token: `rich-text` is scored as `rich ##AT##-##AT## text`,
as in tensor2tensor's `get_ende_bleu.sh` and fairseq's `compound_split_bleu.sh`, after the WMT14
preparation of Luong et al. (2015). More n-grams match, so BLEU is higher.
"""

from __future__ import annotations

import re
from functools import cache

from nmt.data.languages import primary_language
from nmt.data.moses import PlainMoses
from nmt.errors import UsageError
from nmt.scoring.metrics import Measure, References, Variant, bleu_variant

# Of bytes, because in both scripts perl reads bytes: a letter that is two of them can end one match
# and begin the next.
_HYPHEN = re.compile(rb"(\S)-(\S)")


def split_compounds(line: str) -> str:
    """Return a line of tokens with the hyphens inside them apart."""
    return _HYPHEN.sub(rb"\1 ##AT##-##AT## \2", line.encode()).decode()


_WITHOUT_SPACES = {"zh": "zh", "yue": "zh", "ja": "char", "th": "char", "lo": "char", "km": "char"}
"""Languages of which Moses' tokenizer makes no words -> sacreBLEU's tokenizer to take instead."""

_FOR_COMPARISON = "; only for comparison"


def bleu_card(references: References, lang: str) -> dict[str, Measure]:
    """Return key -> variant of BLEU, the one to report first.

    lang: of the references: its rules tokenise them, and German has a variant of its own.

    Raises UsageError for a language that is written without spaces.
    """
    language = primary_language(lang)
    if language in _WITHOUT_SPACES:
        raise UsageError(
            f"--card: Moses' tokenizer, which it is about, makes no words of {lang}; "
            f"score with --tokenize {_WITHOUT_SPACES[language]}"
        )
    moses = PlainMoses(language)
    tokenize = cache(moses.tokenize)
    card = {
        "bleu": bleu_variant(references, Variant("BLEU", "sacreBLEU figures; the one to report")),
        "bleu-lowercase": bleu_variant(
            references,
            Variant("lower-cased BLEU", f"sacreBLEU -lc figures{_FOR_COMPARISON}"),
            lowercase=True,
        ),
        "bleu-tokenised": bleu_variant(
            references,
            Variant(
                "tokenised BLEU",
                "multi-bleu.perl and fairseq-generate on Moses' tokens, as En-Fr of Vaswani et al. "
                f"2017{_FOR_COMPARISON}",
                moses.name,
                tokenize,
            ),
        ),
    }
    if language == "de":
        card["bleu-compounds"] = bleu_variant(
            references,
            Variant(
                "compound-split BLEU",
                "En-De of Vaswani et al. 2017, tensor2tensor's get_ende_bleu.sh, fairseq's "
                f"compound_split_bleu.sh{_FOR_COMPARISON}",
                f"{moses.name}-compounds",
                lambda line: split_compounds(tokenize(line)),
            ),
        )
    card["bleu-tokenised-lowercase"] = bleu_variant(
        references,
        Variant(
            "lower-cased tokenised BLEU",
            f"the same on tokens made lower-case, as fairseq's IWSLT14 De-En{_FOR_COMPARISON}",
            moses.name,
            tokenize,
        ),
        lowercase=True,
    )
    return card
