"""The text files of every split, found and fingerprinted before anything is read for good."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nmt import console
from nmt.data.corpus import ParallelText
from nmt.data.manifest import FileRecord
from nmt.files import sha256_file


@dataclass(frozen=True)
class Sources:
    """The texts of every split, with the size and SHA-256 of their files."""

    train: tuple[ParallelText, ...]
    valid: ParallelText
    tests: Mapping[str, ParallelText]
    """By the name of the split: `test-` and the last part of the prefix."""
    records: Mapping[ParallelText, tuple[FileRecord, FileRecord]]

    @classmethod
    def find(
        cls, train: Sequence[str], valid: str, test: Sequence[str], *, langs: tuple[str, str]
    ) -> Sources:
        """Find the files of all prefixes; DataError names the one that is not there."""
        train_texts = tuple(ParallelText.find(prefix, *langs) for prefix in train)
        valid_text = ParallelText.find(valid, *langs)
        tests: dict[str, ParallelText] = {}
        for prefix in test:
            # a/test and b/test become test-test and test-test+2.
            name = f"test-{Path(prefix).name}"
            number = 2
            while name in tests:
                name = f"test-{Path(prefix).name}+{number}"
                number += 1
            tests[name] = ParallelText.find(prefix, *langs)
        texts = (*train_texts, valid_text, *tests.values())
        records = {}
        with console.progress("Checksums", total=len(texts), unit="texts") as bar:
            for text in texts:
                records[text] = (record_file(text.src), record_file(text.tgt))
                bar.update(1)
        return cls(train_texts, valid_text, tests, records)


def record_file(path: Path) -> FileRecord:
    """Return name, size and SHA-256 of a file."""
    return FileRecord(path.name, path.stat().st_size, sha256_file(path))
