"""What all exports share: what hinders them, and what they may replace."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from nmt.data.vocabulary import Vocabulary
from nmt.errors import UsageError
from nmt.models.model_file import ModelCard, load_model
from nmt.models.transformer import Transformer

TAKE_CTRANSLATE2 = "take nmt export ctranslate2"


def expressed_model(
    path: Path, fault_of: Callable[[ModelCard], str | None]
) -> tuple[Transformer, ModelCard]:
    """Load a model, unless it is none that a program such as Marian can be (UsageError)."""
    model, card = load_model(path)
    if fault := fault_of(card):
        raise UsageError(f"{path}: {fault}")
    assert isinstance(model, Transformer)
    return model, card


def not_segmented(vocabulary: Vocabulary) -> str | None:
    """Return what a vocabulary does to text besides SentencePiece's segmentation, and advice."""
    if vocabulary.moses is not None:
        return (
            "the Moses preprocessing of its vocabulary; prepare the data without "
            f"--moses-normalize and --moses-tokenize, or {TAKE_CTRANSLATE2}"
        )
    if vocabulary.has_added_tokens:
        return f"the tokens that were added to its vocabulary; {TAKE_CTRANSLATE2}"
    return None


def check_replaceable(out: Path, *, is_export: bool) -> None:
    """Refuse to replace what is no export (UsageError)."""
    if out.exists() and not is_export:
        raise UsageError(f"{out}: exists and is not an export; choose another folder or remove it")
