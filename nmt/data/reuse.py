"""Whether a folder that is already there is the one that is asked for."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path

from nmt.data.folder import DataFolder
from nmt.data.manifest import FILE_NAME, DatasetInfo, Settings, SplitRecord
from nmt.data.sources import Sources, SourceText
from nmt.data.vocabulary import Vocabulary
from nmt.errors import DataError, UsageError


def find_folder(out: Path) -> DataFolder | None:
    """Return what an earlier run has made at `out`; UsageError when anything else is there."""
    if not out.exists() or not any(out.iterdir()):
        return None
    if not (out / FILE_NAME).exists():
        raise UsageError(f"{out}: this folder is not empty and not a data folder; choose another")
    try:
        return DataFolder.open(out)
    except DataError as error:
        raise UsageError(
            f"{out} is there and is not used: {error}; remove it, or choose another name"
        ) from None


def check_same(
    folder: DataFolder, settings: Settings, sources: Sources, given: Sequence[Vocabulary]
) -> None:
    """UsageError that names every difference between a folder and what is asked for now."""
    info = folder.info
    differences = [
        *_changed_settings(info.settings, settings),
        *_changed_text(info, sources),
        *_changed_vocabulary(info, given),
    ]
    if differences:
        raise UsageError(
            f"{folder.path} was prepared in another way: {'; '.join(differences)}; remove it, or "
            "choose another name"
        )


def _changed_settings(old: Settings, new: Settings) -> list[str]:
    pairs = [(f.name, getattr(old, f.name), getattr(new, f.name)) for f in fields(Settings)]
    return [f"{name} was {_spell(a)} and is {_spell(b)}" for name, a, b in pairs if a != b]


def _changed_text(info: DatasetInfo, sources: Sources) -> list[str]:
    differences = []
    old_tests = {split.name: split for split in info.tests}
    if list(old_tests) != list(sources.tests):
        names = (_spell(list(old_tests)), _spell(list(sources.tests)))
        differences.append("test was {} and is {}".format(*names))
    splits: list[tuple[SplitRecord, Sequence[SourceText]]] = [
        (info.train, sources.train),
        *([(info.valid, [sources.valid])] if sources.valid else []),
        *((old_tests[name], [text]) for name, text in sources.tests.items() if name in old_tests),
    ]
    for split, texts in splits:
        old = [(corpus.src.sha256, corpus.tgt.sha256) for corpus in split.corpora]
        new = [tuple(file.sha256 for file in text.records) for text in texts]
        if old != new:
            was = _spell([corpus.prefix for corpus in split.corpora])
            now = _spell([text.text.prefix for text in texts])
            differences.append(f"the text of {split.name} was {was} and is {now}, not the same")
            continue
        for corpus, text in zip(split.corpora, texts, strict=True):
            if corpus.weight != text.weight:
                differences.append(
                    f"the weight of {corpus.prefix} was {corpus.weight:g} and is {text.weight:g}"
                )
            if corpus.tag != text.tag:
                differences.append(
                    f"the tag of {corpus.prefix} was {_spell(corpus.tag)} and is {_spell(text.tag)}"
                )
    return differences


def _changed_vocabulary(info: DatasetInfo, given: Sequence[Vocabulary]) -> list[str]:
    if info.vocabulary.given != bool(given):
        was, now = ("given" if is_given else "learnt" for is_given in (not given, bool(given)))
        return [f"the vocabulary was {was} and is {now}"]
    checksums = [hashlib.sha256(vocabulary.model).hexdigest() for vocabulary in given]
    if given and checksums != [file.sha256 for file in info.vocabulary.files]:
        return ["the vocabulary was another one"]
    return []


def _spell(value: str | float | Iterable[str]) -> str:
    if isinstance(value, int | float):
        return str(value)
    return value or "none" if isinstance(value, str) else ", ".join(value) or "none"
