"""What the ranks of a run leave for each other in torchrun's store: signs of life, and last words.

The store outlives the processes if torchrun starts them again.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Any

from nmt.errors import NMTError, Stopped

OVER = "over"
"""The last sign of life of a process that ends in an orderly way."""
EXIT_REASON = "exit reason"  # of the first rank that leaves
BEAT = "beat/"  # signs of life, by rank
ASKED = "nmt was asked to stop"
AGAIN = "run the same command again to go on from the last save"


class RankStopped(Stopped):
    """Another process of the run has been stopped at once."""


class RankLost(NMTError):
    """Another process of the run has failed."""

    def __init__(self, what: str, ranks: list[int]) -> None:
        """Say what has become of which ranks."""
        self.what = what
        self.ranks = ranks
        super().__init__(f"{what}; {AGAIN}")


@dataclass
class RankStore:
    """What this process knows of the others, once they have met."""

    lasting: Any
    """torchrun's store, where all starts of one launch meet."""
    store: Any
    """The part of it that is of this start."""
    machines: list[str] = field(default_factory=list)
    """Of each rank, which torchrun has started it."""
    siblings: dict[int, int] = field(default_factory=dict)
    """The other ranks of the same torchrun, and their processes."""
    operations: int = 0
    """How many operations between ranks this one has begun."""

    def beats(self, world_size: int) -> list[str]:
        """Return each rank's last sign of life; publish siblings that are gone."""
        # Whoever ends in an orderly way says so before its process ends.
        ended = [rank for rank, process in self.siblings.items() if not _exists(process)]
        keys = [f"{BEAT}{rank}" for rank in range(world_size)]
        beats = [beat.decode() for beat in self.store.multi_get(keys)]
        for rank in ended:
            if beats[rank] != OVER:
                self.publish_exit_reason([rank], "lost", gone([rank]))
        return beats

    def ask_to_stop(self, reason: str) -> None:
        """Let all later starts of this launch end at once."""
        self.lasting.set(ASKED, reason)

    def publish_exit_reason(self, ranks: list[int], status: str, reason: str) -> None:
        """Tell the others that ranks are stopped or lost; the first to be published stands."""
        self.store.compare_set(EXIT_REASON, "", json.dumps([ranks, status, reason]))

    def exit_reason(self) -> RankLost | RankStopped | None:
        """Return what has become of another rank, if that is published."""
        if not self.store.check([EXIT_REASON]):
            return None
        ranks, status, reason = json.loads(self.store.get(EXIT_REASON).decode())
        if status == "stopped":
            return RankStopped(f"rank {ranks[0]} was stopped ({reason}); {AGAIN}")
        return RankLost(reason, ranks)


def _exists(process: int) -> bool:
    """Tell whether there is such a process."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def gone(ranks: list[int]) -> str:
    """Say that ranks are gone."""
    return f"rank {', '.join(map(str, ranks))} is gone without a word"
