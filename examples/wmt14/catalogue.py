"""The catalogue, `wmt14.toml`: which archives there are, and which parallel texts they hold.

A folder of archives may have a catalogue of its own: make is given its CATALOGUE.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt.errors import DataError, UsageError, did_you_mean

FILE_NAME = "wmt14.toml"
ALGORITHMS = ("sha256", "md5")
"""Checksums that may have been published, the better first."""


@dataclass(frozen=True)
class Archive:
    """A file that is to be fetched."""

    name: str
    addresses: tuple[str, ...]
    size: int | None
    """In bytes; None: not published."""
    checksums: dict[str, str]
    """Published ones: algorithm to hexadecimal digits."""
    source: str
    """Who published size and checksums."""


@dataclass(frozen=True)
class ParallelText:
    """Two members of an archive that are translations of each other, line by line."""

    name: str
    archive: str
    members: dict[str, str]
    """Language to the member's name: of plain text, SGML (.sgm), or compressed text (.gz)."""
    lines: int
    """How many either side has."""


@dataclass(frozen=True)
class Catalogue:
    """All of `wmt14.toml`."""

    path: Path
    archives: dict[str, Archive]
    texts: dict[str, dict[str, ParallelText]]
    """By pair of languages, such as en-de, and name."""

    def archive(self, name: str) -> Archive:
        """Return an archive by its name; UsageError if there is none."""
        if name not in self.archives:
            raise UsageError(
                f"{self.path} has no archive {name}{did_you_mean(name, self.archives)}"
            )
        return self.archives[name]

    def text(self, pair: str, name: str) -> ParallelText:
        """Return a text by its name; UsageError if a pair of languages has none."""
        texts = self.texts.get(pair, {})
        if name not in texts:
            raise UsageError(f"{self.path} has no {pair} text {name}{did_you_mean(name, texts)}")
        return texts[name]


def read_catalogue(path: Path) -> Catalogue:
    """Read a catalogue; DataError if it is not one."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        archives = {name: _archive(name, entry) for name, entry in content["archives"].items()}
        texts: dict[str, dict[str, ParallelText]] = {}
        for name, entry in content["texts"].items():
            for pair, of_pair in entry.items():
                texts.setdefault(pair, {})[name] = _text(name, pair, of_pair)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise DataError(f"{path}: no catalogue of archives and texts: {error!r}") from None
    return Catalogue(path, archives, texts)


def _archive(name: str, entry: dict[str, Any]) -> Archive:
    return Archive(
        name=name,
        addresses=tuple(entry["addresses"]),
        size=entry.get("size"),
        checksums={key: entry[key] for key in ALGORITHMS if key in entry},
        source=entry.get("source", ""),
    )


def _text(name: str, pair: str, entry: dict[str, Any]) -> ParallelText:
    return ParallelText(
        name=name,
        archive=entry["archive"],
        members={language: entry[language] for language in pair.split("-")},
        lines=entry["lines"],
    )
