"""Folders that other toolkits wrote: how tests change them, and import them.

`{toolkit}/{model}` in tests/interchange/importers holds what toolkits trained.
"""

import argparse
import json
import operator
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import yaml
from command_line import Answer, Nmt
from safetensors.torch import load_file, save_file

from nmt.config.model_config import TransformerConfig
from nmt.models.model_file import read_card

FOLDERS = Path(__file__).parents[1] / "interchange" / "importers"
LANGS = ("--src", "en", "--tgt", "de")
CODES = FOLDERS / "fairseq" / "post" / "codes.bpe"
BY_CODES: tuple[str | Path, ...] = ("--vocab", CODES, "--moses-tokenize")
SEGMENTERS = tuple(FOLDERS / "fairseq" / "pre" / f"spm.{lang}.model" for lang in ("en", "de"))
BY_PIECES: tuple[str | Path, ...] = ("--vocab", SEGMENTERS[0], "--vocab", SEGMENTERS[1])
Words = Iterable[str | Path]

Change = Callable[[Any], object]
"""Changes what a file holds."""

Spoil = Callable[[Path], object]
"""Changes a folder."""


def _load_checkpoint(path: Path) -> Any:
    with torch.serialization.safe_globals([argparse.Namespace]):
        return torch.load(path, weights_only=True)


FORMS: dict[str, tuple[Callable[[Path], Any], Callable[[Any, Path], object]]] = {
    ".json": (
        lambda path: json.loads(path.read_text("utf-8")),
        lambda values, path: path.write_text(json.dumps(values)),
    ),
    ".yaml": (
        lambda path: yaml.safe_load(path.read_text()),
        lambda values, path: path.write_text(yaml.safe_dump(values)),
    ),
    ".npz": (lambda path: dict(np.load(path)), lambda arrays, path: np.savez(path, **arrays)),
    ".safetensors": (load_file, save_file),
}
"""How files are read and written, by their suffixes. Others are checkpoints of torch."""


def edited(name: str, change: Change) -> Spoil:
    """Change what a file holds, which is an empty dictionary if the folder lacks it."""

    def spoil(folder: Path) -> None:
        path = folder / name
        read, write = FORMS.get(path.suffix, (_load_checkpoint, torch.save))
        content = read(path) if path.exists() else {}
        change(content)
        write(content, path)

    return spoil


def _inner(content: Any, keys: Iterable[str]) -> Any:
    for key in keys:
        content = content[key]
        content = vars(content) if isinstance(content, argparse.Namespace) else content
    return content


def put(name: str, value: object, *keys: str) -> Spoil:
    """Set a value of a file: that of the last key, in the dictionary under those before it."""
    return edited(name, lambda own: operator.setitem(_inner(own, keys[:-1]), keys[-1], value))


def taken(name: str, *keys: str) -> Spoil:
    """Leave out a value of a file."""
    return edited(name, lambda content: _inner(content, keys[:-1]).pop(keys[-1]))


def with_values(name: str, **values: Any) -> Spoil:
    """Set values of a file."""
    return edited(name, lambda content: content.update(values))


def changed(name: str, change: Callable[[bytes], bytes]) -> Spoil:
    return lambda folder: (folder / name).write_bytes(change((folder / name).read_bytes()))


def replaced(name: str, content: bytes) -> Spoil:
    return lambda folder: (folder / name).write_bytes(content)


def renamed(name: str, other: str) -> Spoil:
    return lambda folder: (folder / name).rename(folder / other)


def copied(path: Path, name: str = "") -> Spoil:
    """Put a copy of a file into the folder."""
    return lambda folder: shutil.copy(path, folder / name)


def without(name: str) -> Spoil:
    return lambda folder: (folder / name).unlink()


def config_of(model: Path) -> TransformerConfig:
    """Return the values of an imported Transformer."""
    config = read_card(model).config
    assert isinstance(config, TransformerConfig)
    return config


class Importer(NamedTuple):
    """Imports folders `{toolkit}/{model}` into files of their own; changes copies of them."""

    nmt: Nmt
    tmp_path: Path

    def copy(self, folder: Path, *spoils: Spoil) -> Path:
        """Return a copy of a folder, changed."""
        place = Path(tempfile.mkdtemp(dir=self.tmp_path)) / folder.parent.name
        copy = shutil.copytree(folder, place / folder.name)
        for spoil in spoils:
            spoil(copy)
        return copy

    def _run(self, folder: Path, spoils: Iterable[Spoil], words: Words) -> tuple[Path, Answer]:
        out = Path(tempfile.mkdtemp(dir=self.tmp_path)) / "model.safetensors"
        form = folder.parent.name.replace("_", "-")
        folder = self.copy(folder, *spoils) if spoils else folder
        return out, self.nmt("import", form, folder, out, *words)

    def answer(self, folder: Path, *spoils: Spoil, words: Words = LANGS) -> Answer:
        """Import a folder after these changes, and return what the command says."""
        return self._run(folder, spoils, words)[1].succeeded()

    def model(self, folder: Path, *spoils: Spoil, words: Words = LANGS) -> Path:
        """Import a folder after these changes, and return the model."""
        out, answer = self._run(folder, spoils, words)
        answer.succeeded()
        return out

    def refusal(self, status: int, folder: Path, *spoils: Spoil, words: Words = LANGS) -> str:
        """Return the line that refuses a folder after these changes."""
        out, answer = self._run(folder, spoils, words)
        assert not out.exists()
        return answer.refusal(status)
