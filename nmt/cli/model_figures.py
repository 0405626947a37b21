"""What a recipe's model has, does and takes, as rows for people: parameters, work and memory."""

from __future__ import annotations

from dataclasses import replace

from nmt.config import Recipe
from nmt.data.batches import LengthSums
from nmt.files import megabytes
from nmt.models.flops import MULTIPLY_ADDS, decoding_multiply_adds
from nmt.models.parameters import parameter_parts
from nmt.models.presets import TABLE_3
from nmt.models.registry import build_model, shapes_only
from nmt.training.memory import even_batch, held_bytes, micro_batch_bytes


def model_figures(
    recipe: Recipe, vocab_size: int, length: int, micro_batch_tokens: int
) -> dict[str, str]:
    """Return names of figures, and the figures.

    Args:
        recipe: of the model and of its training.
        vocab_size: of the joint vocabulary.
        length: of the sentences, in tokens of either side, eos counted.
        micro_batch_tokens: of either side; no fewer than `length`.
    """
    with shapes_only():
        model = build_model(recipe.architecture, recipe.model, vocab_size, vocab_size).eval()
    parts = parameter_parts(model)
    total = sum(count for kinds in parts.values() for count in kinds.values())
    rows = {f"parameters, joint vocabulary of {vocab_size:,}": f"{total:,}"}
    for part, kinds in parts.items():
        rows[f"parameters: {part}"] = f"{sum(kinds.values()):,}"
        if len(kinds) > 1:
            rows |= {f"parameters: {part}: {kind}": f"{n:,}" for kind, n in kinds.items()}

    pair = LengthSums(length, length, length**2, length**2, length**2)
    training = MULTIPLY_ADDS[recipe.architecture](recipe.model, vocab_size, pair)
    middle = (length + 1) // 2  # where a step does about the mean of all of them
    encoding, step = decoding_multiply_adds(model, length, middle)
    work = "multiply-adds a target token"
    rows[f"{work}: training, forward pass, {length} tokens a side"] = f"{training / length:,.0f}"
    rows[f"{work}: decoding, step {middle} after {length} source tokens"] = f"{step:,}"
    rows[f"{work}: decoding, and its share of encoding"] = f"{step + encoding / length:,.0f}"

    sizes = vocab_size, vocab_size
    batch = even_batch(micro_batch_tokens, length, vocab_size)
    for precision in ("fp32", "bf16"):
        asked = replace(recipe, training=replace(recipe.training, precision=precision))
        held = held_bytes(asked, sizes)
        held[f"micro-batch of {micro_batch_tokens:,} tokens a side"] = micro_batch_bytes(
            asked, sizes, batch
        )
        rows |= {f"memory in {precision}: {name}": megabytes(n) for name, n in held.items()}

    if recipe.preset in TABLE_3:
        paper = TABLE_3[recipe.preset]
        rows |= {
            "Table 3 of the paper: row": paper.row,
            "Table 3 of the paper: parameters": f"{paper.parameters}M",
            "Table 3 of the paper: perplexity on newstest2013": f"{paper.perplexity:.2f}",
            "Table 3 of the paper: BLEU on newstest2013": f"{paper.bleu:.1f}",
        }
    return rows
