#!/usr/bin/env python3
"""Print Table 3 in Markdown: the results of each finished run beside the paper's.

    python results.py RUNS DATA

RUNS holds a run folder for each row, named after its preset, with BLEU in score.json.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nmt.cli.command import run
from nmt.data.batches import LengthSums
from nmt.data.folder import DataFolder
from nmt.data.language_tokens import spell_pair
from nmt.errors import NMTError
from nmt.models.flops import training_flops
from nmt.models.model_file import ModelCard, read_card
from nmt.models.registry import count_parameters
from nmt.runs.run_folder import RunFolder


class PaperRow(NamedTuple):
    """A row of Table 3 of "Attention Is All You Need", with the paper's own results.

    They are for English to German on newstest2013, without averaging checkpoints.
    """

    row: str
    perplexity: float  # per subword
    bleu: float  # tokenised
    parameters: int = 65
    """In millions. Rows without a number in the table have those of the base model."""


TABLE_3 = {
    "transformer_base": PaperRow("base", 4.92, 25.8),
    "transformer_base_heads1": PaperRow("A", 5.29, 24.9),
    "transformer_base_heads4": PaperRow("A", 5.00, 25.5),
    "transformer_base_heads16": PaperRow("A", 4.91, 25.8),
    "transformer_base_heads32": PaperRow("A", 5.01, 25.4),
    "transformer_base_dk16": PaperRow("B", 5.16, 25.1, 58),
    "transformer_base_dk32": PaperRow("B", 5.01, 25.4, 60),
    "transformer_base_layers2": PaperRow("C", 6.11, 23.7, 36),
    "transformer_base_layers4": PaperRow("C", 5.19, 25.3, 50),
    "transformer_base_layers8": PaperRow("C", 4.88, 25.5, 80),
    "transformer_base_dmodel256": PaperRow("C", 5.75, 24.5, 28),
    "transformer_base_dmodel1024": PaperRow("C", 4.66, 26.0, 168),
    "transformer_base_dff1024": PaperRow("C", 5.12, 25.4, 53),
    "transformer_base_dff4096": PaperRow("C", 4.75, 26.2, 90),
    "transformer_base_dropout0": PaperRow("D", 5.77, 24.6),
    "transformer_base_dropout0.2": PaperRow("D", 4.95, 25.5),
    "transformer_base_smoothing0": PaperRow("D", 4.67, 25.3),
    "transformer_base_smoothing0.2": PaperRow("D", 5.47, 25.7),
    "transformer_base_learned_positions": PaperRow("E", 4.92, 25.7),
    "transformer_big": PaperRow("big", 4.33, 26.4, 213),
}
"""By preset."""

PAPER_FLOPS = {"transformer_base": 3.3e18, "transformer_big": 2.3e19}
"""Training cost in the paper's Table 2, which has only these two."""

SCORES = "score.json"

HEADER = (
    "| row | preset | updates | perplexity | paper | BLEU | tokenised | paper "
    "| parameters | paper | FLOPs by time | FLOPs counted | paper |"
)
ABSENT = "-"


@dataclass(frozen=True)
class Result:
    """The results of a finished run."""

    updates: int
    perplexity: float  # of the last weights on valid, by subword
    bleu: float
    tokenised_bleu: float | None
    """As in the paper: of German with compounds split. None: it was not computed."""
    signature: str
    parameters: int
    flops_by_time: float
    flops_counted: float
    machine: str


def main() -> None:
    """Read the command line, and print the table."""
    parser = argparse.ArgumentParser(description="Print Table 3 in Markdown.")
    parser.add_argument("runs", type=Path, metavar="RUNS", help="folder of a run for each row")
    parser.add_argument("data", type=Path, metavar="DATA", help="the data folder of all of them")
    given = parser.parse_args()
    data = DataFolder.open(given.data)
    lengths = epoch_lengths(data)
    found = {
        preset: read_result(given.runs / preset, lengths)
        for preset in TABLE_3
        if (given.runs / preset / SCORES).exists()
    }
    print(report(found, data))


def epoch_lengths(data: DataFolder) -> list[tuple[float, LengthSums]]:
    """Return the lengths of the pairs that an epoch visits equally often, and how often."""
    found, first = [], 0
    for count, weight in data.train.shares:
        pairs = np.arange(first, first + count)
        found.append((weight, LengthSums.of_pairs(*data.train.lengths(pairs))))
        first += count
    return found


def read_result(run: Path, lengths: Sequence[tuple[float, LengthSums]]) -> Result:
    """Read the results of a run.

    NMTError if something is missing or damaged.
    """
    card = read_card(run / "last.safetensors")
    records = RunFolder(run).metrics()
    last = {record["kind"]: record for record in records}
    if last.get("valid", {}).get("update") != card.update:
        raise NMTError(
            f"{run}: metrics.jsonl has no validation of update {card.update:,}, the last one; "
            "remove the folder and run make again"
        )
    scores = json.loads((run / SCORES).read_text(encoding="utf-8"))
    tokenised = scores.get("bleu-compounds", scores.get("bleu-tokenised"))
    return Result(
        updates=card.update,
        perplexity=last["valid"]["perplexity"],
        bleu=scores["bleu"]["score"],
        tokenised_bleu=tokenised and tokenised["score"],
        signature=scores["bleu"]["signature"],
        parameters=count_parameters(
            card.architecture, card.config, len(card.src_vocabulary), len(card.tgt_vocabulary)
        ),
        flops_by_time=flops_by_time(records),
        flops_counted=flops_counted(card, lengths, last["train"]["epoch"]),
        machine=f"{last['start']['ranks']} x {last['start']['device']}",
    )


def flops_by_time(records: Sequence[Mapping[str, Any]]) -> float:
    """Return the operations that the machine could have done in the time of training.

    It is the estimate of the paper's Table 2: time, times GPUs, times the rate that each sustains.
    For the rate of all together it takes matrix products, measured at each start. Validation and
    saving do not count.

    records: of metrics.jsonl, in their order.
    """
    flops = rate = before = 0.0
    for record in records:
        if record["kind"] == "start":
            rate = record["matrix_product_flops_per_second"]
        elif record["kind"] == "train":
            flops += (record["seconds"] - before) * rate
            before = record["seconds"]
    return flops


def flops_counted(
    card: ModelCard, lengths: Sequence[tuple[float, LengthSums]], epochs: float
) -> float:
    """Return the operations of the model's matrix products on all tokens of these epochs."""
    types = len(card.tgt_vocabulary)
    return epochs * sum(
        weight * training_flops(card.architecture, card.config, types, sums)
        for weight, sums in lengths
    )


def report(results: Mapping[str, Result], data: DataFolder) -> str:
    """Return the table, with a row for each of the paper's, and what its columns are."""
    lines = [HEADER, f"|---|---|{'---:|' * (HEADER.count('|') - 3)}"]
    lines += [_row(preset, results.get(preset)) for preset in TABLE_3]
    signatures = sorted({result.signature for result in results.values()})
    machines = sorted({result.machine for result in results.values()})
    return "\n".join(
        [
            *lines,
            "",
            f"{len(results)} of {len(TABLE_3)} rows, trained on {len(data.train):,} pairs "
            f"({spell_pair(data.info.langs)}); machine: {'; '.join(machines) or ABSENT}.",
            "Perplexity by subword, and BLEU with beam 4, of the last weights on valid "
            f"({len(data.valid):,} lines), nothing averaged; BLEU: "
            f"{'; '.join(signatures) or ABSENT}; tokenised: by Moses, compounds of German split, "
            "as the paper's. The paper's results are on newstest2013, by its own subwords.",
            "FLOPs by time: training time, times what all devices do in matrix products, the "
            "estimate of the paper's Table 2. FLOPs counted: of the model's products on real "
            "tokens.",
        ]
    )


def _row(preset: str, result: Result | None) -> str:
    paper = TABLE_3[preset]
    cost = _power_of_ten(PAPER_FLOPS[preset]) if preset in PAPER_FLOPS else ABSENT
    updates = perplexity = bleu = tokenised = parameters = by_time = counted = ABSENT
    if result is not None:
        updates = f"{result.updates:,}"
        perplexity = f"{result.perplexity:.2f}"
        bleu = f"{result.bleu:.1f}"
        if result.tokenised_bleu is not None:
            tokenised = f"{result.tokenised_bleu:.1f}"
        parameters = f"{result.parameters / 1e6:.1f}M"
        by_time, counted = map(_power_of_ten, (result.flops_by_time, result.flops_counted))
    return (
        f"| {paper.row} | `{preset}` | {updates} | {perplexity} | {paper.perplexity:.2f} "
        f"| {bleu} | {tokenised} | {paper.bleu:.1f} | {parameters} | {paper.parameters}M "
        f"| {by_time} | {counted} | {cost} |"
    )


def _power_of_ten(number: float) -> str:
    """3.28e+18 is 3.3e18."""
    mantissa, exponent = f"{number:.1e}".split("e")
    return f"{mantissa}e{int(exponent)}"


if __name__ == "__main__":
    run(main)
