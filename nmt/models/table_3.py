"""What the paper reports of its own models: facts, which nothing here computes.

They are those of Table 3 of "Attention Is All You Need" (Vaswani et al. 2017): English to German,
measured on newstest2013 without averaging checkpoints; perplexity by subword, and tokenised BLEU.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PaperResult:
    """A row of Table 3."""

    row: str
    perplexity: float
    bleu: float
    parameters: int = 65
    """In millions; where the table has none, it means those of the base model."""


TABLE_3: dict[str, PaperResult] = {
    "transformer_base": PaperResult("base", 4.92, 25.8),
    "transformer_base_heads1": PaperResult("A", 5.29, 24.9),
    "transformer_base_heads4": PaperResult("A", 5.00, 25.5),
    "transformer_base_heads16": PaperResult("A", 4.91, 25.8),
    "transformer_base_heads32": PaperResult("A", 5.01, 25.4),
    "transformer_base_dk16": PaperResult("B", 5.16, 25.1, 58),
    "transformer_base_dk32": PaperResult("B", 5.01, 25.4, 60),
    "transformer_base_layers2": PaperResult("C", 6.11, 23.7, 36),
    "transformer_base_layers4": PaperResult("C", 5.19, 25.3, 50),
    "transformer_base_layers8": PaperResult("C", 4.88, 25.5, 80),
    "transformer_base_dmodel256": PaperResult("C", 5.75, 24.5, 28),
    "transformer_base_dmodel1024": PaperResult("C", 4.66, 26.0, 168),
    "transformer_base_dff1024": PaperResult("C", 5.12, 25.4, 53),
    "transformer_base_dff4096": PaperResult("C", 4.75, 26.2, 90),
    "transformer_base_dropout0": PaperResult("D", 5.77, 24.6),
    "transformer_base_dropout0.2": PaperResult("D", 4.95, 25.5),
    "transformer_base_smoothing0": PaperResult("D", 4.67, 25.3),
    "transformer_base_smoothing0.2": PaperResult("D", 5.47, 25.7),
    "transformer_base_learned_positions": PaperResult("E", 4.92, 25.7),
    "transformer_big": PaperResult("big", 4.33, 26.4, 213),
}
"""By the preset that stands for the row."""
