#!/usr/bin/env python3
"""Print what there is of Table 3 in Markdown: each run's figures beside the paper's.

    python results.py RUNS DATA

RUNS holds a run folder for each row, named after its preset, with BLEU in score.json.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nmt.cli.command import run
from nmt.data.batches import LengthSums
from nmt.data.folder import DataFolder
from nmt.errors import DataError, NMTError
from nmt.models.flops import training_flops
from nmt.models.model_file import ModelCard, ModelReader
from nmt.models.presets import TABLE_3
from nmt.models.registry import count_parameters
from nmt.runs.run_folder import RunFolder

PAPER_FLOPS = {"transformer_base": 3.3e18, "transformer_big": 2.3e19}
"""Training cost in the paper's Table 2, which has that of these two alone."""

SCORES = "score.json"

COLUMNS = (
    *("row", "preset", "updates", "perplexity", "paper", "BLEU", "tokenised", "paper"),
    *("parameters", "paper", "FLOPs by time", "FLOPs counted", "paper"),
)
ABSENT = "-"


@dataclass(frozen=True)
class Result:
    """What a finished run came to."""

    updates: int
    perplexity: float  # of the last weights on valid, by subword
    bleu: float
    tokenised_bleu: float | None
    """As the paper computed it: of German with compounds split. None: it was not asked for."""
    signature: str
    parameters: int
    flops_by_time: float
    flops_counted: float
    machine: str


def main() -> None:
    """Read the command line, and print the table."""
    parser = argparse.ArgumentParser(description="Print what there is of Table 3, in Markdown.")
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
    """Return how often an epoch visits some pairs, and their lengths, of all pairs."""
    found, first = [], 0
    for count, weight in data.train.shares:
        pairs = np.arange(first, first + count)
        found.append((weight, LengthSums.of(*data.train.lengths(pairs))))
        first += count
    return found


def read_result(run: Path, lengths: Sequence[tuple[float, LengthSums]]) -> Result:
    """Read what a run has left; NMTError says what is missing or damaged."""
    card = ModelReader(run / "last.safetensors").card
    records = RunFolder(run).metrics()
    last = {record["kind"]: record for record in records}
    valid, train, start = (last.get(kind) for kind in ("valid", "train", "start"))
    if valid is None or train is None or start is None or valid["update"] != card.update:
        raise NMTError(
            f"{run}: metrics.jsonl has no validation of update {card.update:,}, the last one; "
            "remove the folder and run make again"
        )
    bleu, tokenised, signature = read_scores(run / SCORES)
    return Result(
        updates=card.update,
        perplexity=valid["perplexity"],
        bleu=bleu,
        tokenised_bleu=tokenised,
        signature=signature,
        parameters=count_parameters(
            card.architecture, card.config, len(card.src_vocabulary), len(card.tgt_vocabulary)
        ),
        flops_by_time=flops_by_time(records),
        flops_counted=flops_counted(card, lengths, train["epoch"]),
        machine=f"{start['ranks']} x {start['device']}",
    )


def read_scores(path: Path) -> tuple[float, float | None, str]:
    """Return BLEU, that of tokenised text if it is there, and the signature of the first.

    Raises:
        DataError: the file is not what `nmt score --json` writes.
    """
    try:
        scores = json.loads(path.read_text(encoding="utf-8"))
        bleu = scores["bleu"]
        tokenised = scores.get("bleu-compounds", scores.get("bleu-tokenised"))
        return (
            bleu["score"],
            None if tokenised is None else tokenised["score"],
            bleu["signature"],
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        raise DataError(
            f"{path}: not what nmt score --json writes; remove it and run make again"
        ) from None


def flops_by_time(records: Sequence[Mapping[str, Any]]) -> float:
    """Return what the machine could have done in the time that training took.

    It is the estimate of the paper's Table 2: time, times GPUs, times what each of them sustains.
    Here the latter two are the rate of matrix products that was measured on all of them together
    at each start. Validation and saving do not count.

    Args:
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
    """Return the operations of the model's matrix products on all tokens of so many epochs."""
    types = len(card.tgt_vocabulary)
    return epochs * sum(
        weight * training_flops(card.architecture, card.config, types, sums)
        for weight, sums in lengths
    )


def report(results: Mapping[str, Result], data: DataFolder) -> str:
    """Return the table, a row for each of the paper's, and what its figures are."""
    lines = [f"| {' | '.join(COLUMNS)} |", f"|---|---|{'---:|' * (len(COLUMNS) - 2)}"]
    lines += [f"| {' | '.join(_cells(preset, results.get(preset)))} |" for preset in TABLE_3]
    signatures = sorted({result.signature for result in results.values()})
    machines = sorted({result.machine for result in results.values()})
    return "\n".join(
        [
            *lines,
            "",
            f"{len(results)} of {len(TABLE_3)} rows, trained on {len(data.train):,} pairs "
            f"({data.src_lang}-{data.tgt_lang}); machine: {'; '.join(machines) or ABSENT}.",
            "Perplexity by subword, and BLEU with beam 4, of the last weights on valid "
            f"({len(data.valid):,} lines), nothing averaged; BLEU: "
            f"{'; '.join(signatures) or ABSENT}; tokenised: by Moses, compounds of German split, "
            "as the paper's. The paper's figures are on newstest2013, by its own subwords.",
            "FLOPs by time: training time, times what all devices do in matrix products, the "
            "estimate of the paper's Table 2. FLOPs counted: of the model's products on real "
            "tokens.",
        ]
    )


def _cells(preset: str, result: Result | None) -> list[str]:
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
    return [
        *(paper.row, f"`{preset}`", updates),
        *(perplexity, f"{paper.perplexity:.2f}"),
        *(bleu, tokenised, f"{paper.bleu:.1f}"),
        *(parameters, f"{paper.parameters}M"),
        *(by_time, counted, cost),
    ]


def _power_of_ten(number: float) -> str:
    """3.28e+18 is 3.3e18."""
    mantissa, exponent = f"{number:.1e}".split("e")
    return f"{mantissa}e{int(exponent)}"


if __name__ == "__main__":
    run(main)
