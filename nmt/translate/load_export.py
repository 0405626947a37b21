"""Load exports for CTranslate2, without torch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from nmt.errors import DataError, UsageError
from nmt.interchange.ctranslate2_manifest import Export
from nmt.models.model_file import CARD, read_card
from nmt.search.ctranslate2_engine import CTranslate2Engine, import_ctranslate2
from nmt.search.engine import Engine
from nmt.translate.language_pair import LanguagePair
from nmt.translate.options import TranslationConfig


def load(
    config: TranslationConfig,
    *,
    device: str,
    workers: int,
    threads: int,
    batch_tokens: int | None = None,
    with_scores: bool = True,
) -> tuple[Engine, LanguagePair]:
    """Load an export.

    device: cpu or cuda.
    workers: translations in parallel; one per GPU.
    threads, batch_tokens: of each.
    with_scores: see `CTranslate2Engine`.
    UsageError if CTranslate2 is not installed, or does not support an option or the type. DataError
    if the export is damaged.
    """
    ctranslate2 = import_ctranslate2()
    (folder,) = config.models
    before = _states(folder)
    export, card = Export.open(folder), read_card(folder / CARD)
    language_pair = LanguagePair.from_card(card, config.src_lang, config.tgt_lang)
    vocabularies = language_pair.src_vocabulary, language_pair.tgt_vocabulary
    longest = config.search.longest(language_pair.max_src_tokens) + len(vocabularies[1].first)
    if longest >= export.positions:
        raise UsageError(
            f"{folder}: has positions for {export.positions} tokens, but a translation may have "
            f"{longest}; lower --max-extra-tokens, --max-tokens or --min-tokens"
        )
    try:
        model = ctranslate2.Translator(
            str(folder),
            device=device,
            device_index=list(range(workers)) if device == "cuda" else 0,
            compute_type=export.quantization,
            inter_threads=1 if device == "cuda" else workers,
            intra_threads=threads,
            max_queued_batches=-1,  # the engine limits them itself
        )
    except ValueError as error:
        raise UsageError(f"{folder}: {error}; export it with another --quantization") from None
    except RuntimeError as error:
        raise DataError(f"{folder}: CTranslate2 cannot load it: {error}") from None
    if _states(folder) != before:
        raise DataError(f"{folder}: was changed while it was loaded; run the same command again")
    form = config.search.length_penalty_form or "power"
    options = replace(config.search, length_penalty_form=form).into(vocabularies[1])
    engine = CTranslate2Engine(
        model,
        options,
        vocabularies,
        src_tokens=export.src_tokens(folder, len(vocabularies[0])),
        most_tokens=export.positions - len(vocabularies[1].first) - 1,
        workers=workers,
        batch_tokens=batch_tokens,
        with_scores=with_scores,
    )
    return engine, language_pair


def count_gpus() -> int:
    """Return the GPUs that CTranslate2 can use."""
    count: int = import_ctranslate2().get_cuda_device_count()
    return count


def _states(folder: Path) -> dict[str, tuple[int, int]]:
    """Return the size and time of each file of an export."""
    statuses = {file.name: file.stat() for file in folder.iterdir()}
    return {name: (status.st_size, status.st_mtime_ns) for name, status in statuses.items()}
