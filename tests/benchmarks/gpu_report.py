"""The report of `make gpu`: its rows and their goals, and what was found."""

import json
import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from benchmarks.harness import table
from benchmarks.machine import describe

from nmt.system.files import write_text

CTRANSLATE2 = "CTranslate2"
LITTLE_WORK = "base, nmt, a tenth of the tokens"

GOALS: dict[str, dict[str, str]] = {
    "smoke": {"versions": "", "smoke tests": "none fails"},
    "tests": {"GPU tests": "none fails"},
    "train": {
        "products": "",
        "base, nmt compiled": "at most 26 ms, or 45 % of products",
        "big, nmt compiled": "55 % of products",
        "base, nmt": "",
        LITTLE_WORK: "",
        "big, nmt": "",
        "modern, nmt compiled": "",
        "modern, nmt": "",
    },
    "translate": {"nmt": "", CTRANSLATE2: "nmt is faster"},
}
"""The rows of the report by part, and their goals. The parts are in the order of their worth."""


@dataclass(frozen=True)
class Report:
    """What was found, in a folder; complete after each result."""

    folder: Path

    @cached_property
    def _found(self) -> dict[str, dict[str, Any]]:
        path = self.folder / "results.json"
        found: dict[str, dict[str, Any]] = json.loads(path.read_text()) if path.exists() else {}
        return found

    def forget(self, part: str) -> None:
        """Forget what an earlier run of a part has found."""
        for what in [part, *GOALS[part]]:
            self._found.pop(what, None)
        self._write()

    def add(self, what: str, found: str, *, met: bool | None = None) -> None:
        """Add a result; `met`: whether it meets its goal, if it has one."""
        print(f"{what}: {found}", flush=True)
        self._found[what] = {"found": found, "met": met}
        self._write()

    def _write(self) -> None:
        write_text(self.folder / "results.json", json.dumps(self._found, indent=1))
        write_text(self.folder / "report.md", self.text())

    @contextmanager
    def attempt(self, what: str) -> Iterator[None]:
        """Report what goes wrong in the block, and go on."""
        try:
            yield
        except Exception as error:
            traceback.print_exc()
            lines = str(error).strip().splitlines() or [""]
            errors = [line for line in lines if re.match(r"[\w.]*Error\b|nmt: error", line)]
            said = (errors or lines)[-1][:200]
            self.add(what, f"failed: {type(error).__name__}: {said}", met=False)

    def text(self) -> str:
        """Return the report, with a row for each goal."""
        words = {True: "met", False: "missed", None: ""}
        rows = []
        for part, goals in GOALS.items():
            for what, goal in goals.items():
                found = self._found.get(what, {"found": "not measured", "met": None})
                met = words[found["met"]]
                row = {"part": part, "what": what, "goal": goal, "": met, "found": found["found"]}
                rows.append(row)
        parts = [f"{part}: {self._found[part]['found']}" for part in GOALS if part in self._found]
        lines = "\n".join(f"- {one}" for one in [describe(), *parts])
        return f"{lines}\n\n{table(rows)}\n"
