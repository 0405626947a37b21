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
from functools import cache, partial

from nmt.data.languages import primary_language
from nmt.data.moses import tokenized, tokenizer_name
from nmt.errors import UsageError
from nmt.scoring.metrics import Metric, References, Variant, bleu_variant
from nmt.scoring.tokenizers import is_without_spaces, tokenizer_for

# Over bytes, as perl reads both scripts: a letter of two bytes can end one match and begin the
# next.
_HYPHEN = re.compile(rb"(\S)-(\S)")


def split_compounds(line: str) -> str:
    """Split the words of a tokenised line at their hyphens."""
    return _HYPHEN.sub(rb"\1 ##AT##-##AT## \2", line.encode()).decode()


_FOR_COMPARISON = "; only for comparison"


def bleu_card(references: References, lang: str) -> dict[str, Metric]:
    """Return key -> variant of BLEU, the one to report first.

    lang: of the references. Its rules tokenise them, and German has one more variant.
    UsageError: for a language that is written without spaces.
    """
    language = primary_language(lang)
    if is_without_spaces(lang):
        raise UsageError(
            f"--card: Moses' tokenizer does not split {lang} into words; leave out --card, then "
            f"BLEU's tokenizer is {tokenizer_for(lang)}"
        )
    moses = tokenizer_name(language)
    tokenize = cache(partial(tokenized, lang=language))
    card = {
        "bleu": Variant("BLEU", "sacreBLEU scores; the one to report"),
        "bleu-lowercase": Variant("lower-cased BLEU", f"sacreBLEU -lc scores{_FOR_COMPARISON}"),
        "bleu-tokenised": Variant(
            "tokenised BLEU",
            "multi-bleu.perl and fairseq-generate on Moses' tokens, as En-Fr of Vaswani et al. "
            f"2017{_FOR_COMPARISON}",
            moses,
            tokenize,
        ),
        "bleu-compounds": Variant(
            "compound-split BLEU",
            "En-De of Vaswani et al. 2017, tensor2tensor's get_ende_bleu.sh, fairseq's "
            f"compound_split_bleu.sh{_FOR_COMPARISON}",
            f"{moses}-compounds",
            lambda line: split_compounds(tokenize(line)),
        ),
        "bleu-tokenised-lowercase": Variant(
            "lower-cased tokenised BLEU",
            f"the same on lower-cased tokens, as fairseq's IWSLT14 De-En{_FOR_COMPARISON}",
            moses,
            tokenize,
        ),
    }
    if language != "de":
        del card["bleu-compounds"]
    return {
        key: bleu_variant(references, variant, lowercase=key.endswith("lowercase"))
        for key, variant in card.items()
    }
