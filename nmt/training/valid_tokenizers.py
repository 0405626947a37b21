"""BLEU's tokenizer in validation: one for each pair of languages, chosen when a run starts.

A recipe's `validate_tokenizer` is one name, or one for each pair: `en-de:13a,en-zh:zh`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nmt import console
from nmt.config import TrainingConfig
from nmt.data.folder import DataFolder
from nmt.data.language_tokens import spell_pair
from nmt.distributed import Ranks
from nmt.errors import UsageError, did_you_mean
from nmt.scoring.metrics import make_metrics
from nmt.scoring.options import TOKENIZERS
from nmt.scoring.tokenizers import has_packages, missing_packages, tokenizer_for

_AUTO = "auto"


def settled_tokenizers(config: TrainingConfig, named: str, data: DataFolder, ranks: Ranks) -> str:
    """Return the tokenizer of each pair, as `validate_tokenizer` has them.

    Every rank scores, so what a tokenizer needs must be installed for all of them.

    Args:
        config: the recipe's values.
        named: the recipe's `validate_tokenizer`, or that of the run that goes on.
        data: the data folder.
        ranks: all of them take part.

    Raises:
        UsageError: if the run computes BLEU, and the packages of a tokenizer are missing.
        DataError: if the model of a tokenizer cannot be downloaded.
    """
    usable = [name for name in TOKENIZERS if has_packages(name)]
    usable = [name for name in TOKENIZERS if all(name in one for one in ranks.gather(usable))]
    tokenizers = tokenizers_of(named, data, is_installed=usable.__contains__)
    computes_bleu = "bleu" in config.metrics or (config.valid_old and old_metric(config) == "bleu")
    for pair, tokenizer in tokenizers.items():
        if computes_bleu and tokenizer not in usable:
            raise UsageError(
                f"BLEU of {pair} is computed with {tokenizer} (validate_tokenizer), which "
                f"{missing_packages(tokenizer)}"
            )
    if computes_bleu:
        with ranks.together():  # a model is downloaded now, and once, not at the first validation
            if ranks.local_rank == 0:
                for tokenizer in set(tokenizers.values()):
                    make_metrics(["bleu"], [["a"]], tokenize=tokenizer)
    if named == _AUTO:  # with the pairs, so that a recipe for other languages does not keep it
        return _spelled(tokenizers)
    if config.validate_tokenizer == _AUTO and ranks.is_first and computes_bleu:
        chosen_now = tokenizers_of(_AUTO, data, is_installed=usable.__contains__)
        if chosen_now != tokenizers:
            console.notice(
                f"BLEU of validation goes on with the tokenizer that this run began with, "
                f"{_spelled(tokenizers)}; a new run would take {_spelled(chosen_now)}"
            )
    return named


def _spelled(tokenizers: Mapping[str, str]) -> str:
    """Return the tokenizer of each pair as a recipe's `validate_tokenizer` has them."""
    return ",".join(f"{pair}:{tokenizer}" for pair, tokenizer in tokenizers.items())


def tokenizers_of(
    named: str, data: DataFolder, *, is_installed: Callable[[str], bool] | None = None
) -> dict[str, str]:
    """Return the tokenizer of each pair of languages of valid.

    Args:
        named: a recipe's validate_tokenizer.
        data: the data folder.
        is_installed: for auto, tells whether the packages of a tokenizer are there.

    Raises:
        UsageError: if a name is unknown, or the pairs are not those of the data.
    """
    targets = {spell_pair(text.langs): text.langs[1] for text in data.valid_texts}
    if named == _AUTO:
        return {
            pair: tokenizer_for(tgt, is_installed=is_installed) for pair, tgt in targets.items()
        }
    if ":" in named:
        entries = (entry.rpartition(":") for entry in named.split(","))
        tokenizers = {pair.strip(): name.strip() for pair, _, name in entries}
        if tokenizers.keys() != targets.keys():
            raise UsageError(
                f"validate_tokenizer has {', '.join(tokenizers)}, but {data.path} has "
                f"{', '.join(targets)}; name a tokenizer for each pair, or set "
                f"validate_tokenizer={_AUTO}"
            )
    else:
        tokenizers = dict.fromkeys(targets, named)
    for name in tokenizers.values():
        if name not in TOKENIZERS:
            known = did_you_mean(name, [*TOKENIZERS, _AUTO])
            raise UsageError(f"validate_tokenizer: unknown tokenizer {name!r}{known}")
    return {pair: tokenizers[pair] for pair in targets}


def old_metric(config: TrainingConfig) -> str:
    """Return the metric of valid_old: bleu or chrf."""
    return "bleu" if config.validate_metric == "none" else config.validate_metric
