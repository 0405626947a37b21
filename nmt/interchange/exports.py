"""What all exports share: what hinders them, and what they may replace."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nmt.data.vocabulary import Vocabulary
from nmt.errors import UsageError
from nmt.models.model_file import ModelCard, load_model
from nmt.models.transformer import Transformer

TAKE_CTRANSLATE2 = "take nmt export ctranslate2"


def load_transformer(path: Path) -> tuple[Transformer, ModelCard]:
    """Load a model that fits a format such as Marian's."""
    model, card = load_model(path)
    assert isinstance(model, Transformer)  # or it would not fit
    return model, card


def write_vocabularies(folder: Path, names: Sequence[str], card: ModelCard) -> None:
    """Write the SentencePiece models of source and target; one name: that of both."""
    for name, vocabulary in zip(names, (card.src_vocabulary, card.tgt_vocabulary), strict=False):
        (folder / name).write_bytes(vocabulary.model)


def not_segmented(vocabulary: Vocabulary) -> str | None:
    """Return what a vocabulary does to text besides SentencePiece's segmentation, and advice."""
    if vocabulary.moses is not None:
        return (
            "the Moses preprocessing of its vocabulary; prepare the data without --moses options, "
            f"or {TAKE_CTRANSLATE2}"
        )
    if vocabulary.has_added_tokens:
        return f"the tokens that were added to its vocabulary; {TAKE_CTRANSLATE2}"
    return None


def check_replaceable(out: Path, *, is_export: bool) -> None:
    """Refuse to replace what is no export (UsageError)."""
    if out.exists() and not is_export:
        raise UsageError(f"{out}: exists and is not an export; choose another folder or remove it")
