"""The ranks of a run leave signs of life in their store, and end if another has left none for long.

An operation between ranks waits for one that hangs, or whose machine is gone, without an end: a
cable that is pulled closes no connection. So a thread of each rank leaves a sign every ten seconds,
also while the rank checks or saves for long, and reads those of the others. Another thread counts.
It counts what it has missed while it was awake itself: all may sleep, as with a laptop, and go on.

If the store is silent, its machine is gone. Then the first thread waits inside the store, for up to
a quarter of an hour, so that the second one uses no store.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

EVERY = 10.0  # seconds between two signs
_MOST_MISSED = 18  # of these times
_LEFT = b"left"
"""In place of a sign: this rank ends by itself, and needs no others."""


class SignsOfLife:
    """The signs of all ranks, as one of them sees them."""

    def __init__(self, store: Any, rank: int, places: Sequence[str]) -> None:
        """Leave no sign yet.

        store: a client of its own, for one thread.
        places: where each rank is, in words.
        """
        self._store, self._rank, self._places = store, rank, places
        self._keys = [f"sign of {place}" for place in places]
        self._read = self._counted = [b""] * len(places)
        self._missed = [0] * len(places)
        self._ended = threading.Event()

    def watch(self, end_run: Callable[[str], object]) -> None:
        """Watch until `end`; `end_run` is called from a thread with the reason if one is lost."""
        self._exchanging = threading.Thread(target=self._exchange_on, daemon=True)
        self._exchanging.start()
        threading.Thread(target=self._judge_on, args=(end_run,), daemon=True).start()

    def end(self) -> None:
        """Tell the others not to wait for signs, if the store still answers."""
        self._ended.set()
        self._exchanging.join(timeout=2.0)

    def exchange(self, sign: int) -> None:
        """Leave a sign and read those of all ranks."""
        self._store.set(self._keys[self._rank], str(sign))
        self._read = self._store.multi_get(self._keys)

    def lost(self) -> str:
        """Count once more; return who is lost: ranks, or the machine of the store."""
        read = self._read
        for rank, (sign, before) in enumerate(zip(read, self._counted, strict=True)):
            self._missed[rank] = 0 if sign != before or sign == _LEFT else self._missed[rank] + 1
        self._counted = read
        counts = zip(self._places, self._missed, strict=True)
        silent = [place for place, missed in counts if missed >= _MOST_MISSED]
        # Of a store that is gone, the last that was read is not equally old for all ranks.
        if silent and self._missed[self._rank] > 2:
            return f"{os.environ.get('MASTER_ADDR')}, where the processes meet"
        return ", ".join(silent)

    def _exchange_on(self) -> None:
        with contextlib.suppress(RuntimeError):  # then `lost` notices
            for sign in itertools.count():
                self.exchange(sign)
                if self._ended.wait(EVERY):
                    break
            self._store.set(self._keys[self._rank], _LEFT)

    def _judge_on(self, end_run: Callable[[str], object]) -> None:
        while not self._ended.wait(EVERY):
            if lost := self.lost():
                end_run(f"no sign of life for 3 minutes from {lost}")
