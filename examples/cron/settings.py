"""The settings of `translate_incoming.py`, and the folders that it works in."""

from __future__ import annotations

import dataclasses
import os
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from nmt.errors import UsageError, did_you_mean
from nmt.jobs.deadline import seconds_until

FOLDERS = ("incoming", "working", "outgoing", "done", "failed", "log")
OUR_OPTIONS = frozenset("--input --output --lock --deadline --quiet --help --help-all -h".split())


@dataclass(frozen=True)
class Config:
    """The settings in the configuration file."""

    folder: Path
    model: Path
    options: list[str] = field(default_factory=list)  # of `nmt translate`
    settle_seconds: int = 60  # a file is taken when nobody has written to it for so long
    max_attempts: int = 3  # at a file, before it is given up
    deadline: str = ""  # HH:MM
    log_bytes: int = 1_000_000
    log_generations: int = 4

    @classmethod
    def read(cls, path: Path) -> Config:
        """Read and check the file; UsageError names everything that is wrong with it."""
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}") from None
        except ValueError as error:  # not TOML, or not UTF-8
            raise UsageError(f"{path}: {error}") from None
        known = {spec.name: spec.type for spec in dataclasses.fields(cls)}
        wrong = [
            f"{key} is unknown{did_you_mean(key, known)}" for key in values if key not in known
        ]
        wrong += [f"{key} is missing" for key in ("folder", "model") if key not in values]
        wrong += [
            f"{key} = {value!r} is not a {what}"
            for key, value in values.items()
            if (what := _unlike(str(known.get(key)), value))
        ]
        if wrong:
            raise UsageError(f"{path}: {'; '.join(wrong)}")
        for key in ("folder", "model"):
            values[key] = (path.parent / values[key]).resolve()
        config = cls(**values)
        if wrong := list(config._problems()):
            raise UsageError(f"{path}: {'; '.join(wrong)}")
        return config

    def _problems(self) -> Iterator[str]:
        if not self.folder.is_dir():
            yield f"folder: {self.folder}: no such folder"
        if not self.model.exists():
            yield f"model: {self.model}: no such file or folder"
        for option in self.options:
            if (name := option.partition("=")[0]) in OUR_OPTIONS:
                yield f"options: {name} is not for you to set"
        for key in ("max_attempts", "log_bytes", "log_generations"):  # with 0, a log has no end
            if getattr(self, key) < 1:
                yield f"{key} must be 1 or more"
        if self.deadline:
            try:
                seconds_until(self.deadline, datetime.now())
            except UsageError as error:
                yield str(error)

    def __getitem__(self, name: str) -> Path:
        """Return one of the `FOLDERS`."""
        return self.folder / name

    @property
    def log_file(self) -> Path:
        return self["log"] / "translate.log"

    def make_folders(self) -> None:
        """Make the missing folders; UsageError if one cannot be used."""
        for folder in (self[name] for name in FOLDERS):
            try:
                folder.mkdir(exist_ok=True)
            except FileExistsError:
                raise UsageError(f"{folder}: is not a folder; move it away") from None
            if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
                raise UsageError(f"{folder}: this user cannot read and write it")
        for name in FOLDERS[:-1]:
            if self[name].stat().st_dev != self["working"].stat().st_dev:
                raise UsageError(
                    f"{self[name]}: is on another file system than working, so files cannot be "
                    "renamed; keep all folders on one"
                )


def _unlike(kind: str, value: object) -> str:
    """Return what a value of the configuration should be, or an empty string if it is that."""
    if kind == "int":
        is_right = isinstance(value, int) and not isinstance(value, bool) and value >= 0
        return "" if is_right else "number from 0"
    if kind == "list[str]":
        is_right = isinstance(value, list) and all(isinstance(word, str) for word in value)
        return "" if is_right else "list of strings"
    return "" if isinstance(value, str) or kind == "None" else "string"
