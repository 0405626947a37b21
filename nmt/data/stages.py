"""Stages: how often training visits each corpus, from one update to another.

A recipe may pretrain on back-translations and then go on with clean text, as OpusTrainer does
(Bogoychev et al. 2023). A stage ends at an update. Its order is that of a run of its own, decided
by (seed, stage, epoch). A recipe without stages is one stage with the weights of the data folder.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from nmt.config.recipes import TrainingStage
from nmt.data.folder import DataFolder, weighted_shares
from nmt.errors import UsageError, did_you_mean

Shares = Sequence[tuple[int, float]]


@dataclass(frozen=True)
class Stages:
    ends: tuple[int, ...]  # the update after which each stage but the last one ends
    shares: tuple[Shares, ...]
    """Of each stage: runs of pairs with the same weight, as (number of pairs, weight)."""
    recipe: tuple[TrainingStage, ...] = ()  # the stages as the recipe has them; (): it has none

    @classmethod
    def of_recipe(cls, data: DataFolder, stages: Sequence[TrainingStage]) -> Stages:
        """Return the stages of a recipe on this data (UsageError)."""
        if not stages:
            return cls((), (data.train.shares,))
        names = corpus_names(data)
        shares = []
        for number, stage in enumerate(stages, 1):
            weights = [corpus.weight for corpus in data.info.train.corpora]
            for name, weight in stage.weights.items():
                if name not in names:
                    raise UsageError(
                        f"stage {number}: no corpus is named {name!r}{did_you_mean(name, names)}; "
                        f"{data.path} has {', '.join(dict.fromkeys(names))}"
                    )
                weights = [
                    weight if corpus == name else own
                    for corpus, own in zip(names, weights, strict=True)
                ]
            shares_of_stage = weighted_shares(data.info, weights)
            if not any(round(count * weight) for count, weight in shares_of_stage):
                raise UsageError(f"stage {number} visits no pair: raise one of its weights")
            shares.append(shares_of_stage)
        ends = accumulate(stage.updates for stage in stages[:-1])
        return cls(tuple(ends), tuple(shares), tuple(stages))

    def at(self, update: int) -> int:
        """Return the stage, from 0, that comes after so many updates."""
        return bisect_right(self.ends, update)

    def end(self, stage: int) -> int | None:
        """Return the update after which a stage ends; None for the last one."""
        return self.ends[stage] if stage < len(self.ends) else None

    def describe(self, stage: int) -> str:
        """Describe a stage of a recipe that has stages, in a line."""
        end = self.end(stage)
        until = f"to update {end:,}" if end else "to the end"
        weights = (f"{name} {weight:g}" for name, weight in self.recipe[stage].weights.items())
        listed = ", ".join(weights) or "the weights of the data"
        return f"stage {stage + 1} of {len(self.recipe)}, {until}: {listed}"


def stage_seed(seed: int, stage: int) -> int:
    """Return the seed of a stage, from 0: another for each, and for the first the run's own."""
    if stage == 0:
        return seed
    return int(np.random.SeedSequence((seed, stage)).generate_state(1, np.uint64)[0])


def corpus_names(data: DataFolder) -> list[str]:
    """Return what a recipe calls each corpus of train.

    This is the end of its prefix, such as `clean` for `text/clean`, or all of the prefix if others
    have the same end. A text that was given twice has the same prefix
    twice, and so one name.
    """
    prefixes = [corpus.prefix for corpus in data.info.train.corpora]
    ends = [prefix.rpartition("/")[2] for prefix in prefixes]
    return [
        end if ends.count(end) == 1 else prefix for prefix, end in zip(prefixes, ends, strict=True)
    ]
